"""The episodes of two references as those of one device: of all rows, and of spans' first rows.

All rows say what is sudden, to the row. What takes longer shows in the means over hours that the
second reference has, and it knows better which channel is off: an episode is what it says where its
own was open. An episode by all rows that grew for longer than `ReferenceSpec.sudden_time` until it
opened is left out once the second reference knows enough (`takes_over`). Otherwise an episode is
open while either reference has one open, from where the earlier one began.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kerneltrack.arrays import BoolArray
from kerneltrack.monitor.reference.episodes import Episode
from kerneltrack.monitor.reference.episodes import open_episode as open_one
from kerneltrack.monitor.reference.joint import (
    BEGAN_TIME,
    BEGAN_WITH,
    BY_FIRST,
    BY_SECOND,
    CHANGED_ROW,
    CHANGED_TIME,
    IS_KNOWN,
    IS_STEADY,
    KIND,
    KINDS,
    LAST_ROW,
    LAST_TIME,
    OPEN_SINCE,
    OPEN_TIME,
    PEAK,
    REALS,
    SEVERITY,
    TOLD,
    WATCHES,
    Joint,
)
from kerneltrack.monitor.reference.left_out import Numbering, numbering_of
from kerneltrack.monitor.reference.spec import ReferenceSpec
from kerneltrack.monitor.reference.state import (
    CHANGED,
    EPISODES,
    NEWEST_TIME,
    OPENED,
    SEEN,
    ReferenceState,
)

if TYPE_CHECKING:
    from kerneltrack.monitor.reference.run import Scores


class _Event(NamedTuple):
    """An episode of one of the references was opened or closed.

    Attributes:
        row: After which row.
        closed: Whether it was closed.
        second: Whether it is the second reference's.
        episode: As it is then.
    """

    row: int
    closed: bool
    second: bool
    episode: Episode


@dataclasses.dataclass(frozen=True)
class Joining:
    """How a device's episodes of two references become one list.

    Attributes:
        joint: What is known of them so far; written to.
        sudden: How long an episode by all rows may have grown, ns.
        watched_from: From which row on what grew slowly is the second reference's; None: not yet.
    """

    joint: Joint
    sudden: int
    watched_from: int | None

    def join(self, first: Sequence[Episode], second: Sequence[Episode]) -> list[Episode]:
        """Return what is to be told of episodes that were opened or closed; rows as all count.

        Args:
            first: Those of the reference of all rows.
            second: Those of the second one.
        """
        told = []
        for event in _in_order(first, second):
            if not self._counts(event):
                continue
            wholes, was_open = self.joint.wholes, self.joint.wholes[OPEN_SINCE] >= 0
            wholes[BY_SECOND if event.second else BY_FIRST] = not event.closed
            if event.second:
                self._remember(event.episode)
            if not was_open:
                told.append(self._begin(event.episode))
            elif not (wholes[BY_FIRST] or wholes[BY_SECOND]):
                told.append(self._end(event.episode))
        return told

    def _counts(self, event: _Event) -> bool:
        """Check whether an event is of an episode that counts."""
        if event.second:
            return True
        if event.closed:
            return bool(self.joint.wholes[BY_FIRST])
        since, opened, _, _ = event.episode.times
        is_watched = self.watched_from is not None and event.row >= self.watched_from
        return not is_watched or opened - since <= self.sudden

    def _remember(self, said: Episode) -> None:
        wholes, reals = self.joint
        wholes[IS_KNOWN], wholes[KIND] = 1, KINDS.index(said.kind)
        wholes[LAST_ROW], wholes[LAST_TIME] = said.last, said.times[3]
        wholes[IS_STEADY] = said.steady
        reals[SEVERITY], reals[PEAK] = said.severity, said.peak
        reals[REALS:] = np.concatenate([said.shares, said.deviations])
        if said.closed:
            self._keep_change(said)

    def _keep_change(self, said: Episode) -> None:
        """Keep since when the device has changed, as an episode that is over says."""
        wholes = self.joint.wholes
        wholes[CHANGED_ROW] = 0 if said.changed is None else said.changed + 1
        wholes[CHANGED_TIME] = said.changed_time

    def _begin(self, episode: Episode) -> Episode:
        wholes = self.joint.wholes
        wholes[TOLD] += 1
        wholes[BEGAN_WITH], wholes[OPEN_SINCE] = episode.start, episode.opened
        wholes[BEGAN_TIME], wholes[OPEN_TIME] = episode.times[:2]
        return _as_told(self.joint, episode)

    def _end(self, episode: Episode) -> Episode:
        """Close the open episode with what the second reference said of it, if it did."""
        wholes = self.joint.wholes
        if not wholes[IS_KNOWN]:
            self._keep_change(episode)
        found = _as_told(self.joint, _known(self.joint, episode))
        wholes[OPEN_SINCE], wholes[IS_KNOWN] = -1, 0
        return found


def takes_over(spec: ReferenceSpec, scores: Scores) -> BoolArray:
    """Return at which rows of second references what grew slowly is left to these, (n,).

    Where both remember as long, by time, that is as soon as a row has a p: the second one can open
    episodes within a block of rows after the first. Else it is once it can.
    """
    by_time = spec.memory_span.time is not None
    found: BoolArray = np.isfinite(scores.p if by_time else scores.evidence)
    return found


def join(
    spec: ReferenceSpec,
    joint: Joint,
    first: Sequence[Episode],
    second: Sequence[Episode],
    known: BoolArray,
    numbering: Numbering,
) -> list[Episode]:
    """Return what is to be told of a device's episodes that were opened or closed in some rows.

    Args:
        spec: What both references are.
        joint: What is known of their episodes so far; written to.
        first: Those of the reference of all rows.
        second: Those of the second one, as it counts rows.
        known: (n,) of the rows that the second one judged, as of `takes_over`.
        numbering: Which rows these are as the first one counts.

    Returns:
        The device's episodes, rows as the first one counts.
    """
    watched_from = 0 if joint.wholes[WATCHES] else None
    if watched_from is None and known.any():
        watched_from = numbering.of(numbering.first + int(known.argmax()))
    own = [episode.numbered(numbering.of) for episode in second]
    told = Joining(joint, spec.sudden_time, watched_from).join(first, own)
    joint.wholes[WATCHES] |= known.any()
    return told


def _in_order(first: Iterable[Episode], second: Iterable[Episode]) -> list[_Event]:
    """Return events in order; of one row what is opened comes before what is closed."""
    both = ((False, first), (True, second))
    events = [_Event(e.row, e.closed, is_second, e) for is_second, own in both for e in own]
    return sorted(events, key=lambda event: event[:3])


def _known(joint: Joint, episode: Episode) -> Episode:
    """Return an episode by all rows as the second reference knows it, if it was open there."""
    wholes, reals = joint
    if not wholes[IS_KNOWN]:
        return episode
    width, last = len(episode.shares), int(wholes[LAST_ROW])
    times = *episode.times[:3], int(wholes[LAST_TIME])
    if episode.last > last:
        last, times = episode.last, episode.times
    return episode._replace(
        kind=KINDS[wholes[KIND]],
        last=last,
        times=times,
        severity=float(reals[SEVERITY]),
        peak=float(reals[PEAK]),
        shares=reals[REALS : REALS + width].copy(),
        deviations=reals[REALS + width :].copy(),
        steady=episode.closed and bool(wholes[IS_STEADY]),
    )


def _as_told(joint: Joint, episode: Episode) -> Episode:
    """Return the open episode with its number, its begin, and since when the device has changed."""
    wholes = joint.wholes.tolist()
    times = wholes[BEGAN_TIME], wholes[OPEN_TIME], *episode.times[2:]
    return episode._replace(
        number=wholes[TOLD],
        start=wholes[BEGAN_WITH],
        opened=wholes[OPEN_SINCE],
        times=times,
        changed=wholes[CHANGED_ROW] - 1 if wholes[CHANGED_ROW] else None,
        changed_time=wholes[CHANGED_TIME],
    )


def open_episode(spec: ReferenceSpec, state: ReferenceState) -> Episode | None:
    """Return the episode that is open after the rows so far, None if there is none."""
    if spec.second is None or state.second is None or state.joint is None:
        return open_one(spec, state)
    joint = state.joint
    if joint.wholes[OPEN_SINCE] < 0:
        return None
    row, time = int(state.tables.counts[SEEN]) - 1, int(state.tables.times[NEWEST_TIME])
    if joint.wholes[BY_SECOND]:
        found = open_one(spec.second, state.second)
        number = numbering_of(state.second, row + 1).of
        found = None if found is None else found.numbered(number)
    else:
        found = open_one(spec.first, state)
        found = None if found is None else _known(joint, found)
    if found is None:
        raise AssertionError("an episode is open that neither reference has")
    found = found._replace(row=row, times=(*found.times[:2], time, found.times[3]))
    return _as_told(joint, found)


def changed_since(state: ReferenceState) -> tuple[int, int] | None:
    """Return the row since when the device has changed to stay, and its time, ns; None: it has not.

    It has where an episode ended because the change had lasted, until one ends that `recovered`; of
    a reference that moves.
    """
    if state.joint is not None:
        row, time = state.joint.wholes[CHANGED_ROW : CHANGED_TIME + 1].tolist()
    elif len(state.tables.compared):
        row, time = state.tables.compared[CHANGED:].tolist()
    else:
        return None
    return (row - 1, time) if row else None


def opened_at(state: ReferenceState) -> int:
    """Return the row that opened the episode which is open, -1 if none is."""
    if state.joint is not None:
        return int(state.joint.wholes[OPEN_SINCE])
    return int(state.tables.counts[OPENED])


def episodes_of(state: ReferenceState) -> int:
    """Return how many episodes there were, the open one among them."""
    if state.joint is not None:
        return int(state.joint.wholes[TOLD])
    return int(state.tables.counts[EPISODES])
