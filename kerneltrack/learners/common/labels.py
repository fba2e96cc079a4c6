"""Labels as the row loops take them: numbers."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import BoolArray, IntArray
from kerneltrack.errors import ConfigError
from kerneltrack.learners.common.base import SUMS, Labels
from kerneltrack.learners.common.kept_classes import (
    MAX_NAME,
    MISSING,
    UNUSABLE_LABEL,
    Turnover,
    turnover_of,
)
from kerneltrack.learners.common.spec import LearnerSpec
from kerneltrack.native.layouts import FloatVector, IntVector

_NEW = -3

MAX_TARGET = 1e100
"""Largest |target| that is learned from: its square is still finite."""
ALL_ONE = np.zeros(0)
"""The weights of labels that all count 1."""


class Coded(NamedTuple):
    """Labels as numbers.

    Attributes:
        codes: (n,) place of the class (0 in regression), or a number below 0; where they are held
            against predictions alone, the class's code for life.
        targets: (n,) the targets; (0,) in classification.
        weights: (n,) how much each counts, above 0; (0,): all count 1.
    """

    codes: IntVector
    targets: FloatVector
    weights: FloatVector = ALL_ONE

    def part(self, start: int, stop: int) -> Coded:
        """Return the labels of rows start..stop."""
        columns: Any = self
        return Coded(*[column[start:stop] for column in columns])


class Given(NamedTuple):
    """The labels of a model's rows, to be learned from.

    Attributes:
        labels: As numbers.
        classes: The classes by place once all have theirs, before any of them changes places.
        turnover: What becomes of places; None where no class is without one.
    """

    labels: Coded
    classes: tuple[str, ...]
    turnover: Turnover | None = None

    @property
    def codes(self) -> IntArray:
        """Return the codes for life of the rows' classes, numbers below 0 without one."""
        return self.labels.codes if self.turnover is None else self.turnover.codes

    @property
    def names(self) -> tuple[str, ...]:
        """Return the classes that codes number, after the rows."""
        return self.classes if self.turnover is None else self.turnover.kept.names


class CodedBlock(NamedTuple):
    """The labels of m models' rows as numbers.

    Attributes:
        labels: Of all their rows; codes are places of each model's own.
        names: All classes and labels that there are.
        order: Places in `names` of each model's classes, by their codes for life: in the order in
            which they got a place.
        ends: (m + 1,) where each model's begin in `order`.
        codes: (n,) the classes' codes for life, or numbers below 0.
        turnovers: What becomes of places, by the number of the model, where a class is without one.
    """

    labels: Coded
    names: list[str]
    order: IntArray
    ends: IntArray
    codes: IntArray
    turnovers: Mapping[int, Turnover]

    def given(self, model: int, start: int, stop: int) -> Given:
        """Return the labels of one model's rows."""
        turnover = self.turnovers.get(model)
        if turnover is not None:
            return Given(self.labels.part(start, stop), turnover.classes, turnover)
        return Given(self.labels.part(start, stop), self.names_of(model))

    def names_of(self, model: int) -> tuple[str, ...]:
        """Return the classes that a model's codes number, after its rows."""
        own = self.order[self.ends[model] : self.ends[model + 1]]
        return tuple([self.names[place] for place in own.tolist()])


def no_labels(count: int) -> Coded:
    """Return the labels of `count` rows that have none."""
    return Coded(np.full(count, MISSING), np.zeros(count))


def coded(spec: LearnerSpec, state: Any, labels: Labels, valid: BoolArray) -> Given:
    """Turn labels into numbers, and give classes that appear for the first time their places.

    Args:
        spec: Says the task and how many classes there may be.
        state: The learner's, which has the classes known so far.
        labels: One for each row.
        valid: (n,) rows whose features were not refused; the labels of others count as missing.

    Raises:
        ConfigError: for a wrong number of labels, or labels of a wrong type.
    """
    numbers, classes = _numbered(spec, state.classes, labels, valid, spec.max_classes)
    if not spec.classifies or labels is None:
        return Given(numbers, classes)
    codes_of_rows = [
        label if fit and isinstance(label, str) else None
        for label, fit in zip(labels, valid.tolist(), strict=True)
    ]
    without = np.flatnonzero(numbers.codes == UNUSABLE_LABEL).tolist()
    if state.kept is None and not any(_is_kept(codes_of_rows[row]) for row in without):
        return Given(numbers, classes)
    turnover = turnover_of(spec, state.classes, state.kept, _seen(state), codes_of_rows)
    return Given(Coded(turnover.places, numbers.targets), turnover.classes, turnover)


def _is_kept(name: str | None) -> bool:
    """Check whether a class of this name could be kept."""
    return name is not None and len(name) <= MAX_NAME


def _seen(state: Any) -> list[float]:
    """Return how many labels each class of a state had."""
    seen: list[float] = state.sums[SUMS : SUMS + len(state.classes)].tolist()
    return seen


