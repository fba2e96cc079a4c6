"""Models of a live job that fall silent and come back, on a real Flink, through a crash."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pyarrow as pa
import pytest

from pipelines.cli.main import main
from tests.e2e.clusters import LocalCluster, wait_for
from tests.e2e.jobs import models_of, table_of, track
from tests.e2e.live import COLUMNS, PORTIONS, Live, Recording, assert_same_bits, record
from tests.e2e.test_stream import FEATURES, PREDICTIONS, assert_same_as_file_job

ROWS = 600
MODELS = 4
KINDS = 2
"""Tracker and learner."""
STATE = b"__metadata__"
"""What each state holds, and nothing else that Flink keeps."""


@pytest.mark.nightly
def test_silent_models_leave_the_state_and_come_back(
    cluster: LocalCluster, sample: Path, tmp_path: Path
) -> None:
    recording = record(sample, tmp_path / "rows", ROWS)
    live = Live(cluster, "expired", "json")
    live.make_topic(2)
    folder = tmp_path / "snapshots"
    savepoints = cluster.folder / "savepoints"

    def states_left() -> int:
        """Stop the job; return how many states its savepoint holds."""
        before = set(savepoints.glob("*"))
        assert main(["stop", *live.place, "--savepoint"]) == 0
        (left,) = set(savepoints.glob("*")) - before
        return sum(path.read_bytes().count(STATE) for path in left.glob("*"))

    snapshots = ("--snapshots", str(folder))
    live.start("--expire-after", "6", *snapshots)
    live.send(recording.portions[0], 5)
    sent = time.time()

    def expired() -> bool:
        files = [path for path in folder.glob("idle/*.idle") if path.stat().st_mtime > sent]
        return len(files) >= MODELS

    wait_for("the models to expire", expired)
    assert states_left() == 0
    kept = sum(STATE in path.read_bytes() for path in folder.glob("idle/*"))
    assert kept >= MODELS
    # The states that went out are snapshots like others.
    assert len(list(folder.glob("*@*.safetensors"))) >= MODELS * KINDS

    with live.running("--resume", "latest", *snapshots):
        # Before a worker's first message, and after it.
        kill_workers(cluster)
        live.send(recording.portions[1], 5)
        live.read("", MODELS * ROWS // PORTIONS, tmp_path)
        kill_workers(cluster)
        for portion in recording.portions[2:]:
            live.send(portion, 5)
        assert_same_as_file_job(live, recording, tmp_path)
    assert_jobs_begin_alike(folder, Live(cluster, "warmed", "json"), recording, tmp_path)


def kill_workers(cluster: LocalCluster) -> None:
    workers = cluster.status()["workers"]
    assert workers
    for pid in workers:
        os.kill(pid, signal.SIGKILL)


def assert_jobs_begin_alike(folder: Path, live: Live, recording: Recording, place: Path) -> None:
    """A live job and a file job that go on from a live job's snapshots give the same bits."""
    warm, rest = ("--warm-start", str(folder)), recording.portions[2:]
    output = place / "warm"
    track(*map(str, rest), *COLUMNS, *warm, "--output", str(output))
    wanted = {name: table_of(output, name) for name in ("features", "predictions")}
    live.make_topic(2)
    with live.running(*warm):
        for portion in rest:
            live.send(portion, 5)
        count = wanted["features"].num_rows - MODELS
        found = {
            "features": live.read("", count, place),
            "predictions": live.read("-predictions", count, place),
        }
    for name, columns in (("features", FEATURES), ("predictions", PREDICTIONS)):
        # The closing rows wait.
        assert_same_bits(found[name], without_last(wanted[name]), columns)


def without_last(table: pa.Table) -> pa.Table:
    """Leave out each model's last row; sorted by model and index."""
    parts = (part.sort_by("index") for part in models_of(table).values())
    return pa.concat_tables(part.slice(0, len(part) - 1) for part in parts)
