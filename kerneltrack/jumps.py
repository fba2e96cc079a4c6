"""A device's clock that jumps: which rows move its time, which wait, which are refused.

A row is *ahead* if it is further than `max_jump` beyond the newest row that counts; so is every
row while none counts. A row ahead waits. Rows that wait form *groups*: neighbours in time within
`max_jump` of each other. A group counts once it has `jump_rows` rows: the device goes on in the new
time, and groups before it are refused. A row that is not ahead refutes the groups that it leaves
ahead: the device is still in its old time, so the clock that they came from was wild.

A device may send its rows further apart than `max_jump`: each is a group of its own then. So
`jump_rows` groups in a row count too (three at least), if the longest gap between them is at most
`MOST_RATIO` times the next longest, and the group after them has begun. From then on twice the
longest of these gaps is no jump.

For rows that come less than `max_jump` out of the order of time the outcome depends on their times
alone, not on the order in which they came: between a row that counts and one ahead there is more
than that. For rows further out of order, a wild one among them, it depends on what came before. How
rows are cut into calls never matters.

At most `jump_rows * (jump_rows + 1)` rows wait, or rows of as many times.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from typing import NamedTuple

import numpy as np

from kerneltrack.arrays import BoolArray, IntArray

MOST_RATIO = 10
LEAST_GROUPS = 3
"""Fewer groups have no two gaps to compare."""
_WINDOW = 4096
"""Rows that are looked at in one go."""
_BEFORE = -1
_LEAST = int(np.iinfo(np.int64).min)


@dataclasses.dataclass(frozen=True)
class JumpRule:
    """What is a jump, and what confirms it.

    Attributes:
        reach: Longest step of a device's time, ns, that is no jump; no less than the disorder, if
            rows come in another order than that of time.
        rows: Rows that confirm a jump.
        disorder: How far a row may be behind the newest one, ns, to tell that the device is still
            in its old time.
        times: Whether rows of one time confirm a jump as one row: they will be merged.
    """

    reach: int
    rows: int
    disorder: int = int(np.iinfo(np.int64).max)
    times: bool = False

    @property
    def groups(self) -> int:
        """Groups in a row that count."""
        return max(self.rows, LEAST_GROUPS)


class Standing(NamedTuple):
    """What the rows so far have shown.

    Attributes:
        newest: Greatest time, ns, of a row that counts; None before the first.
        reach: Longest step, ns, that the device's own rows have shown to be no jump.
        ahead: Times, ns, of the rows that wait, ascending.
    """

    newest: int | None = None
    reach: int = 0
    ahead: tuple[int, ...] = ()


class Judged(NamedTuple):
    """What became of n rows.

    Attributes:
        standing: After them.
        counts: (n,) rows that count.
        waits: (n,) rows that wait. Those that neither count nor wait are refused.
        was_ahead: (n,) rows that were ahead when they came, whatever became of them.
        floor: (n,) ns: when each row came, the newest time was this at least, by rows that had
            waited; the least number without such rows.
        refused: Times, ns, of rows that waited before and are refused now.
        refused_by: Of each the place of the row that showed it.
        gave_up: (n,) of rows that waited for others among these, and are refused, the place of the
            row that showed it; -1 of the others.
    """

    standing: Standing
    counts: BoolArray
    waits: BoolArray
    was_ahead: BoolArray
    floor: IntArray
    refused: tuple[int, ...]
    refused_by: tuple[int, ...]
    gave_up: IntArray


def judge(
    rule: JumpRule,
    standing: Standing,
    times: IntArray,
    usable: BoolArray | None = None,
    *,
    last: bool = False,
) -> Judged:
    """Look at rows in the order in which they come.

    Args:
        rule: What is a jump.
        standing: What the rows before them have shown.
        times: (n,) ns.
        usable: (n,) rows that the model can take; one that it cannot take is refused if it is
            ahead, and confirms nothing. None: all.
        last: Whether no more rows come: those that wait count or are refused now. If no row of the
            device counts, its largest group does, the newest of equals.

    Returns:
        What became of them.
    """
    judging = _Judging(rule, standing, np.ascontiguousarray(times))
    judging.run(usable)
    if last:
        judging.end()
    return judging.judged()


class _Judging:
    """One call of `judge`. A row that waits is (time, place); `_BEFORE` if it waited before."""

    def __init__(self, rule: JumpRule, standing: Standing, times: IntArray) -> None:
        self._rule, self._times = rule, times
        self._newest, self._learned = standing.newest, standing.reach
        self._ahead = [(time, _BEFORE) for time in standing.ahead]
        self._counts = np.ones(len(times), np.bool_)
        self._waits = np.zeros(len(times), np.bool_)
        self._was_ahead = np.zeros(len(times), np.bool_)
        self._gave_up = np.full(len(times), _BEFORE)
        # Place of the row that is looked at.
        self._now = _BEFORE
        self._raised: list[tuple[int, int]] = []
        self._refused: list[int] = []
        self._refused_by: list[int] = []

    @property
    def _span(self) -> int:
        return max(self._rule.reach, self._learned)

    def judged(self) -> Judged:
        floor = np.full(len(self._times), _LEAST)
        for place, newest in self._raised:
            # It grows: the last one for a place is the greatest.
            floor[place + 1 : place + 2] = newest
        np.maximum.accumulate(floor, out=floor)
        ahead = tuple(time for time, _ in self._ahead)
        return Judged(
            Standing(self._newest, self._learned, ahead),
            self._counts,
            self._waits,
            self._was_ahead,
            floor,
            tuple(self._refused),
            tuple(self._refused_by),
            self._gave_up,
        )

    def run(self, usable: BoolArray | None) -> None:
        times, place = self._times, 0
        while place < len(times):
            if self._newest is not None and not self._ahead:
                place += self._pass_over(self._newest, times[place : place + _WINDOW])
                if place == len(times) or not self._is_ahead(int(times[place])):
                    continue
            self._take(int(times[place]), place, usable is None or bool(usable[place]))
            place += 1

    def _is_ahead(self, time: int) -> bool:
        return self._newest is None or time - self._newest > self._span

    def _pass_over(self, newest: int, times: IntArray) -> int:
        """Return how many rows come before the first that is ahead, and take them in."""
        peaks = np.maximum.accumulate(np.maximum(times, newest))
        before = np.concatenate([np.array([newest]), peaks[:-1]])
        # As unsigned numbers no difference is too large.
        lead = times.view(np.uint64) - before.view(np.uint64)
        ahead = (times > before) & (lead > np.uint64(min(self._span, 2**64 - 1)))
        count = int(np.argmax(ahead)) if ahead.any() else len(times)
        if count:
            self._newest = int(peaks[count - 1])
        return count

    def _take(self, time: int, place: int, usable: bool) -> None:
        newest, self._now = self._newest, place
        if newest is not None and not self._is_ahead(time):
            if time >= newest - self._rule.disorder:
                self._newest = max(newest, time)
                self._reach_on(place)
                self._refuse(len(self._ahead))
            return
        self._counts[place] = False
        self._was_ahead[place] = True
        if usable:
            self._waits[place] = True
            at = bisect.bisect(self._ahead, (time, place))
            self._ahead.insert(at, (time, place))
            self._confirm(at, place)

    def _confirm(self, at: int, place: int) -> None:
        """See whether the row that has joined those that wait makes some of them count."""
        groups = self._groups()
        own = next(group for group in groups if group.start <= at < group.stop)
        if self._size(own) >= self._rule.rows:
            self._accept(own, place)
            return
        most = self._rule.groups
        if len(groups) <= most:
            return
        # The last may have more rows to come.
        settled = groups[-1 - most : -1]
        if self._are_even(settled):
            self._accept_even(settled, place)
        else:
            self._refuse(groups[-most].start)

    def end(self) -> None:
        groups, place, most = self._groups(), len(self._times), self._rule.groups
        self._now = place
        if len(groups) >= most and self._are_even(groups[-most:]):
            self._accept_even(groups[-most:], place)
        elif groups and self._newest is None:
            self._accept(max(reversed(groups), key=self._size), place)
        self._refuse(len(self._ahead))

    def _groups(self) -> list[range]:
        """Return the places of each group's rows among those that wait."""
        if not self._ahead:
            return []
        times = [time for time, _ in self._ahead]
        edges = [at for at in range(1, len(times)) if times[at] - times[at - 1] > self._span]
        return [range(*pair) for pair in itertools.pairwise([0, *edges, len(times)])]

    def _size(self, group: range) -> int:
        """Return how many rows a group has, as they confirm a jump."""
        return len({self._ahead[at][0] for at in group}) if self._rule.times else len(group)

    def _gaps(self, groups: list[range]) -> list[int]:
        """Return the gaps between groups, ns, the longest first."""
        return sorted(
            (
                self._ahead[after.start][0] - self._ahead[before.stop - 1][0]
                for before, after in itertools.pairwise(groups)
            ),
            reverse=True,
        )

    def _are_even(self, groups: list[range]) -> bool:
        longest, next_longest, *_ = self._gaps(groups)
        return longest <= MOST_RATIO * next_longest

    def _accept_even(self, groups: list[range], place: int) -> None:
        self._learned = max(self._learned, 2 * self._gaps(groups)[0])
        self._accept(range(groups[0].start, groups[-1].stop), place)

    def _accept(self, group: range, place: int) -> None:
        """Let a group count, and what its time comes to reach; refuse what is before it."""
        self._refuse(group.start)
        for _ in group:
            self._count_first(place)
        self._reach_on(place)

    def _reach_on(self, place: int) -> None:
        """Let rows count that are not ahead any more."""
        while self._ahead and not self._is_ahead(self._ahead[0][0]):
            self._count_first(place)

    def _count_first(self, place: int) -> None:
        """Let the first of the rows that wait count, once the row at this place has come."""
        time, own = self._ahead.pop(0)
        self._newest = time if self._newest is None else max(self._newest, time)
        self._raised.append((place, self._newest))
        if own != _BEFORE:
            self._counts[own], self._waits[own] = True, False

    def _refuse(self, count: int) -> None:
        """Refuse the first rows of those that wait."""
        for time, place in self._ahead[:count]:
            if place == _BEFORE:
                self._refused.append(time)
                self._refused_by.append(self._now)
            else:
                self._waits[place] = False
                if place != self._now:
                    self._gave_up[place] = self._now
        del self._ahead[:count]
