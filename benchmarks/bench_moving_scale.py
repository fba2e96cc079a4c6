"""A scale that follows the rows (`standardise` "moving") beside one that stays.

    python benchmarks/bench_moving_scale.py [--sets watch ...] [--rows 20000] [--windows 5000 ...]
                                            [--learner auto|ridge]

Each row is predicted by a learner on the row alone, `auto` if not said otherwise, then learned. On
every stream in its own order, as it is and with made changes at its middle:

- units: channel d is multiplied by 1000, 1/1000, 9.81 or 1/9.81, in turn;
- offsets: channel d has 273 of its deviations added, in turn with none;
- drift: from the middle on each channel grows by a factor of 10, a little with each row.

Merit is accuracy, or minus the RMSE in deviations of the target; "late" is that of the last quarter
of the rows. The loss is the merit of the stream without change, scale that stays, less the one that
is shown: none should be above .003 where nothing changes, and after a change the late one should be
small for a scale that moves.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from benchmarks.defaults_sets import OWN, SETS, ordered, whole
from benchmarks.prequential_sets import Stream
from benchmarks.record import Table
from kerneltrack.arrays import FloatArray
from kerneltrack.in_memory import learn_all, run_all
from kerneltrack.learners import AutoSpec, LearnerSpec, RidgeSpec
from kerneltrack.learners.common.inputs import own_inputs
from kerneltrack.trackers import OKFEBSpec

LEARNERS: dict[str, type[LearnerSpec]] = {"auto": AutoSpec, "ridge": RidgeSpec}
FACTORS = (1000.0, 1 / 1000.0, 9.81, 1 / 9.81)


def as_is(rows: FloatArray) -> FloatArray:
    """Return the rows."""
    return rows


def units(rows: FloatArray) -> FloatArray:
    """Change the units of every channel at the middle."""
    changed, middle = rows.copy(), len(rows) // 2
    changed[middle:] *= np.resize(FACTORS, rows.shape[1])
    return changed


def offsets(rows: FloatArray) -> FloatArray:
    """Move the origin of every other channel at the middle."""
    changed, middle = rows.copy(), len(rows) // 2
    changed[middle:, ::2] += 273.0 * rows.std(axis=0)[::2]
    return changed


def drift(rows: FloatArray) -> FloatArray:
    """Let every channel grow from the middle on."""
    middle = len(rows) // 2
    grown = np.ones(len(rows))
    grown[middle:] = np.geomspace(1.0, 10.0, len(rows) - middle)
    return rows * grown[:, np.newaxis]


CHANGES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "none": as_is,
    "units": units,
    "offsets": offsets,
    "drift": drift,
}


def merits(
    stream: Stream, rows: FloatArray, window: int | None, learner: str
) -> tuple[float, float]:
    """Return the default's merit on all rows and on the last quarter.

    Args:
        stream: The labels.
        rows: Its rows, changed.
        window: W; None for a scale that stays.
        learner: What learns on the row.
    """
    spec = OKFEBSpec()
    if window is not None:
        spec = OKFEBSpec(standardise="moving", scale_window=window)
    state, features = run_all(spec, rows, ("x",))
    own = own_inputs(spec, state, rows, features.x)
    task = "classification" if stream.classes else "regression"
    _, predictions = learn_all(LEARNERS[learner](task=task), own, stream.labels, None)
    if predictions.correct is not None:
        good = np.asarray(predictions.correct, np.float64)
        return float(good.mean()), float(good[-len(good) // 4 :].mean())
    wrong = np.square(np.nan_to_num(np.asarray(predictions.error, np.float64)))
    return -float(np.sqrt(wrong.mean())), -float(np.sqrt(wrong[-len(wrong) // 4 :].mean()))


def main() -> None:
    """Print the losses of every stream."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--sets", nargs="+", choices=[*SETS], default=[*SETS])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--windows", type=int, nargs="+", default=[OKFEBSpec().scale_window])
    parser.add_argument("--learner", choices=[*LEARNERS], default="auto")
    args = parser.parse_args()
    windows = ["stays", *(f"W = {window}" for window in args.windows)]
    heads = [head for each in windows for head in (f"{each}: lost", "at the end")]
    table = Table("auto", "moving_scale", ["stream", "change", "merit", *heads])
    for name in args.sets:
        stream = ordered(whole(name), OWN, 0, args.rows)
        whole_merit, late_merit = merits(stream, stream.rows, None, args.learner)
        for change, make in CHANGES.items():
            rows = make(stream.rows)
            cells = []
            for window in (None, *args.windows):
                merit, late = merits(stream, rows, window, args.learner)
                cells += [f"{whole_merit - merit:.4f}", f"{late_merit - late:.4f}"]
            table.add(name, change, f"{whole_merit:.3f}", *cells)


if __name__ == "__main__":
    main()
