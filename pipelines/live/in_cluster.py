"""`kerneltrack cluster`, which also shows the live jobs that run there."""

from __future__ import annotations

import argparse
import time
from typing import Any

from pipelines.cluster import commands
from pipelines.cluster.folder import Cluster
from pipelines.flink.client import ENDED, Flink, FlinkError
from pipelines.flink.counters import counters, shown
from pipelines.flink.health import look


def run(args: argparse.Namespace) -> int:
    """Run the command that was asked for and return its exit code, as `commands.run`."""
    return commands.run(args, jobs_of)


def jobs_of(cluster: Cluster, with_kafka: bool) -> list[dict[str, Any]]:
    """Return the jobs of a cluster that have not ended, for `kerneltrack cluster status`.

    Args:
        cluster: The cluster; its JobManager answers.
        with_kafka: Whether its broker does.
    """
    flink, now = Flink(cluster.settings.address("flink")), time.time()
    found = []
    try:
        for job in flink.jobs():
            if job["state"] in ENDED:
                continue
            health = look(flink, job["jid"])
            found.append(
                {
                    "name": job["name"],
                    "id": job["jid"],
                    "state": health.state,
                    "restarts": health.restarts,
                    "checkpoint_age": round(max(now - health.saved, 0.0), 1),
                    "troubles": [
                        *health.troubles(now, cluster.folder / "checkpoints"),
                        *_unread(cluster, flink, job["jid"], with_kafka),
                    ],
                    "counts": _counts(flink, job["jid"]),
                }
            )
    except FlinkError:
        # It has just gone; the next look says so.
        return found
    return found


def _unread(cluster: Cluster, flink: Flink, job: str, with_kafka: bool) -> list[str]:
    """Return what a job of ours does not read of its topics."""
    path = cluster.folder.root / "jobs" / f"{job}.json"
    if not with_kafka or not path.exists():
        return []
    # Only where there is a live job: this needs Kafka's client.
    from pipelines.live.input import InputWatch  # noqa: PLC0415
    from pipelines.live.jobs import read_record  # noqa: PLC0415

    client = {"bootstrap.servers": cluster.settings.address("kafka")}
    return InputWatch(client, read_record(path), flink).troubles()


def _counts(flink: Flink, job: str) -> dict[str, Any] | None:
    """Return what a job of ours has counted since it was last started, None of any other."""
    totals = counters(flink, job)
    return shown(totals) if totals else None
