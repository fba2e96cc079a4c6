"""`kerneltrack read-output`: an output topic, each row once."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kerneltrack.errors import DataError
from kerneltrack.fleet.devices import GONE
from pipelines.cli.command_line import INTERRUPTED_EXIT
from pipelines.cluster.interruption import Interruption
from pipelines.topics import options as replay_options
from pipelines.topics.admin import Topics
from pipelines.topics.dead_letters import letter_of
from pipelines.topics.reader import POLL, TopicReader
from transforms.kafka.messages import BadMessageError, batch_of, records_of

DIGEST = 8
SHORTEST_POLL = 0.05
"""Seconds for which a topic is waited for that was read to its end."""
CONFLICT_EXIT = 1

KEYS = ("model_id", "kind", "start", "end", "index", "version")
"""What tells rows of an output apart, as far as it has them."""

DEVICE_KEYS = ("model_id", "state", "rows", "since_index")
"""What tells apart what is said of a device."""

LETTER_KEYS = ("topic", "partition", "offset", "reason")
"""What tells dead letters apart."""


class Once:
    """Lets each row through once.

    Memory: about 150 bytes for each different row.

    Attributes:
        repeated: Rows that came again with the same content.
        conflicts: Rows that came again with another one.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[Any, ...], bytes] = {}
        self.repeated = 0
        self.conflicts = 0

    def __len__(self) -> int:
        """Return the number of different rows."""
        return len(self._seen)

    def is_new(self, row: dict[str, Any]) -> bool:
        """Check whether a row has not come before."""
        names = KEYS if "model_id" in row else LETTER_KEYS
        if "since_index" in row:
            names = DEVICE_KEYS
        key = tuple(str(row[name]) for name in names if name in row)
        text = json.dumps(row, sort_keys=True, default=str)
        digest = hashlib.blake2b(text.encode(), digest_size=DIGEST).digest()
        before = self._seen.setdefault(key, digest)
        if before is digest:
            return True
        if before == digest:
            self.repeated += 1
        else:
            self.conflicts += 1
        return False


class OutputReader(TopicReader):
    """Reads an output topic from its beginning.

    Args:
        client: Settings of librdkafka's clients.
        topic: The topic.
        form: How its messages are written.
        begin: Offset of the first message of some partitions that is read.
    """

    def __init__(
        self, client: dict[str, Any], topic: str, form: str, begin: Mapping[int, int] = {}
    ) -> None:
        self._form = form
        partitions = Topics(client).check_input(topic)
        super().__init__(client, topic, "kerneltrack-read-output", partitions, begin)

    @property
    def at_end(self) -> bool:
        """Whether the end of every partition was met."""
        return not self.left

    def messages(self, seconds: float = POLL) -> list[Any]:
        """Return the messages that come, as of `TopicReader`."""
        return list(super().messages(seconds))

    def rows(self, seconds: float = POLL) -> list[dict[str, Any]]:
        """Return the rows of the messages that come.

        Raises:
            DataError: for a message that no job of this form wrote.
        """
        return [row for message in self.messages(seconds) for row in self.rows_of(message)]

    def to_end(
        self, seconds: float = 0.0, interruption: Interruption | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield the rows up to the topic's end, and those that come within so many seconds.

        A signal that the interruption takes ends the reading. Errors as of `rows`.
        """
        until = time.monotonic() + seconds
        while interruption is None or not interruption.came:
            left = until - time.monotonic()
            rows = self.rows(min(max(left, SHORTEST_POLL), POLL) if self.at_end else POLL)
            yield from rows
            if self.at_end and not rows and left <= 0:
                return

    def rows_of(self, message: Any) -> Iterator[dict[str, Any]]:
        """Return the rows of one message; see `rows`. Of a dead letter it is what it says."""
        letter = letter_of(message)
        if letter is not None:
            yield letter.fields()
            return
        if message.value() is None and message.key() is not None:
            yield {"model_id": message.key().decode("utf-8"), "state": GONE}
            return
        try:
            if self._form == "arrow":
                yield from batch_of(message.value()).to_pylist()
            else:
                yield from records_of(message.value(), self._form)
        except BadMessageError as error:
            where = f"{self.topic}, partition {message.partition()}, offset {message.offset()}"
            raise DataError(where, str(error)) from error


def run(args: argparse.Namespace) -> int:
    """Read the topic.

    Returns:
        The exit code: 0; 1 if rows came twice with different values; 130 after Ctrl-C.
    """
    client = replay_options.client_settings(args)
    reader, once = OutputReader(client, args.topic, args.output_format), Once()
    kept: list[dict[str, Any]] = []
    last = time.monotonic()
    with Interruption() as interruption:
        while not interruption.came and (args.rows is None or len(once) < args.rows):
            rows = reader.rows()
            new = [row for row in rows if once.is_new(row)]
            if args.output is None:
                sys.stdout.writelines(json.dumps(row, default=str) + "\n" for row in new)
                sys.stdout.flush()
            else:
                kept += new
            if rows:
                last = time.monotonic()
            elif args.idle and time.monotonic() - last > args.idle:
                break
        came = interruption.came
    reader.close()
    if args.output is not None:
        pq.write_table(pa.Table.from_pylist(kept), args.output)
    sys.stderr.write(
        f"{len(once):,} rows, {once.repeated:,} came again, {once.conflicts:,} of them differ\n"
        if once.conflicts
        else f"{len(once):,} rows, {once.repeated:,} came again\n"
    )
    if came:
        return INTERRUPTED_EXIT
    return CONFLICT_EXIT if once.conflicts else 0
