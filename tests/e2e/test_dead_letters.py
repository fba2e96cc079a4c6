"""Refused messages, fetched from a real Kafka and sent once more."""

from __future__ import annotations

import json
from typing import Any

import confluent_kafka
import numpy as np
import pytest
from apache_beam.utils.timestamp import Timestamp

from pipelines.cli.main import main
from pipelines.topics.read_output import OutputReader
from tests.e2e.clusters import LocalCluster, make_topics, wait_for
from tests.e2e.live import Live
from tests.unit.test_docs import blocks
from transforms.failures import Failures
from transforms.kafka.fetch import FetchFn
from transforms.kafka.gather import Outgoing, Reason, dead_letter
from transforms.kafka.messages import Message, position

START = 1_600_000_000_000
DELETED = 100
MESSAGES = 3000


def send(live: Live, topic: str, messages: list[dict[str, Any]]) -> None:
    producer = confluent_kafka.Producer({**live.client, "enable.idempotence": True})
    for message in messages:
        producer.produce(topic, **message)
        producer.poll(0)
    assert producer.flush(60) == 0


def fetched(live: Live, rows: list[tuple[int, int, int, str]]) -> list[Outgoing]:
    """The letters of rows (partition, offset, place, reason), which come as those of ten models."""
    step = FetchFn(live.topic, live.client)
    step.start_bundle()
    letters = []
    for number in range(10):
        part = rows[number::10]
        partitions, offsets, places, reasons = zip(*part, strict=True)
        element = Failures.of("m", partitions, position(offsets, np.array(places)), list(reasons))
        letters += list(step.process(element, Timestamp(5)))
    letters += list(step.finish_bundle())
    step.teardown()
    assert {letter.timestamp for letter in letters} == {Timestamp(5)}
    return [letter.value for letter in letters]


def test_refused_messages_are_fetched_wherever_they_lie(cluster: LocalCluster) -> None:
    live = Live(cluster, "fetched", "json")
    admin = make_topics(live.client, live.topic, partitions=2)
    sent = [
        {
            "key": b"k%d" % (at % 7),
            "value": b"%d" % at,
            "partition": at % 2,
            "timestamp": START + at,
        }
        for at in range(2 * MESSAGES)
    ]
    send(live, live.topic, sent)
    gone = confluent_kafka.TopicPartition(live.topic, 1, DELETED)
    for done in admin.delete_records([gone]).values():
        done.result(60)
    # All of one partition; of the other one here and there, twice in a message, and none.
    rows = [(0, offset, 0, "late") for offset in range(MESSAGES)]
    rows += [(1, offset, 3, "late") for offset in range(0, MESSAGES, 250)]
    rows += [(1, offset, 1, "wild") for offset in range(0, MESSAGES, 250)]
    rows += [(1, MESSAGES + 5, 0, "late")]
    letters = fetched(live, rows)
    expected = []
    for partition, offsets in ((0, range(MESSAGES)), (1, range(0, MESSAGES, 250))):
        for offset in offsets:
            at = offset * 2 + partition
            reasons = [Reason(0, "late")] if partition == 0 else [Reason(1, "wild")]
            reasons += [] if partition == 0 else [Reason(3, "late")]
            if partition == 1 and offset < DELETED:
                reasons = [Reason(place, f"{text}; not in Kafka") for place, text in reasons]
                message = Message(live.topic, partition, offset, -1, None, None)
            else:
                key, value = b"k%d" % (at % 7), b"%d" % at
                message = Message(live.topic, partition, offset, START + at, key, value)
            expected.append(dead_letter(message, reasons))
    beyond = Message(live.topic, 1, MESSAGES + 5, -1, None, None)
    expected.append(dead_letter(beyond, [Reason(0, "late; not in Kafka")]))
    assert letters == expected


def letter_of(message: Message, reason: str) -> dict[str, Any]:
    key, value, headers = dead_letter(message, [Reason(0, reason)])
    return {"key": key, "value": value, "headers": headers}


