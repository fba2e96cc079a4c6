"""Record batches of any source to parsed rows: checked, converted, refused rows set apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kerneltrack.errors import MOST_VALUE, shorten
from transforms.failures import FAILURE_SCHEMA, NO_FAILURES, Failures, reasons_column
from transforms.metrics import count
from transforms.read.columns import Columns
from transforms.read.date_and_time import time_column
from transforms.read.formats.base import FileInfo, PieceRows
from transforms.read.kinds import as_bytes, codes_of, encode, is_bytes, is_number, is_text, texts_of
from transforms.read.local_times import NONE_IN_DOUBT, LocalTimes, RowPlaces, read_times, settle
from transforms.read.long_table import (
    NO_METRIC,
    LongTable,
    LongValues,
    cells_of,
    last_label,
    runs_of,
    spread,
)
from transforms.read.matrix import read_texts, refusal, refused_rows, to_matrix
from transforms.read.merged import NOTHING_MERGED, Merged
from transforms.read.model_ids import MAX_ID_BYTES, model_ids
from transforms.read.numbers import without_nulls
from transforms.read.time_reasons import why_bad

MISSING = "missing of "
"""How the counters of missing values begin: the channel's name follows."""

NULLS = "values_null"
"""Counter of the values that `null_values` took out."""

_MOST_COUNTED = 2_048
"""Missing values are counted for this many channels at most."""


@dataclass(frozen=True)
class ParsedRows:
    """Good rows of one batch, in the order in which they came.

    Attributes:
        models: Distinct model ids.
        model: Position in `models` of each row's id, shape (n,), int32.
        time: int64, ns since 1970 UTC; None without a time column.
        sequence: int64; None without a sequence column.
        source: int32, rank of the file.
        row: int64, number of the row in its file.
        x: Features, shape (n, D).
        label: string, int64 or float64; None without labels.
        local: How many rows of the batch, those refused among them, had a doubtful local time.
        missing: Rows that were refused for want of a value, by the channels that lack one.
        nulls: Values that are one of the numbers that mean a missing value.
        merged: What became of the rows of a long table that are not among these.
        channel: int32, of a narrow long table the channel of each row's only value.
    """

    models: list[str]
    model: npt.NDArray[np.int32]
    time: npt.NDArray[np.int64] | None
    sequence: npt.NDArray[np.int64] | None
    source: npt.NDArray[np.int32]
    row: npt.NDArray[np.int64]
    x: npt.NDArray[np.floating]
    label: pa.Array | None
    local: LocalTimes = NONE_IN_DOUBT
    missing: Mapping[str, int] = field(default_factory=dict)
    merged: Merged = NOTHING_MERGED
    nulls: int = 0
    channel: npt.NDArray[np.int32] | None = None

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.row)

    @property
    def nbytes(self) -> int:
        """Return about how much memory the rows take."""
        return self.x.nbytes + 48 * len(self)

    def add_to_counters(self, counted_as: str) -> None:
        """Add what was found in the rows to Beam's counters, from within a DoFn."""
        self.local.add_to_counters(counted_as)
        self.merged.add_to_counters(counted_as)
        for channel, rows in self.missing.items():
            count(MISSING + channel, rows)
        count(NULLS, self.nulls)


@dataclass
class _Refusals:
    """Reasons why rows are refused; the first one found of a row stays."""

    reasons: dict[int, str] = field(default_factory=dict)

    def add(
        self,
        name: str,
        values: pa.Array,
        bad: npt.NDArray[np.bool_],
        why: str,
        shown: Callable[[pa.Array], list[str]] | None = None,
    ) -> None:
        """Refuse rows for the value of a column, which `shown` writes (None: `plain`)."""
        rows = np.flatnonzero(bad)
        if not len(rows):
            return
        texts = (shown or plain)(values.take(pa.array(rows)))
        for row, value in zip(rows.tolist(), texts, strict=True):
            self.reasons.setdefault(row, f"{name} = {value}: {why}")


