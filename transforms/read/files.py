"""From files to chunks: the source of every job that reads files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from apache_beam.pvalue import DoOutputsTuple, PBegin, PCollection, TaggedOutput

from kerneltrack.errors import ConfigError
from kerneltrack.paths import whole
from transforms.chunks import Chunk, matrix_column
from transforms.failures import Failures
from transforms.metrics import count
from transforms.outputs import FAILURES
from transforms.read.column_options import ColumnOptions
from transforms.read.columns import Columns
from transforms.read.formats import FormatOptions, Piece
from transforms.read.local_times import with_passages
from transforms.read.look import Input, look_at_files
from transforms.read.parse import ParsedRows, parse

CHUNK_ROWS = 16_384
"""Most rows of a chunk, unless told otherwise."""

ROWS_PER_MODEL = 1_024
"""Batches of a piece are gathered until each model has this many rows on average ..."""

GATHER_ROWS = 1_000_000
"""... or until this many rows are gathered, unless told otherwise ..."""

GATHER_BYTES = 256 << 20
"""... or this many bytes."""

_ROWS = "rows"


class ReadChunks(beam.PTransform[PBegin, dict[str, PCollection[Any]]]):
    """Read files into chunks of one model each.

    Files are matched and looked at when the transform is made, so that a wrong path or column
    name shows before the job starts; `describe` says which column became what.

    Input: the pipeline's begin. Output: a dict of two PCollections, in the global window:
    `rows`, `tuple[str, Chunk]`, keyed by model id, a chunk's rows sorted by (time, sequence,
    row); and `failures`, `Failures`, the rows without a usable model id, time, sequence, label
    or features, and those that could not be read, each with its reason. Every row of the input
    is in one of the two, once, and in the counters rows_read and, if it failed, rows_failed. Chunks
    come in no order. A file that cannot be read at all raises
    DataError; the same file named twice is read once. No state.

    Args:
        source: Files that were examined (`transforms.read.look`), or what to look at: paths or
            glob patterns, for any of Beam's file systems.
        columns: What the columns of those are.
        formats: How the files are read.
        chunk_rows: Most rows of a chunk, 1 at least.
        gather_rows: Most rows that are gathered from a piece before they are cut. When many
            models interleave, this makes chunks of a model's rows out of distant batches; memory
            grows with it.
        first_source: Number of the first file, where other files have the numbers below it.
        counted_as: What the counters call the rows: "rows" gives rows_read and rows_failed.

    Attributes:
        input: The files, and which column is what.

    Raises:
        ConfigError: if an option is out of range or a column is not there.
        DataError: if nothing matches, a file cannot be read, or files disagree.
    """

    def __init__(
        self,
        source: Input | str | Sequence[str],
        columns: ColumnOptions | None = None,
        formats: FormatOptions | None = None,
        *,
        chunk_rows: int = CHUNK_ROWS,
        gather_rows: int = GATHER_ROWS,
        first_source: int = 0,
        counted_as: str = "rows",
    ) -> None:
        super().__init__()
        if chunk_rows < 1:
            raise ConfigError("chunk_rows", chunk_rows, "1 at least")
        if gather_rows < 1:
            raise ConfigError("gather_rows", gather_rows, "1 at least")
        given = source if isinstance(source, Input) else look_at_files(source, columns, formats)
        passed = with_passages(given.infos, given.columns, first_source)
        self.input = replace(given, columns=passed)
        self._first_source = first_source
        self._read = _ReadFn(passed, chunk_rows, gather_rows, counted_as)

    def expand(self, pbegin: PBegin) -> dict[str, PCollection[Any]]:
        """Build the steps."""
        pieces = [
            # Workers look from where they are, which need not be here.
            (source, replace(piece, path=whole(piece.path)))
            for source, info in enumerate(self.input.infos, self._first_source)
            for piece in info.pieces
        ]
        outputs: DoOutputsTuple = (
            pbegin
            | "Pieces" >> beam.Create(pieces)
            | "ReadAndCut"
            >> beam.ParDo(self._read)
            .with_output_types(tuple[str, Chunk], **{FAILURES: Failures})
            .with_outputs(FAILURES, main=_ROWS)
        )
        return {_ROWS: outputs[_ROWS], FAILURES: outputs[FAILURES]}


class _ReadFn(beam.DoFn):
    """Stream a piece, gather its batches, cut them into chunks."""

    def __init__(
        self, columns: Columns, chunk_rows: int, gather_rows: int, counted_as: str
    ) -> None:
        self._columns = columns
        self._chunk_rows = chunk_rows
        self._gather_rows = gather_rows
        self._counted_as = counted_as

    def process(self, element: tuple[int, Piece]) -> Iterator[Any]:
        source, piece = element
        gathered: list[ParsedRows] = []
        for rows in piece.read(self._columns.requests):
            parsed, failures = parse(rows, source, self._columns)
            count(f"{self._counted_as}_read", rows.batch.num_rows + len(rows.bad))
            parsed.add_to_counters(self._counted_as)
            if failures.batch.num_rows:
                count(f"{self._counted_as}_failed", failures.batch.num_rows)
                yield TaggedOutput(FAILURES, failures)
            gathered.append(parsed)
            if _is_enough(gathered, self._gather_rows):
                yield from split(gathered, self._columns, self._chunk_rows)
                gathered = []
        yield from split(gathered, self._columns, self._chunk_rows)


def split(
    gathered: Sequence[ParsedRows], columns: Columns, chunk_rows: int = CHUNK_ROWS
) -> Iterator[tuple[str, Chunk]]:
    """Cut parsed rows into chunks of one model, sorted by (time, sequence, row).

    Chunks share their memory: each is a slice of one sorted batch.
    """
    gathered = [part for part in gathered if len(part)]
    if not gathered:
        return
    yield from chunks_of(*by_model(gathered, columns), chunk_rows)


def chunks_of(
    batch: pa.RecordBatch, models: Sequence[str], ends: Sequence[int], chunk_rows: int = CHUNK_ROWS
) -> Iterator[tuple[str, Chunk]]:
    """Cut what `by_model` returns into chunks."""
    for name, start, stop in zip(models, (0, *ends[:-1]), ends, strict=True):
        for at in range(start, stop, chunk_rows):
            yield name, Chunk(batch, part=(at, min(at + chunk_rows, stop)))


def by_model(
    gathered: Sequence[ParsedRows], columns: Columns
) -> tuple[pa.RecordBatch, list[str], list[int]]:
    """Put parsed rows, at least one, in order of (model, time, sequence, row).

    Returns:
        The rows, the models, and where the rows of each end.
    """
    models, model = join_models(gathered)
    time = None if columns.time is None else join_parts([p.time for p in gathered])
    sequence = None if columns.sequence is None else join_parts([p.sequence for p in gathered])
    order = _order(model, time, sequence)
    batch = batch_of(gathered, columns, time, sequence, order)
    model = model if order is None else model[order]
    ends = [*(np.flatnonzero(np.diff(model)) + 1).tolist(), len(model)]
    return batch, [models[at] for at in model[np.array(ends) - 1].tolist()], ends


def _is_enough(gathered: Sequence[ParsedRows], gather_rows: int) -> bool:
    rows = sum(len(part) for part in gathered)
    if rows >= gather_rows or sum(part.nbytes for part in gathered) >= GATHER_BYTES:
        return True
    present: set[str] = set()
    for part in gathered:
        present.update(part.models[code] for code in np.unique(part.model).tolist())
        if rows < ROWS_PER_MODEL * len(present):
            return False
    return rows > 0


def join_models(gathered: Sequence[ParsedRows]) -> tuple[list[str], npt.NDArray[np.int32]]:
    """Number the models of all parts in the order in which they are first named."""
    positions: dict[str, int] = {}
    parts = []
    for part in gathered:
        codes = [positions.setdefault(name, len(positions)) for name in part.models]
        parts.append(np.array(codes, dtype=np.int32)[part.model])
    return list(positions), join_parts(parts)


def _order(
    model: npt.NDArray[np.int32],
    time: npt.NDArray[np.int64] | None,
    sequence: npt.NDArray[np.int64] | None,
) -> npt.NDArray[np.int64] | None:
    """Return the order by model, time, sequence and place; None if it is the one there."""
    keys = [key for key in (sequence, time) if key is not None]
    if (model[1:] < model[:-1]).any():
        # A stable sort of 16-bit numbers is a radix sort, several times as fast.
        small = model.astype(np.uint16) if model.max() < 2**16 else model
        order = np.argsort(small, kind="stable")
    else:
        order = None
    if keys and not is_sorted(model, keys, order):
        return np.lexsort((*keys, model.astype(np.int64)))
    return order


def is_sorted(
    model: npt.NDArray[np.integer],
    keys: Sequence[npt.NDArray[np.int64]],
    order: npt.NDArray[np.int64] | None,
) -> bool:
    """Check whether rows in this order are sorted in each model by the keys, the last one first."""
    model = model if order is None else model[order]
    equal = model[1:] == model[:-1]
    for key in reversed(keys):
        values = key if order is None else key[order]
        if (equal & (values[1:] < values[:-1])).any():
            return False
        equal &= values[1:] == values[:-1]
    return True


def batch_of(
    gathered: Sequence[ParsedRows],
    columns: Columns,
    time: npt.NDArray[np.int64] | None,
    sequence: npt.NDArray[np.int64] | None,
    order: npt.NDArray[np.int64] | None,
) -> pa.RecordBatch:
    """Build the columns of a chunk for all rows, in the given order."""
    arrays: dict[str, pa.Array] = {}
    if time is not None:
        arrays["time"] = _taken(time, order)
    if sequence is not None:
        arrays["sequence"] = _taken(sequence, order)
    arrays["source"] = _taken(join_parts([part.source for part in gathered]), order)
    arrays["row"] = _taken(join_parts([part.row for part in gathered]), order)
    if columns.long is not None and columns.long.narrow:
        arrays["channel"] = _taken(join_parts([part.channel for part in gathered]), order)
    if columns.width:
        x = join_parts([part.x for part in gathered])
        arrays["x"] = matrix_column(x if order is None else x[order])
    if columns.label is not None:
        label = pa.concat_arrays([part.label for part in gathered])
        arrays["label"] = label if order is None else label.take(pa.array(order))
    return pa.RecordBatch.from_pydict(arrays)


def _taken(values: npt.NDArray[Any], order: npt.NDArray[np.int64] | None) -> pa.Array:
    return pa.array(values if order is None else values[order])


def join_parts(parts: Sequence[Any]) -> Any:
    """Join arrays, at least one."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
