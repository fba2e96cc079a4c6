"""Requests over HTTP, and what a failed delivery says of the next one."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from kerneltrack.errors import ConfigError, KerneltrackError, fit

TIMEOUT = 20.0
"""Seconds that a receiver may take to answer."""
MOST_ANSWER = 500
BAD_CONTENT = (400, 413, 415, 422)
"""Answers by which this notification is at fault, and no other may be."""


class DeliveryError(KerneltrackError):
    """A notification was not delivered.

    Args:
        message: Why, on one line, without secrets.
        after: Seconds after which the receiver wants it again; None: it does not say.
        final: Whether it is refused for what it holds, so that it is not sent again.
    """

    def __init__(self, message: str, after: float | None = None, final: bool = False) -> None:
        super().__init__(message)
        self.after, self.final = after, final


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: what is posted would be lost on the way."""

    def redirect_request(self, *_: Any) -> None:
        """Follow none."""


_OPENER = urllib.request.build_opener(_NoRedirects)


def check_url(field: str, url: str, shown: str | None = None) -> str:
    """Return an address of HTTP.

    Raises:
        ConfigError: for another one, or one with a password; `shown`: what the error says it is.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(field, shown or url, "http://HOST... or https://HOST...")
    if parts.password is not None:
        raise ConfigError(field, "...", "an address without a password: secrets are in files")
    return url


def post(name: str, url: str, body: Any, headers: Mapping[str, str] = {}) -> None:
    """Post a body as JSON.

    Args:
        name: What the receiver is called, for errors: addresses may be secrets.
        url: The address.
        body: What is sent.
        headers: More headers.

    Raises:
        DeliveryError: unless the answer is 2xx.
    """
    data = json.dumps(body, allow_nan=False).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **headers})
    try:
        with _OPENER.open(request, timeout=TIMEOUT) as answer:
            answer.read(MOST_ANSWER)
    except urllib.error.HTTPError as error:
        with error:
            text = error.read(MOST_ANSWER).decode("utf-8", "replace")
        after = error.headers.get("Retry-After", "")
        message = f"{name} answers {error.code} {error.reason}: {fit(text)}".rstrip(": ")
        seconds = float(after) if after.isdigit() else None
        raise DeliveryError(message, seconds, error.code in BAD_CONTENT) from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise DeliveryError(f"{name} does not answer: {fit(reason)}") from None
