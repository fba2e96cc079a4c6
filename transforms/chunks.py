"""The element of every pipeline: a chunk of one model's rows, and how it travels.

Rows one by one cost 5-25 µs each in Beam's Python SDK; a chunk of a thousand costs well under
0.1 µs a row. So rows are cut into chunks at the source and stay in chunks to the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from apache_beam import coders

from transforms.failures import Failures
from transforms.records import MAGIC, Records, batch_of, join, pieces_of

IN_ORDER = ("row", "source", "sequence", "time")
"""Columns that rows in order are sorted by, the last one first."""


FEW = 32
"""Records up to which Python finds the least and greatest time faster than NumPy."""


class Chunk:
    """Rows of one model, as an Arrow record batch.

    Input rows have the columns `time` (int64, ns since 1970 UTC; absent without a time column),
    `sequence` (int64; absent without one), `source` (int32, the file's rank in the sorted list of
    inputs), `row` (int64, the row's number in its file), `x` (fixed-size list of D float32 or
    float64) and `label` (string, int64 or float64, nullable; absent without one). Features carry
    `index`, `loss`, `z` and so on in place of `x`.

    A few input rows may lie as records instead (`transforms.records`), and become a batch when one
    is asked for; so does a part of a batch. Those that follow one another in it are joined without
    being copied.
    """

    __slots__ = ("_batch", "_part", "_records", "_span")

    def __init__(
        self,
        batch: pa.RecordBatch | None,
        records: Records | None = None,
        part: tuple[int, int] | None = None,
        span: tuple[int, int] | None = None,
    ) -> None:
        """Take a batch, or a part of it (from, to), or records; `span` if it is known already."""
        self._batch: Any = batch
        self._records = records
        self._part = part
        self._span = span

    def __eq__(self, other: object) -> bool:
        """Check whether these are the same rows."""
        return isinstance(other, Chunk) and bool(self.batch == other.batch)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Show the batch."""
        return f"Chunk({self.batch!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Let rows be pickled as what they travel as."""
        return chunk_from, (self.encode(),)

    @property
    def batch(self) -> pa.RecordBatch:
        """The rows."""
        if self._batch is None:
            self._batch = batch_of(cast(Records, self._records))
        if self._part is not None:
            start, stop = self._part
            self._batch, self._part = self._batch.slice(start, stop - start), None
        return self._batch

    @property
    def records(self) -> Records | None:
        """The rows as records, if that is how they lie."""
        return self._records

    @property
    def part(self) -> tuple[pa.RecordBatch, int, int] | None:
        """The batch that the rows are a part of, from and to where; None if they are no part."""
        return None if self._part is None else (self._batch, *self._part)

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        if self._records is not None:
            return self._records.form.schema
        return self._batch.schema

    def encode(self) -> bytes:
        """Return the rows as bytes, for `chunk_from`."""
        return encode_batch(self.batch) if self._records is None else self._records.data

    def has_columns_of(self, other: Chunk) -> bool:
        """Check whether two chunks have the same columns; those of one batch do."""
        own, others = self.schema, other.schema
        return own is others or bool(own == others)

    def __len__(self) -> int:
        """Return the number of rows."""
        if self._records is not None:
            return self._records.rows
        if self._part is not None:
            start, stop = self._part
            return stop - start
        rows: int = self._batch.num_rows
        return rows

    def has(self, name: str) -> bool:
        """Check whether the chunk has the column."""
        if self._records is not None:
            return name in self._records.form.names
        return name in self.schema.names

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return a column as a NumPy array, shape (n,), or (n, width) for a fixed-size list."""
        if self._batch is None and self._records is not None and name != "label":
            return np.ascontiguousarray(self._records.array()[name])
        array = self.batch.column(name)
        if pa.types.is_fixed_size_list(array.type):
            flat = array.flatten().to_numpy(zero_copy_only=True)
            return cast("npt.NDArray[Any]", flat.reshape(len(array), array.type.list_size))
        return cast("npt.NDArray[Any]", array.to_numpy(zero_copy_only=False))

    def span(self) -> tuple[int, int]:
        """Return the least and greatest time of rows, at least one, that have times."""
        if self._span is not None:
            return self._span
        if self._records is not None and self._records.rows <= FEW:
            few = self._records.times()
            return min(few), max(few)
        times = self.column("time")
        return int(times.min()), int(times.max())

    def take(self, rows: npt.NDArray[np.int64]) -> Chunk:
        """Return the rows at these positions, in this order."""
        if self._batch is None and self._records is not None:
            return Chunk(None, self._records.take(rows))
        return Chunk(self.batch.take(pa.array(rows)))

    def slice(self, start: int, stop: int) -> Chunk:
        """Return rows start..stop without copying."""
        return Chunk(self.batch, part=(start, min(stop, len(self))))

    def later_than(self, time: float) -> Chunk:
        """Return the rows after a time, ns."""
        return self._where(self.column("time") > time)

    def earlier_than(self, time: float) -> Chunk:
        """Return the rows before a time, ns."""
        return self._where(self.column("time") < time)

    def _where(self, chosen: npt.NDArray[np.bool_]) -> Chunk:
        """Return some of the rows, without copying where they follow one another."""
        rows = np.flatnonzero(chosen)
        if len(rows) and int(rows[-1] - rows[0]) + 1 == len(rows):
            return self.slice(int(rows[0]), int(rows[-1]) + 1)
        return self.take(rows)

    def in_order(self) -> Chunk:
        """Return the rows sorted by (time, sequence, source, row)."""
        if self.has("time"):
            times = self.column("time")
            if (times[1:] > times[:-1]).all():
                return self
        order = np.lexsort([self.column(name) for name in IN_ORDER if self.has(name)])
        if (order[1:] > order[:-1]).all():
            return self
        return self.take(order)

    @staticmethod
    def concat(chunks: Sequence[Chunk]) -> Chunk:
        """Join chunks that share a schema."""
        if len(chunks) == 1:
            return chunks[0]
        pieces = [chunk.records for chunk in chunks if chunk.records is not None]
        if len(pieces) == len(chunks) and all(p.form is pieces[0].form for p in pieces):
            return Chunk(None, join(pieces))
        joined = _rejoined(chunks)
        if joined is None:
            joined = Chunk(pa.concat_batches([chunk.batch for chunk in chunks]))
        return joined


def _rejoined(chunks: Sequence[Chunk]) -> Chunk | None:
    """Return parts of a batch that follow one another in it as one part; None if they are none."""
    parts = [part for each in chunks if (part := each.part) is not None]
    if len(parts) < len(chunks):
        return None
    for (batch, _, stop), (other, start, _) in pairwise(parts):
        if other is not batch or stop != start:
            return None
    return Chunk(parts[0][0], part=(parts[0][1], parts[-1][2]))


MOST_AS_RECORDS = 48
"""Rows of a model, on average, up to which they are laid out as records: with 14 channels these
take 4 us to write and to join at 8 rows, 10 at 32 and 18 at 64, a batch of Arrow 14 at each."""


def few_each(rows: int, models: int) -> bool:
    """Check whether so many models have so few rows each that these are best as records."""
    return 0 < models and rows <= MOST_AS_RECORDS * models


def pieces(rows: Chunk, ends: Sequence[int]) -> list[bytes]:
    """Return rows as bytes for `chunk_from`, cut into pieces: a few rows each as records.

    Args:
        rows: The rows.
        ends: Where each piece ends; it begins where that before it ended.
    """
    if rows.records is not None:
        return rows.records.cut(ends)
    batch = rows.batch
    if few_each(batch.num_rows, len(ends)):
        found = pieces_of(batch, ends)
        if found is not None:
            return found
    return [encode_batch(batch.slice(a, b - a)) for a, b in pairwise((0, *ends))]


def chunk_from(data: bytes, span: tuple[int, int] | None = None) -> Chunk:
    """Read rows back from bytes; `span` if it is known already."""
    if data.startswith(MAGIC):
        return Chunk(None, Records(data), None, span)
    return Chunk(decode_batch(data), None, None, span)


def matrix_column(matrix: npt.NDArray[Any]) -> pa.FixedSizeListArray:
    """Turn an (n, width) array into a fixed-size list column without copying."""
    flat = pa.array(np.ascontiguousarray(matrix).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, matrix.shape[1])


def known_matrix_column(matrix: npt.NDArray[Any]) -> pa.FixedSizeListArray:
    """Turn an (n, width) array into a fixed-size list column, null where it is NaN."""
    flat = np.ascontiguousarray(matrix).reshape(-1)
    return pa.FixedSizeListArray.from_arrays(pa.array(flat, mask=np.isnan(flat)), matrix.shape[1])


def no_rows(width: int) -> Chunk:
    """Return no rows, of so many channels."""
    return Chunk(pa.RecordBatch.from_pydict({"x": matrix_column(np.zeros((0, width)))}))


_EOS = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""How an IPC stream ends."""
_MOST_SCHEMAS = 16
_heads: tuple[tuple[pa.Schema, bytes], ...] = ()
_schemas: dict[bytes, pa.Schema] = {}
"""The schemas' parts of streams, by schema and by bytes: a job's chunks have few, and for a row or
two they cost several times what the rows do."""


