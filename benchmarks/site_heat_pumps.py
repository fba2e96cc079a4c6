"""Heat pumps of offices, in autumn: the outside temperature is the cause, and they go on and off.

A heat pump keeps a tank within some degrees of what the heating curve asks for at the outside
temperature: on below, off above, so that it runs for minutes on a mild day and for hours on a cold
one. Nights, weekends and a holiday ask for less. It heats water twice a day, thaws its evaporator
when that has frozen, and gives no heat to rooms while days are warm. Values come in steps of their
sensors, and some rows are missing. One healthy heat pump in five has a sensor exchanged.
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

CHANNELS = ("supply", "return", "evaporator", "power", "flow", "pressure")
_STEPS = np.array([0.1, 0.1, 0.1, 0.01, 0.1, 0.05])
"""Of each channel's sensor: degrees Celsius, kW, litres a minute, bar."""
SHOWN = {
    "refrigerant": ("evaporator",),
    "fouling": ("pressure",),
    "weak_flow": ("flow", "return", "supply"),
    "frozen": ("supply",),
    "offset": ("return",),
    "heater": ("power",),
    "surges": ("power",),
    "cycling": CHANNELS,
}
"""The channels that show a kind of fault."""
KINDS = tuple(SHOWN)
SUDDEN = {"weak_flow", "frozen", "offset", "heater", "surges", "cycling"}
BEGIN = int(datetime.datetime(2026, 9, 28, tzinfo=datetime.timezone.utc).timestamp())
"""A Monday."""
OFF, HEAT, WATER, THAW = range(4)
_STATES = np.array(["off", "heat", "water", "thaw"])
_INNER = 60
"""Seconds from one step of the control to the next, at most."""
_LEAST_ON, _LEAST_OFF = 480.0, 480.0
_FROST, _THAW = 3000.0, 300.0
"""Seconds that a heat pump runs in the cold until it thaws, and those of that."""
_BAND = 2.5
_WATER, _DUE = 52.0, 0.1
_EXCHANGED = 0.2
"""Share of whole heat pumps that have a sensor exchanged."""


@dataclass(frozen=True)
class _Town(Calendar):
    """What all heat pumps share: by row, and by step of the control."""

    inner: int
    outside: FloatArray
    warm: BoolArray
    used: BoolArray

    @property
    def each(self) -> int:
        """Steps of the control a row."""
        return self.step // self.inner

    @property
    def rows(self) -> int:
        return len(self.times) // self.each


def _town(rng: np.random.Generator, days: int, step: int) -> _Town:
    inner = _INNER if step % _INNER == 0 else step
    times, hour, day = clock(BEGIN, days, inner)
    number = day.astype(int)
    holiday = weekday_off(rng, days)
    steps, sun = len(times), 3.5 * np.sin(2 * np.pi * (hour - 9) / 24)
    outside = 14 - 0.2 * day + sun + autoregression(rng, steps, float(np.exp(-inner / 3e5)), 3)
    # Summer goes by the mean of two days, with a degree between its begin and its end.
    mean = follow(outside - outside[0], inner / (2 * DAY)) + outside[0]
    warm = np.empty(steps, dtype=bool)
    held = False
    for at, value in enumerate(mean.tolist()):
        held = value > (15.0 if held else 16.0)
        warm[at] = held
    rest = (number % 7 > 4) | (number == holiday)
    used = ~rest & (hour >= 5) & (hour < 19)
    return _Town(step, times, hour, day, holiday, inner, outside, warm, used)


