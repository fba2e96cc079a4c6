"""A look at the first rows before a job: what would fail in every row, and what looks odd.

What the look refuses would fail in every row that it saw; what it warns of stops no job.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerneltrack.errors import ConfigError, DataError
from pipelines.files.ids_look import id_warnings
from pipelines.files.long_look import long_table_warnings
from pipelines.files.times_look import check_times
from pipelines.files.unused_look import DEVICES, unused_warnings
from pipelines.job import say
from transforms.read.columns import HAS_MISSING, Columns
from transforms.read.formats import FileInfo, PieceRows
from transforms.read.local_times import with_passages
from transforms.read.look import Input
from transforms.read.parse import ParsedRows, parse
from transforms.read.text_columns import mark_flags
from transforms.reasons import kinds_of

ROWS = 1_000
"""Rows that are looked at, of the first file that has any."""

_MOST_ROWS, _MOST_VALUES = 20_000, 2_000_000
"""Rows, and values in them, that are searched for marks of missing values."""

_FEWEST = 20
"""Of fewer rows nothing is said but what their columns' names say."""
_CLASSES = 32
_COUNTED = 10
_BLOCK = 20
_SHOWN = 12
_ID_OR_TARGET = re.compile(
    r"(?i:(.*[_\-. ])?(id|label|labels|class|target|outcome)|y"
    # What is numbered, as the whole name: a sensor's, or an engine's speed may be a channel.
    rf"|({DEVICES})([_\-. ]?(no|nr|num|number))?)|.*[a-z0-9]I[dD]"
)


def refuse_parts(args: argparse.Namespace, metric: str, holder: str) -> None:
    """Refuse flags by which rows are put together of parts, where rows are taken as they stand.

    Args:
        args: The parsed flags.
        metric: Why a table of a value a row is refused.
        holder: Why values are not held.

    Raises:
        ConfigError: naming the flag.
    """
    if args.metric is not None:
        raise ConfigError("--metric", args.metric, f"left out: {metric}")
    if args.missing == "hold":
        raise ConfigError("--missing", "hold", f"fail or drop: {holder}")


def look_at_features(files: Input, name: str) -> Columns:
    """Return the columns of an input that is read in this process, looked at; see `look_at`.

    Raises:
        ConfigError: as `look_at` does.
        DataError: likewise, and if there is no feature in the input of this name.
    """
    columns = with_passages(files.infos, files.columns)
    if columns.width < 1:
        raise DataError(str(name), "no feature column")
    look_and_warn(files.infos, columns)
    return columns


class FirstLook(NamedTuple):
    """What the first rows look like.

    Attributes:
        warnings: Lines about what looks odd.
        step: The median time between rows of one device, ns; None: rows have no times, or too few
            follow another one.
    """

    warnings: list[str]
    step: int | None = None


def look_and_warn(
    infos: Sequence[FileInfo], columns: Columns, named: Collection[str] = ()
) -> FirstLook:
    """Look at the first rows, print the warnings and return what was found; see `look_at`."""
    found = look_at(infos, columns, named)
    for warning in found.warnings:
        say(f"warning:  {warning}")
    return found


