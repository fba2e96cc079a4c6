"""Models that begin, made side by side of their first rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kerneltrack.fleet.clock import NO_TIME
from kerneltrack.fleet.forward_fill import Held
from kerneltrack.fleet.model import Work
from kerneltrack.fleet.models import Models
from kerneltrack.fleet.modes import without_modes
from kerneltrack.fleet.windows import OpenWindows
from kerneltrack.monitor.drift import block as detectors
from kerneltrack.monitor.moving import WindowState
from kerneltrack.monitor.reference import block as references
from kerneltrack.registry import get_tracker
from kerneltrack.trackers.common.block import Block, FixedBlock
from kerneltrack.trackers.common.start import start_from

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


def begin_each(
    work: Work, keys: Sequence[str], rows: FloatArray, starts: IntArray, stops: IntArray
) -> Models:
    """Make the working states of m models, one at least; see `model.begin`.

    Args:
        work: What is done with their rows.
        keys: Their IDs.
        rows: (n, D), finite.
        starts: (m,) place of each one's first row.
        stops: (m,) place after the last of its first rows, at least one.
    """
    tracker: Any = get_tracker(work.spec.tracker)
    count, width, none = len(keys), rows.shape[1], np.zeros(len(keys), np.int64)
    if work.start is None:
        seen = without_modes(work.reference, rows)
        block = tracker.init_each(work.spec, seen, starts, stops, keys)
    else:
        block = tracker.pack(work.spec, [start_from(work.spec, work.start, key) for key in keys])
    windowed = work.measure is not None and work.measure.size is not None
    reference, referred, origin = _references(work, keys, rows, starts, stops)
    return Models(
        work,
        list(keys),
        block,
        np.full(count, NO_TIME),
        np.full(count, NO_TIME),
        none,
        none.copy(),
        None if work.hold is None else Held.none(count, width),
        np.zeros(count, np.bool_),
        [OpenWindows.none(width)] * count if windowed else None,
        _moving(work, block),
        [none[:0] for _ in keys] if work.window is not None else [],
        None if work.drift is None else detectors.begin_each(work.drift, count),
        reference,
        referred,
        origin,
    )


def _moving(work: Work, block: Block[Any]) -> FixedBlock[WindowState] | None:
    """Return a moving window beside each state, if one is asked for."""
    if work.window is None:
        return None
    states = block.states()
    windows = [work.window.init(work.spec, state) for state in states]
    return work.window.pack(work.spec, windows)


def _references(
    work: Work, keys: Sequence[str], rows: FloatArray, starts: IntArray, stops: IntArray
) -> tuple[references.Parts | None, npt.NDArray[np.bool_], list[str]]:
    """Return what models are held against, which of them are, and where it was given."""
    spec, nowhere = work.reference, [""] * len(keys)
    if spec is None:
        return None, np.zeros(len(keys), np.bool_), nowhere
    if work.given is None:
        made = references.begin(spec, rows, starts, stops)
        return made, np.ones(len(keys), np.bool_), nowhere
    given = [work.given.of(key) for key in keys]
    states = [None if each is None else each.state for each in given]
    origin = ["" if each is None else each.origin for each in given]
    known = np.array([state is not None for state in states])
    return references.beside_each_other(spec, rows.shape[1], states), known, origin
