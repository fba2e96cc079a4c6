"""Devices whose clocks jump, in a live job on a real Flink: none is shut out for ever."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

import confluent_kafka
import numpy as np
import numpy.typing as npt
import pytest

from pipelines.cli.main import main
from tests.e2e.clusters import LocalCluster, make_topics
from tests.e2e.jobs import command, run_process
from tests.e2e.live import Live

BEGIN = 1_760_000_000
MINUTES = 60.0 * np.arange(400)
PATIENCE = 240.0

Times = npt.NDArray[np.floating[Any]]


def send(live: Live, devices: Mapping[str, Times]) -> None:
    """Send a row at each time, device by device."""
    producer = confluent_kafka.Producer(live.client)
    rng = np.random.default_rng(0)
    for device, times in devices.items():
        for at in times.tolist():
            flow, heat = rng.normal(size=2).tolist()
            row = {"t": at, "flow": flow, "heat": heat}
            producer.produce(live.topic, json.dumps(row), device)
            producer.poll(0)
    assert producer.flush(60) == 0


def wait_for_rows(live: Live, wanted: Mapping[str, int]) -> None:
    """Wait until so many different rows of each device have come out."""
    consumer = confluent_kafka.Consumer(
        {**live.client, "group.id": "jumps", "auto.offset.reset": "earliest"}
    )
    topic = f"{live.topic}-out"
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    consumer.assign([confluent_kafka.TopicPartition(topic, part, 0) for part in partitions])
    found: dict[str, set[int]] = {}
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and {name: len(rows) for name, rows in found.items()} != wanted:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            lines = json.loads(message.value() or b"[]")
            found.setdefault((message.key() or b"").decode(), set()).update(
                row["index"] for row in lines
            )
    consumer.close()
    assert {name: len(rows) for name, rows in found.items()} == wanted


def start(live: Live, *flags: str) -> str:
    """Run the job, and return Flink's id."""
    done = run_process(
        command(
            *("stream", *live.place, "--topic", live.topic, "--output-topic", f"{live.topic}-out"),
            *("--create-topics", "--time", "t", "--features", "flow", "heat", "--warmup", "50"),
            *("--rank", "4", "--budget", "8", "--detach", *flags),
        )
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split("(")[1].split(")")[0]


@pytest.mark.nightly
def test_silence_a_wrong_first_row_a_reset_and_other_limits_at_resume(
    cluster: LocalCluster,
) -> None:
    live = Live(cluster, "jumps", "json")
    make_topics(live.client, live.topic, partitions=2)
    days = BEGIN + MINUTES
    after = days[-1] + 7200 + MINUTES
    month_later = days[-1] + 30 * 86_400 + MINUTES
    job = start(live, "--idle-flush", "3600")
    send(
        live,
        {
            "steady": days,
            "silent": np.r_[days, after],
            "from-1970": np.r_[[30.0], days],
            "a-day-fast": np.r_[[BEGIN + 86_400.0], days],
            "wrong": np.r_[days, 4e9 + MINUTES[:9], after],
            "two-hours-away": np.r_[days, after[:2]],
            "a-month-away": np.r_[days, month_later[:2]],
        },
    )
    # The newest row of each waits for newer ones, those far ahead for others that agree.
    counted = {
        "steady": 399,
        "silent": 799,
        "from-1970": 399,
        "a-day-fast": 399,
        "wrong": 408,
        "two-hours-away": 399,
        "a-month-away": 399,
    }
    wait_for_rows(live, counted)
    assert main(["stop", *live.place, "--savepoint"]) == 0
    limits = ("--idle-flush", "3", "--max-jump", "86400", "--jump-rows", "3")
    job = start(live, *limits, "--resume", "latest")
    try:
        send(
            live,
            {
                "steady": days[-1:] + 60,
                "two-hours-away": after[2:3],
                "a-month-away": month_later[2:3],
                # Late, so that it shows that the device is there, and nothing else.
                "wrong": after[:1],
            },
        )
        counted |= {"steady": 401, "wrong": 409, "two-hours-away": 403, "a-month-away": 403}
        wait_for_rows(live, counted)
        assert main(["reset", "wrong", *live.place, "--topic", live.topic]) == 0
        send(live, {"wrong": after[-1] + 60 + MINUTES})
        wait_for_rows(live, {**counted, "wrong": 809})
    finally:
        assert main(["stop", *live.place, job]) == 0
