"""Macro-F1 and mean recall of classifiers whose rare classes count more (`class_weight`).

    python benchmarks/bench_balance.py [--sets watch ...] [--rows 8000] [--learners auto ridge]

Streams with rare classes (the largest at least `RARE` times the smallest), in their own order and
shuffled. Each row is predicted from the row itself, standardised, then learned; the first 100 rows
are scored for nobody. The weight is chosen on `CHOSEN_ON` of `defaults_sets`; what it is worth is
what it does on the others.
"""

from __future__ import annotations

import argparse

import numpy as np

from benchmarks.bench_sets import inputs_of
from benchmarks.defaults_sets import CHOSEN_ON, ORDERS, SETS, ordered, whole
from benchmarks.prequential_sets import CHUNK, Stream
from benchmarks.record import Table
from kerneltrack.in_memory import learn_all
from kerneltrack.learners import Predictions
from kerneltrack.learners.common.spec import WEIGHTS
from kerneltrack.registry import parse_learner_spec

RARE = 2.0


def figures(stream: Stream, predictions: Predictions) -> tuple[float, float, float]:
    """Return accuracy, macro-F1 and mean recall."""
    truth = np.asarray(stream.labels)[CHUNK:]
    named = np.array([name or "" for name in predictions.names])[CHUNK:]
    scores, recalls = [], []
    for name in np.unique(truth):
        both = np.count_nonzero((named == name) & (truth == name))
        scores.append(
            2 * both / (np.count_nonzero(named == name) + np.count_nonzero(truth == name))
        )
        recalls.append(both / np.count_nonzero(truth == name))
    return float(np.mean(named == truth)), float(np.mean(scores)), float(np.mean(recalls))


def main() -> None:
    """Print a line for each stream, order and learner."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--sets", nargs="+", choices=[*SETS], default=[*SETS])
    parser.add_argument("--rows", type=int, default=8_000)
    parser.add_argument("--learners", nargs="+", default=["auto", "ridge"])
    args = parser.parse_args()
    table = Table("auto", "balance_streams", ["stream", "learner", *map(str, WEIGHTS)])
    found: dict[tuple[bool, str], list[list[float]]] = {}
    for name in args.sets:
        rows = whole(name)
        if not rows.classes:
            continue
        for order in ORDERS:
            stream = ordered(rows, order, 0, args.rows)
            counts = np.bincount(stream.target.astype(np.int64))
            if counts.max() < RARE * counts[counts > 0].min():
                continue
            given = inputs_of(stream)
            for learner in args.learners:
                cells, all_of = [], []
                for weight in WEIGHTS:
                    spec = parse_learner_spec({"learner": learner, "class_weight": weight})
                    three = figures(stream, learn_all(spec, given, stream.labels, None)[1])
                    all_of += [*three]
                    cells.append(", ".join(f"{part:.3f}" for part in three))
                found.setdefault((name in CHOSEN_ON, learner), []).append(all_of)
                table.add(f"{name}, {order}", learner, *cells)
    means = Table("auto", "balance", ["", *map(str, WEIGHTS)])
    for (chosen, learner), each in sorted(found.items()):
        threes = np.mean(each, axis=0).reshape(len(WEIGHTS), 3)
        cells = [", ".join(f"{part:.3f}" for part in three) for three in threes]
        means.add(f"{'chosen on' if chosen else 'held out'}, {learner}", *cells)


if __name__ == "__main__":
    main()
