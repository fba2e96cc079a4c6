"""Write the golden snapshots of a new codec version: `python -m tests.golden.make`.

Files of a version that was released are never written again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from kerneltrack import codec
from kerneltrack.trackers import OKFEBSpec, OKFESpec, get_tracker, run_all
from tests.oracles.streams import walk

FOLDER = Path(__file__).parent
SIZES: dict[str, Any] = {"rank": 3, "warmup": 20, "novelty_window": 100, "seed": 5}
SPECS = {
    "okfeb": OKFEBSpec(**SIZES, budget=6, clip=4.0, censor="rate", censor_rate=0.4),
    "okfe": OKFESpec(**SIZES, max_rows=90, kernel="laplacian", rule="nonparametric"),
}
BEFORE, AFTER = 60, 20
"""Rows before the snapshot and after it; few after, so that rounding stays rounding."""


def main() -> None:
    """Write snapshot and continuation of each tracker."""
    rows = walk(11, BEFORE + AFTER, 3)
    for name, spec in SPECS.items():
        state, _ = run_all(spec, rows[:BEFORE])
        _, features = get_tracker(name).update(spec, state, rows[BEFORE:], ("q", "s"))
        stem = FOLDER / f"{name}_v{codec.VERSION}"
        stem.with_suffix(".safetensors").write_bytes(codec.encode(spec, state, {"model": "golden"}))
        np.savez(
            stem.with_suffix(".npz"),
            rows=rows[BEFORE:],
            **{field: getattr(features, field) for field in ("z", "q", "s", "loss", "novelty")},
            **{field: getattr(features, field) for field in ("index", "informative", "evicted")},
        )


if __name__ == "__main__":
    main()
