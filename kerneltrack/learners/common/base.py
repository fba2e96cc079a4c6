"""The protocol that all learners share: specs, state, predictions.

A learner is a frozen spec and an explicit state. It runs prequentially: each row is predicted,
then scored, then learned from, in order. Labels may be missing (the row is predicted only) or
come late (`score` and `learn` take them up, with the features as they were predicted from).

Classes need not be known beforehand: each takes its place in the order of first appearance, up
to `max_classes`. Of more the most frequent are kept (see `kept_classes`): a row of a class without
a place is predicted and scored (as wrong), not learned from, and counted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import BoolArray, FloatArray, IntArray
from kerneltrack.learners.common.kept_classes import KeptClasses
from kerneltrack.learners.common.label_sets import named_flags
from kerneltrack.learners.common.spec import (
    LearnerSpec,
)

Labels: TypeAlias = "Sequence[str | None] | Sequence[float | None] | npt.NDArray[Any] | None"
"""Classes (a sequence of strings, None where missing) or targets (floats, NaN where missing)."""


# Places in the state's `counts` and `sums`.
SCORED, CORRECT, LEARNED, UNUSABLE = range(4)
COUNTS = 4
CARRIED = "carried_"
"""What counters begin with that say how much weight each expert of a mixture had: thousandths,
added up over the rows learned from."""
SQUARED, ABSOLUTE, BETA, CURVATURE, TARGET_MEAN, TARGET_VARIANCE = range(6)
ERROR_SUMS = 4
"""Entries at the end of the sums where intervals are asked for; see `prequential`."""
SUMS = 4
"""Entries of a classifier's sums; those of a regressor have two more."""
MIN_BETA, MAX_BETA = 0.1, 50.0
"""What β of a classifier may be; as in native/learning.c."""
FLOOR = 1e-3
"""Share of a row's probabilities that is spread over all classes; as in native/learning.h."""


class LearnerState(Protocol):
    """Arrays that the states of all learners have; each learner adds its own.

    Attributes:
        sums: (4 + C,) squared and absolute errors of the rows scored (regression); β, by which
            decision values become probabilities, and the curvature met so far (see `prequential`).
            (6,) in regression: behind them mean and variance of the targets learned from. Of
            classes, behind them how many labels each had. Four more where intervals are asked for:
            the logarithm of the bound of errors, errors so far, errors in a row that were above it
            (below 0: that were not), and what share of hits is owed for those above it (below 0:
            of misses for those that were not).
        counts: Rows scored, rows predicted correctly, rows learned from, labels that could not be
            used (a class without a place, a target that is not finite); a learner may count more
            behind these.
        classes: Names of the classes, by their places, each of at most 200 characters: in the order
            of first appearance as long as all classes have one.
        kept: What is known of further classes; None where there are none (see `kept_classes`).
    """

    @property
    def sums(self) -> FloatArray:
        """Errors of the rows scored."""
        ...

    @property
    def counts(self) -> IntArray:
        """Rows, by what became of them."""
        ...

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes."""
        ...

    @property
    def kept(self) -> KeptClasses | None:
        """What is known of classes without a place."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class Predictions:
    """Predictions of a learner for n rows, in their order.

    Attributes:
        valid: (n,) False where the features were refused: NaN, infinite or above 1e100. Such a
            row leaves no trace in the state, its label neither; its other values here are as
            before the first label.
        classes: The classes that `code` numbers; a number keeps its meaning for the model's life.
        code: (n,) place of the predicted class in `classes`, -1 before the first label;
            None in regression.
        score: (n,) probability of the predicted class, 0 before the first label; None in
            regression.
        margin: (n,) how far it is ahead of the largest other one, below 0 where costs or weights
            chose another class than the likeliest; 0 if fewer than two classes are known; None in
            regression.
        value: (n,) predicted target, NaN before the first label; None in classification.
        scored: (n,) True where a prediction met a label.
        correct: (n,) True where the two agree; None in regression.
        error: (n,) |target - value| where scored, else NaN; None in classification.
        lower: (n,) lower end of the interval that `LearnerSpec.intervals` asks for, NaN before the
            first error; None without.
        upper: (n,) its upper end.
        members: (n, W) the set of classes that `LearnerSpec.intervals` asks for, a bit a class (see
            `label_sets`); None without. It may be empty; before the first label there is none.
    """

    valid: BoolArray
    classes: tuple[str, ...]
    code: IntArray | None
    score: FloatArray | None
    margin: FloatArray | None
    value: FloatArray | None
    scored: BoolArray
    correct: BoolArray | None
    error: FloatArray | None
    lower: FloatArray | None = None
    upper: FloatArray | None = None
    members: IntArray | None = None

    @property
    def names(self) -> list[str | None]:
        """The predicted classes, None before the first label; empty in regression."""
        if self.code is None:
            return []
        known: tuple[str | None, ...] = (*self.classes, None)
        return [known[code] for code in self.code.tolist()]

    @property
    def sets(self) -> list[list[str]]:
        """The sets of classes, each by the alphabet; none without."""
        if self.members is None:
            return []
        flags, names = named_flags(self.members, self.classes)
        return [[names[place] for place in np.flatnonzero(row).tolist()] for row in flags]


