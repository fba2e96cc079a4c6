"""Command-line flags of the live job; what they say of its messages: `pipelines.live.columns`."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Annotated, Any

from kerneltrack.settings import Range, Settings, settings_of
from pipelines.cli import input_options, job_flags, kafka_options, spec_options
from pipelines.cli.command_line import Parser, path_name
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
FLINK, LOCAL = "flink", "local"
MOST = 2**31 - 1
TOPICS = {each.topic: each.about for each in OUTPUTS if each.topic and each.has_named_topic}
"""What goes to topics beside the features; these are called OUTPUT-NAME unless named."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunnerFlags(Settings):
    """Flags of Beam's Flink runner that have other defaults here."""

    parallelism: Annotated[int, Range(1, MOST), "Use this many parallel workers."] = 1
    checkpointing_interval: Annotated[int, Range(1, MOST), "Milliseconds between checkpoints."] = (
        1000
    )
    max_bundle_time_mills: Annotated[
        int, Range(1, MOST), "Longest time in milliseconds in which a bundle collects messages."
    ] = 100
    max_bundle_size: Annotated[int, Range(1, MOST), "Most messages in a bundle."] = 100_000


RUNNER = FlagsOf(RunnerFlags, {name: f"--{name}" for name in settings_of(RunnerFlags)})
"""Called as Beam has them, with underscores."""

_ABOUTS = {
    "model_id": "Read each row's device from this field. Without it: from the message's key.",
    "time": "Read event times from this field. Without it: Kafka's record timestamp.",
    "features": "Use these fields as channels. NAME[N] is a list of N numbers.",
    "exclude": "Refused in live jobs; use --features.",
    "time_ambiguous": """How to read a local time that occurs twice, when clocks are put back.
    "fail" sends the row to the dead letters, "earliest" takes the first, "latest" the second.
    [fail, earliest, latest; default fail]""",
    "time_nonexistent": """How to read a local time that never occurs, when clocks are put forward.
    "fail" sends the row to the dead letters, "shift" takes the instant of the change.
    [fail, shift; default fail]""",
    "words": "Read a field or metric of two words as 0 and 1, in this order.",
    "units": "Read a field or metric of numbers followed by this unit.",
    "null_values": "Texts and numbers that mean a missing value, in addition to null.",
    "missing": """Choose what happens to missing values. "fail" sends the row to the dead letters,
    "hold" repeats the device's last value (forward fill). [fail, hold; default fail]""",
}
"""What help says of flags that mean something else here than with files."""
_METAVARS = {**input_options.COLUMNS.metavars, "missing": "{fail,hold}"}


def add_flags(parser: Parser) -> None:
    """Add the job's flags to a parser."""
    parser.usage = (
        "kerneltrack stream (--brokers HOST:PORT | --cluster DIR) --topic TOPIC "
        "--output-topic TOPIC --features NAME... [flags] [Beam's flags]"
    )
    _add_kafka_flags(parser)
    _add_place_flags(parser)
    columns = parser.add_argument_group("columns")
    of_rows = dataclasses.replace(input_options.COLUMNS, metavars=_METAVARS)
    of_rows.add(columns, _ABOUTS, "model_id_from", "counters")
    of_files = set(settings_of(FormatOptions)) - {"null_values"}
    input_options.FORMATS.add(columns, _ABOUTS, *of_files)
    without = {
        "max_disorder": f"{MAX_DISORDER:g}; 0 means order of arrival",
        "max_jump": f"{MAX_JUMP:g}",
        "metrics_window": "none",
    }
    late = "dead letters; all rows wait this long"
    snapshots = job_flags.add_job_flags(parser, without, late, "from --labels-topic")
    spec_options.add_period_flags(
        parser, "Write each day of a device, compared with its own past, when it is over."
    )
    spec_options.add_rule_flags(parser)
    known = parser.add_argument_group("quiet times")
    spec_options.add_quiet_flag(known)
    known.add_argument(
        "--groups",
        type=path_name,
        metavar="FILE",
        help="Read the group (its site or kind) of each device from this file (CSV or YAML), where "
        "--quiet, --rules or --feedback name groups.",
    )
    silent = parser.add_argument_group("silent devices")
    about = (
        "Process the waiting rows of a device that has been silent for this long. "
        f"[default {IDLE_FLUSH:g}; 0 means never]"
    )
    others = set(settings_of(Order)) - {"idle_flush"}
    job_flags.ORDER.add(silent, {"idle_flush": about}, *others)
    spec_options.add_silent_flag(
        silent,
        "Report devices as off, of kind silent, that have sent nothing for longer than this, by "
        "the clock of the machine. Needs --reference.",
    )
    silent.add_argument(
        "--expire-after",
        **job_flags.SECONDS,
        help="Move the models of devices that have been silent for this long from Flink's state to "
        "--snapshots, until they come back. Results stay the same. [default: never]",
    )
    snapshots.add_argument(
        "--snapshots",
        metavar="FOLDER",
        help="Write snapshots to this folder. --snapshot-every and --expire-after write there.",
    )
    parser.epilog = (
        "Beam's own flags go on the same line as --name=value (--environment_type=..., "
        "--experiments=...)."
    )
    kafka = ("--brokers", "--topic", "--output-topic", "--labels-topic", "--create-topics")
    places = ("--cluster", "--flink", "--resume", "--parallelism", "--snapshots")
    ways = ("--engine", "--format", "--from", "--max-disorder")
    parser.show_common((*COMMON, *kafka, *places, *ways))


