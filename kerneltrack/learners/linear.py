"""What the linear learners share around their row loops: states, labels, outputs."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from kerneltrack.errors import ConfigError
from kerneltrack.learners.base import (
    ABSOLUTE,
    CORRECT,
    COUNTS,
    LEARNED,
    SCORED,
    SQUARED,
    SUMS,
    UNUSABLE,
    BoolArray,
    FloatArray,
    Labels,
    LearnerSpec,
    LearnerState,
    Predictions,
)
from kerneltrack.learners.labels import MAX_NAME, Coded, coded, no_labels
from kerneltrack.learners.rows import Arrays, Mode, Outputs, mark_rows
from kerneltrack.specs import check_int

_S = TypeVar("_S", bound=LearnerSpec)

MAX_FEATURE = 1e100
"""Largest |feature|: its square is still finite, and so are the products of an update."""
MAX_WIDTH = 20_000


def empty_outputs(spec: LearnerSpec, valid: BoolArray) -> Outputs:
    """Return outputs for as many rows as `valid` has, as before the first label."""
    count = len(valid)
    classes, targets = (count, 0) if spec.classifies else (0, count)
    return Outputs(
        valid=valid,
        code=np.full(classes, -1, dtype=np.int64),
        score=np.zeros(classes),
        margin=np.zeros(classes),
        value=np.full(targets, np.nan),
        scored=np.zeros(count, dtype=np.bool_),
        correct=np.zeros(classes, dtype=np.bool_),
        error=np.full(targets, np.nan),
    )


def _predictions(spec: LearnerSpec, classes: tuple[str, ...], out: Outputs) -> Predictions:
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
    )


class LinearLearner(abc.ABC, Generic[_S]):
    """A learner with one weight vector a class; a subclass brings the compiled row loop."""

    name: str
    spec_type: type[LearnerSpec]
    state_type = LearnerState

    @abc.abstractmethod
    def memory(self, spec: _S, size: int) -> FloatArray:
        """Return the state's `memory` before the first label, for `size` weights a class."""

    @abc.abstractmethod
    def run(
        self,
        spec: _S,
        mode: Mode,
        state: Arrays,
        features: FloatArray,
        labels: Coded,
        out: Outputs,
    ) -> None:
        """Run rows through the compiled loop, which writes to the state as the mode says."""

    def init(self, spec: _S, width: int) -> LearnerState:
        """Make the state of a learner that has seen no label; see `Learner.init`."""
        check_int("width", width, 1, MAX_WIDTH)
        size = width + int(spec.bias)
        return LearnerState(
            weights=np.zeros((0 if spec.classifies else 1, size)),
            memory=self.memory(spec, size),
            sums=np.zeros(SUMS),
            counts=np.zeros(COUNTS, dtype=np.int64),
            classes=(),
        )

    def update(
        self, spec: _S, state: LearnerState, features: npt.ArrayLike, labels: Labels
    ) -> tuple[LearnerState, Predictions]:
        """Predict, score and learn rows in order; see `Learner.update`."""
        return self._learn(spec, state, features, labels, True)

    def learn(
        self, spec: _S, state: LearnerState, features: npt.ArrayLike, labels: Labels
    ) -> LearnerState:
        """Learn rows in order without predicting them; see `Learner.learn`."""
        return self._learn(spec, state, features, labels, False)[0]

    def predict(self, spec: _S, state: LearnerState, features: npt.ArrayLike) -> Predictions:
        """Predict rows with the state as it is; see `Learner.predict`."""
        rows, valid = _checked(spec, state, features)
        out = empty_outputs(spec, valid)
        mode = Mode(True, False, not spec.classifies, _known(spec, state))
        # Nothing is written to them, but to Numba read-only arrays are another type.
        arrays = Arrays(
            np.require(state.weights, requirements="W"),
            np.require(state.memory, requirements="W"),
            np.require(state.sums, requirements="W"),
            np.require(state.counts, requirements="W"),
        )
        self.run(spec, mode, arrays, rows, no_labels(len(rows)), out)
        return _predictions(spec, state.classes, out)

    def score(
        self, spec: _S, state: LearnerState, predictions: Predictions, labels: Labels
    ) -> tuple[LearnerState, Predictions]:
        """Score predictions against labels that came late; see `Learner.score`."""
        numbers, _ = coded(spec, state.classes, labels, predictions.valid, grow=False)
        empty = empty_outputs(spec, predictions.valid)
        out = empty._replace(
            code=empty.code if predictions.code is None else np.array(predictions.code),
            value=empty.value if predictions.value is None else np.array(predictions.value),
        )
        after = state._replace(sums=state.sums.copy(), counts=state.counts.copy())
        arrays = Arrays(after.weights, after.memory, after.sums, after.counts)
        mark_rows(not spec.classifies, arrays, numbers, out)
        marked = dataclasses.replace(
            predictions,
            scored=out.scored,
            correct=out.correct if spec.classifies else None,
            error=None if spec.classifies else out.error,
        )
        return after, marked

    def counters(self, state: LearnerState) -> dict[str, int | float]:
        """Return running totals; see `Learner.counters`."""
        return {
            "scored": int(state.counts[SCORED]),
            "correct": int(state.counts[CORRECT]),
            "learned": int(state.counts[LEARNED]),
            "unusable": int(state.counts[UNUSABLE]),
            "squared": float(state.sums[SQUARED]),
            "absolute": float(state.sums[ABSOLUTE]),
        }

    def arrays(self, state: LearnerState) -> dict[str, npt.NDArray[Any]]:
        """Return the state's arrays by name."""
        return {
            "weights": state.weights,
            "memory": state.memory,
            "sums": state.sums,
            "counts": state.counts,
        }

    def header(self, state: LearnerState) -> dict[str, Any]:
        """Return the classes."""
        return {"classes": list(state.classes)}

    def from_arrays(
        self, spec: _S, arrays: dict[str, npt.NDArray[Any]], header: dict[str, Any]
    ) -> LearnerState:
        """Make a state of what `arrays` and `header` gave; see `Learner.from_arrays`."""
        classes = _checked_classes(spec, header.get("classes"))
        if set(arrays) != {"weights", "memory", "sums", "counts"}:
            raise ConfigError("state", sorted(arrays), "weights, memory, sums and counts")
        size = arrays["weights"].shape[-1] if arrays["weights"].ndim else 0
        # Held against the shape before room is made for it: a damaged one may claim any size.
        rows = {0: 0, 1: 1, 2: size}[len(self.memory(spec, 2))]
        if arrays["memory"].shape != (rows, size):
            raise ConfigError("state.memory", arrays["memory"].shape, f"of shape {(rows, size)}")
        fresh = self.init(spec, size - int(spec.bias))
        rows = len(classes) if spec.classifies else 1
        expected = self.arrays(fresh._replace(weights=np.zeros((rows, size))))
        for name, like in expected.items():
            if arrays[name].shape != like.shape:
                raise ConfigError(f"state.{name}", arrays[name].shape, f"of shape {like.shape}")
        parts = {name: np.array(arrays[name], dtype=expected[name].dtype) for name in expected}
        return LearnerState(classes=classes, **parts)

    def _learn(
        self,
        spec: _S,
        state: LearnerState,
        features: npt.ArrayLike,
        labels: Labels,
        predict: bool,
    ) -> tuple[LearnerState, Predictions]:
        rows, valid = _checked(spec, state, features)
        numbers, classes = coded(spec, state.classes, labels, valid, grow=True)
        # Room for the classes of this call: a row's arithmetic does not see it.
        weights = np.zeros((len(classes) if spec.classifies else 1, rows.shape[1] + spec.bias))
        weights[: len(state.weights)] = state.weights
        after = LearnerState(
            weights, state.memory.copy(), state.sums.copy(), state.counts.copy(), classes
        )
        out = empty_outputs(spec, valid)
        mode = Mode(predict, True, not spec.classifies, _known(spec, state))
        arrays = Arrays(after.weights, after.memory, after.sums, after.counts)
        self.run(spec, mode, arrays, rows, numbers, out)
        return after, _predictions(spec, classes, out)


def _known(spec: LearnerSpec, state: LearnerState) -> int:
    return len(state.classes) if spec.classifies else min(state.learned, 1)


def _checked(
    spec: LearnerSpec, state: LearnerState, features: npt.ArrayLike
) -> tuple[FloatArray, BoolArray]:
    """Return the features as a matrix, and which rows are fit to compute with."""
    rows = np.ascontiguousarray(features, dtype=np.float64)
    width = state.weights.shape[1] - int(spec.bias)
    if rows.ndim != 2 or rows.shape[1] != width:
        raise ConfigError("features", rows.shape, f"of shape (n, {width})")
    if not rows.flags.writeable:
        # To Numba read-only arrays are another type: the loop would be compiled once more.
        rows = rows.copy()
    valid: BoolArray = np.all(np.abs(rows) <= MAX_FEATURE, axis=1)
    return rows, valid


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
