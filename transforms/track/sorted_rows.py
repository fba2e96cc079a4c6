"""Rows of models, one model's after the other's."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from transforms.chunks import Chunk
from transforms.track.merge import merge_where, spread_where


class SortedRows(NamedTuple):
    """Rows of models, one after the other, in the order of their names.

    Attributes:
        names: The m models.
        edges: (m + 1,) place of each one's first row, and the end.
        rows: The rows, without the model's column.
    """

    names: Sequence[str]
    edges: npt.NDArray[np.int64]
    rows: Chunk

    def each(self) -> Iterator[tuple[str, Chunk]]:
        """Return each model and its rows."""
        for name, (start, stop) in zip(
            self.names, itertools.pairwise(self.edges.tolist()), strict=True
        ):
            yield name, self.rows.slice(start, stop)

    def spans(self) -> Iterator[tuple[int, slice]]:
        """Return each model's place, and where its rows lie; those without any left out."""
        for model, (start, stop) in enumerate(itertools.pairwise(self.edges.tolist())):
            if stop > start:
                yield model, slice(start, stop)

    def part(self, models: range) -> SortedRows:
        """Return the rows of models that follow one another."""
        edges = self.edges[models.start : models.stop + 1]
        rows = self.rows.slice(int(edges[0]), int(edges[-1]))
        return SortedRows(self.names[models.start : models.stop], edges - edges[0], rows)

    def without(self, gone: npt.NDArray[np.bool_]) -> SortedRows:
        """Return what is left without some rows; its models stay, if only without any."""
        if not gone.any():
            return self
        kept = np.concatenate([[0], np.cumsum(~gone)])
        return SortedRows(self.names, kept[self.edges], self.rows.take(np.flatnonzero(~gone)))

    def merged(self, width: int) -> SortedRows:
        """Return the same with the rows of each model and time merged; they are in their order.

        `width`: number D of channels, also where the rows have a value each.
        """
        rows = self.rows
        if not len(rows):
            return self
        times = rows.column("time")
        new = np.r_[True, times[1:] != times[:-1]]
        new[self.edges[self.edges < len(new)]] = True
        merged = spread_where(rows, new, width) if rows.has("channel") else merge_where(rows, new)
        merged.add_to_counters()
        return SortedRows(self.names, np.r_[0, np.cumsum(new)][self.edges], merged.rows)
