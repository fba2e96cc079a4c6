"""A park of wind turbines: the wind is the cause, and what follows it is no line.

Wind has gusts, fronts of a day and quiet days. A turbine starts above a mean wind, gives power by a
curve up to its rated one, turns its blades out of the wind beyond and stands still in a storm until
that is over. It is turned into the wind in steps. Temperatures of gearbox, bearing and nacelle
follow load and air, over hours. On Sundays, and on one weekday that is a holiday, the grid takes
less at noon; most turbines have five hours of service every third week. Values come in steps of
their sensors, and some rows are missing. One healthy turbine in five has a sensor exchanged.
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
from kerneltrack.arrays import BoolArray, FloatArray

CHANNELS = ("power", "rotor", "pitch", "gearbox", "bearing", "nacelle", "yaw")
_STEPS = np.array([1.0, 0.02, 0.1, 0.1, 0.1, 0.1, 0.5])
"""Of each channel's sensor: kW, rounds a minute, degrees, and degrees Celsius."""
SHOWN = {
    "gear_wear": ("gearbox",),
    "hot_bearing": ("bearing",),
    "soiling": ("power",),
    "misaligned": ("yaw",),
    "frozen": ("nacelle",),
    "derated": ("power",),
    "dips": ("power",),
    "stops": CHANNELS,
}
"""The channels that show a kind of fault."""
KINDS = tuple(SHOWN)
SUDDEN = {"misaligned", "frozen", "derated", "dips", "stops"}
BEGIN = int(datetime.datetime(2026, 1, 5, tzinfo=datetime.timezone.utc).timestamp())
"""A Monday."""
_CUT_IN, _CUT_OUT, _RATED = (2.7, 3.5), (20.0, 24.0), 12.0
"""Winds, m/s: below the first a turbine stops, above the second it starts; above the fourth it
stops in a storm, below the third it starts again; that of the rated power."""
_POWER = 2000.0
_NOON = 0.35
"""Part of the rated power that the grid takes at noon of a Sunday."""
_DERATED = 0.6
_SERVICE = 5
"""Hours."""
_LEAST_LOAD, _TURNING = 0.1, 0.02
"""Of the rated power: from which on it may dip, and what shows that a turbine should run."""
_EXCHANGED = 0.2
"""Share of whole turbines that have a sensor exchanged."""


@dataclass(frozen=True)
class _Park(Calendar):
    """What all turbines share, by row."""

    wind: FloatArray
    air: FloatArray
    limited: BoolArray


def _park(rng: np.random.Generator, days: int, step: int) -> _Park:
    times, hour, day = clock(BEGIN, days, step)
    number = day.astype(int)
    holiday = weekday_off(rng, days)
    fronts = autoregression(rng, len(times), float(np.exp(-step / 1e5)), 0.45)
    hours = autoregression(rng, len(times), float(np.exp(-step / 5e3)), 0.13)
    wind = 7.2 * np.exp(fronts + hours) * (1 + 0.06 * np.sin(2 * np.pi * (hour - 8) / 24))
    air = 3 + 0.1 * day + 3 * np.sin(2 * np.pi * (hour - 9) / 24)
    air += autoregression(rng, len(times), float(np.exp(-step / 4e5)), 4)
    rest = (number % 7 == 6) | (number == holiday)
    limited = rest & (abs(hour - 13) < 2)
    return _Park(step, times, hour, day, holiday, wind, air, limited)


def _running(wind: FloatArray) -> BoolArray:
    """Return whether a turbine runs, by row, which depends on whether it did."""
    runs, stormy, all_rows = False, False, np.empty(len(wind), dtype=bool)
    for row, speed in enumerate(wind.tolist()):
        stormy = speed > _CUT_OUT[stormy ^ True]
        runs = not stormy and speed > _CUT_IN[runs ^ True]
        all_rows[row] = runs
    return all_rows


