"""Follow devices in a streaming query of Apache Spark, with the step that all jobs share.

    python examples/on_spark.py rows --output out --checkpoint checkpoint --model-id device \
        --time time --features flow heat --max-disorder 60 --idle-flush 600

`rows` is a folder of Parquet files, to which more may come. `out/features`, `out/episodes` and
`out/failures` get a folder for each micro-batch that has some. A query that was stopped or killed
goes on from its checkpoint, and writes a micro-batch that it had not finished once more.

Devices are put into shards. For each shard Spark keeps a map with the packed state of each device.
A micro-batch's rows of a shard travel as one block in Arrow's format; its models are taken from the
map, run together, and are put back. docs/spark.md says how to install pyspark, and what differs.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from apache_beam import pvalue
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from kerneltrack import OKFEBSpec
from kerneltrack.beam import Order, TrackSubspace, episodes_schema, features_schema
from kerneltrack.monitor import ReferenceSpec
from pipelines.local.models import Models
from pipelines.local.store import Saved
from transforms.chunks import Chunk, matrix_column
from transforms.failures import FAILURE_SCHEMA, Failures
from transforms.keyed.timers import standing_at
from transforms.outputs import EPISODES, FAILURES, FEATURES, LATE, SNAPSHOTS
from transforms.track.refusals import late_as_failures

SPEC, REFERENCE = OKFEBSpec(rank=5, budget=10), ReferenceSpec(learning="first")
Schemas = dict[str, pa.Schema]
SHARDS = 8
"""Devices of a shard run together, shards side by side."""
ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def packed(table: pa.Table) -> bytes:
    """Return rows in Arrow's format of streams."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def unpacked(blocks: Iterable[bytes]) -> pa.Table:
    """Return the rows of blocks that `packed` has written."""
    return pa.concat_tables([pa.ipc.open_stream(block).read_all() for block in blocks])


def into_blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Make one row, for Spark, of all rows of a batch that are of one shard."""
    for batch in batches:
        shards = batch.column("shard").to_numpy()
        rows = pa.table(batch).drop_columns("shard")
        own = {each: packed(rows.filter(pa.array(shards == each))) for each in np.unique(shards)}
        yield pa.record_batch({"shard": pa.array([*own], pa.int32()), "block": [*own.values()]})


def out_of_blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give Spark the rows of blocks."""
    for batch in batches:
        for block in batch.column("block"):
            yield from unpacked([block.as_py()]).to_batches()


def chunks_of(table: pa.Table, features: Sequence[str]) -> Iterator[tuple[str, Chunk]]:
    """Yield the rows of each device in order of time, as the step takes them: Spark mixes rows."""
    for name in ("device", "time"):
        if table.column(name).null_count:
            raise ValueError(f"{name}: a row has none, each must have one")
    table = table.sort_by([(name, "ascending") for name in ("device", "time", "row")])
    devices = table.column("device").to_numpy()
    times = table.column("time").cast(pa.timestamp("ns", "UTC")).cast(pa.int64()).to_numpy()
    values = np.stack([table.column(name).to_numpy() for name in features], axis=1)
    columns = times, np.zeros(len(table), np.int32), table.column("row").to_numpy()
    arrays = [*map(pa.array, columns), matrix_column(values)]
    rows = pa.record_batch(arrays, names=["time", "source", "row", "x"])
    edges = np.flatnonzero(devices[1:] != devices[:-1]) + 1
    for start, stop in zip([0, *edges], [*edges, len(table)], strict=True):
        yield devices[start], Chunk(rows.slice(start, stop - start))


class Shard(Models):
    """Models of a shard that a micro-batch needs, taken from Spark's map, and timers they set."""

    def __init__(self, states: Any, devices: Iterable[str]) -> None:
        """Take devices' models from the map; new ones are not in it."""
        super().__init__()
        self._states = states
        self.set_anew: dict[str, float] = {}
        for device in devices:
            if (found := states.getValue((device,))) is not None:
                self.take(Saved(device, self.bundle, bytes(found[0])), "Spark's state")
        self.set_anew.clear()

    def store(self) -> None:
        """Put the models back that have changed."""
        for device in sorted(self.changed):
            if (data := self.save(device).data) is not None:
                self._states.updateValue((device,), (data,))

    def set_timer(self, key: str, name: str, at: float | None) -> None:
        """Note a timer, for Spark too."""
        super().set_timer(key, name, at)
        if at is not None:
            self.set_anew[key] = at


