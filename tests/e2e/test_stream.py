"""The live job on a real Flink, from a real Kafka: the bytes of the file job, through crashes."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.cli.main import main
from tests.e2e.clusters import LocalCluster
from tests.e2e.jobs import COLUMNS, table_of, track
from tests.e2e.kills import Killer
from tests.e2e.live import CHANNELS, SPECS, Live, Recording, assert_same_bits, record, settled

ROWS = 1500
SEED = 5
FEATURES = ("loss", "novelty", "informative", "initial", "evicted", "z", "label")
ALERTS = ("before", "after")
DRIFT = ("--drift", "--drift-block", "2", "--drift-threshold", "5")
PREDICTIONS = ("prediction", "score", "margin", "label", "correct")
PARTITIONS = 6
"""More than there are models: some stay empty."""


@pytest.fixture(scope="module")
def recording(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return record(sample, tmp_path_factory.mktemp("recording") / "rows", ROWS)


@pytest.fixture(scope="module")
def alerts(recording: Recording, tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    """What the file job says of the loss's changes, each model's last row left out."""
    output = tmp_path_factory.mktemp("alerts") / "files"
    track(*map(str, recording.files), *COLUMNS, *SPECS, *DRIFT, "--output", str(output))
    return settled(table_of(output, "alerts"), recording.rows)


def assert_same_as_file_job(live: Live, recording: Recording, folder: Path) -> None:
    rows = recording.features.num_rows
    assert_same_bits(live.read("", rows, folder), recording.features, FEATURES)
    predictions = live.read("-predictions", rows, folder)
    assert_same_bits(predictions, recording.predictions, PREDICTIONS)
    assert sum(live.sizes(f"{live.topic}-out-dead-letters")) == 0


def doubled(file: Path, folder: Path) -> Path:
    """Write a file that has every row of another one twice."""
    table, path = pq.read_table(file), folder / "doubled.parquet"
    pq.write_table(pa.concat_tables([table, table]), path)
    return path


@pytest.mark.parametrize(
    ("form", "parallelism", "duplicates"),
    # With each change the local engine takes Arrow (test_local_engine.py), by the same steps.
    [("json", 2, "keep"), pytest.param("arrow", 1, "drop", marks=pytest.mark.nightly)],
)
def test_a_live_job_gives_the_bytes_of_the_file_job(
    form: str,
    parallelism: int,
    duplicates: str,
    cluster: LocalCluster,
    recording: Recording,
    alerts: pa.Table,
    tmp_path: Path,
) -> None:
    live = Live(cluster, f"same-{form}", form)
    live.make_topic(PARTITIONS)
    some, others = recording.files
    # One half is there before the job, the other comes while it runs.
    live.send(doubled(some, tmp_path) if duplicates == "drop" else some, 50)
    with live.running(f"--parallelism={parallelism}", "--duplicates", duplicates, *DRIFT):
        live.send(others, 1)
        assert_same_as_file_job(live, recording, tmp_path)
        assert len(alerts) >= 10
        found = live.read("-alerts", len(alerts), tmp_path)
        assert_same_bits(found, alerts, ALERTS)
    assert 0 in live.sizes(live.topic)
    # With more readers than one, those without messages hold up the others.
    log = (cluster.folder / "logs" / "taskmanager.log").read_text()
    readers = re.findall(r"is reading from sources: \[(.*)\]", log)[-parallelism:]
    assert [names.count("@") for names in readers] == [1] * parallelism


def as_long(file: Path, folder: Path) -> Path:
    """Write a file's rows as a row for each value."""
    table, path = pq.read_table(file), folder / f"long-{file.name}"
    others = table.drop_columns(list(CHANNELS))
    parts = [
        others.append_column("metric", pa.array([name] * len(table))).append_column(
            "value", table[name]
        )
        for name in CHANNELS
    ]
    pq.write_table(pa.concat_tables(parts), path)
    return path


@pytest.mark.nightly
def test_a_long_table_gives_the_bytes_of_the_wide_one(
    cluster: LocalCluster, recording: Recording, tmp_path: Path
) -> None:
    live = Live(cluster, "long", "json")
    live.make_topic(PARTITIONS)
    long = ("--metric", "metric", "--value", "value")
    first, second = (as_long(file, tmp_path) for file in recording.files)
    assert main(live.replay(first, 50, *long, "--speed", "0")) == 0
    with live.running("--parallelism=2", *long):
        assert main(live.replay(second, 4, *long, "--speed", "0")) == 0
        assert_same_as_file_job(live, recording, tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("victims", [("worker",), ("worker", "taskmanager", "worker")], ids=len)
def test_killed_workers_lose_and_change_nothing(
    victims: tuple[str, ...], cluster: LocalCluster, recording: Recording, tmp_path: Path
) -> None:
    live = Live(cluster, f"killed-{len(victims)}", "json")
    live.make_topic(PARTITIONS)
    first, *others = recording.portions
    live.send(first, 5)
    with live.running("--checkpointing_interval=500") as job:
        live.read("", 1, tmp_path)
        killer = Killer(live, job, SEED)
        # The last portion has a pause of ten seconds.
        for victim, speed, portion in zip(victims, (0.4, 0.4, 0.8), others, strict=False):
            killer.kill_beneath(victim, portion, speed)
        for portion in others[len(victims) :]:
            live.send(portion, 5)
        assert_same_as_file_job(live, recording, tmp_path)
        assert cluster.ask_flink(f"/jobs/{job}")["state"] == "RUNNING"
