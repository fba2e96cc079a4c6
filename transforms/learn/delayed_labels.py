"""Labels that come later than their rows, and how they find them.

A label names a row by its index, or all rows of one time. It waits until the rows that it names
are settled; then each of these takes, of the labels that name it, the first in order of (source,
row), unless it came with a label of its own. A label that no row took is lost, with a reason.
So a row's label depends on the labels that came before the row's deadline, not on their order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import BoolArray, IntArray
from kerneltrack.learners import LearnerSpec
from transforms.chunks import Chunk
from transforms.read.label_values import LabelArray, is_missing, label_values, no_labels

NAMED, TAKEN = 1, 2
"""Values of `used`: a settled row was named but had another label; a settled row took it."""

COMES_FIRST = "another label of the same row comes first"
NO_LABEL = "the label is missing"
NO_ROW_OF_TIME = "no row of this time waits for a label: there is none, or the label came too late"
NO_TIMES = "the model's rows have no times"
NEVER_CAME = "no such row came before the input ended"
NO_MODEL = "no row of this model came"


class Lost(NamedTuple):
    """Labels that no row takes: where they are from, and why."""

    source: list[int]
    row: list[int]
    reason: list[str]

    @staticmethod
    def none() -> Lost:
        """Return an empty list of labels."""
        return Lost([], [], [])

    def add(self, labels: NamingLabels, reason: str | Sequence[str]) -> None:
        """Record labels, with one reason or one each."""
        self.source.extend(labels.source.tolist())
        self.row.extend(labels.row.tolist())
        count = len(labels.key)
        self.reason.extend([reason] * count if isinstance(reason, str) else reason)


class NamingLabels(NamedTuple):
    """Labels that name rows in one way, sorted by key, each key once.

    Attributes:
        key: (m,) index, or time in ns.
        source: (m,) rank of the file or stream it is from.
        row: (m,) number in it.
        label: (m,) names or targets.
        used: (m,) 0, `NAMED` or `TAKEN`.
    """

    key: IntArray
    source: IntArray
    row: IntArray
    label: LabelArray
    used: IntArray

    def at(self, places: Any) -> NamingLabels:
        """Return some of the labels."""
        return NamingLabels(*(column[places] for column in self))


class Pending(NamedTuple):
    """A model's labels that wait for their rows to be settled."""

    by_index: NamingLabels
    by_time: NamingLabels

    @staticmethod
    def none(spec: LearnerSpec) -> Pending:
        """Return no labels."""
        empty = np.zeros(0, np.int64)
        labels = NamingLabels(empty, empty, empty, no_labels(spec, 0), empty)
        return Pending(labels, labels)

    def __bool__(self) -> bool:
        """Check whether there are any."""
        return len(self.by_index.key) + len(self.by_time.key) > 0


class OpenRows(NamedTuple):
    """Which rows may still be named.

    Attributes:
        settled: Index of the first row that waits.
        next: Index of the next row to come.
        times: Times of the rows that wait, in any order.
        newest: The model's newest time; None before the first row, or without times.
    """

    settled: int
    next: int
    times: IntArray
    newest: int | None


def arrive(
    spec: LearnerSpec, pending: Pending, chunks: Sequence[Chunk], rows: OpenRows, most: int | None
) -> tuple[Pending, Lost, int]:
    """Take in labels that have come.

    Args:
        spec: The learner's.
        pending: Those that wait already.
        chunks: Labels: `index` or `time`, `label`, `source`, `row`.
        rows: The rows that they may name.
        most: Most labels of each way of naming that wait for rows to come; those furthest ahead
            are lost. None: any number.

    Returns:
        The labels that wait now, those that are lost, and how many came a second time (same
        name, same place in the source) and were left out.
    """
    lost, kinds, again = Lost.none(), [], 0
    ways = ("index", pending.by_index, rows.next - 1), ("time", pending.by_time, rows.newest)
    for name, known, newest in ways:
        come = [_labels_of(chunk, name) for chunk in chunks if _names_by(chunk) == name]
        if not come:
            kinds.append(known)
            continue
        labels = come[0] if len(come) == 1 else _joined(come)
        good = ~is_missing(labels.label)
        lost.add(labels.at(~good), NO_LABEL)
        merged, repeated = _merge(known, _admitted(labels.at(good), name, rows, lost), lost)
        again += repeated
        kinds.append(merged if most is None else _nearest(merged, newest, most, lost))
    return Pending(*kinds), lost, again


