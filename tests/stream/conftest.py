"""A schema registry, served on the loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from transforms.kafka import schema_registry

Answer = tuple[int, Any]


class Served(dict[str, Answer]):
    """What is answered, by path, and what was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, str | None]] = []
        self.url = ""


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(schema_registry, "PAUSE", 0.01)
    answers = Served()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answers.asked.append((self.path, self.headers["Authorization"]))
            code, content = answers.get(self.path, (404, {"error_code": 40403}))
            if callable(content):
                code, content = content()
            self.send_response(code)
            self.end_headers()
            text = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.wfile.write(text)

        def log_message(self, format: str, *args: Any) -> None:
            """Keep quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        answers.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield answers
        server.shutdown()
        thread.join()
