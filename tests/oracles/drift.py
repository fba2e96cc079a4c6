"""Drift alerts block by block in Python with river's Page-Hinkley: the very same arithmetic."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt
from river.drift import PageHinkley

from kerneltrack.monitor.drift import DriftSpec, DriftState

Array = npt.NDArray[np.float64]


@dataclasses.dataclass
class Run:
    """What is kept beside Page-Hinkley; all but the usual loss begins anew after an alert."""

    level: float = 0.0
    spread: float = 0.0
    loss: float = 0.0
    usual: float = 0.0
    rise_before: float = 0.0
    rise_after: float = 0.0
    fall_before: float = 0.0
    fall_after: float = 0.0
    blocks: int = 0
    usual_blocks: int = 0
    rise_blocks: int = 0
    fall_blocks: int = 0


def run(spec: DriftSpec, losses: Array) -> tuple[DriftState, list[tuple[int, float, float]]]:
    """A new detector's state after all losses, and position, before and after of its alerts."""
    kept, machine, found = Run(), detector(spec), []
    blocks = len(losses) // spec.block
    for number in range(blocks):
        loss = 0.0
        for value in losses[number * spec.block : (number + 1) * spec.block].tolist():
            loss += value / spec.block
        levels = take(spec, kept, machine, loss)
        if levels is not None:
            found.append(((number + 1) * spec.block - 1, *levels))
            kept = Run(usual=kept.usual, usual_blocks=kept.usual_blocks)
            machine = detector(spec)
    return state_of(spec, losses[blocks * spec.block :], kept, machine), found


def detector(spec: DriftSpec) -> Any:
    return PageHinkley(
        min_instances=1,
        delta=spec.delta,
        threshold=spec.threshold,
        alpha=1.0,
        mode=spec.direction,
    )


def take(spec: DriftSpec, run: Run, machine: Any, loss: float) -> tuple[float, float] | None:
    """One block: mean loss before and after a change if it raises the alert, else None."""
    run.usual_blocks += 1
    run.usual += (loss - run.usual) / min(run.usual_blocks, 5000)
    gap = math.sqrt(loss) - run.level
    watched = run.blocks >= spec.settle // spec.block
    if watched:
        spread = max(1.2533 * run.spread, spec.floor * math.sqrt(run.usual), 1e-300)
        far = abs(gap) >= spec.clip * spread
        machine.update(math.copysign(spec.clip, gap) if far else gap / spread)
        run.rise_blocks += 1
        run.rise_after += (loss - run.rise_after) / run.rise_blocks
        run.fall_blocks += 1
        run.fall_after += (loss - run.fall_after) / run.fall_blocks
        if machine.drift_detected:
            rise = machine._sum_increase - machine._min_increase
            fall = machine._max_decrease - machine._sum_decrease
            if spec.direction == "up" or (spec.direction == "both" and rise >= fall):
                return run.rise_before, run.rise_after
            return run.fall_before, run.fall_after
    run.blocks += 1
    span = spec.memory // spec.block
    if run.blocks > 1:
        run.spread += (abs(gap) - run.spread) / min(run.blocks - 1, span)
    run.level += gap / min(run.blocks, span)
    run.loss += (loss - run.loss) / min(run.blocks, span)
    if watched:
        if machine._sum_increase <= machine._min_increase:
            run.rise_before, run.rise_after, run.rise_blocks = run.loss, 0.0, 0
        if machine._sum_decrease >= machine._max_decrease:
            run.fall_before, run.fall_after, run.fall_blocks = run.loss, 0.0, 0
    return None


def state_of(spec: DriftSpec, waiting: Array, run: Run, machine: Any) -> DriftState:
    pending = np.zeros(spec.block)
    pending[: len(waiting)] = waiting
    kept = dataclasses.asdict(run)
    reals = [value for value in kept.values() if isinstance(value, float)]
    counts = [value for value in kept.values() if isinstance(value, int)]
    sums = ("_sum_increase", "_sum_decrease", "_min_increase", "_max_decrease")
    return DriftState(
        pending,
        np.array([*reals, machine._x_mean.get(), *(float(getattr(machine, s)) for s in sums)]),
        np.array([len(waiting), *counts, int(machine._x_mean.n)], dtype=np.int64),
    )
