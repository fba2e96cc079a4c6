"""Long tables: each row holds one value of one metric, and the metrics are the channels."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerneltrack.arrays import BoolArray, IntArray
from kerneltrack.errors import ConfigError, shorten
from transforms.read.formats.base import FileInfo
from transforms.read.formats.head import MARKS
from transforms.read.kinds import codes_of, encode, is_text, rank_of, texts_of, value_type
from transforms.read.numbers import PLAIN, Numbers, values_of
from transforms.read.text_columns import Texts

MOST_METRICS = 4_096
"""Metrics that a scan finds at most: a table of more has another column for its metrics."""

NO_CHANNEL, NO_METRIC = -1, -2
_MANY = 3
_LOOKS = 20_000
"""Values of each metric that say how its texts are read."""
_MOST_TEXTS = 1_000


@dataclass(frozen=True)
class LongTable:
    """Which columns of a table hold the names of channels and their values.

    Attributes:
        metric: Column of the metrics' names.
        value: Column of their values.
        channels: Metrics that are channels, in order.
        numbers: How values that are texts are written.
        own: How those of some of the channels are written: as two words, or with a unit.
        narrow: Whether rows stay a value each until all have come. So they take the same room
            however many channels there are; where those of a time follow one another, rows that
            are merged at once take less.
    """

    metric: str
    value: str
    channels: tuple[str, ...]
    numbers: Numbers = PLAIN
    narrow: bool = False
    own: Mapping[str, Numbers] = field(default_factory=dict)

    def numbers_of(self, channel: str | None) -> Numbers:
        """Return how values of a channel that are texts are written."""
        return self.numbers if channel is None else self.own.get(channel, self.numbers)


class LongValues(NamedTuple):
    """One value a row.

    Attributes:
        names: Distinct names of metrics, None for what is no text.
        name: (n,) place of each row's among them.
        channel: (n,) place of its channel, `NO_CHANNEL` or `NO_METRIC` without one.
        value: (n,) NaN where it is missing.
        wrong: (n,) rows whose value is no number.
    """

    names: list[str | None]
    name: IntArray
    channel: IntArray
    value: npt.NDArray[np.floating]
    wrong: BoolArray


def cells_of(batch: pa.RecordBatch, table: LongTable, dtype: npt.DTypeLike) -> LongValues:
    """Read the metric and the value of each row."""
    encoded = encode(batch.column(table.metric))
    names = [*texts_of(encoded.dictionary), None]
    places = {name: place for place, name in enumerate(table.channels)}
    of_names = [
        NO_METRIC if name is None or not name else places.get(name, NO_CHANNEL) for name in names
    ]
    codes = codes_of(encoded)
    value, wrong = _values(batch.column(table.value), table, names, codes, dtype)
    return LongValues(names, codes, np.array(of_names, dtype=np.int64)[codes], value, wrong)


def _values(
    values: pa.Array,
    table: LongTable,
    names: Sequence[str | None],
    codes: IntArray,
    dtype: npt.DTypeLike,
) -> tuple[npt.NDArray[np.floating], BoolArray]:
    """Read values, those of each metric as it is written; `codes` has their places in `names`."""
    written = [table.numbers_of(name) for name in names]
    ways = list(dict.fromkeys(written))
    if len(ways) == 1 or not is_text(value_type(values.type)):
        return values_of(values, ways[0], dtype)
    way = np.array([ways.index(each) for each in written], dtype=np.int64)[codes]
    found, wrong = np.empty(len(values)), np.empty(len(values), dtype=np.bool_)
    for number, numbers in enumerate(ways):
        rows = np.flatnonzero(way == number)
        found[rows], wrong[rows] = values_of(values.take(pa.array(rows)), numbers)
    return found, wrong


class Runs(NamedTuple):
    """Rows of one model and time that follow one another in its source.

    Attributes:
        first: (g,) place of each run's first row.
        owner: (n,) run of each row.
    """

    first: IntArray
    owner: IntArray


def runs_of(model: npt.NDArray[np.int32], keys: Sequence[npt.NDArray[np.integer]]) -> Runs:
    """Find the rows that can be merged as they come, in the order of their first rows.

    Rows of a model are one run as long as all keys (time, sequence, source) stay the same. Others
    of the same time may come later, from elsewhere: these are merged once rows are in order.
    """
    small = model.astype(np.uint16) if len(model) and model.max() < 2**16 else model
    order = np.argsort(small, kind="stable")
    new = np.ones(len(model), dtype=np.bool_)
    new[1:] = False
    for key in (model, *keys):
        ordered = key[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    first = order[new]
    ranked = np.argsort(first, kind="stable")
    rank = np.empty(len(first), dtype=np.int64)
    rank[ranked] = np.arange(len(first))
    owner = np.empty(len(model), dtype=np.int64)
    owner[order] = rank[np.cumsum(new) - 1]
    return Runs(first[ranked], owner)


def spread(
    runs: Runs, channel: IntArray, value: npt.NDArray[np.floating], width: int
) -> npt.NDArray[np.floating]:
    """Return the runs' rows, (g, D): of each channel the last value given, NaN if there is none."""
    rows = np.full((len(runs.first), width), np.nan, dtype=value.dtype)
    given = np.flatnonzero(~np.isnan(value))
    # Of equal places NumPy keeps what is assigned last.
    rows[runs.owner[given], channel[given]] = value[given]
    return rows


