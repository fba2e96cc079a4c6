"""Runs' folders as a job leaves them, for the report's tests, and what stands in a page."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kerneltrack.learners import RidgeSpec
from pipelines.report import write_report
from transforms.write.schemas import MISMATCH_SCHEMA, TIME, alerts_schema, predictions_schema

START = 1_500_000_000 * 10**9
"""2017-07-14 02:40:00 UTC in ns."""
SECOND = 10**9

HOSTILE = "</script><img src=x onerror=alert(1)>\n\"'&$data ${title} \\ é漢\u2028🙂"


def features(models: dict[str, int], **columns: Any) -> pa.Table:
    """Rows of the models, one after the other; the loss of the k-th model is k + 1 hundredths."""
    index = np.concatenate([np.arange(rows) for rows in models.values()])
    place = np.repeat(np.arange(len(models)), list(models.values()))
    n = len(index)
    table = {
        "model_id": np.array(list(models), dtype=object)[place],
        "index": index,
        "source": pa.array(["in.csv"] * n).dictionary_encode(),
        "row": np.arange(n),
        "loss": (place + 1) / 100,
        "novelty": np.full(n, 0.5),
        "informative": index < 5,
        "evicted": pa.nulls(n, pa.int64()),
        "initial": index < 2,
        "z": pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(2 * n)), 2),
        **columns,
    }
    return pa.table(table)


def random_features(model: str, n: int, seed: int = 0, **columns: Any) -> pa.Table:
    """One model's rows 0..n-1 with random losses and fates; `columns` replace or add."""
    rng, index = np.random.default_rng(seed), np.arange(n)
    evicted = np.where((index >= 15) & (rng.random(n) < 0.5), index - rng.integers(0, 3, n), -1)
    columns = {
        "loss": rng.gamma(2.0, 0.05, n),
        "novelty": rng.random(n),
        "informative": evicted >= 0,
        "evicted": pa.array(evicted, pa.int64(), mask=evicted < 0),
        "initial": index < 10,
        **columns,
    }
    if "time" in columns:
        columns["time"] = times(columns["time"])
    return features({model: n}, **columns)


def run_folder(
    output: Path, table: pa.Table | None, failed: pa.Table | None = None, **run: Any
) -> str:
    """Write a run's output as the job leaves it."""
    output.mkdir(exist_ok=True)
    for folder, part in (("features", table), ("failures", failed)):
        (output / folder).mkdir()
        if part is not None:
            pq.write_table(part, output / folder / "part-0.parquet")
    rows = 0 if table is None else len(table)
    facts = {
        "kerneltrack": "0.1.0",
        "versions": {"python": "3.11"},
        "command": "kerneltrack track in.csv --output out",
        "started": "2026-01-02T03:04:05Z",
        "seconds": {"total": 1.5},
        "inputs": [{"path": "data/in.csv", "rows": rows}],
        "columns": {"model_id": "id", "time": None, "features": ["a", "b", "c"]},
        "tracker": "okfeb",
        "spec": {"rank": 2, "kernel": "gaussian", "censor": {"kind": "fixed", "at": 0.1}},
        "counts": {"rows_in": rows, "rows_out": rows, "rows_failed": 0},
        "failures": {},
        **run,
    }
    (output / "run.json").write_text(json.dumps(facts), encoding="utf-8")
    return str(output)


def page_of(output: str) -> str:
    return Path(write_report(output)).read_text(encoding="utf-8")


def data_of(page: str) -> dict[str, Any]:
    found = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert len(found) == 1
    return cast("dict[str, Any]", json.loads(found[0]))


def text_of(page: str) -> str:
    body = page.partition("<body>")[2].partition('<script type="application/json"')[0]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())


def floats(packed: str) -> list[float]:
    return cast("list[float]", np.frombuffer(base64.b64decode(packed), "<f4").tolist())


def times(values: Sequence[int | None]) -> pa.Array:
    return pa.array(values, pa.int64()).cast(TIME)


def windows(*lines: Mapping[str, Any]) -> pa.Table:
    """Windows of 10 rows and 10 s, of which `lines` name what is different."""
    usual = {
        "model_id": "m",
        "kind": "fixed",
        "start": START,
        "end": START + 10 * SECOND,
        "index": 9,
        "rows": 10,
        "n": 10,
        "mismatch": 0.1,
        "residual": 0.2,
        "trace_bound": 0.2,
        "fitting_bound": 1.0,
        "future_bound": None,
        "complete": True,
    }
    columns: dict[str, Any] = {
        name: [{**usual, **line}[name] for line in lines] for name in MISMATCH_SCHEMA.names
    }
    for name in ("start", "end"):
        columns[name] = times(columns[name])
    return pa.table(columns).cast(MISMATCH_SCHEMA)


def predictions(task: str = "classification", **columns: Any) -> pa.Table:
    """Predictions; `correct` or `error` follow from `prediction` and `label` where both are."""
    timed = "time" in columns
    if timed:
        columns["time"] = times(columns["time"])
    pairs = list(zip(columns["prediction"], columns["label"], strict=True))
    if task == "classification":
        columns["correct"] = [None if None in pair else pair[0] == pair[1] for pair in pairs]
        columns["score"] = columns["margin"] = np.zeros(len(pairs))
    else:
        columns["error"] = [None if None in pair else abs(pair[0] - pair[1]) for pair in pairs]
    schema = predictions_schema(RidgeSpec(task=task), timed)
    return pa.table(
        {name: pa.array(columns[name], schema.field(name).type) for name in schema.names}
    )


def alerts(timed: bool = True, **columns: Any) -> pa.Table:
    if timed:
        columns["time"] = times(columns["time"])
    schema = alerts_schema(timed)
    return pa.table(
        {name: pa.array(columns[name], schema.field(name).type) for name in schema.names}
    )


def put(output: str | Path, folder: str, *tables: pa.Table) -> None:
    """Write the files of one of the folders that a run may have."""
    path = Path(output) / folder
    path.mkdir(exist_ok=True)
    for k, table in enumerate(tables):
        pq.write_table(table, path / f"part-{k:05}-of-{len(tables):05}.parquet")
