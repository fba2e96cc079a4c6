"""Command-line flags of the live job; what they say of its messages: `pipelines.live.columns`."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Annotated, Any

from kerneltrack.settings import Range, Settings, settings_of
from pipelines.cli import input_options, job_flags, kafka_options
from pipelines.cli.command_line import Parser
from pipelines.cli.job_flags import COMMON
from pipelines.cli.setting_flags import FlagsOf
from transforms.kafka.formats import INPUT_FORMATS, OUTPUT_FORMATS
from transforms.outputs import DEVICES, FEATURES, OUTPUTS
from transforms.read.format_options import FormatOptions
from transforms.track.order import DROP, Order

MAX_DISORDER = 1.0
MAX_JUMP = 3600.0
IDLE_FLUSH = 10.0
PATIENCE = 120.0
MOST = 2**31 - 1
TOPICS = {each.topic: each.about for each in OUTPUTS if each.topic and each.has_named_topic}
"""What goes to topics beside the features; these are called OUTPUT-NAME unless named."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunnerFlags(Settings):
    """Flags of Beam's Flink runner that have other defaults here."""

    parallelism: Annotated[int, Range(1, MOST), "Subtasks of each step."] = 1
    checkpointing_interval: Annotated[int, Range(1, MOST), "Ms between checkpoints."] = 1000
    max_bundle_time_mills: Annotated[
        int, Range(1, MOST), "Ms that a bundle gathers messages at most."
    ] = 100
    max_bundle_size: Annotated[int, Range(1, MOST), "Messages that it gathers at most."] = 100_000


RUNNER = FlagsOf(RunnerFlags, {name: f"--{name}" for name in settings_of(RunnerFlags)})
"""Called as Beam has them, with underscores."""

_ABOUTS = {
    "model_id": "field of model ids; without: the message's key",
    "time": "field of event times; without: Kafka's record timestamp",
    "features": "feature fields, NAME[N] for a list of N numbers; they must be named",
    "time_ambiguous": """what a local time is that comes twice, when clocks are put back: "fail":
    the row goes to the dead letters; "earliest": the first; "latest": the second (fail, earliest,
    latest; default fail)""",
    "time_nonexistent": """what a local time is that never comes, when clocks are put forward:
    "fail": the row goes to the dead letters; "shift": the instant at which they were (fail, shift;
    default fail)""",
    "words": "COLUMN=ZERO,ONE: a field, or metric, of two words, and which is 0 and which 1",
    "units": "COLUMN=UNIT: a field, or metric, of texts, numbers with this after each",
    "null_values": "texts and numbers that mean a missing value, beside null",
    "missing": """what becomes of missing features: "fail": the row goes to the dead letters;
    "hold": the last value of the model's channel stands in for it (forward fill) (fail, hold;
    default fail)""",
}
"""What help says of flags that mean something else here than with files."""


def add_flags(parser: Parser) -> None:
    """Add the job's flags to a parser."""
    parser.usage = (
        "kerneltrack stream --brokers HOST:PORT --topic TOPIC --output-topic TOPIC "
        "--features NAME... [flags] [Beam's flags]"
    )
    _add_kafka_flags(parser)
    _add_place_flags(parser)
    columns = parser.add_argument_group("columns")
    input_options.COLUMNS.add(columns, _ABOUTS, "model_id_from", "counters")
    of_files = set(settings_of(FormatOptions)) - {"null_values"}
    input_options.FORMATS.add(columns, _ABOUTS, *of_files)
    without = {
        "max_disorder": f"{MAX_DISORDER:g}; 0: order of arrival",
        "max_jump": f"{MAX_JUMP:g}",
        "metrics_window": "none",
    }
    late = "dead letters; all wait that long"
    job_flags.add_job_flags(parser, without, late, "from --labels-topic")
    silent = parser.add_argument_group("silent models")
    about = (
        "rows of a model that has sent none for so long are taken without waiting for newer ones "
        f"(default {IDLE_FLUSH:g}; 0: never)"
    )
    others = set(settings_of(Order)) - {"idle_flush"}
    job_flags.ORDER.add(silent, {"idle_flush": about}, *others)
    silent.add_argument(
        "--expire-after",
        **job_flags.SECONDS,
        help="state TTL: models that send nothing for so long leave Flink's state for --snapshots, "
        "until they come back; results are the same (default: never)",
    )
    silent.add_argument(
        "--snapshots",
        default=None,
        metavar="FOLDER",
        help="where --snapshot-every and --expire-after write them",
    )
    parser.epilog = (
        "Beam's own flags are given as --name=value (--environment_type=..., --experiments=...)."
    )
    kafka = ("--brokers", "--topic", "--output-topic", "--labels-topic", "--create-topics")
    places = ("--cluster", "--flink", "--detach", "--resume", "--parallelism", "--snapshots")
    parser.show_common((*COMMON, *kafka, *places, "--format", "--from", "--max-disorder"))


