"""How the end-to-end tests run live jobs, and what they hold them against."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import confluent_kafka
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.cli.main import main
from pipelines.cluster.folder import Folder, load
from tests.e2e.clusters import LocalCluster, make_topics
from tests.e2e.jobs import command, features_of, table_of, track
from tests.e2e.warm import run_warm

CHANNELS = ("ax", "ay", "az", "wx", "wy", "wz")
COLUMNS = ("--model-id", "model_id", "--time", "time", "--label", "label")
SPECS = ("--rank", "4", "--budget", "7", "--warmup", "50", "--learner", "ridge")
PORTIONS = 4
OUTPUT = "out"
CLOSING = 10_000
"""ms after a model's last row at which another one comes, which waits: the others have come out."""


@dataclass(frozen=True)
class Recording:
    """Rows for a live job, and what the file job makes of them.

    Attributes:
        files: One of some models, one of the others.
        portions: All models again, a part of the rows of each.
        rows: Rows of a model that come out.
        features: By the file job, sorted by model and index, each model's last row left out.
        predictions: The same.
    """

    files: tuple[Path, Path]
    portions: tuple[Path, ...]
    rows: int
    features: pa.Table
    predictions: pa.Table

    @property
    def output(self) -> Path:
        """What the file job wrote, of the last rows too."""
        return self.files[0].parent / OUTPUT


def record(sample: Path, folder: Path, rows: int, count: int = PORTIONS) -> Recording:
    """Take the first rows of each model, and one more, later; cut them into so many portions."""
    table = pq.read_table(sample)
    parts = []
    for name in sorted(table.column("model_id").unique().to_pylist()):
        model = table.filter(pa.compute.equal(table.column("model_id"), name)).slice(0, rows)
        last = model.slice(rows - 1).to_pylist()
        last[0]["time"] += np.timedelta64(CLOSING, "ms").astype(object)
        parts.append(pa.concat_tables([model, pa.Table.from_pylist(last, table.schema)]))
    folder.mkdir()
    files = (folder / "some.parquet", folder / "others.parquet")
    pq.write_table(pa.concat_tables(parts[::2]), files[0])
    pq.write_table(pa.concat_tables(parts[1::2]), files[1])
    portions = []
    for number in range(count):
        start, stop = number * rows // count, (number + 1) * rows // count
        # The last one has the closing rows too.
        stop += number + 1 == count
        path = folder / f"portion-{number}.parquet"
        pq.write_table(pa.concat_tables(part.slice(start, stop - start) for part in parts), path)
        portions.append(path)
    output = folder / OUTPUT
    track(*map(str, files), *COLUMNS, *SPECS, "--output", str(output))
    features, predictions = features_of(output), table_of(output, "predictions")
    return Recording(
        files, tuple(portions), rows, settled(features, rows), settled(predictions, rows)
    )


def settled(table: pa.Table, rows: int) -> pa.Table:
    """Leave out what is of the rows from that index on; sorted by model and index."""
    kept = table.filter(pa.compute.less(table.column("index"), rows))
    return kept.sort_by([("model_id", "ascending"), ("index", "ascending")])


