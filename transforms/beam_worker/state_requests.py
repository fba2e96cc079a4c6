"""Requests for state that leave together: Beam's handler over a stream of our own.

All that a bundle writes is sent when the first answer is waited for: one piece of memory, not a
message at a time (see `state_stream`). Nothing else changes: Beam's handler numbers requests and
finds the answers' owners, the runner is as it is. Where the other side does not take the stream, or
wants TLS, Beam's own is used.

Part of `state_writes`, which says when a request is waited for.
Changes: `GrpcStateHandler.start` and its queue, and the factory that makes handlers.
Needless once: requests for state travel in batches (apache/beam#18494, open since 2019).
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.worker import sdk_worker

from transforms.beam_worker.state_stream import StateStream, StreamError

MOST_HELD = 1 << 20
"""Bytes of requests that are held at most until they are sent."""

ENDED = "the runner has ended it"
PATH = f"/{beam_fn_api_pb2.DESCRIPTOR.services_by_name['BeamFnState'].full_name}/State"

_LOGGER = logging.getLogger(__name__)


class Outbox:
    """Requests that leave together; it stands for the queue of Beam's handler."""

    def __init__(self, stream: StateStream) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._requests: list[bytes] = []
        self._size = 0

    def put(self, request: Any) -> None:
        """Take a request in; Beam's mark of the end closes the stream."""
        if not isinstance(request, beam_fn_api_pb2.StateRequest):
            self._stream.close()
            return
        data = request.SerializeToString()
        with self._lock:
            self._requests.append(data)
            self._size += len(data)
        if self._size >= MOST_HELD:
            self._send()

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """Send what is held, and let answers come at once for as long as one is waited for."""
        with self._stream.awaited():
            self._send()
            yield

    def _send(self) -> None:
        # Two bundles may do so at once: their requests must not be mixed up in one message.
        with self._lock:
            requests, self._requests, self._size = self._requests, [], 0
            if requests:
                # Who waits for an answer is told why the stream is gone.
                with suppress(StreamError):
                    self._stream.send(requests)


def send_together() -> None:
    """Let this process's Beam worker speak to the runner's state by streams of our own.

    Those that it opens from now on, that is.
    """
    handler: Any = sdk_worker.GrpcStateHandler
    factory: Any = sdk_worker.GrpcStateHandlerFactory
    start, create = handler.start, factory.create_state_handler
    opening = threading.local()

    def create_known(self: Any, descriptor: Any) -> Any:
        """Let the handler that is made know where it is to connect to, if that is without TLS."""
        worker = self._worker_id or os.environ.get("WORKER_ID")
        plain = descriptor and self._credentials is None
        opening.call = (descriptor.url, worker) if plain else None
        try:
            return create(self, descriptor)
        finally:
            opening.call = None

    def start_together(self: Any) -> None:
        called = getattr(opening, "call", None)
        outbox = None if called is None else _opened(self, *called)
        if outbox is None:
            start(self)
            return
        self._done = False
        self._requests = outbox

    factory.create_state_handler = create_known
    handler.start = start_together


def _opened(handler: Any, address: str, worker: str | None) -> Outbox | None:
    """Open a stream for Beam's handler; None if the other side does not take it."""

    def take(message: bytes) -> None:
        response = beam_fn_api_pb2.StateResponse.FromString(message)
        handler._responses_by_id.pop(response.id).set(response)

    def end(why: str | None) -> None:
        handler._exception = StreamError(why or ENDED)

    headers = [("worker_id", worker)] if worker else []
    try:
        return Outbox(StateStream(address, PATH, headers, take, end))
    except StreamError as error:
        _LOGGER.warning("State goes by gRPC's own stream, which is slower: %s", error)
        return None
