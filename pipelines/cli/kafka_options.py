"""Command-line flags of Kafka's clients, which all commands that reach it have."""

from __future__ import annotations

import argparse
from typing import Any

from kerneltrack.errors import ConfigError
from transforms.kafka.secrets import PROVIDERS, check_no_secret

OURS = ("bootstrap.servers", "group.id", "enable.auto.commit", "auto.offset.reset")


def _add_settings(group: Any, flag: str, text: str) -> None:
    """Add a flag for settings, each NAME=VALUE; see `_pairs`."""
    group.add_argument(flag, action="append", default=[], metavar="NAME=VALUE", help=text)


def add_client_flags(group: Any) -> None:
    """Add the flags of librdkafka's clients."""
    group.add_argument("--brokers", metavar="HOST:PORT,...", help="Connect to these Kafka brokers.")
    _add_settings(
        group,
        "--client",
        "Pass a setting to librdkafka's clients (security.protocol=SASL_SSL). Write secrets as "
        "${file:PATH:KEY} or ${env:NAME}.",
    )


def add_consumer_flag(group: Any) -> None:
    """Add the flag of Java's consumer."""
    _add_settings(
        group,
        "--consumer",
        "Pass a setting to Java's consumer, which reads the input. Write secrets as for --client; "
        "they are read where Flink runs.",
    )


def add_registry_flag(group: Any) -> None:
    """Add the flag of a schema registry."""
    _add_settings(
        group,
        "--registry",
        "Pass a setting of the schema registry for --format confluent-avro or confluent-protobuf: "
        "url, basic.auth.user.info or ssl.ca.location. Write secrets as for --client.",
    )


def registry_settings(args: argparse.Namespace) -> dict[str, str] | None:
    """Return the settings of the schema registry, secrets still by reference; None without one.

    Raises:
        ConfigError: for settings that it has not, or where one is not needed, or missing.
        DataError: if it does not answer.
    """
    # Only for a job that is started: Avro's reader takes a while to import.
    from transforms.kafka.formats import REGISTERED  # noqa: PLC0415
    from transforms.kafka.schema_registry import SchemaRegistry, check_settings  # noqa: PLC0415

    given = _pairs("--registry", args.registry)
    if args.format not in REGISTERED:
        if given:
            raise ConfigError("--registry", args.registry[0], f"left out: --format {args.format}")
        return None
    check_settings(given)
    SchemaRegistry(given, args.format).check()
    return given


def client_settings(args: argparse.Namespace, brokers: str) -> dict[str, Any]:
    """Return the settings of librdkafka's clients, secrets still by reference.

    Raises:
        ConfigError: for a setting that is ours, or a secret that is written out.
    """
    # Errors come back to the caller, not to a log.
    return {"log_level": 2, **_pairs("--client", args.client), "bootstrap.servers": brokers}


def consumer_settings(args: argparse.Namespace, brokers: str) -> dict[str, str]:
    """Return the settings of Java's consumer, secrets still by reference; see `client_settings`.

    Messages of transactions that were aborted, or are open yet, are not read unless
    `isolation.level` says so.
    """
    given = {"isolation.level": "read_committed", **_pairs("--consumer", args.consumer)}
    providers = PROVIDERS if any("${" in value for value in given.values()) else {}
    return {**providers, **given, "bootstrap.servers": brokers, "enable.auto.commit": "false"}


def _pairs(flag: str, texts: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ConfigError(flag, name or text, "NAME=VALUE")
        if name in OURS:
            raise ConfigError(flag, name, "left out: another flag says it, or nothing may")
        check_no_secret(flag, name, value)
        found[name] = value
    return found
