"""What `bench_stream.py --engine local` holds the local engine against: the same without steps.

    python -m benchmarks.local_pass stream --engine local [flags of `kerneltrack stream`]

What a bundle brings of a device goes out again in one message, in the engine's own transactions,
with where each row came from. Nothing waits, and JSON, a row a message, is not read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

import pyarrow as pa

from pipelines.cli import main as cli
from pipelines.local.steps import LocalSteps, Sent
from transforms.chunks import encode_batch
from transforms.kafka.encode import PLACE_FIELDS
from transforms.kafka.messages import Message, batch_of
from transforms.outputs import FEATURES

PARTITION, OFFSET, _ = PLACE_FIELDS


def copied(steps: LocalSteps, messages: Iterable[Message], now: float) -> list[Sent]:
    """Return a bundle's messages as they are sent, in place of `LocalSteps.run`."""
    topic = steps._ends.topics[FEATURES]
    if steps._ends.form == "arrow":
        return [(topic, (each.key, _with_places(each), [])) for each in messages]
    found: dict[bytes | None, list[bytes]] = {}
    for each in messages:
        place = b'{"index":0,"partition":%d,"offset":%d,' % (each.partition, each.offset)
        found.setdefault(each.key, []).append((each.value or b"{}").replace(b"{", place, 1))
    return [(topic, (key, b"[" + b",".join(rows) + b"]", [])) for key, rows in found.items()]


def _with_places(message: Message) -> bytes:
    batch = batch_of(message.value)
    for field, value in ((PARTITION, message.partition), (OFFSET, message.offset)):
        batch = batch.append_column(field, pa.array([value] * batch.num_rows, field.type))
    return encode_batch(batch)


if __name__ == "__main__":
    LocalSteps.run = copied  # type: ignore[assignment,method-assign]
    sys.exit(cli.main(sys.argv[1:]))
