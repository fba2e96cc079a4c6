"""Incidents of a live job: which devices that are off went off together, by its devices topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kerneltrack.fleet.devices import CHANGED, NORMAL, OFF
from kerneltrack.monitor.incidents import LEAST_DEVICES, Began, incidents_of
from kerneltrack.monitor.reference.spec import RECOVERED
from pipelines.devices.of_run import Line
from pipelines.report.clock import ns_of
from pipelines.report.data.incidents import Incident, incident_of
from transforms.outputs import SILENT


def incidents_now(lines: Sequence[Line], groups: Mapping[str, str] | None = None) -> list[Incident]:
    """Find the incidents of which a device is still off, in order of time.

    A devices topic has the newest episode of each device and how many there were. All of them
    count against chance (N of the rule), the newest can belong to an incident. The time T goes
    from the first moment at which three devices are known to have been watched to the last one
    at which three were: at most as long as it was, however wrong the clocks of two devices are.

    Args:
        lines: What is known of each device.
        groups: The group of each device, or of some; None: all are one fleet.

    Cost: O(n log n) time and O(n) memory for n devices.
    """
    off = {line["model_id"] for line in lines if is_in_episode(line)}
    began = [_began(line) for line in lines if _counts(line)]
    episodes = {line["model_id"]: line["episodes"] for line in lines}
    found = incidents_of(began, _watched(lines), groups, episodes=episodes)
    shown = [
        incident_of(number, each.members, off, each.group, each.chance)
        for number, each in enumerate(found, 1)
    ]
    return [each for each in shown if each.open]


def is_in_episode(line: Line) -> bool:
    """Check whether a device is off in an episode, and not because it sends nothing."""
    return bool(line["state"] == OFF and line["kind"] != SILENT)


def _counts(line: Line) -> bool:
    """Check whether a line has an episode that may belong to an incident."""
    is_muted = line.get("muted") is not None
    return line.get("detected") is not None and line["kind"] != RECOVERED and not is_muted


def _began(line: Line) -> Began:
    return Began(line["model_id"], line["episode"], _time(line["detected"]))


def _watched(lines: Iterable[Line]) -> int:
    """Return in how much time devices could go off, ns, at least."""
    known = [line for line in lines if line["state"] in (NORMAL, CHANGED) or is_in_episode(line)]
    known = [line for line in known if line.get("since") is not None]
    if len(known) < LEAST_DEVICES:
        return 0
    first = sorted(_time(line["since"]) for line in known)[LEAST_DEVICES - 1]
    last = sorted(_time(line["time"]) for line in known)[-LEAST_DEVICES]
    return max(last - first, 0)


def _time(text: str) -> int:
    return ns_of(text.removesuffix("Z"))
