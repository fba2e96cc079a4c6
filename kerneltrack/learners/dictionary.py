"""What the kernel learners share: their state, a dictionary of rows, and its way through the loops.

f_c(x) = Σ_j w_cj κ(d_j, x): C functions (a class each, one in regression) share the rows d_j. The
dictionary never grows past `budget` rows, its arrays have as many places as there are rows.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from kerneltrack.errors import ConfigError
from kerneltrack.kernels import NEEDS_BANDWIDTH, Kernel, make_kernel, median_bandwidth
from kerneltrack.learners.base import LEARNED, SUMS, FloatArray, IntArray, LearnerSpec
from kerneltrack.learners.dictsteps import (
    DICTIONARY_COUNTS,
    EARLY,
    PENDING,
    STORED,
    Dictionary,
    evaluate_rows,
)
from kerneltrack.learners.labels import Coded
from kerneltrack.learners.prequential import MAX_WIDTH, PrequentialLearner
from kerneltrack.learners.rows import Mode, Outputs
from kerneltrack.specs import check_choice, check_int, check_number

MAX_COUNT = 2**62


@dataclasses.dataclass(frozen=True, kw_only=True)
class DictionarySpec(LearnerSpec):
    """What the learners that keep rows are also told.

    Attributes:
        budget: Most stored rows, 1 to 10,000.
        kernel: "gaussian" or "laplacian", κ(x,x) = 1.
        gamma: Bandwidth of the kernel (exp(-‖x-y‖²/γ), so γ = 2σ², or exp(-‖x-y‖₁/γ)), or
            "median": that of the distances between the first `warmup` labelled rows.
        warmup: Labelled rows that wait for that median, 2 to 10,000; until they have come, nothing
            is learned and every decision value is 0.
    """

    budget: int = 500
    kernel: str = "gaussian"
    gamma: float | str = "median"
    warmup: int = 100

    def __post_init__(self) -> None:
        """Check every field.

        Raises:
            ConfigError: naming the field, the value and what is allowed.
        """
        super().__post_init__()
        check_int("budget", self.budget, 1, 10_000)
        check_choice("kernel", self.kernel, sorted(NEEDS_BANDWIDTH))
        if isinstance(self.gamma, str):
            if self.gamma != "median":
                raise ConfigError("gamma", self.gamma, "a finite number > 0, or 'median'")
        else:
            check_number("gamma", self.gamma, 0, math.inf)
        check_int("warmup", self.warmup, 2, 10_000)

    @property
    def rows_a_step(self) -> int:
        """Labelled rows of a mini-batch."""
        return 1


_S = TypeVar("_S", bound=DictionarySpec)
_C = TypeVar("_C", Coded, Outputs)


class DictionaryState(NamedTuple):
    """State of a learner that keeps rows; see `LearnerState` for what all states hold.

    With M stored rows of D features, p rows of the mini-batch under way, C classes (1 in
    regression), e rows that wait for the bandwidth, and m = M where the learner projects, else 0,
    the bytes of its arrays are 8((M + p)(D + C) + m² + m + e(D + 1) + 11); M <= budget,
    p < rows a step, e < warmup, C <= max_classes.

    Attributes:
        rows: (M + p, D) stored rows, then those of the mini-batch under way.
        weights: (C, M + p) w; of the mini-batch what its rows will add.
        root: (m, m) W with WᵀW = K⁻¹, K = κ(rows, rows) of the stored rows.
        diagonal: (m,) that of K⁻¹.
        early: (e, D + 1) rows that wait for the bandwidth, each with its target or class's place.
        bandwidth: (1,) γ; 0 until it is known.
        sums: (2,) as in `LearnerState`.
        counts: (8,) as in `LearnerState`, then M, p, e and the steps since W was computed anew.
        classes: As in `LearnerState`.
    """

    rows: FloatArray
    weights: FloatArray
    root: FloatArray
    diagonal: FloatArray
    early: FloatArray
    bandwidth: FloatArray
    sums: FloatArray
    counts: IntArray
    classes: tuple[str, ...]

    @property
    def size(self) -> int:
        """Stored rows M, the model order."""
        return int(self.counts[STORED])


class DictionaryLearner(PrequentialLearner[_S, DictionaryState]):
    """A learner that keeps rows; a subclass brings the compiled row loop."""

    state_type = DictionaryState

    @abc.abstractmethod
    def run(
        self,
        spec: _S,
        kernel: Kernel,
        mode: Mode,
        state: Dictionary,
        features: FloatArray,
        labels: Coded,
        out: Outputs,
    ) -> tuple[int, int]:
        """Run rows through the compiled loop.

        It stops behind the row that makes `early` full: the bandwidth has to be found first.

        Returns:
            How many rows were run, and the classes known then.
        """

    def projects(self, spec: _S) -> bool:
        """Say whether the learner needs K⁻¹."""
        return True

    def init(self, spec: _S, width: int) -> DictionaryState:
        """Make the state of a learner that has seen no label; see `Learner.init`."""
        check_int("width", width, 1, MAX_WIDTH)
        return DictionaryState(
            rows=np.zeros((0, width)),
            weights=np.zeros((0 if spec.classifies else 1, 0)),
            root=np.zeros((0, 0)),
            diagonal=np.zeros(0),
            early=np.zeros((0, width + 1)),
            bandwidth=np.array([0.0 if isinstance(spec.gamma, str) else float(spec.gamma)]),
            sums=np.zeros(SUMS),
            counts=np.zeros(DICTIONARY_COUNTS, dtype=np.int64),
            classes=(),
        )

    def width(self, spec: _S, state: DictionaryState) -> int:
        """Return the number of features that a state was made for."""
        width: int = state.rows.shape[1]
        return width

    def values(self, spec: _S, state: DictionaryState, features: npt.ArrayLike) -> FloatArray:
        """Return f_c(x) of every class and row, as the row loops compute it."""
        rows, _ = self.checked_rows(spec, state, features)
        out = np.zeros((len(rows), len(state.weights)))
        evaluate_rows(_kernel_of(spec, state.bandwidth), _writeable(state), rows, out)
        return out

    def settled(self, spec: _S, state: DictionaryState) -> DictionaryState:
        """Return the state with the bandwidth of as many rows as wait for it, and these learned."""
        if not len(state.early):
            return state
        room = self.roomy(spec, state, state.classes, 0)
        self._begin(spec, _writeable(room))
        return _trimmed(room, self.projects(spec))

    def roomy(
        self, spec: _S, state: DictionaryState, classes: tuple[str, ...], rows: int
    ) -> DictionaryState:
        """Return a copy of a state with room for a call's classes and rows."""
        used, width = state.rows.shape
        waiting = len(state.early)
        room = min(used + waiting + rows, spec.budget + spec.rows_a_step)
        inverse = room if self.projects(spec) else 0
        early = min(waiting + rows, spec.warmup) if state.bandwidth[0] == 0.0 else 0
        count = len(classes) if spec.classifies else 1
        return DictionaryState(
            rows=_copied(state.rows, (room, width)),
            weights=_copied(state.weights, (count, room)),
            root=_copied(state.root, (inverse, inverse)),
            diagonal=_copied(state.diagonal, (inverse,)),
            early=_copied(state.early, (early, width + 1)),
            bandwidth=state.bandwidth.copy(),
            sums=state.sums.copy(),
            counts=state.counts.copy(),
            classes=classes,
        )

    def process(
        self,
        spec: _S,
        mode: Mode,
        state: DictionaryState,
        features: FloatArray,
        labels: Coded,
        out: Outputs,
    ) -> DictionaryState:
        """Run rows through the compiled loop; see `PrequentialLearner.process`."""
        arrays = _writeable(state)
        start, known = 0, mode.known
        while start < len(features):
            kernel = _kernel_of(spec, state.bandwidth)
            turn = mode._replace(known=known)
            rest = features[start:], _from(start, labels), _from(start, out)
            count, known = self.run(spec, kernel, turn, arrays, *rest)
            start += count
            if mode.learn and state.counts[EARLY] == spec.warmup:
                known = max(known, self._begin(spec, arrays))
        return _trimmed(state, self.projects(spec)) if mode.learn else state

    def _begin(self, spec: _S, state: Dictionary) -> int:
        """Find the bandwidth and learn the rows that waited for it; return the classes known."""
        rows = np.ascontiguousarray(state.early[:, :-1])
        targets = state.early[:, -1].copy()
        state.counts[EARLY] = 0
        state.bandwidth[0] = median_bandwidth(spec.kernel, rows)
        codes = targets.astype(np.int64) if spec.classifies else np.zeros(len(rows), np.int64)
        none = np.zeros(0, dtype=np.bool_)
        real, whole = np.zeros(0), np.zeros(0, dtype=np.int64)
        out = Outputs(np.ones(len(rows), np.bool_), whole, real, real, real, none, none, real)
        mode = Mode(False, True, not spec.classifies, 0)
        kernel = _kernel_of(spec, state.bandwidth)
        return self.run(spec, kernel, mode, state, rows, Coded(codes, targets), out)[1]

    def shapes(
        self, spec: _S, arrays: dict[str, npt.NDArray[Any]], classes: int
    ) -> dict[str, tuple[int, ...]]:
        """Return the shapes that a state's arrays should have; see `PrequentialLearner`."""
        rows, counts = arrays["rows"], arrays["counts"]
        if rows.ndim != 2 or not 1 <= rows.shape[1] <= MAX_WIDTH:
            raise ConfigError("state.rows", rows.shape, f"of 1 to {MAX_WIDTH} columns")
        if counts.shape != (DICTIONARY_COUNTS,) or counts.min() < 0 or counts.max() > MAX_COUNT:
            raise ConfigError("state.counts", counts.tolist(), f"{DICTIONARY_COUNTS} of them, >= 0")
        stored, pending, early = (int(counts[place]) for place in (STORED, PENDING, EARLY))
        learned = int(counts[LEARNED])
        most = learned % spec.rows_a_step
        if stored > spec.budget or pending > most or early >= spec.warmup:
            allowed = f"at most {spec.budget}, {most} and {spec.warmup - 1} rows"
            raise ConfigError("state.counts", counts.tolist(), allowed)
        size, inverse = stored + pending, stored if self.projects(spec) else 0
        return {
            "rows": (size, rows.shape[1]),
            "weights": (classes, size),
            "root": (inverse, inverse),
            "diagonal": (inverse,),
            "early": (early, rows.shape[1] + 1),
            "bandwidth": (1,),
            "sums": (SUMS,),
            "counts": (DICTIONARY_COUNTS,),
        }

    def sound(self, spec: _S, state: DictionaryState) -> DictionaryState:
        """Check what the row loop is led by."""
        gamma = float(state.bandwidth[0])
        waits = gamma == 0.0 and isinstance(spec.gamma, str) and not len(state.rows)
        if not (waits or (0.0 < gamma < math.inf and not len(state.early))):
            raise ConfigError("state.bandwidth", gamma, "a finite number > 0, 0 while rows wait")
        places = state.early[:, -1]
        good = np.isin(places, np.arange(len(state.classes))) | (not spec.classifies)
        if not good.all():
            raise ConfigError("state.early", places.tolist(), "places of classes")
        return state


