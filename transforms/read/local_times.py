"""Local times that the clock showed twice, or never: which instant is meant, or none.

Where clocks are put back, an hour of local time comes twice; where they are put forward, one never
comes. What becomes of such rows is the user's to say (`ColumnOptions.time_ambiguous` and
`time_nonexistent`); unless they do, such rows are failures. Texts and timestamps that say their
own zone, and numbers, are not concerned.

`infer` goes by the order of rows in their file. Of each file, model and change of the clock by
itself, the model's rows in the order of the file (those without a usable time left out) tell which
of them came before the clock was put back if

- its rows within the hour follow one another, none of other times between them;
- the row before them, if there is one, is of a time before the hour, the row after them of one
  after it; and
- their local times never fall but once, and then by at least half of what the clock is put back.

Rows before that fall are then of the hour's first pass, it and those after it of the second.
Otherwise the order does not tell (the hour never falls back, or rows are out of order, or all
there is are equal times), and all the model's rows of the hour in this file are failures. A fall
by less than half is more likely a row out of order than a pause of more than half an hour.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerneltrack.time_units import UNITS
from transforms.metrics import count
from transforms.read.columns import Columns, Passages
from transforms.read.date_and_time import time_column
from transforms.read.formats.base import FileInfo, PieceRows
from transforms.read.kinds import is_text, value_type
from transforms.read.model_ids import model_ids
from transforms.read.times import NEVER, UNKNOWN, Times, change_between, to_nanoseconds

_NONE = np.iinfo(np.int64).min
"""Neither a time nor a change of the clock."""

_NOT_TOLD = np.iinfo(np.int64).max


class LocalTimes(NamedTuple):
    """How many rows had a local time that did not come exactly once.

    Attributes:
        ambiguous: Rows whose local time comes twice.
        ambiguous_failed: Those of them that were refused.
        nonexistent: Rows whose local time never comes.
        nonexistent_failed: Those of them that were refused.
    """

    ambiguous: int = 0
    ambiguous_failed: int = 0
    nonexistent: int = 0
    nonexistent_failed: int = 0

    def add_to_counters(self, counted_as: str = "rows") -> None:
        """Add to Beam's counters, from within a DoFn."""
        for name, amount in self._asdict().items():
            count(f"{counted_as}_{name}", amount)

    def plus(self, other: LocalTimes) -> LocalTimes:
        """Return the sums."""
        return LocalTimes(*(a + b for a, b in zip(self, other, strict=True)))


NONE_IN_DOUBT = LocalTimes()


class Settled(NamedTuple):
    """Times of which none is in doubt any more.

    Attributes:
        time: (n,) ns since 1970 UTC.
        refused: Which rows are refused, and why.
        counts: How many rows were in doubt.
    """

    time: npt.NDArray[np.int64]
    refused: list[tuple[npt.NDArray[np.bool_], str]]
    counts: LocalTimes


class RowPlaces(NamedTuple):
    """Whose rows they are, and where they stand.

    Attributes:
        models: Distinct model ids.
        model: (n,) each row's place among them; -1: none.
        source: (n,) rank of its file.
        row: (n,) its number in the file.
    """

    models: Sequence[str]
    model: npt.NDArray[np.int32]
    source: npt.NDArray[np.int32]
    row: npt.NDArray[np.int64]


def read_times(values: pa.Array, columns: Columns) -> Times:
    """Convert the column of times as the options say."""
    options = columns.options
    return to_nanoseconds(values, options.unit, options.time_zone, options.time_format)


