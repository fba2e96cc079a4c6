"""Which jobs may start, and what they go on from: by the topics that they write."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from kerneltrack.errors import ConfigError
from pipelines.cluster.folder import Cluster, Folder
from pipelines.cluster.java import Java
from pipelines.cluster.resolve import Jars
from pipelines.cluster.settings import ClusterSettings
from pipelines.flink.client import Flink
from pipelines.live.jobs import FORMATS, Place, Record, find_left, refuse_shared

OUTPUTS = {"features": "out", "episodes": "out-episodes", "dead-letters": "letters"}
TRIAL = {"features": "trial", "episodes": "trial-episodes", "dead-letters": "letters"}


@pytest.fixture
def states() -> dict[str, str]:
    """The state of each job on Flink."""
    return {}


@pytest.fixture
def place(tmp_path: Path, states: dict[str, str]) -> Iterator[Place]:
    class Overview(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            jobs = [{"jid": job, "state": state} for job, state in states.items()]
            body = json.dumps({"jobs": jobs}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Overview)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    java, jars = Java(tmp_path / "java", 17), Jars(tmp_path / "jars")
    cluster = Cluster(Folder(tmp_path), ClusterSettings({}, {}), java, jars, {})
    yield Place(Flink(f"127.0.0.1:{server.server_port}"), tmp_path / "jobs", cluster)
    server.shutdown()


def add_job(place: Place, job: str, outputs: dict[str, str], left_at: float | None = None) -> str:
    """Write a job down and, if it left a checkpoint, that; return the address of this."""
    record = Record(job, f"name-{job}", 1.0, "in", "digest", {}, FORMATS, outputs=outputs)
    record.write(place.state / f"{job}.json")
    assert place.cluster is not None
    path = place.cluster.folder / "checkpoints" / job / "chk-7"
    if left_at is not None:
        path.mkdir(parents=True)
        (path / "_metadata").touch()
        os.utime(path / "_metadata", (left_at, left_at))
    return path.as_uri()


def test_no_two_running_jobs_write_to_one_topic(place: Place, states: dict[str, str]) -> None:
    add_job(place, "first", OUTPUTS)
    refuse_shared(place, OUTPUTS, [])
    states["first"] = "RUNNING"
    stop = "kerneltrack stop name-first --cluster live --savepoint"
    for outputs in (OUTPUTS, {**TRIAL, "episodes": "out-episodes"}):
        with pytest.raises(ConfigError, match=f"no running job writes: name-first does .*{stop}"):
            refuse_shared(place, outputs, ["--cluster", "live"])
    refuse_shared(place, TRIAL, [])
    states["first"] = "CANCELED"
    refuse_shared(place, OUTPUTS, [])


def test_the_latest_is_of_a_job_with_these_outputs(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    add_job(place, "older", OUTPUTS, 10.0)
    own = add_job(place, "own", OUTPUTS, 20.0)
    trial = add_job(place, "trial", TRIAL, 30.0)
    for resume in ("latest", "auto"):
        left = find_left(place, resume, "in", OUTPUTS)
        assert left is not None
        assert (left.path, left.record.job) == (own, "own")
        said = capsys.readouterr().out
        assert f"{trial} is of job name-trial, which writes to other topics (trial, trial-" in said
    # A topic that was added is no other one.
    left = find_left(place, "latest", "in", {**OUTPUTS, "devices": "out-devices"})
    assert left is not None
    assert left.path == own
    left = find_left(place, "latest", "in", TRIAL)
    assert left is not None
    assert left.path == trial
    assert "job name-own" not in capsys.readouterr().out


def test_nothing_left_of_these_outputs(place: Place) -> None:
    with pytest.raises(ConfigError, match="no job of in has left anything here"):
        find_left(place, "latest", "in", OUTPUTS)
    assert find_left(place, "auto", "in", OUTPUTS) is None
    trial = add_job(place, "trial", TRIAL, 30.0)
    with pytest.raises(ConfigError, match=f"PATH: {trial} is of job name-trial.*trial-episodes"):
        find_left(place, "latest", "in", OUTPUTS)
    assert find_left(place, "auto", "in", OUTPUTS) is None


def test_auto_does_not_begin_anew_where_nothing_can_be_looked_for(place: Place) -> None:
    elsewhere = Place(place.flink, place.state, None)
    with pytest.raises(ConfigError, match="--resume = 'auto': must be PATH"):
        find_left(elsewhere, "auto", "in", OUTPUTS)
