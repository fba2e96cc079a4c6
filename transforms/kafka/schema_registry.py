"""Schemas of messages from a schema registry, by the number that a message begins with.

The wire format is Confluent's: a zero byte, the schema's number as four bytes, the highest first,
and one record in Avro's binary encoding. A number's schema never changes, so what a message means
depends on its bytes alone. Two calls of the registry are needed, `GET /schemas/ids/ID` and, for
schemas that refer to others, `GET /subjects/SUBJECT/versions/VERSION`.

Reference: Confluent, "Schema Registry API reference" and "Wire format", docs.confluent.io.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import io
import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

import fastavro

from kerneltrack.errors import ConfigError, DataError, one_line
from transforms.kafka.messages import BadMessageError
from transforms.kafka.secrets import resolve

URL, USER, CERTIFICATES = "url", "basic.auth.user.info", "ssl.ca.location"
SETTINGS = (URL, USER, CERTIFICATES)
"""Settings, by the names that Confluent's own clients have for them."""

MOST_SCHEMAS = 1_000
"""Schemas that a worker remembers."""
HEAD = 5
TRIES, PAUSE, PATIENCE = 4, 0.5, 10.0
_MISSING = 404


def check_settings(settings: Mapping[str, str]) -> None:
    """Check the settings of a registry.

    Raises:
        ConfigError: for a name that is none of `SETTINGS`, or without a URL.
    """
    for name, value in settings.items():
        if name not in SETTINGS:
            raise ConfigError(f"--registry {name}", value, f"one of {', '.join(SETTINGS)}")
    parts = urllib.parse.urlsplit(settings.get(URL, ""))
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ConfigError("--registry url", settings.get(URL, ""), "http://HOST[:PORT] or https://")
    if "@" in parts.netloc:
        raise ConfigError("--registry url", "...", f"no password: it belongs in {USER}")


class SchemaRegistry:
    """A registry, and the schemas that were asked for.

    Args:
        settings: Its settings; secrets by reference (see `secrets`).
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        """Keep the settings; nothing is asked yet."""
        found = resolve(settings)
        self._url = found[URL].rstrip("/")
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if USER in found:
            word = base64.b64encode(found[USER].encode()).decode()
            self._headers["Authorization"] = f"Basic {word}"
        self._context = None
        if self._url.startswith("https"):
            self._context = ssl.create_default_context(cafile=found.get(CERTIFICATES))
        self._schema = functools.lru_cache(MOST_SCHEMAS)(self._fetch)

    def check(self) -> None:
        """Check that the registry answers.

        Raises:
            DataError: if it does not.
        """
        with contextlib.suppress(BadMessageError):
            self._ask("/schemas/types", "")

    def read(self, value: bytes) -> Any:
        """Read a message.

        Raises:
            BadMessageError: for bytes that are no such message, or a number that the registry
                does not know.
            DataError: if the registry cannot be asked: the message waits until it can.
        """
        if len(value) < HEAD or value[0] != 0:
            raise BadMessageError("no zero byte and schema number at its begin")
        schema = self._schema(int.from_bytes(value[1:HEAD], "big"))
        body = io.BytesIO(value)
        body.seek(HEAD)
        found = fastavro.schemaless_reader(body, schema, None)
        if body.tell() != len(value):
            raise BadMessageError(f"{len(value) - body.tell()} bytes behind the record")
        return found

    def _fetch(self, number: int) -> Any:
        found = self._ask(f"/schemas/ids/{number}", f"schema {number}")
        kind = found.get("schemaType", "AVRO")
        if kind != "AVRO":
            raise BadMessageError(f"schema {number} is one of {kind}: must be AVRO")
        named: dict[str, Any] = {}
        return self._parsed(found, named, f"schema {number}")

    def _parsed(self, found: Mapping[str, Any], named: dict[str, Any], what: str) -> Any:
        """Parse a schema, those that it refers to first."""
        for other in found.get("references") or ():
            if other["name"] in named:
                continue
            place = f"/subjects/{urllib.parse.quote(other['subject'], safe='')}"
            place += f"/versions/{int(other['version'])}"
            self._parsed(self._ask(place, f"schema {other['name']}"), named, what)
        try:
            return fastavro.parse_schema(json.loads(found["schema"]), named)
        except Exception as error:
            raise BadMessageError(f"{what} is no schema of Avro: {one_line(error)}") from error

    def _ask(self, place: str, what: str) -> Any:
        """Ask, some times if there is no answer."""
        request = urllib.request.Request(self._url + place, headers=self._headers)
        for left in reversed(range(TRIES)):
            try:
                with urllib.request.urlopen(
                    request, timeout=PATIENCE, context=self._context
                ) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                if error.code == _MISSING:
                    raise BadMessageError(f"{what} is not in the registry") from error
                why = f"HTTP {error.code} {error.reason}"
            except (OSError, ValueError) as error:
                why = one_line(error)
            if left:
                time.sleep(PAUSE)
        raise DataError(self._url + place, f"the schema registry does not answer: {why}")