def settle(times: Times, columns: Columns, places: RowPlaces) -> Settled:
    """Decide on local times that come twice or never, as the options say.

    Args:
        times: As `to_nanoseconds` gave them.
        columns: The options, and under "infer" what the files' order told.
        places: The rows' models and places; under "infer" alone they matter.
    """
    if times.again is None:
        return Settled(times.time, [], NONE_IN_DOUBT)
    options, zone = columns.options, columns.options.time_zone
    twice, never = times.again > 0, times.again == NEVER
    time = times.time
    lost, how = twice, "--time-ambiguous says which is meant"
    if options.time_ambiguous == "infer":
        second, lost = _passes(times, twice, columns, places)
        time = np.where(second, time + times.again, time)
        how = "the order of rows does not tell which is meant"
    elif options.time_ambiguous != "fail":
        lost = np.zeros_like(twice)
        if options.time_ambiguous == "latest":
            time = np.where(twice, time + times.again, time)
    skipped = never if options.time_nonexistent == "fail" else np.zeros_like(never)
    refused = [
        (lost, f"local time that comes twice in {zone} ({how})"),
        (skipped, f"local time that does not exist in {zone} (--time-nonexistent shift takes it)"),
        (times.again == UNKNOWN, f"local time after 2037 (changes of the clock in {zone} unknown)"),
    ]
    counts = (int(mask.sum()) for mask in (twice, lost, never, skipped))
    return Settled(time, refused, LocalTimes(*counts))


