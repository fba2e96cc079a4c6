"""A hall of presses that mould plastic: two shifts, products that change, tools that wear.

Presses work in two shifts on weekdays, but for a break in each; some Saturdays have an early shift
for some of them. At night their pumps stand and their barrels are kept warm; at weekends, and on
one weekday that is a holiday, all is off and cools down, until it is heated before Monday's first
shift. A press makes one of its three products for hours or days, each at its own pace, pressure
and heat; a change takes three quarters of an hour. Material comes in lots; a valve wears over some
130 hours of work and is then exchanged. Short stops come several times a day. Oil and cooling water
follow the work, the hall and the air outside, over hours. Values come in steps of their sensors,
and some rows are missing. One healthy press in five has a sensor exchanged.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.site_truth import (
    DAY,
    Calendar,
    Fault,
    Site,
    autoregression,
    clock,
    follow,
    put_together,
    rows_of,
    weekday_off,
    with_few_missing,
)
from kerneltrack.arrays import BoolArray, FloatArray, IntArray

CHANNELS = ("pressure", "cycle", "power", "oil", "barrel", "water", "vibration")
_STEPS = np.array([1.0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.01])
"""Of each channel's sensor: bar, seconds, kW, degrees Celsius, mm/s."""
SHOWN = {
    "pump_wear": ("vibration",),
    "leak": ("pressure",),
    "fouling": ("oil",),
    "frozen": ("oil",),
    "unsteady": ("pressure",),
    "surges": ("power",),
    "sensor_drift": ("water",),
    "left_on": ("power", "oil", "vibration"),
}
"""The channels that show a kind of fault."""
KINDS = tuple(SHOWN)
SUDDEN = {"leak", "frozen", "unsteady", "surges", "left_on"}
BEGIN = int(datetime.datetime(2026, 4, 13, tzinfo=datetime.timezone.utc).timestamp())
"""A Monday."""
_FIRST, _LAST, _SATURDAY = 6, 22, 12
"""Hours of a day's work, and when that of a Saturday ends."""
_BREAKS, _BREAK = (9.5, 18.0), 0.5
_HEATING = 2.5
"""Hours before the first shift in which barrels are heated after a day off."""
_OVERTIME, _TAKES_PART = 0.35, 0.5
"""Shares of Saturdays with work, and of the presses that work then."""
_SETUP, _OVERHAUL = 2700, 3600
"""Seconds of a change of product, and of an exchanged valve."""
_HOUR = 3600
_STOPS = 4
"""A day's work has as many short stops."""
_STANDBY, _PUMP = 150.0, 4.0
"""The barrel at night (degrees), and what a pump takes that does nothing (kW)."""
_AT_NIGHT = (1, 4)
"""Hours in which a pump runs that was left on."""
_EXCHANGED = 0.2
"""Share of whole presses that have a sensor exchanged."""


@dataclass(frozen=True)
class _Hall(Calendar):
    """What all presses share, by row."""

    outside: FloatArray
    air: FloatArray
    shift: BoolArray
    overtime: BoolArray
    pause: BoolArray


def _hall(rng: np.random.Generator, days: int, step: int) -> _Hall:
    times, hour, day = clock(BEGIN, days, step)
    number, holiday = day.astype(int), weekday_off(rng, days)
    front = autoregression(rng, len(times), float(np.exp(-step / 4e5)), 3.5)
    outside = 9 + 0.12 * day + 4.5 * np.sin(2 * np.pi * (hour - 9) / 24) + front
    off = (number % 7 > 4) | (number == holiday)
    pause = np.any([(hour >= begin) & (hour < begin + _BREAK) for begin in _BREAKS], axis=0)
    shift = ~off & (hour >= _FIRST) & (hour < _LAST)
    extra = rng.random(days) < _OVERTIME
    early = (hour >= _FIRST) & (hour < _SATURDAY)
    overtime = (number % 7 == 5) & early & extra[number]
    # The hall is heated to 17 degrees by day, and holds the air of outside for hours.
    warm = np.maximum(outside + 6 + 4 * shift, np.where(shift, 17.0, 12.0))
    air = follow(warm - warm[0], min(1.0, step / 9000)) + warm[0]
    return _Hall(step, times, hour, day, holiday, outside, air, shift, overtime, pause)


def _heated(wanted: FloatArray, air: FloatArray, step: int) -> FloatArray:
    """Return a barrel's temperature: heaters go fast and exactly, what is off cools slowly."""
    faster, slower = min(1.0, step / 700), min(1.0, step / 6000)
    value, values = float(air[0]), np.empty(len(wanted))
    for row, (wish, around) in enumerate(zip(wanted.tolist(), air.tolist(), strict=True)):
        if wish > value:
            value += faster * (wish - value)
        else:
            value = max(wish, value - slower * (value - around))
        values[row] = value
    return values


