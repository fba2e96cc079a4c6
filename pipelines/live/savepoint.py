"""How far a job had read its topics, by what a savepoint or checkpoint of it holds.

Flink keeps Beam's source as bytes: of each reader a list of marks, in Avro's binary encoding, one
for each partition. A mark is the offset of the next message, the number of the partition, the
topic, and a watermark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kerneltrack.errors import DataError
from kerneltrack.paths import join
from kerneltrack.snapshots.files import files_in, read_whole

METADATA = "_metadata"
MOST_BYTES = 1 << 26
"""Files of state that are larger hold models; a reader's marks take some kilobytes."""

_MORE = 0x80
_MOST_VARINT = 10


def offsets_left(path: str, topic: str, partitions: int) -> dict[int, int] | None:
    """Return the offset of the next message of each partition that a job was to read.

    Args:
        path: The savepoint or checkpoint, as path or URI.
        topic: The topic.
        partitions: How many partitions of it the job read.

    Returns:
        Offsets by partition; None unless each partition is found, once: the files cannot be read
        from here, or were written in another way.
    """
    folder = re.sub("^file:/*", "/", path)
    found: list[tuple[int, int]] = []
    try:
        sizes = files_in(folder, "")
        # Flink keeps small state in the metadata itself.
        for name, size in sorted(sizes, key=lambda file: (file[0] != METADATA, file[1])):
            if len(found) >= partitions or size > MOST_BYTES:
                break
            found += marks(read_whole(join(folder, name), MOST_BYTES), topic)
    except (OSError, ValueError, DataError):
        return None
    offsets = dict(found)
    if len(found) != partitions or sorted(offsets) != list(range(partitions)):
        return None
    return offsets


def marks(data: bytes, topic: str) -> Iterator[tuple[int, int]]:
    r"""Yield partition and offset of the marks of a topic among other bytes.

    Example:
        >>> list(marks(b"..\x02\xc2\x0c\x04\x04in\x10\x00", "in"))
        [(2, 801)]
    """
    name = topic.encode()
    text = _varint(2 * len(name)) + name
    at = data.find(text)
    while at >= 0:
        partition, start = _number_before(data, at)
        offset, _ = _number_before(data, start)
        if partition is not None and offset is not None and min(partition, offset) >= 0:
            yield partition, offset
        at = data.find(text, at + 1)


def _varint(value: int) -> bytes:
    """Return a number in groups of seven bits, the lowest first; all but the last bear a mark."""
    groups = []
    while value >= _MORE:
        groups.append(value & (_MORE - 1) | _MORE)
        value >>= 7
    return bytes([*groups, value])


def _number_before(data: bytes, stop: int) -> tuple[int | None, int]:
    """Return the number in Avro's zigzag encoding that ends there, and where it begins."""
    start = stop - 1
    if start < 0 or data[start] & _MORE:
        return None, stop
    while start > 0 and data[start - 1] & _MORE and stop - start < _MOST_VARINT:
        start -= 1
    value = 0
    for byte in reversed(data[start:stop]):
        value = value << 7 | byte & (_MORE - 1)
    return (value >> 1) ^ -(value & 1), start