class _Turbine:
    """The rows of a turbine in the making: draws come in the order of the calls."""

    def __init__(self, rng: np.random.Generator, park: _Park, kind: str | None) -> None:
        self.rng, self.park, self.kind = rng, park, kind
        self.gain = np.exp(0.03 * rng.normal(size=len(CHANNELS)))
        self.place = np.exp(0.06 * rng.normal())
        self.service = int(rng.integers(21))
        self.since = int(park.rows * rng.uniform(0.34, 0.75))
        self.on: BoolArray = np.arange(park.rows) >= self.since

    def _noise(self, memory: float = 90) -> FloatArray:
        """Return noise with a memory in seconds."""
        rate = float(np.exp(-self.park.step / memory))
        return autoregression(self.rng, self.park.rows, rate, 1)

    def _serviced(self) -> BoolArray:
        """Return the rows of a service, hours on a weekday each third week."""
        day = self.park.day.astype(int)
        due = (day % 21 == self.service) & (day % 7 < 5)
        return np.asarray(due & (np.abs(self.park.hour - 11.5) < _SERVICE / 2))

    def run(self) -> None:
        """Make the channels of a whole turbine."""
        park, step = self.park, self.park.step
        wind = park.wind * self.place * np.exp(0.05 * self._noise(1200))
        mean = follow(wind - wind[0], min(1.0, step / 600)) + wind[0]
        runs, serviced = _running(mean), self._serviced()
        if self.kind == "stops":
            runs &= ~(self.on & (park.hour > 1) & (park.hour < 4))
        runs &= ~serviced
        blown = wind * np.exp(0.04 * self._noise(60))
        most = np.where(park.limited, _NOON, 1.0)
        if self.kind == "derated":
            most = np.where(self.on, np.minimum(most, _DERATED), most)
        # Near the rated wind the curve is round.
        curve = (np.maximum(blown - 2.5, 0) / (_RATED - 2.5)) ** 2.4
        given = curve / (1 + curve**6) ** (1 / 6)
        wanted = np.where(runs, np.minimum(given, most), 0.0)
        load = follow(wanted, min(1.0, step / 60))
        turns = np.where(runs, 6 + 9 * np.clip((blown - 3) / 6.5, 0, 1), 0.0)
        rotor = follow(turns, min(1.0, step / 60))
        spilt = np.sqrt(np.maximum(curve / np.maximum(most, 0.1) - 1, 0)) * 7
        pitch = follow(np.where(runs, np.minimum(spilt, 24), 88.0), min(1.0, step / 60))
        # A part of the air's changes comes through the nacelle's hull at once.
        nacelle = follow(park.air + 9 * load + 4, min(1.0, step / 2400))
        gearbox = 22 + 0.35 * nacelle + 34 * follow(load**0.8, min(1.0, step / 7200))
        bearing = 16 + 0.6 * nacelle + 1.3 * follow(rotor, min(1.0, step / 4500))
        # It is turned when the wind has turned some degrees.
        aside = 4 * self._noise(900) * np.minimum(1, 6 / np.maximum(mean, 1))
        self.x = np.column_stack(
            (
                _POWER * load - 12 + 4 * self._noise() * (0.5 + load),
                rotor + 0.06 * self._noise() * (rotor > 1),
                pitch + 0.15 * self._noise() * runs,
                gearbox + 0.25 * self._noise(600),
                bearing + 0.25 * self._noise(600),
                nacelle + 0.3 * self._noise(600),
                aside + 1.5 * self._noise(),
            )
        )
        self.load, self.rotor, self.runs = load, rotor, runs
        self.able = given
        self.state = np.where(serviced, "service", np.where(runs, "run", "wait"))

    def spoil(self) -> Fault | None:
        """Put the turbine's fault into its channels, if it has one."""
        kind, on, x, rng, load = self.kind, self.on, self.x, self.rng, self.load
        if kind is None:
            return None
        rows = self.park.rows
        days = np.maximum(np.arange(rows) - self.since, 0) * self.park.step / DAY
        shows = on
        if kind == "gear_wear":
            x[:, 3] += np.minimum(days / 8, 1) * 9 * load
        elif kind == "hot_bearing":
            x[:, 4] += np.minimum(days / 6, 1) * 8 * self.rotor / 15
        elif kind == "soiling":
            x[:, 0] -= np.minimum(days / 8, 1) * 0.15 * _POWER * load
        elif kind == "misaligned":
            x[:, 6] += on * 9
        elif kind == "frozen":
            x[on, 5] = x[self.since, 5]
        elif kind == "derated":
            shows = on & self.runs & (self.able > _DERATED)
        elif kind == "dips":
            # Four a day.
            often = 4 * self.park.step / DAY / self.runs.mean()
            shows = on & self.runs & (load > _LEAST_LOAD) & (rng.random(rows) < often)
            x[:, 0] -= shows * (150 + 0.5 * _POWER * load)
        else:
            shows = on & (self.park.hour > 1) & (self.park.hour < 4) & (self.able > _TURNING)
        first = int(self.park.times[np.flatnonzero(shows)[0]])
        since = int(self.park.times[self.since])
        return Fault(kind, since, first, kind in SUDDEN, SHOWN[kind])

    def exchange(self) -> int | None:
        """Exchange the bearing's sensor of one turbine in five; return when."""
        if self.rng.random() >= _EXCHANGED:
            return None
        since = int(self.park.rows * self.rng.uniform(0.5, 0.9))
        self.x[since:, 4] += 2.0
        return int(self.park.times[since])

    def table(self, name: str) -> pa.Table:
        """Return the rows as the sensors have them."""
        kept = with_few_missing(self.rng, self.park.rows, self.park.step)
        state: npt.NDArray[np.str_] = self.state
        read = np.round(self.x * self.gain / _STEPS) * _STEPS
        channels = dict(zip(CHANNELS, read[kept].T, strict=True))
        # The park's mast, whose wind is not quite that of a turbine.
        mast = self.park.wind * np.exp(0.02 * self._noise())
        channels["outside"] = np.round(mast[kept], 1)
        return rows_of(name, self.park.times[kept], channels, state[kept])


def make(seed: int, machines: int, days: int, step: int, broken: int) -> Site:
    """Make a site.

    Args:
        seed: All is drawn from it.
        machines: Turbines.
        days: Of rows, from a Monday on, more than 35.
        step: Seconds from row to row.
        broken: Turbines with a fault.
    """
    rng = np.random.default_rng(seed)
    park = _park(rng, days, step)
    which = rng.permutation(machines)[:broken]
    one = partial(_Turbine, rng, park)
    return put_together(one, "t", machines, which, KINDS, CHANNELS, park.holidays)
