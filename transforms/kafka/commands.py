"""Reads commands (`transforms.keyed.commands`) from a model's messages, and checks them."""

from __future__ import annotations

from collections.abc import Sequence

from kerneltrack import codec
from kerneltrack.errors import DataError, KerneltrackError, printable
from kerneltrack.learners import LearnerSpec
from kerneltrack.learners.common.inputs import width_of_inputs
from kerneltrack.monitor.entries import ALL
from kerneltrack.monitor.feedback import Feedback
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
_HEARS_NONE = {
    FEEDBACK: "the job was started without --feedback",
    QUIET: "the job has no --reference, or rows without times",
}


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
        self._spec, self._learner, self._width = spec, learner, width
        self._heard = {FEEDBACK: feedback, QUIET: quiet}

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
        if action in self._heard:
            said = fields.get(SAID, b"")
            self._check_entry(action, key, said)
            place = message.partition, int(position(message.offset, 0))
            return key, as_chunk(Command(None, None, said, action, *place))
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

    def _check_entry(self, action: str, key: str, said: bytes) -> None:
        """Refuse what is no entry about a model or a group, or about all where one may be.

        Raises:
            BadMessageError: saying why; also where the job hears of none.
        """
        heard = self._heard[action]
        if heard is None:
            raise BadMessageError(f"command {action}: {_HEARS_NONE[action]}")
        try:
            found = heard.read_new(said)
        except KerneltrackError as error:
            raise BadMessageError(f"command {action}: {error}") from error
        whom = [key, ALL] if action == QUIET else [key]
        if len(found) != 1 or (found[0].group is None and found[0].device not in whom):
            allowed = f"must be one entry, of {', '.join(map(printable, whom))} or a group"
            raise BadMessageError(f"command {action}: {allowed}")

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
