"""Columns that references alone see: those of the condition and the one that says modes.

Trackers, drift, windows and learners work on rows in which they are 0: a condition's columns may be
missing, and a mode's value is a name, not a quantity. They have no place in distances.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import BoolArray, FloatArray
from kerneltrack.monitor.condition_values import rows_that_meet
from kerneltrack.monitor.reference import ReferenceSpec


def idle_rows(spec: ReferenceSpec | None, rows: FloatArray) -> BoolArray | None:
    """Return which rows, (n, D), do not meet the condition, (n,); None if there is none."""
    condition = None if spec is None else spec.condition
    return None if condition is None else ~rows_that_meet(condition, rows)


def without_unseen(spec: ReferenceSpec | None, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return rows, (n, D), with 0 in columns that only the condition sees; a copy if some are.

    What is infinite stays: such a row is refused.
    """
    if spec is None or not spec.unseen:
        return rows
    rows, places = rows.copy(), list(spec.unseen)
    rows[:, places] = np.where(np.isinf(rows[:, places]), rows[:, places], 0)
    return rows


def whole_rows(spec: ReferenceSpec | None, rows: npt.NDArray[Any]) -> BoolArray:
    """Return which rows, (n, D), have a finite value of every channel, (n,)."""
    whole: BoolArray = np.asarray(np.isfinite(without_unseen(spec, rows)).all(axis=1))
    return whole


def modes_of(spec: ReferenceSpec | None, rows: FloatArray) -> FloatArray | None:
    """Return what the mode's channel is in rows, (n,) of (n, D); None if no channel says modes."""
    return None if spec is None or not isinstance(spec.mode, int) else rows[:, spec.mode].copy()


def without_modes(spec: ReferenceSpec | None, rows: FloatArray) -> FloatArray:
    """Return rows, (n, D), with 0 in the mode's channel where it is finite; a copy if there is one.

    What is missing or infinite stays: such a row is refused.
    """
    modes = modes_of(spec, rows)
    return rows if modes is None else with_modes(spec, rows, np.where(np.isfinite(modes), 0, modes))


def with_modes(spec: ReferenceSpec | None, rows: FloatArray, modes: FloatArray) -> FloatArray:
    """Return a copy of rows, (n, D), with these values, (n,), in the mode's channel."""
    whole = rows.copy()
    if spec is not None and isinstance(spec.mode, int):
        whole[:, spec.mode] = modes
    return whole
