"""Which devices have changed to stay: an episode of theirs ended because the change had lasted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kerneltrack.monitor.reference.spec import ACCEPTED, RECOVERED, STEADY

Line = Mapping[str, Any]


class LastingChanges:
    """Episodes with which devices changed to stay, or came back; lines come in any order.

    Memory: O(such episodes).
    """

    def __init__(self) -> None:
        self._found: dict[str, dict[int, Line]] = {}

    def add(self, line: Line) -> None:
        """Take an episode's line, as `episodes/` has it."""
        over = line["state"] not in ("open", ACCEPTED)
        if over and (line["state"] == STEADY or line["kind"] == RECOVERED):
            self._found.setdefault(line["model_id"], {})[line["episode"]] = line

    def now(self) -> dict[str, Line]:
        """Return the line with which each device changed that has not come back since."""
        changed: dict[str, Line] = {}
        for model, lines in self._found.items():
            for number in sorted(lines):
                if lines[number]["state"] == STEADY:
                    changed.setdefault(model, lines[number])
                else:
                    changed.pop(model, None)
        return changed
