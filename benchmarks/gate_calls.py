"""What rows cost that a gate once sent model by model; `bench_rounds --gates` runs both builds.

    python benchmarks/gate_calls.py CASE ROWS

1,000 models have seen 600 rows of six channels; then each gets so many more in one call: by the
block's function where there is one, model by model in builds without. Prints the thread's processor
time, microseconds a model, of the fastest of five calls; in the case "warm start" the models are
read from their snapshots' bytes in that time.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from kerneltrack.monitor.reference import ReferenceSpec
from kerneltrack.registry import parse_spec

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
    data = [model_of.encode(work, key, model) for key, model in zip(keys, each, strict=True)]
    later = np.ascontiguousarray(x[:, FIRST : FIRST + count]).reshape(-1, CHANNELS)
    places, now = np.arange(MODELS) * count, np.tile(times[FIRST : FIRST + count], MODELS)

    def call() -> float:
        block = beside(work, keys, each)
        begin = time.thread_time()
        if case == "warm start":
            block = beside(work, keys, [model_of.decode(work, one, "a snapshot") for one in data])
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
    later, now = x[:, FIRST : FIRST + count], times[FIRST : FIRST + count]

    def call() -> float:
        started = time.thread_time()
        for place, key in enumerate(keys):
            model = models[place]
            if case == "warm start":
                model = decode(work, data[place], "a snapshot")
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