def parse(
    rows: PieceRows, source: npt.ArrayLike, columns: Columns, *, merge: bool = True
) -> tuple[ParsedRows, Failures]:
    """Convert one batch; each of its rows comes out once, as a good row or a failure.

    Args:
        rows: A batch with the needed columns (others are ignored), row numbers, and rows that
            could not even be read.
        source: int32, rank of the file, one for all rows or one a row.
        columns: What each column is.
        merge: Whether rows of a long table are merged that follow one another here: they do in
            their source, too, but for rows of other models and those that are refused.

    Returns:
        The good rows, and the failures: a value that could not be read, no or no usable model id,
        time, sequence, label or feature. A row's first problem, in this order, is its reason. Of a
        long table those of one model and time that follow one another are one row.
    """
    batch, refusals = rows.batch, _Refusals(dict(rows.unread))
    sources = np.broadcast_to(np.asarray(source, dtype=np.int32), (batch.num_rows,))
    models, model = _models(batch, columns, refusals)
    time, local = _time(batch, columns, refusals, RowPlaces(models, model, sources, rows.row))
    sequence = _sequence(batch, columns, refusals)
    label = _known(_label(batch, columns, refusals), columns.nulls)
    cells = None if columns.long is None else _cells(batch, columns, columns.long, refusals)
    missing: dict[str, int] = {}
    if cells is not None:
        x, nulls = without_nulls(cells.value[:, None], columns.nulls)
    else:
        batch, unread = read_texts(batch, columns.features)
        for each in unread:
            refusals.add(each.name, each.values, each.rows, each.why)
        x = to_matrix(batch, columns.features, columns.dtype)
        x, nulls = without_nulls(x, columns.nulls)
        hold = columns.partial or columns.options.missing == "hold"
        seen = _without_unseen(x, columns)
        refused = refused_rows(seen, hold)
        missing = {} if hold else _missing(seen, refused, refusals.reasons, columns)
        for at in refused.tolist():
            if at not in refusals.reasons:
                refusals.reasons[at] = refusal(seen[at], columns.channels, hold)
    parsed = ParsedRows(models, model, time, sequence, sources, rows.row, x, label, local, missing)
    parsed = replace(parsed, nulls=nulls)
    reasons = refusals.reasons
    keep = np.ones(len(parsed), dtype=bool)
    keep[list(reasons)] = False
    good = select(parsed, keep) if reasons else parsed
    if cells is not None:
        narrow = columns.long is not None and columns.long.narrow
        taken = _narrow if narrow else partial(_wide, width=columns.width, merge=merge)
        good = taken(good, cells.channel[keep])
    device = rows.constants.get(columns.model_id) if columns.model_id is not None else None
    return good, _failures(parsed, reasons, rows.bad, source, device)


def _without_unseen(x: npt.NDArray[np.floating], columns: Columns) -> npt.NDArray[np.floating]:
    """Return values with 0 for those that only a condition misses."""
    if not columns.unseen:
        return x
    lacks = np.isnan(x) & np.isin(columns.channels, columns.unseen)
    return np.where(lacks, x.dtype.type(0), x)


def _missing(
    x: npt.NDArray[np.floating],
    refused: npt.NDArray[np.int64],
    reasons: Collection[int],
    columns: Columns,
) -> dict[str, int]:
    """Count the missing values by channel, of rows that are refused for nothing else."""
    refused = np.setdiff1d(refused, list(reasons)).astype(np.int64)
    if not len(refused):
        return {}
    counts = np.isnan(x[refused]).sum(axis=0)
    lacking = np.flatnonzero(counts)[:_MOST_COUNTED].tolist()
    channels = columns.channels if lacking else ()
    return {channels[at]: int(counts[at]) for at in lacking}


def _cells(
    batch: pa.RecordBatch, columns: Columns, table: LongTable, refusals: _Refusals
) -> LongValues:
    """Read the cells of a long table; those that cannot be used are refused by their metric."""
    cells = cells_of(batch, table, columns.dtype)
    refusals.add(table.metric, batch.column(table.metric), cells.channel == NO_METRIC, "no metric")
    wanted = cells.channel >= 0
    bad = np.flatnonzero(cells.wrong & wanted)
    texts = plain(batch.column(table.value).take(pa.array(bad)))
    for at, text in zip(bad.tolist(), texts, strict=True):
        name = cells.names[cells.name[at]]
        why = table.numbers_of(name).meaning
        refusals.reasons.setdefault(at, f"{name} = {text}: {why}")
    for at in refused_rows(cells.value[:, None], hold=True).tolist():
        if wanted[at]:
            name = cells.names[cells.name[at]] or ""
            text = refusal(cells.value[at : at + 1], [name], hold=True)
            refusals.reasons.setdefault(at, text)
    return cells


def _narrow(long: ParsedRows, channel: npt.NDArray[np.int64]) -> ParsedRows:
    """Return the rows of metrics that are channels, a value each."""
    wanted = channel >= 0
    found = long if wanted.all() else select(long, wanted)
    merged = Merged(unnamed=len(long) - len(found))
    return replace(found, merged=merged, channel=channel[wanted].astype(np.int32))


