"""Rows of models, one model's after the other's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from transforms.chunks import Chunk
from transforms.track.merge import merge_where, spread_where


class SortedRows(NamedTuple):
    """Rows of models, one after the other, in the order of their names.

    Attributes:
        names: The models.
        starts: Place of each one's first row.
        stops: Place after each one's last row.
        body: The rows, without the model's column.
    """

    names: list[str]
    starts: list[int]
    stops: list[int]
    body: pa.RecordBatch

    def slice(self, start: int, stop: int) -> Chunk:
        """Return rows start..stop."""
        return Chunk(self.body.slice(start, stop - start))

    def merged(self, width: int) -> SortedRows:
        """Return the same with the rows of each model and time merged; they are in their order.

        `width`: number D of channels, also where the rows have a value each.
        """
        if not len(self.body):
            return self
        times = self.body.column("time").to_numpy()
        new = np.r_[True, times[1:] != times[:-1]]
        new[[start for start in self.starts if start < len(new)]] = True
        rows = Chunk(self.body)
        narrow = rows.has("channel")
        merged = spread_where(rows, new, width) if narrow else merge_where(rows, new)
        merged.add_to_counters()
        ends = np.r_[0, np.cumsum(new)]
        starts, stops = ends[self.starts].tolist(), ends[self.stops].tolist()
        return SortedRows(self.names, starts, stops, merged.rows.batch)

    def each(self) -> Iterator[tuple[str, Chunk]]:
        """Return each model and its rows."""
        for name, start, stop in zip(self.names, self.starts, self.stops, strict=True):
            yield name, self.slice(start, stop)
