"""Write the golden bytes of what keyed steps keep: `python -m tests.golden.keyed.make`.

Files that are there already are never written again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from apache_beam.transforms.window import FixedWindows

from kerneltrack import codec
from kerneltrack.fleet.begin import begin
from kerneltrack.fleet.model import Model, Work
from kerneltrack.fleet.restore import decode
from kerneltrack.fleet.run import run_rows
from kerneltrack.fleet.states import encode
from kerneltrack.monitor.drift import DriftSpec
from kerneltrack.monitor.reference import ReferenceSpec
from kerneltrack.trackers import OKFEBSpec
from tests.oracles.streams import walk
from tests.stream.learning import SECOND, SPEC, FeatureTable, Step
from tests.stream.test_learn_state import working
from transforms.learn.late_labels import LateLabels
from transforms.outputs import PREDICTIONS
from transforms.track.clock import CLOCK_VERSION, Clock
from transforms.track.windows import MeasureMismatch

FOLDER = Path(__file__).parent
WORK = Work(
    spec=OKFEBSpec(rank=3, budget=6, warmup=20, novelty_window=100, seed=5),
    hold=10 * SECOND,
    measure=MeasureMismatch(FixedWindows(7), moving=5).in_ns(),
    drift=DriftSpec(settle=20),
    reference=ReferenceSpec(lags=2),
    every=30 * SECOND,
)
CLOCK = Clock(
    newest=90 * SECOND,
    oldest=88 * SECOND,
    waiting=5,
    started=True,
    due=91 * SECOND,
    reach=7200 * SECOND,
    ahead=(10_000 * SECOND, 10_001 * SECOND),
)
BEFORE, AFTER = 60, 20
"""Rows before the bytes and after them; few after, so that rounding stays rounding."""


def tracked() -> tuple[Model, dict[str, Any]]:
    """A model in the middle of windows, and the rows that come next."""
    rows, times = walk(11, BEFORE + AFTER, 3), np.arange(BEFORE + AFTER) * SECOND
    model = begin(WORK, "golden", rows[:20])
    model, _ = run_rows(WORK, "golden", model, rows[:BEFORE], times[:BEFORE], times[BEFORE])
    return model, {"rows": rows[BEFORE:], "times": times[BEFORE:]}


def continued(model: Model, rows: Any, times: Any) -> dict[str, Any]:
    """What further rows give."""
    _, outcome = run_rows(WORK, "golden", model, rows, times, np.inf)
    return {
        "z": outcome.features.z,
        "loss": outcome.features.loss,
        "mismatch": np.array([line.found.value for line in outcome.measured[0]]),
    }


def predicted(data: bytes | None, rest: FeatureTable) -> list[float]:
    """The scores that a learner's step with this state gives the rows that come next."""
    step = Step(SPEC, late=LateLabels(4.0, 30), window=7 * SECOND)
    step.put(data or b"")
    output_text = [element for name, element in step.take(rest.chunk()) if name == PREDICTIONS]
    return [score for _, chunk in output_text for score in chunk.column("score").tolist()]


def main() -> None:
    """Write the bytes, and what goes on from them."""
    clock = FOLDER / f"clock_v{CLOCK_VERSION}.json"
    if not clock.exists():
        clock.write_bytes(CLOCK.encode())
    model_path = FOLDER / f"model_v{codec.VERSION}.safetensors"
    if not model_path.exists():
        model, rest = tracked()
        data = encode(WORK, "golden", model)
        model_path.write_bytes(data)
        found = continued(decode(WORK, data, "golden"), **rest)
        np.savez(model_path.with_suffix(".npz"), **rest, **found)
    learner_path = FOLDER / f"learner_v{codec.VERSION}.safetensors"
    if not learner_path.exists():
        step, table = working(SPEC)
        learner_path.write_bytes(step.kept() or b"")
        np.savez(learner_path.with_suffix(".npz"), score=predicted(step.kept(), table))


if __name__ == "__main__":
    main()
