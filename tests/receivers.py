"""Receivers of notifications that really listen: HTTP and SMTP servers on loopback."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

from tests.parts import module


class Request(NamedTuple):
    """A request that came."""

    path: str
    headers: Mapping[str, str]
    body: Any


class HttpServer:
    """Takes JSON; `answers` are the next statuses and headers, then all is 200."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.answers: list[tuple[int, dict[str, str]]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["Content-Length"]))
                status, headers = server.answers.pop(0) if server.answers else (200, {})
                body = json.loads(data)
                server.requests.append(Request(self.path, dict(self.headers), body))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                text = b"" if status == 200 else b"not now"
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def bodies(self) -> list[Any]:
        return [request.body for request in self.requests]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class MailServer(NamedTuple):
    """An SMTP server: where it listens, and what it took."""

    place: str
    messages: list[Any]


@contextmanager
def mail_server(
    certificate: tuple[Path, Path] | None = None, login: tuple[str, str] | None = None
) -> Iterator[MailServer]:
    """Run an SMTP server: with STARTTLS if there are a certificate and its key."""
    controller = module("aiosmtpd.controller", "aiosmtpd")
    handlers, smtp = (module(f"aiosmtpd.{name}", "aiosmtpd") for name in ("handlers", "smtp"))
    taken: list[Any] = []

    class Handler(handlers.Message):  # type: ignore[misc, name-defined]
        def handle_message(self, message: Any) -> None:
            taken.append(message)

    settings: dict[str, Any] = {}
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*map(str, certificate))
        settings |= {"tls_context": context, "require_starttls": True}
    if login is not None:
        wanted = tuple(word.encode() for word in login)

        def check(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> Any:
            return smtp.AuthResult(success=(data.login, data.password) == wanted)

        settings |= {"authenticator": check, "auth_required": True}
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    running = controller.Controller(Handler(), hostname="127.0.0.1", port=port, **settings)
    running.start()
    try:
        yield MailServer(f"127.0.0.1:{port}", taken)
    finally:
        running.stop()
