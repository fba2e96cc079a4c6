"""Models that begin, made side by side of their first rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.fleet.companions import FirstRows
from kerneltrack.fleet.conditions import without_modes, without_unseen
from kerneltrack.fleet.model import Model, Work
from kerneltrack.fleet.models import Models
from kerneltrack.registry import get_tracker
from kerneltrack.trackers.common.calls import first_matrix
from kerneltrack.trackers.common.loop import FIRST
from kerneltrack.trackers.common.start import start_from


def begin(work: Work, key: str, first_rows: npt.NDArray[Any], before: int = 0) -> Model:
    """Make the working state of a model of this ID from its first rows, finite, shape (m, D).

    `before` as for `Model`.
    """
    rows = first_matrix(without_unseen(work.reference, first_rows))
    models = begin_each(work, [key], rows, FIRST, np.array([len(rows)]))
    return models.model(0)._replace(before=before)


def begin_each(
    work: Work, keys: Sequence[str], rows: FloatArray, starts: IntArray, stops: IntArray
) -> Models:
    """Make the working states of m models, one at least.

    Args:
        work: What is done with their rows.
        keys: Their IDs.
        rows: (n, D), finite.
        starts: (m,) place of each one's first row.
        stops: (m,) place after the last of its first rows, at least one.
    """
    tracker: Any = get_tracker(work.spec.tracker)
    rows = without_unseen(work.reference, rows)
    if work.start is None:
        seen = without_modes(work.reference, rows)
        block = tracker.init_each(work.spec, seen, starts, stops, keys)
    else:
        block = tracker.pack(work.spec, [start_from(work.spec, work.start, key) for key in keys])
    return Models.begin(work, FirstRows(keys, block, rows, starts, stops))
