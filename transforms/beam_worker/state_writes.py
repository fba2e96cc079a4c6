"""State that a bundle writes: the runner's answers are waited for, with a limit, and looked at.

Beam's own worker waits for the answer to the last write of each cell and does not look at it: a
write that the runner refused is lost without a word. If no answer comes it waits for ever, even
when the stream of answers is gone. Here all writes of a bundle are sent, then all answers are
waited for: not a way to the runner and back for each model.

Changes: `GrpcStateHandler` of `sdk_worker` and how `bundle_processor` commits bags; and with
`state_requests` the stream that requests go by.
Needless once: apache/beam#39992 (bundles fail on state write errors) is released, for errors; no
issue asks for a limit to the waiting.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import grpc  # type: ignore[import-untyped]
from apache_beam.runners.worker import bundle_processor, sdk_worker

from kerneltrack.errors import KerneltrackError
from transforms.beam_worker.state_requests import ENDED, Outbox, send_together

VERSIONS = ("2.76", "2.77")
WITHOUT = "state goes by gRPC's own stream, slower, and a write that is refused is not noticed"

LIMIT = 120.0
"""Seconds that an answer may take: RocksDB may be busy, and a checkpoint holds writes up."""

POLL = 1.0
"""Seconds between two looks at whether the stream of answers is still there."""


class StateError(KerneltrackError):
    """The runner did not write state, or did not say that it has."""


class _Answer(sdk_worker._Future[Any]):
    """The answer to a request for state: Beam's own, waited for with a limit and looked at."""

    def __init__(self, future: Any, handler: Any) -> None:
        """Take Beam's in place of an event of its own."""
        self._future = future
        self._handler = handler
        self._until: float | None = None
        self.good = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for it; return whether it is there.

        Raises:
            StateError: if it can no longer come, or has not come within the limit.
        """
        requests = self._handler._requests
        if isinstance(requests, Outbox) and not self._future.wait(0):
            with requests.awaited():
                return self._wait(timeout)
        return self._wait(timeout)

    def _wait(self, timeout: float | None) -> bool:
        waited = 0.0
        while not self._future.wait(POLL):
            why = _why_gone(self._handler)
            # The answer may have come just before the stream ended.
            if why is not None and not self._future.wait(0):
                raise StateError(f"the runner's stream of state is gone: {why}")
            self._until = self._until or time.monotonic() + LIMIT - POLL
            if time.monotonic() > self._until:
                raise StateError(f"the runner has not answered for {LIMIT:g} s: state is not known")
            waited += POLL
            if timeout is not None and waited >= timeout:
                return False
        return True

    def get(self, timeout: float | None = None) -> Any:
        """Return it.

        Raises:
            StateError: if it is an error, and as `wait`.
            LookupError: if it has not come in time.
        """
        if not self.wait(timeout):
            raise LookupError
        response = self._future.get()
        if response.error:
            raise StateError(f"the runner refused a request for state: {response.error}")
        self.good = True
        return response


def check_writes() -> None:
    """Let this process's Beam worker end a bundle whose state is not written.

    A bundle is reported as done only when the answers to all its writes have come, and none is an
    error. Else it fails, and Flink makes the job go back to its checkpoint. Reads have the same
    limit. A stream that breaks is noticed within seconds. One that the runner ends in good order is
    too where this was called before the stream was opened (`live_worker`), else by the limit.
    """
    handler: Any = sdk_worker.GrpcStateHandler
    start, request_one = handler.start, handler._request
    process = handler.process_instruction_id

    def watched_start(self: Any) -> None:
        stub = self._state_stub
        self._state_stub = SimpleNamespace(
            State=lambda requests: _until_ended(self, stub.State(requests))
        )
        start(self)

    def checked_request(self: Any, request: Any) -> _Answer:
        answer = _Answer(request_one(self, request), self)
        written = getattr(self._context, "written", None)
        if written is not None and not request.HasField("get"):
            written.append(answer)
        return answer

    @contextmanager
    def checked_bundle(self: Any, bundle_id: str) -> Iterator[None]:
        with process(self, bundle_id):
            written: list[_Answer] = []
            self._context.written = written
            try:
                yield
                for answer in written:
                    # Beam has waited for the last of each cell.
                    if not answer.good:
                        answer.get()
            finally:
                self._context.written = None

    def commit(self: Any) -> None:
        """Send what a cell is to hold; `checked_bundle` waits for the answers of all cells."""
        sent = []
        if self._cleared:
            sent.append(self._state_handler.clear(self._state_key))
        if self._added_elements:
            coder = self._value_coder.get_impl()
            sent.append(self._state_handler.extend(self._state_key, coder, self._added_elements))
        if not isinstance(getattr(self._state_handler, "_underlying", None), handler):
            for answer in sent:
                answer.get()

    vars(bundle_processor)["SynchronousBagRuntimeState"].commit = commit
    handler.start = watched_start
    handler._request = checked_request
    handler.process_instruction_id = checked_bundle
    send_together()


def _why_gone(handler: Any) -> str | None:
    """Return why no more answers come, None while the stream is there."""
    if handler._exception is None:
        return "the worker stops" if handler._done else None
    error = handler._exception
    return str(error.details() if isinstance(error, grpc.Call) else error)


def _until_ended(handler: Any, responses: Iterable[Any]) -> Iterator[Any]:
    """Pass the answers on; Beam's reader keeps what is raised for those who wait.

    Raises:
        StateError: if they end and the worker did not ask for it.
    """
    yield from responses
    if not handler._done:
        raise StateError(ENDED)
