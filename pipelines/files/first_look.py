"""A look at the first rows before a job: what would fail in every row, and what looks odd.

What the look refuses would fail in every row that it saw; what it warns of stops no job.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kerneltrack.errors import ConfigError, DataError
from pipelines.files.long_look import long_table_warnings
from pipelines.job import say
from transforms.read.column_options import UNITS
from transforms.read.columns import HAS_MISSING, Columns
from transforms.read.formats import FileInfo, Rows
from transforms.read.kinds import as_bytes, is_number, is_text, texts_of
from transforms.read.parse import ParsedRows, parse, plain
from transforms.reasons import kinds_of

ROWS = 1_000
"""Rows that are looked at, of the first file that has any."""

_FEWEST = 20
"""Of fewer rows nothing is said but what their columns' names say."""
_CLASSES = 32
_COUNTED = 10
_BLOCK = 20
_SHOWN = 12
_DATES = (
    *("%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%m/%d/%y", "%d-%m-%Y"),
    *("%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%Y-%m-%d", "%Y%m%d", "%d %b %Y", "%d-%b-%Y"),
    *("%d %B %Y", "%b %d %Y", "%b %d, %Y", "%B %d, %Y", "%a, %d %b %Y"),
)
_CLOCKS = (
    *("", "%H:%M:%S", "%H:%M", "%H:%M:%S.%f", "%H:%M:%S,%f", "%I:%M:%S %p", "%I:%M %p"),
    *("%H:%M:%S %z", "%H:%M %z", "%H.%M.%S", "%H.%M", "%H%M%S"),
)
_OTHERS = ("%a %b %d %H:%M:%S %Y", "%d/%b/%Y:%H:%M:%S %z")
_FORMATS = (
    *(
        f"{date}{between}{clock}"
        for date in _DATES
        for clock in _CLOCKS
        if clock
        for between in (" ", "T", ", ", "_", "")
    ),
    *_DATES,
    *_OTHERS,
)
_ID_OR_TARGET = re.compile(
    r"(?i:(.*[_\-. ])?(id|label|labels|class|target|outcome)|y"
    # What is numbered, as the whole name: a sensor's, or an engine's speed may be a channel.
    r"|(device|machine|asset|unit|vehicle|station|subject|patient|user|customer|serial)"
    r"([_\-. ]?(no|nr|num|number))?)|.*[a-z0-9]I[dD]"
)


def look_and_warn(infos: Sequence[FileInfo], columns: Columns) -> list[str]:
    """Look at the first rows, print the warnings and return them; see `look_at`."""
    warnings = look_at(infos, columns)
    for warning in warnings:
        say(f"warning:  {warning}")
    return warnings


def look_at(infos: Sequence[FileInfo], columns: Columns) -> list[str]:
    """Look at the first rows as the job will read them.

    Args:
        infos: The files.
        columns: What each of their columns is.

    Returns:
        Lines about several files that are one model, and about columns that were taken as
        features without being named, and look like something else: in the first rows an id or a
        target (by its name), a counter, an index or a time (numbers that never fall, or never
        rise, in any model), a class or an id (small whole numbers in long blocks), or constant.

    Raises:
        ConfigError: if a feature is a text in all of them.
        DataError: if their times are not of the format that is set, but of a usual other one, or
            they cannot be read.
    """
    warnings = [
        *_file_warnings(infos, columns),
        *_decimal_warnings(infos, columns),
        *_drop_warnings(columns),
        *long_table_warnings(infos, columns),
    ]
    scalar = [name for _, name in _scalars(columns)]
    if columns.time is None and not scalar:
        return warnings
    found = _first_rows(infos, columns)
    if found is None:
        return warnings
    info, rows = found
    _refuse_texts(info, rows, columns)
    if columns.time is not None:
        warnings += _check_times(info, rows, columns)
    if columns.options.features is None:
        good, _ = parse(rows, 0, columns)
        warnings += _feature_warnings(good, columns)
    return warnings


def _first_rows(infos: Sequence[FileInfo], columns: Columns) -> tuple[FileInfo, Rows] | None:
    for info in infos:
        for piece in info.pieces:
            rows = piece.first(columns.requests, ROWS)
            if rows is not None:
                return info, rows
    return None


def _file_warnings(infos: Sequence[FileInfo], columns: Columns) -> list[str]:
    """Return that several files are one model, where rows do not name their device."""
    if len(infos) < 2 or columns.model_id is not None or not columns.width:
        return []
    return [
        f"the {len(infos):,} files are one model (--model-id COLUMN if they name the device, "
        "--model-id-from path if each file is one)"
    ]


def _decimal_warnings(infos: Sequence[FileInfo], columns: Columns) -> list[str]:
    """Return which columns are left out only because of their decimal mark."""
    out = {name for name, _ in columns.left_out}
    found: dict[str, list[str]] = {}
    for info in infos:
        for name, mark in info.decimals.items():
            if columns.options.features is None and name in out:
                found.setdefault(mark, []).append(name)
    return [
        f"{_names(dict.fromkeys(names))}: left out, but numbers with the decimal mark {mark!r} "
        f"(--decimal {shlex.quote(mark)})"
        for mark, names in found.items()
    ]


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