def encode_batch(batch: pa.RecordBatch) -> bytes:
    """Write one record batch as an Arrow IPC stream."""
    head = _head_of(batch.schema)
    if head is None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return cast(bytes, sink.getvalue().to_pybytes())
    return b"".join((head, batch.serialize(), _EOS))


def _head_of(schema: pa.Schema) -> bytes | None:
    """Return what a stream of this schema begins with; None if it has dictionaries."""
    global _heads  # noqa: PLW0603 - replaced as a whole: bundles run side by side
    for known, head in _heads:
        if known is schema or known.equals(schema, check_metadata=True):
            return head
    if any(pa.types.is_dictionary(field.type) for field in schema):
        return None
    head = cast(bytes, schema.serialize().to_pybytes())
    _heads = ((schema, head), *_heads)[:_MOST_SCHEMAS]
    return head


def decode_batch(data: bytes) -> pa.RecordBatch:
    """Read back what `encode_batch` wrote."""
    # The length of the schema's part stands after four bytes that open it.
    length = 8 + int.from_bytes(data[4:8], "little")
    schema = _schemas.get(data[:length])
    if schema is not None:
        return pa.ipc.read_record_batch(pa.py_buffer(data).slice(length), schema)
    with pa.ipc.open_stream(data) as reader:
        batch = reader.read_next_batch()
    if _head_of(batch.schema) == data[:length]:
        if len(_schemas) >= _MOST_SCHEMAS:
            _schemas.clear()
        _schemas[data[:length]] = batch.schema
    return batch


class ChunkCoder(coders.Coder):
    """Coder of `Chunk`: an Arrow IPC stream, or records."""

    def is_deterministic(self) -> bool:
        """Return whether equal chunks have equal bytes."""
        return True

    def encode(self, value: Chunk) -> bytes:
        """Write a chunk."""
        return value.encode()

    def decode(self, encoded: bytes) -> Chunk:
        """Read a chunk back."""
        return chunk_from(encoded)

    def to_type_hint(self) -> type[Chunk]:
        """Return the type that this coder is for."""
        return Chunk


class FailuresCoder(coders.Coder):
    """Arrow IPC coder of `Failures`."""

    def is_deterministic(self) -> bool:
        """Return whether equal failures have equal bytes."""
        return True

    def encode(self, value: Failures) -> bytes:
        """Write failures."""
        return encode_batch(value.batch)

    def decode(self, encoded: bytes) -> Failures:
        """Read failures back."""
        return Failures(decode_batch(encoded))

    def to_type_hint(self) -> type[Failures]:
        """Return the type that this coder is for."""
        return Failures


coders.registry.register_coder(Chunk, ChunkCoder)
coders.registry.register_coder(Failures, FailuresCoder)
