"""What is known of a device now: a line whenever that changes, for whoever keeps only the last.

Each line is a function of the model's rows up to the one after which it is said. Those of a model
that comes back, from a file or a snapshot, say what was known after its last row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kerneltrack.arrays import BoolArray, FloatArray, IntArray
from kerneltrack.fleet.model import Model, Work
from kerneltrack.monitor import reference
from kerneltrack.monitor.quiet import runs_of
from kerneltrack.monitor.reference import Episode, ReferenceSpec, ReferenceState
from kerneltrack.monitor.reference.episodes import signed
from kerneltrack.monitor.reference.left_out import numbering_of
from kerneltrack.monitor.reference.spec import RECOVERED

LEARNING, NORMAL, OFF, UNWATCHED = "learning", "normal", "off", "unwatched"
"""No episode can open yet; rows look like the reference; one is open; there is no reference."""
CHANGED = "changed"
"""No episode is open, but one ended because the change has lasted; it has not come back since."""
QUIET = "quiet"
"""The newest row is of a quiet time, and was not compared with the reference."""
GONE = "gone"
"""Nothing is known any more: the model has expired, or begins anew with its next row."""

FIRST_AGAIN, AGAIN = 32, 4
"""An episode that stays open is told of again so many rows after it was noticed, and whenever that
is so many times as long ago: its kind and channels show only as it goes on."""


class Before(NamedTuple):
    """What is known of a device before some rows.

    Attributes:
        counts: (k,) its reference's, episodes as they are told (`paces.told_counts`).
        changed: Since which row the device has changed to stay, and that row's time, ns; None: it
            has not.
    """

    counts: IntArray
    changed: tuple[int, int] | None

    @classmethod
    def of(cls, counts: IntArray, changes: IntArray) -> Before:
        """Return what `paces.told_counts` and `paces.changes_of` say of a device."""
        row, time = changes.tolist()
        return cls(counts, (row - 1, time) if row else None)


class PassedBy(NamedTuple):
    """Rows of a device that may be of quiet times.

    Attributes:
        rows: (n,) which of them are.
        last: Whether the row before them was.
    """

    rows: BoolArray
    last: bool


class Device(NamedTuple):
    """What is known of a device.

    Attributes:
        state: `LEARNING`, `NORMAL`, `CHANGED`, `QUIET`, `OFF`, `UNWATCHED` or `GONE`.
        rows: How many valid rows it has shown.
        time: Time of the newest of them, ns (of the first row, where there is none before it);
            None without times.
        since: Index of the row since when it is so; None if that is not known any more.
        since_time: That row's time, ns.
        episodes: How many episodes there were, the open one among them.
        episode: The one that is open, or has just ended; None if there is none.
        silent: Whether it is off since it sends nothing.
    """

    state: str
    rows: int
    time: int | None = None
    since: int | None = None
    since_time: int | None = None
    episodes: int = 0
    episode: Episode | None = None
    silent: bool = False

    def moved(self, rows: int) -> Device:
        """Return the line with so many rows added to every index."""
        return self.numbered(lambda row: row + rows)

    def numbered(self, number: Callable[[int], int]) -> Device:
        """Return the line with other indexes; `number` says which one a row has."""
        return self._replace(
            rows=number(self.rows - 1) + 1,
            since=None if self.since is None else number(self.since),
            episode=None if self.episode is None else self.episode.numbered(number),
        )


def channel_text(name: str, share: float, deviation: float | None) -> str:
    """Return a channel of an episode in words: its share, and how far it is above what is usual.

    Example:
        >>> channel_text("heat", 0.8, -3.2)
        'heat 80% (-3.2)'
    """
    shown = f"{name} {share:.0%}"
    return shown if deviation is None or np.isnan(deviation) else f"{shown} ({signed(deviation)})"


def new_device(work: Work, key: str, model: Model, time: int | None) -> Device:
    """Return what is known of a model that begins with a row of this time, ns."""
    known = known_of(work, key, model)
    return known._replace(time=time, since=known.rows, since_time=time)


def known_of(work: Work, key: str, model: Model) -> Device:
    """Return what is known of a model after its last row."""
    own, spec = model.reference, work.reference
    if own is None or spec is None:
        return Device(UNWATCHED, model.rows, model.time)
    state = Device(
        NORMAL if reference.may_be_off(spec, own) else LEARNING,
        model.rows,
        model.time,
        episodes=reference.episodes_of(own),
    )
    still, number = reference.open_episode(spec, own), numbering_of(own, model.rows).of
    if still is None:
        if reference.passed_last(own.tables.previous):
            return state._replace(state=QUIET)
        return _as_changed(state, reference.changed_since(own), number)
    still = still.numbered(number)
    since_time = None if model.time is None else still.times[0]
    within = _state_within(still)
    known = state._replace(state=within, since=still.start, since_time=since_time, episode=still)
    return judged(work, key, known)


def judged(work: Work, key: str, device: Device) -> Device:
    """Return a device's line as rules and feedback have it: with a muted episode it is not off."""
    if not work.mutes or device.episode is None:
        return device
    episode = work.judged(key, device.episode)
    state = NORMAL if device.state == OFF and episode.muted else device.state
    return device._replace(state=state, episode=episode)


