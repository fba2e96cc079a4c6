"""Incidents of a run, as the report, `devices` and the end of a job show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from kerneltrack.errors import printable
from kerneltrack.monitor.incidents import Began
from pipelines.report.clock import SiteClock
from pipelines.report.data.files import read_lines
from pipelines.report.text import few, natural
from transforms.outputs import INCIDENTS

MOST_LISTED = 100
"""Incidents that the page lists, the newest of them."""
MOST_MEMBERS = 5
"""Devices that a line names."""
OPEN = "open"


@dataclass(frozen=True)
class Incident:
    """Episodes of several devices that began together.

    Attributes:
        number: Its number, from 1 on in order of time.
        members: The devices and the numbers of their episodes.
        devices: The devices, by name.
        group: The group of all of them; None if they are of several, or without groups.
        start: When the first of its episodes was noticed, ns.
        last: When the last one was.
        open: How many of the devices are still in an episode of it at the end of the input.
        chance: How probable such a cluster is without a common cause, at most.
    """

    number: int
    members: tuple[tuple[str, int], ...]
    devices: tuple[str, ...]
    group: str | None
    start: int
    last: int
    open: int
    chance: float

    @property
    def names(self) -> str:
        """The first devices, by name, and how many more."""
        return few([printable(name) for name in self.devices], MOST_MEMBERS)

    @property
    def still(self) -> str:
        """How many devices are still off, in words."""
        if self.open == len(self.devices):
            return "all still off"
        return f"{self.open:,} still off" if self.open else "all over"

    @property
    def place(self) -> str:
        """The group in words, if it is one."""
        return "" if self.group is None else f" of {printable(self.group)}"


def lines_of_incidents(found: Iterable[Incident], of: int, clock: SiteClock) -> list[str]:
    """Return incidents in words, a line each.

    Args:
        found: The incidents.
        of: How many devices the fleet has.
        clock: By which times are shown.
    """
    return [f"incident: {_text(each, of, clock)}" for each in found]


def incidents_of_run(output: str, run: Mapping[str, Any]) -> list[Incident]:
    """Read the incidents of a run, in order of time; none where nothing could be told.

    Cost: O(members) time and memory.
    """
    if not run.get(INCIDENTS):
        return []
    found: dict[int, list[dict[str, Any]]] = {}
    for line in read_lines(output, INCIDENTS):
        found.setdefault(line["incident"], []).append(line)
    return [_incident(number, lines) for number, lines in sorted(found.items())]


def _incident(number: int, lines: list[dict[str, Any]]) -> Incident:
    members = [Began(line["model_id"], line["episode"], line["detected"]) for line in lines]
    still = {line["model_id"] for line in lines if line["state"] == OPEN}
    return incident_of(number, members, still, lines[0]["group"], lines[0]["chance"])


def incident_of(
    number: int, members: Sequence[Began], off: Set[str], group: str | None, chance: float
) -> Incident:
    """Return an incident as it is shown; `off`: devices that are still in an episode of it."""
    names, times = {each.device for each in members}, [each.time for each in members]
    keys = tuple((each.device, each.episode) for each in members)
    in_order = tuple(sorted(names, key=natural))
    return Incident(number, keys, in_order, group, min(times), max(times), len(names & off), chance)


def _text(incident: Incident, of: int, clock: SiteClock) -> str:
    """Return an incident in words.

    Args:
        incident: The incident.
        of: How many devices the fleet has.
        clock: By which times are shown.
    """
    went = f"{len(incident.devices):,} of {of:,} devices{incident.place} went off together"
    return f"{went} from {clock.named(incident.start)} on, {incident.still}: {incident.names}"
