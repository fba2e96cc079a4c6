"""Columns that are in a file's path: the device or the day that it is named after.

Three forms are read:

- folders as Hive, Spark and Arrow name them, `device=north/date=2026-03-01/`: always;
- the named groups of a pattern that the user gives, `(?P<device>[^/]+)/(?P<date>[0-9]{8})[.]csv`;
- the file's name without its endings, where that is the model id.

Each is a column of texts with one value for all rows of the file (`FileInfo.with_constants`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from urllib.parse import unquote

from kerneltrack.errors import MOST_NAME, ConfigError, DataError, fit, path_text
from transforms.read.column_options import ColumnOptions
from transforms.read.format_options import path_groups
from transforms.read.formats.base import FileInfo
from transforms.read.formats.endings import bare_name

FILE_NAME = "file name"
"""The column that holds the file's name without its endings."""

_NULL = "__HIVE_DEFAULT_PARTITION__"
_WHY_NO_FEATURE = "from the files' paths"
_DEVICE = ("model_id", "device")
_MOMENT = re.compile(r"date|day|dt|ds|year|month|week|hour|minute|time", re.IGNORECASE)
_FOLDER_PATTERN = "--path-pattern '(?P<device>[^/]+)/[^/]+$'"

Values = dict[str, str | None]


def with_path_columns(
    infos: Sequence[FileInfo],
    columns: ColumnOptions,
    pattern: str | None = None,
    *,
    stored_first: bool = False,
) -> tuple[list[FileInfo], ColumnOptions]:
    """Add the columns of the files' paths, and choose the one that is the model id.

    Args:
        infos: The files.
        columns: What the user says of the columns.
        pattern: The user's pattern, which every path must match.
        stored_first: Whether a file's own column goes before a group of the pattern with the same
            name. Otherwise both together are refused.

    Returns:
        The files, and the options with `model_id` instead of `model_id_from`.

    Raises:
        ConfigError: if no column of the paths, or more than one, can be the model id.
        DataError: naming the file, if its path does not match.
    """
    named = [_folders(info.path) for info in infos]
    chosen = columns.model_id
    groups = path_groups(pattern)
    if columns.model_id_from is not None and not groups and not any(named):
        named = [{FILE_NAME: path_text(bare_name(info.path))} for info in infos]
        chosen = FILE_NAME
        _check_file_names(infos)
    elif columns.model_id_from is not None:
        taken = {*columns.times, columns.sequence, columns.label}
        chosen = _device(groups or {name for values in named for name in values}, taken)
    if stored_first and chosen is not None and all(chosen in info.schema.names for info in infos):
        groups = ()
    if groups:
        found = [_groups(info, pattern or "", stored_first) for info in infos]
        named = [{**folders, **values} for folders, values in zip(named, found, strict=True)]
    infos = [
        info.with_constants(values, _WHY_NO_FEATURE)
        for info, values in zip(infos, named, strict=True)
    ]
    return infos, replace(columns, model_id=chosen, model_id_from=None)


def _folders(path: str) -> Values:
    """Return the columns of a path's folders: `device=north/date=2026-03-01/`."""
    found: Values = {}
    for folder in path.split("/")[:-1]:
        name, sign, text = folder.partition("=")
        if sign and name:
            value = path_text(unquote(text, errors="surrogateescape"))
            found[path_text(unquote(name))] = None if value in ("", _NULL) else value
    return found


def _groups(info: FileInfo, pattern: str, stored_first: bool) -> Values:
    """Return the columns that a pattern takes from a file's path.

    Raises:
        ConfigError: if a column of the file has the name of a group.
        DataError: if the path does not match, or a group is empty.
    """
    match = re.search(pattern, info.path)
    if match is None:
        raise DataError(info.path, f"does not match --path-pattern {pattern!r}")
    for name, text in match.groupdict().items():
        if not text:
            raise DataError(info.path, f"nothing for the group {name} of --path-pattern")
        if name in info.schema.names and not stored_first:
            allowed = f"one whose groups are no columns of {info.path}, which has {name!r}"
            raise ConfigError("path_pattern", pattern, allowed)
    return {name: path_text(text) for name, text in match.groupdict().items()}


def _device(names: Collection[str], taken: Collection[str | None]) -> str:
    """Return the column of the paths that names the device.

    Raises:
        ConfigError: if there is none, or more than one.
    """
    for name in _DEVICE:
        if name in names:
            return name
    able = sorted(name for name in names if name not in taken and not _MOMENT.match(name))
    if len(able) != 1:
        listed = ", ".join(sorted(names))
        allowed = f"left out for --model-id: which one is it, of the columns {listed} of the paths?"
        raise ConfigError("model_id_from", "path", allowed)
    return able[0]


def _check_file_names(infos: Sequence[FileInfo]) -> None:
    """Refuse files that all have the same name: their folders tell them apart.

    Raises:
        ConfigError: naming the flag that takes the folder's name.
    """
    names = Counter(bare_name(info.path) for info in infos)
    if len(infos) > 1 and len(names) == 1:
        allowed = (
            f"used with {_FOLDER_PATTERN}: all {len(infos)} files are called {next(iter(names))}"
        )
        raise ConfigError("model_id_from", "path", allowed)


def describe_paths(infos: Sequence[FileInfo]) -> list[str]:
    """Return in a line what columns the paths gave, by the example of the first file."""
    values = infos[0].constants
    if not values:
        return []
    names = {info.constants.get(FILE_NAME) for info in infos}
    if FILE_NAME in values and len(names) < len(infos):
        return [f"paths:    {FILE_NAME}: {len(names):,} names of {len(infos):,} files"]
    shown = ", ".join(f"{name} = {text}" for name, text in values.items())
    return [f"paths:    {fit(shown)} (of {fit(infos[0].path, MOST_NAME)})"]
