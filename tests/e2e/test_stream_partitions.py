"""What a live job reads of its topic: partitions that come later, transactions, deleted rows."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from pipelines.cli.main import main
from tests.e2e.clusters import LocalCluster, wait_for
from tests.e2e.jobs import command, run_process
from tests.e2e.live import Live

ROWS = 120
START = 1_760_000_000
FLAGS = ("--time", "t", "--features", "flow", "heat", "--max-disorder", "0")


def send(producer: Producer, live: Live, model: str, partition: int) -> None:
    values = np.random.default_rng(len(model)).normal(size=(ROWS, 2)).tolist()
    for at, (flow, heat) in enumerate(values):
        row = {"t": START + at, "flow": flow, "heat": heat}
        producer.produce(live.topic, json.dumps(row), model, partition=partition)
    producer.flush()


def grow(live: Live, admin: AdminClient, partitions: int) -> None:
    new = NewPartitions(live.topic, partitions)
    for made in admin.create_partitions([new]).values():
        made.result(60)
    wait_for("partitions", lambda: len(live.sizes(live.topic)) == partitions)


def start(live: Live, *flags: str) -> str:
    done = run_process(
        command(
            *("stream", *live.place, "--topic", live.topic, "--output-topic", f"{live.topic}-out"),
            *("--create-topics", "--detach", "--rank", "3", "--budget", "6", "--warmup", "20"),
            *(*FLAGS, *flags),
        )
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rows_of(live: Live, models: int, folder: Path) -> Counter[str]:
    """Read the rows that came out, none of them twice with different values."""
    found: pa.Table = live.read("", models * ROWS, folder)
    # Those of each model are numbered without a gap.
    for model in set(found["model_id"].to_pylist()):
        own = found.filter(pa.compute.equal(found["model_id"], model))
        assert own["index"].to_pylist() == list(range(len(own)))
    return Counter(found["model_id"].to_pylist())


@pytest.mark.nightly
def test_partitions_that_come_later_are_read_and_deleted_rows_counted(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    live = Live(cluster, "partitions", "json")
    live.make_topic(1)
    admin, producer = AdminClient(live.client), Producer(live.client)
    send(producer, live, "before", 0)
    # What a transaction that is aborted has sent is nobody's row.
    sender = Producer({**live.client, "transactional.id": "one"})
    sender.init_transactions()
    for model, ends in (("aborted", sender.abort_transaction), ("sent", sender.commit_transaction)):
        sender.begin_transaction()
        send(sender, live, model, 0)
        ends()
    start(live)
    assert rows_of(live, 2, tmp_path) == {"before": ROWS, "sent": ROWS}
    grow(live, admin, 3)
    producer = Producer(live.client)
    for partition in (0, 1, 2):
        send(producer, live, f"part-{partition}", partition)
    assert rows_of(live, 3, tmp_path) == {"before": ROWS, "sent": ROWS, "part-0": ROWS}
    says = f"  {live.topic} has got partitions 1 and 2, not read yet: stop the job with --savepoint"
    wait_for(
        "word of it", lambda: says in cluster("status").stdout, lambda: cluster("status").stdout
    )
    assert main(["stop", *live.place, "--savepoint"]) == 0
    output_text = start(live, "--resume", "latest")
    assert f"{live.topic} has got partitions 1 and 2, read from the beginning\n" in output_text
    expected = {name: ROWS for name in ("before", "sent", "part-0", "part-1", "part-2")}
    assert rows_of(live, 5, tmp_path) == expected
    assert "has got" not in cluster("status").stdout
    # Once more, and now rows are deleted while the job is stopped.
    assert main(["stop", *live.place, "--savepoint"]) == 0
    grow(live, admin, 4)
    producer = Producer(live.client)
    send(producer, live, "deleted", 1)
    gone = TopicPartition(live.topic, 1, 2 * ROWS)
    for deleted in admin.delete_records([gone]).values():
        deleted.result(60)
    send(producer, live, "kept", 1)
    send(producer, live, "part-3", 3)
    lost = f"Kafka deleted up to {ROWS} messages of {live.topic}"
    output_text = start(live, "--resume", "latest")
    assert (
        f"LOST: {lost} (partition 1: offsets {ROWS} to {2 * ROWS - 1}) before they " in output_text
    )
    assert f"{live.topic} has got partition 3, read from the beginning\n" in output_text
    assert rows_of(live, 7, tmp_path) == {**expected, "kept": ROWS, "part-3": ROWS}
    assert f"  {lost} before the job, resumed, could read them" in cluster("status").stdout
    # The source of its own is found again.
    assert main(["stop", *live.place, "--savepoint"]) == 0
    start(live, "--resume", "latest")
    send(producer, live, "last", 3)
    assert rows_of(live, 8, tmp_path)["last"] == ROWS
    assert main(["stop", *live.place]) == 0
