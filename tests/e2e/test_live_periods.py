"""Periods of a live job: the last that is said of each is what the file job writes of it."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from kerneltrack.monitor.periods.device import NUMBERS
from pipelines.cli.main import main
from pipelines.topics.admin import Topics
from pipelines.topics.read_output import OutputReader
from tests.e2e.clusters import LocalCluster, make_topics, wait_for
from tests.e2e.jobs import command, run_process
from tests.e2e.live import Live
from tests.e2e.test_local_engine import started
from tests.e2e.test_periods import BEGIN, CHANNELS, DAYS, DEVICES, IDS, SMALL, site, table_of
from tests.receivers import HttpServer
from transforms.kafka.send import SETTINGS

HOUR = 3600
DISORDER = 4 * HOUR
LATE = 5
"""Rows of each device that come a day late."""
FLAGS = ("--periods", "day", "--reference", "first", "--warmup", "20", *SMALL[:4])
"""Nearly all rows are the reference's: no device is off."""
Period = tuple[str, str]
"""Device and start."""


class Plant:
    """Ten devices whose rows come up to four hours out of order; some of them a day late."""

    def __init__(self, cluster: LocalCluster, name: str, folder: Path) -> None:
        self.live = Live(cluster, name, "json")
        self.periods, self.devices = f"{name}-out-periods", f"{name}-now"
        make_topics(self.live.client, name, partitions=3)
        table = site()
        rng = np.random.default_rng(8)
        late = np.zeros(len(table), dtype=bool)
        late[rng.choice(len(table) // 2, LATE * DEVICES, replace=False)] = True
        delay = np.where(late, 30, rng.uniform(0, 3.9, len(table))) * HOUR
        seconds = table["time"].cast(pa.int64()).to_numpy() // 1000
        self._arrived = table.take(pa.array(np.argsort(seconds + delay, kind="stable")))
        # Days are over once a row of a later one has run, which those of the last one do not wait
        # for in a file.
        over = (~late) & (seconds < BEGIN + (DAYS - 1) * 24 * HOUR)
        pq.write_table(table.filter(pa.array(over)), folder / "rows.parquet")
        words = ("track", str(folder / "rows.parquet"), *IDS, *FLAGS)
        assert main([*words, "--output", str(folder / "files")]) == 0
        self.output = folder / "files"

    def job(self, *flags: str) -> list[str]:
        return command(
            *("stream", *self.live.place, "--topic", self.live.topic, "--create-topics"),
            *("--output-topic", f"{self.live.topic}-out", "--devices-topic", self.devices),
            *("--max-disorder", str(DISORDER), "--time", "time", "--features", *CHANNELS),
            *("--idle-flush", "0", *FLAGS, *flags),
        )

    def send(self, part: int, parts: int, message_rows: int) -> None:
        start, stop = (at * len(self._arrived) // parts for at in (part, part + 1))
        rows = self._arrived.slice(start, stop - start)
        rows = rows.set_column(1, "time", pc.divide(rows["time"].cast(pa.int64()), 1000))
        producer = confluent_kafka.Producer({**SETTINGS, **self.live.client})
        for name in rows["device"].unique().to_pylist():
            own = rows.filter(pc.equal(rows["device"], name)).drop_columns("device").to_pylist()
            for start in range(0, len(own), message_rows):
                value = json.dumps(own[start : start + message_rows])
                producer.produce(self.live.topic, value, name)
        assert producer.flush(60) == 0

    def said(self) -> Iterator[dict[str, Any]]:
        """All lines of the topic by now, in the order in which they were sent, by period."""
        reader = OutputReader(self.live.client, self.periods, "json")
        while not reader.at_end:
            yield from reader.rows()
        reader.close()

    def last(self) -> dict[Period, dict[str, Any]]:
        return {(line["model_id"], line["start"][:10]): line for line in self.said()}

    def check(self) -> None:
        """Hold all lines against the file job's, and what both say of the devices."""
        wanted = table_of(self.output, "periods").to_pylist()
        wait_for("all days", lambda: len(self.last()) == len(wanted))
        found = self.last()
        for line in wanted:
            own = found[line["model_id"], f"{line['start']:%Y-%m-%d}"]
            assert own["rows"] == line["rows"]
            for name in NUMBERS:
                numbers = [np.nan if each is None else each for each in own[name]]
                assert np.array(numbers).tobytes() == np.array(line[name]).tobytes()
        versions: dict[Period, int] = {}
        for line in self.said():
            at = line["model_id"], line["start"]
            versions[at] = max(versions.get(at, 0), line["version"])
        assert set(versions.values()) == {*range(1, 15)}


def devices(capsys: pytest.CaptureFixture[str], *words: str) -> list[tuple[Any, ...]]:
    capsys.readouterr()
    assert main(["devices", *words, "--json"]) == 0
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    fields = ("model_id", "state", "since", "kind", "channels")
    return [tuple(line[field] for field in fields) for line in lines if line["state"] == "changed"]


def test_the_local_engine_says_what_the_file_job_writes_through_a_kill(
    cluster: LocalCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], server: HttpServer
) -> None:
    plant = Plant(cluster, "periods", tmp_path)
    with started(plant.job("--engine", "local")) as job:
        plant.send(0, 3, 1)
        wait_for("some days", lambda: any(line["version"] > 1 for line in plant.said()))
        job.kill()
    plant.send(1, 3, 7)
    with started(plant.job("--engine", "local", "--resume", "latest")) as job:
        plant.send(2, 3, 20)
        plant.check()
        topics = ("--topic", plant.devices, "--periods-topic", plant.periods)
        found = devices(capsys, *plant.live.place, *topics)
        assert found == devices(capsys, str(plant.output))
        assert [line[:4] for line in found] == [
            ("d3", "changed", "2026-01-19T00:00:00.000000000Z", "by day")
        ]
        for words in ([*plant.live.place, *topics], [str(plant.output)]):
            capsys.readouterr()
            assert main(["devices", *words]) == 0
            shared = "common cause: 6 of 10 devices changed on 2026-01-21: fast lower"
            assert shared in capsys.readouterr().out.splitlines()
        live = (*plant.live.place, "--devices-topic", plant.devices, *topics[2:])
        for number, source in enumerate((live, (str(plant.output),))):
            state = ("--state", str(tmp_path / f"told-{number}"))
            assert main(["notify", *source, *state, "--webhook", server.url]) == 0
        told = [body["summary"] for body in server.bodies if body["kind"] == "by day"]
        assert told == ["d3 differs by day since 2026-01-19 00:00:00 UTC: hot 100 %"] * 2
        job.send_signal(signal.SIGINT)
    assert Topics(plant.live.client).cleanup_policy(plant.periods) == "compact"


@pytest.mark.nightly
def test_flink_says_what_the_file_job_writes_through_a_savepoint(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    plant = Plant(cluster, "periods-flink", tmp_path)
    plant.send(0, 2, 10)
    done = run_process(plant.job("--detach"))
    assert done.returncode == 0, done.stdout + done.stderr
    wait_for("some days", lambda: any(line["version"] > 1 for line in plant.said()))
    assert main(["stop", *plant.live.place, "--savepoint"]) == 0
    done = run_process(plant.job("--detach", "--resume", "latest"))
    assert done.returncode == 0, done.stdout + done.stderr
    plant.send(1, 2, 10)
    plant.check()
    assert main(["stop", *plant.live.place]) == 0
