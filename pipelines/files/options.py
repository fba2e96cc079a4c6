"""Flags of the jobs that read files, and what is checked before Beam is imported."""

from __future__ import annotations

import argparse
import functools
from typing import TYPE_CHECKING

from kerneltrack.batch.landmark_spec import MAX_ROWS
from kerneltrack.errors import ConfigError
from kerneltrack.learners.common.spec import TASKS
from kerneltrack.monitor.most_compared import MOST_COMPARED
from kerneltrack.settings import check_int
from pipelines.cli import input_options
from pipelines.cli.command_line import Parser, folder_name, path_name
from pipelines.cli.job_flags import COMMON, add_job_flags, add_window_flags
from pipelines.cli.spec_options import LANDMARKS, add_fleet_flags, add_rule_flags
from pipelines.files import max_failures, workers
from pipelines.run_folder import results_in

if TYPE_CHECKING:
    from transforms.read.look import Input

SAMPLE = 2000
TUNED = 20_000
NEIGHBOURS = "--neighbours"
MOST_WORKERS = 1024
_EPILOG = (
    "Beam's own flags go on the same line as --name=value (--runner=..., "
    "--direct_num_workers=...). Without --runner, the job uses local processes."
)


def add_track_flags(parser: Parser) -> None:
    """Add the flags of `track` to a parser."""
    parser.usage = (
        "kerneltrack track INPUT... --output DIR --reference first [flags] [Beam's flags]"
    )
    _add_run_flags(parser)
    parser.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="Number of processes. [default: one per core; one for small inputs]",
    )
    parser.add_argument(
        "--temp-dir",
        type=path_name,
        metavar="DIR",
        help="Local folder for intermediate rows, about as large as the input. "
        "[default: in --output, or the system's if that is not local]",
    )
    parser.add_argument(
        "--labels",
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="Read delayed labels from these files.",
    )
    parser.add_argument(
        NEIGHBOURS,
        type=int,
        default=MOST_COMPARED,
        metavar="N",
        help="Find devices unlike the others, N at most. 0 turns it off. "
        f"[default {MOST_COMPARED}]",
    )
    parser.add_argument(
        "--lineage",
        type=path_name,
        metavar="FILE",
        help="Add OpenLineage events to FILE, one line of JSON each: inputs, outputs, outcome.",
    )
    input_options.add_input_flags(parser)
    without = {
        "max_disorder": "no limit, the whole input is sorted",
        "max_jump": "none",
        "metrics_window": "totals only",
    }
    add_job_flags(parser, without, "failures", "from --labels")
    add_fleet_flags(parser)
    parser.epilog = _EPILOG
    parser.show_common(
        (*COMMON, "--output", "--overwrite", "--labels", "--max-failures", NEIGHBOURS, "--periods")
    )


def _check_quiet(args: argparse.Namespace) -> None:
    """Refuse what is wrong in the file of `--quiet`, before rows are read."""
    if getattr(args, "quiet", None) is None:
        return
    # NumPy and YAML are not for the help.
    from pipelines.cli.entries_file import check_groups  # noqa: PLC0415
    from pipelines.cli.quiet_file import FLAG, read_quiet  # noqa: PLC0415

    zone = input_options.columns_from_flags(args).time_zone
    check_groups(read_quiet(args.quiet, zone), args.group, FLAG)


def add_score_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `score` to a parser."""
    parser.usage = "kerneltrack score INPUT... --snapshots DIR --output DIR [flags] [Beam's flags]"
    parser.add_argument(
        "--snapshots",
        required=True,
        metavar="DIR",
        help="Apply the models in these snapshots: snapshots/ of a run, or --snapshots of a live "
        "job.",
    )
    _add_run_flags(parser)
    input_options.add_input_flags(parser)
    add_window_flags(parser, moving=False)
    add_rule_flags(parser, "device")
    parser.epilog = _EPILOG


def add_landmark_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `landmarks` to a parser."""
    parser.usage = "kerneltrack landmarks INPUT... --output FILE [flags]"
    parser.add_argument("input", nargs="+", metavar="INPUT", help="Files, folders or globs.")
    parser.add_argument(
        "--output",
        required=True,
        type=path_name,
        metavar="FILE",
        help="Write the landmarks to this file: JSON for *.json, otherwise safetensors.",
    )
    parser.add_argument("--overwrite", action="store_true", help="Replace FILE.")
    parser.add_argument(
        "--sample",
        type=int,
        default=SAMPLE,
        metavar="N",
        help="Choose among this many rows, drawn at random from all. "
        f"[at most {MAX_ROWS}; default {SAMPLE}]",
    )
    input_options.add_input_flags(parser)
    LANDMARKS.add_flags(parser.add_argument_group("landmarks"))


def add_tune_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `tune` to a parser."""
    parser.usage = "kerneltrack tune SAMPLE... --label COLUMN --output DIR [flags]"
    parser.add_argument("input", nargs="+", metavar="SAMPLE", help="Files, folders or globs.")
    parser.add_argument(
        "--output",
        required=True,
        type=folder_name,
        metavar="DIR",
        help="Write spec.yaml (for --spec of a job), trials.csv and trials.html to this folder.",
    )
    parser.add_argument("--overwrite", action="store_true", help="Replace earlier results in DIR.")
    parser.add_argument(
        "--sample",
        type=int,
        default=TUNED,
        metavar="N",
        help=f"Try settings on this many first rows of the input. [default {TUNED:,}]",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="Try settings for this long. [1 to 86,400; default 60]",
    )
    parser.add_argument(
        "--task",
        choices=TASKS,
        help="Treat labels as classes or as targets. [default: targets if they are floats]",
    )
    input_options.add_input_flags(parser)


def add_report_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `report` to a parser."""
    parser.add_argument("output", type=path_name, metavar="DIR", help="Folder of a finished run.")
    parser.add_argument(
        "--device",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME",
        help="Draw these devices in full. Default: at most 50 devices, those that are off or "
        "unlike the others, have the most rows, or fit best or worst.",
    )


def _add_run_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input", nargs="+", metavar="INPUT", help="Files, folders or globs.")
    parser.add_argument(
        "--output",
        required=True,
        type=folder_name,
        metavar="DIR",
        help="Write the results to this folder.",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="Replace the results of an earlier run in DIR."
    )
    parser.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        help="Show a status line while the job runs. [default: on a terminal]",
    )
    max_failures.add_flag(parser)


def check(args: argparse.Namespace) -> Input:
    """Look at output and input; where processes will be needed, they begin to import.

    Raises:
        ConfigError: for a bad flag or column, or results that are already there.
        DataError: for input that cannot be read.
    """
    max_failures.read_limit(args.max_failures)
    if getattr(args, "neighbours", 0) < 0:
        raise ConfigError(NEIGHBOURS, args.neighbours, "a number of models, 0 for none")
    if getattr(args, "workers", None) is not None:
        check_int("--workers", args.workers, 1, MOST_WORKERS)
    results_in(args.output, args.overwrite)
    _check_quiet(args)
    prepare = functools.partial(workers.prepare, args) if hasattr(args, "workers") else None
    group = getattr(args, "group", None)
    if group is None:
        return input_options.look_at_input(args, prepare)
    # What says where a device stands is no channel of it.
    args.exclude = (*(args.exclude or ()), group)
    try:
        return input_options.look_at_input(args, prepare)
    except ConfigError as error:
        if error.value != group:
            raise
        raise ConfigError("--group", group, error.allowed) from error