def _from(start: int, columns: _C) -> _C:
    """Return the rows of a call's labels or outputs from one on."""
    fields: Any = columns
    rest: _C = type(fields)(*(column[start:] for column in fields))
    return rest


def _kernel_of(spec: DictionarySpec, bandwidth: FloatArray) -> Kernel:
    """Return the kernel; any will do while there are no rows and γ is not known."""
    return make_kernel(spec.kernel, float(bandwidth[0]) or 1.0)


def _writeable(state: DictionaryState) -> Dictionary:
    """Return the arrays for the loop: where it writes nothing, they may be read-only."""
    arrays = state._asdict()
    del arrays["classes"]
    return Dictionary(**{name: np.require(each, None, "W") for name, each in arrays.items()})


def _copied(array: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """Return an array of this shape, zeros behind what is copied to it."""
    room = np.zeros(shape)
    room[tuple(slice(size) for size in array.shape)] = array
    return room


def _trimmed(state: DictionaryState, inverse: bool) -> DictionaryState:
    """Return a state without the room that is not in use."""
    stored, pending, early = (int(state.counts[place]) for place in (STORED, PENDING, EARLY))
    used, side = stored + pending, stored if inverse else 0
    return state._replace(
        rows=state.rows[:used].copy(),
        weights=state.weights[:, :used].copy(),
        root=state.root[:side, :side].copy(),
        diagonal=state.diagonal[:side].copy(),
        early=state.early[:early].copy(),
    )
