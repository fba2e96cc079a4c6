"""Which classes a model keeps where it meets more than `max_classes`: the most frequent.

A learner has places for C = `max_classes` classes, and counts the labels of each. The first C
classes take them. Labels of further classes are held against predictions (as wrong) and counted,
not learned from. A class without a place takes the place of the rarest that has one, from the row
behind on, once it surely had

    n >= max(LEAST, TIMES·m)

labels, m those of the rarest. What the learner knew of that class is gone; all it knows of the
others stays. `TIMES` > 1 keeps two classes that are about as frequent from changing places all the
time, and bounds the names that a model ever keeps: with each change the sum of the logarithms of
the C counts rises by log TIMES, so that N labels change places at most C·log(N)/log(TIMES) times.

Classes without a place are counted as Space-Saving does: of at most K names each has a count, and
how much of it may be another name's; a name that is not among them takes the count of the least,
all of which may be another's. "Surely" is the count less that. So every name that has more than a
K-th of these labels is counted, in bounded memory, whatever the labels are.

A class that got a place has a code, which it keeps for life, with or without the place: outputs,
metrics and rows that wait for labels name classes by it. The row loops know places alone.

Reference: A. Metwally, D. Agrawal, A. El Abbadi, "Efficient computation of frequent and top-k
elements in data streams", ICDT 2005, section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kerneltrack.arrays import IntArray
from kerneltrack.errors import ConfigError
from kerneltrack.learners.common.spec import LearnerSpec
from kerneltrack.limits import MOST

MISSING, UNUSABLE_LABEL = -1, -2
"""Codes below 0: no label, and one that can be held against a class but not be learned."""
MAX_NAME = 200
"""Most characters of a class's name, so that the state stays bounded."""

LEAST, TIMES = 8, 1.2
"""Labels that a class has at least, and times those of the rarest, where it takes a place."""
LEAST_COUNTED = 64
"""Names without a place that are counted, at least; else as many as there are places."""
NAMES_A_PLACE = 256
"""Names that have or had a place, at most, for each place: more than 2^64 labels can bring."""


class KeptClasses(NamedTuple):
    """Classes of a model that met one that it had no place for.

    Attributes:
        names: All classes that have or had a place; a class's place here is its code for life.
        codes: Of each place the code of its class.
        others: Classes without a place: name, count, and how much of it may be another's.
    """

    names: tuple[str, ...]
    codes: tuple[int, ...]
    others: tuple[tuple[str, int, int], ...]

    @property
    def changed(self) -> bool:
        """Whether a class ever took the place of another."""
        return len(self.names) > len(self.codes)


class Turn(NamedTuple):
    """A class takes the place of another.

    Attributes:
        row: The first row that it has the place at.
        place: The place.
        name: The class.
        code: Its code for life.
        labels: Labels that it had, for sure.
    """

    row: int
    place: int
    name: str
    code: int
    labels: int


class Turnover(NamedTuple):
    """Labels of a model's rows, among which classes may change places.

    Attributes:
        places: (n,) place of each row's class as the row comes, or a number below 0.
        codes: (n,) its code for life, or a number below 0 without one.
        classes: The classes by place, before the first turn.
        turns: Changes, in their order.
        kept: What is known of the classes after the rows.
    """

    places: IntArray
    codes: IntArray
    classes: tuple[str, ...]
    turns: tuple[Turn, ...]
    kept: KeptClasses


def most_names(spec: LearnerSpec) -> int:
    """Return how many classes of a model may have had a place."""
    return NAMES_A_PLACE * spec.max_classes


def names_of(state: Any) -> tuple[str, ...]:
    """Return the classes that a learner's codes number: all that have or had a place."""
    kept: KeptClasses | None = state.kept
    found: tuple[str, ...] = state.classes if kept is None else kept.names
    return found


def turnover_of(
    spec: LearnerSpec,
    classes: tuple[str, ...],
    kept: KeptClasses | None,
    seen: Sequence[float],
    labels: Sequence[str | None],
) -> Turnover:
    """Give the classes of a model's labels places, one row after the other; see the module.

    Args:
        spec: Says how many places there are.
        classes: Those that have a place, by place.
        kept: What else is known of classes; None: none was without a place so far.
        seen: Labels of each class that has a place.
        labels: The rows', None where missing; all are learned from.

    Example:
        >>> from kerneltrack.learners import RidgeSpec
        >>> found = turnover_of(RidgeSpec(max_classes=1), ("a",), None, [2], ["a"] + ["b"] * 9)
        >>> found.turns
        (Turn(row=9, place=0, name='b', code=1, labels=8),)
        >>> found.places.tolist(), found.kept.names
        ([0, -2, -2, -2, -2, -2, -2, -2, -2, 0], ('a', 'b'))
    """
    ledger = _Ledger(spec, classes, kept, seen)
    places = np.empty(len(labels), np.int64)
    codes = np.empty(len(labels), np.int64)
    turns: list[Turn] = []
    for row, name in enumerate(labels):
        if name is None or len(name) > MAX_NAME:
            places[row] = codes[row] = MISSING if name is None else UNUSABLE_LABEL
            continue
        place = ledger.place_of(name)
        places[row] = UNUSABLE_LABEL if place is None else place
        codes[row] = ledger.codes.get(name, UNUSABLE_LABEL)
        turn = ledger.count(name, place, row)
        if turn is not None:
            turns.append(turn)
    return Turnover(places, codes, ledger.first, tuple(turns), ledger.kept())