def _names_by(chunk: Chunk) -> str:
    return "index" if chunk.has("index") else "time"


def _labels_of(chunk: Chunk, name: str) -> NamingLabels:
    key, source, row = (chunk.column(part).astype(np.int64) for part in (name, "source", "row"))
    label = label_values(chunk.batch.column("label"))
    return NamingLabels(key, source, row, label, np.zeros(len(chunk), np.int64))


def _joined(parts: Sequence[NamingLabels]) -> NamingLabels:
    return NamingLabels(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _admitted(labels: NamingLabels, name: str, rows: OpenRows, lost: Lost) -> NamingLabels:
    """Leave out the labels whose rows are settled or never were."""
    if name == "index":
        late = labels.key < rows.settled
        lost.add(
            labels.at(late),
            [
                f"row {row} was settled before its label came" if row >= 0 else "no such row"
                for row in labels.key[late].tolist()
            ],
        )
    else:
        late = np.zeros(len(labels.key), np.bool_)
        if rows.newest is not None:
            late = (labels.key <= rows.newest) & ~np.isin(labels.key, rows.times)
        lost.add(labels.at(late), NO_ROW_OF_TIME)
    return labels.at(~late)


def _merge(known: NamingLabels, more: NamingLabels, lost: Lost) -> tuple[NamingLabels, int]:
    """Join labels; of several with one key the first in order of (source, row) stays."""
    both = _joined([known, more])
    # Stable: what was known comes before the same label come again.
    both = both.at(np.lexsort((both.row, both.source, both.key)))
    follows = np.zeros(len(both.key), np.bool_)
    follows[1:] = both.key[1:] == both.key[:-1]
    same = follows.copy()
    same[1:] &= (both.source[1:] == both.source[:-1]) & (both.row[1:] == both.row[:-1])
    lost.add(both.at(follows & ~same & (both.used != TAKEN)), COMES_FIRST)
    return both.at(~follows), int(same.sum())


def _nearest(labels: NamingLabels, newest: int | None, most: int, lost: Lost) -> NamingLabels:
    """Leave out what is too far ahead of the rows."""
    here = 0 if newest is None else int(np.searchsorted(labels.key, newest, side="right"))
    reason = f"too far ahead: {most} labels of earlier rows wait already"
    lost.add(labels.at(slice(here + most, None)), reason)
    return labels.at(slice(0, here + most))


def take_labels(
    pending: Pending, first: int, times: IntArray | None, own: LabelArray
) -> tuple[LabelArray, Pending]:
    """Return the labels of rows that are settled now.

    Args:
        pending: Labels that wait.
        first: Index of the first of these rows.
        times: (n,) their times, ns; None without times.
        own: (n,) labels that came with them.

    Returns:
        The rows' labels, and what was pending with `used` moved on.
    """
    at_index = _places(pending.by_index.key, first + np.arange(len(own)))
    at_time = np.full(len(own), -1) if times is None else _places(pending.by_time.key, times)
    both = (at_index >= 0) & (at_time >= 0)
    time_first = at_index < 0
    time_first[both] = _is_before(
        pending.by_time.at(at_time[both]), pending.by_index.at(at_index[both])
    )
    labels, free = own.copy(), is_missing(own)
    kinds = []
    ways = (pending.by_index, at_index, ~time_first), (pending.by_time, at_time, time_first)
    for known, places, chosen in ways:
        here = places >= 0
        taken = here & free & chosen
        labels[taken] = known.label[places[taken]]
        used = known.used.copy()
        used[places[here]] = np.maximum(used[places[here]], NAMED)
        used[places[taken]] = TAKEN
        kinds.append(known._replace(used=used))
    return labels, Pending(*kinds)


def _places(keys: IntArray, wanted: IntArray) -> IntArray:
    """Return where each is among sorted keys, -1 where it is not."""
    if not len(keys):
        return np.full(len(wanted), -1)
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[places] == wanted, places, -1)


