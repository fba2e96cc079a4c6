"""Sets of classes and intervals of targets: what share of labels they hold, and how large they are.

    python benchmarks/bench_sets.py [--sets watch ...] [--rows 8000] [--shares 0.8 0.9 0.95 0.99]

Each row is predicted from the row itself, standardised, then learned, in the streams' own orders
and shuffled, by every learner of `LEARNERS` that knows the task; the first 100 rows are scored for
nobody. Of classes: the share of sets that hold the label and the mean number of classes in a set.
Of targets: the share of intervals that hold the target and the interval score (`of_intervals`) over
that of the best constant width, known only in hindsight.
"""

from __future__ import annotations

import argparse

import numpy as np

from benchmarks.defaults_sets import ORDERS, SETS, ordered, whole
from benchmarks.prequential_sets import CHUNK, FloatArray, Stream
from benchmarks.record import Table
from benchmarks.target_sets import SETS as TARGETS
from kerneltrack.in_memory import learn_all, run_all
from kerneltrack.learners import AutoSpec, HingeSpec, LearnerSpec, LMSSpec, Predictions, RidgeSpec
from kerneltrack.learners.common.board import of_intervals
from kerneltrack.learners.common.inputs import own_inputs
from kerneltrack.learners.common.label_sets import of_sets
from kerneltrack.trackers import RowsSpec

LEARNERS: tuple[type[LearnerSpec], ...] = (RidgeSpec, HingeSpec, LMSSpec, AutoSpec)


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
    """Print a line for each stream, order and learner."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    names = list(dict.fromkeys([*SETS, *TARGETS]))
    parser.add_argument("--sets", nargs="+", choices=names, default=names)
    parser.add_argument("--rows", type=int, default=8_000)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.8, 0.9, 0.95, 0.99])
    args = parser.parse_args()
    heads = [f"{share:g}: held (size)" for share in args.shares]
    table = Table("auto", "sets", ["stream", "learner", *heads])
    for name in args.sets:
        rows = TARGETS[name]() if name in TARGETS else whole(name)
        for order in ORDERS:
            stream = ordered(rows, order, 0, args.rows)
            task, given = "classification" if stream.classes else "regression", inputs_of(stream)
            for kind in LEARNERS:
                if task not in kind.tasks:
                    continue
                cells = []
                for share in args.shares:
                    spec = kind(task=task, intervals=share)
                    predictions = learn_all(spec, given, stream.labels, None)[1]
                    covered, size = held(stream, share, predictions)
                    cells.append(f"{covered:.3f} ({size:.2f})")
                table.add(f"{name}, {order}", kind.learner, *cells)


if __name__ == "__main__":
    main()
