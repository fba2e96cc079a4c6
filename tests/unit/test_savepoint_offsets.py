"""How far a job had read, found among the bytes of a savepoint."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.live.input import gone_before, lost
from pipelines.live.savepoint import marks, offsets_left

OFFSETS = st.integers(0, 2**62)
TOPICS = st.sampled_from(["r", "rows2", "é-rows", "a" * 70, "t" * 249])


def zigzag(value: int) -> bytes:
    """Avro's encoding of a whole number, written out."""
    left, groups = value << 1 if value >= 0 else (-value << 1) - 1, []
    while left > 127:
        groups.append(left % 128 + 128)
        left //= 128
    return bytes([*groups, left])


def mark(topic: str, partition: int, offset: int, watermark: int) -> bytes:
    name = topic.encode()
    return zigzag(offset) + zigzag(partition) + zigzag(len(name)) + name + zigzag(watermark)


def block(topic: str, offsets: dict[int, int]) -> bytes:
    """The marks of a reader, as Beam writes them."""
    found = [mark(topic, part, at, 1_795_876_604_000 - at % 7) for part, at in offsets.items()]
    return zigzag(len(found)) + b"".join(found) + b"\x00"


def java(topic: str) -> bytes:
    """The topic in what Java serializes of the source."""
    name = topic.encode()
    return b"t" + len(name).to_bytes(2, "big") + name + b"xpsr"


@given(
    topic=TOPICS,
    readers=st.lists(
        st.dictionaries(st.integers(0, 4_000), OFFSETS, min_size=1, max_size=9), max_size=4
    ),
    noise=st.lists(st.binary(max_size=40), min_size=5, max_size=5),
)
def test_marks_are_found_among_other_bytes(
    topic: str, readers: list[dict[int, int]], noise: list[bytes]
) -> None:
    parts = [part for pair in zip(noise, readers, strict=False) for part in pair]
    data = b"\x00".join(
        part if isinstance(part, bytes) else java(topic) + block(topic, part) for part in parts
    )
    expected = [item for reader in readers for item in reader.items()]
    assert [found for found in marks(data, topic) if found in expected] == expected
    if not any(topic.encode() in part for part in noise):
        assert list(marks(data, topic)) == expected
    assert list(marks(data, "another")) == []


def test_all_partitions_must_be_found_once(tmp_path: Path) -> None:
    (tmp_path / "_metadata").write_bytes(b"head" + block("in", {0: 5, 2: 70_000}) + b"tail")
    (tmp_path / "state").write_bytes(block("in", {1: 0}))
    assert offsets_left(tmp_path.as_uri(), "in", 3) == {0: 5, 1: 0, 2: 70_000}
    # Flink writes file:/PATH, too.
    assert offsets_left(f"file:{tmp_path}", "in", 3) == {0: 5, 1: 0, 2: 70_000}
    for partitions in (1, 2, 4):
        assert offsets_left(str(tmp_path), "in", partitions) is None
    assert offsets_left(str(tmp_path), "out", 3) is None
    assert offsets_left(str(tmp_path / "gone"), "in", 3) is None
    assert offsets_left("nowhere://bucket/savepoint-1", "in", 3) is None
    (tmp_path / "state").write_bytes(block("in", {0: 5}))
    assert offsets_left(str(tmp_path), "in", 3) is None


@pytest.mark.parametrize("offset", [-1])
def test_a_partition_that_was_never_read_is_not_known(tmp_path: Path, offset: int) -> None:
    (tmp_path / "_metadata").write_bytes(block("in", {0: offset}))
    assert offsets_left(str(tmp_path), "in", 1) is None


def test_what_is_gone_is_between_what_was_read_and_what_is_there() -> None:
    gone = gone_before({0: 8, 1: 100, 2: 0, 3: 7}, {0: 10, 1: 100, 2: 1_000, 3: 0})
    assert gone == {0: range(8, 10), 2: range(1_000)}
    assert lost("rows", gone) == (
        "Kafka deleted up to 1,002 messages of rows "
        "(partition 0: offsets 8 to 9; partition 2: offsets 0 to 999)"
    )
