"""Which devices differ, period by period, from their own past and from the fleet.

Of each number (level, movement, repeats) of each channel, by device n and period k:

    y_nk = T_nk - median of n's first days          from the device's own beginning
    d_nk = y_nk - median_n y_nk                     from the fleet's, of the same group
    m, s = median and deviation (1.4826 MAD) of d_n over the past's days, as of `device`
    z_nk = (d_nk - m) / max(√(max(s, ½ median_n s)² + a²), 1.4826 median_n |d_nk - m|)

so that what happens to all, weather, a holiday, a new batch, moves no device's z, and a period in
which all differ more than usual has a wider measure; a = .03 of level and movement, .05 of repeats
is never a difference. A device differs where z is beyond the limit in two of its periods running,
in the same number of the same channel and to the same side; its spell ends with the third period
running below half the limit. The channel that is named is that of the largest d - m of the number
with the largest z, among those beyond half the limit: of a change in one channel alone its own
residual is the furthest off, in its own deviations. In periods of fewer than five devices the
medians over n are those of before; in a group of fewer they are 0, and devices are held against
their own past alone.

A **common cause**: at least a quarter of a group, three devices of five at least, are further than
the limit beyond all of their past, to one side of the same number, by y alone, without the fleet.
Where it goes on over some periods it is one spell.

All of it follows from the devices' numbers by period, taken in the order of their ids, and changes
nothing of a device's own. Cost O(NKD · past), memory O(NKD).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from kerneltrack.arrays import BoolArray, FloatArray
from kerneltrack.monitor.periods.device import FEWEST_DAYS, NUMBERS, DeviceNumbers, beginning
from kerneltrack.monitor.periods.spec import DAY, PeriodsSpec

FEWEST = 5
"""Devices of a group that are a fleet."""
LEAST_COMMON = 3
COMMON_SHARE = 0.25
QUIET = 3
"""Periods below half the limit that end a spell."""
OPEN, CLOSED = "open", "closed"
_MAD = 1.4826
_LEAST_SPREAD = 0.5
_LEAST = (0.03, 0.03, 0.05)
"""What is never a difference, by number."""


class Spell(NamedTuple):
    """Periods in which a device, or many together, differed.

    Attributes:
        model: Whose; None: a common cause.
        group: Of which group; None without groups.
        start: Start of the first period, seconds of Unix time.
        noticed: End of the period that showed it.
        last: End of the last period beyond half the limit; of a common cause, beyond it.
        state: "open" or "closed".
        channel: Place of the channel that differs most.
        number: What of it: "level", "movement" or "repeats".
        up: Whether it is more than usual.
        score: The largest z in two periods running, of a common cause that of the median device.
        changed: Devices that differ, 1 for one device.
        of: Devices of the group that have the period.
    """

    model: str | None
    group: str | None
    start: int
    noticed: int
    last: int
    state: str
    channel: int
    number: str
    up: bool
    score: float
    changed: int
    of: int


def verdict(
    spec: PeriodsSpec, devices: Sequence[tuple[str, str | None, DeviceNumbers]]
) -> list[Spell]:
    """Return the spells of a fleet: common causes first, then devices, by group and time.

    Args:
        spec: The spec that the numbers were made with.
        devices: Ids, groups and numbers, in any order.
    """
    known = sorted((each for each in devices if len(each[2].period)), key=lambda each: each[0])
    spells: list[Spell] = []
    for group in sorted({each[1] or "" for each in known}):
        members = [each for each in known if (each[1] or "") == group]
        spells += _PeriodGroup(spec, members).spells()
    return sorted(spells, key=lambda spell: (spell.model is not None, spell.start))


class _PeriodGroup:
    """The devices of a group in a table of all its periods."""

    def __init__(
        self, spec: PeriodsSpec, members: list[tuple[str, str | None, DeviceNumbers]]
    ) -> None:
        self.spec = spec
        self.names = [name for name, _, _ in members]
        self.group = members[0][1]
        self.numbers = [numbers for _, _, numbers in members]
        self.period = np.unique(np.concatenate([each.period for each in self.numbers]))
        self.length = len(self.period)
        self.places = [np.searchsorted(self.period, each.period) for each in self.numbers]
        begin = [beginning(each.period, spec.first) for each in self.numbers]
        age = self.period[None, :] - np.array(begin)[:, None]
        self.early = (age >= 0) & (age < spec.first)
        shape = self.early.shape
        self.score, self.number = np.zeros(shape), np.zeros(shape, dtype=np.int8)
        # By number: the largest difference in its own unit, with its sign, and its channel.
        self.gap = np.zeros((len(NUMBERS), *shape))
        self.channel = np.zeros((len(NUMBERS), *shape), dtype=np.int32)
        self.present = np.zeros(shape, dtype=bool)
        # By period: devices that changed, of how many, the number and channel with the side as
        # its sign, and how far the median one changed, in deviations and in its own unit.
        self.shared = np.zeros((5, self.length))

    def spells(self) -> list[Spell]:
        """Return the group's spells."""
        width = self.numbers[0].values.shape[2]
        for number in range(len(NUMBERS)):
            for channel in range(width):
                self._add(number, channel, number * width + channel)
        devices = [spell for place in range(len(self.names)) for spell in self._of_device(place)]
        return [*self._of_all(width), *devices]

    def _table(self, number: int, channel: int) -> FloatArray:
        table = np.full(self.early.shape, np.nan)
        for row, places, each in zip(table, self.places, self.numbers, strict=True):
            row[places] = each.values[:, number, channel]
        return table

    def _add(self, number: int, channel: int, column: int) -> None:
        """Look at one number of one channel."""
        table = self._table(number, channel)
        own = table - median(np.where(self.early, table, np.nan))[:, None]
        fleet = np.isfinite(own).sum(axis=0) >= FEWEST
        z, gap = self._differences(own - _shared(own, fleet), _LEAST[number], fleet)
        self._keep_largest(z, gap, number, channel)
        beyond_all, gap = self._differences(own, _LEAST[number], np.zeros_like(fleet), beyond=True)
        self._count_common(beyond_all, gap, column)

    def _differences(
        self, values: FloatArray, least: float, fleet: BoolArray, beyond: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        """Return z of all devices and periods, NaN in first days, and the differences themselves.

        `fleet`: in which periods a wider spread of the fleet counts. `beyond`: from the past's
        nearest value, instead of from its median.
        """
        z, gaps = np.full((2, *values.shape), np.nan)
        for place, day in enumerate(self.period.tolist()):
            age = day - self.period
            past = values[:, (age > self.spec.delay) & (age <= self.spec.delay + self.spec.past)]
            centre = median(past)
            spread = _MAD * median(np.abs(past - centre[:, None]))
            spread[np.isfinite(past).sum(axis=1) < FEWEST_DAYS] = np.nan
            usual = float(median(spread[None, :])[0])
            spread = np.sqrt(np.maximum(spread, _LEAST_SPREAD * usual) ** 2 + least**2)
            gap = values[:, place] - centre
            if fleet[place]:
                wider = _MAD * float(median(np.abs(gap)[None, :])[0])
                spread = np.maximum(spread, wider) if np.isfinite(wider) else spread
            if beyond and past.shape[1]:
                low, high = np.fmin.reduce(past, axis=1), np.fmax.reduce(past, axis=1)
                gap = values[:, place] - np.clip(values[:, place], low, high)
            z[:, place], gaps[:, place] = gap / spread, gap
        return np.where(self.early, np.nan, z), gaps

    def _keep_largest(self, z: FloatArray, gap: FloatArray, number: int, channel: int) -> None:
        """Keep what is largest in two periods running."""
        before = np.full(len(z), np.nan)
        for place in range(self.length):
            now = z[:, place]
            known = np.isfinite(now)
            self.present[known, place] = True
            both = np.where(np.sign(now) == np.sign(before), np.fmin(abs(now), abs(before)), 0.0)
            both = np.where(known & np.isfinite(before), both, 0.0)
            larger = both > self.score[:, place]
            self.score[larger, place] = both[larger]
            self.number[larger, place] = number
            further = (both > self.spec.limit / 2) & (
                abs(gap[:, place]) > abs(self.gap[number, :, place])
            )
            self.gap[number, further, place] = gap[further, place]
            self.channel[number, further, place] = channel
            before = np.where(known, now, before)

    def _count_common(self, z: FloatArray, gap: FloatArray, column: int) -> None:
        """Count the devices beyond the limit to one side; keep the most, then the furthest."""
        of = np.isfinite(z).sum(axis=0)
        for side in (1, -1):
            beyond = side * z > self.spec.limit
            changed = beyond.sum(axis=0)
            enough = (changed >= LEAST_COMMON) & (changed >= COMMON_SHARE * of) & (of >= FEWEST)
            if not enough.any():
                continue
            size, far = (median(np.where(beyond, abs(each), np.nan).T) for each in (z, gap))
            known = self.shared
            more = (changed > known[0]) | ((changed == known[0]) & (far > known[4]))
            found = np.stack([changed, of, np.full(len(of), side * (column + 1.0)), size, far])
            self.shared = np.where(enough & more, found, known)

    def _begin(self, place: int) -> int:
        return int(self.period[place]) * DAY

    def _end(self, place: int) -> int:
        return self._begin(place) + DAY

    def _of_device(self, place: int) -> Iterator[Spell]:
        """Yield the spells of a device."""
        score, limit = self.score[place], self.spec.limit
        here = np.flatnonzero(self.present[place]).tolist()
        opened: list[int] = []
        quiet = 0
        for before, at in pairwise(here):
            if not opened and score[at] > limit:
                opened, quiet = [before, at], 0
            elif opened:
                quiet = quiet + 1 if score[at] < limit / 2 else 0
                opened.append(at)
                if quiet == QUIET:
                    yield self._spell(place, opened, CLOSED)
                    opened = []
        if opened:
            yield self._spell(place, opened, OPEN)

    def _spell(self, place: int, periods: list[int], state: str) -> Spell:
        score = self.score[place, periods]
        worst = periods[int(np.argmax(score))]
        last = [at for at, each in zip(periods, score, strict=True) if each >= self.spec.limit / 2][
            -1
        ]
        number = int(self.number[place, worst])
        return Spell(
            model=self.names[place],
            group=self.group,
            start=self._begin(periods[0]),
            noticed=self._end(periods[1]),
            last=self._end(last),
            state=state,
            channel=int(self.channel[number, place, worst]),
            number=NUMBERS[number],
            up=bool(self.gap[number, place, worst] > 0),
            score=float(score.max()),
            changed=1,
            of=int(self.present[:, periods[1]].sum()),
        )

    def _of_all(self, width: int) -> Iterator[Spell]:
        """Yield the common causes."""
        shared = np.flatnonzero(self.shared[0])
        for run in np.split(shared, np.flatnonzero(np.diff(shared) > 1) + 1):
            if not len(run):
                continue
            worst = int(run[np.argmax(self.shared[0, run])])
            changed, of, signed, size, _ = self.shared[:, worst].tolist()
            number, channel = divmod(abs(int(signed)) - 1, width)
            yield Spell(
                model=None,
                group=self.group,
                start=self._begin(int(run[0])),
                noticed=self._end(int(run[0])),
                last=self._end(int(run[-1])),
                state=OPEN if run[-1] == self.length - 1 else CLOSED,
                channel=channel,
                number=NUMBERS[number],
                up=signed > 0,
                score=size,
                changed=int(changed),
                of=int(of),
            )


def _shared(own: FloatArray, fleet: BoolArray) -> FloatArray:
    """Return the fleet's median by period; of too few devices that of the one before, or 0."""
    places = np.maximum.accumulate(np.where(fleet, np.arange(len(fleet)), -1))
    known = median(own.T)
    return np.where(places >= 0, known[places], 0.0)


def median(table: FloatArray) -> FloatArray:
    """Return the median of each row's numbers, NaN left out; NaN of a row without any.

    Example:
        >>> median(np.array([[3.0, np.nan, 1.0], [np.nan, np.nan, np.nan]])).tolist()
        [2.0, nan]
    """
    if not table.shape[1]:
        return np.full(len(table), np.nan)
    ordered = np.sort(table, axis=1)
    known = np.isfinite(table).sum(axis=1)
    rows = np.arange(len(table))
    low, high = (
        ordered[rows, np.maximum(known - 1, 0) // 2],
        ordered[rows, known // 2 % table.shape[1]],
    )
    return np.where(known > 0, (low + high) / 2, np.nan)