@dataclass(frozen=True)
class Live:
    """A live job's commands.

    Attributes:
        cluster: Where it runs.
        topic: Its input; its outputs are called after it.
        form: How messages are written, in and out (for Avro: Arrow out).
    """

    cluster: LocalCluster
    topic: str
    form: str

    @property
    def output_form(self) -> str:
        return "json" if self.form == "json" else "arrow"

    @property
    def place(self) -> tuple[str, str]:
        return ("--cluster", str(self.cluster.folder))

    @property
    def client(self) -> dict[str, Any]:
        cluster = load(Folder(self.cluster.folder))
        assert cluster is not None
        return {"bootstrap.servers": cluster.settings.address("kafka")}

    def make_topic(self, partitions: int) -> None:
        make_topics(self.client, self.topic, partitions=partitions)

    def attached(self, *flags: str) -> list[str]:
        """The command that submits the job and follows it."""
        return command(
            *("stream", *self.place, "--topic", self.topic, "--output-topic", f"{self.topic}-out"),
            *("--create-topics", "--format", self.form, "--output-format", self.output_form),
            *("--features", *CHANNELS, "--time-unit", "ns", "--label", "label"),
            *(() if "--time" in flags else ("--time", "time")),
            *("--idle-flush", "0", *SPECS, *flags),
        )

    def stream(self, *flags: str) -> list[str]:
        """The command that submits the job."""
        return self.attached("--detach", *flags)

    def start(self, *flags: str) -> str:
        """Submit the job, and return Flink's id once it runs."""
        done = run_warm(self.stream(*flags))
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.split("(")[1].split(")")[0]

    @contextmanager
    def running(self, *flags: str) -> Iterator[str]:
        """Run the job; gives Flink's id."""
        job = self.start(*flags)
        try:
            yield job
        finally:
            assert main(["stop", *self.place, job]) == 0

    def replay(self, file: Path, message_rows: int, *flags: str) -> list[str]:
        """What sends a file's rows, less than a second out of order."""
        return [
            *("replay", str(file), *COLUMNS, *self.place, "--topic", self.topic),
            *("--times", "keep", "--disorder", "0.95", "--message-format", self.form),
            *("--message-rows", str(message_rows), *flags),
        ]

    def send(self, file: Path, message_rows: int) -> None:
        """Send a file's rows as fast as it goes."""
        assert main(self.replay(file, message_rows, "--speed", "0")) == 0

    def read(self, output: str, rows: int, folder: Path, idle: float = 100) -> pa.Table:
        """Read so many different rows of an output, or all that come in time.

        That none has two values is checked.
        """
        path = folder / f"{self.topic}{output}.parquet"
        arguments = [
            *("read-output", *self.place, "--topic", f"{self.topic}-out{output}"),
            *("--output-format", self.output_form, "--output", str(path)),
            *("--rows", str(rows), "--idle", str(idle)),
        ]
        assert main(arguments) == 0
        table = pq.read_table(path)
        return table.sort_by([("model_id", "ascending"), ("index", "ascending")])

    def sizes(self, topic: str) -> list[int]:
        """The number of messages in each partition."""
        consumer = confluent_kafka.Consumer({**self.client, "group.id": "sizes"})
        partitions = sorted(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
        places = [confluent_kafka.TopicPartition(topic, number) for number in partitions]
        ends = [consumer.get_watermark_offsets(place, 30) for place in places]
        consumer.close()
        return [high - low for low, high in ends]

    def first_since(self, topic: str, begun: float) -> float | None:
        """When the first message since then was written, both in seconds since 1970."""
        consumer = confluent_kafka.Consumer({**self.client, "group.id": "times"})
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        wanted = [
            confluent_kafka.TopicPartition(topic, number, math.ceil(begun * 1000))
            for number in partitions
        ]
        found = [place for place in consumer.offsets_for_times(wanted, 30) if place.offset >= 0]
        times = []
        for place in found:
            consumer.assign([place])
            message = consumer.poll(30)
            assert message is not None
            times.append(message.timestamp()[1] / 1000)
        consumer.close()
        return min(times, default=None)


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return a column's values; times as nanoseconds, whatever their unit."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ns", column.type.tz)).cast(pa.int64())
    values: list[Any] = column.to_pylist()
    return values


def assert_same_bits(found: pa.Table, wanted: pa.Table, names: Sequence[str]) -> None:
    """Hold columns against each other, reals bit for bit."""
    for name in ("model_id", "index", *names):
        left, right = (_values(table.column(name)) for table in (found, wanted))
        # Equal reals have equal bits but for zeros and NaN: repr tells them apart.
        differ = [
            at
            for at, (a, b) in enumerate(zip(left, right, strict=True))
            if a != b or repr(a) != repr(b)
        ]
        assert differ == [], f"{name} differs first at row {differ[0]}"