def _passes(
    times: Times, twice: npt.NDArray[np.bool_], columns: Columns, places: RowPlaces
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return which rows are of the hour's second pass, and of which that is not known."""
    at = np.flatnonzero(twice)
    change = _changes(times, columns.options.time_zone)[at]
    keys = np.column_stack([places.source[at], places.model[at], change])
    distinct, which = np.unique(keys, axis=0, return_inverse=True)
    begins = [
        columns.passages.get((source, places.models[model], moment)) if model >= 0 else None
        for source, model, moment in distinct.tolist()
    ]
    known = np.array([begin is not None for begin in begins], dtype=bool)[which.reshape(-1)]
    begin = np.array([_NOT_TOLD if b is None else b for b in begins], np.int64)[which.reshape(-1)]
    second, lost = np.zeros_like(twice), np.zeros_like(twice)
    second[at] = places.row[at] >= begin
    lost[at] = ~known
    return second, lost


def _changes(times: Times, zone: str) -> npt.NDArray[np.int64]:
    """Return when clocks were put back, ns, of local times that come twice; else `_NONE`."""
    change = np.full(len(times.time), _NONE)
    if times.again is None:
        return change
    rest = np.flatnonzero(times.again > 0)
    while len(rest):
        first = times.time[rest]
        last = first + times.again[rest]
        moment = change_between(zone, int(first[0]), int(last[0]))
        same = (first < moment) & (moment <= last)
        change[rest[same]] = moment
        rest = rest[~same]
    return change


def with_passages(infos: Sequence[FileInfo], columns: Columns, first_source: int = 0) -> Columns:
    """Read times and model ids once, to learn from the rows' order when clocks were put back.

    Files in which no local time comes twice are read once, others twice; `time_ambiguous` other
    than "infer" reads none. Memory: one number for each model with such times, of one file.

    Args:
        infos: The files, which are read whole and in order, however many pieces they have.
        columns: What each column is.
        first_source: Number of the first file.

    Returns:
        The columns, with `passages`.

    Raises:
        DataError: if a file cannot be read.
    """
    options = columns.options
    if options.time_ambiguous != "infer" or options.time_zone == "UTC" or columns.time is None:
        return columns
    passages: dict[tuple[int, str, int], int] = {}
    for source, info in enumerate(infos, first_source):
        if not _may_be_local(info, columns):
            continue
        watched: set[str] = set()
        for rows, times in _timed(info, columns):
            if times.again is not None:
                ids, model = model_ids(rows.batch, columns)
                codes = np.unique(model[(times.again > 0) & (model >= 0)])
                watched.update(ids[code] for code in codes.tolist())
        if watched:
            order = _Order(watched, options.time_zone)
            for rows, times in _timed(info, columns):
                order.add(*model_ids(rows.batch, columns), times, rows.row)
            passages |= {(source, *key): row for key, row in order.told()}
    return dataclasses.replace(columns, passages=passages)


def _may_be_local(info: FileInfo, columns: Columns) -> bool:
    """Check whether a file's times can be without a zone."""
    name, options = columns.time or "", columns.options
    text = info.is_text(name)
    kind = columns.requests[name] if text else value_type(info.schema.field(name).type)
    if pa.types.is_timestamp(kind):
        return kind.tz is None
    local = is_text(kind) or pa.types.is_date(kind)
    return local or options.time_format is not None or UNITS[options.unit].local


def _timed(info: FileInfo, columns: Columns) -> Iterator[tuple[PieceRows, Times]]:
    """Read a file's rows, as far as times and model ids go, in its order."""
    wanted = {
        name: columns.requests[name]
        for name in (columns.model_id, *columns.times)
        if name is not None
    }
    for rows in info.read(wanted):
        yield rows, read_times(time_column(rows.batch, columns), columns)


@dataclass
class _Hour:
    """What a model's rows tell of an hour that comes twice.

    Attributes:
        entries: How often they came into the hour.
        falls: How often their times fell within it.
        row: The row of the last fall.
        ordered: Whether nothing else is against their order.
    """

    entries: int = 0
    falls: int = 0
    row: int = 0
    ordered: bool = True


class _Order:
    """Follows the rows of some models through a file; what batches they come in does not matter.

    Args:
        models: Their ids.
        zone: The zone of local times.
    """

    def __init__(self, models: set[str], zone: str) -> None:
        self._zone = zone
        self._names = sorted(models)
        self._number = {name: number for number, name in enumerate(self._names)}
        # Of each model's last row.
        self._time = np.full(len(models), _NONE)
        self._change = np.full(len(models), _NONE)
        self._hours: dict[tuple[int, int], _Hour] = {}

    def add(
        self,
        ids: Sequence[str],
        model: npt.NDArray[np.int32],
        times: Times,
        rows: npt.NDArray[np.int64],
    ) -> None:
        """Take the next rows in; arguments as of `RowPlaces` and `settle`."""
        # The code -1 takes the last entry: no model of ours.
        number = np.array([self._number.get(name, -1) for name in ids] + [-1])[model]
        again = np.zeros(len(rows), dtype=np.int64) if times.again is None else times.again
        at = np.flatnonzero((number >= 0) & ~times.bad & (again != UNKNOWN))
        if not len(at):
            return
        at = at[np.argsort(number[at], kind="stable")]
        number, time, change = number[at], times.time[at], _changes(times, self._zone)[at]
        starts = np.flatnonzero(np.diff(number, prepend=-1))
        ends = np.append(starts[1:], len(at)) - 1
        time_before, change_before = np.roll(time, 1), np.roll(change, 1)
        time_before[starts] = self._time[number[starts]]
        change_before[starts] = self._change[number[starts]]
        self._time[number[ends]], self._change[number[ends]] = time[ends], change[ends]
        falls = (change == change_before) & (change != _NONE) & (time < time_before)
        for i in np.flatnonzero(falls).tolist():
            hour = self._hour(number[i], change[i])
            hour.falls += 1
            hour.row = int(rows[at[i]])
            hour.ordered &= bool(2 * (time_before[i] - time[i]) >= again[at[i]])
        for i in np.flatnonzero(change != change_before).tolist():
            if change[i] != _NONE:
                hour = self._hour(number[i], change[i])
                hour.entries += 1
                hour.ordered &= bool(time_before[i] < change[i])
            if change_before[i] != _NONE:
                self._hour(number[i], change_before[i]).ordered &= bool(time[i] > change_before[i])

    def _hour(self, number: np.int64, change: np.int64) -> _Hour:
        return self._hours.setdefault((int(number), int(change)), _Hour())

    def told(self) -> Iterator[tuple[tuple[str, int], int]]:
        """Yield model and change of the clock, and the first row after it, where they tell it."""
        for (number, change), hour in self._hours.items():
            if hour.ordered and hour.entries == 1 and hour.falls == 1:
                yield (self._names[number], change), hour.row


__all__ = [
    "LocalTimes",
    "Passages",
    "RowPlaces",
    "Settled",
    "read_times",
    "settle",
    "with_passages",
]
