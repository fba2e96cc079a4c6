"""State of the episodes of two references: of all rows, and of the first row of each span.

What is told of them, and when, is in `joining`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kerneltrack.arrays import IntArray
from kerneltrack.limits import TIME_LIMIT, ArrayForm, check_finite, check_whole, real, whole
from kerneltrack.native.layouts import FloatVector, IntVector

(TOLD, OPEN_SINCE, BEGAN_WITH, OPEN_TIME, BEGAN_TIME, CHANGED_ROW, CHANGED_TIME) = range(7)
BY_FIRST, BY_SECOND, IS_KNOWN, KIND, LAST_ROW, LAST_TIME, IS_STEADY, WATCHES = range(7, 15)
WHOLES = 15
SEVERITY, PEAK = range(2)
REALS = 2
KINDS = ("spike", "ramp", "stuck", "shift", "recovered")
"""Kinds of episodes, by their numbers here."""
_FLAGS = (BY_FIRST, BY_SECOND, IS_KNOWN, IS_STEADY, WATCHES)
_ROWS = (TOLD, BEGAN_WITH, CHANGED_ROW, LAST_ROW)


class Joint(NamedTuple):
    """What is known of the episodes of two references; rows as the one of all rows counts them.

    Attributes:
        wholes: (15,) episodes so far; the row that opened the one that is open (-1: none is), since
            which row it is, and both times, ns; since which row the device has changed to stay,
            from 1 (0: it has not), and its time; whether the episode is open by all rows, and by
            the second reference; whether that one has said what it is, and then its kind, its last
            surprising row and that row's time, and whether the change has lasted; whether what
            grew slowly is left to the second reference.
        reals: (2 + 2D,) of what it has said the severity and the peak, the channels' shares, and
            their deviations (NaN: not known).
    """

    wholes: IntVector
    reals: FloatVector


def layout_of_joint(width: int) -> dict[str, ArrayForm]:
    """Return what the arrays are like, for rows of D channels."""
    return {"wholes": whole(WHOLES), "reals": real(REALS + 2 * width)}


def no_episode(width: int) -> Joint:
    """Return the state before the first episode."""
    joint = Joint(*(like.zeros() for like in layout_of_joint(width).values()))
    joint.wholes[OPEN_SINCE] = -1
    return joint


def begun_again(joint: Joint) -> Joint:
    """Return the state for rows that do not follow; since when the device has changed stays."""
    again = no_episode((len(joint.reals) - REALS) // 2)
    for place in (CHANGED_ROW, CHANGED_TIME):
        again.wholes[place] = joint.wholes[place]
    return again


def check_joint(wholes: IntArray, seen: IntArray, opened: IntArray) -> None:
    """Check what leads the joining.

    Args:
        wholes: (..., 15).
        seen: (...) rows of the reference of all rows.
        opened: (..., 2) where an episode of each reference was opened, -1 where none is open.

    Raises:
        ConfigError: for a number that no state has.
    """
    for places, least, most in (
        (_FLAGS, 0, 1),
        ((KIND,), 0, len(KINDS) - 1),
        ((OPEN_SINCE,), -1, seen[..., None]),
        (_ROWS, 0, seen[..., None]),
    ):
        check_whole("reference.joint", wholes[..., list(places)], least, most)
    by = wholes[..., [BY_FIRST, BY_SECOND]]
    # What is open is open by one of them.
    check_whole("reference.joint", by, 0, (opened >= 0).astype(np.int64))
    is_open = (wholes[..., OPEN_SINCE] >= 0).astype(np.int64)
    check_whole("reference.joint", is_open, by.max(axis=-1), by.max(axis=-1))


def check_joint_given(joint: Joint) -> None:
    """Hold the numbers of what another wrote against the limits for it.

    Raises:
        ConfigError: for one that is beyond them.
    """
    times = joint.wholes[..., [OPEN_TIME, BEGAN_TIME, CHANGED_TIME, LAST_TIME]]
    check_whole("reference.joint", times, -TIME_LIMIT, TIME_LIMIT)
    width = (joint.reals.shape[-1] - REALS) // 2
    check_finite("reference.joint", joint.reals[..., : REALS + width])
