"""Metrics over HTTP, where Prometheus asks for them."""

from __future__ import annotations

import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from kerneltrack.errors import ConfigError

PATH = "/metrics"
_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PATIENCE = 10.0
"""Seconds for which a request is waited for."""
_MOST_PORT = 65_535


class MetricsServer:
    """Serves a text at `/metrics`, as of the newest `show`; 503 before the first one.

    Args:
        address: HOST:PORT; port 0 is any that is free.

    Raises:
        ConfigError: for an address that is none, or where it cannot listen.
    """

    def __init__(self, address: str) -> None:
        host, port = _host_and_port(address)
        self._text: bytes | None = None
        try:
            self._server = _Server((host, port), _handler_of(self))
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigError(
                "--serve", address, f"a free address of this host: {reason}"
            ) from error
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._server.server_port}{PATH}"

    def __enter__(self) -> MetricsServer:
        """Answer requests, in threads."""
        Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()

    @property
    def text(self) -> bytes | None:
        """What is shown; None before the first text."""
        return self._text

    def show(self, text: str) -> None:
        """Answer with this from now on."""
        self._text = text.encode("utf-8", "replace")


class _Server(ThreadingHTTPServer):
    def __init__(self, address: tuple[str, int], handler: Any) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)


def _handler_of(shown: MetricsServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _PATIENCE

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != PATH:
                self._answer(404, f"metrics are at {PATH}\n".encode())
            elif shown.text is None:
                self._answer(503, b"nothing was read yet\n")
            else:
                self._answer(200, shown.text)

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", _TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing of a request."""

    return Handler


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > _MOST_PORT:
        raise ConfigError("--serve", address, "HOST:PORT, such as 127.0.0.1:9469")
    return host, int(port)
