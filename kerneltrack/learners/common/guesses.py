"""Simple guesses that run beside every learner, so that its figures have something beside them.

Of each labelled row, before its label is learned from:

- the commonest label so far, of several the one that came first (of targets: their mean so far);
- the last label;
- a recursive ridge on the plain row (on the features, where the learner is told of them alone),
  with its default settings (`RidgeSpec`: λ = .1, ρ = .999).

They are held against the rows that the learner's own predictions were held against. Where labels
come late they are told of each as its row is settled, and know more than the learner did when it
predicted the row: the commonest label and the ridge a little, the last label all that it says. So
summary and report leave that out then. The ridge is left out where a
row has more than `MOST_CHANNELS` channels, as it grows as their square.

Cost O(D² + CD) a labelled row, at D = 12 some .5 µs; state 8((D + 1)² + C(D + 3) + 19) bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.errors import ConfigError
from kerneltrack.learners.common.labels import (
    MAX_TARGET,
    MISSING,
    UNUSABLE_LABEL,
    Coded,
    coded_targets,
)
from kerneltrack.learners.common.spec import LearnerSpec
from kerneltrack.learners.linear.common import LinearState
from kerneltrack.learners.linear.ridge import Ridge
from kerneltrack.learners.linear.spec import RidgeSpec
from kerneltrack.limits import MOST, check_whole, copies_like, real, whole
from kerneltrack.native.binding import call

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

GUESSES = ("commonest", "last", "rows")
"""The guesses, in the order of the columns of what they made of rows."""
MOST_CHANNELS = 64
"""Most channels of rows that the ridge runs on."""

_RIDGE = "ridge."


class Guesses(NamedTuple):
    """What the guesses know.

    Attributes:
        ridge: State of the ridge, classes named by their codes in decimals; None where it is left
            out.
        seen: (C,) rows of each class, in the order of first appearance; (0,) in regression.
        order: (C,) the classes' codes.
        places: (2,) labels so far; the last one's place in `order` plus 1, 0 before it.
        values: (2,) mean of the targets, the last one.
    """

    ridge: LinearState | None
    seen: IntArray
    order: IntArray
    places: IntArray
    values: FloatArray


def _ridge_spec(spec: LearnerSpec) -> RidgeSpec:
    return RidgeSpec(task=spec.task, max_classes=spec.max_classes, bias=True)


def channels_of(ridge: LinearState) -> int:
    """Return how many channels of the plain rows a guess's ridge takes."""
    width: int = ridge.weights.shape[1]
    return width - 1


def begin(spec: LearnerSpec, channels: int) -> Guesses:
    """Return what guesses know before the first label of rows with so many channels."""
    ridge = Ridge().init(_ridge_spec(spec), channels) if channels <= MOST_CHANNELS else None
    none = np.zeros(0, np.int64)
    return Guesses(ridge, none, none, np.zeros(2, np.int64), np.zeros(2))


def guess(
    spec: LearnerSpec, state: Guesses | None, inputs: FloatArray, labels: npt.NDArray[Any]
) -> tuple[Guesses | None, FloatArray]:
    """Let the guesses guess rows' labels, in order, and learn from each after it.

    Args:
        spec: The learner's.
        state: Not written to; None: nothing is guessed.
        inputs: (n, w) what the learner is told; the first columns are the plain rows.
        labels: (n,) codes of classes, `MISSING` without one, `UNUSABLE_LABEL` of a class that has
            no room; in regression targets, NaN without one.

    Returns:
        The new state, and (n, 3) for each guess whether it was right (1 or 0), or its squared
        error; NaN where there is no ridge, 0 in rows without a label.
    """
    if state is None:
        return None, np.full((len(inputs), len(GUESSES)), np.nan)
    rows = inputs if state.ridge is None else inputs[:, : channels_of(state.ridge)]
    if spec.classifies:
        return _guess_classes(spec, state, rows, labels)
    marks = np.zeros((len(rows), len(GUESSES)))
    known = np.abs(labels) <= MAX_TARGET
    targets = np.where(known, labels, 0.0)
    after = state._replace(places=state.places.copy(), values=state.values.copy())
    told = after.seen, after.places, after.values
    call("guess_targets", told, np.where(known, 0, MISSING), targets, marks)
    if after.ridge is None:
        marks[:, -1] = np.nan
        return after, marks
    ridge, said = Ridge().update(_ridge_spec(spec), after.ridge, rows, labels)
    if said.error is not None:
        marks[:, -1] = np.where(said.scored, said.error, 0.0) ** 2
    return after._replace(ridge=ridge), marks


def _guess_classes(
    spec: LearnerSpec, state: Guesses, rows: FloatArray, codes: IntArray
) -> tuple[Guesses, FloatArray]:
    marks = np.zeros((len(rows), len(GUESSES)))
    fresh, first = np.unique(codes[codes >= 0], return_index=True)
    fresh = fresh[np.argsort(first, kind="stable")]
    fresh = fresh[~np.isin(fresh, state.order)]
    order = np.concatenate([state.order, fresh])
    place = np.full(int(max(order, default=0)) + 1, MISSING)
    place[order] = np.arange(len(order))
    own = np.where(codes >= 0, place[np.maximum(codes, 0)] if len(order) else MISSING, codes)
    after = state._replace(
        seen=np.concatenate([state.seen, np.zeros(len(fresh), np.int64)]),
        order=order,
        places=state.places.copy(),
        values=state.values.copy(),
    )
    call("guess_classes", (after.seen, after.places, after.values), own, marks)
    if after.ridge is None:
        marks[:, -1] = np.nan
        return after, marks
    names: dict[int, str | None] = {MISSING: None, UNUSABLE_LABEL: None}
    names |= {place: str(code) for place, code in enumerate(order.tolist())}
    told = [names[place] for place in own.tolist()]
    ridge, said = Ridge().update(_ridge_spec(spec), after.ridge, rows, told)
    if said.correct is not None:
        marks[:, -1] = said.correct
    return after._replace(ridge=ridge), marks