def _is_before(left: NamingLabels, right: NamingLabels) -> BoolArray:
    first: BoolArray = (left.source < right.source) | (
        (left.source == right.source) & (left.row < right.row)
    )
    return first


def let_go(pending: Pending, settled: int, oldest: int | None) -> tuple[Pending, Lost]:
    """Leave out the labels whose rows are all settled.

    Args:
        pending: Labels that wait.
        settled: Index of the first row that waits.
        oldest: Least time of the rows that wait; None without times.
    """
    lost = Lost.none()
    gone = int(np.searchsorted(pending.by_index.key, settled))
    by_index = pending.by_index
    past = by_index.at(slice(0, gone))
    lost.add(past.at(past.used != TAKEN), COMES_FIRST)
    by_time = pending.by_time
    gone_times = 0 if oldest is None else int(np.searchsorted(by_time.key, oldest))
    past = by_time.at(slice(0, gone_times))
    lost.add(past.at(past.used == NAMED), COMES_FIRST)
    lost.add(past.at(past.used == 0), NO_ROW_OF_TIME)
    rest = Pending(by_index.at(slice(gone, None)), by_time.at(slice(gone_times, None)))
    return rest, lost


def left_over(pending: Pending, rows: OpenRows) -> Lost:
    """Return the labels that are lost because the input ended, once all rows are settled."""
    lost = Lost.none()
    none_came = NEVER_CAME if rows.next else NO_MODEL
    by_index, by_time = pending
    lost.add(by_index.at(by_index.used == NAMED), COMES_FIRST)
    lost.add(by_index.at(by_index.used == 0), none_came)
    lost.add(by_time.at(by_time.used == NAMED), COMES_FIRST)
    untimed = NO_TIMES if rows.next and rows.newest is None else none_came
    lost.add(by_time.at(by_time.used == 0), untimed)
    return lost


def naming(pending: Pending, rows: OpenRows) -> Pending:
    """Return those of the labels that name rows that wait."""
    by_index, by_time = pending
    return Pending(
        by_index.at((by_index.key >= rows.settled) & (by_index.key < rows.next)),
        by_time.at(np.isin(by_time.key, rows.times)),
    )


def to_arrays(
    pending: Pending, codes: Mapping[str | None, int] | None
) -> dict[str, npt.NDArray[Any]]:
    """Return labels as plain arrays; names by their codes, targets as they are."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, labels in pending._asdict().items():
        if len(labels.key):
            where = np.column_stack([labels.key, labels.source, labels.row, labels.used])
            arrays[f"{name}.where"] = where
            arrays[f"{name}.label"] = to_codes(labels.label, codes)
    return arrays


def to_codes(labels: LabelArray, codes: Mapping[str | None, int] | None) -> npt.NDArray[Any]:
    """Return names by their codes; targets (no codes) as they are."""
    if codes is None:
        return labels
    return np.array([codes[name] for name in labels.tolist()], np.int64)


def from_codes(values: npt.NDArray[Any], names: Sequence[str] | None) -> LabelArray:
    """Undo `to_codes`, with the names in the order of their codes and -1 for none."""
    if names is None:
        return values.astype(np.float64)
    known: LabelArray = np.array([*names, None], dtype=object)[values]
    return known


def from_arrays(
    spec: LearnerSpec, arrays: Mapping[str, npt.NDArray[Any]], names: Sequence[str] | None
) -> Pending:
    """Undo `to_arrays`.

    Raises:
        IndexError: for codes without names.
        ValueError: for arrays that do not fit.
    """
    kinds = []
    for name, none in Pending.none(spec)._asdict().items():
        where = arrays.get(f"{name}.where", np.zeros((0, 4), np.int64))
        if where.dtype != np.int64:
            raise ValueError(f"labels {name} are named by {where.dtype}, not int64")
        key, source, row, used = where.T
        label = from_codes(arrays[f"{name}.label"], names) if len(key) else none.label
        if len(label) != len(key) or (key[1:] <= key[:-1]).any():
            raise ValueError(f"labels {name} are not in order")
        if (source != source.astype(np.int32)).any() or (used < 0).any() or (used > TAKEN).any():
            raise ValueError(f"labels {name} are of no source")
        kinds.append(NamingLabels(key, source, row, label, used))
    return Pending(*kinds)
