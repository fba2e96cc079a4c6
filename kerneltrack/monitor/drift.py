"""Drift alerts: when the level of a model's fitting error changes regime.

Losses ℓ of consecutive rows are averaged in blocks; y = √(mean ℓ) of a block is the root mean
square distance of its φ(x) from the subspace. Each block's

    u = (y - level) / max(spread, floor · usual),  clipped to ±clip

goes to river's Page-Hinkley detector, where level and spread are running averages of y and of
1.2533|y - level| (the standard deviation, for normal data) over the last `memory` rows, and usual
is the square root of the model's mean loss over its last 5,000 blocks. So thresholds have no
unit, one outlier among the rows cannot raise an alert by itself, and a change that is small
beside the model's usual loss, a sensor at rest that moves a little, counts for little.

Page-Hinkley adds up u - mean(u) ∓ delta and alerts once the sum is more than `threshold` above
its lowest or below its highest value: the change began where that extreme was. After an alert
level, spread and detector begin anew; none follows within `settle` rows, in which they are learnt.

The tracker adapts to a change, sometimes within 20 rows. What it leaves is a spike of the loss or
another level. The defaults want three clear blocks or a lasting change; `block=5, clip=4, delta=1,
threshold=3` finds spikes of 10 rows at several times the false alarms. Where the losses show
neither there is no alert: a loss says nothing of a change within what the subspace holds.

river.drift.ADWIN was left out: its window lives in compiled code that gives it out as a pickle
only, of a form that changed between releases. Page-Hinkley's state is six numbers.

Reference: E. S. Page, "Continuous inspection schemes", Biometrika 41, 1954, in river's
implementation (J. Montiel et al., "River: machine learning for streaming data in Python", JMLR
22, 2021).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.errors import ConfigError
from kerneltrack.limits import Limit, check_counts, copies_like, likes
from kerneltrack.settings import OneOf, Range, check_choice
from kerneltrack.specs import Spec, spec_from_dict

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

PAGE_HINKLEY = "page_hinkley"
DIRECTIONS = ("both", "up", "down")
MEAN_TO_DEVIATION = 1.2533
"""Mean absolute deviation to standard deviation, for normal data: √(π/2)."""
USUAL_BLOCKS = 5000
"""Blocks that the usual loss looks back on: 50,000 rows by default."""
TINY = 1e-300
"""Smallest spread: that of losses that are all zero."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DriftSpec(Spec):
    """What the drift detector is told.

    Deviations are those of the root mean loss of a block, see the module.

    Example:
        >>> DriftSpec(threshold=8).to_dict()["threshold"]
        8.0
    """

    role: ClassVar[str] = "drift"
    drift: ClassVar[str] = PAGE_HINKLEY

    block: Annotated[
        int, Range(1, 1000), "Rows of a block. An alert comes with the last row of a block."
    ] = 10
    threshold: Annotated[
        float,
        Range(0, 1e6, "()"),
        "Sum of deviations beyond `delta` that raises an alert.",
    ] = 6.0
    delta: Annotated[
        float, Range(0, 1e6, "[)"), "Change of level that is let pass, in deviations."
    ] = 0.75
    clip: Annotated[
        float, Range(0, 1e6, "()"), "Most deviations that one block counts, above `delta`."
    ] = 3.0
    floor: Annotated[
        float,
        Range(0, 1e6, "[)"),
        "Least deviation, as a fraction of the model's usual root mean loss.",
    ] = 0.15
    memory: Annotated[
        int, Range(1, 10_000_000), "Rows that level and spread look back on, at least `settle`."
    ] = 2000
    settle: Annotated[
        int,
        Range(2, 1_000_000),
        """Rows at the start and after an alert in which level and spread are learnt and no alert is
        raised; at least two blocks.""",
    ] = 200
    direction: Annotated[
        str,
        OneOf(DIRECTIONS),
        """"both", or alerts only when the loss rises ("up") or falls ("down").""",
    ] = "both"

    def check_together(self) -> None:
        """Refuse memories that are too short, and a detector without river."""
        if self.clip <= self.delta:
            raise ConfigError("clip", self.clip, f"a number > {self.delta:g} and < 1e+06")
        if self.settle < 2 * self.block:
            raise ConfigError("settle", self.settle, f"an integer from {2 * self.block} to 1000000")
        if self.memory < self.settle:
            raise ConfigError("memory", self.memory, f"an integer from {self.settle} to 10000000")
        _page_hinkley()


def parse_drift_spec(values: Mapping[str, Any]) -> DriftSpec:
    """Build a spec from plain values; "drift" may name the detector.

    Raises:
        ConfigError: for an unknown detector or field, a value out of range, or without river.

    Example:
        >>> parse_drift_spec({"drift": "page_hinkley", "delta": "1e0"}).delta
        1.0
    """
    check_choice("drift", values.get("drift", PAGE_HINKLEY), (PAGE_HINKLEY,))
    return spec_from_dict(DriftSpec, values)


