"""Command-line flags of `replay`, `read-output`, `replay-dead-letters` and `reset`."""

from __future__ import annotations

import argparse
from typing import Any

from kerneltrack.errors import ConfigError
from pipelines.cli import input_options, kafka_options
from pipelines.cli.command_line import path_name
from pipelines.cluster.folder import named_cluster
from transforms.kafka.formats import FORMATS, OUTPUT_FORMATS

IDLE = 5.0
OF_BROKERS = ("brokers", "cluster", "client")
"""Flags of `add_brokers`, by their attributes."""


def add_replay_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `replay` to a parser."""
    parser.usage = (
        "kerneltrack replay INPUT... (--brokers HOST:PORT,... | --cluster DIR) --topic TOPIC "
        "--time COLUMN [flags]"
    )
    parser.add_argument("input", nargs="+", metavar="INPUT", help="Files, folders or globs.")
    add_brokers(parser)
    parser.add_argument("--topic", required=True, help="Send rows to this topic.")
    parser.add_argument(
        "--create-topic",
        type=int,
        metavar="PARTITIONS",
        help="Create the topic with this many partitions if it is missing.",
    )
    parser.add_argument(
        "--speed",
        type=float,
        default=1.0,
        metavar="X",
        help="Send X times as fast as the rows' event times; 0: at full speed. "
        "[default %(default)s]",
    )
    parser.add_argument(
        "--times",
        choices=("now", "keep"),
        default="now",
        help="Shift event times to now, at --speed, or keep them. [default %(default)s]",
    )
    parser.add_argument(
        "--message-rows",
        type=int,
        default=1,
        metavar="N",
        help="Put this many rows in a message. [default 1]",
    )
    parser.add_argument(
        "--message-format",
        choices=FORMATS,
        default="json",
        help="Format of messages. [default %(default)s]",
    )
    parser.add_argument(
        "--disorder",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="Delay rows at random by up to this long. [default: in order]",
    )
    parser.add_argument("--rows", type=int, metavar="N", help="Send only the first N rows.")
    input_options.add_input_flags(parser)


def add_read_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `read-output` to a parser."""
    add_brokers(parser)
    parser.add_argument("--topic", required=True, help="Print this output topic of a job.")
    parser.add_argument(
        "--output-format",
        choices=OUTPUT_FORMATS,
        default="json",
        help="Format of the topic's messages. [default %(default)s]",
    )
    parser.add_argument(
        "--output",
        type=path_name,
        metavar="FILE",
        help="Write a Parquet file. [default: print lines of JSON]",
    )
    parser.add_argument("--rows", type=int, metavar="N", help="End after this many different rows.")
    parser.add_argument(
        "--idle",
        type=float,
        default=IDLE,
        metavar="SECONDS",
        help="End when no message has come for this long. [default %(default)s; 0 means never]",
    )


def add_letter_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `replay-dead-letters` to a parser."""
    add_brokers(parser)
    parser.add_argument("--topic", required=True, help="Read dead letters from this topic.")
    parser.add_argument(
        "--to", metavar="TOPIC", help="Send to this topic. [default: where each came from]"
    )
    parser.add_argument(
        "--reason", metavar="REGEX", help="Send only messages whose reason matches."
    )
    parser.add_argument(
        "--partition",
        type=int,
        nargs="+",
        action="extend",
        metavar="N",
        help="Send only messages of these partitions.",
    )
    for flag, about in (("--since", "at or after"), ("--until", "before")):
        text = f"Send only messages whose record timestamp is {about} this time."
        parser.add_argument(flag, metavar="TIME", help=text)


def add_reset_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `reset` to a parser."""
    parser.add_argument("model", metavar="MODEL", help="Id of the device.")
    add_brokers(parser)
    parser.add_argument("--topic", required=True, help="Input topic of the job.")
    parser.add_argument(
        "--snapshots",
        metavar="DIR",
        help="Continue from the device's newest snapshot in this folder. [default: none]",
    )
    parser.add_argument(
        "--from-model", metavar="ID", help="Continue from another device's snapshot."
    )
    add_partition(parser)


def add_partition(parser: argparse.ArgumentParser) -> None:
    """Add the flag that says where commands for a device go."""
    parser.add_argument(
        "--partition",
        type=int,
        metavar="N",
        help="Partition with the device's rows. [default: as this client maps the id; "
        "with --client partitioner=murmur2_random, as Java's producers do]",
    )


def add_brokers(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say where Kafka is."""
    kafka_options.add_client_flags(parser)
    parser.add_argument(
        "--cluster", metavar="DIR", help="Use the brokers of the local cluster in this folder."
    )


def check_source(args: argparse.Namespace) -> None:
    """Check that there is either a run's folder or a topic.

    Raises:
        ConfigError: if there is neither, or both.
    """
    if args.folder is None and args.topic is None:
        raise ConfigError("DIR", "", "a run's folder, or --topic TOPIC")
    if args.folder is not None and args.topic is not None:
        raise ConfigError("--topic", args.topic, f"left out with the folder {args.folder}")


def client_settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of librdkafka's clients.

    Raises:
        ConfigError: for a bad setting, or if nothing says which brokers.
    """
    given: Any = args.brokers
    if given is None and args.cluster is not None:
        given = named_cluster(args.cluster).settings.address("kafka")
    if given is None:
        raise ConfigError("--brokers", "", "HOST:PORT of Kafka's brokers (or give --cluster)")
    return kafka_options.client_settings(args, str(given))
