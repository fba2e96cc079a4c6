"""Ask a server on this machine whether it answers, in its own protocol."""

from __future__ import annotations

import http.client
import json
import socket
import struct
from typing import Any

from pipelines.cluster.settings import HOST

PATIENCE = 2.0
OK = 200

API_VERSIONS = 18
CLIENT = b"kerneltrack"

HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HTTP2_SETTINGS = 4
HTTP2_HEADER = 9


def ask_flink(port: int, path: str) -> Any:
    """Return what Flink's REST API says, or None if it says nothing."""
    connection = http.client.HTTPConnection(HOST, port, timeout=PATIENCE)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return json.loads(response.read()) if response.status == OK else None
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()


def kafka_answers(port: int) -> bool:
    """Check whether a broker takes requests: it says which ones it knows."""
    header = struct.pack(">hhih", API_VERSIONS, 0, 1, len(CLIENT)) + CLIENT
    # Size and correlation id of the answer, then its error code: none.
    answer = _exchange(port, struct.pack(">i", len(header)) + header, 10)
    return answer is not None and struct.unpack(">ih", answer[4:]) == (1, 0)


def grpc_answers(port: int) -> bool:
    """Check whether a gRPC server greets, as every HTTP/2 server does, with its settings."""
    empty_settings = struct.pack(">BHBBI", 0, 0, HTTP2_SETTINGS, 0, 0)
    answer = _exchange(port, HTTP2_PREFACE + empty_settings, HTTP2_HEADER)
    return answer is not None and answer[3] == HTTP2_SETTINGS


def _exchange(port: int, message: bytes, size: int) -> bytes | None:
    """Send a message and return the first bytes that come back, if they do."""
    try:
        with socket.create_connection((HOST, port), timeout=PATIENCE) as connection:
            connection.sendall(message)
            answer = b""
            while len(answer) < size:
                more = connection.recv(size - len(answer))
                if not more:
                    return None
                answer += more
            return answer
    except OSError:
        return None
