"""The drift detectors of many models at once, their states side by side.

A state is one block of bytes, its arrays one after the other, or an array of many of them each.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from kerneltrack.limits import MOST, likes
from kerneltrack.monitor.drift.detector import (
    USUAL,
    Alerts,
    DriftState,
    FloatArray,
    IntArray,
    from_arrays,
    init,
    settings_of,
)
from kerneltrack.monitor.drift.spec import DriftSpec
from kerneltrack.native.binding import call
from kerneltrack.trackers.common.places import Places, side_by_side, spans

Blocks: TypeAlias = npt.NDArray[np.uint8]


@lru_cache(maxsize=16)
def places_of(spec: DriftSpec) -> Places:
    """Return where the arrays of a state lie in its block."""
    return Places.of(likes(init(spec)._asdict()))


def pack(state: DriftState) -> bytes:
    """Return a state as bytes."""
    return b"".join(array.tobytes() for array in state)


def unpack(spec: DriftSpec, data: bytes) -> DriftState:
    """Return a state that `pack` wrote, after a look at its values.

    Raises:
        ConfigError: for bytes of another length, or counts that no state has.
    """
    return from_arrays(spec, places_of(spec).arrays(data))


def begin_each(spec: DriftSpec, models: int) -> Blocks:
    """Return the states of m detectors that have seen no row, (m, bytes)."""
    one = pack(init(spec))
    return side_by_side([one] * models, len(one))


def columns_of(spec: DriftSpec, blocks: Blocks) -> DriftState:
    """Return the arrays of (m, bytes) blocks, each (m, ...), in place."""
    places = places_of(spec)
    return DriftState(*[places.column(blocks, name) for name in DriftState._fields])


def sound_of_each(spec: DriftSpec, blocks: Blocks) -> npt.NDArray[np.bool_]:
    """Return which states `unpack` would take, (m,), of (m, bytes)."""
    states = columns_of(spec, blocks)
    counts = states.counts
    sound = (counts >= 0).all(axis=1) & (counts <= MOST).all(axis=1)
    fine: npt.NDArray[np.bool_] = sound & (counts[:, 0] < spec.block)
    return fine & ~(states.reals[:, USUAL] < 0.0)


def beside_each_other(spec: DriftSpec, states: Sequence[DriftState]) -> Blocks:
    """Return copies of states, (m, bytes)."""
    return side_by_side([pack(state) for state in states], places_of(spec).size)


def watch_each(
    spec: DriftSpec,
    blocks: Blocks,
    losses: FloatArray,
    starts: IntArray,
    stops: IntArray,
    models: IntArray | None = None,
) -> dict[int, Alerts]:
    """Compare the losses of m models' next rows with those before; see `update`.

    Args:
        spec: The spec.
        blocks: The detectors' states, (m, bytes); written to.
        losses: (n,), finite; a model's follow one another.
        starts: (k,) place of each model's first row.
        stops: (k,) place after its last.
        models: (k,) whose losses these are, places among the states; None: all, in order.

    Returns:
        By place among the k models the alerts of those that raised any, rows told by their places
        among the model's. Bit for bit those of `update`.
    """
    rows = np.maximum(losses, 0.0)
    at, levels = np.zeros(len(rows), np.int64), np.zeros((2, len(rows)))
    found = np.zeros(len(starts), np.int64)
    each = np.concatenate([*places_of(spec).words(blocks).values()], axis=1)
    each = each if models is None else each[models]
    told = np.concatenate([spans(column, starts, stops) for column in (at, *levels)], axis=1)
    words = each.tobytes(), spans(rows, starts, stops).tobytes(), told.tobytes()
    call("drift_run_each", settings_of(spec), (len(starts),), *words, found)
    alerts = {}
    for model in np.flatnonzero(found).tolist():
        part = slice(int(starts[model]), int(starts[model] + found[model]))
        alerts[model] = Alerts(at[part], at[part], levels[0, part], levels[1, part])
    return alerts
