"""Delayed labels from a topic: rows are settled as in the file job with a file of labels.

With each change in one process, each night on Flink.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.cli.main import main
from pipelines.topics.read_output import OutputReader
from tests.e2e.clusters import LocalCluster, make_topics, wait_for
from tests.e2e.jobs import command, models_of, nanoseconds, run_process, table_of, track
from tests.e2e.live import CHANNELS, SPECS, Live, assert_same_bits
from tests.e2e.test_local_engine import started
from tests.parts import lanes

SECOND = 10**9
ROWS, WAIT, DISORDER = 600, 2, SECOND
PARTITIONS = 2
LABELLED = ("--label-column", "label", "--label-wait", str(WAIT))
SETTLED = ("prediction", "score", "margin", "label", "correct")


def first_rows(sample: Path) -> pa.Table:
    """Rows of each model, without labels."""
    table = pq.read_table(sample)
    names = sorted(table.column("model_id").unique().to_pylist())
    return pa.concat_tables(
        table.filter(pa.compute.equal(table.column("model_id"), name)).slice(0, ROWS)
        for name in names
    )


def send(live: Live, table: pa.Table) -> None:
    """Send every second row's label; what is no label comes last in each partition."""
    producer = confluent_kafka.Producer(live.client)
    times = table.column("time").cast(pa.timestamp("ns")).cast(pa.int64()).to_pylist()
    models, labels = (table.column(name).to_pylist() for name in ("model_id", "label"))
    for model, time, label in [*zip(models, times, labels, strict=True)][::2]:
        value = json.dumps({"time": time, "label": label})
        producer.produce(f"{live.topic}-labels", value.encode(), model.encode())
    for partition in range(PARTITIONS):
        producer.produce(f"{live.topic}-labels", b"no label", b"subject-01", partition)
    assert producer.flush(60) == 0


def settled(times: npt.NDArray[np.int64]) -> int:
    """How many rows of a model are past their deadline when its last row came."""
    taken = times[times < times.max() - DISORDER]
    return int(np.sum(times + WAIT * SECOND <= taken.max()))


@contextmanager
def running(engine: str, live: Live, *flags: str) -> Iterator[None]:
    """Run the job."""
    if engine == "flink":
        done = run_process(command(*flags, "--detach"))
        assert done.returncode == 0, done.stdout + done.stderr
        try:
            yield
        finally:
            assert main(["stop", *live.place, done.stdout.split("(")[1].split(")")[0]]) == 0
        return
    with started(command(*flags, "--engine", "local")):
        yield


def letters(live: Live) -> int:
    """How many messages have been refused by now."""
    reader = OutputReader(live.client, f"{live.topic}-out-dead-letters", "json")
    count = 0
    while not reader.at_end:
        count += sum(1 for _ in reader.rows())
    reader.close()
    return count


@pytest.mark.parametrize("engine", lanes("local", "flink"))
def test_labels_from_a_topic_are_learned_as_those_of_a_file(
    engine: str, cluster: LocalCluster, sample: Path, tmp_path: Path
) -> None:
    table = first_rows(sample)
    rows, labels, output = tmp_path / "rows.parquet", tmp_path / "labels.parquet", tmp_path / "out"
    pq.write_table(table.drop_columns(["label"]), rows)
    named = table.select(["model_id", "time", "label"])
    pq.write_table(named.take(pa.array(np.arange(0, len(named), 2))), labels)
    columns = ("--model-id", "model_id", "--time", "time")
    track(
        *(str(rows), *columns, "--labels", str(labels), *LABELLED, *SPECS),
        *("--output", str(output)),
    )

    live = Live(cluster, f"delayed-{engine}", "json")
    for topic in (live.topic, f"{live.topic}-labels"):
        make_topics(live.client, topic, partitions=PARTITIONS)
    job = (
        *("stream", *live.place, "--topic", live.topic, "--output-topic", f"{live.topic}-out"),
        *("--labels-topic", f"{live.topic}-labels", "--create-topics"),
        *("--features", *CHANNELS, "--time", "time", "--time-unit", "ns"),
        *("--idle-flush", "0", *LABELLED, *SPECS),
    )
    with running(engine, live, *job):
        send(live, table)
        # A message that is no label is a dead letter of its own topic; labels come before it.
        wait_for("all labels", lambda: letters(live) == PARTITIONS)
        words = ["replay", str(rows), *columns, *live.place, "--topic", live.topic]
        words += ["--times", "keep", "--speed", "0", "--message-rows", "5"]
        assert main(words) == 0
        predicted = table_of(output, "predictions").sort_by("index")
        wanted = pa.concat_tables(
            model.slice(0, settled(nanoseconds(model))) for model in models_of(predicted).values()
        ).sort_by([("model_id", "ascending"), ("index", "ascending")])
        assert len(wanted) > ROWS
        found = live.read("-scored", len(wanted), tmp_path)
        assert_same_bits(found, wanted, SETTLED)
        assert found.column("correct").null_count < len(found)
        assert letters(live) == PARTITIONS
