"""The condition while which devices are judged, and the columns that nothing else sees.

All else works on rows in which those columns are 0: they may be missing, and have no place in
distances.
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
