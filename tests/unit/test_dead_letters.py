"""Messages of a topic of dead letters, and those that are none."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.topics.dead_letters import Letter, letter_of
from pipelines.topics.read_output import Once

HEADERS = {"topic": "rows", "partition": "3", "offset": "8", "timestamp": "-1", "reason": "late"}


class Message:
    """What Kafka's client gives."""

    def __init__(self, **headers: str | bytes | None) -> None:
        reported = {**HEADERS, **headers}
        self._headers = [
            (name, value.encode() if isinstance(value, str) else value)
            for name, value in reported.items()
        ]

    def headers(self) -> Any:
        return self._headers

    def key(self) -> bytes:
        return b"k"

    def value(self) -> bytes:
        return b"v"


def test_a_letter_says_where_its_message_was() -> None:
    assert letter_of(Message()) == Letter(("rows", 3, 8), -1, "late", b"k", b"v")


@pytest.mark.parametrize(
    "changed",
    [
        {"offset": None},
        {"offset": "eight"},
        {"partition": ""},
        {"timestamp": "1e3"},
        {"offset": "9" * 5000},
        {"partition": b"\xff"},
    ],
)
def test_a_message_with_other_headers_is_no_letter(changed: dict[str, Any]) -> None:
    assert letter_of(Message(**changed)) is None


def test_a_letter_is_told_as_a_line() -> None:
    letter = Letter(("rows", 3, 8), -1, "late", b"k", b"\xffv")
    assert letter.fields() == {
        "topic": "rows",
        "partition": 3,
        "offset": 8,
        "reason": "late",
        "key": "k",
        "value": "\\xffv",
    }
    assert Letter(("rows", 3, 8), -1, "late", None, None).fields()["value"] is None


def test_each_letter_is_read_once() -> None:
    once = Once()
    reported = [letter_of(Message(offset=str(n), reason=why)) for n in range(2) for why in "ab"]
    lines = [letter.fields() for letter in reported if letter is not None]
    assert [once.is_new(line) for line in lines + lines] == [True] * 4 + [False] * 4
    assert (len(once), once.repeated, once.conflicts) == (4, 4, 0)
