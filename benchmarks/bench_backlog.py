"""A backlog of one model drains in linear time: seconds against the number of chunks.

    python benchmarks/bench_backlog.py [MOST_CHUNKS]

One model's rows wait as 1,000 to 30,000 chunks of one or ten rows, in order, and run through
`TrackSubspace` on the in-process runner, all at the end of the input (max_disorder = inf) and
along the way (max_disorder = 2 s of rows 20 ms apart). Prints the processor seconds of all threads
and the slope of log(seconds) over log(chunks) by least squares; it should be at most 1.1. The time
of the pipeline with one chunk is taken off: it does not depend on the backlog.
"""

from __future__ import annotations

import gc
import math
import sys
import time
from collections.abc import Sequence

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner

from benchmarks.record import TIMES, Table
from kerneltrack.trackers import OKFEBSpec
from transforms.chunks import Chunk, matrix_column
from transforms.track.order import Order
from transforms.track.transform import FEATURES, TrackSubspace

CHUNKS = (1_000, 3_000, 10_000, 30_000)
STEP = 20_000_000
WIDTH = 6
GOAL = 1.1
RUNS = 2
SPEC = OKFEBSpec(rank=10, budget=15, warmup=20)
"""A short warm-up: its rows leave all at once, which would bend the line at its lower end."""


def backlog(chunks: int, rows: int) -> list[tuple[str, Chunk]]:
    """Make one model's chunks, in order."""
    count = chunks * rows
    x = np.random.default_rng(0).normal(size=(count, WIDTH)).astype(np.float32)
    batch = pa.RecordBatch.from_pydict(
        {
            "time": pa.array(np.arange(count) * STEP),
            "source": pa.array(np.zeros(count, dtype=np.int32)),
            "row": pa.array(np.arange(count)),
            "x": matrix_column(x),
        }
    )
    return [("model", Chunk(batch.slice(start, rows))) for start in range(0, count, rows)]


def drain(chunks: int, rows: int, order: Order) -> float:
    """Run a backlog through the tracker; return the processor seconds."""
    gc.collect()
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([]))
    # Made by the worker: `Create` would pickle and pack every chunk first.
    waiting = (
        pipeline
        | "Start" >> beam.Create([chunks])
        | "Backlog" >> beam.FlatMap(backlog, rows).with_output_types(tuple[str, Chunk])
    )
    tracked = waiting | "TrackSubspace" >> TrackSubspace(SPEC, order)
    counted = (
        tracked[FEATURES]
        | "Rows" >> beam.Map(lambda element: len(element[1]))
        | "Sum" >> beam.CombineGlobally(sum)
    )
    _ = counted | "Check" >> beam.Map(_check, chunks * rows)
    begin = time.process_time()
    pipeline.run().wait_until_finish()
    return time.process_time() - begin


def _check(found: int, expected: int) -> None:
    if found != expected:
        raise ValueError(f"{found} of {expected} rows came out")


def slope(counts: Sequence[int], seconds: Sequence[float]) -> float:
    """Return the slope of log(seconds) over log(counts)."""
    return float(np.polyfit(np.log(counts), np.log(seconds), 1)[0])


def main(most: int) -> int:
    """Measure every setting; return 0 if all drain in linear time."""
    counts = [count for count in CHUNKS if count <= most]
    good = True
    columns = ["max_disorder, s", "rows a chunk", *(f"{n:,} chunks, s" for n in counts), "slope"]
    table = Table("files", "backlog", columns, tolerance=TIMES)
    for max_disorder in (math.inf, 2.0):
        for rows in (1, 10):
            order = Order(max_disorder=max_disorder)
            drain(2, 1000, order)
            # In turns, the best of each: other work on the machine comes and goes.
            rounds = [[drain(count, rows, order) for count in (1, *counts)] for _ in range(RUNS)]
            idle, *seconds = (min(taken) for taken in zip(*rounds, strict=True))
            seconds = [taken - idle for taken in seconds]
            found = slope(counts, seconds)
            good = good and found <= GOAL
            times = [f"{taken:.2f}" for taken in seconds]
            table.add(f"{max_disorder:g}", rows, *times, f"{found:.2f}")
    print("linear" if good else f"NOT LINEAR: a slope above {GOAL}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else CHUNKS[-1]))
