"""Where and with what a live job begins, and one that is followed until Ctrl-C, on Flink."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import confluent_kafka
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import AdminClient

from kerneltrack.trackers import OKFEB, OKFEBSpec
from kerneltrack.trackers.common.start import start_from
from pipelines import landmark_file
from pipelines.cli.main import main
from pipelines.topics.read_output import OutputReader
from tests.e2e.clusters import PATIENCE, LocalCluster, wait_for
from tests.e2e.jobs import command, environment, run_process
from tests.e2e.live import CHANNELS, Live
from tests.e2e.warm import Warm, run_warm

START = 1_600_000_000_000
ROWS = 200
FROM = 120
FLAGS = ("--max-disorder", "0", "--time", "")
"""Rows come out as they come in; their time is the record's."""


def row(at: int) -> dict[str, float]:
    """Return a row's features by name."""
    return {name: float((at * 7 % 11) + number) for number, name in enumerate(CHANNELS)}


def send(live: Live, first: int, last: int) -> None:
    """Send rows, one a message, a second apart."""
    producer = confluent_kafka.Producer(live.client)
    for at in range(first, last):
        value = json.dumps({**row(at), "label": "x"})
        producer.produce(live.topic, value, b"m", timestamp=START + at * 1000)
    assert producer.flush(60) == 0


Rows = dict[int, dict[str, Any]]


def rows_out(live: Live, enough: Callable[[Rows], bool]) -> Rows:
    """The rows that have come out, by their offsets, once there are enough."""
    reader = OutputReader(live.client, f"{live.topic}-out", "json")
    found: Rows = {}

    def look() -> bool:
        found.update((row["offset"], row) for row in reader.rows())
        return enough(found)

    wait_for("rows", look)
    reader.close()
    return found


def losses_after(marks: str) -> list[float]:
    """The losses of a model's rows from `FROM` on, by the core alone, begun from landmarks."""
    spec = OKFEBSpec(rank=4, budget=7, warmup=50)
    state = start_from(spec, landmark_file.decode(Path(marks).read_bytes(), marks), "m")
    x = np.array([list(row(at).values()) for at in range(FROM, ROWS)], dtype=np.float32)
    _, features = OKFEB().update(spec, state, x)
    return [float(loss) for loss in features.loss]