def _wide(long: ParsedRows, channel: npt.NDArray[np.int64], width: int, merge: bool) -> ParsedRows:
    """Return one row for rows of one model and time that follow one another in their source."""
    rows = len(long)
    wanted = channel >= 0
    if not wanted.all():
        long, channel = select(long, wanted), channel[wanted]
    keys = [key for key in (long.time, long.sequence, long.source) if key is not None]
    keys += [] if merge else [long.row]
    runs = runs_of(long.model, keys)
    value = long.x[:, 0]
    x = spread(runs, channel, value, width)
    given = int((~np.isnan(value)).sum())
    merged = Merged(
        rows=len(long) - len(runs.first),
        replaced=given - int((~np.isnan(x)).sum()),
        unnamed=rows - len(long),
    )
    found = select(long, runs.first)
    label = None if long.label is None else last_label(runs, long.label)
    return replace(found, x=x, label=label, merged=merged)


def _models(
    batch: pa.RecordBatch, columns: Columns, refusals: _Refusals
) -> tuple[list[str], npt.NDArray[np.int32]]:
    """Return the distinct ids and each row's; -1 for a row without a usable one."""
    models, model = model_ids(batch, columns)
    if columns.model_id is not None:
        why = f"no model id (1 to {MAX_ID_BYTES} bytes of UTF-8)"
        refusals.add(columns.model_id, batch.column(columns.model_id), model < 0, why)
    return models, model


def _time(
    batch: pa.RecordBatch, columns: Columns, refusals: _Refusals, places: RowPlaces
) -> tuple[npt.NDArray[np.int64] | None, LocalTimes]:
    if columns.time is None:
        return None, NONE_IN_DOUBT
    values, name = time_column(batch, columns), " ".join(columns.times)
    times = read_times(values, columns)
    for bad, why in why_bad(values, times.bad, columns.options):
        refusals.add(name, values, bad, why)
    settled = settle(times, columns, places)
    for refused, why in settled.refused:
        refusals.add(name, values, refused, why, _as_local)
    return settled.time, settled.counts


def _sequence(
    batch: pa.RecordBatch, columns: Columns, refusals: _Refusals
) -> npt.NDArray[np.int64] | None:
    if columns.sequence is None:
        return None
    values = batch.column(columns.sequence)
    sequence, bad = _whole_numbers(values)
    refusals.add(columns.sequence, values, bad, "no whole number")
    return sequence


