"""Sets of classes and intervals of targets: what share of labels they hold, and how large they are.

    python -m benchmarks.bench_sets [--sets watch ...] [--rows 8000] [--shares 0.8 0.9 0.95 0.99]

Each row is predicted from the row itself, standardised, then learned, in the streams' own orders
and shuffled, by every learner of `LEARNERS` that knows the task; the first 100 rows are scored for
nobody. Of classes: the share of sets that hold the label and the mean number of classes in a set.
Of targets: the share of intervals that hold the target and the interval score (`of_intervals`) over
that of the best constant width, known only in hindsight.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.defaults_sets import ORDERS, SETS, ordered, whole
from benchmarks.prequential_sets import CHUNK, Stream
from benchmarks.record import Table
from benchmarks.target_sets import SETS as TARGETS
from kerneltrack.arrays import FloatArray
from kerneltrack.in_memory import learn_all, run_all
from kerneltrack.learners import AutoSpec, HingeSpec, LearnerSpec, LMSSpec, Predictions, RidgeSpec
from kerneltrack.learners.common.board import of_intervals
from kerneltrack.learners.common.inputs import own_inputs
from kerneltrack.learners.common.label_sets import of_sets
from kerneltrack.trackers import RowsSpec

LEARNERS: tuple[type[LearnerSpec], ...] = (RidgeSpec, HingeSpec, LMSSpec, AutoSpec)
NEAR = 0.02
"""How near the share of labels should be to the one asked for."""


def inputs_of(stream: Stream) -> FloatArray:
    """Return the rows as learners take them."""
    spec = RowsSpec(rank=stream.rows.shape[1])
    state, _ = run_all(spec, stream.rows)
    return own_inputs(spec, state, stream.rows)


def held(stream: Stream, share: float, predictions: Predictions) -> tuple[float, float]:
    """Return the share of labels that were held, and the size of what held them."""
    if predictions.members is not None:
        place = {name: code for code, name in enumerate(predictions.classes)}
        codes = np.array([place[label] for label in stream.labels], np.int64)
        covered, size = of_sets(predictions.members, codes)[CHUNK:].mean(axis=0).tolist()
        return covered, size
    if (
        predictions.lower is None
        or predictions.upper is None
        or predictions.value is None
        or predictions.error is None
    ):
        raise ValueError("neither sets nor intervals")
    reported = np.arange(CHUNK, len(stream.rows))
    targets = np.asarray(stream.labels, np.float64)[reported]
    within = of_intervals(share, predictions.lower[reported], predictions.upper[reported], targets)
    half, value = (
        float(np.quantile(predictions.error[reported], share)),
        predictions.value[reported],
    )
    still = of_intervals(share, value - half, value + half, targets)
    return float(within[:, 0].mean()), float(within[:, 2].mean() / still[:, 2].mean())


def main() -> None:
    """Write `auto`'s line for each stream; print those of all learners, and the farthest."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    names = list(dict.fromkeys([*SETS, *TARGETS]))
    parser.add_argument("--sets", nargs="+", choices=names, default=names)
    parser.add_argument("--rows", type=int, default=8_000)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.8, 0.9, 0.95, 0.99])
    args = parser.parse_args()
    table = Table("auto", "sets", ["stream", "own order", "shuffled"])
    found: dict[tuple[str, str, str, float], tuple[float, float]] = {}
    for name in args.sets:
        rows = TARGETS[name]() if name in TARGETS else whole(name)
        for order in ORDERS:
            stream = ordered(rows, order, 0, args.rows)
            for learner, share, covered, size in shares_of(stream, args.shares):
                found[name, order, learner, share] = covered, size
                line = f"{name}, {order}, {learner}, {share:g}: {covered:.3f} ({size:.2f})"
                print(line, file=sys.stderr, flush=True)
        cells = [
            ", ".join(cell(*found[name, order, AutoSpec.learner, share]) for share in args.shares)
            for order in ORDERS
        ]
        table.add(name, *cells)
    gaps = {at: abs(covered - at[-1]) for at, (covered, _) in found.items()}
    near, worst = sum(gap <= NEAR for gap in gaps.values()), max(gaps, key=gaps.__getitem__)
    print(
        f"{near} of {len(gaps)} within {NEAR} of the share, the farthest {gaps[worst]:.3f}: {worst}"
    )


def shares_of(stream: Stream, shares: Sequence[float]) -> Iterator[tuple[str, float, float, float]]:
    """Yield learner, share asked for, and what `held` says of it, of each learner and share."""
    task, given = "classification" if stream.classes else "regression", inputs_of(stream)
    for kind in LEARNERS:
        for share in shares if task in kind.tasks else ():
            predictions = learn_all(kind(task=task, intervals=share), given, stream.labels, None)[1]
            yield kind.learner, share, *held(stream, share, predictions)


def cell(covered: float, size: float) -> str:
    """Return share and size as the page has them."""
    return f"{covered:.3f}".removeprefix("0") + f" ({size:.2f})"


if __name__ == "__main__":
    main()
