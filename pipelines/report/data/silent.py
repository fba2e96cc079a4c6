"""Devices that sent nothing for longer than allowed, as the report and `devices` show them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.report.data.files import read_lines
from pipelines.report.text import natural
from transforms.outputs import SILENT

MOST_LISTED = 100
"""Devices that the page lists."""
OPEN = "open"


@dataclass(frozen=True)
class SilentDevice:
    """A device that was silent: its silence that is not over, else the longest.

    Attributes:
        model: Its ID.
        since: Time of its last row before, ns.
        until: Time of its first row after, ns; None: it is still silent.
        allowed: How long it may send nothing, ns.
        times: How often it was silent.
    """

    model: str
    since: int
    until: int | None
    allowed: int
    times: int


@dataclass(frozen=True)
class Silent:
    """The devices of a run that were silent.

    Attributes:
        after: What the job was told: a time or "auto".
        of: Devices that there are.
        still: Those that are silent at the end of the input.
        devices: All that ever were, those that still are first, then by their IDs.
    """

    after: str
    of: int
    still: int
    devices: list[SilentDevice]


def silent_of(output: str, run: Mapping[str, Any]) -> Silent | None:
    """Read which devices of a run were silent; None where nothing was asked for.

    Cost: O(silences) time and memory.
    """
    record = run.get(SILENT)
    if not record:
        return None
    lines: dict[str, list[dict[str, Any]]] = {}
    for line in read_lines(output, SILENT):
        lines.setdefault(line["model_id"], []).append(line)
    devices = [_device(model, found) for model, found in lines.items()]
    devices.sort(key=lambda each: (each.until is not None, natural(each.model)))
    return Silent(record["after"], record["devices"], record["still"], devices)


def _device(model: str, lines: list[dict[str, Any]]) -> SilentDevice:
    def length(line: Mapping[str, Any]) -> tuple[bool, int]:
        return line["state"] == OPEN, (line["end"] or line["start"]) - line["start"]

    line = max(lines, key=length)
    return SilentDevice(model, line["start"], line["end"], line["allowed"], len(lines))