def look_at(infos: Sequence[FileInfo], columns: Columns, named: Collection[str] = ()) -> FirstLook:
    """Look at the first rows as the job will read them.

    Args:
        infos: The files.
        columns: What each of their columns is.
        named: Channels that flags name, such as causes: nobody took them by mistake.

    Returns:
        What was found. Its warnings are lines about several files that are one model, and about
        columns that were taken as features without being named, and look like something else: in
        the first rows an id or a target (by its name), a counter, an index or a time (numbers
        that never fall, or never rise, in any model), a class or an id (small whole numbers in
        long blocks), or constant; about columns that nothing reads, and that look like a device's
        ID or a time; about model ids that hardly differ, or that a spreadsheet has rounded.

    Raises:
        ConfigError: if a feature is a text in all of them.
        DataError: if their times are not of the format that is set, but of a usual other one, or
            they cannot be read.
    """
    warnings = [
        *_file_warnings(infos, columns),
        *_notes(infos),
        *_decimal_warnings(infos, columns),
        *_drop_warnings(columns),
        *unused_warnings(infos, columns),
        *long_table_warnings(infos, columns),
    ]
    scalar = [name for _, name in _scalars(columns)]
    if columns.time is None and not scalar:
        return FirstLook(warnings)
    found = _first_rows(infos, columns)
    if found is None:
        return FirstLook(warnings)
    info, many = found
    rows = many.slice(ROWS)
    _refuse_texts(info, rows, columns)
    if columns.time is not None:
        warnings += check_times(info, rows, columns)
    good, _ = parse(many, 0, columns)
    if columns.options.features is None:
        first, _ = parse(rows, 0, columns)
        is_all = len(infos) == 1 and many.batch.num_rows < _most_rows(columns)
        warnings += _feature_warnings(first, _Constants(good, is_all), columns, named)
    if columns.model_id is not None:
        warnings += id_warnings(columns.model_id, good.models)
    return FirstLook(warnings + _sentinel_lines(good.x, columns), _usual_step(good))


def _usual_step(good: ParsedRows) -> int | None:
    if good.time is None:
        return None
    order = np.lexsort((good.time, good.model))
    steps = np.diff(good.time[order])[np.diff(good.model[order]) == 0]
    steps = steps[steps > 0]
    return int(np.median(steps)) if len(steps) >= _FEWEST else None


def check_first_times(infos: Sequence[FileInfo], columns: Columns) -> list[str]:
    """Look at the first rows' times alone; what it returns and raises is as of `look_at`."""
    found = _first_rows(infos, columns)
    return [] if found is None else check_times(*found, columns)


def _first_rows(infos: Sequence[FileInfo], columns: Columns) -> tuple[FileInfo, PieceRows] | None:
    most = _most_rows(columns)
    found = ((info, info.first(columns.requests, most)) for info in infos)
    return next(((info, rows) for info, rows in found if rows is not None), None)