class _Ledger:
    """Places and counts of a model's classes while its labels are gone through."""

    def __init__(
        self,
        spec: LearnerSpec,
        classes: tuple[str, ...],
        kept: KeptClasses | None,
        seen: Sequence[float],
    ) -> None:
        """Take up what is known; see `turnover_of`."""
        names = classes if kept is None else kept.names
        self.most, self.most_names = spec.max_classes, most_names(spec)
        self.counted = _most_counted(spec)
        self.codes = {name: code for code, name in enumerate(names)}
        self.places = {name: place for place, name in enumerate(classes)}
        self.seen = [int(count) for count in seen]
        self.others = {} if kept is None else {name: [n, of] for name, n, of in kept.others}
        self.first = classes

    def place_of(self, name: str) -> int | None:
        """Return the place of a class, a new one if one is free; None without."""
        place = self.places.get(name)
        if place is None and len(self.places) < self.most:
            place = self.places[name] = self.codes[name] = len(self.places)
            self.seen.append(0)
            self.first = (*self.first, name)
        return place

    def count(self, name: str, place: int | None, row: int) -> Turn | None:
        """Count a label; return the change of places that follows from it, if one does."""
        if place is not None:
            self.seen[place] += 1
            return None
        entry = self.others.get(name)
        if entry is None:
            entry = self.others[name] = self._room()
        entry[0] = min(entry[0] + 1, MOST)
        sure = entry[0] - entry[1]
        if sure < LEAST or (name not in self.codes and len(self.codes) >= self.most_names):
            return None
        place = min(range(len(self.seen)), key=self.seen.__getitem__)
        if sure < TIMES * self.seen[place]:
            return None
        return self._change(name, place, sure, row)

    def _room(self) -> list[int]:
        """Return the entry of a name that is not counted yet, the least one's if all are taken."""
        if len(self.others) < self.counted:
            return [0, 0]
        least = min(self.others, key=lambda name: self.others[name][0])
        count, _ = self.others.pop(least)
        return [count, count]

    def _change(self, name: str, place: int, count: int, row: int) -> Turn:
        gone = next(own for own, at in self.places.items() if at == place)
        del self.others[name], self.places[gone]
        self.others[gone] = [self.seen[place], 0]
        self.places[name], self.seen[place] = place, count
        code = self.codes.setdefault(name, len(self.codes))
        return Turn(row + 1, place, name, code, count)

    def kept(self) -> KeptClasses:
        """Return what is known now."""
        by_place = sorted(self.places, key=self.places.__getitem__)
        return KeptClasses(
            names=tuple(self.codes),
            codes=tuple(self.codes[name] for name in by_place),
            others=tuple((name, n, of) for name, (n, of) in self.others.items()),
        )


def _most_counted(spec: LearnerSpec) -> int:
    return max(LEAST_COUNTED, spec.max_classes)


def to_header(kept: KeptClasses) -> dict[str, Any]:
    """Return what is known of classes as plain values."""
    return {
        "names": list(kept.names),
        "codes": list(kept.codes),
        "others": [list(entry) for entry in kept.others],
    }


def from_header(spec: LearnerSpec, classes: tuple[str, ...], given: Any) -> KeptClasses | None:
    """Read what `to_header` gave; None: nothing.

    Raises:
        ConfigError: for what no model's state has.
    """
    if given is None:
        return None
    if not isinstance(given, dict) or set(given) != set(KeptClasses._fields):
        raise ConfigError("state.kept", given, f"with {', '.join(KeptClasses._fields)}")
    names, codes, others = (given[field] for field in KeptClasses._fields)
    _check_names("names", names, most_names(spec))
    full = spec.classifies and len(classes) == spec.max_classes
    if not full or not isinstance(codes, list) or len(codes) != len(classes):
        raise ConfigError("state.kept.codes", codes, f"one for each of {spec.max_classes} classes")
    for code, name in zip(codes, classes, strict=True):
        if type(code) is not int or not 0 <= code < len(names) or names[code] != name:
            raise ConfigError("state.kept.codes", code, f"the place of {name!r} in names")
    if not isinstance(others, list) or not all(map(_is_counted, others)):
        raise ConfigError("state.kept.others", others, "names with two counts, the second less")
    counted = [entry[0] for entry in others]
    _check_names("others", counted, _most_counted(spec))
    if set(counted) & set(classes):
        raise ConfigError("state.kept.others", counted, "names without a place")
    return KeptClasses(tuple(names), tuple(codes), tuple((n, c, of) for n, c, of in others))


def _check_names(field: str, names: Any, most: int) -> None:
    good = (
        isinstance(names, list)
        and len(names) <= most
        and all(type(name) is str and len(name) <= MAX_NAME for name in names)
        and len(set(names)) == len(names)
    )
    if not good:
        raise ConfigError(f"state.kept.{field}", names, f"at most {most} different names")


def _is_counted(entry: Any) -> bool:
    if not isinstance(entry, list) or len(entry) != 3:
        return False
    _, count, of = entry
    return type(count) is int and type(of) is int and 0 <= of <= count <= MOST
