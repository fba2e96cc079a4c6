"""A made site: its rows, and what is true of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.signal import lfilter

from kerneltrack.arrays import BoolArray, FloatArray, IntArray

DAY = 86_400
"""Seconds."""
_MISSING = 0.005


class Fault(NamedTuple):
    """What broke on a machine.

    Attributes:
        kind: Which fault.
        since: When it began, seconds of Unix time.
        visible_since: The time of the first row that shows it.
        sudden: Whether it is there in full from that row on.
        channels: Those that show it.
    """

    kind: str
    since: int
    visible_since: int
    sudden: bool
    channels: tuple[str, ...]


class Site(NamedTuple):
    """Rows of machines, and what is true of them.

    Attributes:
        rows: `machine`, `time`, the channels, `outside` (a cause that all share) and `state` (a
            word for the mode), machine by machine in order of time.
        channels: Names, in order.
        faults: By machine.
        changes: When a sensor of a machine was exchanged, which is no fault.
        holidays: Begin and end of days on which the whole site does something else.
    """

    rows: pa.Table
    channels: tuple[str, ...]
    faults: dict[str, Fault]
    changes: dict[str, int]
    holidays: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Calendar:
    """What every site has by row: `holiday` is the number of a day, if there is one."""

    step: int
    times: IntArray
    hour: FloatArray
    day: FloatArray
    holiday: int | None

    @property
    def rows(self) -> int:
        """A machine's rows."""
        return len(self.times)

    @property
    def holidays(self) -> tuple[tuple[int, int], ...]:
        """Begin and end of the holiday, in seconds."""
        if self.holiday is None:
            return ()
        begin = int(self.times[0]) + self.holiday * DAY
        return ((begin, begin + DAY),)


def clock(begin: int, days: int, step: int) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the times of rows in seconds, their hours of the day, and days since the first."""
    times = begin + step * np.arange(days * DAY // step)
    return times, (times % DAY) / 3600, (times - begin) / DAY


def weekday_off(rng: np.random.Generator, days: int) -> int:
    """Return a weekday for a holiday: its number, from 25 on, where the first is a Monday."""
    return int(rng.choice(np.flatnonzero(np.arange(25, days - 5) % 7 < 5)) + 25)


def autoregression(
    rng: np.random.Generator, rows: int, memory: float, deviation: float
) -> FloatArray:
    """Return a first-order autoregression, (rows,), with a deviation."""
    noise = rng.normal(size=rows) * deviation * np.sqrt(1 - memory * memory)
    noise[0] = rng.normal() * deviation
    return np.asarray(lfilter([1.0], [1.0, -memory], noise))


def follow(target: FloatArray, rate: float) -> FloatArray:
    """Return what comes nearer to its target by a share of the distance each row, from 0."""
    return np.asarray(lfilter([rate], [1.0, rate - 1.0], target))


def without_gaps(rng: np.random.Generator, rows: int, step: int) -> BoolArray:
    """Return which rows are there, where two gaps of 2 to 12 hours are not."""
    kept = np.ones(rows, dtype=bool)
    for _ in range(2):
        begin = int(rng.integers(rows))
        kept[begin : begin + int(rng.integers(DAY // 12, DAY // 2)) // step] = False
    return kept


def with_few_missing(rng: np.random.Generator, rows: int, step: int) -> BoolArray:
    """Return which rows are there, where gaps are not, and one of 200 others."""
    kept = without_gaps(rng, rows, step)
    return kept & (rng.random(rows) >= _MISSING)


class Machine(Protocol):
    """The rows of a machine in the making: each call draws, in this order."""

    def run(self) -> None:
        """Make the channels of a whole machine."""

    def spoil(self) -> Fault | None:
        """Put the machine's fault into its channels, if it has one."""

    def exchange(self) -> int | None:
        """Exchange a sensor of some machines; return when, in seconds."""

    def table(self, name: str) -> pa.Table:
        """Return the rows."""


def put_together(
    make: Callable[[str | None], Machine],
    letter: str,
    machines: int,
    broken: IntArray,
    kinds: Sequence[str],
    channels: tuple[str, ...],
    holidays: tuple[tuple[int, int], ...],
) -> Site:
    """Make a site's machines, one after the other.

    Args:
        make: Returns the machine with a kind of fault, or with none.
        letter: What names begin with, before the number.
        machines: How many.
        broken: Numbers of those with a fault.
        kinds: Kinds of faults, which these have in turn.
        channels: What the site's channels are called.
        holidays: Begin and end of each.
    """
    kind_of = {int(number): kinds[turn % len(kinds)] for turn, number in enumerate(broken)}
    tables, faults, changes = [], {}, {}
    for number in range(machines):
        name = f"{letter}{number:03d}"
        machine = make(kind_of.get(number))
        machine.run()
        fault = machine.spoil()
        if fault is not None:
            faults[name] = fault
        elif (changed := machine.exchange()) is not None:
            changes[name] = changed
        tables.append(machine.table(name))
    return Site(pa.concat_tables(tables), channels, faults, changes, holidays)


def rows_of(
    name: str, times: IntArray, channels: dict[str, FloatArray], state: npt.NDArray[np.str_]
) -> pa.Table:
    """Return a machine's rows; times in seconds, `channels` with `outside` last."""
    return pa.table(
        {
            "machine": pa.array([name] * len(times)),
            "time": pa.array(times * 1000, pa.timestamp("ms", "UTC")),
            **channels,
            "state": state,
        }
    )
