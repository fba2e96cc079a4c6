"""Where results go: Parquet files, one snapshot per model, never a half file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam import coders, pvalue
from apache_beam.io.filebasedsink import FileBasedSink
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from kerneltrack import codec
from kerneltrack.specs import SubspaceSpec
from transforms.chunks import FAILURE_SCHEMA, Chunk

ROW_GROUP_ROWS = 131_072
MAX_NAME = 180
"""Longest file name made of a model id: file systems stop at 255 bytes."""
INDEX = "index.json"

ArrowTable = Any


def features_schema(
    spec: SubspaceSpec,
    label: pa.DataType | None,
    has_time: bool,
    extras: tuple[str, ...] = (),
    budget: int = 0,
) -> pa.Schema:
    """Return the schema of the features files.

    Args:
        spec: The tracker's spec.
        label: Type of the label, None without one.
        has_time: Whether the input has a time column.
        extras: Extra features, "q" and "s".
        budget: Width of "s".
    """
    fields = [pa.field("model_id", pa.string()), pa.field("index", pa.int64())]
    if has_time:
        fields.append(pa.field("time", pa.timestamp("ns", tz="UTC")))
    fields += [
        pa.field("source", pa.dictionary(pa.int32(), pa.string())),
        pa.field("row", pa.int64()),
        pa.field("loss", pa.float64()),
        pa.field("novelty", pa.float64()),
        pa.field("informative", pa.bool_()),
        pa.field("evicted", pa.int64()),
        pa.field("initial", pa.bool_()),
    ]
    names = dict.fromkeys([spec.emit, *(name for name in ("q", "s") if name in extras)])
    for name in names:
        width = budget if name == "s" else spec.rank
        fields.append(pa.field(name, pa.list_(pa.float64(), width)))
    if label is not None:
        fields.append(pa.field("label", label))
    return pa.schema(fields)


class WriteFeatures(beam.PTransform[pvalue.PCollection[Any], pvalue.PCollection[Any]]):
    """Write feature chunks as Parquet files `PREFIX-SSSSS-of-NNNNN.parquet`.

    Input: `tuple[str, Chunk]` of features, bounded. Files appear under their final names only
    when all are complete.

    Args:
        prefix: Folder and first part of the files' names.
        schema: From `features_schema`.
        sources: Path of each source number.
    """

    def __init__(self, prefix: str, schema: pa.Schema, sources: Sequence[str]) -> None:
        """Keep the arguments; see the class."""
        super().__init__()
        self._prefix = prefix
        self._schema = schema
        self._sources = sources

    def expand(self, features: pvalue.PCollection[Any]) -> pvalue.PCollection[Any]:
        """Apply the transform."""
        sink = _ParquetSink(self._prefix, self._schema, self._sources)
        written: pvalue.PCollection[Any] = features | "WriteFeatures" >> beam.io.Write(sink)
        return written


class WriteFailures(beam.PTransform[pvalue.PCollection[Any], pvalue.PCollection[Any]]):
    """Write failures as Parquet files with model_id, source (path), row and reason.

    Input: `Failures`, bounded. Without failures one file without rows is written.
    """

    def __init__(self, prefix: str, sources: Sequence[str]) -> None:
        """Keep the arguments; see `WriteFeatures`."""
        super().__init__()
        self._prefix = prefix
        self._sources = sources

    def expand(self, failures: pvalue.PCollection[Any]) -> pvalue.PCollection[Any]:
        """Apply the transform."""
        position = FAILURE_SCHEMA.get_field_index("source")
        schema = FAILURE_SCHEMA.set(
            position, pa.field("source", pa.dictionary(pa.int32(), pa.string()))
        )
        sink = _ParquetSink(self._prefix, schema, self._sources)
        written: pvalue.PCollection[Any] = (
            failures
            | "Unkeyed" >> beam.Map(lambda part: (None, Chunk(part.batch)))
            | "WriteFailures" >> beam.io.Write(sink)
        )
        return written


class _RowGroups:
    """A Parquet file being written: rows gather until they fill a row group."""

    def __init__(self, handle: Any, schema: pa.Schema, sources: Sequence[str]) -> None:
        self._handle = handle
        self._writer = pq.ParquetWriter(
            handle,
            schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=_repeating(schema),
        )
        self._schema = schema
        self._sources = pa.array(sources, pa.string())
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0

    def add(self, model_id: str | None, batch: pa.RecordBatch) -> None:
        columns = []
        for field in self._schema:
            if field.name == "model_id" and batch.schema.get_field_index("model_id") < 0:
                column = pa.array([model_id], pa.string()).take(pa.array([0] * batch.num_rows))
            elif field.name == "source":
                column = pa.DictionaryArray.from_arrays(batch.column("source"), self._sources)
            else:
                column = batch.column(field.name).cast(field.type)
            columns.append(column)
        self._batches.append(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        self._rows += batch.num_rows
        if self._rows >= ROW_GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._batches:
            table = pa.Table.from_batches(self._batches, schema=self._schema)
            self._writer.write_table(table.combine_chunks(), row_group_size=ROW_GROUP_ROWS)
        self._batches, self._rows = [], 0

    def close(self) -> None:
        self._flush()
        self._writer.close()
        self._handle.close()


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

    def open(self, temp_path: str) -> _RowGroups:
        return _RowGroups(super().open(temp_path), self._schema, self._sources)

    def write_record(self, writer: _RowGroups, value: tuple[str | None, Chunk]) -> None:
        writer.add(value[0], value[1].batch)

    def close(self, writer: _RowGroups | None) -> None:
        if writer is not None:
            writer.close()


def snapshot_name(model_id: str) -> str:
    """Return a file name for a model id: percent-escaped, shortened by a hash if too long.

    Example:
        >>> snapshot_name("robot/7")
        'robot%2F7.safetensors'
    """
    # quote() leaves "~" alone; here it sets a hash apart.
    name = quote(model_id.encode("utf-8", "surrogatepass"), safe=" ").replace("~", "%7E")
    if name.startswith("."):
        name = "%2E" + name[1:]
    if len(name) > MAX_NAME:
        digest = hashlib.sha256(model_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        name = f"{name[: MAX_NAME - 40]}~{digest}"
    return (name or "%") + ".safetensors"


class WriteSnapshots(beam.PTransform[pvalue.PCollection[Any], pvalue.PCollection[Any]]):
    """Write one safetensors file per model, and an index of them.

    Input: `tuple[str, bytes]`, bounded, one element per model. `index.json` maps each model id
    to its file and its number of rows. Files are renamed into place once complete.

    Args:
        folder: Where to.
        float32: Store reals in single precision.
    """

    def __init__(self, folder: str, float32: bool = False) -> None:
        """Keep the arguments; see the class."""
        super().__init__()
        self._folder = folder
        self._float32 = float32

    def expand(self, snapshots: pvalue.PCollection[Any]) -> pvalue.PCollection[Any]:
        """Apply the transform."""
        written: pvalue.PCollection[Any] = (
            snapshots
            | "WriteState" >> beam.ParDo(_WriteStateFn(self._folder, self._float32))
            | "ListStates" >> beam.combiners.ToList()
            | "WriteIndex" >> beam.Map(_write_index, self._folder)
        )
        return written


class _WriteStateFn(beam.DoFn):
    """Write a model's state, give its line of the index."""

    def __init__(self, folder: str, float32: bool) -> None:
        self._folder = folder
        self._float32 = float32

    def process(self, element: tuple[str, bytes]) -> Iterator[tuple[str, dict[str, Any]]]:
        model_id, data = element
        origin = f"state of model {model_id!r}"
        about = codec.read_header(data, origin)["about"]
        if self._float32:
            snapshot = codec.decode(data, origin)
            data = codec.encode(snapshot.spec, snapshot.state, about, float32=True)
        name = snapshot_name(model_id)
        write_whole(FileSystems.join(self._folder, name), data)
        yield model_id, {"file": name, "rows": about["rows"], "bytes": len(data)}


def _write_index(entries: list[tuple[str, dict[str, Any]]], folder: str) -> None:
    index = {"version": 1, "models": dict(sorted(entries))}
    text = json.dumps(index, indent=1)
    write_whole(FileSystems.join(folder, INDEX), text.encode("utf-8"))


def write_whole(path: str, data: bytes) -> None:
    """Write a file under another name and rename it, so that no half file bears its name."""
    unfinished = path + ".unfinished"
    try:
        with FileSystems.create(
            unfinished, compression_type=CompressionTypes.UNCOMPRESSED
        ) as handle:
            handle.write(data)
        FileSystems.rename([unfinished], [path])
    except BaseException:
        if FileSystems.exists(unfinished):
            FileSystems.delete([unfinished])
        raise