class Learner(Protocol):
    """A learner's functions, bound to nothing: the state goes in and comes out.

    None of them writes to its arguments. Results are the same, bit for bit, however rows are cut
    into calls.
    """

    name: str
    spec_type: type[LearnerSpec]
    state_type: Any
    weighs: bool

    def init(self, spec: Any, width: int) -> Any:
        """Make the state of a learner that has seen no label, for `width` features."""
        ...

    def begin(self, spec: Any, width: int, channels: int) -> Any:
        """Make such a state for `width` inputs, the first `channels` of which are the row's own.

        The others are features that a tracker made of the row. Most learners do not mind.
        """
        ...

    def width(self, spec: Any, state: Any) -> int:
        """Return the number of features that a state was made for."""
        ...

    def update(
        self,
        spec: Any,
        state: Any,
        features: npt.ArrayLike,
        labels: Labels,
        weights: FloatArray | None = None,
    ) -> tuple[Any, Predictions]:
        """Predict, score and learn rows in order, one after the other.

        Args:
            spec: The spec that the state was made with.
            state: Not written to.
            features: Shape (n, width).
            labels: n of them; None for none at all.
            weights: (n,) how much each label counts, for learners that say so (`weighs`); where it
                is 0 it is as if the label were missing. None: all count 1.

        Returns:
            The new state and the rows' predictions, each made before its row was learned.
        """
        ...

    def update_each(
        self,
        spec: Any,
        states: Sequence[Any],
        features: npt.ArrayLike,
        block: Any,
        starts: IntArray,
        stops: IntArray,
    ) -> tuple[list[Any], Predictions]:
        """Let m models go through their rows, each as `update` does.

        Args:
            spec: The spec.
            states: Those of the models, at least one, of the same width; not written to.
            features: Shape (n, width); a model's rows follow one another.
            block: `labels.CodedBlock`, the labels of the n rows; none of a row whose features are
                refused.
            starts: (m,) place of each model's first row.
            stops: (m,) place after its last.

        Returns:
            The new states, and the rows' predictions, by each model's own codes for life.
        """
        ...

    def settled(self, spec: Any, state: Any) -> Any:
        """Return the state as if no more rows came: what waits for further ones is learned.

        For predictions only: `update` goes on from the state that was given.
        """
        ...

    def predict(self, spec: Any, state: Any, features: npt.ArrayLike) -> Predictions:
        """Predict rows with the state as it is."""
        ...

    def values(self, spec: Any, state: Any, features: npt.ArrayLike) -> FloatArray:
        """Return the decision values of rows, (n, C) with C classes known (1 in regression)."""
        ...

    def probabilities(self, spec: Any, state: Any, features: npt.ArrayLike) -> FloatArray:
        """Return the probabilities of the classes known, (n, C), each line adding up to 1."""
        ...

    def learn(self, spec: Any, state: Any, features: npt.ArrayLike, labels: Labels) -> Any:
        """Learn rows in order without predicting them: labels that came late."""
        ...

    def score(
        self, spec: Any, state: Any, predictions: Predictions, labels: Labels
    ) -> tuple[Any, Predictions]:
        """Score earlier predictions against labels that came late; `learn` learns them.

        Returns:
            The state with its running counters moved on, and the predictions with `scored`,
            `correct` and `error` as the labels say.
        """
        ...

    def counters(self, state: Any) -> dict[str, int | float]:
        """Return running totals: scored, correct, learned, unusable, squared, absolute."""
        ...

    def arrays(self, state: Any) -> dict[str, npt.NDArray[Any]]:
        """Return the state's arrays by name, for the codec."""
        ...

    def header(self, state: Any) -> dict[str, Any]:
        """Return the rest of the state as plain values, for the codec: the classes."""
        ...

    def from_arrays(
        self, spec: Any, arrays: dict[str, npt.NDArray[Any]], header: dict[str, Any]
    ) -> Any:
        """Make a state of what `arrays` and `header` gave, checking names and shapes."""
        ...
