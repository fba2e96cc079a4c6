"""Schemas of messages from a schema registry, by the number that a message begins with.

The wire format is Confluent's: a zero byte, the schema's number as four bytes, the highest first,
and what is written by that schema (`avro_by_schema`, `protobuf_by_schema`). A number's schema never
changes, so what a message means depends on its bytes alone. Two calls of the registry are needed,
`GET /schemas/ids/ID` and, for schemas that refer to others,
`GET /subjects/SUBJECT/versions/VERSION`.

Reference: Confluent, "Schema Registry API reference" and "Wire format", docs.confluent.io.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

from kerneltrack.errors import ConfigError, DataError, one_line
from transforms.kafka import avro_by_schema, protobuf_by_schema
from transforms.kafka.formats import CONFLUENT_AVRO, CONFLUENT_PROTOBUF
from transforms.kafka.messages import BadMessageError
from transforms.kafka.secrets import resolve

URL, USER, CERTIFICATES = "url", "basic.auth.user.info", "ssl.ca.location"
SETTINGS = (URL, USER, CERTIFICATES)
"""Settings, by the names that Confluent's own clients have for them."""

MOST_SCHEMAS = 1_000
"""Schemas that a worker remembers."""
HEAD = 5
LANGUAGES = {CONFLUENT_AVRO: avro_by_schema, CONFLUENT_PROTOBUF: protobuf_by_schema}
"""What reads schemas and messages, by the form of the latter."""
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
        form: How messages are written, one of `LANGUAGES`.
    """

    def __init__(self, settings: Mapping[str, str], form: str) -> None:
        """Keep the settings; nothing is asked yet."""
        self._language = LANGUAGES[form]
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
        return self._language.read(schema, value[HEAD:])

    def _fetch(self, number: int) -> Any:
        found = self._ask(f"/schemas/ids/{number}{self._language.QUERY}", f"schema {number}")
        kind = found.get("schemaType", avro_by_schema.KIND)
        if kind != self._language.KIND:
            raise BadMessageError(
                f"schema {number} is one of {kind}: must be {self._language.KIND}"
            )
        texts: dict[str, str] = {}
        self._add_references(found, texts, set())
        return self._language.parse([*texts.items(), (str(number), found["schema"])])

    def _add_references(
        self, found: Mapping[str, Any], texts: dict[str, str], asked: set[str]
    ) -> None:
        """Add the schemas that one refers to, each after those that it refers to itself."""
        for other in found.get("references") or ():
            name = other["name"]
            if name in asked:
                continue
            asked.add(name)
            place = f"/subjects/{urllib.parse.quote(other['subject'], safe='')}"
            place += f"/versions/{int(other['version'])}{self._language.QUERY}"
            more = self._ask(place, f"schema {name}")
            self._add_references(more, texts, asked)
            texts[name] = more["schema"]

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