def _most_rows(columns: Columns) -> int:
    """Return how many first rows are read."""
    return max(ROWS, min(_MOST_ROWS, _MOST_VALUES // max(columns.width, 1)))


def _file_warnings(infos: Sequence[FileInfo], columns: Columns) -> list[str]:
    """Return that several files are one model, where rows do not name their device."""
    if len(infos) < 2 or columns.model_id is not None or not columns.width:
        return []
    names = [name for info in infos[:1] for name in info.constants]
    if names:
        how = f"--model-id {shlex.quote(names[0])} takes a column of their paths"
    else:
        how = "--model-id COLUMN if they name the device, --model-id-from path if each file is one"
    return [f"the {len(infos):,} files are one model ({how})"]


def _notes(infos: Sequence[FileInfo]) -> list[str]:
    """Return what was decided by looking at the files."""
    found: dict[str, list[str]] = {}
    for info in infos:
        for note in info.notes:
            found.setdefault(note, []).append(info.path)
    return [
        f"{paths[0]}{f' and {len(paths) - 1:,} more files' if len(paths) > 1 else ''}: {note}"
        for note, paths in found.items()
    ]


def _decimal_warnings(infos: Sequence[FileInfo], columns: Columns) -> list[str]:
    """Return which columns are left out only because of the marks of their numbers."""
    out = {name for name, _ in columns.left_out}
    found: dict[tuple[str, str], dict[str, None]] = {}
    for info in infos if columns.options.features is None else ():
        marks = {**{name: (mark, "") for name, mark in info.decimals.items()}, **info.thousands}
        for name, each in marks.items():
            if name in out:
                decimal = "" if each[0] == info.decimal else each[0]
                found.setdefault((decimal, each[1]), {})[name] = None
    lines = []
    for (decimal, thousands), names in found.items():
        marks_of = [
            f"{what} {mark!r}"
            for what, mark in (("the decimal mark", decimal), ("thousands marked by", thousands))
            if mark
        ]
        text = f"{_names(names)}: left out, but numbers with {' and '.join(marks_of)}"
        lines.append(f"{text} ({mark_flags(decimal, thousands)})")
    return lines


def _drop_warnings(columns: Columns) -> list[str]:
    """Return a line if `--missing drop` leaves less than half of the channels."""
    dropped = [name for name, reason in columns.left_out if reason == HAS_MISSING]
    if len(dropped) <= columns.width:
        return []
    every = len(dropped) + columns.width
    return [
        f"--missing drop leaves {columns.width:,} of {every:,} channels: the others lack a value "
        f"in some row ({_names(dropped)}); --exclude leaves out those that lack most, and "
        "--missing fail the rows, not the channels"
    ]


def _refuse_texts(info: FileInfo, rows: PieceRows, columns: Columns) -> None:
    """Refuse a feature because of which no row could be read."""
    reasons = dict(rows.unread)
    if not reasons or len(reasons) < rows.batch.num_rows or rows.bad:
        return
    kinds = set(kinds_of(pa.array(reasons.values())).to_pylist())
    name = min(kinds).rpartition(": ")[0]
    if len(kinds) > 1 or name not in {feature.name for feature in columns.features}:
        return
    value = rows.unread[0][1].removeprefix(f"{name} = ").rpartition(": ")[0]
    allowed = (
        f"a column of numbers: in the first rows of {info.path} it holds texts such as {value}"
    )
    mark = info.decimals.get(name)
    hint = f"try --decimal {shlex.quote(mark)}" if mark else "leave it out, or is it the --label?"
    raise ConfigError("--features", name, f"{allowed} ({hint})")


def _feature_warnings(
    good: ParsedRows, constants: _Constants, columns: Columns, named: Collection[str]
) -> list[str]:
    """Return which columns may be no features; for each the first that holds."""
    names = {name.lower() for name in columns.channels}
    odd: dict[str, list[str]] = {}
    for at, name in _scalars(columns):
        if name in named or name in columns.modes:
            continue
        if _is_id_or_target(name, names):
            odd.setdefault("id", []).append(name)
        elif len(good) >= _FEWEST:
            there = ~np.isnan(good.x[:, at])
            look = _odd(good.x[there, at], good.model[there]) if there.any() else None
            if look and (look != _CONSTANT or constants.has(at)):
                odd.setdefault(look, []).append(name)
    free = [
        flag
        for flag, taken in (
            ("--model-id", columns.model_id),
            ("--label", columns.label),
            ("--time", columns.time),
            ("--sequence", columns.sequence),
        )
        if taken is None
    ]
    return [
        _odd_line(look, odd[look], len(constants if look == _CONSTANT else good), free)
        for look in _ODD
        if look in odd
    ]


class _Constants:
    """Which channels are the same in as many rows as are read, if these are enough to say so.

    A file may be sorted by time: then a thousand rows of a hundred devices are ten moments of a
    night, and the machines stand still. Each device is looked at in as many rows as one would be.

    Args:
        good: The rows.
        is_all: Whether there are no others.
    """

    def __init__(self, good: ParsedRows, is_all: bool) -> None:
        self._x = good.x
        own = np.bincount(good.model[good.model >= 0])
        self._are_enough = is_all or (len(own) > 0 and float(np.median(own[own > 0])) >= ROWS)

    def __len__(self) -> int:
        return len(self._x)

    def has(self, at: int) -> bool:
        """Return whether the channel at this place is."""
        known = self._x[~np.isnan(self._x[:, at]), at]
        return self._are_enough and len(np.unique(known)) == 1


_CONSTANT = "constant"
_ODD = {
    "id": ("named like an id or a target", ("--model-id", "--label")),
    "counter": (
        "goes only one way in {rows}, like a counter, an index or a time",
        ("--time", "--sequence"),
    ),
    "class": (
        "small whole numbers in long blocks, like a class or an id",
        ("--model-id", "--label"),
    ),
    _CONSTANT: ("the same value in {rows}", ()),
}
_SENTINEL = re.compile(
    r"-?9{2,}(\.(0+|9+|25))?|-?32768|32767|65535|-?2147483648|2147483647|-?[0-9.]+e\+(2[0-9]|3[0-9])"
)
_FEWEST_SENTINELS = 3


def _sentinel_lines(x: npt.NDArray[np.floating], columns: Columns) -> list[str]:
    """Return which numbers may stand for missing values: as 9999 does, far away, several times."""
    found: dict[str, list[str]] = {}
    for at, name in enumerate(columns.channels):
        text = _sentinel(x[:, at])
        if text is not None:
            found.setdefault(text, []).append(name)
    return [
        f"{_names(names)}: {text} comes again and again, far from all other values, as a mark of "
        f"missing values does (--null-values {text})"
        for text, names in found.items()
    ]


def _sentinel(values: npt.NDArray[np.floating]) -> str | None:
    values = values[np.isfinite(values)]
    for value in (values.min(), values.max()) if len(values) else ():
        rest = values[values != value]
        if len(values) - len(rest) < _FEWEST_SENTINELS or len(rest) < _FEWEST:
            continue
        text = f"{float(value):.10g}"
        gap, spread = np.abs(rest - value).min(), np.ptp(rest)
        if gap > spread and _SENTINEL.fullmatch(text):
            return text
    return None


def _odd_line(look: str, names: Sequence[str], rows: int, free: Sequence[str]) -> str:
    text, flags = _ODD[look]
    ways = [flag for flag in flags if flag in free]
    excluded = " ".join(shlex.quote(name) for name in names[:_SHOWN])
    ways.append(f"--exclude {excluded}{' ...' if len(names) > _SHOWN else ''}")
    taken = "a channel" if len(names) == 1 else "channels"
    what = text.format(rows=f"the first {rows:,} rows")
    return f"{_names(names)}: {what}, but taken as {taken} ({_either(ways)})"


def _either(ways: Sequence[str]) -> str:
    return " or ".join([", ".join(ways[:-1]), ways[-1]] if len(ways) > 1 else ways)


def _scalars(columns: Columns) -> Iterator[tuple[int, str]]:
    """Yield place and name of the channels that are a column each, or a metric."""
    if columns.long is not None:
        yield from enumerate(columns.long.channels)
    at = 0
    for feature in columns.features:
        if feature.width is None:
            yield at, feature.name
        at += len(feature.channels)


def _is_id_or_target(name: str, names: set[str]) -> bool:
    # Beside x or z a column y is an axis.
    if name.lower() == "y" and names & {"x", "z"}:
        return False
    return _ID_OR_TARGET.fullmatch(name) is not None


def _odd(values: npt.NDArray[np.floating], model: npt.NDArray[np.int32]) -> str | None:
    """Return what a column looks like, a key of `_ODD`, None if like a measurement."""
    distinct = len(np.unique(values))
    if distinct == 1:
        return _CONSTANT
    order = np.argsort(model, kind="stable")
    same = np.diff(model[order]) == 0
    steps = np.diff(values[order])[same]
    whole = bool((values == np.rint(values)).all())
    for turned in (steps, -steps):
        # A slow measurement may well rise for a while, but hardly in every row.
        never_falls = (turned >= 0).all() if whole else (turned > 0).all()
        if distinct >= _COUNTED and len(steps) and never_falls:
            return "counter"
    small = whole and values.min() >= 0 and values.max() < _CLASSES
    if small and _BLOCK * np.count_nonzero(steps) <= len(steps):
        return "class"
    return None


def _names(names: Sequence[str] | dict[str, None]) -> str:
    listed = list(names)
    text = ", ".join(listed[:_SHOWN])
    return text + (f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else "")
