"""The worker's own stream of state: HTTP/2 as any other side may speak it, gRPC's where none is."""

from __future__ import annotations

import logging
import queue
import socket
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc  # type: ignore[import-untyped]
import hpack
import pytest
from apache_beam.portability.api import beam_fn_api_pb2_grpc, endpoints_pb2
from apache_beam.runners.worker import sdk_worker
from apache_beam.runners.worker.statecache import StateCache

from tests.stream.test_state_writes import KEYS, Runner, Worker
from transforms.beam_worker.install import install
from transforms.beam_worker.state_requests import Outbox
from transforms.beam_worker.state_stream import StateStream, StreamError

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
PATIENCE = 30.0


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    head = len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big")
    return head + payload


def message(data: bytes) -> bytes:
    return b"\0" + len(data).to_bytes(4, "big") + data


class Side:
    """The other side of one connection, frame by frame."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(PATIENCE)
        self._connection = connection
        self.data = b""

    def send(self, *frames: bytes) -> None:
        self._connection.sendall(b"".join(frames))

    def take(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            part = self._connection.recv(count - len(found))
            assert part
            found += part
        return found

    def next(self) -> tuple[int, int, int, bytes]:
        head = self.take(9)
        (stream,) = struct.unpack(">I", head[5:])
        return head[3], head[4], stream, self.take(int.from_bytes(head[:3], "big"))

    def until(self, kind: int) -> tuple[int, int, int, bytes]:
        """Return the next frame of this kind; data before it is kept."""
        while (found := self.next())[0] != kind:
            if found[0] == 0:
                self.data += found[3]
        return found


class Ours:
    """What our side is told."""

    def __init__(self) -> None:
        self.messages: queue.Queue[bytes] = queue.Queue()
        self.ends: queue.Queue[str | None] = queue.Queue()


@contextmanager
def connected(*first: bytes) -> Iterator[tuple[StateStream, Side, Ours]]:
    """Open a stream to a side that answers with these frames."""
    ours = Ours()
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:

        def other() -> Side:
            side = Side(server.accept()[0])
            side.send(*first)
            return side

        waiting = pool.submit(other)
        address = f"127.0.0.1:{server.getsockname()[1]}"
        reported = [("worker_id", "7")]
        stream = StateStream(address, "/a/B", reported, ours.messages.put, ours.ends.put)
        side = waiting.result(PATIENCE)
        try:
            yield stream, side, ours
        finally:
            stream.close()


def test_a_call_is_opened_as_grpc_opens_one() -> None:
    with connected(frame(4, 0, 0)) as (_, side, _):
        assert side.take(len(PREFACE)) == PREFACE
        assert side.next()[0] == 4
        kind, flags, stream, payload = side.until(1)
        assert (kind, flags, stream) == (1, 4, 1)
        headers = {str(name): str(value) for name, value in hpack.Decoder().decode(payload)}
        assert headers.pop(":authority").startswith("127.0.0.1:")
        assert headers == {
            ":method": "POST",
            ":scheme": "http",
            ":path": "/a/B",
            "te": "trailers",
            "content-type": "application/grpc",
            "worker_id": "7",
        }
        assert side.until(4) == (4, 1, 0, b"")


def test_no_more_is_sent_than_there_is_room_for() -> None:
    """Windows of stream and connection, a window made smaller, and the longest frame."""
    small = struct.pack(">HI", 4, 10) + struct.pack(">HI", 5, 16_384)
    with connected(frame(4, 0, 0, small)) as (stream, side, _):
        side.take(len(PREFACE))
        side.until(4)
        side.until(4)
        data = bytes(range(256)) * 400
        sending = threading.Thread(target=stream.send, args=([data, b"end"],))
        sending.start()
        assert side.next() == (0, 0, 1, message(data)[:10])
        side.send(frame(8, 0, 1, (5).to_bytes(4, "big")), frame(6, 0, 0, b"12345678"))
        # In whatever order: another thread answers.
        two = sorted([side.next(), side.next()])
        assert two == [(0, 0, 1, message(data)[10:15]), (6, 1, 0, b"12345678")]
        side.send(frame(4, 0, 0, struct.pack(">HI", 4, 30)))
        side.until(4)
        side.send(frame(8, 0, 1, (10**6).to_bytes(4, "big")))
        wanted = message(data) + message(b"end")
        found = message(data)[:15] + side.data
        while len(found) < 65_535:
            kind, _, _, payload = side.next()
            assert kind == 0
            assert len(payload) <= 16_384
            found += payload
        assert len(found) == 65_535
        side.send(frame(8, 0, 0, (10**6).to_bytes(4, "big")))
        while len(found) < len(wanted):
            found += side.next()[3]
        assert found == wanted
        sending.join(PATIENCE)
        assert not sending.is_alive()


def test_messages_come_however_frames_are_cut() -> None:
    with connected(frame(4, 0, 0)) as (_, side, ours):
        parts = message(b"first") + message(b"") + message(b"third" * 10_000)
        head = hpack.Encoder().encode([(":status", "200")])
        side.send(frame(1, 0x20, 1, bytes(5) + head[:1]), frame(9, 4, 1, head[1:]))
        side.send(frame(0, 0, 1, parts[:3]), frame(0, 8, 1, b"\2" + parts[3:20] + b"\0\0"))
        side.send(frame(0xB, 0, 1, b"unknown"), frame(0, 0, 3, b"another call's"))
        side.send(*(frame(0, 0, 1, parts[at : at + 9000]) for at in range(20, len(parts), 9000)))
        found = [ours.messages.get(timeout=PATIENCE) for _ in range(3)]
        assert found == [b"first", b"", b"third" * 10_000]


TRAILERS = hpack.Encoder().encode([("grpc-status", "14"), ("grpc-message", "no%20room")])
GOOD = hpack.Encoder().encode([("grpc-status", "0")])
LOST = hpack.Encoder().encode([(":status", "404")])


@pytest.mark.parametrize(
    ("last", "why"),
    [
        (frame(1, 5, 1, TRAILERS), "no room"),
        (frame(1, 5, 1, GOOD), None),
        (frame(1, 4, 1, LOST), "HTTP status 404"),
        (frame(0, 1, 1, b""), None),
        (frame(3, 0, 1, (8).to_bytes(4, "big")), "reset, HTTP/2 error 8"),
        (
            frame(7, 0, 0, bytes(4) + (11).to_bytes(4, "big") + b"calm"),
            "away, HTTP/2 error 11 calm",
        ),
        (frame(0, 0, 1, b"\1\0\0\0\0"), "a compressed message"),
        (frame(1, 5, 1, b"\xff\xff\xff\xff\xff"), "not HTTP/2"),
        (frame(8, 0, 1, b"1"), "not HTTP/2"),
    ],
)
def test_the_end_of_a_stream_says_why(last: bytes, why: str | None) -> None:
    # One that turns away other calls than ours is no end.
    with connected(frame(4, 0, 0), frame(7, 0, 0, (1).to_bytes(4, "big") * 2)) as (
        stream,
        side,
        ours,
    ):
        side.send(last)
        found = ours.ends.get(timeout=PATIENCE)
        assert found is None if why is None else why in str(found)
        with pytest.raises(StreamError):
            stream.send([b"more"])


def test_a_connection_that_goes_is_noticed() -> None:
    with connected(frame(4, 0, 0)) as (_, side, ours):
        side._connection.close()
        assert "connection" in str(ours.ends.get(timeout=PATIENCE)).lower()


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere", "127.0.0.1:none"])
def test_where_nobody_is_none_is_opened(address: str) -> None:
    with pytest.raises(StreamError, match=f"^{address}: "):
        StateStream(address, "/a/B", [], print, print)


def test_values_far_larger_than_windows_come_whole() -> None:
    install()
    service = Runner()
    endless = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    server = grpc.server(ThreadPoolExecutor(2), options=endless)
    beam_fn_api_pb2_grpc.add_BeamFnStateServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    worker = Worker(f"127.0.0.1:{port}")
    try:
        handler: Any = worker.handler
        assert isinstance(handler._underlying._requests, Outbox)
        model = bytes(range(256)) * 4_000
        worker.bundle(model)
        assert worker.bundle(b"small") == [[model] for _ in KEYS]
        assert worker.bundle(b"small") == [[b"small"] for _ in KEYS]
    finally:
        worker.close()
        server.stop(None).wait()


@pytest.mark.parametrize("credentials", [None, grpc.local_channel_credentials()])
def test_beams_own_stream_is_behind_it(credentials: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Where TLS is asked for, and where nobody speaks HTTP/2."""
    install()
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"

        def turn_away() -> None:
            server.accept()[0].close()

        closing = threading.Thread(target=turn_away)
        closing.start()
        factory: Any = sdk_worker.GrpcStateHandlerFactory(
            StateCache(1 << 20), credentials=credentials, worker_id="worker"
        )
        # Commands that were run before may have turned warnings off.
        with caplog.at_level(logging.WARNING):
            handler = factory.create_state_handler(endpoints_pb2.ApiServiceDescriptor(url=address))
        assert isinstance(handler._underlying._requests, queue.Queue)
        output_text = [
            line for line in caplog.messages if "gRPC's own stream, which is slower" in line
        ]
        assert bool(output_text) == (credentials is None)
        factory.close()
        socket.create_connection(server.getsockname()).close()
        closing.join(PATIENCE)
