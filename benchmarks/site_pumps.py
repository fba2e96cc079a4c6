"""A site of water pumps, made apart from that of `site_machines`: other causes, modes and faults.

A town's demand has two peaks a day, later and lower at weekends, and wanders from day to day. Each
pump follows its share of it in three stages with hysteresis, is on duty every other week, and is
flushed for twenty minutes every third night. Speed makes flow and heads by a pump's curve, power by
the cube, a bearing's temperature by power over an hour and by the air outside. One weekday is a
holiday, with the demand of a Sunday in winter. One healthy pump in five has a sensor exchanged.
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
    without_gaps,
)
from kerneltrack.arrays import BoolArray, FloatArray, IntArray

CHANNELS = ("suction", "discharge", "flow", "power", "bearing", "vibration")
SHOWN = {
    "cavitation": ("vibration",),
    "clogging": ("suction",),
    "slip": ("flow",),
    "frozen": ("discharge",),
    "hot_bearing": ("bearing",),
    "offset": ("suction",),
    "surges": ("power",),
    "cycling": CHANNELS,
}
"""The channels that show a kind of fault."""
KINDS = tuple(SHOWN)
SUDDEN = {"cavitation", "slip", "frozen", "offset", "surges", "cycling"}
BEGIN = int(datetime.datetime(2026, 9, 7, tzinfo=datetime.timezone.utc).timestamp())
"""A Monday."""
_SPEEDS = np.array([0.0, 0.65, 0.95])
_RISES, _FALLS = np.array([0.35, 0.75]), np.array([0.25, 0.62])
"""Where a pump goes up to the next stage, and back."""
_FLUSH = 20 * 60
"""Seconds of a flush."""
_STILL, _TURNS, _FAST = 0.02, 0.1, 0.8
"""Speeds: up to the first a pump stands, above the second it works, above the third it shakes."""
_EXCHANGED = 0.2
"""Share of whole pumps that have a sensor exchanged."""


@dataclass(frozen=True)
class _Town(Calendar):
    """What all pumps share, by row."""

    outside: FloatArray
    demand: FloatArray


def _peak(hour: FloatArray, at: float, width: float) -> FloatArray:
    return np.exp(-0.5 * (((hour - at + 12) % 24 - 12) / width) ** 2)


def _town(rng: np.random.Generator, days: int, step: int) -> _Town:
    times, hour, day = clock(BEGIN, days, step)
    number = day.astype(int)
    holiday = weekday_off(rng, days)
    rest = (number % 7 > 4) | (number == holiday)
    weekday = 0.15 + 0.7 * _peak(hour, 7, 1.3) + 0.55 * _peak(hour, 19, 2.2)
    weekend = 0.15 + 0.55 * _peak(hour, 10, 2.2) + 0.45 * _peak(hour, 19, 2.6)
    demand = np.where(rest, weekend, weekday) * np.where(number == holiday, 0.7, 1.0)
    demand *= np.exp(autoregression(rng, len(times), 1 - step / 3e5, 0.08))
    front = autoregression(rng, len(times), 1 - step / 4e5, 2.5)
    outside = 16 - 0.1 * day + 4 * np.sin(2 * np.pi * (hour - 10) / 24) + front
    return _Town(step, times, hour, day, holiday, outside, demand)


def _stages(wanted: FloatArray) -> IntArray:
    """Return the stage of each row: up where the wish passes a rise, back below the fall."""
    stage, stages = 0, np.empty(len(wanted), dtype=np.int64)
    for row, wish in enumerate(wanted.tolist()):
        if stage < len(_RISES) and wish > _RISES[stage]:
            stage += 1
        elif stage > 0 and wish < _FALLS[stage - 1]:
            stage -= 1
        stages[row] = stage
    return stages


class _Pump:
    """The rows of a pump in the making: draws come in the order of the calls."""

    def __init__(self, rng: np.random.Generator, town: _Town, kind: str | None) -> None:
        self.rng, self.town, self.kind = rng, town, kind
        self.gain = np.exp(0.1 * rng.normal(size=len(CHANNELS)))
        self.duty = int(rng.integers(2))
        self.flush_day = int(rng.integers(3))
        self.flush_hour = 1 + 3 * rng.random()
        self.since = int(town.rows * rng.uniform(0.34, 0.75))
        self.on: BoolArray = np.arange(town.rows) >= self.since
        self.at_night = self.on & (town.hour > 1) & (town.hour < 5)

    def _noise(self, memory: float = 90) -> FloatArray:
        """Return noise with a memory in seconds."""
        rate = float(np.exp(-self.town.step / memory))
        return autoregression(self.rng, self.town.rows, rate, 1)

    def run(self) -> None:
        """Make the channels of a whole pump."""
        town = self.town
        on_duty = (town.day // 7).astype(int) % 2 == self.duty
        share = np.where(on_duty, 1.0, 0.55) * (1 + 0.06 * self._noise(1800))
        stage = _stages(town.demand * share)
        if self.kind == "cycling":
            stage = np.where(self.at_night, (town.times // 600) % 2 * 2, stage)
        flushed = (town.day.astype(int) % 3 == self.flush_day) & (
            np.abs(town.hour - self.flush_hour) < _FLUSH / 7200
        )
        speed = follow(_SPEEDS[np.where(flushed, 2, stage)], min(1.0, town.step / 150))
        speed = np.where(speed > _STILL, speed * (1 + 0.004 * self._noise()), 0.0)
        flow = 100 * speed * (1 - 0.15 * town.demand) * np.where(flushed, 0.4, 1.0)
        level = 0.25 * np.sin(2 * np.pi * (town.hour - 3) / 24) - 0.15 * town.demand
        suction = 2.2 + level - 0.3 * (flow / 100) ** 2
        discharge = suction + 6.5 * speed**2 - 1.2 * (flow / 100) ** 2 + 0.8 * flushed
        power = 2 + 75 * speed**3 * (0.7 + 0.3 * flow / 100)
        heat = follow(power, min(1.0, town.step / 4500))
        bearing = 14 + 0.7 * town.outside + 0.35 * heat
        shaken = (0.15 + 1.6 * speed**2) * np.exp(0.2 * self._noise(60))
        vibration = shaken * (1 + 0.002 * self.rng.random() * town.day)
        pace = 0.15 + speed
        columns = (
            suction + 0.02 * self._noise(),
            discharge + 0.05 * self._noise() * pace,
            flow + 0.9 * self._noise() * pace,
            power + 0.6 * self._noise() * pace,
            bearing + 0.25 * self._noise(),
            vibration,
        )
        self.x = np.column_stack(columns) * self.gain
        self.speed, self.flow, self.stage = speed, flow, stage

    def spoil(self) -> Fault | None:
        """Put the pump's fault into its channels, if it has one."""
        kind, on, x, rng, gain = self.kind, self.on, self.x, self.rng, self.gain
        if kind is None:
            return None
        busy, rows = self.speed > _TURNS, self.town.rows
        days = np.maximum(np.arange(rows) - self.since, 0) * self.town.step / DAY
        shows = on
        if kind == "cavitation":
            shows = on & (self.speed > _FAST)
            x[:, 5] += shows * 1.2 * rng.random(rows) * gain[5]
        elif kind == "clogging":
            x[:, 0] -= np.minimum(days / 8, 1) * 0.5 * (self.flow / 100) * gain[0]
        elif kind == "slip":
            shows = on & busy
            x[:, 2] -= shows * 0.08 * self.flow * gain[2]
        elif kind == "frozen":
            x[on, 1] = x[self.since, 1]
        elif kind == "hot_bearing":
            x[:, 4] += np.minimum(days / 8, 1) * 8 * busy * gain[4]
        elif kind == "offset":
            x[:, 0] += on * 0.25 * gain[0]
        elif kind == "surges":
            # Four a day.
            shows = on & busy & (rng.random(rows) < 4 * self.town.step / DAY / busy.mean())
            x[:, 3] += shows * 25 * gain[3]
        else:
            shows = self.at_night
        first = int(self.town.times[np.flatnonzero(shows)[0]])
        since = int(self.town.times[self.since])
        return Fault(kind, since, first, kind in SUDDEN, SHOWN[kind])

    def exchange(self) -> int | None:
        """Exchange the sensor of one pump in five; return when."""
        if self.rng.random() >= _EXCHANGED:
            return None
        since = int(self.town.rows * self.rng.uniform(0.5, 0.9))
        self.x[since:, 0] += 0.3
        return int(self.town.times[since])

    def table(self, name: str) -> pa.Table:
        kept = without_gaps(self.rng, self.town.rows, self.town.step)
        state: npt.NDArray[np.str_] = np.array(["off", "low", "high"])[self.stage]
        channels = dict(zip(CHANNELS, self.x[kept].T, strict=True))
        channels["outside"] = (self.town.outside + 0.2 * self._noise())[kept]
        return rows_of(name, self.town.times[kept], channels, state[kept])


def make(seed: int, machines: int, days: int, step: int, broken: int) -> Site:
    """Make a site.

    Args:
        seed: All is drawn from it.
        machines: Pumps.
        days: Of rows, from a Monday on, more than 35.
        step: Seconds from row to row.
        broken: Pumps with a fault.
    """
    rng = np.random.default_rng(seed)
    town = _town(rng, days, step)
    which = rng.permutation(machines)[:broken]
    one = partial(_Pump, rng, town)
    return put_together(one, "p", machines, which, KINDS, CHANNELS, town.holidays)
