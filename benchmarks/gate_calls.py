"""What rows cost that a gate once sent model by model; `bench_rounds --gates` runs both builds.

    python benchmarks/gate_calls.py CASE ROWS

1,000 models have seen 600 rows of six channels; then each gets so many more in one call: by the
block's function where there is one, model by model in builds without. Prints the thread's processor
time, microseconds a model, of the fastest of five calls; in the case "warm start" the models are
read from a job's folder of snapshots in that time, as a job reads them.
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kerneltrack.monitor.reference import ReferenceSpec
from kerneltrack.registry import parse_spec
from kerneltrack.snapshots.folder import SnapshotFolder
from kerneltrack.snapshots.header import packed_state
from kerneltrack.snapshots.packed import PackedWriter

MODELS, FIRST, CHANNELS, TURNS, MISSING = 1_000, 600, 6, 5, 0.01
BEGINS, MINUTE = 1_770_000_000 * 10**9, 60 * 10**9
UNTIL = "2026-02-02T12:00:00"
CASES: dict[str, dict[str, Any]] = {
    "covariance": {"tracker": "covariance"},
    "reference until a time": {"reference": ReferenceSpec(until=UNTIL, rows=256)},
    "gated reference": {"reference": ReferenceSpec(learning="gated", rows=256)},
    "hold": {"hold": 10 * MINUTE},
    "snapshots in between": {"every": 60 * MINUTE},
    "warm start": {},
}


def work_of(works: Any, case: str) -> Any:
    """Return what is done with the rows, of either build's class."""
    fields = dict(CASES[case])
    spec = parse_spec({"tracker": fields.pop("tracker", "okfeb")})
    return works(spec=spec, **fields)


def folder_of(work: Any, keys: list[str], data: list[bytes]) -> Callable[[], SnapshotFolder]:
    """Write snapshots as a file job does; return what opens their folder."""
    folder, name = Path(tempfile.mkdtemp()), "part-00000-of-00001.parquet"
    with (folder / name).open("wb") as handle:
        writer = PackedWriter(handle)
        for key, one in sorted(zip(keys, data, strict=True)):
            writer.add(packed_state(one, key))
        writer.close()
    file = {"name": name, "slots": [0], "models": len(keys), "states": len(keys)}
    about = {"version": 3, "tracker": work.spec.to_dict(), "learner": None}
    text = json.dumps({**about, "slots": 1, "files": [file]})
    (folder / "index.json").write_text(text, encoding="utf-8")
    return lambda: SnapshotFolder(str(folder))


def by_block(case: str, count: int) -> Callable[[], float]:
    """Return what runs the rows as blocks."""
    begin_each: Any = importlib.import_module("kerneltrack.fleet.begin").begin_each
    model_of: Any = importlib.import_module("kerneltrack.fleet.model")
    beside: Any = importlib.import_module("kerneltrack.fleet.models").Models.of
    run_models: Any = importlib.import_module("kerneltrack.fleet.run").run_models
    work, (x, times) = work_of(model_of.Work, case), rows_of(case)
    keys = [str(place) for place in range(MODELS)]
    starts = np.arange(MODELS) * FIRST
    first, until = x[:, :FIRST].reshape(-1, CHANNELS), [-np.inf] * MODELS
    models = begin_each(work, keys, np.nan_to_num(first), starts, starts + FIRST)
    run_models(models, first, np.tile(times[:FIRST], MODELS), starts, starts + FIRST, until)
    each = [models.model(place) for place in range(MODELS)]
    encode: Any = importlib.import_module("kerneltrack.fleet.states").encode
    go_on_each: Any = importlib.import_module("kerneltrack.fleet.restore").go_on_each
    data = [encode(work, key, model) for key, model in zip(keys, each, strict=True)]
    opened = folder_of(work, keys, data)
    later = np.ascontiguousarray(x[:, FIRST : FIRST + count]).reshape(-1, CHANNELS)
    places, now = np.arange(MODELS) * count, np.tile(times[FIRST : FIRST + count], MODELS)

    def call() -> float:
        block = beside(work, keys, each)
        folder = opened()
        begin = time.thread_time()
        if case == "warm start":
            # A block's models come in the order of their names.
            names, snapshots = zip(*folder.trackers(sorted(keys)), strict=True)
            block = beside(work, sorted(keys), go_on_each(work, snapshots, names))
        run_models(block, later, now, places, places + count, until)
        return time.thread_time() - begin

    return call


def one_by_one(case: str, count: int) -> Callable[[], float]:
    """Return what runs them model by model, in a build from before the blocks."""
    model_of: Any = importlib.import_module("transforms.track.model")
    run_rows: Any = importlib.import_module("transforms.track.segments").run_rows
    begin, decode, encode = model_of.begin, model_of.decode, model_of.encode
    work, (x, times) = work_of(model_of.Work, case), rows_of(case)
    keys, models = [str(k) for k in range(MODELS)], []
    for place, key in enumerate(keys):
        model = begin(work, key, np.nan_to_num(x[place, :FIRST]))
        models.append(run_rows(work, key, model, x[place, :FIRST], times[:FIRST], -np.inf)[0])
    data = [encode(work, key, model) for key, model in zip(keys, models, strict=True)]
    opened = folder_of(work, keys, data)
    later, now = x[:, FIRST : FIRST + count], times[FIRST : FIRST + count]

    def call() -> float:
        folder = opened()
        started = time.thread_time()
        for place, key in sorted(enumerate(keys), key=lambda pair: pair[1]):
            model = models[place]
            if case == "warm start":
                model = decode(work, folder.state(key, "tracker"), "a snapshot")
            run_rows(work, key, model, later[place], now, -np.inf)
        return time.thread_time() - started

    return call


def rows_of(case: str) -> tuple[Any, Any]:
    """Return the rows of all models, and their times."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(MODELS, FIRST + 100, CHANNELS))
    if case == "hold":
        x[rng.random(x.shape) < MISSING] = np.nan
        x[:, 0] = 0.0
    return x, BEGINS + MINUTE * np.arange(FIRST + 100)


def main() -> None:
    """Print the fastest call, microseconds a model."""
    case, count = sys.argv[1], int(sys.argv[2])
    try:
        call = by_block(case, count)
    except ImportError:
        call = one_by_one(case, count)
    print(min(call() for _ in range(TURNS)) / MODELS * 1e6)


if __name__ == "__main__":
    main()