def add_stop_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `stop` to a parser."""
    parser.add_argument(
        "job", nargs="?", default=None, metavar="JOB", help="id or name (default: the only one)"
    )
    add_cluster_flags(parser)
    parser.add_argument(
        "--savepoint",
        nargs="?",
        const="",
        default=None,
        metavar="FOLDER",
        help="write a savepoint to go on from (default folder: Flink's own); without: the last "
        "checkpoint is what is left",
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=PATIENCE,
        metavar="SECONDS",
        help="longest wait for the job to end (default %(default)s)",
    )


def _add_kafka_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("Kafka")
    kafka_options.add_client_flags(group)
    kafka_options.add_consumer_flag(group)
    group.add_argument("--topic", required=True, help="where rows come from")
    group.add_argument(
        "--labels-topic",
        default=None,
        metavar="TOPIC",
        help="where delayed labels come from, each with model id, --label-index or --time, and "
        "--label-column, in the form of --format",
    )
    group.add_argument("--output-topic", required=True, metavar="TOPIC", help="of the features")
    for name, holds in TOPICS.items():
        about = f"{holds} (default: OUTPUT-{name})"
        group.add_argument(topic_flag(name), default=None, metavar="TOPIC", help=about)
    group.add_argument(
        "--devices-topic",
        default=None,
        metavar="TOPIC",
        help="of each device's latest state, a message under its id whenever that changes, for a "
        "topic with cleanup.policy=compact; needs --reference (default: none)",
    )
    group.add_argument(
        "--create-topics",
        action="store_true",
        help="make output topics that are missing, with as many partitions as the input has; that "
        "of the devices' states is compacted",
    )
    group.add_argument(
        "--format", choices=INPUT_FORMATS, default="json", help="of messages (default %(default)s)"
    )
    kafka_options.add_registry_flag(group)
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
    group.add_argument(
        "--overlap",
        choices=("fail", DROP),
        default=None,
        help="what becomes of rows that the snapshots of --warm-start have learned from: dead "
        "letters; or left out and counted, with those of the very time of a model's newest row, to "
        "go on from a history of files without a gap (default fail)",
    )


def _add_place_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("where it runs")
    add_cluster_flags(group)
    group.add_argument(
        "--expansion-service", default=None, metavar="HOST:PORT", help="Beam's, for KafkaIO"
    )
    RUNNER.add(group)
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


def kafka_words(args: argparse.Namespace) -> list[str]:
    """Return the flags by which a command reaches Kafka's brokers, as they were typed."""
    given = {"--cluster": args.cluster, "--brokers": args.brokers}
    words = [word for flag, value in given.items() if value for word in (flag, value)]
    return [*words, *(word for pair in args.client for word in ("--client", pair))]


def topics_from_flags(args: argparse.Namespace) -> dict[str, str]:
    """Return the topics of outputs, by what the table of outputs calls them."""
    topics = {FEATURES: args.output_topic}
    for name in TOPICS:
        given = getattr(args, f"{name.replace('-', '_')}_topic")
        topics[name] = given or f"{args.output_topic}-{name}"
    if args.devices_topic is not None:
        topics[DEVICES] = args.devices_topic
    return topics


def topic_flag(name: str) -> str:
    """Return the flag that says the topic of an output.

    Example:
        >>> topic_flag("features"), topic_flag("alerts")
        ('--output-topic', '--alerts-topic')
    """
    return "--output-topic" if name == FEATURES else f"--{name}-topic"