class TrackDevices(StatefulProcessor):
    """The keyed step of kerneltrack, for the devices of a shard."""

    def __init__(self, transform: TrackSubspace, features: Sequence[str], schemas: Schemas) -> None:
        """Keep what is done with rows, the channels' columns and those of the outputs."""
        self._transform, self._features, self._schemas = transform, features, schemas

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Make the step, and name what Spark keeps for it."""
        self._step, self._handle = self._transform.step(), handle
        self._states = handle.getMapState("models", "device string", "state binary")
        self._due = handle.getMapState("due", "device string", "at double")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Any:
        """Run what a micro-batch has brought the devices of a shard."""
        table = unpacked(block for part in rows for block in part["block"])
        chunks = dict(chunks_of(table, self._features))
        yield from self._run(timerValues, chunks, chunks)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        """Run rows that wait for newer ones, of devices that have fallen silent."""
        now = timerValues.getCurrentProcessingTimeInMs() / 1e3
        due = [device for (device,), (at,) in self._due.iterator() if at <= now]
        yield from self._run(timerValues, due, {})

    def _run(
        self, timer_values: Any, devices: Iterable[str], chunks: dict[str, Chunk]
    ) -> Iterator[pd.DataFrame]:
        """Run a block of models; what comes of it is a block of each output."""
        step, models, found = self._step, Shard(self._states, devices), list[Any]()
        # The time of the micro-batch: one that is run again has the same.
        now = timer_values.getCurrentProcessingTimeInMs() / 1e3
        with standing_at(now):
            step.start_bundle()
            for at, device, _ in [] if chunks else list(models.fire(now)):
                self._due.removeKey((device,))
                found += step.fall_silent(device, *models.visit(device), Timestamp.of(at))
            for device, rows in chunks.items():
                found += step.bring((device, rows), *models.visit(device), MIN_TIMESTAMP)
            found += step.finish_bundle()
        models.store()
        for device, at in models.set_anew.items():
            self._due.updateValue((device,), (at,))
        for at in set(models.set_anew.values()):
            self._handle.registerTimer(int(at * 1e3) + 1)
        yield from self._blocks(found)

    def _blocks(self, found: Iterable[Any]) -> Iterator[pd.DataFrame]:
        """Yield outputs of the step, a block each."""
        tables: dict[str, list[pa.Table]] = {}
        for item in found:
            name, value = FEATURES, item
            if isinstance(item, pvalue.TaggedOutput):
                name, value = item.tag, item.value
            value = getattr(value, "value", value)  # without the window that Beam has it in
            if name == LATE:
                name, value = FAILURES, late_as_failures(value)
            if name != SNAPSHOTS:
                tables.setdefault(name, []).append(with_columns(value, self._schemas[name]))
        for name, own in tables.items():
            yield pd.DataFrame({"output": [name], "block": [packed(pa.concat_tables(own))]})


def with_columns(value: tuple[str, Chunk] | Failures, schema: pa.Schema) -> pa.Table:
    """Return rows of an output with the columns of its schema, as Spark has them."""
    own = for_spark(schema)
    if isinstance(value, Failures):
        return pa.table(value.batch).select(own.names)
    device, rows = value[0], value[1].batch
    names = pa.array([device] * len(rows), pa.string())
    columns = {
        name: names if name == "model_id" else rows.column(name).cast(schema.field(name).type)
        for name in own.names
    }
    return pa.table(columns).cast(own)


def for_spark(schema: pa.Schema) -> pa.Schema:
    """Return a schema with the types that Spark has; the source of its rows is left out."""
    kinds = {field.name: field.type for field in schema if field.name != "source"}
    for name, kind in kinds.items():
        if pa.types.is_timestamp(kind):
            kinds[name] = pa.timestamp("us", "UTC")
        elif pa.types.is_fixed_size_list(kind):
            kinds[name] = pa.list_(kind.value_type)
    return pa.schema(kinds)


def tracked(rows: DataFrame, processor: TrackDevices, waits: bool) -> DataFrame:
    """Return what comes of rows, as blocks of outputs.

    Rows have the columns `device`, `time`, `row` (the order of rows of one time) and the channels.
    If some wait for the clock on the wall, Spark runs micro-batches without rows, and never ends.
    """
    sharded = rows.withColumn("shard", f.expr(f"cast(pmod(hash(device), {SHARDS}) as int)"))
    return (
        sharded.mapInArrow(into_blocks, "shard int, block binary")
        .groupBy("shard")
        .transformWithStateInPandas(
            statefulProcessor=processor,
            outputStructType="output string, block binary",
            outputMode="append",
            timeMode="ProcessingTime" if waits else "None",
        )
    )


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", help="folder of Parquet files")
    for name in ("output", "checkpoint", "model-id", "time"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--features", nargs="+", required=True)
    parser.add_argument("--max-disorder", type=float, default=0.0, help="seconds")
    parser.add_argument("--idle-flush", type=float, help="seconds; without: read all files, end")
    parser.add_argument("--files", type=int, default=1000, help="of a micro-batch at most")
    return parser.parse_args()


def session() -> SparkSession:
    """Start Spark in this process, reachable from this machine alone."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.streaming.stateStore.providerClass": ROCKS_DB,
    }
    return SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()


def main() -> None:
    """Run the query until it is stopped; without `--idle-flush`, until all files are read."""
    args = arguments()
    spark = session()
    waits = args.idle_flush is not None
    order = Order(max_disorder=args.max_disorder, idle_flush=args.idle_flush)
    transform = TrackSubspace(SPEC, order, reference=REFERENCE)
    schemas = {
        FEATURES: features_schema(SPEC, None, True, reference=True),
        EPISODES: episodes_schema(True, len(args.features)),
        FAILURES: FAILURE_SCHEMA,
    }
    files = spark.readStream.schema(spark.read.parquet(args.rows).schema)
    rows = files.option("maxFilesPerTrigger", args.files).parquet(args.rows)
    rows = rows.select(
        f.col(args.model_id).cast("string").alias("device"),
        f.col(args.time).cast("timestamp").alias("time"),
        f.col("_metadata.row_index").alias("row"),
        *(f.col(name).cast("double") for name in args.features),
    )

    def write(batch: DataFrame, number: int) -> None:
        """Write a micro-batch; one that comes again takes the place of the first."""
        batch.persist()
        for name, schema in schemas.items():
            found = batch.where(f.col("output") == name)
            if not found.isEmpty():
                columns = from_arrow_schema(for_spark(schema))
                written = found.mapInArrow(out_of_blocks, columns).write
                written.mode("overwrite").parquet(f"{args.output}/{name}/batch={number}")
        batch.unpersist()

    out = tracked(rows, TrackDevices(transform, args.features, schemas), waits)
    query = out.writeStream.foreachBatch(write).option("checkpointLocation", args.checkpoint)
    how = {"processingTime": "1 second"} if waits else {"availableNow": True}
    query.trigger(**how).start().awaitTermination()


if __name__ == "__main__":
    main()
