"""What all learners share around their row loops: calls, labels, outputs, probabilities, scores.

**Probabilities.** The decision values s of a classifier with C known classes become

    p = (1 - .001)·softmax(βs) + .001/C,

whatever its loss: β, one number a model, takes a Newton step on -log softmax(βs)_y at every
labelled row, before the row is learned from,

    V ← .998·V + Var_p(s),   β ← β + (s_y - E_p[s])/V,

by at most half of itself, from .1 to 50. This is temperature scaling, Platt's with one parameter
and several classes, followed online: predictions do not change, and a learner that is too sure of
itself is told so by its own last rows (V reaches back some 500). The learner `auto` does it for
each of its experts and mixes their probabilities.

**Targets.** A regressor learns z = (y - μ)/σ and predicts μ + σf(x) (`scale_targets`). μ and σ² are
mean and variance of the targets learned from up to the row's own, by Welford's update; a target
farther from μ than 10σ counts as if it were that far, so that one wild value costs no digits. When
they move, weights are written in the new units, and functions with a bias stay what they were; no
ridge holds the bias back. So targets ay + b are predicted as aŷ + b, but for rounding, of the order
of n·ε·|b|/(aσ). Without a bias (`bias=False`) targets are scaled only, by their root mean square.

**Predictions** are of the likeliest class, or of the class of least expected cost (`costs`).

**Sets of classes** are the same: with p of the above, the set is of the classes c of
-log p_c <= q, where log q follows -log p_y of the labels, as below. A class that was not known
before counts as odder than any that is, with p = .001/(C + 1); that much is taken from the only
class where one is known. A set is empty where no class is likely enough: a learner that is right
more often than `intervals` asks for has such rows, else more than the stated share were held.

**Intervals.** [ŷ - q, ŷ + q], in which a share of `intervals` = 1 - α of the targets is to lie, for
every learner: log q follows the learner's own errors, each made before its row was learned, from
q = |y - ŷ| at the first one. With m = [|y - ŷ| > q],

    log q ← log q + η_t·k·(m - α + v),   v ← v + .01(m - α), but |v| <= ½min(α, 1 - α),
    η_t = max(min(.2, .1r), 2min(1, 1/r)/√t),   r = √(.1/α).

k is 1, but after more misses, or more hits, in a row than have a chance of 1e-5 each further one
counts once more, so that a change of size is followed within some dozens of rows. Without v, the
share of misses over T rows would be α but for the range of log q over ηT, whatever the errors do; a
learner that improves is missed by that, as q is always behind: the odds of classes fall by a factor
of a thousand within some hundred rows, and one or two labels in a hundred were held too many. v
pays them back. It stays where q is 0, as no smaller interval would have missed. Where labels come
late, an error is that of the prediction made anew as its label comes.

References: B. P. Welford, "Note on a method for calculating corrected sums of squares and
products", Technometrics 4, 1962; J. Platt, "Probabilistic outputs for support vector machines",
Advances in Large Margin Classifiers, 1999; C. Guo, G. Pleiss, Y. Sun, K. Q. Weinberger, "On
calibration of modern neural networks", ICML 2017, section 4.2; I. Gibbs, E. Candès, "Adaptive
conformal inference under distribution shift", NeurIPS 2021; A. Angelopoulos, E. Candès, R.
Tibshirani, "Conformal PID control for time series prediction", NeurIPS 2023 (quantile tracking;
here of the logarithm, so that steps need no scale, and v is its error integration, cut off);
A. Angelopoulos, R. Foygel Barber, S. Bates, "Online conformal prediction with decaying step sizes",
ICML 2024.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import BoolArray, FloatArray, IntArray
from kerneltrack.errors import ConfigError
from kerneltrack.learners.common.base import (
    ABSOLUTE,
    BETA,
    CORRECT,
    CURVATURE,
    ERROR_SUMS,
    LEARNED,
    MAX_BETA,
    MIN_BETA,
    SCORED,
    SQUARED,
    SUMS,
    TARGET_MEAN,
    TARGET_VARIANCE,
    UNUSABLE,
    Labels,
    Predictions,
)
from kerneltrack.learners.common.costs import table_of
from kerneltrack.learners.common.kept_classes import (
    MAX_NAME,
    Turn,
    from_header,
    names_of,
    to_header,
)
from kerneltrack.learners.common.label_sets import moved, no_sets
from kerneltrack.learners.common.labels import (
    MAX_TARGET,
    Coded,
    CodedBlock,
    Given,
    coded,
    compared,
    no_labels,
)
from kerneltrack.learners.common.spec import WEIGHTS, LearnerSpec
from kerneltrack.limits import MOST, ArrayForm, check_counts, copies_like
from kerneltrack.native.binding import call
from kerneltrack.native.layouts import BoolVector, FloatMatrix, FloatVector, IntMatrix, IntVector

_S = TypeVar("_S", bound=LearnerSpec)
_T = TypeVar("_T", bound=Any)

MAX_FEATURE = 1e100
"""Largest |feature|: its square is still finite, and so are the products of an update."""
MAX_WIDTH = 20_000
MOST_WEIGHT = 1e9
"""Most that a row may count."""
MOST_LOG = 345.0
"""Largest logarithm of the bound of errors; as in native/learning.c."""
MOST_OWED = 0.25
"""Largest share that is owed where errors and the others are as many; see native/learning.c."""


AS_THEY_ARE, SCALED, CENTRED = range(3)
"""What targets are learned as; as in native/learning.h."""


class Mode(NamedTuple):
    """What a call does with each row.

    Attributes:
        predict: Fill the predictions and score them.
        learn: Learn from the labels.
        regression: Targets instead of classes.
        counted: Labels are counted by class; not those of rows that were when they came.
        known: Classes known at the first row; in regression 1 once a target was learned from.
        units: What targets are learned as: `AS_THEY_ARE`, `SCALED` or `CENTRED`.
        coverage: Share of labels that intervals or sets are to hold; 0: there are none.
        balanced: How classes are balanced where one is predicted, a place in `WEIGHTS`.
        costs: What errors cost, `costs.table_of` of all classes known after the rows.
    """

    predict: bool
    learn: bool
    regression: bool
    counted: bool
    known: int
    units: int
    coverage: float
    balanced: int
    costs: FloatMatrix


class Predicted(NamedTuple):
    """Arrays that a call fills, one row each, as `Predictions` documents them.

    Those of the other task have no rows.
    """

    valid: BoolVector
    code: IntVector
    score: FloatVector
    margin: FloatVector
    value: FloatVector
    scored: BoolVector
    correct: BoolVector
    error: FloatVector
    lower: FloatVector
    upper: FloatVector
    members: IntMatrix

    def part(self, start: int, stop: int) -> Predicted:
        """Return those of rows start..stop; what is put into them is put here."""
        columns: Any = self
        return Predicted(*[column[start:stop] for column in columns])


class PrequentialLearner(abc.ABC, Generic[_S, _T]):
    """A learner of spec S and state T; a subclass brings the state and the compiled row loop."""

    name: str
    spec_type: type[LearnerSpec]
    state_type: Any
    weighs = False
    """Whether rows may count more or less than once."""

    @abc.abstractmethod
    def init(self, spec: _S, width: int) -> _T:
        """Make the state of a learner that has seen no label; see `Learner.init`."""

    def begin(self, spec: _S, width: int, channels: int) -> _T:
        """Make the state for inputs of two kinds; see `Learner.begin`. They are alike here."""
        return self.init(spec, width)

    @abc.abstractmethod
    def width(self, spec: _S, state: _T) -> int:
        """Return the number of features that a state was made for."""

    @abc.abstractmethod
    def values(self, spec: _S, state: _T, features: npt.ArrayLike) -> FloatArray:
        """Return the decision values of rows; see `Learner.values`."""

    def probabilities(self, spec: _S, state: _T, features: npt.ArrayLike) -> FloatArray:
        """Return the classes' probabilities, as the row loop computes them; see the module."""
        values = self.values(spec, state, features)
        call("chances", state.sums, values)
        return values

    def _checked_weights(self, weights: FloatArray, rows: BoolArray) -> FloatArray:
        """Return how much each row counts."""
        if not self.weighs:
            raise ConfigError("weights", "weights of rows", f"left out for {self.name}")
        if weights.shape != rows.shape or not ((weights >= 0.0) & (weights <= MOST_WEIGHT)).all():
            allowed = f"one from 0 to {MOST_WEIGHT:g} for each of {len(rows)} rows"
            raise ConfigError("weights", weights.shape, allowed)
        return weights

    @abc.abstractmethod
    def roomy(self, spec: _S, state: _T, classes: tuple[str, ...], rows: int) -> _T:
        """Return a copy of a state with room for the classes and the rows of a call.

        A row's arithmetic does not see the room.
        """

    @abc.abstractmethod
    def vacated(self, spec: _S, state: _T, place: int) -> _T:
        """Return a state of a classifier that knows nothing of the class in a place.

        Args:
            spec: The spec.
            state: Not written to.
            place: The class's. Its name and its count of labels are for the caller to change.
        """

    def room(self, spec: _S, state: _T, classes: tuple[str, ...], rows: int) -> _T:
        """Return `roomy` with a count of labels for each class."""
        found = self.roomy(spec, state, classes, rows)
        more = len(classes) - len(state.classes)
        if spec.classifies and more:
            end = SUMS + len(state.classes)
            found = found._replace(sums=np.insert(state.sums, [end] * more, 0.0))
        whole: _T = found._replace(kept=state.kept)
        return whole

    @abc.abstractmethod
    def process(
        self, spec: _S, mode: Mode, state: _T, features: FloatArray, labels: Coded, out: Predicted
    ) -> _T:
        """Run rows through the compiled loop.

        Args:
            spec: The spec.
            mode: What is done with each row. Only where it says to learn the state is written to,
                and then it is one that `roomy` made.
            state: The state.
            features: Shape (n, width).
            labels: The rows' labels.
            out: Filled in.

        Returns:
            The state without the room that was not needed.
        """

    def update(
        self,
        spec: _S,
        state: _T,
        features: npt.ArrayLike,
        labels: Labels,
        weights: FloatArray | None = None,
    ) -> tuple[_T, Predictions]:
        """Predict, score and learn rows in order; see `Learner.update`."""
        return self._learn(spec, state, features, labels, True, weights)

    def update_each(
        self,
        spec: _S,
        states: Sequence[_T],
        features: npt.ArrayLike,
        block: CodedBlock,
        starts: IntArray,
        stops: IntArray,
    ) -> tuple[list[_T], Predictions]:
        """Let many models go through their rows; see `Learner.update_each`."""
        rows, valid = self.checked_rows(spec, states[0], features)
        out = empty_predictions(spec, valid, int(np.diff(block.ends).max(initial=0)))
        after = []
        spans = zip(states, starts.tolist(), stops.tolist(), strict=True)
        for model, (state, start, stop) in enumerate(spans):
            room_part, given = out.part(start, stop), block.given(model, start, stop)
            after.append(self._run(spec, state, rows[start:stop], given, room_part, True))
        return after, _predictions(spec, (), out)

    def learn(self, spec: _S, state: _T, features: npt.ArrayLike, labels: Labels) -> _T:
        """Learn rows in order without predicting them; see `Learner.learn`."""
        return self._learn(spec, state, features, labels, False)[0]

    def settled(self, spec: _S, state: _T) -> _T:
        """Return the state as if no more rows came; see `Learner.settled`. Nothing waits here."""
        return state

    def predict(self, spec: _S, state: _T, features: npt.ArrayLike) -> Predictions:
        """Predict rows with the state as it is; see `Learner.predict`."""
        rows, valid = self.checked_rows(spec, state, features)
        names = names_of(state)
        out = empty_predictions(spec, valid, len(names))
        mode = self.mode(spec, state, True, False)
        self.process(spec, mode, state, rows, no_labels(len(rows)), out)
        if state.kept is not None:
            _write_codes(out, state.kept.codes)
        return _predictions(spec, names, out)

    def score(
        self, spec: _S, state: _T, predictions: Predictions, labels: Labels
    ) -> tuple[_T, Predictions]:
        """Score predictions against labels that came late; see `Learner.score`."""
        numbers = compared(spec, names_of(state), labels, predictions.valid)
        empty = empty_predictions(spec, predictions.valid)
        out = empty._replace(
            code=empty.code if predictions.code is None else np.array(predictions.code, np.int64),
            value=empty.value if predictions.value is None else np.array(predictions.value, float),
        )
        sums, counts = state.sums.copy(), state.counts.copy()
        mode = self.mode(spec, state, True, False)
        call("mark_rows", mode, sums, counts, numbers, out)
        marked = dataclasses.replace(
            predictions,
            scored=out.scored,
            correct=out.correct if spec.classifies else None,
            error=None if spec.classifies else out.error,
        )
        return state._replace(sums=sums, counts=counts), marked

    def counters(self, state: _T) -> dict[str, int | float]:
        """Return running totals; see `Learner.counters`."""
        return {
            "scored": int(state.counts[SCORED]),
            "correct": int(state.counts[CORRECT]),
            "learned": int(state.counts[LEARNED]),
            "unusable": int(state.counts[UNUSABLE]),
            "squared": float(state.sums[SQUARED]),
            "absolute": float(state.sums[ABSOLUTE]),
        }

    def arrays(self, state: _T) -> dict[str, npt.NDArray[Any]]:
        """Return the state's arrays by name."""
        named: dict[str, npt.NDArray[Any]] = state._asdict()
        del named["classes"], named["kept"]
        return named

    def numbers_of(self, state: _T) -> tuple[npt.NDArray[Any], ...]:
        """Return the state's arrays as its loop in C takes them, in their order."""
        return tuple(self.arrays(state).values())

    def header(self, state: _T) -> dict[str, Any]:
        """Return the classes."""
        found = {"classes": list(state.classes)}
        return found if state.kept is None else {**found, "kept": to_header(state.kept)}

    def from_arrays(
        self, spec: _S, arrays: dict[str, npt.NDArray[Any]], header: dict[str, Any]
    ) -> _T:
        """Make a state of what `arrays` and `header` gave; see `Learner.from_arrays`."""
        classes = _checked_classes(spec, header.get("classes"))
        kept = from_header(spec, classes, header.get("kept"))
        names = [name for name in self.state_type._fields if name not in ("classes", "kept")]
        if set(arrays) != set(names):
            raise ConfigError("state", sorted(set(arrays) ^ set(names)), ", ".join(names))
        layout = self.layout(spec, arrays, len(classes) if spec.classifies else 1)
        found = copies_like("state", arrays, layout)
        state = self.state_type(classes=classes, kept=kept, **found)
        check_counts("state.counts", state.counts)
        if not spec.classifies:
            _check_units(*state.sums[[TARGET_MEAN, TARGET_VARIANCE]].tolist())
        else:
            _check_seen(state.sums[SUMS : SUMS + len(classes)])
        if spec.intervals is not None:
            _check_errors(*state.sums[-ERROR_SUMS:].tolist())
        beta, curvature = state.sums[[BETA, CURVATURE]].tolist()
        if not (MIN_BETA <= beta <= MAX_BETA and 0.0 < curvature < math.inf):
            raise ConfigError(
                "state.sums", [beta, curvature], f"β from {MIN_BETA} to {MAX_BETA}, curvature > 0"
            )
        return self.sound(spec, state)

    @abc.abstractmethod
    def layout(
        self, spec: _S, arrays: dict[str, npt.NDArray[Any]], classes: int
    ) -> dict[str, ArrayForm]:
        """Return what a state's arrays should be like, as far as these say its sizes.

        Raises:
            ConfigError: for sizes that no state has.
        """

    def sound(self, spec: _S, state: _T) -> _T:
        """Return a state that was read, after a look at its values."""
        return state

    def units(self, spec: _S) -> int:
        """Return what targets are learned as."""
        if spec.classifies or not spec.scale_targets:
            return AS_THEY_ARE
        return CENTRED if self.has_constant(spec) else SCALED

    def has_constant(self, spec: _S) -> bool:
        """Check whether the learner's functions may be moved by a constant."""
        return True

    def mode(
        self,
        spec: _S,
        state: _T,
        predict: bool,
        learn: bool,
        classes: tuple[str, ...] | None = None,
    ) -> Mode:
        """Return what a call does with each row; `classes`: after the rows, the state's if None."""
        known = known_classes(spec, state)
        coverage = float(spec.intervals or 0.0)
        balanced = WEIGHTS.index(spec.class_weight)
        costs = table_of(spec.costs, state.classes if classes is None else classes)
        units = self.units(spec)
        return Mode(
            predict, learn, not spec.classifies, True, known, units, coverage, balanced, costs
        )

    def in_target_units(self, spec: _S, state: _T, values: FloatArray) -> FloatArray:
        """Return values of a loop, (n, k), in the units of targets; those of classes as is."""
        if not spec.classifies:
            call("targets", self.mode(spec, state, False, False), state.sums, values)
        return values

    def checked_rows(
        self, spec: _S, state: _T, features: npt.ArrayLike
    ) -> tuple[FloatArray, BoolArray]:
        """Return the features as a matrix, and which rows are fit to compute with."""
        rows = np.ascontiguousarray(features, dtype=np.float64)
        width = self.width(spec, state)
        if rows.ndim != 2 or rows.shape[1] != width:
            raise ConfigError("features", rows.shape, f"of shape (n, {width})")
        valid: BoolArray = np.all(np.abs(rows) <= MAX_FEATURE, axis=1)
        return rows, valid

    def _learn(
        self,
        spec: _S,
        state: _T,
        features: npt.ArrayLike,
        labels: Labels,
        predict: bool,
        weights: FloatArray | None = None,
    ) -> tuple[_T, Predictions]:
        rows, valid = self.checked_rows(spec, state, features)
        known = valid if weights is None else valid & (self._checked_weights(weights, valid) > 0.0)
        given = coded(spec, state, labels, known)
        if weights is not None:
            numbers = given.labels._replace(weights=np.where(known, weights, 1.0))
            given = given._replace(labels=numbers)
        out = empty_predictions(spec, valid, len(given.names))
        after = self._run(spec, state, rows, given, out, predict)
        return after, _predictions(spec, given.names, out)

    def _run(
        self, spec: _S, state: _T, rows: FloatArray, given: Given, out: Predicted, predict: bool
    ) -> _T:
        """Run a model's rows through the loop, stretch by stretch between changes of classes."""
        turnover = given.turnover
        if turnover is None:
            return self._stretch(spec, state, given.classes, rows, given.labels, out, predict)
        codes = range(spec.max_classes) if state.kept is None else state.kept.codes
        classes, codes = list(turnover.classes), list(codes)
        starts = [0, *(turn.row for turn in turnover.turns)]
        stops = [*starts[1:], len(rows)]
        for turn, start, stop in zip((None, *turnover.turns), starts, stops, strict=True):
            if turn is not None:
                classes[turn.place], codes[turn.place] = turn.name, turn.code
                state = self._turned(spec, state, turn, tuple(classes))
                state = state._replace(kept=turnover.kept)
            if start < stop:
                labels, room_part = given.labels.part(start, stop), out.part(start, stop)
                own = tuple(classes), rows[start:stop], labels, room_part, predict
                state = self._stretch(spec, state, *own)
                _write_codes(room_part, codes)
        after: _T = state._replace(kept=turnover.kept)
        return after

    def _stretch(
        self,
        spec: _S,
        state: _T,
        classes: tuple[str, ...],
        rows: FloatArray,
        labels: Coded,
        out: Predicted,
        predict: bool,
    ) -> _T:
        """Run rows through the loop; `classes`: those that have a place after them."""
        mode = self.mode(spec, state, predict, True, classes)
        room = self.room(spec, state, classes, int(np.count_nonzero(labels.codes >= 0)))
        return self.process(spec, mode, room, rows, labels, out)

    def _turned(self, spec: _S, state: _T, turn: Turn, classes: tuple[str, ...]) -> _T:
        """Return a state in which a class has taken the place of another."""
        state = self.vacated(spec, state, turn.place)
        sums = state.sums.copy()
        sums[SUMS + turn.place] = turn.labels
        found: _T = state._replace(sums=sums, classes=classes)
        return found


