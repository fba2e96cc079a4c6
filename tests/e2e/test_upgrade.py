"""A savepoint resumed in code with one more step: the bytes of the job that was never stopped."""

from __future__ import annotations

import re
import resource
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.cli.main import main
from pipelines.live.jobs import JOBS, read_record
from tests.e2e import sources
from tests.e2e.clusters import PATIENCE, LocalCluster, wait_for
from tests.e2e.jobs import (
    command,
    environment,
    features_of,
    models_of,
    nanoseconds,
    run_process,
    table_of,
)
from tests.e2e.live import Live, Recording, assert_same_bits, record
from tests.e2e.sources import Sources
from tests.e2e.test_stream import FEATURES, PREDICTIONS

ROWS = 600
PARTITIONS = 3
DISORDER = 10**9
IDLE_FLUSH = ("--idle-flush", "30")
"""Long enough for all that is sent before it, and short enough to wait for."""
REFUSED_WITHIN = 10.0
"""Seconds of the processor: other processes do not count."""


@pytest.fixture(scope="module")
def recording(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return record(sample, tmp_path_factory.mktemp("recording") / "rows", ROWS)


@contextmanager
def submitted(live: Live, code: Sources, *flags: str) -> Iterator[str]:
    """Run the job as this code has it, and stop it with a savepoint; gives Flink's id."""
    arguments = live.stream(*code.workers(live.cluster), *flags)
    done = run_process(arguments, cwd=code.folder, changes=code.environment)
    assert done.returncode == 0, done.stdout + done.stderr
    job = done.stdout.split("(")[1].split(")")[0]
    try:
        yield job
    finally:
        assert main(["stop", *live.place, job, "--savepoint"]) == 0


def assert_never_restarted(live: Live, job: str) -> None:
    path = f"/jobs/{job}/metrics?get=numRestarts"
    (found,) = wait_for("the count of restarts", lambda: live.cluster.ask_flink(path))
    assert found["value"] == "0"
    assert sum(live.sizes(f"{live.topic}-out-dead-letters")) == 0


def processor_time() -> float:
    """Seconds that the commands which have ended took of the processor."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def say_that_newer_code_wrote(live: Live, job: str) -> None:
    """Let the job's record say that its clocks are of a version to come."""
    path = live.cluster.folder / JOBS / f"{job}.json"
    record = read_record(path)
    replace(record, formats={**record.formats, "clock": 99}).write(path)


def assert_refused(live: Live, reason: str, *flags: str) -> None:
    """`--resume latest` ends at once, and leaves nothing that restarts."""
    begun = processor_time()
    refused = run_process(live.stream("--resume", "latest", *flags))
    assert processor_time() - begun < REFUSED_WITHIN
    assert (refused.returncode, refused.stdout) == (2, "")
    assert re.fullmatch(f"kerneltrack: {reason}\n", refused.stderr)
    states = [job["state"] for job in live.cluster.flink.jobs() if live.topic in job["name"]]
    assert set(states) == {"CANCELED"}


@pytest.mark.nightly
def test_a_quiet_job_goes_on_in_newer_code(
    cluster: LocalCluster, recording: Recording, tmp_path: Path
) -> None:
    """Half of the models send nothing more: their last rows come by the timers that were saved."""
    live = Live(cluster, "quiet", "json")
    live.make_topic(PARTITIONS)
    *before, last = recording.portions
    models = models_of(pq.read_table(last))
    silent, others = tmp_path / "silent.parquet", tmp_path / "others.parquet"
    pq.write_table(pa.concat_tables(list(models.values())[::2]), silent)
    pq.write_table(pa.concat_tables(list(models.values())[1::2]), others)
    sent = [*before, silent]
    rows = models_of(pa.concat_tables(pq.read_table(portion) for portion in sent))
    times = [nanoseconds(table) for table in rows.values()]
    ready = sum(int(np.sum(of_model < of_model.max() - DISORDER)) for of_model in times)
    with submitted(live, Sources(tmp_path / "before"), *IDLE_FLUSH):
        for portion in sent:
            live.send(portion, 5)
        live.read("", ready, tmp_path)
    # The others wait, and so do the timers.
    assert live.read("", ready + 1, tmp_path, idle=3).num_rows == ready
    newer = sources.newer(tmp_path / "after")
    with submitted(live, newer, *IDLE_FLUSH, "--resume", "latest", "--parallelism=2") as job:
        live.send(others, 5)
        wanted = features_of(recording.output)
        assert_same_bits(live.read("", wanted.num_rows, tmp_path), wanted, FEATURES)
        wanted = table_of(recording.output, "predictions")
        wanted = wanted.sort_by([("model_id", "ascending"), ("index", "ascending")])
        found = live.read("-predictions", wanted.num_rows, tmp_path)
        assert_same_bits(found, wanted, PREDICTIONS)
        assert_never_restarted(live, job)
    say_that_newer_code_wrote(live, job)
    reason = r"clock version 99, this code reads version \d+"
    assert_refused(live, rf"file:\S+/savepoint-\S+: other code wrote it: {reason}", *IDLE_FLUSH)


@pytest.mark.nightly
def test_a_job_under_traffic_goes_on_in_newer_code(
    cluster: LocalCluster, recording: Recording, tmp_path: Path
) -> None:
    live = Live(cluster, "traffic", "json")
    live.make_topic(PARTITIONS)
    first, *between, last = recording.portions
    traffic = tmp_path / "feed.parquet"
    pq.write_table(pa.concat_tables(pq.read_table(portion) for portion in between), traffic)
    feeding = command(*live.replay(traffic, 5, "--speed", "0.4"))
    with ExitStack() as stack:
        with submitted(live, Sources(tmp_path / "before")):
            live.send(first, 5)
            live.read("", 1, tmp_path)
            sent = sum(live.sizes(live.topic))
            feed = stack.enter_context(subprocess.Popen(feeding, env=environment()))
            wait_for("its first rows", lambda: sum(live.sizes(live.topic)) > sent)
        assert feed.poll() is None
        reason = r"tracker\.rank = 5: must be 4, as in file:///\S+/savepoint-\S+"
        assert_refused(live, reason, "--rank", "5")
        newer = sources.newer(tmp_path / "after")
        job = stack.enter_context(submitted(live, newer, "--resume", "latest", "--parallelism=2"))
        assert feed.wait(PATIENCE) == 0
        live.send(last, 5)
        rows = recording.features.num_rows
        assert_same_bits(live.read("", rows, tmp_path), recording.features, FEATURES)
        found = live.read("-predictions", rows, tmp_path)
        assert_same_bits(found, recording.predictions, PREDICTIONS)
        assert_never_restarted(live, job)
