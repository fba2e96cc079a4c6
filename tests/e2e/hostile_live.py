"""A live job among hostile messages: what must come out of it, whatever is sent between."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import numpy as np
import pyarrow as pa

from kerneltrack.in_memory import run_all
from kerneltrack.trackers import OKFEBSpec
from pipelines.flink.counters import counters
from pipelines.topics.read_output import OutputReader
from tests.e2e.clusters import LocalCluster, make_topics, wait_for
from tests.e2e.hostile import START, good_rows, hostile_messages, message
from tests.e2e.live import CHANNELS, Live

GOOD = 400
ROWS = 5
KEYS = (b"m0", b"m1")
MILLISECOND = 10**6
DAY = 86_400 * 1000
JUMP_ROWS = "50"
"""Among so many messages more than the default number of rows of a wild time come one after the
other, without a good one of their model between them: they would confirm a jump."""
SPEC = OKFEBSpec(rank=4, budget=7, warmup=50)
"""As `live.SPECS` says."""


class Sendable(NamedTuple):
    """A message, and how many rows of it are good and bad; of one that cannot be read, 1 is."""

    key: bytes | None
    value: bytes | None
    good: int
    bad: int
    timestamp: int = START // MILLISECOND


def good_messages(form: str) -> list[Sendable]:
    """Messages of two models; now and then a row among good ones is bad."""
    found = []
    for at, rows in enumerate(good_rows(GOOD, CHANNELS, ROWS)):
        bad = at % 20 == 19
        if bad:
            rows.insert(2, {**rows[2], CHANNELS[0]: float("nan")})
        # Where the record's timestamp is the time, all rows of a message have one.
        stamp = rows[0]["time"] // MILLISECOND
        found.append(Sendable(KEYS[at % 2], message(form, rows), ROWS, int(bad), stamp))
    last = {**good_rows(1, CHANNELS, 1)[0][0], "time": START + 3_000 * 10**9}
    closing = (START + 3_000 * 10**9) // MILLISECOND
    # A row much later, which waits: all before it come out.
    return found + [Sendable(key, message(form, [last]), 1, 0, closing) for key in KEYS]


def bad_messages(form: str, count: int, by_record: bool) -> list[Sendable]:
    """Hostile messages; a tenth are rows that only the keyed step can refuse."""
    (row,) = good_rows(1, CHANNELS, 1)[0]
    whole = message(form, [row])
    found = []
    if not by_record:
        plain = hostile_messages(count * 9 // 10, form, CHANNELS, whole)
        found = [Sendable(key, value, 0, 1) for key, value in plain]
    for at in range(count - len(found)):
        away = (-DAY, 3650 * DAY)[at % 2]
        wrong = message(form, [{**row, "time": row["time"] + away * MILLISECOND}])
        found.append(Sendable(KEYS[at // 2 % 2], wrong, 0, 1, START // MILLISECOND + away))
    return found


def mixed(good: list[Sendable], bad: list[Sendable]) -> list[Sendable]:
    """The good ones in their order, the bad ones anywhere between but at the ends."""
    rng = np.random.default_rng(4)
    first, rest = good[:100], good[100:]
    places = np.sort(rng.integers(0, len(rest) - len(KEYS), len(bad)))
    shuffled = iter([bad[at] for at in rng.permutation(len(bad))])
    found: list[Sendable] = list(first)
    counts = Counter(places.tolist())
    for at, each in enumerate(rest):
        found += [next(shuffled) for _ in range(counts[at])]
        found.append(each)
    return found


def assert_undisturbed(
    cluster: LocalCluster, form: str, count: int, by_record: bool, folder: Path
) -> None:
    """Run a job among so many hostile messages, and look at all that comes out."""
    live = Live(cluster, f"hostile-{form}-{count}-{by_record}".lower(), form)
    # A broker refuses far-away timestamps by default.
    settings = {f"message.timestamp.{side}.max.ms": str(2**63 - 1) for side in ("before", "after")}
    make_topics(live.client, live.topic, config=settings)
    messages = mixed(good_messages(form), bad_messages(form, count, by_record))
    refused = {at: each for at, each in enumerate(messages) if each.bad}
    letters = f"{live.topic}-out-dead-letters"
    asked = ["--jump-rows", JUMP_ROWS, *(["--time", ""] if by_record else [])]
    with live.running(*asked) as job:
        _send(live, messages[:50])
        wait_for("rows", lambda: counters(cluster.flink, job)["rows_tracked"] > 0)
        workers = cluster.status()["workers"]
        _send(live, messages[50:])
        wait_for("the dead letters", lambda: sum(live.sizes(letters)) >= len(refused))
        rows = sum(each.good for each in messages) - len(KEYS)
        found = live.read("", rows, folder)
        assert cluster.status()["workers"] == workers
        restarts = cluster.ask_flink(f"/jobs/{job}/metrics?get=numRestarts")
        assert restarts[0]["value"] == "0"
    _assert_letters(live, refused, letters)
    _assert_features(found, rows)


def _send(live: Live, messages: Iterable[Sendable]) -> None:
    producer = confluent_kafka.Producer({**live.client, "enable.idempotence": True})
    failed: list[Any] = []

    def delivered(error: Any, sent: Any) -> None:
        if error is not None:
            failed.append(error)

    for each in messages:
        while True:
            try:
                producer.produce(
                    live.topic, each.value, each.key, timestamp=each.timestamp, callback=delivered
                )
                break
            except BufferError:
                producer.poll(1)
        producer.poll(0)
    assert producer.flush(120) == 0
    assert failed == []


def _assert_letters(live: Live, refused: dict[int, Sendable], topic: str) -> None:
    """Each bad message is one letter: its own bytes, its place, and a reason for each bad row."""
    reader = OutputReader(live.client, topic, "json")
    found: dict[int, Any] = {}

    def all_came() -> bool:
        for letter in reader.messages():
            reported = {name: value.decode() for name, value in letter.headers()}
            assert int(reported["offset"]) not in found
            found[int(reported["offset"])] = (letter.key(), letter.value(), reported)
        return len(found) >= len(refused)

    wait_for("the dead letters' content", all_came)
    reader.close()
    assert sum(live.sizes(topic)) == len(refused)
    # One partition, filled in order: a message's place is its offset.
    assert found.keys() == refused.keys()
    for offset, each in refused.items():
        key, value, reported = found[offset]
        assert (key, value) == (each.key, each.value)
        assert (reported["topic"], reported["partition"]) == (live.topic, "0")
        assert int(reported["timestamp"]) == each.timestamp
        assert int(reported["refused"]) == each.bad
        assert reported["reason"]
        rows = json.loads(reported["rows"])
        assert len(rows) in ({1} if each.good else {0, 1}), reported
        if each.good:
            assert rows[0][0] == 2


def _assert_features(found: pa.Table, rows: int) -> None:
    """The features of the good rows are those that they have alone, bit for bit."""
    assert found.num_rows == rows
    messages = good_rows(GOOD, CHANNELS, ROWS)
    for number, key in enumerate(KEYS):
        model = found.filter(pa.compute.equal(found.column("model_id"), key.decode()))
        good = [row for each in messages[number::2] for row in each]
        x = np.array([[row[name] for name in CHANNELS] for row in good])
        _, features = run_all(SPEC, x)
        assert model.column("index").to_pylist() == list(range(len(good)))
        assert model.column("loss").to_pylist() == features.loss.tolist()
        assert features.z is not None
        assert np.array_equal(np.array(model.column("z").to_pylist()), features.z)
