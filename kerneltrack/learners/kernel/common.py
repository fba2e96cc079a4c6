"""What the learners with a kernel share: its settings, and the rows that wait for its bandwidth."""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import FloatArray
from kerneltrack.errors import ConfigError
from kerneltrack.kernels import make_kernel, median_bandwidth
from kerneltrack.learners.common.base import COUNTS
from kerneltrack.learners.common.labels import Coded
from kerneltrack.learners.common.prequential import (
    MAX_WIDTH,
    Mode,
    Predicted,
    PrequentialLearner,
    first_sums,
)
from kerneltrack.learners.kernel.spec import KernelSpec
from kerneltrack.limits import copies_like, whole
from kerneltrack.native.binding import call

EARLY = COUNTS + 2
"""Place in `counts` of the rows that wait for the bandwidth; a learner's own lie beside it."""


def first_bandwidth(spec: KernelSpec) -> FloatArray:
    """Return γ as a fresh state holds it: 0 where rows have to come first."""
    return np.array([0.0 if isinstance(spec.gamma, str) else spec.gamma])


def kernel_sums(spec: KernelSpec) -> FloatArray:
    """Return the sums of a fresh state; see `first_sums`."""
    logistic = spec.classifies and getattr(spec, "loss", "") == "logistic"
    return first_sums(spec, 1.0 if logistic else 4.0)


_S = TypeVar("_S", bound=KernelSpec)
_T = TypeVar("_T", bound=Any)
_C = TypeVar("_C", Coded, Predicted)


