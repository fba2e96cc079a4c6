"""What of features and labels travels to the learner, and in which turn it is taken."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerneltrack.errors import ConfigError, DataError
from kerneltrack.learners import LearnerSpec
from kerneltrack.learners.common.spec import BOTH, FEATURES, ROWS
from transforms.chunks import Chunk
from transforms.keyed.commands import command_of
from transforms.metrics import count
from transforms.read.label_values import label_column


class NarrowFn(beam.DoFn):
    """Keep the columns that a learner needs, in chunks whose indexes follow one another.

    Args:
        spec: The learner's spec.
        timed_by: Settings that need the rows' times, by name.
    """

    def __init__(self, spec: LearnerSpec, timed_by: dict[str, float]) -> None:
        """Keep the arguments; see the class."""
        self.spec = spec
        self._timed_by = timed_by

    def process(self, element: tuple[str, Chunk]) -> Iterator[tuple[str, Chunk]]:
        """Yield the chunk's columns, one chunk for each run of indexes; errors as of `narrow`."""
        key, chunk = element
        if command_of(chunk) is not None:
            yield element
            return
        narrow = self.narrow(chunk)
        breaks = np.flatnonzero(np.diff(chunk.column("index")) != 1) + 1
        edges = [0, *breaks.tolist(), len(chunk)]
        for start, stop in itertools.pairwise(edges):
            if stop > start:
                yield key, narrow.slice(start, stop)

    def narrow(self, chunk: Chunk) -> Chunk:
        """Return the columns that a learner needs of features.

        Raises:
            ConfigError: for rows without the times that are needed, or labels of a wrong type.
        """
        batch = chunk.batch
        columns = {"index": batch.column("index")}
        if chunk.has("time"):
            columns["time"] = batch.column("time")
        elif self._timed_by:
            name, value = next(iter(self._timed_by.items()))
            raise ConfigError(name, value, "None: the rows have no times")
        features = batch.column("z" if chunk.has("z") else "q")
        if self.spec.input_kind != FEATURES and not chunk.has("x"):
            allowed = f"{FEATURES!r}, or features with the rows: TrackSubspace(..., own=True)"
            raise ConfigError("inputs", self.spec.input_kind, allowed)
        if self.spec.input_kind == BOTH:
            columns["x"] = batch.column("x")
        columns["z"] = batch.column("x") if self.spec.input_kind == ROWS else features
        if chunk.has("label"):
            columns["label"] = label_column(self.spec, batch.column("label"))
        return Chunk(pa.RecordBatch.from_pydict(columns))


def inputs_of(chunk: Chunk) -> tuple[npt.NDArray[np.float64], int]:
    """Return what a learner is told of narrow rows, (n, w), and how many of it are their own."""
    z = chunk.column("z")
    if not chunk.has("x"):
        return z, z.shape[1]
    own = chunk.column("x")
    return np.hstack([own, z]), own.shape[1]


def narrow_labels(element: tuple[str, Chunk], spec: LearnerSpec) -> tuple[str, Chunk]:
    """Keep the columns that name rows, and the labels in the form of the task."""
    key, chunk = element
    batch = chunk.batch
    name = "index" if chunk.has("index") else "time"
    columns = {column: batch.column(column) for column in (name, "source", "row")}
    columns["label"] = label_column(spec, batch.column("label"))
    return key, Chunk(pa.RecordBatch.from_pydict(columns))


def first_index(chunk: Chunk) -> int:
    """Return the index of the chunk's first row."""
    index: int = chunk.batch.column("index")[0].as_py()
    return index


def turn(chunk: Chunk) -> tuple[int, bool]:
    """Return what puts rows and commands in order: a command is before the rows of its index."""
    return first_index(chunk), command_of(chunk) is None


def gap(key: str, expected: int, found: int) -> DataError:
    """Return the error for features that have not all come."""
    return DataError(
        f"features of model {key!r}",
        f"rows {expected} to {found - 1} never came, row {found} did",
    )


def in_turn(key: str, next_row: int, chunks: Sequence[Chunk], size: int) -> Iterator[Chunk]:
    """Join sorted chunks to pieces of about this many rows, rows that came twice left out."""
    piece: list[Chunk] = []
    rows = 0
    for chunk in chunks:
        first = first_index(chunk)
        if first > next_row:
            raise gap(key, next_row, first)
        again = min(next_row - first, len(chunk))
        count("rows_again", again)
        if again < len(chunk):
            piece.append(chunk.slice(again, len(chunk)))
            rows += len(chunk) - again
            next_row += len(chunk) - again
        if rows >= size:
            yield Chunk.concat(piece)
            piece, rows = [], 0
    if piece:
        yield Chunk.concat(piece)
