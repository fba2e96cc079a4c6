"""Labels from files of their own, for `TrainLinear`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PBegin, PCollection

from kerneltrack.errors import ConfigError
from transforms.chunks import Chunk
from transforms.read.column_options import ColumnOptions
from transforms.read.columns import Columns
from transforms.read.files import ReadChunks
from transforms.read.formats import FormatOptions
from transforms.read.look import look_at_files


class ReadLabels(beam.PTransform[PBegin, dict[str, PCollection[Any]]]):
    """Read labels of rows that are known by model id and row index, or model id and time.

    Output: "rows", `tuple[str, Chunk]` with `index` or `time`, `source`, `row` and `label`, and
    "failures", `Failures`: lines that could not be read.

    Args:
        patterns: Files or globs.
        columns: Columns of model id and label, and of the time, or of the row index as
            `sequence`.
        formats: How the files are read.
        first_source: Number of the first file; the job's other inputs have those below.

    Raises:
        ConfigError: if neither index nor time is named, or no label; see also `ReadChunks`.
        DataError: as `ReadChunks`.
    """

    def __init__(
        self,
        patterns: Sequence[str],
        columns: ColumnOptions,
        formats: FormatOptions | None = None,
        first_source: int = 0,
    ) -> None:
        super().__init__()
        if not columns.label:
            raise ConfigError("label", columns.label, "the column of the labels")
        if (columns.sequence is None) == (columns.time is None):
            raise ConfigError("sequence", columns.sequence, "the row index, or else a time column")
        # Ids of rows may come from their paths; labels may have a column of them.
        files = look_at_files(patterns, columns, formats, stored_first=True)
        self._read = ReadChunks(files, first_source=first_source, counted_as="labels")
        self.input = self._read.input

    def describe(self) -> str:
        """Return in words how many files there are, and by which columns labels are matched."""
        columns, files = self.input.columns, len(self.input.paths)
        label = f"{columns.label} ({columns.label_type})"
        names = [columns.model_id, *([columns.sequence] if columns.sequence else columns.times)]
        by = ", ".join(name for name in names if name is not None)
        return f"labels:   {files} file{'s' if files > 1 else ''}: {label}, matched by {by}"

    def expand(self, pbegin: PBegin) -> dict[str, PCollection[Any]]:
        """Build the steps."""
        read: dict[str, PCollection[Any]] = pbegin | "ReadLabels" >> self._read
        return {**read, "rows": name_rows(read["rows"], self.input.columns)}


def name_rows(labels: PCollection[Any], columns: Columns) -> PCollection[Any]:
    """Return labels with the column `index` or `time`, by which they name rows.

    Args:
        labels: `tuple[str, Chunk]` as they were read, an index as `sequence`.
        columns: What each of their columns is.
    """
    if columns.sequence is None:
        return labels
    named: PCollection[Any] = labels | "Indexed" >> beam.Map(indexed).with_output_types(
        tuple[str, Chunk]
    )
    return named


def indexed(element: tuple[str, Chunk]) -> tuple[str, Chunk]:
    """Return labels that name rows by index, which was read as `sequence`, under that name."""
    key, chunk = element
    batch = chunk.batch
    names = ["index" if name == "sequence" else name for name in batch.schema.names]
    return key, Chunk(batch.rename_columns(names))