def compared(spec: LearnerSpec, names: tuple[str, ...], labels: Labels, valid: BoolArray) -> Coded:
    """Turn labels into numbers that predictions are held against: codes for life.

    Args:
        spec: Says the task.
        names: The classes that codes number.
        labels: One for each row.
        valid: (n,) as of `coded`.

    Raises:
        ConfigError: as of `coded`.
    """
    return _numbered(spec, names, labels, valid, 0)[0]


def _numbered(
    spec: LearnerSpec, classes: tuple[str, ...], labels: Labels, valid: BoolArray, most: int
) -> tuple[Coded, tuple[str, ...]]:
    count = len(valid)
    if labels is None:
        return no_labels(count), classes
    if len(labels) != count:
        raise ConfigError("labels", f"{len(labels)} labels", f"one for each of {count} rows")
    if not spec.classifies:
        return coded_targets(labels, valid), classes
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
    states: Sequence[Any],
    names: Sequence[str],
    places: IntArray,
    starts: IntArray,
    stops: IntArray,
) -> CodedBlock:
    """Turn the labels of many models' rows into numbers; see `coded`.

    Args:
        spec: Says how many classes a model may have.
        states: The models' learners, which have the classes known so far.
        names: All labels that there are, each once.
        places: (n,) place of each row's in `names`, below 0 without one; all rows are valid.
        starts: (m,) place of each model's first row; the first one's is 0.
        stops: (m,) place after its last: the next one's first.

    Example:
        >>> from kerneltrack.learners.linear.ridge import Ridge
        >>> from kerneltrack.learners.linear.spec import RidgeSpec
        >>> states = [Ridge().init(RidgeSpec(), 1)] * 2
        >>> places, starts, stops = np.array([1, 0, 1, 0]), np.array([0, 3]), np.array([3, 4])
        >>> block = coded_each(RidgeSpec(), states, ["a", "b"], places, starts, stops)
        >>> block.labels.codes.tolist(), [block.names_of(model) for model in (0, 1)]
        ([0, 1, 0, 0], [('b', 'a'), ('a',)])
    """
    known = [state.classes for state in states]
    table = {name: place for place, name in enumerate(names)}
    before = [table.setdefault(name, len(table)) for own in known for name in own]
    names, models = list(table), len(starts)
    many = max(len(names), 1)
    # Rows before a model's first one bring the classes that it knows: these keep their places.
    more = np.array([len(own) for own in known], np.int64)
    own_rows = np.arange(len(places)) + np.repeat(np.cumsum(more), stops - starts)
    codes_of_rows = np.empty(len(places) + len(before), np.int64)
    others = np.ones(len(codes_of_rows), np.bool_)
    others[own_rows] = False
    codes_of_rows[own_rows], codes_of_rows[others] = places, before
    short = np.array([len(name) <= MAX_NAME for name in names], np.bool_)
    codes = np.where(codes_of_rows < 0, MISSING, UNUSABLE_LABEL)
    rows = np.flatnonzero(codes_of_rows >= 0)
    rows = rows[short[codes_of_rows[rows]]]
    owner = np.repeat(np.arange(models), stops - starts + more)[rows]
    cells, first, where = np.unique(
        owner * many + codes_of_rows[rows], return_index=True, return_inverse=True
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
    own_codes = codes[own_rows]
    block = CodedBlock(
        Coded(own_codes, np.zeros(0)), names, cells[kept] % many, ends, own_codes, {}
    )
    has_none = own_codes == UNUSABLE_LABEL
    has_none[has_none] = short[places[has_none]]
    changed = np.array([state.kept is not None for state in states], np.bool_)
    changed[np.repeat(np.arange(models), stops - starts)[has_none]] = True
    if not changed.any():
        return block
    return _with_turnovers(spec, states, block, places, starts, stops, np.flatnonzero(changed))


def _with_turnovers(
    spec: LearnerSpec,
    states: Sequence[Any],
    block: CodedBlock,
    places: IntArray,
    starts: IntArray,
    stops: IntArray,
    models: IntArray,
) -> CodedBlock:
    """Return a block where classes of some models change places; see `coded_each`."""
    table = {name: place for place, name in enumerate(block.names)}
    order = [*itertools.starmap(slice, itertools.pairwise(block.ends.tolist()))]
    own = [block.order[part] for part in order]
    codes, by_place = block.codes.copy(), block.labels.codes.copy()
    turnovers = {}
    for model in models.tolist():
        state, part = states[model], slice(starts[model], stops[model])
        codes_of_rows = [
            block.names[place] if place >= 0 else None for place in places[part].tolist()
        ]
        found = turnover_of(spec, state.classes, state.kept, _seen(state), codes_of_rows)
        by_place[part], codes[part] = found.places, found.codes
        own[model] = np.array(
            [table.setdefault(name, len(table)) for name in found.kept.names], np.int64
        )
        turnovers[model] = found
    ends = np.cumsum([0, *map(len, own)])
    labels = Coded(by_place, block.labels.targets)
    return CodedBlock(labels, list(table), np.concatenate(own), ends, codes, turnovers)
