"""A made fleet of pumps, two of which break, as the tests of episodes have it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from pipelines.cli.main import main

BROKEN = {"pump-3": ("shift", 1), "pump-7": ("ramp", 0)}
"""Kind and channel of what breaks."""
PUMPS, ROWS, SINCE, CHANNELS = 12, 900, 600, 4
MINUTE = 60_000_000


def fleet() -> pa.Table:
    """Rows of twelve pumps, two of them broken from the 600th row on."""
    tables = []
    for number in range(PUMPS):
        name, rng = f"pump-{number}", np.random.default_rng(100 + number)
        waves = np.sin(np.arange(ROWS)[:, None] / 9 + rng.uniform(0, 6, 2))
        rows = waves @ rng.normal(size=(2, CHANNELS)) + 0.3 * rng.normal(size=(ROWS, CHANNELS))
        kind, channel = BROKEN.get(name, (None, 0))
        size = rows[:512, channel].std()
        if kind == "shift":
            rows[SINCE:, channel] += 5 * size
        elif kind == "ramp":
            rows[SINCE:, channel] += np.linspace(0, 15, ROWS - SINCE) * size
        times = pa.array(np.arange(ROWS) * MINUTE, pa.timestamp("us", "UTC"))
        columns = {f"ch{place}": rows[:, place] for place in range(CHANNELS)}
        tables.append(pa.table({"pump": [name] * ROWS, "time": times, **columns}))
    return pa.concat_tables(tables)


def part(table: pa.Table, start: int, stop: int) -> pa.Table:
    """Rows start..stop of every pump."""
    at = np.tile(np.arange(ROWS), table.num_rows // ROWS)
    return table.filter(pa.array((at >= start) & (at < stop)))


def track(fleet: Path, output: Path, *flags: str) -> int:
    """Track a file of pumps; the exit code."""
    given = ["track", str(fleet), "--model-id", "pump", "--time", "time", "--output", str(output)]
    return main([*given, *flags])
