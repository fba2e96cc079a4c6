"""Command-line flags of `devices`."""

from __future__ import annotations

import argparse

from kerneltrack.errors import ConfigError
from kerneltrack.fleet.devices import CHANGED, LEARNING, NORMAL, OFF, QUIET, UNWATCHED
from pipelines.cli.command_line import path_name, refuse
from pipelines.devices.text import state_of
from pipelines.topics.options import OF_BROKERS, add_brokers, check_source

STATES = (OFF, CHANGED, NORMAL, QUIET, LEARNING, UNWATCHED)
SERVED_EVERY = 5.0
"""Seconds between two readings of what is served, unless `--watch` says others."""
_LONGEST_WATCH = 86_400


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `devices` to a parser."""
    parser.usage = "kerneltrack devices (DIR | --topic TOPIC) [flags]"
    parser.add_argument("folder", nargs="?", metavar="DIR", help="Folder of a run.")
    parser.add_argument(
        "--topic", help="Read this --devices-topic of a live job, from its beginning."
    )
    add_brokers(parser)
    parser.add_argument(
        "--json", action="store_true", help="Print one JSON object per line instead of a table."
    )
    parser.add_argument(
        "--csv", action="store_true", help="Print the table as CSV, for spreadsheets."
    )
    parser.add_argument(
        "--state",
        nargs="+",
        action="extend",
        type=state_of,
        choices=STATES,
        help="Print only devices in these states. The table's names work, too: 'well' is normal, "
        "'calibrating' learning, and 'no reference' unwatched.",
    )
    parser.add_argument(
        "--faults",
        metavar="FILE",
        help="Name devices that are off after the known faults in this file (CSV or YAML): the "
        "name, device and episode of each, and the folder of its run, if it is another one.",
    )
    add_groups(parser)
    add_periods_topic(parser)
    parser.add_argument(
        "--watch",
        type=float,
        metavar="SECONDS",
        help="Print again at this interval until Ctrl-C; with --json only changes.",
    )
    parser.add_argument(
        "--serve",
        metavar="HOST:PORT",
        help="Serve counts, and the devices that are off, to Prometheus at this address until "
        f"Ctrl-C. [read again every {SERVED_EVERY:g} seconds, or as --watch says]",
    )


def add_groups(parser: argparse.ArgumentParser) -> None:
    """Add the flag of the groups of a live job's devices to a parser."""
    parser.add_argument(
        "--groups",
        type=path_name,
        metavar="FILE",
        help="Look for incidents of a live job in each site or kind, too, and compare its devices "
        "by day within them: this file (CSV or YAML) names the device and group of each. "
        "[default: all devices are one fleet]",
    )


def add_periods_topic(parser: argparse.ArgumentParser) -> None:
    """Add the flag of a live job's periods to a parser."""
    parser.add_argument(
        "--periods-topic",
        metavar="TOPIC",
        help="Read the periods topic of the live job, too: devices that differ by day from their "
        "own past and from the fleet have changed.",
    )


def check(args: argparse.Namespace) -> None:
    """Check what no single flag says.

    Raises:
        ConfigError: unless there is either a folder or a topic, or for a wrong time.
    """
    check_source(args)
    if args.folder is not None:
        refuse(args, (*OF_BROKERS, "groups", "periods_topic"), "left out without --topic")
    if args.serve is not None:
        refuse(args, ("json", "csv", "state", "faults"), "left out with --serve")
    if args.csv and (args.json or args.watch is not None):
        flag = "--json" if args.json else "--watch"
        raise ConfigError("--csv", True, f"left out with {flag}")
    if args.watch is not None and not 0 < args.watch <= _LONGEST_WATCH:
        raise ConfigError("--watch", args.watch, f"seconds, above 0, at most {_LONGEST_WATCH}")
