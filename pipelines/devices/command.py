"""`kerneltrack devices`."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from kerneltrack.fleet.devices import GONE
from kerneltrack.monitor.feedback import faults_of_run
from kerneltrack.paths import exists, join
from pipelines.cli.command_line import INTERRUPTED_EXIT
from pipelines.cli.groups_file import read_groups
from pipelines.cluster.interruption import Interruption
from pipelines.devices.faults import read_faults, with_names
from pipelines.devices.incidents import incidents_now
from pipelines.devices.metrics import FleetMetrics
from pipelines.devices.of_run import Line, calibrated_from, lines_of_run
from pipelines.devices.options import SERVED_EVERY, check
from pipelines.devices.serve import MetricsServer
from pipelines.devices.text import (
    changes_of_one_first,
    csv_of,
    in_order,
    open_episodes,
    shown_on,
    table_of,
)
from pipelines.job import say
from pipelines.report.clock import clock_of
from pipelines.report.data.alike import alike, alike_lines
from pipelines.report.data.differences import causes_of
from pipelines.report.data.episodes import early_lines
from pipelines.report.data.files import read_run
from pipelines.report.data.incidents import Incident, incidents_of_run, lines_of_incidents
from pipelines.report.data.listed import listed_lines
from pipelines.report.data.neighbours import neighbour_lines
from pipelines.run_folder import RUN
from pipelines.topics.options import client_settings

_Lines = list[Line] | None
"""None: there are none to be printed now."""
_CLEAR = "\x1b[H\x1b[J"


def run(args: argparse.Namespace) -> int:
    """Print the devices, or serve them to Prometheus.

    Returns:
        The exit code: 0; 130 after Ctrl-C, which ends `--watch` and `--serve`.
    """
    check(args)
    if args.serve is not None:
        return _serve(args)
    with _source(args) as source:
        lines = source.read(0.0, None) or []
        shown = _Shown(args, source)
        shown.print(lines)
        if args.watch is None:
            return 0
        with Interruption() as interruption:
            return _follow(source, args.watch, args.watch, interruption, shown.print)


def _serve(args: argparse.Namespace) -> int:
    metrics, groups = FleetMetrics(), _groups(args)
    with (
        _source(args) as source,
        MetricsServer(args.serve) as server,
        Interruption() as interruption,
    ):
        say(f"metrics at {server.url}, until Ctrl-C")
        every = args.watch or SERVED_EVERY

        def show(lines: list[Line]) -> None:
            found = _open_incidents(args.folder, source.run, lines, groups)
            server.show(metrics.text(lines, found))

        return _follow(source, 0.0, every, interruption, show)


def _follow(
    source: _Source,
    wait: float,
    every: float,
    interruption: Interruption,
    show: Callable[[list[Line]], None],
) -> int:
    """Show what is read after `wait` seconds, then every so many; return Ctrl-C's exit code."""
    while not interruption.came:
        lines = source.read(wait, interruption)
        if lines is not None and not interruption.came:
            show(lines)
        wait = every
    return INTERRUPTED_EXIT


def _groups(args: argparse.Namespace) -> dict[str, str] | None:
    return None if args.groups is None else read_groups(args.groups)


def _open_incidents(
    folder: str | None,
    run: Mapping[str, Any] | None,
    lines: list[Line],
    groups: Mapping[str, str] | None,
) -> list[Incident]:
    """Return the incidents that are not over: those of a run, or what the lines say of them."""
    if folder is None or run is None:
        return incidents_now(lines, groups)
    return [each for each in incidents_of_run(folder, run) if each.open]


class _Source(Protocol):
    """What knows of devices: a run's folder, or the topics of a live job."""

    @property
    def run(self) -> Mapping[str, Any] | None:
        """The record of the run that was read last; None: a live job has none."""

    def read(self, seconds: float, interruption: Interruption | None) -> _Lines:
        """Return the newest lines, after so many seconds or as soon as a signal comes."""

    def causes(self) -> list[str]:
        """Return a line for each common cause of the last period."""


