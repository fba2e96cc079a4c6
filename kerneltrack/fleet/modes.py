"""The channel that says which mode a device is in: references go by it, nothing else sees it.

Trackers, drift, windows and learners work on rows in which it is 0. A mode's value is a name, not a
quantity: it has no place in distances.
"""

from __future__ import annotations

import numpy as np

from kerneltrack.arrays import FloatArray
from kerneltrack.monitor.reference import ReferenceSpec


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
