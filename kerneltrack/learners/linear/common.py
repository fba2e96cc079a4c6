"""What the linear learners share: their state, and how it goes through their row loops."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import FloatArray
from kerneltrack.errors import ConfigError
from kerneltrack.learners.common.base import COUNTS
from kerneltrack.learners.common.kept_classes import KeptClasses
from kerneltrack.learners.common.labels import Coded
from kerneltrack.learners.common.prequential import (
    MAX_WIDTH,
    Mode,
    Predicted,
    PrequentialLearner,
    first_sums,
    many_sums,
)
from kerneltrack.learners.linear.spec import LinearSpec
from kerneltrack.limits import ArrayForm, real, whole
from kerneltrack.native.binding import call
from kerneltrack.native.layouts import FloatMatrix, FloatVector, IntVector
from kerneltrack.settings import check_int

_S = TypeVar("_S", bound=LinearSpec)


class LinearState(NamedTuple):
    """State of a linear learner; see `LearnerState` for what all states hold.

    With C classes seen (1 in regression), p weights a class (the features, and the bias if there
    is one) and m numbers of `memory`, the bytes of its arrays are 8(C(p + 1) + m + 8), at most
    8(max_classes·(p + 1) + m + 8), and 8 more in regression; m is p² for recursive ridge,
    p for Pegasos, else 0.

    Attributes:
        weights: (C, p) a class's weights, in the order of `classes`; Pegasos documents its scale.
        memory: What the learner keeps beside its weights, as it documents: (p, p), (1, p) or
            (0, p).
        sums: (4 + C,), in regression (6,), as in `LearnerState`.
        counts: (4,) as in `LearnerState`.
        classes, kept: As in `LearnerState`.
    """

    weights: FloatMatrix
    memory: FloatMatrix
    sums: FloatVector
    counts: IntVector
    classes: tuple[str, ...]
    kept: KeptClasses | None = None


class GradientSettings(NamedTuple):
    """A `GradientSpec` as numbers."""

    ridge: float
    step_size: float
    decay_rows: float


class LinearLearner(PrequentialLearner[_S, LinearState]):
    """A learner with one weight vector a class; a subclass brings what its loop is told.

    The loop is the function of C that has the learner's name.
    """

    state_type = LinearState
    first_beta = 4.0
    """What decision values are multiplied by at first, as logarithms of probabilities."""

    @abc.abstractmethod
    def settings(self, spec: _S) -> tuple[Any, ...]:
        """Return a spec as numbers, as the loop takes it."""

    def memory(self, spec: _S, size: int) -> FloatArray:
        """Return the state's `memory` before the first label, for `size` weights a class."""
        return np.zeros((0, size))

    def init(self, spec: _S, width: int) -> LinearState:
        """Make the state of a learner that has seen no label; see `Learner.init`."""
        check_int("width", width, 1, MAX_WIDTH)
        size = width + int(spec.bias)
        return LinearState(
            weights=np.zeros((0 if spec.classifies else 1, size)),
            memory=self.memory(spec, size),
            sums=first_sums(spec, self.first_beta),
            counts=np.zeros(COUNTS, dtype=np.int64),
            classes=(),
        )

    def has_constant(self, spec: _S) -> bool:
        """Check whether there is a bias."""
        return spec.bias

    def width(self, spec: _S, state: LinearState) -> int:
        """Return the number of features that a state was made for."""
        size: int = state.weights.shape[1]
        return size - int(spec.bias)

    def values(self, spec: _S, state: LinearState, features: npt.ArrayLike) -> FloatArray:
        """Return w_c·x of every class and row, as the row loops compute it."""
        rows, _ = self.checked_rows(spec, state, features)
        out = np.zeros((len(rows), len(state.weights)))
        call("linear_values", state.weights, rows, out)
        return self.in_target_units(spec, state, out)

    def roomy(
        self, spec: _S, state: LinearState, classes: tuple[str, ...], rows: int
    ) -> LinearState:
        """Return a copy of a state with room for the classes of a call."""
        weights = np.zeros((len(classes) if spec.classifies else 1, state.weights.shape[1]))
        weights[: len(state.weights)] = state.weights
        return LinearState(
            weights, state.memory.copy(), state.sums.copy(), state.counts.copy(), classes
        )

    def vacated(self, spec: _S, state: LinearState, place: int) -> LinearState:
        """Return a state that knows nothing of the class in a place."""
        weights = state.weights.copy()
        weights[place] = self.unmet(state)
        return state._replace(weights=weights)

    def unmet(self, state: LinearState) -> FloatArray:
        """Return the weights of a class that no row has had, (p,)."""
        return np.zeros(state.weights.shape[1])

    def process(
        self,
        spec: _S,
        mode: Mode,
        state: LinearState,
        features: FloatArray,
        labels: Coded,
        out: Predicted,
    ) -> LinearState:
        """Run rows through the compiled loop; see `PrequentialLearner.process`."""
        arrays = self.numbers_of(state)
        call(f"{self.name}_run", self.settings(spec), mode, arrays, features, labels, out)
        return state

    def layout(
        self, spec: _S, arrays: dict[str, npt.NDArray[Any]], classes: int
    ) -> dict[str, ArrayForm]:
        """Return what a state's arrays should be like; see `PrequentialLearner`."""
        weights = arrays["weights"]
        size = weights.shape[-1] if weights.ndim else 0
        most = MAX_WIDTH + int(spec.bias)
        if not int(spec.bias) < size <= most:
            raise ConfigError("state.weights", weights.shape, f"of at most {most} columns")
        rows = {0: 0, 1: 1, 2: size}[len(self.memory(spec, 2))]
        return {
            "weights": real(classes, size),
            "memory": real(rows, size),
            "sums": real(many_sums(spec, classes)),
            "counts": whole(COUNTS),
        }
