"""Reads commands (`transforms.keyed.commands`) from a model's messages, and checks them."""

from __future__ import annotations

from collections.abc import Sequence

from kerneltrack import codec
from kerneltrack.errors import DataError, KerneltrackError
from kerneltrack.learners import LearnerSpec
from kerneltrack.learners.common.inputs import width_of_inputs
from kerneltrack.monitor.entries import ALL
from kerneltrack.monitor.feedback import MOST_ENTRY, Feedback
from kerneltrack.monitor.quiet import MOST_ENTRY as MOST_QUIET
from kerneltrack.monitor.quiet import QuietTimes
from kerneltrack.registry import get_learner
from kerneltrack.trackers.common.spec import SubspaceSpec
from transforms.chunks import Chunk
from transforms.kafka.messages import BadMessageError, Message, position
from transforms.keyed.commands import (
    FEEDBACK,
    HEADER,
    QUIET,
    REPLACE,
    RESET,
    SAID,
    Command,
    as_chunk,
)
from transforms.learn import learner as learning

Headers = Sequence[tuple[str, bytes]]


class Commands:
    """Reads commands for models of these specs; every one that it gives can be obeyed.

    Args:
        spec: The trackers' spec.
        learner: The learners' spec, None without.
        width: Number of features D.
        feedback: What people said of episodes before; None: nothing that is said is heard.
        quiet: The quiet times; None: of no others is heard.
    """

    def __init__(
        self,
        spec: SubspaceSpec,
        learner: LearnerSpec | None,
        width: int,
        feedback: Feedback | None = None,
        quiet: QuietTimes | None = None,
    ) -> None:
        """Keep the arguments; see the class."""
        self._spec, self._feedback, self._quiet = spec, feedback, quiet
        self._learner = learner
        self._width = width

    def read(self, message: Message, headers: Headers) -> tuple[str, Chunk] | None:
        """Return a command as an element of the keyed step, None for a message that is none.

        Raises:
            BadMessageError: if it is one that cannot be obeyed; the text says why.
        """
        fields = dict(headers)
        if HEADER not in fields:
            return None
        try:
            key = (message.key or b"").decode("utf-8")
        except UnicodeDecodeError as error:
            raise BadMessageError(f"a command whose key is no model id: {error}") from error
        if not key:
            raise BadMessageError("a command without a model id as its key")
        action = fields[HEADER].decode("utf-8", "replace")
        if action == RESET:
            return key, as_chunk(Command(None, None))
        if action == FEEDBACK:
            return key, as_chunk(Command(None, None, self._said(key, fields.get(SAID, b""))))
        if action == QUIET:
            said = self._quiet_time(key, fields.get(SAID, b""))
            place = message.partition, int(position(message.offset, 0))
            return key, as_chunk(Command(None, None, said, QUIET, *place))
        if action != REPLACE:
            allowed = f"must be {RESET}, {REPLACE}, {FEEDBACK} or {QUIET}"
            raise BadMessageError(f"command {action!r}: {allowed}")
        if codec.TRACKER not in fields:
            raise BadMessageError(f"command {REPLACE} without a header {codec.TRACKER}")
        learner = fields.get(codec.LEARNER) if self._learner is not None else None
        command = Command(fields[codec.TRACKER], learner)
        try:
            self._check(command)
        except KerneltrackError as error:
            raise BadMessageError(f"command {REPLACE}: {error}") from error
        return key, as_chunk(command)

    def _said(self, key: str, said: bytes) -> bytes:
        """Return what somebody said of the episodes of a model, or of each of a group it is in.

        Raises:
            BadMessageError: if it is no entry of that model or a group, or the job hears none.
        """
        if self._feedback is None:
            raise BadMessageError(f"command {FEEDBACK}: the job was started without --feedback")
        if len(said) > MOST_ENTRY:
            raise BadMessageError(f"command {FEEDBACK}: longer than {MOST_ENTRY:,} bytes")
        try:
            found = self._feedback.read(said)
        except KerneltrackError as error:
            raise BadMessageError(f"command {FEEDBACK}: {error}") from error
        if len(found) != 1 or (found[0].group is None and found[0].device != key):
            allowed = "must be one entry, of the message's device or of a group"
            raise BadMessageError(f"command {FEEDBACK}: {allowed}")
        return said

    def _quiet_time(self, key: str, said: bytes) -> bytes:
        """Return a quiet time of a model, of all, or of a group that it is in.

        Raises:
            BadMessageError: if it is no such entry, or the job can have none.
        """
        if self._quiet is None:
            allowed = "the job has no --reference, or rows without times"
            raise BadMessageError(f"command {QUIET}: {allowed}")
        if len(said) > MOST_QUIET:
            raise BadMessageError(f"command {QUIET}: longer than {MOST_QUIET:,} bytes")
        try:
            found = self._quiet.read_new(said)
        except KerneltrackError as error:
            raise BadMessageError(f"command {QUIET}: {error}") from error
        if len(found) != 1 or found[0].entry.device not in (key, ALL, None):
            allowed = f'must be one entry, of the message\'s device, of a group, or of "{ALL}"'
            raise BadMessageError(f"command {QUIET}: {allowed}")
        return said

    def _check(self, command: Command) -> None:
        """Refuse what is no state of these specs.

        Raises:
            DataError: saying what it is.
        """
        tracker = codec.decode(command.tracker or b"", codec.TRACKER)
        if tracker.spec.to_dict() != self._spec.to_dict():
            raise DataError(codec.TRACKER, "the state of a tracker with other settings")
        width = len(tracker.state.shift)
        if width != self._width:
            raise DataError(codec.TRACKER, f"of {width} features, this job has {self._width}")
        if command.learner is None or self._learner is None:
            return
        state = learning.decode(self._learner, command.learner, codec.LEARNER).state
        taken = (
            None
            if state is None
            else get_learner(self._learner.learner).width(self._learner, state)
        )
        given, _ = width_of_inputs(self._learner, self._spec.rank, self._width)
        if taken not in (None, given):
            raise DataError(codec.LEARNER, f"of {taken} features, a row has {given}")