class DriftState(NamedTuple):
    """State of a model's detector: 8(block + 19) bytes, however long the stream.

    Attributes:
        pending: (block,) losses of the block that is being filled, zeros behind them.
        reals: (13,) the fields of reals of `_Run`, in their order, then Page-Hinkley's mean,
            sums and extremes.
        counts: (6,) losses pending; `_Run`'s counts, in their order; Page-Hinkley's blocks.
    """

    pending: FloatArray
    reals: FloatArray
    counts: IntArray


@dataclasses.dataclass(frozen=True, slots=True)
class Alerts:
    """Alerts of one call, in the order of the rows.

    Attributes:
        position: (m,) row of the call at which each was raised: the last of its block.
        index: (m,) that row's index in the model.
        before: (m,) mean loss over about the last `memory` rows before the change began, no
            further back than the last alert.
        after: (m,) mean loss from where the change began to the alert.
    """

    position: IntArray
    index: IntArray
    before: FloatArray
    after: FloatArray


def init(spec: DriftSpec) -> DriftState:
    """Make the state of a detector that has seen no row."""
    return _pack(spec, np.zeros(0), _Run(), _machine(spec))


def update(
    spec: DriftSpec, state: DriftState, losses: npt.ArrayLike, index: npt.ArrayLike
) -> tuple[DriftState, Alerts]:
    """Compare the losses of a model's next rows with those before.

    Args:
        spec: The spec that the state was made with.
        state: Not written to.
        losses: Shape (n,), finite, of consecutive rows; what is below zero by rounding counts as
            zero.
        index: Shape (n,), the rows' indexes in the model.

    Returns:
        The new state, and the alerts: the same, bit for bit, however rows are cut into calls.

    Raises:
        ConfigError: if losses are not finite, or the shapes do not agree.

    Cost O(n), about 0.2 µs a row in blocks of 10 (1.6 in blocks of one), and 15 µs a call.

    Example:
        >>> spec = DriftSpec()
        >>> losses = np.repeat([0.1, 0.4, 0.2], 1000)
        >>> _, alerts = update(spec, init(spec), losses, np.arange(3000))
        >>> alerts.index.tolist()
        [1029, 2039]
        >>> alerts.before.round(3).tolist(), alerts.after.round(3).tolist()
        ([0.1, 0.4], [0.4, 0.2])
    """
    rows, numbers = np.asarray(losses, dtype=np.float64), np.asarray(index, dtype=np.int64)
    if rows.ndim != 1 or rows.shape != numbers.shape:
        raise ConfigError("losses", rows.shape, f"of shape (n,), as index: {numbers.shape}")
    if not np.isfinite(rows).all():
        raise ConfigError("losses", "NaN or infinite values", "finite")
    run, machine = _unpack(spec, state)
    waiting = int(state.counts[0])
    whole = np.concatenate([state.pending[:waiting], np.maximum(rows, 0.0)])
    blocks = len(whole) // spec.block
    means = _block_means(whole[: blocks * spec.block].reshape(blocks, spec.block))
    found = []
    for number, (loss, root) in enumerate(
        zip(means.tolist(), np.sqrt(means).tolist(), strict=True)
    ):
        levels = _take(spec, run, machine, loss, root)
        if levels is not None:
            found.append(((number + 1) * spec.block - waiting - 1, *levels))
            run, machine = _Run(usual=run.usual, usual_blocks=run.usual_blocks), _machine(spec)
    at = np.array([place for place, _, _ in found], dtype=np.int64)
    alerts = Alerts(
        at,
        numbers[at],
        np.array([before for _, before, _ in found], dtype=np.float64),
        np.array([after for _, _, after in found], dtype=np.float64),
    )
    return _pack(spec, whole[blocks * spec.block :], run, machine), alerts


def arrays(state: DriftState) -> dict[str, npt.NDArray[Any]]:
    """Return the state's arrays by name, for the codec."""
    return dict(state._asdict())


def from_arrays(spec: DriftSpec, arrays: Mapping[str, npt.NDArray[Any]]) -> DriftState:
    """Make a state of what `arrays` gave.

    Raises:
        ConfigError: for other names or shapes than the spec gives them, or counts that no state
            has.
    """
    state = DriftState(**copies_like("drift", arrays, likes(init(spec)._asdict())))
    check_counts("drift.counts", state.counts, Limit("losses that wait", 0, spec.block - 1))
    usual = float(state.reals[_REALS.index("usual")])
    if usual < 0.0:
        raise ConfigError("drift.reals, usual loss", usual, "at least 0")
    return state


@dataclasses.dataclass(slots=True)
class _Run:
    """What is kept beside Page-Hinkley; all but the usual loss begins anew after an alert."""

    level: float = 0.0
    spread: float = 0.0
    loss: float = 0.0
    usual: float = 0.0
    # Mean losses before and since the lowest sum (a rise began there) and the highest (a fall).
    rise_before: float = 0.0
    rise_after: float = 0.0
    fall_before: float = 0.0
    fall_after: float = 0.0
    blocks: int = 0
    usual_blocks: int = 0
    rise_blocks: int = 0
    fall_blocks: int = 0


