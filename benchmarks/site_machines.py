"""A site of machines that share weather and shifts, with modes, ageing, gaps, exchanged sensors.

Machines run in two shifts on weekdays and one on Saturdays, at one of three loads that change every
two hours, and rest an hour now and then. Temperatures follow the load over hours and the outside
temperature, which has days, a spring and a memory of a week. One weekday is a holiday: nothing
runs. One healthy machine in five has a sensor exchanged. Faults begin on day 20 to 45 of 60; kinds
come in turn, so that of eight broken machines each has another.
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
    without_gaps,
)
from kerneltrack.arrays import BoolArray, FloatArray

CHANNELS = ("temperature", "pressure", "flow", "current", "vibration", "oil")
SHOWN = {
    "bearing": ("vibration",),
    "leak": ("flow",),
    "fouling": ("temperature",),
    "stuck": ("pressure",),
    "imbalance": ("current",),
    "spikes": ("current",),
    "sensor_drift": ("pressure",),
    "mode": CHANNELS,
}
"""The channels that show a kind of fault."""
KINDS = tuple(SHOWN)
SUDDEN = {"leak", "stuck", "imbalance", "spikes", "mode"}
BEGIN = int(datetime.datetime(2026, 3, 2, tzinfo=datetime.timezone.utc).timestamp())
"""A Monday."""
_AT_NIGHT = (2, 4)
"""Hours in which a machine with the fault "mode" runs."""
_RESTS = 0.06
"""Share of hours in which a machine rests."""
_LEAST_LOAD = 0.05
_EXCHANGED = 0.2
"""Share of whole machines that have a sensor exchanged."""


@dataclass(frozen=True)
class _Shifts(Calendar):
    """What all machines share, by row."""

    outside: FloatArray
    shift: FloatArray


def _calendar(rng: np.random.Generator, days: int, step: int) -> _Shifts:
    times, hour, day = clock(BEGIN, days, step)
    weekday = day.astype(int) % 7
    season = 8 + 6 * np.sin(2 * np.pi * (hour - 9) / 24) + 0.12 * day
    outside = season + autoregression(rng, len(times), 1 - step / 6e5, 3.5)
    shift = ((hour >= 6) & (hour < 22) & (weekday < 5)).astype(float)
    shift += 0.8 * ((hour >= 6) & (hour < 14) & (weekday == 5))
    holiday = int(rng.integers(25, days - 5)) if days > 35 else None
    while holiday is not None and holiday % 7 > 4:
        holiday -= 1
    if holiday is not None:
        shift = np.where(day.astype(int) == holiday, 0.0, shift)
    return _Shifts(step, times, hour, day, holiday, outside, shift)


class _Machine:
    """The rows of a machine in the making: draws come in the order of the calls."""

    def __init__(self, rng: np.random.Generator, at: _Shifts, kind: str | None) -> None:
        self.rng, self.at, self.kind = rng, at, kind
        self.gain = 1 + 0.1 * rng.normal(size=6)
        per_hour = 3600 // at.step
        runs = np.repeat(rng.random(at.rows // per_hour + 1) > _RESTS, per_hour)[: at.rows]
        levels = rng.choice([0.6, 0.8, 1.0], at.rows // (2 * per_hour) + 1, p=[0.3, 0.5, 0.2])
        wanted = np.repeat(levels, 2 * per_hour)[: at.rows]
        self.target = runs * wanted * np.minimum(at.shift, 1)
        self.since = int(at.rows * (0.33 + 0.42 * rng.random()))
        self.on: BoolArray = np.arange(at.rows) >= self.since

    def _noise(self) -> FloatArray:
        """Return noise with a memory of two minutes, whatever the step."""
        return autoregression(self.rng, self.at.rows, float(np.exp(-self.at.step / 120)), 1)

    @property
    def at_night(self) -> BoolArray:
        return self.on & (self.at.hour > _AT_NIGHT[0]) & (self.at.hour < _AT_NIGHT[1])

    def run(self) -> None:
        """Make the channels of a whole machine."""
        at = self.at
        if self.kind == "mode":
            self.target = np.where(self.at_night, 0.8, self.target)
        load = np.maximum(follow(self.target, min(1.0, at.step / 500)), 0)
        load = np.where(load > _LEAST_LOAD, np.maximum(load + 0.02 * self._noise(), 0), load)
        heat = follow(load, min(1.0, at.step / 1e4))
        temperature = 20 + 0.5 * at.outside + 25 * heat + 0.3 * self._noise()
        pressure = 2 + 3 * load**0.7 + 0.05 * self._noise()
        flow = 12 * load + 0.15 * self._noise() * (0.2 + load)
        drawn = 9 * load**1.3 * (1 + 0.002 * (temperature - 30))
        current = 1 + drawn + 0.1 * self._noise() * (0.3 + load)
        ageing = 1 + 0.0025 * at.day * self.rng.random() * 2
        vibration = (0.2 + 1.1 * load**2) * np.exp(0.15 * self._noise()) * ageing
        oil = 30 + 0.6 * (temperature - 30) + 0.2 * self._noise()
        columns = [temperature, pressure, flow, current, vibration, oil]
        self.x = np.column_stack(columns) * self.gain + self.rng.normal(size=6)
        self.load, self.heat, self.busy = load, heat, load > _LEAST_LOAD

    def spoil(self) -> Fault | None:
        """Put the machine's fault into its channels, if it has one."""
        kind, on, x, load, rng = self.kind, self.on, self.x, self.load, self.rng
        if kind is None:
            return None
        days = np.maximum(np.arange(self.at.rows) - self.since, 0) * self.at.step / DAY
        shows = on
        if kind == "bearing":
            x[:, 4] += np.minimum(days / 5, 1) * 0.8 * (0.2 + load)
        elif kind == "leak":
            shows = on & self.busy
            x[:, 2] -= on * 1.2 * load * self.gain[2]
        elif kind == "fouling":
            x[:, 0] += np.minimum(days / 10, 1) * 20 * self.heat
        elif kind == "stuck":
            x[on, 1] = x[self.since, 1]
        elif kind == "imbalance":
            shows = on & self.busy
            x[:, 3] += on * rng.normal(size=self.at.rows) * 0.8 * self.busy
        elif kind == "spikes":
            # Three a day.
            shows = on & (rng.random(self.at.rows) < 0.12 * self.at.step / 3600)
            x[:, 3] += shows * 6
        elif kind == "sensor_drift":
            x[:, 1] += np.minimum(days / 15, 1) * 1.5
        else:
            shows = self.at_night
        first = int(self.at.times[np.flatnonzero(shows)[0]])
        since = int(self.at.times[self.since])
        return Fault(kind, since, first, kind in SUDDEN, SHOWN[kind])

    def exchange(self) -> int | None:
        """Exchange the sensor of one machine in five; return when."""
        if self.rng.random() >= _EXCHANGED:
            return None
        since = int(self.at.rows * (0.5 + 0.4 * self.rng.random()))
        self.x[since:, 5] += 1.0
        return int(self.at.times[since])

    def table(self, name: str) -> pa.Table:
        kept = without_gaps(self.rng, self.at.rows, self.at.step)
        state: npt.NDArray[np.str_] = np.where(self.busy, "run", "idle")
        channels = dict(zip(CHANNELS, self.x[kept].T, strict=True))
        channels["outside"] = (self.at.outside + 0.2 * self._noise())[kept]
        return rows_of(name, self.at.times[kept], channels, state[kept])


def make(seed: int, machines: int, days: int, step: int, broken: int) -> Site:
    """Make a site.

    Args:
        seed: All is drawn from it.
        machines: How many.
        days: Of rows, from a Monday on; a holiday lies in more than 35.
        step: Seconds from row to row; 3,600 is a multiple of it.
        broken: Machines with a fault.
    """
    rng = np.random.default_rng(seed)
    at = _calendar(rng, days, step)
    which = rng.choice(machines, broken, replace=False)
    one = partial(_Machine, rng, at)
    return put_together(one, "m", machines, which, KINDS, CHANNELS, at.holidays)