@pytest.mark.parametrize(
    ("flags", "offsets"),
    [
        ([], [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        (["--reason", "^late"], [0, 2, 4, 6, 8]),
        (["--partition", "1"], [1, 3, 5, 7]),
        (["--since", "2020-09-13T12:26:42Z", "--until", "2020-09-13T12:26:44"], [2, 3]),
    ],
)
def test_dead_letters_are_sent_once_more(
    flags: list[str],
    offsets: list[int],
    cluster: LocalCluster,
    capsys: pytest.CaptureFixture[str],
) -> None:
    live = Live(cluster, f"again-{'-'.join(flags)[2:8]}".rstrip("-"), "json")
    letters, other = f"{live.topic}-letters", f"{live.topic}-other"
    make_topics(live.client, live.topic, letters, other, partitions=2)
    messages = [
        Message(live.topic, at % 2, at, START + at * 1000, b"m", b"\xff%d" % at) for at in range(9)
    ]
    sent = [letter_of(one, ("late", "no row")[one.offset % 2]) for one in messages]
    # Twice, one that is gone, and one that is no letter.
    sent += sent[:4]
    sent.append(letter_of(Message(live.topic, 0, 90, -1, None, None), "late; not in Kafka"))
    sent.append({"key": b"m", "value": b"other"})
    send(live, letters, sent)
    for target in ([], ["--to", other]):
        command = ["replay-dead-letters", *live.place, "--topic", letters]
        assert main([*command, *flags, *target]) == 0
        shown = capsys.readouterr().out
        assert shown.startswith(f"{len(offsets)} messages sent, ")
        assert "1 no letters" in shown
        reader = OutputReader(live.client, target[1] if target else live.topic, "json")
        found: list[Any] = []

        def all_came(found: list[Any] = found, reader: OutputReader = reader) -> bool:
            found += reader.messages()
            return len(found) >= len(offsets)

        wait_for("the messages", all_came)
        assert sum(live.sizes(target[1] if target else live.topic)) == len(offsets)
        reader.close()
        by_offset = {int(dict(one.headers())["replayed-offset"]): one for one in found}
        assert sorted(by_offset) == offsets
        for offset, one in by_offset.items():
            message = messages[offset]
            assert (one.key(), one.value()) == (message.key, message.value)
            assert one.timestamp()[1] == message.timestamp
            assert target or one.partition() == message.partition
            reported = {name: value.decode() for name, value in one.headers()}
            assert reported == {
                "replayed-topic": live.topic,
                "replayed-partition": str(message.partition),
                "replayed-offset": str(offset),
                "replayed-reason": ("late", "no row")[offset % 2],
            }


def test_letters_are_mended_as_the_page_says(cluster: LocalCluster) -> None:
    """The code of docs/messages.md, with the names of this cluster."""
    live = Live(cluster, "mended", "json")
    letters = f"{live.topic}-dead-letters"
    make_topics(live.client, live.topic, letters, partitions=2)
    rows = [{"time": at, "heat": heat} for at, heat in enumerate(["20.5", 21.5, "22"])]
    messages = [
        Message(live.topic, at % 2, at, START + at, b"m", json.dumps(row).encode())
        for at, row in enumerate(rows)
    ]
    reasons = ("heat = '20.5': not a number", "late", "heat = '22': not a number")
    send(live, letters, [letter_of(*each) for each in zip(messages, reasons, strict=True)])
    (code,) = blocks("docs/messages.md")
    changes = {
        "127.0.0.1:9092": live.client["bootstrap.servers"],
        "features-dead-letters": letters,
        '"rows"': f'"{live.topic}"',
    }
    for old, new in changes.items():
        assert code.count(old) == 1
        code = code.replace(old, new)
    exec(compile(code, "docs/messages.md", "exec"), {})
    reader = OutputReader(live.client, live.topic, "json")
    found: list[Any] = []

    def all_came() -> bool:
        found.extend(reader.messages())
        return len(found) >= 2

    wait_for("the messages", all_came)
    reader.close()
    mended = {one.timestamp()[1]: (one.key(), json.loads(one.value())) for one in found}
    assert mended == {
        START: (b"m", {"time": 0, "heat": 20.5}),
        START + 2: (b"m", {"time": 2, "heat": 22.0}),
    }


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (["--reason", "("], "--reason = '(': must be a regular expression"),
        (["--since", "soon"], "--since = 'soon': must be a time"),
    ],
)
def test_bad_choices_are_one_line(
    flags: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ["replay-dead-letters", "--brokers", "localhost:1", "--topic", "t"]
    assert main([*place, *flags]) == 2
    assert line in capsys.readouterr().err
