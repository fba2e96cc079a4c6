"""The sums of a device's rows by period.

With x a row and m its means over 10 and 60 minutes, m ← m + (1 - e^(-Δt/span))(x - m) from row to
row, a period keeps of the vectors v = [x, m₁₀, m₆₀]: their number, their mean and their co-moments
Σ(v - v̄)(v - v̄)ᵀ, by Welford's updates, and how often each channel repeats the value before.
Nothing else is known of it afterwards. Sums have a fixed order, and are the same bits however rows
are cut into calls; those of two periods are joined by Chan's formula.

References: B. P. Welford, "Note on a method for calculating corrected sums of squares and
products", Technometrics 4, 1962. T. F. Chan, G. H. Golub, R. J. LeVeque, "Algorithms for computing
the sample variance", The American Statistician 37, 1983.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.native.binding import call
from kerneltrack.native.layouts import FloatMatrix, FloatVector, IntVector

SPANS = (600.0, 3600.0)
"""Seconds that the means over time look back on."""
PARTS = 1 + len(SPANS)
LARGEST = 1e100
"""Largest magnitude that counts: squares do not overflow."""
SECOND = 1_000_000_000


class Memory(NamedTuple):
    """What goes on from period to period.

    Attributes:
        means: (2, D) the means over time.
        last: (D,) the last row.
        counts: Rows so far, and the time of the last one, ns.
    """

    means: FloatMatrix
    last: FloatVector
    counts: IntVector


class PeriodSums(NamedTuple):
    """The sums of K periods.

    Attributes:
        rows: (K,) rows.
        repeats: (K, D) how often a channel repeated the value before.
        mean: (K, 3D) means of the vectors.
        comoments: (K·3D, 3D) co-moments, one period below the other; lower triangles.
    """

    rows: IntVector
    repeats: FloatMatrix
    mean: FloatMatrix
    comoments: FloatMatrix

    @staticmethod
    def of(periods: int, width: int) -> PeriodSums:
        """Return the sums of periods that have no rows yet."""
        size = PARTS * width
        return PeriodSums(
            np.zeros(periods, dtype=np.int64),
            np.zeros((periods, width)),
            np.zeros((periods, size)),
            np.zeros((periods * size, size)),
        )

    def squares(self) -> FloatArray:
        """Return the mean square about the mean of each entry of the vectors, (K, 3D)."""
        size = self.mean.shape[1]
        diagonal = self.comoments.reshape(-1, size, size).diagonal(axis1=1, axis2=2)
        return np.asarray(diagonal / self.rows[:, None])


class DeviceSums:
    """The sums of one device, period by period; rows come in order of time.

    Args:
        width: Channels D.
        seconds: Length of a period; period k begins at k times as many seconds of Unix time.

    Attributes:
        memory: What goes on from period to period.
    """

    def __init__(self, width: int, seconds: int) -> None:
        self.width, self._length = width, seconds * SECOND
        self.memory = Memory(
            np.zeros((len(SPANS), width)), np.zeros(width), np.zeros(2, dtype=np.int64)
        )
        self._periods: list[IntArray] = []
        self._sums: list[PeriodSums] = []

    @classmethod
    def going_on(
        cls, seconds: int, memory: Memory, period: IntArray, sums: PeriodSums
    ) -> DeviceSums:
        """Return those of a device that is in the period (1,), which the next rows may be of.

        The arrays are taken over, and written to.
        """
        found = cls(len(memory.last), seconds)
        found.memory, found._periods, found._sums = memory, [period], [sums]
        return found

    @property
    def newest(self) -> int | None:
        """The newest period that has rows; None without any."""
        return int(self._periods[-1][-1]) if self._periods else None

    def add(self, times: IntArray, rows: FloatArray) -> None:
        """Count rows; those with a value that is missing or above `LARGEST` are left out.

        Args:
            times: (n,) ns, ascending, none before those of earlier calls.
            rows: (n, D).
        """
        good = (np.abs(rows) <= LARGEST).all(axis=1)
        rows = np.ascontiguousarray(rows[good], dtype=np.float64)
        times = np.ascontiguousarray(times[good])
        if not len(rows):
            return
        known = self._sums.pop() if self._sums else PeriodSums.of(0, self.width)
        before = self._periods.pop() if self._periods else np.zeros(0, dtype=np.int64)
        period = times // self._length
        new = np.unique(np.concatenate([before, period]))
        more = PeriodSums.of(len(new) - len(before), self.width)
        sums = PeriodSums(*(np.concatenate(pair) for pair in zip(known, more, strict=True)))
        places = np.searchsorted(new, period)
        call("period_sums", np.array(SPANS), self.memory, rows, times, places, sums)
        # The last period may go on: it is taken up again by the next call.
        size = PARTS * self.width
        if len(new) > 1:
            self._periods.append(new[:-1])
            parts = (sums.rows[:-1], sums.repeats[:-1], sums.mean[:-1], sums.comoments[:-size])
            self._sums.append(PeriodSums(*parts))
        self._periods.append(new[-1:])
        last = (sums.rows[-1:].copy(), sums.repeats[-1:].copy(), sums.mean[-1:].copy())
        self._sums.append(PeriodSums(*last, sums.comoments[-size:].copy()))

    def result(self) -> tuple[IntArray, PeriodSums]:
        """Return the numbers of the periods that have rows, ascending, and their sums."""
        if not self._sums:
            return np.zeros(0, dtype=np.int64), PeriodSums.of(0, self.width)
        sums = PeriodSums(*(np.concatenate(parts) for parts in zip(*self._sums, strict=True)))
        return np.concatenate(self._periods), sums

    def take_over(self) -> tuple[IntArray, PeriodSums]:
        """Return the periods that are over, since a later one has rows, and forget them."""
        going = self._periods[-1:], self._sums[-1:]
        self._periods, self._sums = self._periods[:-1], self._sums[:-1]
        found = self.result()
        self._periods, self._sums = going
        return found


def join(sums: PeriodSums, groups: Sequence[IntArray]) -> PeriodSums:
    """Return the sums of each group of periods as those of one period.

    Args:
        sums: Of periods.
        groups: Places of periods, joined in their order.
    """
    width = sums.repeats.shape[1]
    size = PARTS * width
    whole = PeriodSums.of(len(groups), width)
    for at, places in enumerate(groups):
        rows = slice(at * size, (at + 1) * size)
        one = (whole.rows[at : at + 1], whole.repeats[at : at + 1], whole.mean[at : at + 1])
        call("period_join", sums, places, PeriodSums(*one, whole.comoments[rows]))
    return whole
