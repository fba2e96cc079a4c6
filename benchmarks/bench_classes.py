"""More classes than places: what the rule that keeps the most frequent is worth.

    python -m benchmarks.bench_classes [--seeds 10] [--times 1.01 1.1 1.2 1.5 2 inf] [--least 8]

Streams of 6,000 rows of 30 classes, a learner with places for 10: `zipf`, classes of 1/k^s of the
rows, s from .7 to 1.4; `bursts`, the same in runs of 1 to 7 rows; `late`, 20 classes for 1,000
rows, then ten others that are twenty times as frequent; `drift`, frequencies that move on by three
classes each 1,000 rows. The figure is accuracy after 200 rows, the mean of `auto`, `ridge` and
`logistic`, for each number of times (`kept_classes.TIMES`) that a class must be as frequent as the
rarest that has a place; inf: the first 10 classes are kept. Constants were chosen on even seeds;
odd ones are held out.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from benchmarks.record import Table
from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.in_memory import learn_all
from kerneltrack.learners import AutoSpec, LearnerSpec, LogisticSpec, RidgeSpec
from kerneltrack.learners.common import kept_classes

CLASSES, PLACES, COUNT, WIDTH, SKIPPED = 30, 10, 6_000, 6, 200
SPECS: tuple[LearnerSpec, ...] = (
    AutoSpec(max_classes=PLACES),
    RidgeSpec(max_classes=PLACES),
    LogisticSpec(max_classes=PLACES),
)
TIMES = (1.01, 1.1, 1.2, 1.5, 2.0, math.inf)
Rows = tuple[FloatArray, list[str]]


def streams(seed: int) -> dict[str, Rows]:
    """Return rows and labels by the stream's name."""
    rng = np.random.default_rng(seed)
    shares: FloatArray = 1.0 / np.arange(1.0, CLASSES + 1.0) ** rng.uniform(0.7, 1.4)
    shares /= shares.sum()
    centres, order = rng.normal(size=(CLASSES, WIDTH)) * 2.2, rng.permutation(CLASSES)
    first = np.repeat([1.0, 0.0], [20, 10]) / 20.0
    then = np.repeat([0.1, 2.0], [20, 10]) / 22.0

    def drawn(classes: IntArray, count: int, of: FloatArray) -> IntArray:
        found: IntArray = rng.choice(classes, count, p=of)
        return found

    runs = drawn(order, COUNT // 2, shares)
    codes = {
        "zipf": drawn(order, COUNT, shares),
        "bursts": np.repeat(runs, rng.integers(1, 8, len(runs)))[:COUNT],
        "late": np.concatenate(
            [drawn(np.arange(CLASSES), 1_000, first), drawn(np.arange(CLASSES), 5_000, then)]
        ),
        "drift": np.concatenate(
            [drawn(np.roll(order, 3 * part), 1_000, shares) for part in range(6)]
        ),
    }
    return {
        name: (
            (centres[own] + rng.normal(size=(len(own), WIDTH))) / 5.0,
            [f"class {code}" for code in own.tolist()],
        )
        for name, own in codes.items()
    }


def accuracy(spec: LearnerSpec, rows: FloatArray, labels: list[str]) -> float:
    """Return the share of rows that are right after the first ones."""
    predictions = learn_all(spec, rows, labels)[1]
    if predictions.correct is None:
        raise ValueError("no classes")
    return float(predictions.correct[SKIPPED:].mean())


def main() -> None:
    """Print a line for each rule, on the seeds chosen on and on those held out."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument(
        "--times", type=float, nargs="+", default=[1.01, 1.1, 1.2, 1.5, 2, math.inf]
    )
    parser.add_argument("--least", type=int, default=kept_classes.LEAST)
    args = parser.parse_args()
    made = {seed: streams(seed) for seed in range(args.seeds)}
    names = [*made[0]]
    table = Table("auto", "classes", ["times the rarest, seeds", "mean", *names])
    kept_classes.LEAST, kept_classes.NAMES_A_PLACE = args.least, COUNT
    for times in args.times:
        kept_classes.TIMES = times
        found = {
            seed: [np.mean([accuracy(spec, *own[name]) for spec in SPECS]) for name in names]
            for seed, own in made.items()
        }
        for title, first in (("chosen on", 0), ("held out", 1)):
            means = np.mean([values for seed, values in found.items() if seed % 2 == first], axis=0)
            cells = (f"{mean:.3f}" for mean in (means.mean(), *means))
            least = "first kept" if math.isinf(times) else f"{times:.2f}"
            table.add(f"{least}, {title}", *cells)


if __name__ == "__main__":
    main()