class KernelLearner(PrequentialLearner[_S, _T]):
    """A learner with a kernel; a subclass brings the state and what its loop is told.

    The state holds `bandwidth`, (1,), γ or 0 until it is known, `early`, (e, D + 1), the rows that
    wait for it, each with its target or its class's place, and their number in `counts`.

    The loop is the function of C that has the learner's name; `evaluation` names the one that
    writes f_c(x) of every row and class.
    """

    evaluation: str

    @abc.abstractmethod
    def settings(self, spec: _S) -> tuple[Any, ...]:
        """Return a spec as numbers, as the loop takes it."""

    def similarity(self, spec: _S, bandwidth: FloatArray) -> tuple[Any, ...]:
        """Return the kernel as the loop takes it; any will do while γ is not known."""
        return make_kernel(spec.kernel, float(bandwidth[0]) or 1.0)

    def run(
        self, spec: _S, mode: Mode, state: _T, rows: FloatArray, labels: Coded, out: Predicted
    ) -> tuple[int, int]:
        """Run rows through the loop.

        It stops behind the row that makes `early` full: the bandwidth has to be found first.

        Returns:
            How many rows were run, and the classes known then.
        """
        reached = np.zeros(2, dtype=np.int64)
        kernel, arrays = self.similarity(spec, state.bandwidth), self.numbers_of(state)
        arguments = self.settings(spec), kernel, mode, arrays, rows, labels, out, reached
        call(f"{self.name}_run", *arguments)
        return int(reached[0]), int(reached[1])

    def values(self, spec: _S, state: _T, features: npt.ArrayLike) -> FloatArray:
        """Return f_c(x) of every class and row, as the row loop computes it."""
        rows, _ = self.checked_rows(spec, state, features)
        out = np.zeros((len(rows), len(state.weights)))
        kernel, arrays = self.similarity(spec, state.bandwidth), self.numbers_of(state)
        call(self.evaluation, kernel, arrays, rows, out)
        return self.in_target_units(spec, state, out)

    def roomy(self, spec: _S, state: _T, classes: tuple[str, ...], rows: int) -> _T:
        """Return a copy of a state with room for a call's classes and rows.

        Its weights, a line a class, and the rows that wait are all that grows.
        """
        named = {name: array.copy() for name, array in self.arrays(state).items()}
        count = len(classes) if spec.classifies else 1
        named["weights"] = resized(state.weights, (count, state.weights.shape[1]))
        early = (early_room(spec, state, rows), state.early.shape[1])
        named["early"] = resized(state.early, early)
        found: _T = self.state_type(**named, classes=classes)
        return found

    def vacated(self, spec: _S, state: _T, place: int) -> _T:
        """Return a state that knows nothing of the class in a place, without its rows that wait."""
        weights, counts = state.weights.copy(), state.counts.copy()
        weights[place] = 0.0
        early = state.early[state.early[:, -1] != place]
        counts[EARLY] = len(early)
        found: _T = state._replace(weights=weights, early=early, counts=counts)
        return found

    def trimmed(self, spec: _S, state: _T) -> _T:
        """Return a state without the room that is not in use."""
        found: _T = state._replace(early=state.early[: int(state.counts[EARLY])].copy())
        return found

    def process(
        self, spec: _S, mode: Mode, state: _T, features: FloatArray, labels: Coded, out: Predicted
    ) -> _T:
        """Run rows through the loop; see `PrequentialLearner.process`."""
        start, known = 0, mode.known
        while start < len(features):
            turn = mode._replace(known=known)
            rest = features[start:], _from(start, labels), _from(start, out)
            count, known = self.run(spec, turn, state, *rest)
            start += count
            if mode.learn and state.counts[EARLY] == spec.warmup:
                known = max(known, self._begin(spec, state))
        return self.trimmed(spec, state) if mode.learn else state

    def settled(self, spec: _S, state: _T) -> _T:
        """Return the state with the bandwidth of as many rows as wait for it, and these learned."""
        if not len(state.early):
            return state
        room = self.room(spec, state, state.classes, 0)
        self._begin(spec, room)
        return self.trimmed(spec, room)

    def _begin(self, spec: _S, state: _T) -> int:
        """Find the bandwidth and learn the rows that waited for it; return the classes known."""
        rows = np.ascontiguousarray(state.early[:, :-1])
        targets = state.early[:, -1].copy()
        state.counts[EARLY] = 0
        state.bandwidth[0] = median_bandwidth(spec.kernel, rows)
        codes = targets.astype(np.int64) if spec.classifies else np.zeros(len(rows), np.int64)
        none, sets = np.zeros(0, dtype=np.bool_), np.zeros((0, 0), dtype=np.int64)
        real, whole = np.zeros(0), np.zeros(0, dtype=np.int64)
        valid = np.ones(len(rows), np.bool_)
        out = Predicted(valid, whole, real, real, real, none, none, real, real, real, sets)
        # Their labels were counted as they came, and so were errors; targets had no prediction.
        mode = self.mode(spec, state, False, True)._replace(known=0, counted=False)
        if state.kept is not None and state.kept.changed:
            # Places are not in the order in which these rows' classes came.
            mode = mode._replace(known=len(state.classes))
        if spec.classifies:
            mode = mode._replace(coverage=0.0)
        return self.run(spec, mode, state, rows, Coded(codes, targets), out)[1]

    def sound(self, spec: _S, state: _T) -> _T:
        """Check what the row loop is led by."""
        gamma, empty = float(state.bandwidth[0]), not self.stored(state)
        waits = gamma == 0.0 and isinstance(spec.gamma, str) and empty
        if not (waits or (0.0 < gamma < math.inf and not len(state.early))):
            raise ConfigError("state.bandwidth", gamma, "a finite number > 0, 0 while rows wait")
        places = state.early[:, -1]
        good = np.isin(places, np.arange(len(state.classes))) | (not spec.classifies)
        if not good.all():
            raise ConfigError("state.early", places.tolist(), "places of classes")
        return state

    @abc.abstractmethod
    def stored(self, state: _T) -> int:
        """Return how many rows a state holds, without those that wait."""


def early_room(spec: KernelSpec, state: Any, rows: int) -> int:
    """Return how many places for rows that wait a call with so many labels needs."""
    return min(len(state.early) + rows, spec.warmup) if state.bandwidth[0] == 0.0 else 0


def resized(array: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """Return an array of this shape, zeros behind what is copied to it."""
    room = np.zeros(shape)
    room[tuple(slice(size) for size in array.shape)] = array
    return room


def _from(start: int, columns: _C) -> _C:
    """Return the rows of a call's labels or outputs from one on."""
    fields: Any = columns
    rest: _C = type(fields)(*(column[start:] for column in fields))
    return rest


def counts_of(arrays: Mapping[str, npt.NDArray[Any]], length: int) -> npt.NDArray[np.int64]:
    """Return a state's counts, which say how large its other arrays are.

    Raises:
        ConfigError: for another number of them, or another type.
    """
    (counts,) = copies_like(
        "state", {"counts": arrays["counts"]}, {"counts": whole(length)}
    ).values()
    return counts


def width_of(rows: npt.NDArray[Any]) -> int:
    """Return the number of features D of a state's rows, shape (n, D).

    Raises:
        ConfigError: for a shape that no state has.
    """
    if rows.ndim != 2 or not 1 <= rows.shape[1] <= MAX_WIDTH:
        raise ConfigError("rows of the state", rows.shape, f"of 1 to {MAX_WIDTH} columns")
    return int(rows.shape[1])
