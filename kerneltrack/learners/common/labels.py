"""Labels as the row loops take them: numbers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.errors import ConfigError
from kerneltrack.learners.common.base import BoolArray, FloatArray, IntArray, Labels
from kerneltrack.learners.common.spec import LearnerSpec

MISSING, UNUSABLE_LABEL = -1, -2
"""Codes below 0: no label, and one that can be held against a class but not be learned."""
_NEW = -3

MAX_TARGET = 1e100
"""Largest |target| that is learned from: its square is still finite."""
MAX_NAME = 200
"""Most characters of a class's name, so that the state stays bounded."""


ALL_ONE = np.zeros(0)
"""The weights of labels that all count 1."""


class Coded(NamedTuple):
    """Labels as numbers.

    Attributes:
        codes: (n,) place of the class (0 in regression), or a number below 0.
        targets: (n,) the targets; (0,) in classification.
        weights: (n,) how much each counts, above 0; (0,): all count 1.
    """

    codes: IntArray
    targets: FloatArray
    weights: FloatArray = ALL_ONE


class CodedBlock(NamedTuple):
    """The labels of m models' rows as numbers.

    Attributes:
        labels: Of all their rows; codes are each model's own.
        names: All classes and labels that there are.
        order: Places in `names` of each model's classes, in the order of first appearance.
        ends: (m + 1,) where each model's begin in `order`.
    """

    labels: Coded
    names: list[str]
    order: IntArray
    ends: IntArray

    @property
    def classes(self) -> list[tuple[str, ...]]:
        """Return the classes that each model knows after its rows."""
        met = [self.names[place] for place in self.order.tolist()]
        return [tuple(met[start:stop]) for start, stop in itertools.pairwise(self.ends.tolist())]


def no_labels(count: int) -> Coded:
    """Return the labels of `count` rows that have none."""
    return Coded(np.full(count, MISSING), np.zeros(count))


def coded(
    spec: LearnerSpec, classes: tuple[str, ...], labels: Labels, valid: BoolArray, grow: bool
) -> tuple[Coded, tuple[str, ...]]:
    """Turn labels into numbers and note the classes that appear for the first time.

    Args:
        spec: Says the task and how many classes there may be.
        classes: Those known so far.
        labels: One for each row.
        valid: (n,) rows whose features were not refused; the labels of others count as missing.
        grow: Whether new classes may be added.

    Returns:
        The coded labels and the classes known after the last row.

    Raises:
        ConfigError: for a wrong number of labels, or labels of a wrong type.
    """
    count = len(valid)
    if labels is None:
        return no_labels(count), classes
    if len(labels) != count:
        raise ConfigError("labels", f"{len(labels)} labels", f"one for each of {count} rows")
    if not spec.classifies:
        return coded_targets(labels, valid), classes
    most = spec.max_classes if grow else 0
    codes, classes = _coded_classes(classes, labels, valid, most)
    return Coded(codes, np.zeros(0)), classes


def _coded_classes(
    classes: tuple[str, ...], labels: Any, valid: BoolArray, most: int
) -> tuple[IntArray, tuple[str, ...]]:
    values = labels.tolist() if isinstance(labels, np.ndarray) else labels
    table: dict[str | None, int] = {name: code for code, name in enumerate(classes)}
    table[None] = MISSING
    try:
        codes = np.array([table.get(value, _NEW) for value in values], dtype=np.int64)
    except TypeError as error:
        raise ConfigError("labels", str(error), "strings, or None where missing") from error
    codes[~valid] = MISSING
    names = list(classes)
    # Only names that were not known when the call began are left, each looked at in its turn.
    for place in np.flatnonzero(codes == _NEW).tolist():
        value = values[place]
        if not isinstance(value, str):
            raise ConfigError("labels", value, "strings, or None where missing")
        if value not in table and len(names) < most and len(value) <= MAX_NAME:
            table[value] = len(names)
            names.append(str(value))
        codes[place] = table.get(value, UNUSABLE_LABEL)
    return codes, tuple(names)


def coded_targets(labels: Any, valid: BoolArray) -> Coded:
    """Turn targets, NaN where missing, into labels of rows; those that are not `valid` have none.

    Raises:
        ConfigError: for labels of a wrong type.
    """
    try:
        targets: npt.NDArray[np.float64] = np.array(labels, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigError("labels", str(error), "numbers, NaN where missing") from error
    if targets.ndim != 1:
        raise ConfigError("labels", targets.shape, "one number a row")
    codes = np.where(np.abs(targets) <= MAX_TARGET, 0, UNUSABLE_LABEL)
    codes[np.isnan(targets) | ~valid] = MISSING
    targets[codes != 0] = 0.0
    return Coded(codes, targets)


def coded_each(
    spec: LearnerSpec,
    known: Sequence[tuple[str, ...]],
    names: Sequence[str],
    places: IntArray,
    starts: IntArray,
    stops: IntArray,
) -> CodedBlock:
    """Turn the labels of many models' rows into numbers; see `coded`.

    Args:
        spec: Says how many classes a model may have.
        known: The classes that each model knows so far.
        names: All labels that there are, each once.
        places: (n,) place of each row's in `names`, below 0 without one; all rows are valid.
        starts: (m,) place of each model's first row; the first one's is 0.
        stops: (m,) place after its last: the next one's first.

    Example:
        >>> from kerneltrack.learners.linear.spec import RidgeSpec
        >>> places, starts, stops = np.array([1, 0, 1, 0]), np.array([0, 3]), np.array([3, 4])
        >>> block = coded_each(RidgeSpec(), [(), ("c",)], ["a", "b"], places, starts, stops)
        >>> block.labels.codes.tolist(), block.classes
        ([0, 1, 0, 1], [('b', 'a'), ('c', 'a')])
    """
    table = {name: place for place, name in enumerate(names)}
    before = [table.setdefault(name, len(table)) for own in known for name in own]
    names, models = list(table), len(starts)
    many = max(len(names), 1)
    # Rows before a model's first one bring the classes that it knows: these keep their places.
    more = np.array([len(own) for own in known], np.int64)
    own_rows = np.arange(len(places)) + np.repeat(np.cumsum(more), stops - starts)
    told = np.empty(len(places) + len(before), np.int64)
    others = np.ones(len(told), np.bool_)
    others[own_rows] = False
    told[own_rows], told[others] = places, before
    short = np.array([len(name) <= MAX_NAME for name in names], np.bool_)
    codes = np.where(told < 0, MISSING, UNUSABLE_LABEL)
    rows = np.flatnonzero(told >= 0)
    rows = rows[short[told[rows]]]
    owner = np.repeat(np.arange(models), stops - starts + more)[rows]
    cells, first, where = np.unique(
        owner * many + told[rows], return_index=True, return_inverse=True
    )
    of_model = cells // many
    met = np.lexsort((first, of_model))
    begins = np.searchsorted(of_model, np.arange(models))
    rank = np.empty(len(cells), np.int64)
    rank[met] = np.arange(len(cells)) - begins[of_model[met]]
    has_room = rank < spec.max_classes
    codes[rows] = np.where(has_room, rank, UNUSABLE_LABEL)[where]
    kept = met[has_room[met]]
    ends = np.searchsorted(of_model[kept], np.arange(models + 1))
    return CodedBlock(Coded(codes[own_rows], np.zeros(0)), names, cells[kept] % many, ends)
