"""`kerneltrack cluster`: its flags and its four commands."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kerneltrack.errors import ConfigError
from pipelines.cache import cache_folder
from pipelines.cluster import logs, status
from pipelines.cluster.down import alive, take_down
from pipelines.cluster.errors import ClusterError
from pipelines.cluster.folder import Cluster, Folder, load
from pipelines.cluster.interruption import Interruption
from pipelines.cluster.java import find_java
from pipelines.cluster.records import Process
from pipelines.cluster.resolve import resolve
from pipelines.cluster.settings import (
    CLASSES,
    PORTS,
    SLOTS,
    ClusterSettings,
    check_flink,
    choose,
    usual_memory,
)
from pipelines.cluster.turns import turn
from pipelines.cluster.up import bring_up
from pipelines.cluster.versions import versions

PATIENCE = 180.0
LINES = 40


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the commands up, down, status and logs."""
    commands = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    def add(name: str, about: str, run: Callable[[argparse.Namespace, Folder], int]) -> Any:
        made = commands.add_parser(name, help=about, description=about, allow_abbrev=False)
        made.set_defaults(action_run=run)
        made.add_argument(
            "--folder",
            metavar="DIR",
            help="Folder of the cluster's settings, logs and data. [default: in the user's cache]",
        )
        return made

    _add_up_flags(add("up", "Start Flink, Kafka and Beam's servers on this machine.", _up))
    down = add("down", "Stop what `up` started.", _down)
    down.add_argument(
        "--wipe", action="store_true", help="Also remove topics, checkpoints and savepoints."
    )
    shown = add("status", "Show what runs; exit code 1 unless all answer.", _status)
    shown.add_argument("--json", action="store_true", help="Print JSON.")
    log = add("logs", "Show the last lines of the logs.", _logs)
    log.add_argument(
        "part", nargs="?", choices=logs.NAMES, help="Show only this part. [default: all]"
    )
    log.add_argument("-f", "--follow", action="store_true", help="Show new lines until Ctrl-C.")
    about = "Show this many lines. [default %(default)s]"
    log.add_argument("-n", "--lines", type=int, default=LINES, metavar="N", help=about)


def _add_up_flags(up: argparse.ArgumentParser) -> None:
    pairs: dict[str, Any] = {"action": "append", "default": []}
    up.add_argument(
        "--port",
        **pairs,
        metavar="NAME=PORT",
        help="Set the port of a part; repeat for several. Parts and their default ports: "
        + ", ".join(f"{name} {port}" for name, port in PORTS.items())
        + ". If a default port is taken, the next free one is used.",
    )
    up.add_argument(
        "--memory",
        **pairs,
        metavar="NAME=MIB",
        help="Set the memory of a part in MiB; repeat for several. Parts and their defaults: "
        + ", ".join(f"{name} {size}" for name, size in usual_memory(SLOTS).items())
        + f". It is all memory of the TaskManager (by default {CLASSES} more for each additional "
        "slot), and the Java heap of the others.",
    )
    up.add_argument(
        "--slots",
        type=int,
        default=SLOTS,
        metavar="N",
        help="Number of Flink's slots. [default %(default)s]",
    )
    up.add_argument(
        "--flink", **pairs, metavar="KEY=VALUE", help="Set an option of Flink; repeat for several."
    )
    up.add_argument(
        "--kafka",
        **pairs,
        metavar="KEY=VALUE",
        help="Set an option of the broker; repeat for several.",
    )
    up.add_argument(
        "--patience",
        type=float,
        default=PATIENCE,
        metavar="SECONDS",
        help="Wait at most this long until all parts answer. [default %(default)g]",
    )


def run(args: argparse.Namespace, jobs_of: status.JobsOf) -> int:
    """Run the command that was asked for and return its exit code.

    Args:
        args: The parsed flags.
        jobs_of: Finds the jobs that `up` and `status` show.

    Raises:
        ConfigError: for a bad flag.
        ClusterError: if it fails.
        KeyboardInterrupt: if it was interrupted, having undone what it began.
    """
    root = Path(args.folder).absolute() if args.folder else cache_folder() / "cluster"
    args.jobs_of = jobs_of
    return int(args.action_run(args, Folder(root)))


def _up(args: argparse.Namespace, folder: Folder) -> int:
    given = (args.port, args.memory, args.flink, args.kafka, args.slots != SLOTS)
    with Interruption() as interruption:
        folder.make()
        with folder.exclusive(), turn(interruption):
            former = load(folder)
            running = alive(folder)
            if former is not None and running:
                if any(given):
                    raise ClusterError(
                        f"a cluster runs in {folder.root} already: its settings change by "
                        "`kerneltrack cluster down`, then up"
                    )
                cluster = former
            else:
                settings = _settings(args, former.settings if former is not None else None)
                java = find_java()
                jars = resolve(java, interruption, _say)
                cluster = Cluster(folder, settings, java, jars, versions())
                cluster.save()
                # Workers may have outlived a TaskManager that was killed.
                take_down(folder)
                folder.clear()
            folder.make_parts()
            started = bring_up(cluster, interruption, args.patience, _complain)
    if not started:
        _say("runs already")
    elif running:
        _say("started again: " + ", ".join(started))
    _say(status.describe(status.facts(folder, cluster, args.jobs_of)))
    return 0


def _settings(args: argparse.Namespace, former: ClusterSettings | None) -> ClusterSettings:
    chosen = choose(
        _numbers("--port", args.port),
        _numbers("--memory", args.memory),
        args.slots,
        former.ports if former is not None else {},
    )
    flink = _pairs("--flink", args.flink)
    check_flink(flink)
    return dataclasses.replace(chosen, flink=flink, kafka=_pairs("--kafka", args.kafka))


def _pairs(flag: str, given: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise ConfigError(flag, text, "KEY=VALUE")
        pairs[key] = value
    return pairs


def _numbers(flag: str, given: Sequence[str]) -> dict[str, int]:
    pairs = _pairs(flag, given)
    for name, value in pairs.items():
        if not value.isdecimal():
            raise ConfigError(f"{flag} {name}", value, "a whole number")
    return {name: int(value) for name, value in pairs.items()}


def _down(args: argparse.Namespace, folder: Folder) -> int:
    _must_exist(folder)
    with folder.exclusive():
        stopped = take_down(folder)
        folder.clear()
        if args.wipe:
            folder.wipe()
    _say(f"stopped: {_names(stopped)}" if stopped else f"nothing ran in {folder.root}")
    if args.wipe:
        _say(f"removed: the cluster in {folder.root}")
    return 0


def _names(processes: Sequence[Process]) -> str:
    workers = sum(process.name.startswith("worker-") for process in processes)
    names = [process.name for process in processes if not process.name.startswith("worker-")]
    return ", ".join(names + ([f"{workers} workers"] if workers else []))


def _status(args: argparse.Namespace, folder: Folder) -> int:
    found = status.facts(folder, load(folder), args.jobs_of)
    _say(json.dumps(found, indent=1) if args.json else status.describe(found))
    return 0 if found["running"] else 1


def _logs(args: argparse.Namespace, folder: Folder) -> int:
    _must_exist(folder)
    names = logs.NAMES if args.part is None else (args.part,)
    logs.show(folder, names, max(args.lines, 0), args.follow, _say)
    return 0


def _must_exist(folder: Folder) -> None:
    if not folder.settings.exists():
        raise ClusterError(f"no cluster in {folder.root}")


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _complain(text: str) -> None:
    sys.stderr.write(text + "\n")
