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

from kerneltrack import codec
from kerneltrack.in_memory import run_all
from kerneltrack.trackers.common.spec import SubspaceSpec
from pipelines.cli.main import main
from tests.stream.learning import FeatureTable

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = ("--model-id", "model_id", "--time", "time", "--label", "label")
SMALL = ("--rank", "4", "--budget", "7", "--warmup", "50")
REALS = (
    *("loss", "novelty", "z", "q", "s"),
    *("ref_loss", "ref_distance", "ref_score", "ref_settled", "p"),
)
RESULTS = ("loss", "novelty", "informative", "evicted", "initial", "z")
PLACES = ("source", "row")
CHANNELS = ["x0", "x1", "x2"]
CLASSES: dict[str, list[Any]] = {"string": ["still", "walk", "climb"], "int64": [3, 1, 40]}


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


def labelled_table(
    rows: int, kind: str = "string", *, models: int = 3, missing: float = 0.2, seed: int = 0
) -> pa.Table:
    """Sensor rows whose labels can be learned; some are missing, and one class appears late."""
    table = sensor_table(rows, models, seed=seed)
    rng = np.random.default_rng(seed + 1)
    x = matrix(table)
    if kind == "float64":
        values = (np.tanh(x.sum(axis=1)) + 0.1 * rng.normal(size=rows)).tolist()
    else:
        high = x[:, 1] > np.median(x[rows // 2 :, 1])
        codes = np.where(high & (np.arange(rows) > rows * 6 // 10), 2, x[:, 0] > 0)
        values = [CLASSES[kind][code] for code in codes.tolist()]
    absent = rng.random(rows) < missing
    known = [None if gone else value for gone, value in zip(absent, values, strict=True)]
    place = table.schema.get_field_index("label")
    return table.set_column(place, "label", pa.array(known, pa.type_for_alias(kind)))


def matrix(table: pa.Table, names: Sequence[str] = CHANNELS) -> npt.NDArray[np.float64]:
    """The channels, one row each."""
    return np.stack([table.column(name).to_numpy() for name in names], axis=1).astype(np.float64)


def models_of(table: pa.Table) -> dict[str, pa.Table]:
    """Each model's rows, in order."""
    names = table.column("model_id").to_numpy(zero_copy_only=False)
    return {name: table.filter(pa.array(names == name)) for name in sorted(set(names))}


def between(table: pa.Table, start: int | None, stop: int | None) -> pa.Table:
    """The rows of times start <= t < stop, ns."""
    times = nanoseconds(table)
    inside = np.ones(len(times), np.bool_)
    inside &= True if start is None else times >= start
    inside &= True if stop is None else times < stop
    return table.filter(pa.array(inside))


def nanoseconds(table: pa.Table) -> npt.NDArray[np.int64]:
    times: npt.NDArray[np.int64] = (
        table.column("time").cast(pa.timestamp("ns", "UTC")).cast(pa.int64()).to_numpy()
    )
    return times


def learned_from(table: pa.Table, spec: SubspaceSpec, label: bool = True) -> FeatureTable:
    """What the core makes of one model's rows, and the labels beside them."""
    _, features = run_all(spec, matrix(table))
    z = np.array(getattr(features, spec.emit))
    labels = table.column("label").to_pylist() if label else [None] * table.num_rows
    return FeatureTable(nanoseconds(table), z, labels)


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
    patience: float = 300,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end as a user would."""
    return subprocess.run(
        arguments,
        cwd=cwd,
        env=environment(changes),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=patience,
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


def table_of(output: Path, part: str) -> pa.Table:
    """All lines of a part of the output."""
    files = sorted((output / part).glob("*.parquet"))
    return pa.concat_tables(pq.read_table(path) for path in files)


def lines_of(output: Path, part: str) -> dict[str, list[dict[str, Any]]]:
    """The lines by model, times in ns; windows in order of their ends, the total last."""
    table = table_of(output, part)
    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            table = table.set_column(place, field.name, table.column(place).cast(pa.int64()))
    lines: dict[str, list[dict[str, Any]]] = {}
    for line in table.to_pylist():
        lines.setdefault(line.pop("model_id"), []).append(line)
    for of_model in lines.values():
        of_model.sort(key=_place_of_line)
    return dict(sorted(lines.items()))


def _place_of_line(line: dict[str, Any]) -> tuple[Any, ...]:
    ends = line.get("end")
    total = "end" in line and ends is None
    return (line.get("kind", ""), total, ends or 0, line.get("start") or 0, line.get("index", 0))


def index_of(output: Path) -> dict[str, Any]:
    """What is said of the snapshots."""
    text = (output / "snapshots" / "index.json").read_text(encoding="utf-8")
    index: dict[str, Any] = json.loads(text)
    return index


def about(path: Path) -> dict[str, Any]:
    """What a snapshot says of itself."""
    found: dict[str, Any] = codec.read_header(path.read_bytes())["about"]
    return found


def snapshots_of(output: Path) -> dict[str, bytes]:
    """The bytes of the snapshots by name."""
    return {path.name: path.read_bytes() for path in sorted((output / "snapshots").iterdir())}


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