def _write_codes(out: Predicted, codes: Sequence[int]) -> None:
    """Write classes by their codes for life, in place of their places."""
    out.code[:] = np.array([*codes, -1], np.int64)[out.code]
    if len(out.members):
        sets = moved(out.members, np.array(codes, np.int64))
        out.members[:] = 0
        out.members[:, : sets.shape[1]] = sets


def many_sums(spec: LearnerSpec, classes: int) -> int:
    """Return how many entries the sums of a state with so many classes have."""
    own = SUMS + classes if spec.classifies else TARGET_VARIANCE + 1
    return own if spec.intervals is None else own + ERROR_SUMS


def first_sums(spec: LearnerSpec, beta: float = 4.0) -> FloatArray:
    """Return the sums of a state that has seen no label.

    Args:
        spec: Says the task.
        beta: The first β: 1 for values of the logistic loss, some 4 for those that are to be about
            1 for the row's class, and 0 for the others.
    """
    sums = np.zeros(many_sums(spec, 0))
    sums[[BETA, CURVATURE]] = beta, 1.0
    return sums


def known_classes(spec: LearnerSpec, state: Any) -> int:
    """Return how many classes have decision values; in regression 1 once a row was learned."""
    return len(state.classes) if spec.classifies else min(int(state.counts[LEARNED]), 1)


