"""Command-line flags of `quiet`."""

from __future__ import annotations

import argparse

from kerneltrack.errors import ConfigError
from kerneltrack.monitor.entries import ALL
from pipelines.cli.command_line import path_name, refuse
from pipelines.topics.options import OF_BROKERS, add_brokers, add_partition


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `quiet` to a parser."""
    parser.usage = (
        "kerneltrack quiet (DEVICE | --group NAME) --from TIME --to TIME "
        "(--file FILE | --send TOPIC) [flags]"
    )
    parser.add_argument(
        "device", nargs="?", metavar="DEVICE", help="Id of the device, or * for all."
    )
    parser.add_argument(
        "--group",
        metavar="NAME",
        help="Let the time count for each device of this group, in place of DEVICE.",
    )
    parser.add_argument(
        "--from",
        dest="start",
        required=True,
        metavar="TIME",
        help='When it begins: a date or time, or "every year 12-24", "every week Sunday", '
        '"every day 22:00". Without an offset it is in the --time-zone of the job.',
    )
    parser.add_argument(
        "--to",
        dest="end",
        required=True,
        metavar="TIME",
        help="When it ends; a date or day means the end of that day. Of one that comes again: the "
        "next such moment after --from.",
    )
    parser.add_argument("--why", default="", metavar="TEXT", help="Say why, for readers.")
    parser.add_argument(
        "--cancel",
        action="store_true",
        help="Take this time back: rows that were not processed yet are judged.",
    )
    parser.add_argument(
        "--file",
        type=path_name,
        metavar="FILE",
        help="Add a line to this CSV file, which --quiet of jobs reads; with --cancel remove it. "
        "The file is made if missing.",
    )
    parser.add_argument(
        "--send",
        metavar="TOPIC",
        help="Tell a live job that runs, by this input topic of it. Later jobs know only what is "
        "in their file.",
    )
    parser.add_argument(
        "--groups",
        type=path_name,
        metavar="FILE",
        help="Read from this file (CSV or YAML) which devices there are, and their groups: "
        "--group, or * for all, with --send sends a message for each device.",
    )
    add_partition(parser)
    add_brokers(parser)


def check(args: argparse.Namespace) -> None:
    """Check what no single flag says.

    Raises:
        ConfigError: unless there is a device or a group, and a place to say it.
    """
    if (args.device is None) == (args.group is None):
        raise ConfigError("DEVICE", args.device or "", "a device, or * for all, or --group NAME")
    if args.file is None and args.send is None:
        raise ConfigError("--file", None, "the file that --quiet of jobs reads, or --send")
    if args.file is not None and not args.file.lower().endswith(".csv"):
        raise ConfigError("--file", args.file, "a CSV file, .csv")
    of_many = args.group is not None or args.device == ALL
    if args.send is None:
        refuse(args, (*OF_BROKERS, "partition", "groups"), "left out without --send")
    elif of_many and args.groups is None:
        raise ConfigError("--groups", None, "the file of the devices: each gets a message")
    elif of_many and args.partition is not None:
        raise ConfigError("--partition", args.partition, "left out where many devices are meant")
    elif not of_many and args.groups is not None:
        raise ConfigError("--groups", args.groups, "left out where one device is meant")