@contextmanager
def _source(args: argparse.Namespace) -> Iterator[_Source]:
    """Yield what is asked."""
    if args.folder is not None:
        yield _RunFolder(args.folder)
        return
    # Kafka's client is not needed for a folder.
    from pipelines.devices.of_topic import devices_topic  # noqa: PLC0415

    groups = _groups(args)
    topic = devices_topic(client_settings(args), args.topic, args.periods_topic, groups)
    try:
        yield topic
    finally:
        topic.close()


class _RunFolder:
    """The folder of a run."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.run: Mapping[str, Any] | None = None

    def read(self, seconds: float, interruption: Interruption | None) -> _Lines:
        """Return the lines of the devices; None where there is no record to be read."""
        if interruption is not None:
            interruption.pause(seconds)
            # A job that writes the folder anew writes the record last.
            if interruption.came or not exists(join(self._folder, RUN)):
                return None
        self.run = read_run(self._folder)
        return lines_of_run(self._folder, self.run)

    def causes(self) -> list[str]:
        """Return a line for each common cause of the last period."""
        return causes_of(self._folder, self.run or {})


class _Shown:
    """Prints lines, and knows what it has printed."""

    def __init__(self, args: argparse.Namespace, source: _Source) -> None:
        run, self._source = source.run or {}, source
        self._until, self._clock = calibrated_from(run), clock_of(run)
        self._json, self._csv = args.json, args.csv
        self._groups = _groups(args)
        self._faults = faults_of_run(run) or None
        if args.faults is not None:
            self._faults = read_faults(args.faults, args.folder)
        self._states, self._folder, self._topic = args.state, args.folder, args.topic
        self._before = dict[str, Line]()
        self._clears = args.watch is not None and sys.stdout.isatty()

    def print(self, lines: list[Line]) -> None:
        """Print a table, or what has changed since the last call as lines of JSON."""
        lines = in_order(lines)
        groups = alike(open_episodes(lines))
        lines = changes_of_one_first(lines, groups)
        if self._faults is not None:
            lines = with_names(lines, self._faults)
        if self._json:
            texts = self._changes(lines)
        elif self._csv:
            texts = csv_of(lines, self._states, self._clock)
        elif not lines and self._topic is not None:
            texts = iter([f"{self._topic} has no state of a device yet: is it a --devices-topic?"])
        else:
            texts = self._table(lines, [*self._of_fleet(lines), *alike_lines(groups)])
        if self._clears and not self._json:
            sys.stdout.write(_CLEAR)
        sys.stdout.writelines(f"{text}\n" for text in texts)
        sys.stdout.flush()

    def _of_fleet(self, lines: list[Line]) -> list[str]:
        """Return why none can be off, who is listed or unlike the others, incidents and causes."""
        run, listed, unlike = self._source.run, list[str](), list[str]()
        if self._folder is not None:
            listed = listed_lines(self._folder, run or {})
            unlike = neighbour_lines(self._folder, run or {})
        found = _open_incidents(self._folder, run, lines, self._groups)
        incidents = lines_of_incidents(found, len(lines), self._clock)
        return [*early_lines(run or {}), *listed, *incidents, *self._source.causes(), *unlike]

    def _table(self, lines: list[Line], of_fleet: list[str]) -> Iterator[str]:
        """Yield the table; a terminal gets what fits on it."""
        states, left = self._states, 0
        if states is None and sys.stdout.isatty():
            states, left = shown_on(shutil.get_terminal_size().lines, lines)
        yield from table_of(lines, self._until, states, self._clock, of_fleet)
        if left:
            yield f"{left:,} more {'is' if left == 1 else 'are'} well: --state well lists them"

    def _changes(self, lines: list[Line]) -> Iterator[str]:
        """Yield what has changed of the devices that are, or were, in the states asked for."""
        before = self._before
        self._before = {line["model_id"]: line for line in lines if self._is_asked(line)}
        for line in lines:
            known = before.pop(line["model_id"], None)
            if line != known and (known is not None or self._is_asked(line)):
                yield json.dumps(line, allow_nan=False)
        for name in before:
            yield json.dumps({"model_id": name, "state": GONE})

    def _is_asked(self, line: Line) -> bool:
        return self._states is None or line["state"] in self._states
