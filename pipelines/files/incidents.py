"""Which episodes of a run began together on several devices: found at its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kerneltrack.monitor.incidents import Began, Incident, incidents_of, span_of
from kerneltrack.monitor.reference import ReferenceSpec
from kerneltrack.monitor.reference.spec import AUTO, RECOVERED
from kerneltrack.monitor.spans import parse_moment, parse_span
from kerneltrack.paths import join
from pipelines.report.clock import clock_of, ns_of
from pipelines.report.data.files import read_lines, write_table
from pipelines.report.data.incidents import incidents_of_run, lines_of_incidents
from pipelines.report.text import MOST_NAMED, and_more
from transforms.outputs import EPISODES, INCIDENTS
from transforms.write.schemas import INCIDENTS_SCHEMA


def find_incidents(
    output: str,
    reference: ReferenceSpec | None,
    span: Mapping[str, Any],
    rows: float | None,
    groups: Mapping[str, str] | None,
) -> dict[str, Any]:
    """Find the incidents of a run, and write `output/incidents/*.parquet`.

    Args:
        output: The run's folder.
        reference: With what rows were compared; None: with nothing.
        span: From when to when the rows are, as the record has it; empty without times.
        rows: How many a device has, on average; None: references were there before this run.
        groups: Of each device, or of some; None: all are one.

    Returns:
        What the record says of it.

    Cost: O(episodes log episodes) time, O(episodes) memory.
    """
    if reference is None or not span:
        return {}
    first, last = ends_of_episodes(output)
    began = [
        Began(*key, line["detected"])
        for key, line in first.items()
        if last[key]["kind"] != RECOVERED and last[key].get("muted") is None
    ]
    watched = _watched(reference, span, rows)
    found = incidents_of(began, watched, groups)
    lines = [line for number, each in enumerate(found, 1) for line in _lines(number, each, last)]
    write_table(output, INCIDENTS, lines, INCIDENTS_SCHEMA)
    devices = len({line["model_id"] for line in lines})
    about = {"incidents": len(found), "devices": devices, "span": span_of(watched)}
    return {INCIDENTS: about}


def ends_of_episodes(
    output: str,
) -> tuple[dict[tuple[str, int], dict[str, Any]], dict[tuple[str, int], dict[str, Any]]]:
    """Return the first and the last line of each episode: what it was noticed as, and became."""
    first: dict[tuple[str, int], dict[str, Any]] = {}
    last: dict[tuple[str, int], dict[str, Any]] = {}
    for line in read_lines(output, EPISODES):
        key = line["model_id"], line["episode"]
        if key not in first or line["index"] < first[key]["index"]:
            first[key] = line
        if key not in last or line["index"] >= last[key]["index"]:
            last[key] = line
    return first, last


def _watched(reference: ReferenceSpec, span: Mapping[str, Any], rows: float | None) -> int:
    """Return in how much time devices could go off, ns: not while references are made.

    Arguments as of `find_incidents`.
    """
    found = span["time_span"]
    if found is None or found["far"]:
        return 0
    first, last = ns_of(found["first"]), ns_of(found["last"])
    if rows is None:
        return last - first
    if reference.learning == AUTO:
        made = parse_span("memory", str(reference.memory))
        calibrating = made.time or 0
        if reference.every_time:
            rows = min(rows, (last - first) / reference.every_time)
        if made.rows is not None:
            calibrating = _part(last - first, made.rows, rows)
    elif reference.until is not None:
        calibrating = parse_moment("until", reference.until) - first
    else:
        calibrating = _part(last - first, reference.rows, rows)
    return max(last - first - max(calibrating, 0), 0)


def _part(whole: int, of: int, rows: float) -> int:
    return int(whole * min(of / max(rows, 1.0), 1.0))


def _lines(
    number: int, incident: Incident, last: Mapping[tuple[str, int], Mapping[str, Any]]
) -> list[dict[str, Any]]:
    return [
        {
            "model_id": each.device,
            "incident": number,
            "episode": each.episode,
            "detected": each.time,
            "state": last[each.device, each.episode]["state"],
            "kind": last[each.device, each.episode]["kind"],
            "group": incident.group,
            "devices": incident.devices,
            "chance": incident.chance,
        }
        for each in incident.members
    ]


def incident_lines(output: str, run: Mapping[str, Any]) -> list[str]:
    """Return what the end of a job says of incidents."""
    found, clock = incidents_of_run(output, run), clock_of(run)
    of = run["counts"]["models"]
    lines = lines_of_incidents(found[:MOST_NAMED], of, clock)
    return lines + and_more(len(found), join(output, INCIDENTS))
