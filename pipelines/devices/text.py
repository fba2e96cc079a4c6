"""What is known of devices as a table for people."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from kerneltrack.errors import printable
from kerneltrack.fleet.devices import CHANGED, LEARNING, NORMAL, OFF, QUIET, UNWATCHED, channel_text
from kerneltrack.monitor.likeness import KnownFault, like_text
from kerneltrack.monitor.reference.episodes import worst_first
from kerneltrack.monitor.reference.spec import LEAST_SHARE
from pipelines.devices.of_run import Line
from pipelines.report.clock import UTC_CLOCK, SiteClock, ns_of
from pipelines.report.data.alike import devices_alike
from pipelines.report.data.episodes import MOST_CHANNELS
from pipelines.report.text import counts_of, natural
from transforms.outputs import SILENT

_WORDS = {
    OFF: "off",
    CHANGED: "changed",
    NORMAL: "well",
    QUIET: "quiet",
    LEARNING: "calibrating",
    UNWATCHED: "no reference",
}
_TELLING = (OFF, CHANGED)
"""States whose kind and channels the table has."""
_HEAD = ("device", "state", "since", "kind", "channels", "last row")
_IN_TABLE = {"channels": "channels: share (+ above, - below usual)"}
"""Heads of a table for people that say what is in a column."""
_MOST_NAME = 40


def state_of(text: str) -> str:
    """Return the name of a state that is given by this name, or as the table has it."""
    return {word: state for state, word in _WORDS.items()}.get(text, text)


def shown_on(height: int, lines: Sequence[Line]) -> tuple[Collection[str] | None, int]:
    """Return the states of the devices that a terminal shows, None for all.

    Where not all fit, those that are well are left out, so that the others stay in sight.

    Args:
        height: Lines of the terminal.
        lines: What is known of each device.

    Returns:
        The states, and how many devices are left out.
    """
    well = sum(line["state"] == NORMAL for line in lines)
    if not well or len(lines) + len(("total", "head", "prompt")) <= height:
        return None, 0
    return [state for state in _WORDS if state != NORMAL], well


def in_order(lines: Sequence[Line]) -> list[Line]:
    """Return the lines of devices that are off first, the worst first; then by name."""
    order = list(_WORDS)
    return sorted(
        lines,
        key=lambda line: (
            order.index(line["state"]),
            worst_first(line["kind"], line["severity"] if line["state"] in _TELLING else None),
            natural(line["model_id"]),
        ),
    )


def changes_of_one_first(
    lines: Sequence[Line], groups: Iterable[Iterable[KnownFault]]
) -> list[Line]:
    """Return lines in order, of those that have changed the devices that differ alike last.

    Args:
        lines: The lines, in order.
        groups: The devices that differ alike.
    """
    order, many = list(_WORDS), devices_alike(groups)
    return sorted(
        lines,
        key=lambda line: (
            order.index(line["state"]),
            line["state"] == CHANGED and line["model_id"] in many,
        ),
    )


def open_episodes(lines: Sequence[Line]) -> Iterator[KnownFault]:
    """Yield the episode, or the change, of each device that is off or has changed."""
    for line in lines:
        if line["state"] in _TELLING and line["channels"]:
            yield KnownFault("", line["model_id"], line["kind"], line["channels"])


def table_of(
    lines: Sequence[Line],
    calibrated_from: str | None,
    states: Collection[str] | None = None,
    clock: SiteClock = UTC_CLOCK,
    of_fleet: Sequence[str] = (),
) -> Iterator[str]:
    """Yield a line that counts all devices by state, and a table with a line for each device.

    Args:
        lines: What is known of each, in order.
        calibrated_from: Until when devices calibrate; None if that is not known.
        states: States of the devices in the table; None: all.
        clock: By which times are shown.
        of_fleet: Lines of the whole fleet, which stand before the table.
    """
    yield _total(lines)
    yield from of_fleet
    listed = [line for line in lines if states is None or line["state"] in states]
    if not listed:
        return
    cells: list[tuple[str, ...]] = [
        tuple(_IN_TABLE.get(name, name) for name in _HEAD),
        *(_cells(line, calibrated_from, clock) for line in listed),
    ]
    if "listed" in listed[0]:
        marks = ["listed", *("yes" if line["listed"] else "" for line in listed)]
        cells = [(*row, mark) for row, mark in zip(cells, marks, strict=True)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        texts = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        yield "  ".join(texts).rstrip()


def csv_of(
    lines: Sequence[Line], states: Collection[str] | None = None, clock: SiteClock = UTC_CLOCK
) -> Iterator[str]:
    """Yield the lines of a CSV file, a header first: what `table_of` has, and the severity.

    Args:
        lines: What is known of each device, in order.
        states: States of the devices in the file; None: all.
        clock: By which times are shown.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    has_list = any("listed" in line for line in lines)
    writer.writerow((*_HEAD[:4], "severity", *_HEAD[4:], *(["listed"] if has_list else [])))
    for line in lines:
        if states is None or line["state"] in states:
            device, state, since, kind, channels, last = _cells(line, None, clock, whole=True)
            severity = line["severity"] if kind and line["severity"] is not None else ""
            mark = [str(line["listed"]).lower()] if has_list else []
            writer.writerow((device, state, since, kind, severity, channels, last, *mark))
    yield from text.getvalue().splitlines()


def _total(lines: Sequence[Line]) -> str:
    states = Counter(line["state"] for line in lines)
    off, changed = states.pop(OFF, 0), states.pop(CHANGED, 0)
    others = counts_of({word: states[state] for state, word in _WORDS.items()})
    many = f"of {len(lines):,} devices"
    of = f"{off:,} {many} {'is' if off == 1 else 'are'} off"
    if changed:
        has = f"{'has' if changed == 1 else 'have'} changed to stay"
        # That none is off would sound as if all were well, if it came first.
        of = f"{of}, {changed:,} {has}" if off else f"{changed:,} {many} {has}, none is off"
    return f"{of} ({', '.join(others)})" if others else of


def _cells(
    line: Line, calibrated_from: str | None, clock: SiteClock, *, whole: bool = False
) -> tuple[str, str, str, str, str, str]:
    state, tells = _WORDS[line["state"]], line["state"] in _TELLING
    if line["state"] == LEARNING and calibrated_from is not None and not line["episodes"]:
        state = f"calibrating until {calibrated_from}"
    return (
        line["model_id"] if whole else printable(line["model_id"])[:_MOST_NAME],
        state,
        _moment(line.get("since"), line["since_index"], clock),
        _kind(line) if tells else "",
        _where(line["channels"] or []) if tells and line["kind"] != SILENT else "",
        _moment(line.get("time"), line["rows"] - 1, clock),
    )


def _kind(line: Line) -> str:
    return ", ".join(filter(None, (line["kind"], like_text(line.get("like")))))


def _moment(time: str | None, row: int | None, clock: SiteClock) -> str:
    if time is not None:
        return clock.named(ns_of(time.removesuffix("Z")))
    return "" if row is None else f"row {row:,}"


def _where(channels: Sequence[dict[str, Any]]) -> str:
    known = [each for each in channels if each["share"] >= LEAST_SHARE]
    if not known:
        return "no single channel"
    named = [
        channel_text(printable(each["channel"]), each["share"], each["deviation"])
        for each in known[:MOST_CHANNELS]
    ]
    more = len(known) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")
