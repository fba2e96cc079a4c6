"""A look at the input before the job: which files there are, and which column is what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from kerneltrack.errors import ConfigError, fit
from transforms.read.column_options import ColumnOptions
from transforms.read.columns import Columns, resolve
from transforms.read.format_options import NULL_VALUES
from transforms.read.formats import FileInfo, FormatOptions, inspect
from transforms.read.formats.base import NoLine
from transforms.read.formats.files import find
from transforms.read.numbers import Numbers
from transforms.read.path_columns import describe_paths, with_path_columns

_LOOKS = 8
_SHOWN = 5
_NAME = 80


@dataclass(frozen=True)
class Input:
    """Files that were looked at.

    Attributes:
        infos: What the look at each file showed; a file's place is its source number.
        columns: Which column is what.
        skipped: Files of the folders that are not read, because nothing says that they are data.
        empty: Files without a line, which are not read either and have no source number.
    """

    infos: list[FileInfo]
    columns: Columns
    skipped: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()

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
        lines = [f"input:    {counted}", *self._left_out(), *describe_paths(self.infos)]
        return "\n".join([*lines, self.columns.describe()])

    def _left_out(self) -> Iterator[str]:
        if self.skipped:
            why = "not known as data by their endings (--format)"
            yield f"skipped:  {_names(self.skipped)}: {why}"
        if self.empty:
            yield f"empty:    {_names(self.empty)}: without a line"


def _names(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _SHOWN:,} more" if len(paths) > _SHOWN else ""
    return ", ".join(fit(path, _NAME) for path in paths[:_SHOWN]) + more


def look_at_files(
    patterns: str | Sequence[str],
    columns: ColumnOptions | None = None,
    formats: FormatOptions | None = None,
    *,
    stored_first: bool = False,
) -> Input:
    """Match the patterns and look at each file, several at a time.

    Args:
        patterns: Paths of files or folders, or glob patterns, for any of Beam's file systems.
        columns: What the columns are.
        formats: How the files are read.
        stored_first: Whether a file's own column goes before one of its path's pattern.

    Raises:
        ConfigError: if no pattern is given, or a column is not there.
        DataError: if nothing matches, a file cannot be read, or files disagree.
    """
    patterns = [patterns] if isinstance(patterns, str) else patterns
    if not patterns:
        raise ConfigError("input", patterns, "one path or pattern at least")
    formats, columns = formats or FormatOptions(), columns or ColumnOptions()
    found = find(patterns, formats.format)
    with ThreadPoolExecutor(max_workers=_LOOKS) as pool:
        looks = list(pool.map(partial(_look, options=formats), found.paths))
    infos = [look for look in looks if isinstance(look, FileInfo)]
    empty = [look for look in looks if isinstance(look, NoLine)]
    if not infos:
        raise empty[0]
    infos, columns = with_path_columns(
        infos, columns, formats.path_pattern, stored_first=stored_first
    )
    missing = (*NULL_VALUES, *formats.null_values)
    numbers = Numbers(formats.decimal, missing, formats.thousands)
    left_out = tuple(error.path for error in empty)
    return Input(infos, resolve(infos, columns, numbers), found.skipped, left_out)


def _look(path: str, options: FormatOptions) -> FileInfo | NoLine:
    try:
        return inspect(path, options)
    except NoLine as error:
        return error
