"""Command-line flags of the live job, and what they say of its messages."""

from __future__ import annotations

import argparse
import dataclasses
import re
from typing import Any

import pyarrow as pa

from kerneltrack.errors import ConfigError
from pipelines.cli import input_options, kafka_options, spec_options, work_options
from transforms.kafka.encode import OUTPUT_FORMATS
from transforms.kafka.messages import FORMATS, MESSAGE_KEY, RECORD_TIME
from transforms.read.column_options import LABEL_TYPES, ColumnOptions
from transforms.read.columns import Columns
from transforms.read.matrix import Feature
from transforms.track.clock import DROP, KEEP

MAX_DISORDER = 1.0
MAX_JUMP = 3600.0
IDLE_FLUSH = 10.0
MOST = 2**31 - 1
TOPICS = ("predictions", "metrics", "mismatch", "alerts", "dead-letters")
"""Outputs beside the features; their topics are called OUTPUT-NAME unless named."""

RUNNER_FLAGS = {
    "checkpointing_interval": (1000, "ms between checkpoints"),
    "max_bundle_time_mills": (50, "ms that a bundle gathers rows at most"),
    "max_bundle_size": (100_000, "messages that it gathers at most"),
}
"""Flags of Beam's Flink runner that Beam's Python does not know: default and meaning."""

_WITHOUT = {
    "model_id": "the message's key",
    "time": "Kafka's record timestamp",
    "features": "none: they must be named; NAME[N] is a list of N numbers",
}


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the job's flags to a parser."""
    parser.usage = (
        "kerneltrack stream --brokers HOST:PORT --topic TOPIC --output-topic TOPIC "
        "--features NAME... [flags] [Beam's flags]"
    )
    _add_kafka_flags(parser)
    _add_job_flags(parser)
    order = parser.add_argument_group("order")
    seconds: dict[str, Any] = {"type": float, "metavar": "SECONDS"}
    order.add_argument(
        "--max-disorder",
        **seconds,
        default=MAX_DISORDER,
        help="rows that come later than this behind their model's newest are late and go to the "
        "dead letters; all wait that long (default %(default)s; 0: order of arrival)",
    )
    order.add_argument(
        "--max-jump",
        **seconds,
        default=MAX_JUMP,
        help="rows further ahead of their model's newest than this are refused "
        "(default %(default)s)",
    )
    order.add_argument(
        "--idle-flush",
        **seconds,
        default=IDLE_FLUSH,
        help="rows of a model that has sent none for so long are taken without waiting for newer "
        "ones (default %(default)s; 0: never)",
    )
    order.add_argument(
        "--duplicates",
        choices=(KEEP, DROP),
        default=KEEP,
        help="rows of a model's that have the time, and --sequence if there is one, of another: "
        "take them, or only the first by partition and offset (default %(default)s)",
    )
    parser.add_argument(
        "--extras", nargs="+", choices=("q", "s"), default=(), help="more features per row"
    )
    input_options.add_column_flags(parser, _WITHOUT)
    spec_options.add_spec_flags(parser)
    parser.add_argument(
        "--metrics-window",
        type=float,
        default=None,
        metavar="SECONDS",
        help="event-time windows of the learner's metrics (default: none)",
    )
    work_options.add_window_flags(parser)
    work_options.add_snapshot_flags(parser)
    parser.add_argument(
        "--snapshots",
        default=None,
        metavar="FOLDER",
        help="where --snapshot-every and --expire-after write them",
    )
    parser.add_argument(
        "--expire-after",
        **seconds,
        default=None,
        help="models that send nothing for so long leave Flink's state for --snapshots, until "
        "they come back; results are the same (default: never)",
    )
    parser.epilog = "All other flags are Beam's own (--parallelism, --environment_type, ...)."


def _add_kafka_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("Kafka")
    kafka_options.add_client_flags(group)
    kafka_options.add_consumer_flag(group)
    group.add_argument("--topic", required=True, help="where rows come from")
    group.add_argument("--output-topic", required=True, metavar="TOPIC", help="of the features")
    for name in TOPICS:
        group.add_argument(
            f"--{name}-topic", default=None, metavar="TOPIC", help=f"(default: OUTPUT-{name})"
        )
    group.add_argument(
        "--create-topics",
        action="store_true",
        help="make output topics that are missing, with as many partitions as the input has",
    )
    group.add_argument(
        "--format", choices=FORMATS, default="json", help="of messages (default %(default)s)"
    )
    group.add_argument(
        "--output-format", choices=OUTPUT_FORMATS, default="json", help="(default %(default)s)"
    )
    group.add_argument(
        "--from",
        dest="begin",
        default="earliest",
        metavar="WHERE",
        help="earliest, latest, a time (2026-01-31T12:00Z), or offsets (0:1200,1:900; other "
        "partitions: earliest) (default %(default)s)",
    )