def test_they_begin_where_and_with_what_they_are_told(
    cluster: LocalCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = pa.Table.from_pylist([row(at) for at in range(FROM)])
    pq.write_table(rows, tmp_path / "rows.parquet")
    marks = str(tmp_path / "marks.safetensors")
    chosen = ("--method", "uniform", "--count", "7", "--rank", "4", "--features", *CHANNELS)
    assert main(["landmarks", str(tmp_path / "rows.parquet"), *chosen, "--output", marks]) == 0
    # Between two messages.
    moment = datetime.fromtimestamp((START + FROM * 1000 - 500) / 1000, timezone.utc)
    timed, latest = (Live(cluster, f"from-{where}", "json") for where in ("time", "latest"))
    for live in (timed, latest):
        live.make_topic(1)
        send(live, 0, ROWS)
    with ThreadPoolExecutor(2) as both:
        never = f"--checkpointing_interval={24 * 3600 * 1000}"
        starts = (
            (timed, moment.isoformat(), ("--start-from", marks, never)),
            (latest, "latest", ()),
        )
        jobs = [
            both.submit(live.start, "--from", begin, *FLAGS, *more) for live, begin, more in starts
        ]
    try:
        ids = {job.result() for job in jobs}
        twice = run_warm(timed.stream())
        assert (twice.returncode, twice.stdout) == (2, "")
        assert re.search(r"no running job writes: \S+ does \(.*kerneltrack stop ", twice.stderr)
        unclear = run_process(command("stop", *timed.place))
        assert unclear.returncode == 2
        assert unclear.stderr.startswith("kerneltrack: several jobs run, choose a JOB: ")
        assert set(re.findall(r"\((\w{32})\)", unclear.stderr)) == ids
        found = rows_out(timed, lambda found: len(found) >= ROWS - FROM)
        assert sorted(found) == list(range(FROM, ROWS))
        assert [found[at]["loss"] for at in range(FROM, ROWS)] == losses_after(marks)
        sent = ROWS

        def more(found: Rows) -> bool:
            nonlocal sent
            if not found:
                # It begins at some time after Flink says that it runs.
                send(latest, sent, sent + 100)
                sent += 100
            return bool(found)

        assert min(rows_out(latest, more)) >= ROWS
    finally:
        output_text = []
        for job in jobs:
            capsys.readouterr()
            assert main(["stop", *timed.place, job.result()]) == 0
            output_text.append(capsys.readouterr().out)
    without = "was cancelled, without a savepoint"
    assert f"{without} or a checkpoint: there is nothing to go on from\n" in output_text[0]
    assert f"{without}; go on from its last checkpoint with --resume latest\n" in output_text[1]


def test_one_that_is_followed_says_how_it_gets_on_and_stops_at_ctrl_c(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    live = Live(cluster, "followed", "json")
    live.make_topic(1)
    send(live, 0, ROWS)
    whole = live.stream("--from", f"0:{FROM}", *FLAGS, "--progress")
    shown = tmp_path / "shown"
    with shown.open("wb") as output:
        job = Warm(
            [word for word in whole if word != "--detach"],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
        )
    admin = AdminClient(live.client)
    try:
        wait_for("its topic", lambda: f"{live.topic}-out" in admin.list_topics(timeout=60).topics)
        found = rows_out(live, lambda found: len(found) >= ROWS - FROM)
        assert sorted(found) == list(range(FROM, ROWS))
        # Not all of them, should Flink have started it again: counters begin at 0 then.
        line = r"[1-9]\d* rows read, [\d,]+ rows/s, [1-9]\d* tracked, lag [\d,.]+ s, "
        line += "0 late, 0 failed\n"
        wait_for("the status line", lambda: re.search(line, shown.read_text()), shown.read_text)
        job.send_signal(signal.SIGINT)
        text, _ = job.communicate(timeout=PATIENCE)
    finally:
        job.kill()
    assert job.returncode == 130
    (savepoint,) = re.findall(r"stopped; go on with --resume (\S+)", text)
    assert (Path(savepoint.removeprefix("file:")) / "_metadata").exists()
    resumed = Warm(
        live.attached("--resume", savepoint, *FLAGS),
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        send(live, ROWS, ROWS + 10)
        found = rows_out(live, lambda found: len(found) >= ROWS + 10 - FROM)
        assert sorted(found) == list(range(FROM, ROWS + 10))
        counts = wait_for("its counters", lambda: counts_of(cluster))
        # Those since it was started; no row has come in between.
        assert (counts["rows_read"], counts["rows_waiting"], counts["dead_letters"]) == (10, 0, 0)
        reported = "  10 rows read, 10 tracked, 0 wait, 0 late, 0 failed, 0 dead letters, mean lag "
        assert reported in cluster("status").stdout
        stopped = run_process(command("stop", *live.place, "--savepoint"))
        # The terminal that follows it is told where the savepoint is.
        text, _ = resumed.communicate(timeout=PATIENCE)
    finally:
        resumed.kill()
    (savepoint,) = re.findall(r"go on with --resume (\S+)", stopped.stdout)
    assert f" ended: CANCELED, with a savepoint; go on with --resume {savepoint}\n" in text


def counts_of(cluster: LocalCluster) -> dict[str, Any] | None:
    """What the only job has counted, as `kerneltrack cluster status` has it."""
    (job,) = cluster.status()["jobs"]
    found: dict[str, Any] | None = job["counts"]
    # Each step tells of its own when its bundle has ended.
    done = found and min(found["rows_read"], found["rows_tracked"]) >= 10
    return found if done else None
