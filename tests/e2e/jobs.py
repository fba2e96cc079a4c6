"""How the end-to-end tests make inputs, run jobs and read what came out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.cli import main

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = ("--model-id", "model_id", "--time", "time", "--label", "label")
SMALL = ("--rank", "4", "--budget", "7", "--warmup", "50")
REALS = ("loss", "novelty", "z", "q", "s")
RESULTS = ("loss", "novelty", "informative", "evicted", "initial", "z")
PLACES = ("source", "row")


def sensor_table(rows: int, models: int = 3, *, width: int = 3, seed: int = 0) -> pa.Table:
    """Rows of several models, interleaved and sorted by time, that change half-way."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, width))
    x[rows // 2 :] = x[rows // 2 :] @ rng.normal(size=(width, width)) + 2
    at = np.arange(rows)
    columns: dict[str, Any] = {
        "model_id": [f"m/{i % models}" for i in range(rows)],
        "time": pa.array(at * 20 + 1_600_000_000_000, pa.timestamp("ms", "UTC")),
        **{f"x{i}": x[:, i] for i in range(width)},
        "label": ["walk" if i < rows // 2 else "run" for i in range(rows)],
    }
    return pa.table(columns)


def write(path: Path, table: pa.Table) -> str:
    pq.write_table(table, path)
    return str(path)


def environment(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        **(changes or {}),
    }


def command(*arguments: str, module: str = "pipelines.cli") -> list[str]:
    return [sys.executable, "-m", module, *arguments]


def run_process(
    arguments: Sequence[str],
    *,
    cwd: Path | None = None,
    changes: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end as a user would."""
    return subprocess.run(
        arguments,
        cwd=cwd,
        env=environment(changes),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )


def track(*arguments: str) -> None:
    """Run `kerneltrack track` in this process; it must succeed."""
    assert main(["track", *arguments]) == 0


def features_of(output: Path) -> pa.Table:
    """All features, sorted by model and index."""
    files = sorted((output / "features").glob("*.parquet"))
    table = pa.concat_tables(pq.read_table(path) for path in files)
    return table.sort_by([("model_id", "ascending"), ("index", "ascending")])


def failures_of(output: Path) -> list[tuple[str | None, str, int, str]]:
    """All failures as (model id, file name, row, reason), sorted by file and row."""
    files = sorted((output / "failures").glob("*.parquet"))
    table = pa.concat_tables(pq.read_table(path) for path in files)
    rows = [
        (row["model_id"], Path(row["source"]).name, row["row"], row["reason"])
        for row in table.to_pylist()
    ]
    return sorted(rows, key=lambda row: row[1:])


def record_of(output: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((output / "run.json").read_text(encoding="utf-8"))
    return record


def array_of(table: pa.Table, name: str) -> npt.NDArray[Any]:
    """A column as a NumPy array, fixed-size lists as a matrix."""
    column = table.column(name).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks else pa.array([], column.type)
    if pa.types.is_fixed_size_list(column.type):
        flat = column.flatten().to_numpy(zero_copy_only=False)
        result: npt.NDArray[Any] = flat.reshape(len(column), column.type.list_size)
        return result
    if name == "evicted":
        column = column.fill_null(-1)
    result = column.to_numpy(zero_copy_only=False)
    return result


def assert_same_features(left: pa.Table, right: pa.Table, ignore: Iterable[str] = ()) -> None:
    """Hold two jobs' features against each other bit for bit."""
    assert left.schema.equals(right.schema)
    assert left.num_rows == right.num_rows
    for name in left.schema.names:
        if name in ignore:
            continue
        a, b = array_of(left, name), array_of(right, name)
        if name in REALS:
            a, b = (np.ascontiguousarray(part).view(np.int64) for part in (a, b))
        differs = np.flatnonzero((a != b).reshape(len(a), -1).any(axis=1))
        assert not len(differs), f"{name} differs first at place {differs[0]} of {len(a)}"


def files_under(folder: Path) -> list[str]:
    """Names of all files below a folder, sorted."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
