"""The rows of a round that the trackers took, and whose they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import BoolArray, FloatArray, IntArray


class ValidRows(NamedTuple):
    """Rows that trackers took.

    Attributes:
        which: (k,) places of the models that have rows in the round.
        rows: (n, D).
        starts: (k,) place of each one's first row among them.
        stops: (k,) place after its last.
        places: (n,) of each row among all; None if these are all rows there are.
        stamps: (n,) ns; None without times.
    """

    which: IntArray
    rows: FloatArray
    starts: IntArray
    stops: IntArray
    places: IntArray | None
    stamps: IntArray | None

    @classmethod
    def among(
        cls,
        rows: FloatArray,
        clock: IntArray | None,
        taken: BoolArray,
        which: IntArray,
        starts: IntArray,
        stops: IntArray,
    ) -> ValidRows:
        """Return those of pieces of models.

        Args:
            rows: All rows, (n, D).
            clock: (n,) ns, None without times.
            taken: (n,) which of them trackers took.
            which: (k,) places of the models.
            starts: (k,) place of each one's first row of the round.
            stops: (k,) place after its last.
        """
        lengths = stops - starts
        if np.add.reduce(lengths) == len(rows) and all_of(taken):
            return cls(which, rows, starts, stops, None, clock)
        ends = np.cumsum(lengths)
        places = np.arange(int(ends[-1])) + np.repeat(starts - ends + lengths, lengths)
        good = taken[places]
        many = np.add.reduceat(good.astype(np.int64), ends - lengths)
        places, ends = places[good], np.cumsum(many)
        stamps = None if clock is None else clock[places]
        return cls(which, rows[places], ends - many, ends, places, stamps)

    def only(self, kept: BoolArray) -> ValidRows:
        """Return some of the rows; `kept`: (n,) which."""
        places = np.flatnonzero(kept)
        edges = np.concatenate([[0], np.cumsum(kept)])
        stamps = None if self.stamps is None else self.stamps[places]
        return ValidRows(
            self.which,
            self.rows[places],
            edges[self.starts],
            edges[self.stops],
            places if self.places is None else self.places[places],
            stamps,
        )

    def of(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return these rows' part of a column of all rows."""
        return column if self.places is None else column[self.places]

    def times_of(self, own: slice) -> IntArray | None:
        """Return the times of some of the rows; None without times."""
        return None if self.stamps is None else self.stamps[own]

    def each(self) -> Iterator[tuple[int, slice]]:
        """Return the models, and where their rows lie among these."""
        for model, start, stop in zip(
            self.which.tolist(), self.starts.tolist(), self.stops.tolist(), strict=True
        ):
            yield model, slice(start, stop)


def all_of(flags: BoolArray) -> bool:
    """Return whether all flags are set: `flags.all()`, which costs more where they are few."""
    return int(np.count_nonzero(flags)) == flags.size
