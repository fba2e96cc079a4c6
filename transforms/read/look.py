"""A look at the input before the job: which files there are, and which column is what."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from kerneltrack.errors import ConfigError
from transforms.read.column_options import ColumnOptions
from transforms.read.columns import Columns, resolve
from transforms.read.formats import FileInfo, FormatOptions, inspect, match

_LOOKS = 8


@dataclass(frozen=True)
class Input:
    """Files that were looked at.

    Attributes:
        infos: What the look at each file showed; a file's place is its source number.
        columns: Which column is what.
    """

    infos: list[FileInfo]
    columns: Columns

    @property
    def paths(self) -> list[str]:
        """Paths of the files; a file's place is its source number."""
        return [info.path for info in self.infos]

    @property
    def rows(self) -> int | None:
        """Number of rows of all files, None if one does not say."""
        total = 0
        for info in self.infos:
            if info.rows is None:
                return None
            total += info.rows
        return total

    def describe(self) -> str:
        """Return in words how many files there are and which column is what."""
        size = f"{len(self.infos)} file{'s' if len(self.infos) > 1 else ''}"
        counted = size if self.rows is None else f"{size}, {self.rows:,} rows"
        return f"input:    {counted}\n{self.columns.describe()}"


def look_at_files(
    patterns: str | Sequence[str],
    columns: ColumnOptions | None = None,
    formats: FormatOptions | None = None,
) -> Input:
    """Match the patterns and look at each file, several at a time.

    Args:
        patterns: Paths or glob patterns, for any of Beam's file systems.
        columns: What the columns are.
        formats: How the files are read.

    Raises:
        ConfigError: if no pattern is given, or a column is not there.
        DataError: if nothing matches, a file cannot be read, or files disagree.
    """
    patterns = [patterns] if isinstance(patterns, str) else patterns
    if not patterns:
        raise ConfigError("input", patterns, "one path or pattern at least")
    paths = match(patterns)
    with ThreadPoolExecutor(max_workers=_LOOKS) as pool:
        infos = list(pool.map(partial(inspect, options=formats), paths))
    return Input(infos, resolve(infos, columns or ColumnOptions()))
