"""Command-line flags of `feedback`."""

from __future__ import annotations

import argparse

from kerneltrack.errors import ConfigError
from kerneltrack.monitor.feedback import FALSE, VERDICTS
from pipelines.cli.command_line import path_name, refuse
from pipelines.topics.options import OF_BROKERS, add_brokers, add_partition, check_source

LAST = "last"
"""In the place of an episode: the newest one."""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `feedback` to a parser."""
    parser.usage = (
        "kerneltrack feedback (DIR | --topic TOPIC) DEVICE EPISODE {false,real} "
        "(--to FILE | --send TOPIC) [flags]"
    )
    parser.add_argument("folder", nargs="?", metavar="DIR", help="Folder of a run.")
    parser.add_argument("device", metavar="DEVICE", help="Id of the device.")
    parser.add_argument(
        "episode",
        metavar="EPISODE",
        help="The episode: its number, a time at which it lasted, or 'last' for the newest one.",
    )
    parser.add_argument(
        "verdict",
        choices=VERDICTS,
        help="Whether something was wrong with the device (real) or nothing (false).",
    )
    parser.add_argument(
        "--to",
        type=path_name,
        metavar="FILE",
        help="Add a line to this CSV file, which --feedback of jobs reads. It is made if missing.",
    )
    parser.add_argument(
        "--send",
        metavar="TOPIC",
        help="Tell a live job that runs, by this input topic of it. The job must have been started "
        "with --feedback; later jobs know only what is in its file.",
    )
    add_partition(parser)
    parser.add_argument(
        "--group",
        metavar="NAME",
        help="Let the line count for each device of this value of --group COLUMN, for all of their "
        "episodes that were at the time of this one.",
    )
    parser.add_argument(
        "--groups",
        type=path_name,
        metavar="FILE",
        help="Read from this file (CSV or YAML) which devices are in which group: --group with "
        "--send sends a message about each device of the group.",
    )
    parser.add_argument(
        "--name",
        default="",
        help="Name the cause of a real one. `kerneltrack devices --faults FILE` names later "
        "episodes that are like it.",
    )
    parser.add_argument("--why", default="", metavar="TEXT", help="Say why, for other readers.")
    parser.add_argument(
        "--from",
        dest="start",
        metavar="TIME",
        help="Count from this moment of event time on. [default: the newest row that the run or "
        "topic knows of the episode]",
    )
    parser.add_argument(
        "--topic",
        help="Look the episode up in this --devices-topic or --episodes-topic of a live job.",
    )
    add_brokers(parser)


def check(args: argparse.Namespace) -> None:
    """Check what no single flag says.

    Raises:
        ConfigError: unless there is either a folder or a topic, or for a name of a false episode.
    """
    check_source(args)
    if args.to is None and args.send is None:
        raise ConfigError("--to", None, "the file that --feedback of jobs reads, or --send")
    if args.folder is not None and args.send is None:
        refuse(args, OF_BROKERS, "left out without --topic and --send")
    if args.send is None:
        refuse(args, ["partition"], "left out without --send")
    _check_groups(args)
    if args.name and args.verdict == FALSE:
        raise ConfigError("--name", args.name, "left out of an episode that was false")


def _check_groups(args: argparse.Namespace) -> None:
    """Check that a live job is told of a group where its devices are known, one by one."""
    if args.groups is not None and (args.group is None or args.send is None):
        raise ConfigError("--groups", args.groups, "left out without --group and --send")
    if args.group is None or args.send is None:
        return
    if args.groups is None:
        raise ConfigError("--groups", None, "the file of the groups' devices: each gets a message")
    if args.partition is not None:
        raise ConfigError("--partition", args.partition, "left out with --group")