def last_label(runs: Runs, label: pa.Array) -> pa.Array:
    """Return each run's last label that is given."""
    there = label.is_valid().to_numpy(zero_copy_only=False)
    place = np.full(len(runs.first), -1, dtype=np.int64)
    given = np.flatnonzero(there)
    place[runs.owner[given]] = given
    return label.take(pa.array(place, mask=place < 0))


@dataclass
class _Seen:
    """What a scan has seen of a metric.

    Attributes:
        numbers: Values that are numbers.
        wrong: Values that are none, nor look like marks of missing ones.
        looks: Values, up to `_LOOKS` of them, that show how texts are written.
        plain: Whether there was a number among those.
        texts: The different ones among those that are no numbers; if all are, the first later one.
    """

    numbers: int = 0
    wrong: int = 0
    looks: int = 0
    plain: bool = False
    texts: dict[str, None] = field(default_factory=dict)


def find_channels(
    table: LongTable, texts: Texts, features: Sequence[str] | None, exclude: Iterable[str]
) -> tuple[LongTable, list[tuple[str, str]]]:
    """Find the metrics of files, and choose those that are channels.

    Args:
        table: The columns of metrics and values; these are read once.
        texts: The files, and how their texts are read.
        features: Names and patterns of the channels, which give their order; None: all metrics
            whose values are numbers, in the order of their names.
        exclude: Names and patterns of metrics that are none.

    Returns:
        The table with its channels and how their texts are read, and the other metrics with the
        reason.

    Raises:
        ConfigError: for a name that no metric has, a metric that is named and has no numbers, too
            many metrics, or none that is left.
        DataError: if a file cannot be read.
    """
    seen = _scan(texts.infos, table)
    names = sorted(seen)
    for pattern in exclude:
        matching("exclude", pattern, names)
    out = {name for pattern in exclude for name in matching("exclude", pattern, names)}
    texts.check_given(names, "metric")
    named = features is not None
    own = {name: _own(name, seen[name], texts, named=named) for name in names}
    if features is not None:
        wanted = [name for pattern in features for name in matching("features", pattern, names)]
        chosen = [name for name in dict.fromkeys(wanted) if name not in out]
        for name in chosen:
            _refuse_texts(name, seen[name], own[name], texts)
        reason = "not in --features"
        left = [(n, "excluded" if n in out else reason) for n in names if n not in chosen]
    else:
        why = {
            name: "excluded" if name in out else _why_none(seen[name], own[name], texts)
            for name in names
        }
        chosen = [name for name in names if not why[name]]
        left = [(name, reason) for name, reason in why.items() if reason]
    if not chosen:
        shown = ", ".join(shorten(f"{name} ({reason})") for name, reason in left[:_MANY])
        allowed = f"a choice that leaves a metric with numbers: {shown or 'there is no metric'}"
        raise ConfigError("features", features, allowed)
    ways = {name: numbers for name in chosen if (numbers := own[name]) is not None}
    return replace(table, channels=tuple(chosen), own=ways), left