def guess_each(
    spec: LearnerSpec,
    states: Sequence[Guesses],
    inputs: FloatArray,
    labels: npt.NDArray[Any],
    classes: IntArray,
    starts: IntArray,
    stops: IntArray,
) -> tuple[list[Guesses], FloatArray]:
    """Let the guesses of many models guess their rows' labels; see `guess`.

    Args:
        spec: The learner's.
        states: Of each model, all of the same channels; classes are in the order of their codes
            (`in_order`). Not written to.
        inputs: (n, w) what the learners are told, all finite; a model's rows follow one another.
        labels: (n,) as of `guess`, with the codes of classes in the order of first appearance.
        classes: (m,) how many each model knows after its rows.
        starts: (m,) place of each model's first row.
        stops: (m,) place after its last.

    Returns:
        What each model's guesses know, and the (n, 3) marks.
    """
    marks = np.zeros((len(inputs), len(GUESSES)))
    if spec.classifies:
        told = Coded(np.where(labels < 0, MISSING, labels), np.zeros(0))
    else:
        told = coded_targets(labels, np.ones(len(labels), np.bool_))
    found = []
    spans = zip(starts.tolist(), stops.tolist(), strict=True)
    for state, (start, stop), many in zip(states, spans, classes.tolist(), strict=True):
        seen = np.zeros(many, np.int64)
        seen[: len(state.seen)] = state.seen
        own = Guesses(state.ridge, seen, np.arange(many), state.places.copy(), state.values.copy())
        known, part = (own.seen, own.places, own.values), marks[start:stop]
        if spec.classifies:
            call("guess_classes", known, labels[start:stop], part)
        else:
            call("guess_targets", known, told.codes[start:stop], told.targets[start:stop], part)
        found.append(own)
    ridges = [state.ridge for state in states if state.ridge is not None]
    if not ridges:
        marks[:, -1] = np.nan
        return found, marks
    names = [str(code) for code in range(int(classes.max(initial=0)))]
    after, said = Ridge().update_each(
        _ridge_spec(spec),
        ridges,
        inputs[:, : channels_of(ridges[0])],
        told,
        [tuple(names[:many]) for many in classes.tolist()],
        starts,
        stops,
    )
    if said.correct is not None:
        marks[:, -1] = said.correct
    elif said.error is not None:
        marks[:, -1] = np.where(said.scored, said.error, 0.0) ** 2
    return [own._replace(ridge=ridge) for own, ridge in zip(found, after, strict=True)], marks


def in_order(state: Guesses, channels: int, classes: int) -> bool:
    """Check that guesses are of so many channels, and met so many classes in order of their codes.

    That they have done so is the rule; it is otherwise where a learner was handed over that knew
    classes before.
    """
    ridge = state.ridge
    if (channels if channels <= MOST_CHANNELS else None) != (ridge and channels_of(ridge)):
        return False
    return met_in_order(state, classes)


def met_in_order(state: Guesses, classes: int) -> bool:
    """Check that guesses met so many classes in the order of their codes; see `in_order`."""
    codes = range(classes)
    met = state.ridge is None or state.ridge.classes == tuple(map(str, codes))
    return met and state.order.tolist() == [*codes]


def arrays_of(state: Guesses) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays by name, for the codec."""
    named: dict[str, npt.NDArray[Any]] = {
        name: getattr(state, name) for name in ("seen", "order", "places", "values")
    }
    if state.ridge is not None:
        named |= {_RIDGE + name: array for name, array in Ridge().arrays(state.ridge).items()}
    return named


def from_arrays(
    spec: LearnerSpec, arrays: dict[str, npt.NDArray[Any]], most: int = MOST
) -> Guesses:
    """Make guesses of what `arrays_of` gave, whose counts are `most` at most.

    Raises:
        KeyError: if an array is missing.
        ConfigError: for one that is not as it should be.
    """
    plain = {name: array for name, array in arrays.items() if not name.startswith(_RIDGE)}
    many = len(plain["order"])
    likes = {"seen": whole(many), "order": whole(many), "places": whole(2), "values": real(2)}
    found = copies_like("guesses", plain, likes)
    order, places = found["order"], found["places"]
    check_whole("guesses.seen", found["seen"], most=most)
    check_whole("guesses.order", order)
    check_whole("guesses.places", places, most=most)
    if len(set(order.tolist())) != many or (order >= spec.max_classes).any() or places[1] > many:
        raise ConfigError("guesses.order", order.tolist(), "different classes that are known")
    ridge = None
    if len(plain) < len(arrays):
        parts = {
            name.removeprefix(_RIDGE): array
            for name, array in arrays.items()
            if name.startswith(_RIDGE)
        }
        classes = [str(code) for code in order.tolist()] if spec.classifies else []
        ridge = Ridge().from_arrays(_ridge_spec(spec), parts, {"classes": classes})
        check_whole("guesses.ridge.counts", ridge.counts, most=most)
    return Guesses(ridge=ridge, **found)