def empty_predictions(spec: LearnerSpec, valid: BoolArray, known: int = 0) -> Predicted:
    """Return outputs for as many rows as `valid` has, as before the first label.

    Args:
        spec: The spec.
        valid: (n,) as `Predictions` has it.
        known: Classes that sets may hold.
    """
    count = len(valid)
    classes, targets = (count, 0) if spec.classifies else (0, count)
    bounds = 0 if spec.intervals is None else targets
    sets = 0 if spec.intervals is None else classes
    return Predicted(
        valid=np.ascontiguousarray(valid),
        code=np.full(classes, -1, dtype=np.int64),
        score=np.zeros(classes),
        margin=np.zeros(classes),
        value=np.full(targets, np.nan),
        scored=np.zeros(count, dtype=np.bool_),
        correct=np.zeros(classes, dtype=np.bool_),
        error=np.full(targets, np.nan),
        lower=np.full(bounds, np.nan),
        upper=np.full(bounds, np.nan),
        members=no_sets(sets, known),
    )


def _predictions(spec: LearnerSpec, classes: tuple[str, ...], out: Predicted) -> Predictions:
    sort = spec.classifies
    return Predictions(
        valid=out.valid,
        classes=classes,
        code=out.code if sort else None,
        score=out.score if sort else None,
        margin=out.margin if sort else None,
        value=None if sort else out.value,
        scored=out.scored,
        correct=out.correct if sort else None,
        error=None if sort else out.error,
        lower=None if sort or spec.intervals is None else out.lower,
        upper=None if sort or spec.intervals is None else out.upper,
        members=out.members if sort and spec.intervals is not None else None,
    )


