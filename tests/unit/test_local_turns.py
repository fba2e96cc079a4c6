"""Partitions of a busy topic take turns, and all of a quiet one run together."""

from __future__ import annotations

import itertools

import pytest

from pipelines.local.turns import LEAST, PARTS, Turns
from transforms.kafka.messages import Message

GAP = 0.1
MOST = 30_000


def messages(part: int, start: int, count: int, key: bytes | None = b"a") -> list[Message]:
    return [Message("rows", part, start + n, 0, key, b"", ()) for n in range(count)]


def parts_of(found: list[Message]) -> set[int]:
    return {message.partition for message in found}


def test_a_few_messages_run_together_once_the_gap_is_over() -> None:
    turns = Turns(MOST, GAP)
    assert turns.take(5.0) == []
    assert turns.due() == 5.0 + GAP
    turns.add([*messages(2, 0, 3), *messages(0, 7, 2)])
    assert turns.take(5.05) == []
    assert len(turns.take(5.0 + GAP)) == 5
    assert turns.room == MOST


@pytest.mark.parametrize("partitions", [4, 24])
def test_partitions_of_many_messages_take_turns(partitions: int) -> None:
    turns, now, came = Turns(MOST, GAP), 1.0, 0
    found: dict[int, list[int]] = {part: [] for part in range(partitions)}
    ran: list[set[int]] = []
    for _ in range(40):
        for part in range(partitions):
            turns.add(messages(part, came, 400))
        came += 400
        taken = turns.take(now)
        assert len(taken) >= LEAST
        ran.append(parts_of(taken))
        for message in taken:
            found[message.partition].append(message.offset)
        now += GAP
    for part, offsets in found.items():
        assert offsets == [*range(len(offsets))]
        own = [at for at, parts in enumerate(ran) if part in parts]
        assert max(b - a for a, b in itertools.pairwise(own)) < 2 * PARTS


def test_a_partition_waits_for_the_gap_after_its_turn() -> None:
    turns = Turns(MOST, GAP)
    for part in range(4):
        turns.add(messages(part, 0, LEAST))
    assert [parts_of(turns.take(1.0 + n / 100)) for n in range(3)] == [{0}, {1}, {2}]
    turns.add(messages(0, LEAST, LEAST))
    assert parts_of(turns.take(1.03)) == {3}
    assert turns.take(1.04) == []
    assert turns.due() == 1.0 + GAP
    assert parts_of(turns.take(turns.due())) == {0}


def test_messages_without_a_key_run_together() -> None:
    turns = Turns(MOST, GAP)
    turns.add([*messages(0, 0, LEAST), *messages(1, 0, LEAST), *messages(2, 0, 1, None)])
    assert len(turns.take(1.0)) == 2 * LEAST + 1
    turns.add([*messages(0, LEAST, LEAST), *messages(1, LEAST, LEAST)])
    assert len(turns.take(2.0)) == LEAST


def test_a_full_bundle_does_not_wait() -> None:
    turns = Turns(5, GAP)
    turns.take(1.0)
    turns.add(messages(0, 0, 5))
    assert turns.room == 0
    assert len(turns.take(1.0)) == 5