def silent_of(known: Device) -> Device:
    """Return the line of a device that sends nothing: off since its last row, if not before."""
    if known.state == OFF:
        return known
    return known._replace(
        state=OFF, since=known.rows - 1, since_time=known.time, episode=None, silent=True
    )


def _changed_before(
    before: Before, found_episodes: Sequence[Episode], row: int
) -> tuple[int, int] | None:
    """Return since when the device has changed to stay, as of the rows before one."""
    over = [each for each in found_episodes if each.closed and each.row < row]
    if not over:
        return before.changed
    return None if over[-1].changed is None else (over[-1].changed, over[-1].changed_time)


def _as_changed(
    device: Device, since: tuple[int, int] | None, number: Callable[[int], int]
) -> Device:
    if since is None:
        return device
    since_time = None if device.time is None else since[1]
    return device._replace(state=CHANGED, since=number(since[0]), since_time=since_time)


def changes(
    spec: ReferenceSpec,
    before: Before,
    p: FloatArray,
    found_episodes: Sequence[Episode],
    again: Sequence[Episode],
    stamps: IntArray | None,
    *,
    passed: PassedBy | None = None,
    armed: int = 0,
) -> list[Device]:
    """Return what became of a device in rows that were held against its reference, in order.

    Args:
        spec: The reference's spec.
        before: What is known of the device before the rows.
        p: (n,) what it said of each of them, NaN where it was not made.
        found_episodes: Episodes that were opened or closed in them; indexes by the reference.
        again: Episodes as they are once they have been open for a while; see `reopened`.
        stamps: (n,) times, ns, None without.
        passed: Which rows passed it by; None: none did, nor did the one before them.
        armed: Of a reference that moves, after how many rows episodes may open, as of these rows.
    """
    first, has_time = int(before.counts[reference.SEEN]), stamps is not None
    was_quiet = passed is not None and passed.last
    if spec.moves:
        compared = np.ones(len(p), np.bool_) if passed is None else ~passed.rows
        seen = _compared_before(before.counts) + np.cumsum(compared) - compared
        made, speaks = (seen >= armed) & (armed > 0), compared & (seen == armed) & (armed > 0)
    else:
        made = ~np.isnan(p)
        last = bool(_scored_last(spec, before.counts)) and not was_quiet
        speaks = made & ~np.r_[last, made[:-1]]
    begins = dict.fromkeys(np.flatnonzero(speaks).tolist(), NORMAL)
    if passed is not None:
        begins = _with_quiet(before, made, passed, found_episodes, begins)
    many = int(before.counts[reference.EPISODES])
    lines = [_of_episode(each, has_time) for each in (*found_episodes, *again)]
    for place, state in begins.items():
        at = None if stamps is None else int(stamps[place])
        count = max([many, *(each.number for each in found_episodes if each.row < first + place)])
        row = first + place
        line = Device(state, row + 1, at, row, at, count)
        if state == NORMAL:
            since = _changed_before(before, found_episodes, row)
            line = _as_changed(line, since, lambda own: own)
        lines.append(line)
    # A reference that begins to speak comes before what it says after the same row.
    return sorted(lines, key=lambda line: (line.rows, line.episode is not None))


def _with_quiet(
    before: Before,
    made: BoolArray,
    passed: PassedBy,
    found_episodes: Sequence[Episode],
    begins: Mapping[int, str],
) -> dict[int, str]:
    """Return the rows' places with which states begin, those of quiet times and after them too.

    While an episode is open its device is off, quiet or not. `made`: whether rows have a reference.
    """
    first = int(before.counts[reference.SEEN])
    quiet, found = passed.rows, dict(begins)
    turns = np.flatnonzero(quiet != np.r_[passed.last, quiet[:-1]])
    for place in turns.tolist():
        found[place] = QUIET if quiet[place] else NORMAL if made[place] else LEARNING
    is_open = np.full(len(quiet), before.counts[reference.OPENED] >= 0)
    for each in found_episodes:
        is_open[each.row - first + 1 :] = not each.closed
    return {place: found[place] for place in sorted(found) if not is_open[place]}


