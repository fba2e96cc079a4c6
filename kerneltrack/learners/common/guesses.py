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

Cost O(D² + CD) a labelled row, at D = 12 some .5 µs; state 8((D + 1)² + C(D + 4) + 19) bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.errors import ConfigError
from kerneltrack.learners.common.kept_classes import MISSING, most_names
from kerneltrack.learners.common.labels import Coded, CodedBlock, coded_targets
from kerneltrack.learners.common.spec import MAX_CLASSES, LearnerSpec
from kerneltrack.learners.linear.common import LinearState
from kerneltrack.learners.linear.ridge import Ridge
from kerneltrack.learners.linear.spec import RidgeSpec
from kerneltrack.limits import MOST, check_whole, copies_like, real, whole
from kerneltrack.native.binding import call

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
    most = min(most_names(spec), MAX_CLASSES)
    return RidgeSpec(task=spec.task, max_classes=most, bias=True)


def channels_of(ridge: LinearState) -> int:
    """Return how many channels of the plain rows a guess's ridge takes."""
    width: int = ridge.weights.shape[1]
    return width - 1


def begin(spec: LearnerSpec, channels: int) -> Guesses:
    """Return what guesses know before the first label of rows with so many channels."""
    ridge = Ridge().init(_ridge_spec(spec), channels) if channels <= MOST_CHANNELS else None
    none = np.zeros(0, np.int64)
    return Guesses(ridge, none, none, np.zeros(2, np.int64), np.zeros(2))


def guess_each(
    spec: LearnerSpec,
    states: Sequence[Guesses | None],
    inputs: FloatArray,
    labels: npt.NDArray[Any],
    starts: IntArray,
    stops: IntArray,
) -> tuple[list[Guesses | None], FloatArray]:
    """Let the guesses of m models guess rows' labels, in order, and learn from each after it.

    Args:
        spec: The learner's.
        states: Of each model, all of one `form`. Not written to; None: nothing is guessed.
        inputs: (n, w) what the learners are told, all finite; the first columns are the plain rows.
            A model's rows follow one another.
        labels: (n,) codes of classes, `MISSING` without one, `UNUSABLE_LABEL` of a class that has
            no room; in regression targets, NaN without one.
        starts: (m,) place of each model's first row.
        stops: (m,) place after its last.

    Returns:
        What each model's guesses know, and (n, 3) for each guess whether it was right (1 or 0), or
        its squared error; NaN where there is no ridge, 0 in rows without a label.
    """
    marks = np.zeros((len(inputs), len(GUESSES)))
    coded = coded_targets(labels, np.ones(len(labels), np.bool_))
    if spec.classifies:
        coded = Coded(np.full(len(labels), MISSING), np.zeros(0))
    found = []
    for state, start, stop in zip(states, starts.tolist(), stops.tolist(), strict=True):
        if state is None:
            return [*states], np.full_like(marks, np.nan)
        part, order = slice(start, stop), state.order
        if spec.classifies:
            order, coded.codes[part] = _places(order, labels[part])
        seen = np.concatenate([state.seen, np.zeros(len(order) - len(state.seen), np.int64)])
        own = Guesses(state.ridge, seen, order, state.places.copy(), state.values.copy())
        known = own.seen, own.places, own.values
        if spec.classifies:
            call("guess_classes", known, coded.codes[part], marks[part])
        else:
            call("guess_targets", known, coded.codes[part], coded.targets[part], marks[part])
        found.append(own)
    ridges = [state.ridge for state in found if state.ridge is not None]
    if not ridges:
        marks[:, -1] = np.nan
        return [*found], marks
    ridge_spec = _ridge_spec(spec)
    if spec.classifies:
        within = coded.codes < ridge_spec.max_classes
        coded = coded._replace(codes=np.maximum(np.where(within, coded.codes, MISSING), MISSING))
    block = _ridge_block(ridge_spec, coded, [state.order for state in found])
    rows = inputs[:, : channels_of(ridges[0])]
    after, predictions = Ridge().update_each(ridge_spec, ridges, rows, block, starts, stops)
    if predictions.correct is not None:
        marks[:, -1] = predictions.correct
    elif predictions.error is not None:
        marks[:, -1] = np.where(predictions.scored, predictions.error, 0.0) ** 2
    return [own._replace(ridge=ridge) for own, ridge in zip(found, after, strict=True)], marks


def _ridge_block(spec: RidgeSpec, coded: Coded, orders: Sequence[IntArray]) -> CodedBlock:
    """Return labels as the ridges take them; classes are named by their codes."""
    kept = [order[: spec.max_classes] for order in orders]
    whole = np.concatenate(kept)
    names = [str(code) for code in range(int(whole.max(initial=-1)) + 1)]
    ends = np.cumsum([0, *map(len, kept)])
    return CodedBlock(coded, names, whole, ends, coded.codes, {})


def _places(order: IntArray, codes: IntArray) -> tuple[IntArray, IntArray]:
    """Return classes in the order in which guesses met them, and codes as places among them.

    Args:
        order: (C,) codes of those that were met before.
        codes: (n,) of rows' labels; those below 0 stay as they are.
    """
    if codes.max(initial=-1) < len(order) and (order == np.arange(len(order))).all():
        return order, codes
    fresh, first = np.unique(codes[codes >= 0], return_index=True)
    fresh = fresh[np.argsort(first, kind="stable")]
    order = np.concatenate([order, fresh[~np.isin(fresh, order)]])
    place = np.full(int(max(order, default=0)) + 1, MISSING)
    place[order] = np.arange(len(order))
    return order, np.where(codes >= 0, place[np.maximum(codes, 0)], codes)


def form(state: Guesses | None) -> tuple[bool, int | None]:
    """Return whether there are guesses, and of how many channels their ridge is, None without."""
    ridge = None if state is None else state.ridge
    return state is not None, None if ridge is None else channels_of(ridge)


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
    if len(set(order.tolist())) != many or (order >= most_names(spec)).any() or places[1] > many:
        raise ConfigError("guesses.order", order.tolist(), "different classes that are known")
    ridge = None
    if len(plain) < len(arrays):
        parts = {
            name.removeprefix(_RIDGE): array
            for name, array in arrays.items()
            if name.startswith(_RIDGE)
        }
        of_ridge = _ridge_spec(spec)
        known = order.tolist()[: of_ridge.max_classes] if spec.classifies else []
        classes = [str(code) for code in known]
        ridge = Ridge().from_arrays(of_ridge, parts, {"classes": classes})
        check_whole("guesses.ridge.counts", ridge.counts, most=most)
    return Guesses(ridge=ridge, **found)