def _add_job_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("where it runs")
    add_cluster_flags(group)
    group.add_argument(
        "--expansion-service", default=None, metavar="HOST:PORT", help="Beam's, for KafkaIO"
    )
    for name, (default, about) in RUNNER_FLAGS.items():
        text = f"{about} (default {default})"
        group.add_argument(f"--{name}", type=int, default=default, metavar="N", help=text)
    group.add_argument(
        "--detach", action="store_true", help="return once Flink says that the job runs"
    )
    group.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="status line while it runs (default: on a terminal)",
    )
    group.add_argument(
        "--resume",
        default=None,
        metavar="PATH",
        help="go on from a savepoint or checkpoint; latest: the newest of --state-folder",
    )


def add_cluster_flags(group: Any) -> None:
    """Add the flags that say which Flink it is, which all commands of live jobs have."""
    group.add_argument(
        "--cluster",
        default=None,
        metavar="DIR",
        help="folder of a local cluster (kerneltrack cluster up --folder DIR): it says brokers, "
        "Flink and Beam's services",
    )
    group.add_argument("--flink", default=None, metavar="HOST:PORT", help="Flink's REST address")
    group.add_argument(
        "--state-folder",
        default=None,
        metavar="DIR",
        help="where jobs are written down, for stop and --resume (default: that of --cluster)",
    )


def runner_flags(args: argparse.Namespace) -> dict[str, int]:
    """Return the flags of Beam's Flink runner that are ours to pass on.

    Raises:
        ConfigError: for one that is out of range.
    """
    found = {name: getattr(args, name) for name in RUNNER_FLAGS}
    for name, value in found.items():
        if not 1 <= value <= MOST:
            raise ConfigError(f"--{name}", value, f"1 to {MOST}")
    return found


def columns_from_flags(args: argparse.Namespace) -> Columns:
    """Say what each field of a message is.

    Raises:
        ConfigError: for a bad flag, a field with two meanings, or no features.
    """
    given = input_options.columns_from_flags(args)
    if args.missing == "drop":
        raise ConfigError("--missing", "drop", "fail or hold: a stream cannot be looked at whole")
    if args.time_ambiguous == "infer":
        raise ConfigError(
            "--time-ambiguous",
            "infer",
            "fail, earliest or latest: what comes later would tell, and no row can wait for it",
        )
    features = tuple(_feature(text) for text in given.features or ())
    if not features:
        raise ConfigError("--features", "", "the names of the fields that are features")
    roles = {
        "--model-id": given.model_id,
        "--time": given.time,
        "--sequence": given.sequence,
        "--label": given.label,
    }
    named = [*((flag, name) for flag, name in roles.items() if name)]
    named += [("--features", feature.name) for feature in features]
    seen: dict[str, str] = {}
    for flag, name in named:
        if name in seen:
            raise ConfigError(flag, name, f"another field than {seen[name]}")
        seen[name] = flag
    if given.exclude:
        raise ConfigError("--exclude", given.exclude[0], "left out: features are named")
    label = given.label or None
    return Columns(
        model_id=given.model_id or MESSAGE_KEY,
        time=given.time or RECORD_TIME,
        sequence=given.sequence,
        label=label,
        label_type=_label_type(given, label),
        features=features,
        dtype="float64",
        requests={},
        options=dataclasses.replace(given, features=tuple(f.name for f in features)),
    )


def _label_type(given: ColumnOptions, label: str | None) -> pa.DataType | None:
    return None if label is None else LABEL_TYPES[given.label_type or "string"]


def _feature(text: str) -> Feature:
    sized = re.fullmatch(r"(.+)\[([1-9][0-9]{0,6})\]", text)
    return Feature(sized[1], int(sized[2])) if sized else Feature(text)


def topics_from_flags(args: argparse.Namespace) -> dict[str, str]:
    """Return the topic of each output by its name, "features" among them."""
    topics = {"features": args.output_topic}
    for name in TOPICS:
        given = getattr(args, f"{name.replace('-', '_')}_topic")
        topics[name] = given or f"{args.output_topic}-{name}"
    return topics