class _Press:
    """The rows of a press in the making: draws come in the order of the calls."""

    def __init__(self, rng: np.random.Generator, hall: _Hall, kind: str | None) -> None:
        self.rng, self.hall, self.kind = rng, hall, kind
        self.gain = np.exp(0.03 * rng.normal(size=len(CHANNELS)))
        self.size = np.exp(0.25 * rng.normal())
        self.cycles = rng.uniform(18, 45, 3)
        self.pressures = rng.uniform(80, 140, 3)
        self.heats = rng.uniform(200, 260, 3)
        self.overtime = bool(rng.random() < _TAKES_PART)
        self.since = int(hall.rows * rng.uniform(0.34, 0.75))
        self.on: BoolArray = np.arange(hall.rows) >= self.since
        self.left_on = self.on & (hall.hour > _AT_NIGHT[0]) & (hall.hour < _AT_NIGHT[1])

    def _noise(self, memory: float = 90) -> FloatArray:
        """Return noise with a memory in seconds."""
        rate = float(np.exp(-self.hall.step / memory))
        return autoregression(self.rng, self.hall.rows, rate, 1)

    def _parts(self, worked: FloatArray, least: float, most: float) -> tuple[IntArray, FloatArray]:
        """Cut the time worked into parts of so many hours, from within the first one on.

        Returns:
            The number of each row's part, and for how long it has gone on (seconds).
        """
        lengths = self.rng.uniform(least, most, int(worked[-1] / _HOUR / least) + 2) * _HOUR
        ends = np.cumsum(lengths) - lengths[0] * self.rng.random()
        number = np.searchsorted(ends, worked, side="right")
        return number, worked - np.append(ends[0] - lengths[0], ends)[number]

    def _stopped(self) -> BoolArray:
        """Return the rows of short stops, of 5 to 25 minutes."""
        hall, rng = self.hall, self.rng
        stopped = np.zeros(hall.rows, dtype=bool)
        often = _STOPS * hall.step / ((_LAST - _FIRST) * _HOUR)
        for row in np.flatnonzero(hall.shift & (rng.random(hall.rows) < often)):
            stopped[row : row + 1 + int(rng.uniform(300, 1500)) // hall.step] = True
        return stopped

    def run(self) -> None:
        """Make the channels of a whole press."""
        hall, step, rng = self.hall, self.hall.step, self.rng
        attended = hall.shift | (hall.overtime & self.overtime)
        worked = np.cumsum((attended & ~hall.pause) * float(step))
        job, made = self._parts(worked, 8, 50)
        product = rng.integers(3, size=job[-1] + 1)[job]
        lot, _ = self._parts(worked, 10, 30)
        worn, age = self._parts(worked, 110, 150)
        setup = (made < _SETUP) & (job > 0)
        overhaul = (age < _OVERHAUL) & (worn > 0)
        works = attended & ~hall.pause & ~self._stopped() & ~setup & ~overhaul
        pumps = attended | self.left_on if self.kind == "left_on" else attended
        # Kept warm at night; off from the end of the week's work until before the next begins.
        soon = np.zeros(hall.rows, dtype=bool)
        ahead = int(_HEATING * _HOUR) // step
        soon[:-ahead] = attended[ahead:]
        number = hall.day.astype(int)
        rests = ((number % 7 > 4) | (number == hall.holiday)) & ~attended & ~soon
        wanted = np.where(attended | soon, self.heats[product], np.where(rests, 0.0, _STANDBY))
        barrel = _heated(wanted, hall.air, step)
        # Plastic is thinner where it is hotter, and differs from lot to lot.
        thick = np.exp(0.02 * rng.normal(size=lot[-1] + 1)[lot])
        thick *= 1 - 0.004 * (barrel - self.heats[product]) * works
        wear = 0.04 * np.minimum(age / (130 * _HOUR), 1)
        pressure = self.pressures[product] * thick * (1 - wear)
        cycle = self.cycles[product] * (1 + 0.01 * self._noise(1800))
        work = 0.9 * self.size * pressure / self.cycles[product] * works
        pace = follow(work, min(1.0, step / 60))
        heaters = 0.02 * self.size * (barrel - hall.air) * (wanted > 0) + 0.5 * pace
        pumping = follow(pumps.astype(float), min(1.0, step / 60))
        power = 0.4 + heaters + _PUMP * self.size * pumping + 2.2 * pace
        # A tower cools the water, and the water the oil.
        load = follow(pumping * 0.3 + pace / (2.5 * self.size), min(1.0, step / 5000))
        tower = follow(hall.outside - hall.outside[0], min(1.0, step / 4000)) + hall.outside[0]
        water = np.maximum(tower * 0.6 + 8, 12) + 6 * load
        water = np.where(rests, 0.5 * (water + hall.air), water)
        water = follow(water - water[0], min(1.0, step / 1500)) + water[0]
        oil = hall.air + 0.25 * (water - hall.air) * load + 16 * load
        # From 45 degrees on a valve lets the more water through.
        oil = np.minimum(oil, 45 + 0.35 * (oil - 45))
        running = np.where(pumps, 0.5 + 0.6 * pace / (2.5 * self.size), 0.0)
        shaken = running * np.exp(0.1 * self._noise(60)) + 0.02
        columns = (
            np.where(works, pressure * (1 + 0.006 * self._noise()), np.where(pumps, 5.0, 0.0)),
            np.where(works, cycle, 0.0),
            power + 0.15 * self._noise() * (0.2 + pumping),
            oil + 0.25 * self._noise(600),
            barrel + 0.4 * self._noise(300),
            water + 0.2 * self._noise(600),
            shaken,
        )
        self.x = np.column_stack(columns)
        self.works, self.pumps, self.load, self.resting = works, pumps, load, rests
        self.setup = setup & attended

    def spoil(self) -> Fault | None:
        """Put the press's fault into its channels, if it has one."""
        kind, on, x, rng, works = self.kind, self.on, self.x, self.rng, self.works
        if kind is None:
            return None
        hall, rows = self.hall, self.hall.rows
        days = np.maximum(np.arange(rows) - self.since, 0) * hall.step / DAY
        shows = on & works
        if kind == "pump_wear":
            shows = on & self.pumps
            x[:, 6] += np.minimum(days / 6, 1) * 0.9 * self.pumps
        elif kind == "leak":
            x[:, 0] *= 1 - 0.1 * shows
        elif kind == "fouling":
            shows = on & (self.load > 0)
            x[:, 3] += np.minimum(days / 10, 1) * 5 * self.load
        elif kind == "frozen":
            x[on, 3] = x[self.since, 3]
            shows = on
        elif kind == "unsteady":
            x[:, 0] *= 1 + 0.04 * shows * rng.normal(size=rows)
        elif kind == "surges":
            # Four a day.
            shows &= rng.random(rows) < 4 * hall.step / DAY / works.mean()
            x[:, 2] += shows * 8 * self.size
        elif kind == "sensor_drift":
            x[:, 5] += np.minimum(days / 12, 1) * 5
            shows = on
        else:
            shows = self.left_on
        first = int(hall.times[np.flatnonzero(shows)[0]])
        since = int(hall.times[self.since])
        return Fault(kind, since, first, kind in SUDDEN, SHOWN[kind])

    def exchange(self) -> int | None:
        """Exchange the water's sensor of one press in five; return when."""
        if self.rng.random() >= _EXCHANGED:
            return None
        since = int(self.hall.rows * self.rng.uniform(0.5, 0.9))
        self.x[since:, 5] += 1.2
        return int(self.hall.times[since])

    def table(self, name: str) -> pa.Table:
        """Return the rows as the sensors have them."""
        hall = self.hall
        kept = with_few_missing(self.rng, hall.rows, hall.step)
        state: npt.NDArray[np.str_] = np.select(
            [self.works, self.setup, self.pumps, self.resting],
            ["work", "setup", "ready", "off"],
            "standby",
        )
        read = np.round(self.x * self.gain / _STEPS) * _STEPS
        channels = dict(zip(CHANNELS, read[kept].T, strict=True))
        channels["outside"] = np.round((hall.outside + 0.2 * self._noise())[kept], 1)
        return rows_of(name, hall.times[kept], channels, state[kept])


def make(seed: int, machines: int, days: int, step: int, broken: int) -> Site:
    """Make a site.

    Args:
        seed: All is drawn from it.
        machines: Presses.
        days: Of rows, from a Monday on, more than 35.
        step: Seconds from row to row.
        broken: Presses with a fault.
    """
    rng = np.random.default_rng(seed)
    hall = _hall(rng, days, step)
    which = rng.permutation(machines)[:broken]
    one = partial(_Press, rng, hall)
    return put_together(one, "k", machines, which, KINDS, CHANNELS, hall.holidays)
