"""The periods of a device whose rows still come: what is kept of it, and what the end of one says.

A period is over once a row of a later one has come. Its numbers are then those that `numbers_of`
makes of all rows, bit for bit: what is kept is all that they depend on, the sums of the period that
goes on, those of the `delay + past` days before the newest that is over, and when the device began.
In the first days the end of each changes the numbers of the others, too: they are said again, with
a higher version. So the last that is said of a period is what a job on files writes of it.

Bytes: 8 a number, for 3D(3D + 1)/2 + 4D + 2 a day, and 3D + 3 more of the one that goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.limits import ArrayForm, real, whole
from kerneltrack.monitor.periods.device import NO_DAY, DeviceNumbers, beginning, numbers_at
from kerneltrack.monitor.periods.spec import DAY, PeriodsSpec
from kerneltrack.monitor.periods.sums import PARTS, SECOND, SPANS, DeviceSums, Memory, PeriodSums
from kerneltrack.trackers.common.places import Places


class Said(NamedTuple):
    """What is said of periods of a device when one is over.

    Attributes:
        numbers: What they come to.
        version: (K,) how often each has been said by then: 1 of the one that is over.
    """

    numbers: DeviceNumbers
    version: IntArray


class RunningPeriods:
    """The periods of a device whose rows still come; rows in order of time.

    A row of a period before the one that goes on, as a device may send that was reset since its
    clock was wrong, begins all anew.

    Args:
        spec: What periods are compared with.
        width: Channels D.
        state: What `encode` wrote; none before the first row.
        read_past: Returns what `past` was then. It is asked when a period is over, and not before.

    Attributes:
        past: The days that are over, as bytes, where that has changed; None: it has not.

    Raises:
        ConfigError: for bytes of another length.
    """

    def __init__(
        self,
        spec: PeriodsSpec,
        width: int,
        state: bytes = b"",
        read_past: Callable[[], Sequence[bytes]] = tuple,
    ) -> None:
        self._spec, self._read_past = spec, read_past
        self.past: list[bytes] | None = None
        self._sums, self._begin = DeviceSums(width, DAY), NO_DAY
        if state:
            arrays = _going(width).arrays(state)
            self._begin = int(arrays["begin"][0])
            memory = Memory(*(arrays[name].copy() for name in Memory._fields))
            self._sums = DeviceSums.going_on(DAY, memory, *_days_of([arrays], width))

    def add(self, times: IntArray, rows: FloatArray) -> None:
        """Count rows; see `DeviceSums.add`."""
        newest = self._sums.newest
        if newest is not None and len(times) and times[0] // (DAY * SECOND) < newest:
            self._sums, self._begin = DeviceSums(self._sums.width, DAY), NO_DAY
            self.past, self._read_past = [], tuple
        self._sums.add(times, rows)

    def over(self) -> Iterator[Said]:
        """Yield what is said at the end of each period that is over by now."""
        yield from self._end(*self._sums.take_over())

    def last(self) -> Iterator[Said]:
        """Yield what is said of the period that goes on: no more rows come."""
        yield from self._end(*self._sums.result())

    def encode(self) -> bytes:
        """Write what goes on as bytes; none before the first row that counts."""
        days, sums = self._sums.result()
        if not len(days):
            return b""
        return _joined([np.array([self._begin]), *self._sums.memory, *_parts_of(days, sums, 0)])

    def _end(self, days: IntArray, sums: PeriodSums) -> Iterator[Said]:
        """Let days be over, one after the other."""
        if not len(days):
            return
        width, spec = self._sums.width, self._spec
        past = [*self._read_past()] if self.past is None else self.past
        known, before = _days_of([_day(width).arrays(each) for each in past], width)
        for at, day in enumerate(days.tolist()):
            kept = np.flatnonzero(day - known <= spec.delay + spec.past)
            known = np.append(known[kept], day)
            before = _with(before, kept, sums, at)
            past = [*(past[place] for place in kept), _joined(_parts_of(days, sums, at))]
            if self._begin == NO_DAY:
                self._begin = beginning(known, spec.first)
            ages = known - self._begin
            places = np.array([len(known) - 1])
            if 0 <= ages[-1] < spec.first:
                places = np.flatnonzero(ages >= 0)
            numbers = numbers_at(spec, known, before, self._begin, places)
            yield Said(numbers, len(known) - places)
        self.past = past


Arrays = Mapping[str, npt.NDArray[Any]]


@lru_cache(maxsize=8)
def _day(width: int) -> Places:
    """Return where the numbers of a day that is over lie."""
    return Places.of(_of_day(width))


@lru_cache(maxsize=8)
def _going(width: int) -> Places:
    """Return where those lie of what goes on."""
    memory = {"means": real(len(SPANS), width), "last": real(width), "counts": whole(2)}
    return Places.of({"begin": whole(1), **memory, **_of_day(width)})


@lru_cache(maxsize=8)
def _lower(size: int) -> tuple[IntArray, IntArray]:
    """Return the places of a lower triangle: to work them out costs a fifth of a row's visit."""
    rows, columns = np.tril_indices(size)
    return rows, columns


def _of_day(width: int) -> dict[str, ArrayForm]:
    size = PARTS * width
    return {
        **{"period": whole(1), "rows": whole(1), "repeats": real(1, width), "mean": real(1, size)},
        "comoments": real(size * (size + 1) // 2),
    }


def _parts_of(days: IntArray, sums: PeriodSums, at: int) -> list[npt.NDArray[Any]]:
    """Return the arrays of one day, in their order: of its co-moments the lower triangle."""
    size = sums.mean.shape[1]
    comoments = sums.comoments[at * size : (at + 1) * size]
    own = [days[at : at + 1], *(part[at : at + 1] for part in sums[:3])]
    return [*own, comoments[_lower(size)]]


def _days_of(arrays: Sequence[Arrays], width: int) -> tuple[IntArray, PeriodSums]:
    """Return days, and their sums, from their arrays."""
    sums = PeriodSums.of(len(arrays), width)
    size = PARTS * width
    days = np.zeros(len(arrays), np.int64)
    for at, own in enumerate(arrays):
        days[at] = own["period"][0]
        for part, name in zip(sums, PeriodSums._fields[:3], strict=False):
            part[at] = own[name][0]
        sums.comoments[at * size : (at + 1) * size][_lower(size)] = own["comoments"]
    return days, sums


def _with(known: PeriodSums, kept: IntArray, sums: PeriodSums, at: int) -> PeriodSums:
    """Return the sums at some places of known ones, and those at one place of others behind."""
    rows, repeats, mean = (
        np.concatenate([old[kept], new[at : at + 1]])
        for old, new in zip(known[:3], sums[:3], strict=True)
    )
    size = known.mean.shape[1]
    whole_ones = [
        each.comoments.reshape(-1, size, size)[places]
        for each, places in ((known, kept), (sums, np.array([at])))
    ]
    return PeriodSums(rows, repeats, mean, np.concatenate(whole_ones).reshape(-1, size))


def _joined(arrays: Iterable[npt.NDArray[Any]]) -> bytes:
    return b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
