"""Rows in an order of arrival, some of them late: as a file, and as messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import confluent_kafka
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.topics.read_output import OutputReader
from pipelines.topics.replay import Replay
from tests.e2e.jobs import failures_of, features_of
from tests.e2e.live import Live
from transforms.kafka.messages import batch_of, records_of
from transforms.kafka.send import SETTINGS
from transforms.read.column_options import ColumnOptions
from transforms.read.files import ReadChunks

SECOND = 10**9
MAX_DISORDER = 1.0
SHUFFLED = 0.95
"""Seconds that rows come after their turn, less than MAX_DISORDER."""
LATE = 5.0, 10.0
"""Seconds, from and to, that a late row does."""
CLOSING = 20 * SECOND
"""After a model's last row another one comes, which waits: all others have come out."""
SEED = 20_261_121

Late = tuple[str, int]
"""Model and time, ns."""


@dataclass(frozen=True)
class Arrivals:
    """Rows in order of arrival.

    Attributes:
        replay: The rows in order of time.
        order: Their places there, in order of arrival.
        late: Those that come when newer ones of their model have been taken.
    """

    replay: Replay
    order: npt.NDArray[np.int64]
    late: frozenset[Late]

    @property
    def channels(self) -> list[str]:
        return [feature.name for feature in self.replay.columns.features]

    @property
    def models(self) -> list[str]:
        return sorted(set(self.replay.models.tolist()))

    @property
    def rows(self) -> int:
        """How many come out: all but the late and the closing ones."""
        return len(self.order) - len(self.late) - len(self.models)

    def write(self, path: Path) -> None:
        """Write a file whose rows are in order of arrival."""
        table = self.replay.table.take(pa.array(self.order))
        table = table.set_column(
            table.schema.get_field_index("time"),
            "time",
            pa.array(self.replay.times[self.order], pa.timestamp("ns", "UTC")),
        )
        pq.write_table(table, path)

    def messages(self, size: int, form: str) -> Iterator[tuple[str, bytes]]:
        """Give key and value of each message, of up to so many rows, in order of sending."""
        found = []
        models = self.replay.models[self.order]
        for name in self.models:
            (places,) = np.nonzero(models == name)
            for start in range(0, len(places), size):
                part = places[start : start + size]
                found.append((int(part[-1]), name, self.order[part]))
        for _, name, rows in sorted(found, key=lambda message: message[0]):
            yield name, self.replay.value(rows, self.replay.times[rows], form)

    def send(self, live: Live, size: int) -> None:
        """Send all messages to a live job's topic."""
        producer = confluent_kafka.Producer({**SETTINGS, **live.client})
        for name, value in self.messages(size, live.form):
            while True:
                try:
                    producer.produce(live.topic, value, name)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(60) == 0


def arrive(source: Path, rows: int, late: int, folder: Path) -> Arrivals:
    """Take the first rows of each model of a file, and let so many of each come late."""
    table = pq.read_table(source)
    parts = []
    for name in sorted(table.column("model_id").unique().to_pylist()):
        model = table.filter(pa.compute.equal(table.column("model_id"), name)).slice(0, rows)
        last = model.slice(len(model) - 1).to_pylist()
        last[0]["time"] += np.timedelta64(CLOSING, "ns").astype("timedelta64[us]").astype(object)
        parts.append(pa.concat_tables([model, pa.Table.from_pylist(last, table.schema)]))
    folder.mkdir(exist_ok=True)
    path = folder / "in-order.parquet"
    pq.write_table(pa.concat_tables(parts), path)
    replay = Replay(
        ReadChunks(str(path), ColumnOptions(model_id="model_id", time="time", label="label")).input
    )
    times, models = replay.times, replay.models
    random = np.random.default_rng(SEED)
    delay = random.integers(0, round(SHUFFLED * SECOND), len(times))
    for name in sorted(set(models.tolist())):
        # Not where a model begins, and not where no row would be newer by enough.
        candidates = np.flatnonzero(models == name)[rows // 10 : rows * 4 // 5]
        chosen = random.choice(candidates, late, replace=False)
        delay[chosen] = random.uniform(*LATE, late) * SECOND
        closing = np.flatnonzero(models == name)[-1]
        delay[closing] = 0
    order = np.argsort(times + delay, kind="stable")
    return Arrivals(replay, order, frozenset(_late(times[order], models[order])))


def _late(times: npt.NDArray[np.int64], models: npt.NDArray[Any]) -> Iterator[Late]:
    """Go through the rows one by one, each model by its own clock."""
    newest: dict[str, int] = {}
    for time, name in zip(times.tolist(), models.tolist(), strict=True):
        if time < newest.get(name, time) - MAX_DISORDER * SECOND:
            yield name, time
        newest[name] = max(newest.get(name, time), time)


def from_files(output: Path, arrived: Path) -> tuple[pa.Table, set[Late]]:
    """What the file job made of a file of arrivals: features and late rows."""
    table = pq.read_table(arrived, columns=["model_id", "time"])
    names = table.column("model_id").to_pylist()
    times = table.column("time").cast(pa.int64()).to_pylist()
    failures = failures_of(output)
    assert all("late" in reason for *_, reason in failures), failures[:3]
    return features_of(output), {(names[row], times[row]) for _, _, row, _ in failures}


def from_topics(live: Live, rows: int, late: int) -> tuple[pa.Table, set[Late]]:
    """What a live job, whose outputs are Arrow, made of as many rows: features and late rows."""
    reader = OutputReader(live.client, f"{live.topic}-out", "arrow")
    batches: list[pa.RecordBatch] = []
    while sum(batch.num_rows for batch in batches) < rows:
        batches += [batch_of(message.value()) for message in reader.messages()]
    reader.close()
    table = pa.Table.from_batches(batches)
    table = table.sort_by([("model_id", "ascending"), ("index", "ascending")])
    letters = OutputReader(live.client, f"{live.topic}-out-dead-letters", "json")
    found: set[Late] = set()
    while len(found) < late:
        for message in letters.messages():
            found |= set(_rows_of_letter(message, live.form))
    letters.close()
    return table, found


def _rows_of_letter(message: Any, form: str) -> Iterator[Late]:
    headers = dict(message.headers())
    assert b"late" in headers["reason"], headers["reason"]
    value, name = message.value(), message.key().decode()
    if form == "arrow":
        times = batch_of(value).column("time").to_pylist()
    else:
        times = [row["time"] for row in records_of(value, form)]
    for place, _ in json.loads(headers["rows"]):
        yield name, times[place]