def add_stop_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `stop` to a parser."""
    parser.add_argument(
        "job", nargs="?", metavar="JOB", help="Id or name of the job. [default: the only one]"
    )
    add_cluster_flags(parser)
    parser.add_argument(
        "--savepoint",
        nargs="?",
        const="",
        metavar="FOLDER",
        help="Write a savepoint from which a job can continue, to FOLDER or Flink's own. Without "
        "this flag only the last checkpoint is left.",
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=PATIENCE,
        metavar="SECONDS",
        help="Wait at most this long for the job to end. [default %(default)s]",
    )


def _add_kafka_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("Kafka")
    kafka_options.add_client_flags(group)
    kafka_options.add_consumer_flag(group)
    group.add_argument("--topic", required=True, help="Read rows from this topic.")
    group.add_argument(
        "--labels-topic",
        metavar="TOPIC",
        help="Read delayed labels from this topic. They are in --format and have a device, "
        "--time or --label-index, and --label-column.",
    )
    group.add_argument(
        "--output-topic", required=True, metavar="TOPIC", help="Write features to this topic."
    )
    for name, holds in TOPICS.items():
        about = f"Write this to TOPIC: {holds}. [default: OUTPUT-{name}]"
        group.add_argument(topic_flag(name), metavar="TOPIC", help=about)
    group.add_argument(
        "--devices-topic",
        metavar="TOPIC",
        help="Write each device's current state to this topic whenever it changes. The states are "
        "learning, normal, quiet, off, changed and unwatched (no reference). Needs "
        "--reference, and a topic with cleanup.policy=compact. [default: none]",
    )
    group.add_argument(
        "--create-topics",
        action="store_true",
        help="Create missing output topics. They get as many partitions as the input; those of "
        "devices and periods are compacted.",
    )
    group.add_argument(
        "--format",
        choices=INPUT_FORMATS,
        default="json",
        help="Format of messages. [default %(default)s]",
    )
    kafka_options.add_registry_flag(group)
    group.add_argument(
        "--output-format",
        choices=OUTPUT_FORMATS,
        default="json",
        help="Format of output messages. [default %(default)s]",
    )
    group.add_argument(
        "--from",
        dest="begin",
        default="earliest",
        metavar="WHERE",
        help="Start at earliest, latest, a time or offsets. A time is 2026-01-31T12:00Z, "
        "offsets are 0:1200,1:900 (other partitions from the earliest). [default %(default)s]",
    )
    group.add_argument(
        "--overlap",
        choices=("fail", DROP),
        help="Choose what happens to rows that the --warm-start snapshots have learned already. "
        "'fail' makes dead letters of them. 'drop' leaves them out and counts them, including rows "
        "at the time of a device's newest row: use it to continue after files without a gap. "
        "[default fail]",
    )


def _add_place_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("where it runs")
    group.add_argument(
        "--engine",
        choices=(FLINK, LOCAL),
        default=FLINK,
        help="Run on Flink, or here without Java. The local "
        "engine keeps its state in --state-folder. [default %(default)s]",
    )
    add_cluster_flags(group)
    group.add_argument(
        "--expansion-service", metavar="HOST:PORT", help="Beam's expansion service, for KafkaIO."
    )
    RUNNER.add(group)
    group.add_argument(
        "--detach", action="store_true", help="Return as soon as the job runs on Flink."
    )
    group.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        help="Show a status line while the job runs. [default: on a terminal]",
    )
    group.add_argument(
        "--resume",
        metavar="PATH|latest|auto",
        help="Continue from this savepoint or checkpoint. 'latest' is the newest of a job of these "
        "topics; jobs are recorded in --state-folder. 'auto' is 'latest' where there is one, and "
        "otherwise begins: a service has one command. --engine local takes these two.",
    )


def add_cluster_flags(group: Any) -> None:
    """Add the flags that say which Flink it is, which all commands of live jobs have."""
    group.add_argument(
        "--cluster",
        metavar="DIR",
        help="Use the local cluster in this folder. It is started by kerneltrack cluster up "
        "--folder DIR and sets brokers, Flink and Beam's services.",
    )
    group.add_argument("--flink", metavar="HOST:PORT", help="REST address of Flink.")
    group.add_argument(
        "--state-folder",
        metavar="DIR",
        help="Folder with the records of jobs, for stop and --resume, and, with --engine local, "
        "the job's state. [default: in --cluster]",
    )


def kafka_words(args: argparse.Namespace) -> list[str]:
    """Return the flags by which a command reaches Kafka's brokers, as they were typed."""
    given = {"--cluster": args.cluster, "--brokers": args.brokers}
    words = [word for flag, value in given.items() if value for word in (flag, value)]
    return [*words, *(word for pair in args.client for word in ("--client", pair))]


def place_words(args: argparse.Namespace) -> list[str]:
    """Return the flags by which a command finds the jobs, as they were typed."""
    given = {
        "--cluster": args.cluster,
        "--flink": args.flink,
        "--state-folder": args.state_folder,
    }
    return [word for flag, value in given.items() if value for word in (flag, value)]


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
