"""What Kafka is asked: a question without an answer is asked again, and not for ever."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from pipelines.topics import admin
from pipelines.topics.admin import KafkaError


@pytest.fixture(autouse=True)
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "ASK_AGAIN", 0.01)
    monkeypatch.setattr(admin, "TIMEOUT", 0.05)


def test_a_question_without_an_answer_is_asked_again() -> None:
    answered: Future[int] = Future()
    answered.set_result(7)
    asked = [Future[int](), Future[int](), answered]
    assert admin._answer(lambda: {"x": asked.pop(0)}, "topic x cannot be examined") == 7
    assert asked == []


def test_in_the_end_the_error_says_what_nobody_answers() -> None:
    with pytest.raises(
        KafkaError, match=r"^topic x cannot be made: no broker has answered for 0\.05 s$"
    ):
        admin._result(Future[int](), "topic x cannot be made")
