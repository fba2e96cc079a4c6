"""Why messages are refused, as a live job's status tells it; and what a replay says of flags."""

from __future__ import annotations

import shlex
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pyarrow as pa
import pytest

from pipelines.cli.command_line import flags_of
from pipelines.cli.main import parser_of, read
from pipelines.live import status
from pipelines.live.options import kafka_words
from pipelines.live.status import RefusedCounts
from pipelines.topics.dead_letters import Letter
from pipelines.topics.replay import _flags
from transforms.read.column_options import ColumnOptions
from transforms.read.matrix import Feature

TOPIC = "out.dead-letters"
KAFKA = ("--cluster", "a folder")


class Topic:
    """Dead letters in the partitions of a topic, as a consumer reads them."""

    def __init__(self, partitions: int = 2) -> None:
        self.letters: dict[int, list[str | None]] = {part: [] for part in range(partitions)}
        self.silent: set[int] = set()
        self.closed = False
        self.place = (0, 0)

    def list_topics(self, topic: str, timeout: float) -> Any:
        assert topic == TOPIC and timeout > 0
        return SimpleNamespace(topics={TOPIC: SimpleNamespace(partitions=self.letters)})

    def get_watermark_offsets(self, place: Any, timeout: float) -> tuple[int, int]:
        if place.partition in self.silent:
            raise confluent_kafka.KafkaException(confluent_kafka.KafkaError(-185))
        return 0, len(self.letters[place.partition])

    def assign(self, places: list[Any]) -> None:
        (place,) = places
        self.place = place.partition, place.offset

    def poll(self, timeout: float) -> Any:
        part, offset = self.place
        reason = self.letters[part][offset]
        if reason is None:
            return None
        return SimpleNamespace(error=lambda: None, reason=reason)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    made = Topic()
    monkeypatch.setattr("confluent_kafka.Consumer", lambda settings: made)
    monkeypatch.setattr(
        status, "letter_of", lambda message: Letter(("in", 0, 0), 0, message.reason, None, None)
    )
    return made


def refusals() -> RefusedCounts:
    ends: Any = SimpleNamespace(topics={"dead-letters": TOPIC}, client={})
    return RefusedCounts(ends, KAFKA)


def reported(reason: str) -> str:
    command = f"kerneltrack read-output --cluster 'a folder' --topic {TOPIC}"
    return f"refused: {reason} (all of them: {command})"


def test_letters_of_before_are_known(topic: Topic) -> None:
    topic.letters[1] = ["old"] * 3
    looked = refusals()
    assert looked.look() is None
    topic.letters[1].append("no field wx")
    assert looked.look() == reported("no field wx")


def test_the_first_is_told_and_then_whenever_there_are_ten_times_more(topic: Topic) -> None:
    looked = refusals()
    heard = {}
    for count in range(1, 1_001):
        topic.letters[0].append(f"reason {count}")
        output_text = looked.look()
        if output_text is not None:
            heard[count] = output_text
    assert heard == {count: reported(f"reason {count}") for count in (1, 10, 100, 1_000)}


def test_the_reason_is_of_the_partition_with_most_new_ones(topic: Topic) -> None:
    topic.letters[0] = ["old"] * 50
    looked = refusals()
    topic.letters[0] += ["rare"]
    topic.letters[1] += ["often"] * 3
    assert looked.look() == reported("often")


def test_a_letter_that_does_not_come_in_time_is_asked_for_again(topic: Topic) -> None:
    looked = refusals()
    topic.letters[0] = [None]
    assert looked.look() is None
    topic.letters[0] = ["no time"]
    assert looked.look() == reported("no time")


def test_a_partition_that_does_not_answer_is_left_out(topic: Topic) -> None:
    looked = refusals()
    topic.silent = {0, 1}
    assert looked.look() is None
    topic.silent = {0}
    topic.letters[1] = ["bad json"]
    assert looked.look() == reported("bad json")


def test_reasons_are_made_fit_for_a_terminal(topic: Topic) -> None:
    looked = refusals()
    topic.letters[0] = ["\x1b[2J" + "x" * 10_000]
    output_text = looked.look()
    assert output_text is not None
    assert "\x1b" not in output_text
    assert len(output_text) < 1_000
    looked.close()
    assert topic.closed


def test_a_number_that_is_no_time_names_the_flag_of_its_unit(topic: Topic) -> None:
    looked = refusals()
    number = "time = 1795634106844764565: no time in the years 1685 to 2255"
    topic.letters[0] = [number]
    hint = "; --time-unit says what such numbers count: s, ms, us or ns"
    assert looked.look() == reported(number + hint)
    text = "time = 'noon': no time in the years 1685 to 2255"
    topic.letters[0] += [text] * 9
    assert looked.look() == reported(text)


def test_the_command_for_all_letters_reaches_the_same_brokers() -> None:
    job = ["stream", "--topic", "in", "--output-topic", "out", "--features", "x"]
    secret = "sasl.password=${env:PASSWORD}"
    _, args, _ = read([*job, "--brokers", "a:1,b:2", "--client", secret])
    words = kafka_words(args)
    assert words == ["--brokers", "a:1,b:2", "--client", secret]
    _, again, _ = read(["read-output", *words, "--topic", "out-dead-letters"])
    assert (again.brokers, again.client) == (args.brokers, args.client)


def said_of(
    *features: tuple[Any, ...],
    label: str | None = None,
    form: str = "json",
    kind: str = "string",
    missing: str = "fail",
) -> list[str]:
    columns: Any = SimpleNamespace(
        features=tuple(Feature(*one) for one in features),
        long=None,
        label=label,
        label_type=pa.type_for_alias(kind),
        options=ColumnOptions(missing=missing),
    )
    return shlex.split(" ".join(_flags(columns, form)))


def test_a_replay_says_with_which_flags_a_job_reads_it() -> None:
    time = ["--time", "time", "--time-unit", "ns"]
    assert said_of(("ax",), ("my channel",)) == ["--features", "ax", "my channel", *time]
    assert said_of(("x", 3), label="what it is", form="arrow") == [
        *("--format", "arrow", "--features", "x[3]", *time),
        *("--label", "what it is"),
    ]
    assert said_of(("x",), label="y", kind="float64", missing="hold") == [
        *("--features", "x", *time, "--label", "y", "--label-type", "float64"),
        *("--missing", "hold"),
    ]


def test_a_live_job_has_the_flags_that_a_replay_names() -> None:
    output_text = said_of(("ax",), label="l", form="arrow", kind="int64", missing="hold")
    names = {flag for flag in output_text if flag.startswith("--")}
    more = {"--label", "--label-type", "--missing"}
    assert names == {"--format", "--features", "--time", "--time-unit", *more}
    assert names <= flags_of(parser_of("stream")).keys()