def _scan(infos: Sequence[FileInfo], table: LongTable) -> dict[str, _Seen]:
    seen: dict[str, _Seen] = {}
    for info in infos:
        requests = {
            name: pa.string() if info.is_text(name) else info.schema.field(name).type
            for name in (table.metric, table.value)
        }
        for rows in info.read(requests):
            _look_at(rows.batch, table, seen)
            if len(seen) > MOST_METRICS:
                allowed = f"a column of at most {MOST_METRICS:,} different names"
                raise ConfigError("metric", table.metric, allowed)
    return seen


def _look_at(batch: pa.RecordBatch, table: LongTable, seen: dict[str, _Seen]) -> None:
    cells = cells_of(batch, table, np.float64)
    size, is_number = len(cells.names), ~np.isnan(cells.value)
    there = np.bincount(cells.name, minlength=size)
    given = is_number | cells.wrong
    own = [
        seen.setdefault(name, _Seen()) if name and rows else _Seen()
        for name, rows in zip(cells.names, there.tolist(), strict=True)
    ]
    looked = np.array([each.looks < _LOOKS for each in own])[cells.name]
    if cells.wrong.any():
        names = cells.name[given]
        looked[given] = np.array([each.looks for each in own])[names] + rank_of(names) < _LOOKS
        _look_at_texts(batch.column(table.value), cells, looked, own)
    numbers = np.bincount(cells.name[is_number], minlength=size).tolist()
    plain = np.bincount(cells.name[is_number & looked], minlength=size).tolist()
    values = np.bincount(cells.name[given], minlength=size).tolist()
    for place, each in enumerate(own):
        each.numbers += numbers[place]
        each.plain |= plain[place] > 0
        each.looks += values[place]


def _look_at_texts(
    values: pa.Array, cells: LongValues, looked: BoolArray, seen: Sequence[_Seen]
) -> None:
    """Count the values that are no numbers, and keep the different ones that show how they are.

    Args:
        values: All values of the batch.
        cells: What they are.
        looked: (n,) which of them show how texts are written.
        seen: By the places of the metrics' names.
    """
    at = np.flatnonzero(cells.wrong)
    at = at[np.argsort(cells.name[at], kind="stable")]
    encoded = encode(values.take(pa.array(at)))
    texts = [(text or "").strip() for text in texts_of(encoded.dictionary)]
    codes = codes_of(encoded)
    marked = np.array([text.lower() in MARKS for text in texts])[codes]
    places, starts = np.unique(cells.name[at], return_index=True)
    ends = [*starts[1:].tolist(), len(at)]
    for place, start, end in zip(places.tolist(), starts.tolist(), ends, strict=True):
        own = seen[place]
        own.wrong += int((~marked[start:end]).sum())
        shown = codes[start:end][looked[at[start:end]]]
        for code in dict.fromkeys(shown.tolist()):
            if len(own.texts) < _MOST_TEXTS:
                own.texts.setdefault(texts[code])
        if not own.texts:
            own.texts[texts[codes[start]]] = None


def _own(name: str, seen: _Seen, texts: Texts, *, named: bool) -> Numbers | None:
    """Return how the texts of a metric are read if they are no plain numbers."""
    given = texts.given(name)
    if given is not None or seen.plain or not seen.texts:
        return given
    return texts.of_metric(list(seen.texts), named=named)


def _why_none(seen: _Seen, own: Numbers | None, texts: Texts) -> str:
    """Return why a metric is no channel, "" if more than half of its values are numbers.

    Those that look like marks of missing values are not counted.
    """
    if own is not None or seen.numbers > seen.wrong:
        return ""
    return texts.why_no_metric(list(seen.texts)) if seen.texts else "no values"


def _refuse_texts(name: str, seen: _Seen, own: Numbers | None, texts: Texts) -> None:
    """Refuse a metric that is named as a feature and has texts alone."""
    if own is None and not seen.numbers and seen.wrong:
        allowed = f"a metric with numbers; {name} has {texts.why_no_metric(list(seen.texts))}"
        raise ConfigError("features", name, allowed)


def matching(field: str, pattern: str, names: Sequence[str]) -> list[str]:
    """Return the metrics of a name or pattern.

    Raises:
        ConfigError: if there is none.
    """
    if pattern in names:
        return [pattern]
    found = [name for name in names if fnmatch.fnmatchcase(name, pattern)]
    if not found:
        shown = ", ".join(shorten(name) for name in names[:12])
        more = f" ... and {len(names) - 12} more" if len(names) > 12 else ""
        raise ConfigError(field, pattern, f"a metric: {shown}{more}")
    return found
