"""What many models cost in one call, and what a call costs beyond its loop.

Three ways over the same rows of the same models, in turns, µs of processor time a model, medians of
rounds: a call of `update` for each model, one of `run` for all with `pack` before it (states go in
and come out), and one of `run` alone (packed states, written to in place). The loop alone, called
with everything laid out, is what none of them can be below.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import kerneltrack as kt
from benchmarks.record import TIMES, Table
from kerneltrack.native.binding import function, laid_out
from kerneltrack.trackers.common.base import loop_of
from kerneltrack.trackers.common.calls import copied
from kerneltrack.trackers.common.loop import NO_TIMES, Pieces, arguments_of

WIDTH, ROUNDS, WARM, GOAL = 6, 5, 60, 3.0
SPECS: tuple[Any, ...] = (
    kt.OKFEBSpec(),
    kt.CovarianceSpec(),
    kt.OANASpec(),
    kt.RowsSpec(rank=WIDTH),
    kt.DSKPCASpec(),
    kt.DSPairSpec(),
    kt.OKFESpec(),
)
CASES = ((1, 1), (1000, 1), (1000, 50))
COSTLY = {"dskpca", "dspair", "okfe"}
"""Their states are large or grow: fewer models."""


def seconds_of(run: Callable[[], object], times: int) -> float:
    """Return the processor time of a run, the mean of so many."""
    begun = time.process_time()
    for _ in range(times):
        run()
    return (time.process_time() - begun) / times


def laid_out_call(tracker: Any, spec: Any, block: Any, pieces: Pieces) -> Callable[[], object]:
    """Return the loop's call with everything laid out; it keeps what it was given."""
    loop, out = loop_of(tracker, spec, True), tracker.room(spec, len(pieces.rows))
    kept = arguments_of(loop, block.words(), pieces._replace(times=NO_TIMES), out)
    packed = [laid_out(argument) for argument in kept]
    run = function(loop.name)
    return lambda: (run(*packed), kept, block)


def measure(spec: Any, models: int, many: int, rows: np.ndarray[Any, Any]) -> list[float]:
    """Return µs a model: alone, together, packed, and the loop."""
    tracker = kt.get_tracker(spec.tracker)
    warm = 20 if spec.tracker == "okfe" else WARM
    begun, _ = tracker.update(spec, tracker.init(spec, rows[:warm]), rows[:warm])
    states = [copied(begun) for _ in range(models)]
    table = np.ascontiguousarray(rows[: models * many])
    stops = np.arange(1, models + 1) * many
    pieces = Pieces(table, stops - many, stops)
    parts = [table[stop - many : stop] for stop in stops.tolist()]

    def alone() -> None:
        for state, part in zip(states, parts, strict=True):
            tracker.update(spec, state, part)

    def together() -> None:
        packed = tracker.pack(spec, states)
        tracker.run(spec, packed, pieces)
        packed.states()

    block = tracker.pack(spec, states)
    ways: list[Callable[[], object]] = [alone, together]
    if not tracker.grows:
        ways.append(lambda: tracker.run(spec, block, pieces))
        ways.append(laid_out_call(tracker, spec, tracker.pack(spec, states), pieces))
    times = max(1, 400 // models // many)
    rounds = [[seconds_of(way, times) for way in ways] for _ in range(ROUNDS)]
    found = [statistics.median(way) / models * 1e6 for way in zip(*rounds, strict=True)]
    return found + [float("nan")] * (4 - len(found))


def main() -> None:
    """Print a line a tracker and case."""
    rows = np.cumsum(np.random.default_rng(0).normal(size=(50_000, WIDTH)), axis=0) % 7
    columns = ["tracker", "models x rows", "each", "together", "packed", "loop"]
    more = ["packed beyond the loop", "as fast as each: together, packed"]
    table = Table("speed", "together", [*columns, *more], tolerance=TIMES)
    for models, most in CASES:
        for spec in SPECS:
            count = min(models, 50) if spec.tracker in COSTLY else models
            alone, each, packed, loop = measure(spec, count, most, rows)
            faster = f"{alone / each:.1f}, {alone / packed:.1f}"
            goal = ""
            if spec.tracker == "covariance" and (models, most) == (1000, 1):
                met = "met" if alone / packed >= GOAL else "missed"
                goal = f" (goal {GOAL:g}: {met})"
            micros = f"{alone:.1f}", f"{each:.1f}", f"{packed:.2f}", f"{loop:.2f}"
            beyond = f"{packed - loop:.2f}"
            table.add(spec.tracker, f"{count:,} x {most}", *micros, beyond, faster + goal)


if __name__ == "__main__":
    main()