def _check_units(mean: float, variance: float) -> None:
    """Check mean and variance of targets."""
    largest = 2.0 * MAX_TARGET
    if not (abs(mean) <= largest and 0.0 <= variance <= largest * largest):
        allowed = f"a mean up to {largest:g} and a variance from 0 to its square"
        raise ConfigError("state.sums", [mean, variance], allowed)


def _check_seen(seen: FloatArray) -> None:
    """Check how many labels classes had."""
    if not ((seen >= 0.0) & (seen <= MOST) & (seen == np.floor(seen))).all():
        raise ConfigError("state.sums", seen.tolist(), f"whole numbers from 0 to {MOST}")


def _check_errors(bound: float, many: float, run: float, owed: float) -> None:
    """Check what is known of errors."""
    if not (abs(bound) <= MOST_LOG and 0.0 <= many <= MOST and abs(run) <= many):
        raise ConfigError("state.sums", [bound, many, run], "a bound, errors, and a run of them")
    if not abs(owed) <= MOST_OWED:
        raise ConfigError(
            "state.sums", owed, f"a share from -{MOST_OWED} to {MOST_OWED} that is owed"
        )


def _checked_classes(spec: LearnerSpec, names: Any) -> tuple[str, ...]:
    most = spec.max_classes if spec.classifies else 0
    good = (
        isinstance(names, list)
        and all(isinstance(name, str) and len(name) <= MAX_NAME for name in names)
        and len(set(names)) == len(names) <= most
    )
    if not good:
        raise ConfigError("state.classes", names, f"a list of at most {most} different names")
    return tuple(names)
