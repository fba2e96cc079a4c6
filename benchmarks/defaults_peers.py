"""The peers of the benchmark of the defaults, their predictions kept by content.

scikit-learn's `Nystroem` with 100 components before SGD, plain and tuned; River's logistic (or
linear) regression, passive-aggressive learner, Hoeffding tree and adaptive random forest (ten
trees); the commonest label and the label of the row before. `prequential_peers` says how they are
run. A forest takes milliseconds a row, so what a peer said of a stream is kept under
build/benchmarks/peers, by the rows' and labels' bytes, the method and its library's version; µs a
row are those of the run that was kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any

import numpy as np
from river import forest

from benchmarks import prequential_peers as peers
from benchmarks.places import BUILD
from benchmarks.prequential_ours import bandwidth
from benchmarks.prequential_peers import COMMONEST, LAST, Run
from benchmarks.prequential_sets import Stream

COMPONENTS = 100
FOREST = "River adaptive random forest"
SCIKIT = (peers.SGD, peers.SGD_TUNED)
RIVER = (peers.RIVER, peers.RIVER_PA, peers.RIVER_TREE)
PEERS = (*SCIKIT, *RIVER, FOREST, COMMONEST, LAST)
FOLDER = BUILD / "peers"


def _forest(stream: Stream) -> Run:
    kind = forest.ARFClassifier if stream.classes else forest.ARFRegressor
    return peers.row_by_row(FOREST, kind(seed=0), stream)


def _place(stream: Stream, method: str) -> Any:
    hashed = hashlib.sha256(f"{method} {COMPONENTS} {version('river')}".encode())
    hashed.update(version("scikit-learn").encode())
    for array in (stream.rows, stream.target):
        hashed.update(np.ascontiguousarray(array).tobytes())
    return FOLDER / f"{hashed.hexdigest()[:24]}.npz"


def _kept(
    stream: Stream, methods: tuple[str, ...], run: Callable[[], Iterator[Run]]
) -> Iterator[Run]:
    """Yield the methods' runs, from where they are kept if all are."""
    places = {method: _place(stream, method) for method in methods}
    if not all(place.exists() for place in places.values()):
        FOLDER.mkdir(parents=True, exist_ok=True)
        for made in run():
            target = places[made.method].with_suffix(".part.npz")
            np.savez_compressed(target, predicted=made.predicted, micros=made.micros)
            target.replace(places[made.method])
    for method, place in places.items():
        with np.load(place) as arrays:
            yield Run(method, arrays["predicted"], float(arrays["micros"]))


def run_peers(stream: Stream, seed: int, with_forest: bool = True) -> Iterator[Run]:
    """Yield what every peer said of a stream."""
    yield from _kept(
        stream, SCIKIT, lambda: peers.nystroem_sgd(stream, COMPONENTS, bandwidth(stream), seed)
    )
    yield from _kept(stream, RIVER, lambda: peers.river(stream))
    if with_forest:
        yield from _kept(stream, (FOREST,), lambda: iter([_forest(stream)]))
    yield from peers.without_learning(stream)
