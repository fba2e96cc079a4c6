"""Where a live job begins to read, and one that is followed until Ctrl-C, on a real Flink."""

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
from confluent_kafka.admin import AdminClient

from pipelines.cli import main
from pipelines.read_output import OutputReader
from tests.e2e.clusters import PATIENCE, LocalCluster, wait_for
from tests.e2e.jobs import environment
from tests.e2e.live import CHANNELS, Live

START = 1_600_000_000_000
ROWS = 200
FROM = 120
FLAGS = ("--max-disorder", "0", "--time", "")
"""Rows come out as they come in; their time is the record's."""


def send(live: Live, first: int, last: int) -> None:
    """Send rows, one a message, a second apart."""
    producer = confluent_kafka.Producer(live.client)
    for at in range(first, last):
        row = {name: (at * 7 % 11) + number for number, name in enumerate(CHANNELS)}
        value = json.dumps({**row, "label": "x"})
        producer.produce(live.topic, value, b"m", timestamp=START + at * 1000)
    assert producer.flush(60) == 0


def offsets_out(live: Live, enough: Callable[[list[int]], bool]) -> list[int]:
    """Offsets of the rows that have come out, once there are enough."""
    reader = OutputReader(live.client, f"{live.topic}-out", "json")
    found: list[int] = []

    def look() -> bool:
        found.extend(row["offset"] for row in reader.rows())
        return enough(found)

    wait_for("rows", look)
    reader.close()
    return sorted(set(found))


def test_they_begin_where_they_are_told(cluster: LocalCluster) -> None:
    # Between two messages.
    moment = datetime.fromtimestamp((START + FROM * 1000 - 500) / 1000, timezone.utc)
    timed, latest = (Live(cluster, f"from-{where}", "json") for where in ("time", "latest"))
    for live in (timed, latest):
        live.make_topic(1)
        send(live, 0, ROWS)
    with ThreadPoolExecutor(2) as both:
        starts = ((timed, moment.isoformat()), (latest, "latest"))
        jobs = [both.submit(live.start, "--from", begin, *FLAGS) for live, begin in starts]
    try:
        found = offsets_out(timed, lambda found: len(set(found)) >= ROWS - FROM)
        assert found == list(range(FROM, ROWS))
        sent = ROWS

        def more(found: list[int]) -> bool:
            nonlocal sent
            if not found:
                # It begins at some time after Flink says that it runs.
                send(latest, sent, sent + 100)
                sent += 100
            return bool(found)

        assert min(offsets_out(latest, more)) >= ROWS
    finally:
        for job in jobs:
            assert main(["stop", *timed.place, job.result()]) == 0


def test_one_that_is_followed_says_how_it_gets_on_and_stops_at_ctrl_c(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    live = Live(cluster, "followed", "json")
    live.make_topic(1)
    send(live, 0, ROWS)
    whole = live.stream("--from", f"0:{FROM}", *FLAGS, "--progress")
    shown = tmp_path / "shown"
    with shown.open("wb") as output:
        job = subprocess.Popen(
            [word for word in whole if word != "--detach"],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
        )
    admin = AdminClient(live.client)
    try:
        wait_for("its topic", lambda: f"{live.topic}-out" in admin.list_topics(timeout=60).topics)
        found = offsets_out(live, lambda found: len(set(found)) >= ROWS - FROM)
        assert found == list(range(FROM, ROWS))
        # Not all of them, should Flink have started it again: counters begin at 0 then.
        line = r"[1-9]\d* rows read, [\d,]+ rows/s, [1-9]\d* tracked, lag [\d,.]+ s, "
        line += "0 late, 0 failed, 0 alerts\n"
        wait_for("the status line", lambda: re.search(line, shown.read_text()), shown.read_text)
        job.send_signal(signal.SIGINT)
        text, _ = job.communicate(timeout=PATIENCE)
    finally:
        job.kill()
    assert job.returncode == 130
    (savepoint,) = re.findall(r"stopped; go on with --resume (\S+)", text)
    assert (Path(savepoint.removeprefix("file:")) / "_metadata").exists()
    resumed: Any = live.start("--resume", savepoint, *FLAGS)
    send(live, ROWS, ROWS + 10)
    found = offsets_out(live, lambda found: len(set(found)) >= ROWS + 10 - FROM)
    assert found == list(range(FROM, ROWS + 10))
    assert main(["stop", *live.place, resumed]) == 0