class _HeatPump:
    """The rows of a heat pump in the making: draws come in the order of the calls."""

    def __init__(self, rng: np.random.Generator, town: _Town, kind: str | None) -> None:
        self.rng, self.town, self.kind = rng, town, kind
        self.gain = 1 + 0.02 * rng.normal(size=len(CHANNELS))
        self.loss = 0.26 * np.exp(0.1 * rng.normal())
        self.curve = 0.9 * np.exp(0.08 * rng.normal())
        self.early = 3.5 + rng.random()
        self.since = int(town.rows * rng.uniform(0.34, 0.75))
        self.on: BoolArray = np.arange(town.rows) >= self.since

    def _noise(self, memory: float = 90) -> FloatArray:
        """Return noise with a memory in seconds."""
        rate = float(np.exp(-self.town.step / memory))
        return autoregression(self.rng, self.town.rows, rate, 1)

    def _wanted(self) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return what is asked for, by step of the control.

        The tank's temperature, the heat that rooms take (kW), and when water is due.
        """
        town = self.town
        outside = follow(town.outside - town.outside[0], town.inner / 7200) + town.outside[0]
        wanted = np.clip(24 + self.curve * (20 - outside) - np.where(town.used, 0, 4), 22, 55)
        people = np.where(town.used, 0.9, 0.3)
        rate = float(np.exp(-town.inner / 3600))
        gusts = 1 + 0.08 * autoregression(self.rng, len(town.times), rate, 1)
        rooms = np.where(town.used, 20.5, 18.5)
        taken = np.maximum(self.loss * (rooms - town.outside) - people, 0) * gusts
        begins = (self.early, 14.5)
        water = np.any([np.abs(town.hour - begin) < _DUE for begin in begins], axis=0)
        return wanted, np.where(town.warm, 0.05, taken), water

    def _control(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return what the heat pump does, by step of the control.

        Its state, the tank's temperature and for how long it has run (seconds).
        """
        town, inner = self.town, float(self.town.inner)
        wanted, taken, due = (values.tolist() for values in self._wanted())
        outside, warm = town.outside.tolist(), town.warm.tolist()
        steps = len(outside)
        states, tanks, runs = np.empty(steps, dtype=np.int64), np.empty(steps), np.empty(steps)
        state, tank, cylinder, held, ran, frost = OFF, wanted[0], 45.0, 0.0, 0.0, 0.0
        for at in range(steps):
            capacity = 8.0 * (1 + 0.022 * (outside[at] - 2))
            held += inner
            cylinder -= inner * 1.2e-4
            if state == THAW:
                if held >= _THAW:
                    state, held, frost = HEAT, 0.0, 0.0
            elif state == WATER:
                if cylinder >= _WATER:
                    state, held = OFF, 0.0
            elif due[at] and cylinder < _WATER - 4:
                state, held = WATER, 0.0
            elif state == HEAT:
                if frost >= _FROST:
                    state, held = THAW, 0.0
                elif held >= _LEAST_ON and (tank > wanted[at] + _BAND or warm[at]):
                    state, held = OFF, 0.0
            elif held >= _LEAST_OFF and tank < wanted[at] - _BAND and not warm[at]:
                state, held = HEAT, 0.0
            given = capacity if state == HEAT else -4.0 if state == THAW else 0.0
            tank += inner * (given - taken[at]) / 1500.0
            tank = max(tank, 18.0)
            if state == WATER:
                cylinder += inner * capacity / 1100.0
            ran = ran + inner if state in {HEAT, WATER} else 0.0
            frost += inner if state in {HEAT, WATER} and outside[at] < 4 else 0.0
            states[at], runs[at] = state, ran
            tanks[at] = cylinder if state == WATER else tank
        return states, tanks, runs

    def run(self) -> None:
        """Make the channels of a whole heat pump."""
        town, each = self.town, self.town.each
        states, tanks, ran = self._control()
        if self.kind == "cycling":
            night = (town.hour > 1) & (town.hour < 5) & np.repeat(self.on, each)
            states = np.where(night, (town.times // 600) % 2 * HEAT, states)
            ran = np.where(night, (town.times % 600) * (states == HEAT), ran)
        on = np.isin(states, (HEAT, WATER))
        # Settles within minutes of a start.
        pace = on * (1 - np.exp(-ran / 180))
        thaws = states == THAW
        flow = follow(np.where(states == OFF, 6.0, 22.0), min(1.0, town.inner / 60))
        heat = 8.0 * (1 + 0.022 * (town.outside - 2)) * pace - 4.0 * thaws
        back = follow(tanks - tanks[0], min(1.0, town.inner / 120)) + tanks[0]
        supply = back + heat / np.maximum(flow, 4) * 14.3
        resting = follow(town.outside - town.outside[0], town.inner / 1800) + town.outside[0]
        evaporator = follow(
            np.where(on, town.outside - 8 * pace, np.where(thaws, 8.0, resting)) - resting[0],
            min(1.0, town.inner / 120),
        )
        evaporator += resting[0]
        lift = np.maximum(supply + 3 - evaporator, 12)
        power = 0.05 + on * heat * lift / (0.45 * (supply + 276)) + 1.1 * thaws
        pressure = np.where(on | thaws, 6 + 0.0065 * np.maximum(supply + 3, 0) ** 2, 9.0)
        pressure = follow(pressure - 9.0, min(1.0, town.inner / 150)) + 9.0
        columns = (supply, back, evaporator, power, flow, pressure)
        taken = np.column_stack([column[each - 1 :: each] for column in columns])
        busy = on[each - 1 :: each]
        spread = np.array([0.15, 0.15, 0.25, 0.02, 0.15, 0.08])
        noise = np.column_stack([self._noise() for _ in CHANNELS])
        self.x = taken + noise * spread
        self.x[:, 3] += 0.03 * self._noise() * busy
        self.on_rows, self.states = busy, states[each - 1 :: each]

    def spoil(self) -> Fault | None:
        """Put the heat pump's fault into its channels, if it has one."""
        kind, on, x, rng, busy = self.kind, self.on, self.x, self.rng, self.on_rows
        if kind is None:
            return None
        town = self.town
        times = town.times[town.each - 1 :: town.each]
        days = np.maximum(np.arange(town.rows) - self.since, 0) * town.step / DAY
        shows = on & busy
        if kind == "refrigerant":
            x[:, 2] -= np.minimum(days / 8, 1) * 6 * busy
        elif kind == "fouling":
            x[:, 5] += np.minimum(days / 8, 1) * 2.5 * busy
        elif kind == "weak_flow":
            x[:, 0] += shows * 0.25 * (x[:, 0] - x[:, 1])
            x[:, 4] *= 1 - 0.2 * on
            shows = on
        elif kind == "frozen":
            x[on, 0] = x[self.since, 0]
            shows = on
        elif kind == "offset":
            x[:, 1] += on * 1.5
            shows = on
        elif kind == "heater":
            x[:, 3] += shows * 0.6
        elif kind == "surges":
            # Four a day.
            shows = on & busy & (rng.random(town.rows) < 4 * town.step / DAY / busy[on].mean())
            x[:, 3] += shows * 2.5
        else:
            hour = town.hour[town.each - 1 :: town.each]
            shows = on & (hour > 1) & (hour < 5)
        first = int(times[np.flatnonzero(shows)[0]])
        return Fault(kind, int(times[self.since]), first, kind in SUDDEN, SHOWN[kind])

    def exchange(self) -> int | None:
        """Exchange the return's sensor of one heat pump in five; return when."""
        if self.rng.random() >= _EXCHANGED:
            return None
        since = int(self.town.rows * self.rng.uniform(0.5, 0.9))
        self.x[since:, 1] += 0.8
        return int(self.town.times[since * self.town.each])

    def table(self, name: str) -> pa.Table:
        """Return the rows as the sensors have them."""
        town = self.town
        kept = with_few_missing(self.rng, town.rows, town.step)
        state: npt.NDArray[np.str_] = _STATES[self.states]
        read = np.round(self.x * self.gain / _STEPS) * _STEPS
        channels = dict(zip(CHANNELS, read[kept].T, strict=True))
        outside = town.outside[town.each - 1 :: town.each] + 0.2 * self._noise()
        channels["outside"] = np.round(outside[kept], 1)
        times = town.times[town.each - 1 :: town.each]
        return rows_of(name, times[kept], channels, state[kept])


def make(seed: int, machines: int, days: int, step: int, broken: int) -> Site:
    """Make a site.

    Args:
        seed: All is drawn from it.
        machines: Heat pumps.
        days: Of rows, from a Monday on, more than 35.
        step: Seconds from row to row.
        broken: Heat pumps with a fault.
    """
    rng = np.random.default_rng(seed)
    town = _town(rng, days, step)
    which = rng.permutation(machines)[:broken]
    one = partial(_HeatPump, rng, town)
    return put_together(one, "h", machines, which, KINDS, CHANNELS, town.holidays)
