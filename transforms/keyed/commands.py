"""Commands among a model's rows: begin anew, go on from a snapshot, or know what people say.

A command is a message without a value under the model's id; its headers say what is to be done.
It takes effect between the rows that came before it and had their turn, and all others. So what
comes out depends on the order of messages in the partition alone, as it does for late rows.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from kerneltrack import codec
from transforms.chunks import Chunk

HEADER = "kerneltrack-command"
RESET, REPLACE, FEEDBACK, QUIET = "reset", "replace", "feedback", "quiet"
SAID = "said"
"""Header, and column, of what people said of an episode, or of a quiet time: an entry in JSON
(`kerneltrack.monitor.feedback`, `kerneltrack.monitor.quiet`)."""


class Command(NamedTuple):
    """What a model is to begin with, or what somebody said of the device.

    Attributes:
        tracker: Bytes of a snapshot's tracker; None: its next rows.
        learner: Bytes of a snapshot's learner; None: nothing learned.
        said: What was said; the model goes on as it is. None: nothing.
        action: What it is of: `FEEDBACK` or `QUIET`.
        source: Number of the source that it came from.
        row: Its place there, as of a row.
    """

    tracker: bytes | None
    learner: bytes | None
    said: bytes | None = None
    action: str = FEEDBACK
    source: int = 0
    row: int = 0

    @property
    def headers(self) -> list[tuple[str, bytes]]:
        """The message's headers."""
        if self.said is not None:
            return [(HEADER, self.action.encode()), (SAID, self.said)]
        if self.tracker is None:
            return [(HEADER, RESET.encode())]
        found = [(HEADER, REPLACE.encode()), (codec.TRACKER, self.tracker)]
        return found if self.learner is None else [*found, (codec.LEARNER, self.learner)]


_COLUMNS = {
    codec.TRACKER: pa.binary(),
    codec.LEARNER: pa.binary(),
    SAID: pa.binary(),
    "action": pa.string(),
    "source": pa.int32(),
    "row": pa.int64(),
}


def as_chunk(command: Command) -> Chunk:
    """Return a command in the form in which it travels among rows."""
    values = command._asdict()
    return Chunk(
        pa.RecordBatch.from_pydict(
            {name: pa.array([values[name]], kind) for name, kind in _COLUMNS.items()}
        )
    )


def command_of(chunk: Chunk) -> Command | None:
    """Return the command that a chunk is, None if it holds rows."""
    if not chunk.has(codec.TRACKER):
        return None
    return Command(*(chunk.batch.column(name)[0].as_py() for name in Command._fields))
