"""Where results go: Parquet files, one snapshot per model, never a half file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam import coders, pvalue
from apache_beam.io.filebasedsink import FileBasedSink
from apache_beam.io.filesystem import CompressionTypes

from kerneltrack.errors import path_text
from transforms.chunks import Chunk
from transforms.failures import FAILURE_SCHEMA

ROW_GROUP_ROWS = 131_072


class WriteChunks(beam.PTransform[pvalue.PCollection[Any], pvalue.PCollection[Any]]):
    """Write chunks as Parquet files `PREFIX-SSSSS-of-NNNNN.parquet`.

    Input: `tuple[str, Chunk]`, bounded. Files appear under their final names only when all are
    complete. Without chunks one file without rows is written.

    Args:
        prefix: Folder and first part of the files' names.
        schema: One of `transforms.write.schemas`.
        sources: Path of each source number, if the schema has a source.
    """

    def __init__(self, prefix: str, schema: pa.Schema, sources: Sequence[str] = ()) -> None:
        super().__init__()
        self._sink = _ParquetSink(prefix, schema, sources)

    def expand(self, chunks: pvalue.PCollection[Any]) -> pvalue.PCollection[Any]:
        """Apply the transform."""
        written: pvalue.PCollection[Any] = chunks | "WriteParquet" >> beam.io.Write(self._sink)
        return written


class WriteFailures(beam.PTransform[pvalue.PCollection[Any], pvalue.PCollection[Any]]):
    """Write failures as Parquet files with model_id, source (path), row and reason.

    Input: `Failures`, bounded. Without failures one file without rows is written.
    """

    def __init__(self, prefix: str, sources: Sequence[str]) -> None:
        super().__init__()
        self._sink = _ParquetSink(prefix, failures_schema(), sources)

    def expand(self, failures: pvalue.PCollection[Any]) -> pvalue.PCollection[Any]:
        """Apply the transform."""
        written: pvalue.PCollection[Any] = (
            failures
            | "Unkeyed" >> beam.Map(lambda part: (None, Chunk(part.batch)))
            | "WriteFailures" >> beam.io.Write(self._sink)
        )
        return written


def failures_schema() -> pa.Schema:
    """Return the schema of the failures files."""
    position = FAILURE_SCHEMA.get_field_index("source")
    return FAILURE_SCHEMA.set(position, pa.field("source", pa.dictionary(pa.int32(), pa.string())))


class RowGroups:
    """A Parquet file being written: rows gather until they fill a row group."""

    def __init__(self, handle: Any, schema: pa.Schema, sources: Sequence[str]) -> None:
        """Begin a file that is open for writing; paths of the source numbers, if it has any."""
        self._handle = handle
        self._writer = pq.ParquetWriter(
            handle,
            schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=_repeating(schema),
        )
        self._schema = schema
        self._sources = pa.array([path_text(path) for path in sources], pa.string())
        self._batches: list[pa.RecordBatch] = []
        self._models: list[str | None] = []
        self._lengths: list[int] = []
        self._rows = 0

    def add(self, model_id: str | None, batch: pa.RecordBatch) -> None:
        """Add rows of one model; of None the batch says which."""
        self.add_block([model_id], [batch.num_rows], batch)

    def add_block(
        self, models: Sequence[str | None], lengths: Sequence[int], batch: pa.RecordBatch
    ) -> None:
        """Add rows of several models, so many of each."""
        if self._batches and batch.schema != self._batches[0].schema:
            self._flush()
        self._batches.append(batch)
        self._models += models
        self._lengths += lengths
        self._rows += batch.num_rows
        if self._rows >= ROW_GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        """Write what has gathered: columns are made of many models' rows at once."""
        if not self._batches:
            return
        rows = pa.Table.from_batches(self._batches).combine_chunks()
        columns = []
        for field in self._schema:
            if field.name == "model_id" and rows.schema.get_field_index("model_id") < 0:
                place = np.repeat(np.arange(len(self._lengths)), self._lengths)
                column = pa.array(self._models, pa.string()).take(pa.array(place))
            elif field.name == "source":
                found = _whole(rows.column("source"))
                column = pa.DictionaryArray.from_arrays(found, self._sources)
            else:
                column = _whole(rows.column(field.name).cast(field.type))
            columns.append(column)
        table = pa.Table.from_arrays(columns, schema=self._schema)
        self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        self._batches, self._models, self._lengths, self._rows = [], [], [], 0

    def close(self) -> None:
        """Write what is left and close the file."""
        self._flush()
        self._writer.close()
        self._handle.close()


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """Return a column that is in one piece, or none, as an array."""
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _repeating(schema: pa.Schema) -> list[str]:
    """Columns worth a dictionary: reals all differ, so one would only cost time."""
    return [
        field.name
        for field in schema
        if pa.types.is_string(field.type) or pa.types.is_dictionary(field.type)
    ]


class _ParquetSink(FileBasedSink):
    """Parquet files of (model id, chunk) pairs, complete or not there at all."""

    def __init__(self, prefix: str, schema: pa.Schema, sources: Sequence[str]) -> None:
        super().__init__(  # type: ignore[no-untyped-call]
            file_path_prefix=prefix,
            coder=coders.BytesCoder(),
            file_name_suffix=".parquet",
            num_shards=0,
            mime_type="application/vnd.apache.parquet",
            compression_type=CompressionTypes.UNCOMPRESSED,
        )
        self._schema = schema
        self._sources = list(sources)

    def open(self, temp_path: str) -> RowGroups:
        return RowGroups(super().open(temp_path), self._schema, self._sources)

    def write_record(self, writer: RowGroups, value: tuple[str | None, Chunk]) -> None:
        writer.add(value[0], value[1].batch)

    def close(self, writer: RowGroups | None) -> None:
        if writer is not None:
            writer.close()