_REALS = tuple(f.name for f in dataclasses.fields(_Run) if f.type == "float")
_COUNTS = tuple(f.name for f in dataclasses.fields(_Run) if f.type == "int")
_SUMS = ("_sum_increase", "_sum_decrease", "_min_increase", "_max_decrease")


def _take(
    spec: DriftSpec, run: _Run, machine: Any, loss: float, root: float
) -> tuple[float, float] | None:
    """Take one block: mean loss before and after a change if it raises the alert, else None."""
    run.usual_blocks += 1
    run.usual += (loss - run.usual) / min(run.usual_blocks, USUAL_BLOCKS)
    gap = root - run.level
    watched = run.blocks >= spec.settle // spec.block
    if watched:
        spread = max(MEAN_TO_DEVIATION * run.spread, spec.floor * math.sqrt(run.usual), TINY)
        # The product cannot overflow where the quotient could: the clip is at most 1e6.
        far = abs(gap) >= spec.clip * spread
        machine.update(math.copysign(spec.clip, gap) if far else gap / spread)
        run.rise_blocks += 1
        run.rise_after += (loss - run.rise_after) / run.rise_blocks
        run.fall_blocks += 1
        run.fall_after += (loss - run.fall_after) / run.fall_blocks
        if machine.drift_detected:
            return _levels(spec, run, machine)
    run.blocks += 1
    span = spec.memory // spec.block
    if run.blocks > 1:
        run.spread += (abs(gap) - run.spread) / min(run.blocks - 1, span)
    run.level += gap / min(run.blocks, span)
    run.loss += (loss - run.loss) / min(run.blocks, span)
    if watched:
        # At a new extreme of its sum a change, if one comes, begins with the next block.
        if machine._sum_increase <= machine._min_increase:
            run.rise_before, run.rise_after, run.rise_blocks = run.loss, 0.0, 0
        if machine._sum_decrease >= machine._max_decrease:
            run.fall_before, run.fall_after, run.fall_blocks = run.loss, 0.0, 0
    return None


def _levels(spec: DriftSpec, run: _Run, machine: Any) -> tuple[float, float]:
    """Return mean losses before and after the change that has just raised an alert."""
    rise = machine._sum_increase - machine._min_increase
    fall = machine._max_decrease - machine._sum_decrease
    rising = spec.direction == "up" or (spec.direction == "both" and rise >= fall)
    if rising:
        return run.rise_before, run.rise_after
    return run.fall_before, run.fall_after


def _block_means(table: FloatArray) -> FloatArray:
    """Average each row of (m, block), in an order of additions that does not depend on m."""
    means = np.zeros(len(table))
    if len(table):
        for column in table.T:
            # Divided first: a sum of huge losses could overflow.
            means += column / table.shape[1]
    return means


@lru_cache(maxsize=1)
def _page_hinkley() -> Any:
    """Return river's detector, checked to keep its state where this module writes it."""
    wanted = "run with river installed: pip install 'kerneltrack[drift]'"
    try:
        from river.drift import PageHinkley  # noqa: PLC0415 - an extra, slow to import
    except ImportError as error:
        raise ConfigError("drift", PAGE_HINKLEY, wanted) from error
    machine = PageHinkley()
    if not {"_x_mean", *_SUMS} <= set(vars(machine)) or not {"n", "_mean"} <= set(
        vars(machine._x_mean)
    ):
        raise ConfigError(
            "drift", PAGE_HINKLEY, "run with river 0.22 to 0.26, whose state is known"
        )
    return PageHinkley


def _machine(spec: DriftSpec) -> Any:
    """Make a detector that has seen nothing."""
    # alpha = 1: no fading, which would pull a sum far below zero up and look like a change.
    return _page_hinkley()(
        min_instances=1,
        delta=spec.delta,
        threshold=spec.threshold,
        alpha=1.0,
        mode=spec.direction,
    )


def _pack(spec: DriftSpec, waiting: FloatArray, run: _Run, machine: Any) -> DriftState:
    pending = np.zeros(spec.block)
    pending[: len(waiting)] = waiting
    reals = [getattr(run, name) for name in _REALS] + [machine._x_mean._mean]
    counts = [len(waiting)] + [getattr(run, name) for name in _COUNTS] + [int(machine._x_mean.n)]
    return DriftState(
        pending,
        np.array(reals + [float(getattr(machine, name)) for name in _SUMS]),
        np.array(counts, dtype=np.int64),
    )


def _unpack(spec: DriftSpec, state: DriftState) -> tuple[_Run, Any]:
    reals, counts = state.reals.tolist(), state.counts.tolist()
    values = dict(zip(_REALS, reals, strict=False))
    run = _Run(**values, **dict(zip(_COUNTS, counts[1:], strict=False)))
    machine = _machine(spec)
    machine._x_mean.n = float(counts[-1])
    machine._x_mean._mean = reals[len(_REALS)]
    for name, value in zip(_SUMS, reals[len(_REALS) + 1 :], strict=True):
        setattr(machine, name, value)
    return run, machine
