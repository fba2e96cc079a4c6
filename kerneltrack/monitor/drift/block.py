"""The drift detectors of many models at once, their states side by side.

A state is one block of bytes, its arrays one after the other, or an array of many of them each.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.limits import likes
from kerneltrack.monitor.drift.detector import Alerts, DriftState, from_arrays, init, settings_of
from kerneltrack.monitor.drift.spec import DriftSpec
from kerneltrack.native.binding import call, packed
from kerneltrack.trackers.common.places import Lanes, Places, side_by_side, spans

Blocks: TypeAlias = npt.NDArray[np.uint8]

ALERTS = Lanes.of((np.zeros(1, np.int64), np.zeros(1), np.zeros(1)))
"""What the loop tells of an alert: its row, the mean losses before and after."""


@lru_cache(maxsize=16)
def places_of(spec: DriftSpec) -> Places:
    """Return where the arrays of a state lie in its block."""
    return Places.of(likes(init(spec)._asdict()))


@lru_cache(maxsize=16)
def _laid_out(spec: DriftSpec) -> bytes:
    """Return a spec as the loop takes it."""
    return packed(settings_of(spec))


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


def state_at(spec: DriftSpec, blocks: Blocks, place: int) -> DriftState:
    """Return one of (m, bytes) blocks, in place."""
    return DriftState(*places_of(spec).one(blocks, place))


def check_each(spec: DriftSpec, packed: Sequence[bytes]) -> None:
    """Check states that `pack` wrote.

    Raises:
        ConfigError: if `unpack` refuses one of them.
    """
    blocks = side_by_side(packed, places_of(spec).size)
    from_arrays(spec, columns_of(spec, blocks)._asdict(), (len(packed),))


def joined_states(spec: DriftSpec, states: Sequence[DriftState]) -> Blocks:
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
    room, found = ALERTS.room(len(rows)), np.zeros(len(starts), np.int64)
    states = places_of(spec).structures(blocks, models).tobytes()
    given, alert_spans = spans(rows, starts, stops), ALERTS.spans(room, len(rows), starts, stops)
    words = states, given.tobytes(), alert_spans.tobytes()
    call("drift_run_each", _laid_out(spec), (len(starts),), *words, found)
    if not np.count_nonzero(found):
        return {}
    at, before, after = ALERTS.arrays(room, len(rows))
    alerts = {}
    for model in np.flatnonzero(found).tolist():
        part = slice(int(starts[model]), int(starts[model] + found[model]))
        alerts[model] = Alerts(at[part], at[part], before[part], after[part])
    return alerts
