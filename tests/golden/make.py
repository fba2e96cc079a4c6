"""Write the golden snapshots of a new codec version: `python -m tests.golden.make`.

Files that are there already are never written again. Where they fit no more, `codec.VERSION` has
to rise, so that states of earlier builds are refused by their version.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from kerneltrack import codec
from kerneltrack.in_memory import learn_all, run_all
from kerneltrack.learners import (
    AutoSpec,
    BSGDSpec,
    FOGDSpec,
    HingeSpec,
    LearnerSpec,
    LMSSpec,
    LogisticSpec,
    NOLANASpec,
    PASpec,
    PegasosSpec,
    POLKSpec,
    RidgeSpec,
)
from kerneltrack.registry import get_learner, get_tracker
from kerneltrack.trackers import CovarianceSpec, OANASpec, OKFEBSpec, OKFESpec, RowsSpec
from tests.oracles.streams import walk

FOLDER = Path(__file__).parent
SIZES: dict[str, Any] = {"rank": 3, "warmup": 20, "novelty_window": 100, "seed": 5}
SPECS = {
    "okfeb": OKFEBSpec(**SIZES, budget=6, clip=4.0, censor="rate", censor_rate=0.4),
    "okfe": OKFESpec(**SIZES, max_rows=90, kernel="laplacian", rule="nonparametric"),
    "covariance": CovarianceSpec(**SIZES, budget=6, clip=4.0, admission="leverage", halflife=40.0),
    "oana": OANASpec(**SIZES, budget=6, clip=4.0, threshold=0.2),
    "rows": RowsSpec(**SIZES, clip=4.0),
}
LEARNERS: dict[str, LearnerSpec] = {
    "auto": AutoSpec(budget=8, window=40, inputs="both"),
    "auto_targets": AutoSpec(
        task="regression", budget=8, window=40, forgetting=0.99, inputs="both"
    ),
    "ridge": RidgeSpec(forgetting=0.99),
    "ridge_targets": RidgeSpec(task="regression", bias=False),
    "logistic": LogisticSpec(ridge=1e-3),
    "hinge": HingeSpec(decay_rows=50),
    "pegasos": PegasosSpec(project=True),
    "lms": LMSSpec(),
    "pa": PASpec(variant="pa2"),
    "bsgd": BSGDSpec(warmup=20, budget=8, maintenance="projection"),
    "bsgd_merging": BSGDSpec(gamma=3.0, budget=8),
    "nolana": NOLANASpec(gamma=3.0, budget=8, rank=5, threshold=0.5),
    "fogd": FOGDSpec(warmup=20, budget=30),
    "polk": POLKSpec(warmup=20, budget=12, batch=3),
    "ridge_sets": RidgeSpec(intervals=0.9),
    "lms_intervals": LMSSpec(task="regression", intervals=0.9),
    "polk_targets": POLKSpec(task="regression", gamma=3.0, budget=12),
}
BEFORE, AFTER = 60, 20
"""Rows before the snapshot and after it; few after, so that rounding stays rounding."""


FIELDS = ("z", "q", "s", "loss", "novelty", "index", "informative", "evicted")


def main() -> None:
    """Write snapshot and continuation of each tracker and learner."""
    for name, spec in SPECS.items():
        stem = FOLDER / f"{name}_v{codec.VERSION}"
        if not stem.with_suffix(".safetensors").exists():
            write_tracker(stem, spec)
    for name, learner_spec in LEARNERS.items():
        stem = FOLDER / "learners" / f"{name}_v{codec.VERSION}"
        if not stem.with_suffix(".safetensors").exists():
            write_learner(stem, learner_spec)


def write_tracker(stem: Path, spec: Any) -> None:
    rows = walk(11, BEFORE + AFTER, 3)
    state, _ = run_all(spec, rows[:BEFORE])
    _, features = get_tracker(spec.tracker).update(spec, state, rows[BEFORE:], ("q", "s"))
    stem.with_suffix(".safetensors").write_bytes(codec.encode(spec, state, {"model": "golden"}))
    np.savez(
        stem.with_suffix(".npz"),
        rows=rows[BEFORE:],
        **{field: each for field in FIELDS if (each := getattr(features, field)) is not None},
    )


def write_learner(stem: Path, spec: LearnerSpec) -> None:
    rows = np.random.default_rng(12).normal(size=(BEFORE + AFTER, 3))
    labels: Any = np.array(["up", "down", "é"])[np.argmax(rows, axis=1)]
    if not spec.classifies:
        labels = rows @ [1.0, -2.0, 0.5]
    state, _ = learn_all(spec, rows[:BEFORE], labels[:BEFORE])
    _, output_text = get_learner(spec.learner).update(spec, state, rows[BEFORE:], labels[BEFORE:])
    extras = {"waiting": np.array([[0.5, -1.0]])}
    data = codec.encode_learner(spec, state, {"model": "golden"}, extras)
    stem.with_suffix(".safetensors").write_bytes(data)
    values = {name: getattr(output_text, name) for name in ("score", "margin", "value", "error")}
    np.savez(
        stem.with_suffix(".npz"),
        rows=rows[BEFORE:],
        labels=labels[BEFORE:],
        names=np.array(output_text.names, dtype=str),
        **{name: array for name, array in values.items() if array is not None},
    )


if __name__ == "__main__":
    main()
