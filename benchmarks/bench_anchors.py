"""CapyMOA's ensembles on the streams of the benchmark of the defaults, kept in `anchors.json`.

    python -m venv build/capymoa
    build/capymoa/bin/pip install 'capymoa>=0.15,<1' lazy_loader pyarrow safetensors
    PYTHONPATH=. build/capymoa/bin/python -m benchmarks.bench_anchors
        [--sets watch ...] [--methods srp ...] [--orders own shuffled] [--seeds 1]

Streaming random patches and adaptive random forest of 100 trees and a 10-nearest-neighbour vote of
the last 1,000 rows, each row predicted, then learned, on rows scaled as all peers have them. They
take milliseconds a row, so what came of a stream is kept, by its rows and labels, and
`bench_defaults` reads it; a stream that is there is not run again. CapyMOA wants Java 17 and other
versions of NumPy and pandas than `requirements.lock` has: an environment of its own, no extra.

Reference: H. M. Gomes, J. Read, A. Bifet, "Streaming random patches for evolving data stream
classification", ICDM 2019 (the anchor); H. M. Gomes et al., "Adaptive random forests for evolving
data stream classification", Machine Learning 106, 2017.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.defaults_sets import ORDERS, OWN, SETS, ordered, whole
from benchmarks.prequential_sets import Stream, score
from kerneltrack.arrays import IntArray

KEPT = Path(__file__).with_name("anchors.json")
SRP, ARF, KNN = "CapyMOA SRP, 100 trees", "CapyMOA ARF, 100 trees", "CapyMOA kNN of 1,000 rows"
METHODS = {"srp": SRP, "arf": ARF, "knn": KNN}
TREES, NEIGHBOURS, WINDOW = 100, 10, 1000


class Anchor(NamedTuple):
    """What a method made of a stream: its merit, and µs of processor time a row."""

    method: str
    merit: float
    micros: float


def digest_of(stream: Stream) -> str:
    """Return a name of a stream's rows and labels."""
    hashed = hashlib.sha256()
    for array in (stream.rows, stream.target):
        hashed.update(np.ascontiguousarray(array).tobytes())
    return hashed.hexdigest()[:16]


def kept() -> dict[str, dict[str, Any]]:
    """Return what is known of each stream, by its digest."""
    found: dict[str, dict[str, Any]] = json.loads(KEPT.read_text("utf-8"))
    return found


def anchors_of(stream: Stream) -> Iterator[Anchor]:
    """Yield what is known of a stream."""
    for method, (merit, micros) in kept().get(digest_of(stream), {}).get("methods", {}).items():
        yield Anchor(METHODS[method], merit, micros)


def run(method: str, stream: Stream) -> Anchor:
    """Let a method of CapyMOA go through a stream, each row predicted, then learned."""
    from capymoa import classifier  # type: ignore[import-not-found]  # noqa: PLC0415
    from capymoa.stream import NumpyStream  # type: ignore[import-not-found]  # noqa: PLC0415

    rows = NumpyStream(stream.scaled, stream.target, target_type="categorical")
    schema = rows.get_schema()
    makers = {
        "srp": lambda: classifier.StreamingRandomPatches(schema, ensemble_size=TREES),
        "arf": lambda: classifier.AdaptiveRandomForestClassifier(schema, ensemble_size=TREES),
        "knn": lambda: classifier.KNN(schema, k=NEIGHBOURS, window_size=WINDOW),
    }
    model, predictions = makers[method](), []
    begin = time.process_time()
    while rows.has_more_instances():
        row = rows.next_instance()
        code = model.predict(row)
        predictions.append(-1 if code is None else code)
        model.train(row)
    micros = (time.process_time() - begin) / len(predictions) * 1e6
    predicted: IntArray = np.array(predictions, dtype=np.int64)
    return Anchor(METHODS[method], score(stream, predicted).merit, micros)


def keep(stream: Stream, title: str, method: str, anchor: Anchor) -> None:
    """Write a result beside the others."""
    found = kept() if KEPT.exists() else {}
    here = found.setdefault(digest_of(stream), {"stream": title, "methods": {}})
    here["methods"][method] = [round(anchor.merit, 5), round(anchor.micros, 1)]
    ordered_by_title = dict(sorted(found.items(), key=lambda item: str(item[1]["stream"])))
    KEPT.write_text(json.dumps(ordered_by_title, indent=1) + "\n", "utf-8")


def main() -> None:
    """Run what is not known yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--orders", nargs="+", choices=ORDERS, default=list(ORDERS))
    parser.add_argument("--rows", type=int, default=10_000, help="most rows of a stream")
    parser.add_argument("--seeds", type=int, default=1, help="shuffled orders of each set")
    options = parser.parse_args()
    for name in options.sets:
        rows = whole(name)
        for order in options.orders if rows.classes else ():
            for seed in range(1 if order == OWN else options.seeds):
                stream = ordered(rows, order, seed, options.rows)
                title = f"{name}, {order} {seed}"
                for method in options.methods:
                    known = kept().get(digest_of(stream), {}) if KEPT.exists() else {}
                    if method in known.get("methods", {}):
                        continue
                    anchor = run(method, stream)
                    keep(stream, title, method, anchor)
                    print(title, *anchor, flush=True)


if __name__ == "__main__":
    main()