def _whole_numbers(values: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Convert numbers to int64; null, fractions and what is out of range are bad."""
    bad = values.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_floating(values.type):
        numbers = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
        # Above 2**53 a float64 may not be the number that was meant.
        bad = bad | ~((np.abs(numbers) <= 2**53) & (np.rint(numbers) == numbers))
        return np.where(bad, 0.0, numbers).astype(np.int64), bad
    if pa.types.is_uint64(values.type):
        limit = pa.scalar(2**63 - 1, pa.uint64())
        bad = bad | pc.greater(values, limit).fill_null(True).to_numpy(zero_copy_only=False)
    whole = values.cast(pa.int64(), safe=False).fill_null(0)
    return np.where(bad, 0, whole.to_numpy(zero_copy_only=False)), bad


def _label(batch: pa.RecordBatch, columns: Columns, refusals: _Refusals) -> pa.Array | None:
    """Convert labels; null stays null, what is not of the type is refused."""
    if columns.label is None:
        return None
    values = batch.column(columns.label)
    kind = columns.label_type
    if values.type == kind and not pa.types.is_string(kind):
        # Not a number is no label.
        return pc.if_else(pc.is_nan(values), None, values) if pa.types.is_floating(kind) else values
    encoded = encode(values)
    distinct = encoded.dictionary
    plain = texts_of(distinct) if is_text(distinct.type) else distinct.to_pylist()
    converted: list[object] = []
    refused: list[bool] = []
    for value, is_there in zip(plain, distinct.is_valid().to_pylist(), strict=True):
        try:
            converted.append(_to_label(value, kind) if is_there else None)
            refused.append(False)
        except (pa.ArrowException, OverflowError, ValueError):
            converted.append(None)
            refused.append(True)
    codes = codes_of(encoded)
    bad = np.array([*refused, False])[codes]
    refusals.add(columns.label, values, bad, f"not a label of type {kind}")
    return pa.array([*converted, None], kind).take(pa.array(codes))


def _known(label: pa.Array | None, nulls: Sequence[float]) -> pa.Array | None:
    """Return labels with null for the numbers that mean a missing one."""
    if label is None or not nulls or not is_number(label.type):
        return label
    met = pc.is_in(label.cast(pa.float64()), value_set=pa.array(nulls, pa.float64()))
    return pc.if_else(met, pa.scalar(None, label.type), label)


def _to_label(value: object, kind: pa.DataType) -> object:
    """Convert one distinct label; an empty text and NaN are no label, which is allowed.

    Raises:
        ValueError: if it is not of the type; pa.ArrowInvalid is one.
    """
    if value is None:
        raise ValueError("not UTF-8")
    if value == "" or (isinstance(value, float) and math.isnan(value)):
        return None
    if pa.types.is_string(kind):
        # True and False are the classes 1 and 0 here as well as among numbers.
        return str(int(value) if isinstance(value, bool) else value)
    label = pa.scalar(value.strip() if isinstance(value, str) else value).cast(kind).as_py()
    return None if isinstance(label, float) and math.isnan(label) else label


def parsed_of(infos: Sequence[FileInfo], columns: Columns) -> Iterator[tuple[ParsedRows, Failures]]:
    """Yield what `parse` makes of the batches of files, in their order.

    Raises:
        DataError: if a file cannot be read.
    """
    for source, info in enumerate(infos):
        for rows in info.read(columns.requests):
            yield parse(rows, source, columns)


def select(parsed: ParsedRows, keep: npt.NDArray[np.bool_] | npt.NDArray[np.int64]) -> ParsedRows:
    """Return the rows that are to be kept, or those at these places."""
    return ParsedRows(
        parsed.models,
        parsed.model[keep],
        None if parsed.time is None else parsed.time[keep],
        None if parsed.sequence is None else parsed.sequence[keep],
        parsed.source[keep],
        parsed.row[keep],
        parsed.x[keep],
        None if parsed.label is None else _picked(parsed.label, keep),
        parsed.local,
        parsed.missing,
        parsed.merged,
        parsed.nulls,
        None if parsed.channel is None else parsed.channel[keep],
    )


def _picked(values: pa.Array, keep: npt.NDArray[Any]) -> pa.Array:
    chosen = pa.array(keep)
    return values.filter(chosen) if keep.dtype == np.bool_ else values.take(chosen)


def _failures(
    parsed: ParsedRows,
    reasons: dict[int, str],
    unread: Sequence[tuple[int, str]],
    source: npt.ArrayLike,
    device: str | None,
) -> Failures:
    """Build the failures: rows that were refused, and rows that could not be read.

    Args:
        parsed: All rows that could be read.
        reasons: Why some of them are refused, by place.
        unread: Rows that could not be read: number in the file, and reason.
        source: Rank of the file.
        device: Model id of the latter, where the file's path says it.
    """
    if not reasons and not unread:
        return NO_FAILURES
    at = np.array(sorted(reasons), dtype=np.int64)
    known = parsed.model[at]
    ids = [parsed.models[code] if code >= 0 else None for code in known.tolist()]
    first = np.asarray(source, dtype=np.int32).reshape(-1)[:1]
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(ids + [device] * len(unread), pa.string()),
            pa.array(np.concatenate([parsed.source[at], np.repeat(first, len(unread))])),
            pa.array(
                np.concatenate([parsed.row[at], np.array([r for r, _ in unread], dtype=np.int64)])
            ),
            reasons_column([reasons[i] for i in at.tolist()] + [text for _, text in unread]),
        ],
        schema=FAILURE_SCHEMA,
    )
    return Failures(batch)


def plain(values: pa.Array) -> list[str]:
    """Write values for a reason."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_temporal(values.type):
        # A time may be outside what Python's datetime can hold.
        values = values.cast(pa.int32() if pa.types.is_date32(values.type) else pa.int64())
    return _quoted(values)


def _as_local(values: pa.Array) -> list[str]:
    """Write local times for a reason as a person reads them."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    return _quoted(values.cast(pa.string()) if pa.types.is_temporal(values.type) else values)


def _quoted(values: pa.Array) -> list[str]:
    values = as_bytes(values)
    if is_bytes(values.type):
        # A reason shows the beginning, however long the value; a character has four bytes at most.
        values = pc.binary_slice(values, 0, 4 * MOST_VALUE + 4)
    listed = values.to_pylist()
    return ["null" if value is None else shorten(value) for value in listed]
