"""The files of a run's output folder, as the report reads and writes them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from kerneltrack.errors import DataError
from kerneltrack.paths import join
from kerneltrack.snapshots.files import (
    files_in,
    opened,
    read_whole,
    remove_file,
    write_whole,
)
from pipelines.run_folder import REPORT, REPORT_DEVICES, RUN

BATCH_ROWS = 1 << 18
"""Rows of a batch, where columns are a number each."""

_REPETITIVE = ("model_id", "source", "label", "prediction", "kind", "reason")


def parquet_files(output: str, folder: str) -> list[str]:
    """List `output/folder/*.parquet` in the order of their names; empty if there is no folder."""
    folder = join(output, folder)
    return [join(folder, name) for name, _ in files_in(folder, ".parquet")]


def fields_of(paths: Sequence[str]) -> pa.Schema:
    """Return the columns of the first of the files; all have the same."""
    if not paths:
        return pa.schema([])
    with _open_parquet(paths[0]) as file:
        return file.schema_arrow


def column_names(paths: Sequence[str]) -> list[str]:
    """Return the names of the columns of the files."""
    return cast("list[str]", fields_of(paths).names)


def read_batches(
    paths: Sequence[str], columns: Sequence[str], most: int = BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the files in order, these columns only, at most so many rows at a time.

    The next batch is read while the caller uses one, so two are in memory. Arrow has no threads of
    its own here: a job reads so at its very end, and one of them that still lets go of a file when
    Python ends would abort the process (apache/arrow#34314).
    """
    batches = _batches(paths, columns, most)
    with ThreadPoolExecutor(max_workers=1) as reader:
        coming = reader.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = reader.submit(next, batches, None)
            yield batch


def _batches(paths: Sequence[str], columns: Sequence[str], most: int) -> Iterator[pa.RecordBatch]:
    for path in paths:
        with _open_parquet(path) as file:
            batches = file.iter_batches(most, columns=list(columns), use_threads=False)
            yield from (batch for batch in batches if batch.num_rows)


def plain_table(batch: pa.RecordBatch) -> pa.Table:
    """Return a batch as a table, times as ns since 1970, texts without dictionaries."""
    columns = {}
    for field in batch.schema:
        column = batch.column(field.name)
        if pa.types.is_timestamp(field.type):
            column = column.cast(pa.timestamp("ns", field.type.tz)).cast(pa.int64())
        elif pa.types.is_dictionary(field.type):
            column = column.dictionary_decode()
        columns[field.name] = column
    return pa.table(columns)


def read_lines(
    output: str, folder: str, columns: Sequence[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the lines of the files of `output/folder` in order, with times as ns since 1970."""
    paths = parquet_files(output, folder)
    for batch in read_batches(paths, columns or column_names(paths)):
        yield from plain_table(batch).to_pylist()


def read_tables(
    output: str, folder: str, columns: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """Yield the rows of the files of `output/folder`, in order, a file's at a time."""
    for path in parquet_files(output, folder):
        with opened(path) as source:
            yield pq.ParquetFile(source).read(columns=columns, use_threads=False)


def count_rows(output: str, folder: str) -> int:
    """Return how many rows the files of `output/folder` have."""
    total = 0
    for path in parquet_files(output, folder):
        with opened(path) as source:
            total += pq.ParquetFile(source).metadata.num_rows
    return total


def write_table(
    output: str, folder: str, lines: Sequence[dict[str, Any]], schema: pa.Schema
) -> None:
    """Write lines as the only file of `output/folder`, never half of it."""
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(lines, schema), buffer)
    write_whole(join(output, folder, "part-00000-of-00001.parquet"), buffer.getvalue())


def read_run(output: str) -> dict[str, Any]:
    """Read `output/run.json`.

    Raises:
        DataError: If the file is missing, or is not one JSON object.
    """
    path = join(output, RUN)
    try:
        run = json.loads(read_whole(path))
    except ValueError as error:
        raise DataError(path, f"is not JSON ({error})") from error
    if not isinstance(run, dict):
        raise DataError(path, "is not a JSON object")
    return run


def write_page(output: str, page: str, beside: Iterable[str] = ()) -> str:
    """Write `output/report.html` and the scripts beside it; return the page's path.

    Never half a file; scripts of an earlier page that are not written again are removed.
    """
    folder = join(output, REPORT_DEVICES)
    kept = set()
    for number, script in enumerate(beside):
        kept.add(f"{number:04}.js")
        data = script.encode("utf-8", "backslashreplace")
        write_whole(join(folder, f"{number:04}.js"), data, mime_type="text/javascript")
    path = join(output, REPORT)
    write_whole(path, page.encode("utf-8", "backslashreplace"), mime_type="text/html")
    for name, _ in files_in(folder, ".js"):
        if name not in kept:
            remove_file(join(folder, name))
    return path


@contextmanager
def _open_parquet(path: str) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file, columns of few distinct texts as dictionaries."""
    with opened(path) as source:
        try:
            file = pq.ParquetFile(source)
        except pa.ArrowInvalid as error:
            raise DataError(path, f"is not a Parquet file ({error})") from error
        repetitive = [name for name in _REPETITIVE if name in file.schema_arrow.names]
        yield pq.ParquetFile(source, metadata=file.metadata, read_dictionary=repetitive)
