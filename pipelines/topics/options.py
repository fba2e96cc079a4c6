"""Command-line flags of `replay`, `read-output`, `replay-dead-letters` and `reset`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from kerneltrack.errors import ConfigError
from pipelines.cli import input_options, kafka_options
from pipelines.cli.command_line import path_name
from pipelines.cluster.folder import Folder, load
from transforms.kafka.formats import FORMATS, OUTPUT_FORMATS

IDLE = 5.0


def add_replay_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `replay` to a parser."""
    parser.usage = "kerneltrack replay INPUT... --topic TOPIC --time COLUMN [flags]"
    parser.add_argument("input", nargs="+", metavar="INPUT", help="files, folders or globs")
    add_brokers(parser)
    parser.add_argument("--topic", required=True, help="where to")
    parser.add_argument(
        "--create-topic",
        type=int,
        default=None,
        metavar="PARTITIONS",
        help="make the topic, with so many partitions, if it is missing",
    )
    parser.add_argument(
        "--speed",
        type=float,
        default=1.0,
        metavar="X",
        help="times as fast as the rows' own clock; 0: as fast as it goes (default %(default)s)",
    )
    parser.add_argument(
        "--times",
        choices=("now", "keep"),
        default="now",
        help="event times begin now and go at --speed, or are kept (default %(default)s)",
    )
    parser.add_argument(
        "--message-rows", type=int, default=1, metavar="N", help="of a message (default 1)"
    )
    parser.add_argument(
        "--message-format", choices=FORMATS, default="json", help="(default %(default)s)"
    )
    parser.add_argument(
        "--disorder",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="rows come up to so long after their turn (default: in order)",
    )
    parser.add_argument("--rows", type=int, default=None, metavar="N", help="only the first N")
    input_options.add_input_flags(parser)


def add_read_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `read-output` to a parser."""
    add_brokers(parser)
    parser.add_argument("--topic", required=True, help="an output topic of a job")
    parser.add_argument(
        "--output-format", choices=OUTPUT_FORMATS, default="json", help="(default %(default)s)"
    )
    parser.add_argument(
        "--output",
        type=path_name,
        default=None,
        metavar="FILE",
        help="a Parquet file (default: lines of JSON)",
    )
    parser.add_argument(
        "--rows", type=int, default=None, metavar="N", help="end after so many different rows"
    )
    parser.add_argument(
        "--idle",
        type=float,
        default=IDLE,
        metavar="SECONDS",
        help="end when no message has come for so long (default %(default)s; 0: never)",
    )


def add_letter_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `replay-dead-letters` to a parser."""
    add_brokers(parser)
    parser.add_argument("--topic", required=True, help="of the dead letters")
    parser.add_argument(
        "--to", default=None, metavar="TOPIC", help="where to (default: where each came from)"
    )
    parser.add_argument(
        "--reason", default=None, metavar="REGEX", help="only those whose reason has it"
    )
    parser.add_argument(
        "--partition", type=int, nargs="+", metavar="N", help="only messages of these partitions"
    )
    for flag, about in (("--since", "at or after"), ("--until", "before")):
        text = f"only messages whose record timestamp is {about} it"
        parser.add_argument(flag, default=None, metavar="TIME", help=text)


def add_reset_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `reset` to a parser."""
    parser.add_argument("model", metavar="MODEL", help="its id")
    add_brokers(parser)
    parser.add_argument("--topic", required=True, help="the job's input")
    parser.add_argument(
        "--snapshots",
        default=None,
        metavar="DIR",
        help="go on from the model's newest snapshot there (default: begin anew)",
    )
    parser.add_argument(
        "--from-model", default=None, metavar="ID", help="from another model's snapshot"
    )
    parser.add_argument(
        "--partition",
        type=int,
        default=None,
        metavar="N",
        help="that holds the model's rows (default: where this client puts the id; "
        "--client partitioner=murmur2_random puts it where Java's producers do)",
    )


def add_brokers(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say where Kafka is."""
    kafka_options.add_client_flags(parser)
    parser.add_argument(
        "--cluster", default=None, metavar="DIR", help="folder of a local cluster, for its brokers"
    )


def client_settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of librdkafka's clients.

    Raises:
        ConfigError: for a bad setting, or if nothing says which brokers.
    """
    given: Any = args.brokers
    if given is None and args.cluster is not None:
        cluster = load(Folder(Path(args.cluster).absolute()))
        if cluster is None:
            raise ConfigError("--cluster", args.cluster, "a folder in which a cluster was started")
        given = cluster.settings.address("kafka")
    if given is None:
        raise ConfigError("--brokers", "", "HOST:PORT of Kafka's brokers (or give --cluster)")
    return kafka_options.client_settings(args, str(given))
