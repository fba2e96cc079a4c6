"""Drift alerts: when the level of a model's fitting error changes regime.

Losses ℓ of consecutive rows are averaged in blocks; y = √(mean ℓ) of a block is the root mean
square distance of its φ(x) from the subspace. Each block's

    u = (y - level) / max(spread, floor · usual),  clipped to ±clip

goes to Page-Hinkley's test, where level and spread are running averages of y and of
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

Page-Hinkley is river's, number by number, without its fading (alpha = 1), which would pull a sum
far below zero up and look like a change; the compiled loop is `kerneltrack/native/drift.c`. ADWIN
was left out: its window grows with the stream.

Reference: E. S. Page, "Continuous inspection schemes", Biometrika 41, 1954; the test as in J.
Montiel et al., "River: machine learning for streaming data in Python", JMLR 22, 2021.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.errors import ConfigError
from kerneltrack.limits import Limit, check_counts, copies_like, likes
from kerneltrack.native.binding import call
from kerneltrack.settings import OneOf, Range, check_choice
from kerneltrack.specs import Spec, spec_from_dict

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

PAGE_HINKLEY = "page_hinkley"
DIRECTIONS = ("both", "up", "down")


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
        """Refuse memories that are too short."""
        if self.clip <= self.delta:
            raise ConfigError("clip", self.clip, f"a number > {self.delta:g} and < 1e+06")
        if self.settle < 2 * self.block:
            raise ConfigError("settle", self.settle, f"an integer from {2 * self.block} to 1000000")
        if self.memory < self.settle:
            raise ConfigError("memory", self.memory, f"an integer from {self.settle} to 10000000")


def parse_drift_spec(values: Mapping[str, Any]) -> DriftSpec:
    """Build a spec from plain values; "drift" may name the detector.

    Raises:
        ConfigError: for an unknown detector or field, or a value out of range.

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
        reals: (13,) level, spread, mean loss and usual loss of a block; mean losses before and
            since the lowest sum (a rise began there) and the highest (a fall); Page-Hinkley's mean,
            its two sums, the lowest of the one and the highest of the other. All but the usual loss
            begins anew after an alert.
        counts: (6,) losses pending, blocks, blocks in all, blocks since the two extremes, blocks of
            Page-Hinkley's mean.
    """

    pending: FloatArray
    reals: FloatArray
    counts: IntArray


USUAL = 3
"""Place of the usual loss in the state's `reals`."""


class Settings(NamedTuple):
    """A spec as numbers; `direction` is a place in `DIRECTIONS`."""

    block: int
    threshold: float
    delta: float
    clip: float
    floor: float
    memory: int
    settle: int
    direction: int


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
    state = DriftState(np.zeros(spec.block), np.zeros(13), np.zeros(6, dtype=np.int64))
    call("drift_begin", state)
    return state


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

    Cost O(n), about 15 ns a row in blocks of 10 (50 in blocks of one), and 20 µs a call.

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
    after = DriftState(state.pending.copy(), state.reals.copy(), state.counts.copy())
    most = (int(state.counts[0]) + len(rows)) // len(state.pending)
    at, levels = np.zeros(most, dtype=np.int64), np.zeros((2, most))
    found = call(
        "drift_run", _settings_of(spec), after, np.maximum(rows, 0.0), (at, levels[0], levels[1])
    )
    at = at[:found]
    return after, Alerts(at, numbers[at], levels[0, :found], levels[1, :found])


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
    usual = float(state.reals[USUAL])
    if usual < 0.0:
        raise ConfigError("drift.reals, usual loss", usual, "at least 0")
    return state


def _settings_of(spec: DriftSpec) -> Settings:
    return Settings(
        block=spec.block,
        threshold=float(spec.threshold),
        delta=float(spec.delta),
        clip=float(spec.clip),
        floor=float(spec.floor),
        memory=spec.memory,
        settle=spec.settle,
        direction=DIRECTIONS.index(spec.direction),
    )