def _refuse_texts(info: FileInfo, rows: Rows, columns: Columns) -> None:
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


_ALONE: dict[str, Any] = dict.fromkeys(("model_id", "sequence", "label", "long"))
"""What columns have besides times."""


def _check_times(info: FileInfo, rows: Rows, columns: Columns) -> list[str]:
    """Refuse times of another usual format or unit than the one that is set.

    Returns:
        A line if no time can be read, and nothing is known that could read them.
    """
    name = columns.time
    if name is None or not rows.batch.num_rows:
        return []
    values = rows.batch.column(name)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    there = values.filter(values.is_valid())
    if is_text(there.type):
        there = there.filter(pc.greater(pc.binary_length(as_bytes(there)), 0))
    if not len(there):
        return []
    batch = pa.RecordBatch.from_arrays([there], names=[name])
    part = Rows(batch, np.arange(len(there)))

    def bad(**options: str) -> int:
        """Count times that cannot be read under other options."""
        # Whether a local time comes twice says nothing of how it is written.
        changed = dataclasses.replace(columns.options, time_zone="UTC", **options)
        only = dataclasses.replace(columns, **_ALONE, features=(), options=changed)
        return int(parse(part, 0, only)[1].batch.num_rows)

    now = bad()
    if 2 * now <= len(there):
        return []
    (example,) = plain(there.slice(0, 1))
    times = f"the times of {name}, such as {example}, are not"
    if is_number(there.type):
        units = [unit for unit in UNITS if bad(time_unit=unit) == 0]
        if not units:
            return [_no_times(name, example)]
        unit = columns.options.time_unit
        raise DataError(info.path, f"{times} in {unit}: try --time-unit {units[0]}")
    texts = [text or "" for text in texts_of(there)] if is_text(there.type) else []
    formats = _formats_of(texts, lambda form: bad(time_format=form))
    if not formats:
        return [_no_times(name, example)]
    said = columns.options.time_format
    tried = " or ".join(f"--time-format {shlex.quote(form)}" for form in formats)
    doubt = " (no day is above 12: which is meant?)" if len(formats) > 1 else ""
    wanted = "ISO 8601" if said is None else repr(said)
    raise DataError(info.path, f"{times} {wanted}: try {tried}{doubt}")


def _no_times(name: str, example: str) -> str:
    return (
        f"{name}: none of the first rows has a time that can be read, such as {example} "
        "(--time-format and --time-unit say how they are written)"
    )


def _formats_of(texts: Sequence[str], bad: Callable[[str], int]) -> list[str]:
    """Return the usual formats that read all texts: one, or two where day and month may be either.

    Args:
        texts: Times, one at least that is not empty.
        bad: Counts those that a format does not read.
    """
    if not texts:
        return []
    # Trying one costs a millisecond, and there are a thousand: those of other marks are left out.
    marks = _marks(texts[0])
    alike = [form for form in dict.fromkeys(_FORMATS) if marks.startswith(_marks(form))]
    able = [form for form in alike if _reads(texts[0], form)]
    able = [form for form in able if all(_reads(text, form) for text in texts)]
    # Python reads a few more forms than the job does: nothing is proposed that would fail.
    able = [form for form in able if bad(form) == 0]
    swapped = [form for form in able[1:] if able and sorted(form) == sorted(able[0])]
    return [*able[:1], *swapped[:1]]


def _marks(text: str) -> str:
    """Return what stands between the parts of a time, or of a format, but for spaces."""
    return re.sub(r"%.|[\w\s]", "", text)


def _reads(text: str, form: str) -> bool:
    try:
        datetime.strptime(text, form)
    except ValueError:
        return False
    return True


def _feature_warnings(good: ParsedRows, columns: Columns) -> list[str]:
    """Return which columns may be no features; for each the first that holds."""
    names = {name.lower() for name in columns.channels}
    odd: dict[str, list[str]] = {}
    for at, name in _scalars(columns):
        if _is_id_or_target(name, names):
            odd.setdefault("id", []).append(name)
        elif len(good) >= _FEWEST:
            there = ~np.isnan(good.x[:, at])
            look = _odd(good.x[there, at], good.model[there]) if there.any() else None
            if look:
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
    return [_odd_line(look, odd[look], len(good), free) for look in _ODD if look in odd]


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
    "constant": ("the same value in {rows}", ()),
}


def _odd_line(look: str, names: Sequence[str], rows: int, free: Sequence[str]) -> str:
    text, flags = _ODD[look]
    ways = [flag for flag in flags if flag in free]
    excluded = " ".join(shlex.quote(name) for name in names[:_SHOWN])
    ways.append(f"--exclude {excluded}{' ...' if len(names) > _SHOWN else ''}")
    taken = "a feature" if len(names) == 1 else "features"
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
        return "constant"
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
