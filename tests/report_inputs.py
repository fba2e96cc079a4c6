"""A run of two models with episodes, and the files that it read, for the report's tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from tests.report_runs import SECOND, START, features, put, run_folder
from transforms.read.column_options import ColumnOptions
from transforms.read.look import Input, look_at_files
from transforms.write.schemas import episodes_schema

ROWS, MODELS = 200, ("m", "other")
RUN: dict[str, Any] = {"reference": {"learning": "first"}}


def episode(
    start: int, last: int, shares: list[float], number: int = 1, **fields: Any
) -> dict[str, Any]:
    """A line of an episode of model m; rows are a second apart."""
    line = {
        "model_id": "m",
        "index": last,
        "episode": number,
        "state": "closed",
        "kind": "shift",
        "severity": 10.0,
        "p": 1e-9,
        "start_index": start,
        "detected_index": start + 1,
        "last_index": last,
        "shares": shares,
        "deviations": [None] * len(shares),
        **fields,
    }
    moments = {"time": "index", "start": "start_index", "last": "last_index"}
    moments["detected"] = "detected_index"
    return line | {name: START + line[row] * SECOND for name, row in moments.items()}


def places(rows: int, files: int) -> npt.NDArray[np.int64]:
    """File and number in it of each model's row, shape (models, rows, 2): shuffled, interleaved."""
    order = np.random.default_rng(3).permutation(len(MODELS) * rows)
    size = -(-len(order) // files)
    return np.stack([order // size, order % size], axis=1).reshape(len(MODELS), rows, 2)


def value(model: int, index: npt.NDArray[Any] | int, channel: int) -> Any:
    """A channel's value: large, with digits that a float32 of it would lose."""
    return 1e7 * (model + 1) + index / 16 + 1000 * channel


def made(
    folder: Path, lines: list[dict[str, Any]], rows: int = ROWS, width: int = 3, form: str = "csv"
) -> tuple[str, Input]:
    """A run's folder and the files that it read."""
    files, index = 2, np.arange(rows)
    place = places(rows, files)
    paths = [str(folder / f"in-{number}.{form}") for number in range(files)]
    names = [f"c{channel}" for channel in range(width)]
    for number, path in enumerate(paths):
        count = int(np.sum(place[:, :, 0] == number))
        columns: dict[str, Any] = {"id": np.empty(count, object)}
        columns |= {name: np.empty(count) for name in names}
        for model, name in enumerate(MODELS):
            here = place[model, :, 0] == number
            at = place[model, here, 1]
            columns["id"][at] = name
            for channel, column in enumerate(names):
                columns[column][at] = value(model, index[here], channel)
        table = pa.table(columns)
        if form == "csv":
            pa.csv.write_csv(table, path)
        else:
            pq.write_table(table, path, row_group_size=40)
    flat = place.reshape(-1, 2)
    every = np.tile(index, len(MODELS))
    table = features(
        dict.fromkeys(MODELS, rows),
        source=pa.array([paths[source] for source in flat[:, 0]]).dictionary_encode(),
        row=flat[:, 1],
        time=pa.array(START + every * SECOND).cast(pa.timestamp("ns", "UTC")),
        p=pa.array(np.full(len(every), 0.5)),
    )
    output = run_folder(folder / "out", table, columns={"features": names}, **RUN)
    put(output, "episodes", pa.Table.from_pylist(lines, episodes_schema(True, width)))
    return output, look_at_files(paths, ColumnOptions(model_id="id"))