def may_last(counts: IntArray, lengths: IntArray) -> BoolArray:
    """Return of which devices an episode that stays open may have a line in so many rows, (m,).

    Args:
        counts: (m, k) the references' counts before the rows.
        lengths: (m,) how many rows there are of each.
    """
    return (counts[:, reference.OPENED] >= 0) | (lengths > FIRST_AGAIN)


def may_begin(
    spec: ReferenceSpec,
    counts: IntArray,
    armed: IntArray,
    p: FloatArray,
    starts: IntArray,
    stops: IntArray,
) -> BoolArray:
    """Return which references may begin to speak in rows starts..stops - 1, (m,).

    Args:
        spec: Their spec.
        counts: (m, k) their counts before the rows.
        armed: (m,) as of `changes`.
        p: What they said of each row, NaN where it was not made.
        starts: (m,) place of each one's first row.
        stops: (m,) place after its last.
    """
    if spec.moves:
        began: BoolArray = (armed > 0) & (_compared_before(counts) <= armed)
        return began
    scored = np.concatenate([[0], np.cumsum(~np.isnan(p))])
    many = scored[stops] - scored[starts]
    last = _scored_last(spec, counts)
    begins: BoolArray = (many > 0) & ~(last & (many == stops - starts))
    return begins


def reopened(
    spec: ReferenceSpec,
    before: ReferenceState,
    rows: FloatArray,
    found_episodes: Sequence[Episode],
    stamps: IntArray | None,
    *,
    learn: bool,
    quiet: BoolArray,
    said: IntArray,
) -> list[Episode]:
    """Return episodes as they are at rows at which they have been open for a while.

    Args:
        spec: The reference's spec.
        before: The reference before the rows.
        rows: (n, D) the rows.
        found_episodes: Episodes that were opened or closed in them; indexes by the reference.
        stamps: (n,) times, ns, None without.
        learn: As of `reference.update`, as is `said`.
        quiet: (n,) which rows passed the reference by.
        said: See `learn`.
    """
    first = int(before.tables.counts[reference.SEEN])
    opened = {each.number: each.opened for each in found_episodes}
    if (since := reference.opened_at(before)) >= 0:
        opened[reference.episodes_of(before)] = since
    ends = {each.number: each.row for each in found_episodes if each.closed}
    places = []
    for number, row in opened.items():
        after = FIRST_AGAIN
        while row + after < ends.get(number, first + len(rows)):
            if row + after >= first:
                places.append(row + after - first)
            after *= AGAIN
    found, state, start = [], before, 0
    # Rare: the rows go through the reference once more, as far as is needed.
    for place in sorted(places):
        for begin, stop, passes in runs_of(quiet[start : place + 1]):
            part = slice(start + begin, start + stop)
            if passes:
                state = reference.pass_by(state, stop - begin)
                continue
            times = None if stamps is None else stamps[part]
            given = spec, state, rows[part], times
            state, _, _ = reference.update(*given, learn=learn, said=said)
        still, start = reference.open_episode(spec, state), place + 1
        if still is not None:
            found.append(still)
    return found


def _compared_before(counts: IntArray) -> IntArray:
    """Return how many rows references were held against, of counts (..., k)."""
    compared: IntArray = counts[..., reference.SEEN] - counts[..., reference.BEGAN]
    return compared


def _scored_last(spec: ReferenceSpec, counts: IntArray) -> BoolArray:
    """Return whether the row before these had a p; `counts`: (..., k) of references."""
    by_rows = (counts[..., reference.BEGAN] > 0) | (spec.until is None)
    at_once = by_rows & (_compared_before(counts) == spec.rows)
    made: BoolArray = (counts[..., reference.CALIBRATED] > 0) & ~at_once
    return made


def _state_within(episode: Episode) -> str:
    """Return the state of a device whose episode is open; one that recovered is not off."""
    return NORMAL if episode.kind == RECOVERED else OFF


def _of_episode(episode: Episode, has_time: bool) -> Device:
    """Return what an episode's line says of its device."""
    start, _, now, _ = episode.times
    if episode.closed:
        state, since, since_time = NORMAL, episode.row, now
        if episode.changed is not None:
            state, since, since_time = CHANGED, episode.changed, episode.changed_time
        if episode.accepted:
            state = LEARNING
    else:
        state, since, since_time = _state_within(episode), episode.start, start
    return Device(
        state,
        episode.row + 1,
        now if has_time else None,
        since,
        since_time if has_time else None,
        episode.number,
        episode,
    )
