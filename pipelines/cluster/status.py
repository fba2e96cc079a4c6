"""`kerneltrack cluster status`: what runs, where, since when."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipelines.cluster import records
from pipelines.cluster.beam_flags import beam_flags
from pipelines.cluster.folder import Cluster, Folder
from pipelines.cluster.parts import PARTS, ClusterPart, taskmanager_state
from pipelines.cluster.records import Process
from pipelines.cluster.settings import is_free
from pipelines.cluster.supervisor import NAME as SUPERVISOR
from pipelines.cluster.tail import Tail
from pipelines.flink.counters import describe as in_words

ANSWERS = "answers"
SILENT = "silent"
DEAD = "dead"
STOPPED = "stopped"

TERMINATING = "Terminating due to "
"""With this Java begins the line in which it says why it ends itself."""
LAST_LINES = 1000

MINUTE = 60
HOUR = 60 * MINUTE
DAY = 24 * HOUR

JobsOf = Callable[[Cluster, bool], list[dict[str, Any]]]
"""Finds the jobs of a cluster that have not ended; whether Kafka answers."""


def facts(folder: Folder, cluster: Cluster | None, jobs_of: JobsOf) -> dict[str, Any]:
    """Return the state of a folder's cluster, as `status --json` prints it.

    `running` says whether all parts answer. A part `answers`, is `silent` (its process lives but
    does not answer), `dead` (it ended by itself) or `stopped`. Its `ended_by` is the error by which
    Java last ended it, if any did: what it had no memory for.
    """
    if cluster is None:
        return {"folder": str(folder.root), "running": False, "parts": {}}
    processes = {process.name: process for process in records.read_all(folder.run)}
    parts = {part.name: _part(cluster, part, processes.get(part.name)) for part in PARTS}
    supervisor = processes.get(SUPERVISOR)
    state = STOPPED if supervisor is None else ANSWERS if supervisor.alive else DEAD
    parts[SUPERVISOR] = _process(supervisor, state)
    taskmanager = processes.get("taskmanager")
    slots = None
    if taskmanager is not None and parts["taskmanager"]["state"] == ANSWERS:
        slots = taskmanager_state(cluster, taskmanager)
    jobs: list[dict[str, Any]] = []
    if parts["jobmanager"]["state"] == ANSWERS:
        jobs = jobs_of(cluster, parts["kafka"]["state"] == ANSWERS)
    workers = [process for name, process in processes.items() if name.startswith("worker-")]
    return {
        "folder": str(folder.root),
        "running": all(part["state"] == ANSWERS for part in parts.values()),
        "versions": {**cluster.versions, "java": str(cluster.java.version)},
        "parts": parts,
        "ports": {
            name: {"port": port, "open": not is_free(port)}
            for name, port in cluster.settings.ports.items()
        },
        "slots": slots,
        "jobs": jobs,
        "workers": sorted(process.pid for process in workers if process.alive),
        "beam_flags": beam_flags(cluster),
        "expansion_service": cluster.settings.address("expansion"),
        "brokers": cluster.settings.address("kafka"),
    }


def _part(cluster: Cluster, part: ClusterPart, process: Process | None) -> dict[str, Any]:
    if process is None:
        state = STOPPED
    elif not process.alive:
        state = DEAD
    else:
        state = ANSWERS if part.answers(cluster, process) else SILENT
    return {
        **_process(process, state),
        "ended_by": last_error(cluster.folder.output(part.name)) if process else None,
        "address": cluster.settings.address(part.port),
    }


def last_error(output: Path) -> str | None:
    """Return the error by which Java last ended the part that prints there, if any did."""
    lines = [line for line in Tail(output).last(LAST_LINES) if line.startswith(TERMINATING)]
    return lines[-1].removeprefix(TERMINATING) if lines else None


def _process(process: Process | None, state: str) -> dict[str, Any]:
    if process is None or state in (STOPPED, DEAD):
        return {"state": state, "pid": None, "uptime": None, "restarts": 0}
    return {
        "state": state,
        "pid": process.pid,
        "uptime": round(time.time() - process.since, 1),
        "restarts": process.restarts,
    }


def describe(found: dict[str, Any]) -> str:
    """Return the state in words."""
    if not found["parts"]:
        return f"no cluster in {found['folder']}"
    states = {part["state"] for part in found["parts"].values()}
    summary = (
        "running" if found["running"] else "stopped" if states == {STOPPED} else "not all runs"
    )
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    lines = [f"{found['folder']}: {summary} ({versions})"]
    lines.append(f"{'part':<13}{'state':<9}{'process':>8}  {'for':<10}{'address':<17}")
    for name, part in found["parts"].items():
        age = "" if part["uptime"] is None else _span(part["uptime"])
        line = f"{name:<13}{part['state']:<9}{part['pid'] or '-':>8}  {age:<10}"
        line += part.get("address", "")
        if part["restarts"]:
            line += f"  restarts: {part['restarts']}"
        if part.get("ended_by"):
            line += f"  ended by {part['ended_by']}"
        lines.append(line.rstrip())
    if found["slots"]:
        lines.append(f"slots: {found['slots']['all']}, free: {found['slots']['free']}")
    for job in found["jobs"]:
        lines.append(
            f"job {job['name']} ({job['id']}): {job['state']}, restarts: {job['restarts']}, "
            f"last checkpoint {_span(job['checkpoint_age'])} ago"
        )
        if job["counts"] is not None:
            lines.append(f"  {in_words(job['counts'])}")
        lines += [f"  {text}" for text in job["troubles"]]
    if found["running"]:
        lines.append("Kafka's brokers: " + found["brokers"])
        lines.append("Flink's web page: http://" + found["parts"]["jobmanager"]["address"])
        lines.append("a pipeline's flags: " + " ".join(map(_quoted, found["beam_flags"])))
    return "\n".join(lines)


def _quoted(flag: str) -> str:
    name, _, value = flag.partition("=")
    return f"{name}='{value}'" if " " in value else flag


def _span(seconds: float) -> str:
    for size, unit in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
