"""`kerneltrack cluster up`: start what does not run, wait until all answers, or undo it."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import time
import uuid
from collections.abc import Callable

from pipelines.cluster import launch, records
from pipelines.cluster.configure import configure
from pipelines.cluster.down import alive, take_down
from pipelines.cluster.errors import ClusterError
from pipelines.cluster.folder import Cluster
from pipelines.cluster.interruption import Interruption
from pipelines.cluster.parts import PARTS, ClusterPart, environment, kafka_format, recorded, start
from pipelines.cluster.supervisor import NAME as SUPERVISOR
from pipelines.cluster.supervisor import command as supervisor_command
from pipelines.cluster.tail import Tail

POLL = 0.1
LAST_LINES = 20
MOST_LINES = 1000


def bring_up(
    cluster: Cluster,
    interruption: Interruption,
    patience: float,
    say: Callable[[str], None],
) -> list[str]:
    """Start what does not run yet and wait until all parts answer.

    Args:
        cluster: The cluster; its folder is ours alone meanwhile.
        interruption: Ends it.
        patience: Seconds until every part must answer.
        say: Takes a part's last log lines if it did not start.

    Returns:
        The names of those that were started.

    Raises:
        ClusterError: if one does not start; then all that were started are stopped.
        KeyboardInterrupt: if a signal came; the same.
    """
    running = alive(cluster.folder)
    missing = [part for part in PARTS if part.name not in running]
    pids: dict[str, int] = {}
    try:
        if missing:
            configure(cluster)
            _format_kafka(cluster, interruption)
        for part in missing:
            pids[part.name] = start(cluster, part)
        _wait(cluster, pids, interruption, patience, say)
        if SUPERVISOR not in running:
            folder = cluster.folder
            pids[SUPERVISOR] = launch.spawn(
                folder.run,
                SUPERVISOR,
                folder.output(SUPERVISOR),
                supervisor_command(cluster),
                environment(cluster),
            )
            recorded(cluster, SUPERVISOR, pids[SUPERVISOR])
        interruption.check()
    except BaseException:
        for name, pid in pids.items():
            recorded(cluster, name, pid)
        take_down(cluster.folder, list(pids))
        for pid in pids.values():
            # They are our children: nobody else takes them off the process list.
            os.waitpid(pid, os.WNOHANG)
        raise
    return list(pids)


def _wait(
    cluster: Cluster,
    pids: dict[str, int],
    interruption: Interruption,
    patience: float,
    say: Callable[[str], None],
) -> None:
    deadline = time.monotonic() + patience
    silent = {part.name: part for part in PARTS}
    while silent:
        for name, part in list(silent.items()):
            process = records.read(cluster.folder.run, name)
            if name in pids:
                process = recorded(cluster, name, pids[name])
            if process is None or not process.alive:
                interruption.check()
                raise _failed(cluster, part, "ended before it answered", say)
            if part.answers(cluster, process):
                del silent[name]
            elif time.monotonic() > deadline:
                reason = f"does not answer at {cluster.settings.address(part.port)}"
                raise _failed(cluster, part, f"{reason} after {patience:g} s", say)
        interruption.wait(POLL)


def _failed(
    cluster: Cluster, part: ClusterPart, what: str, say: Callable[[str], None]
) -> ClusterError:
    """Show the last lines of a part's log, but for Java's stack, and return the error."""
    for path in (cluster.folder.log(part.name), cluster.folder.output(part.name)):
        lines = [line for line in Tail(path).last(MOST_LINES) if not line.startswith("\t")]
        for line in [f"--- the end of {path}", *lines[-LAST_LINES:]] if lines else ():
            say(line)
    return ClusterError(f"{part.name} {what}; what was started is stopped again")


def _format_kafka(cluster: Cluster, interruption: Interruption) -> None:
    """Make the broker's store, the first time."""
    if (cluster.folder / "kafka" / "meta.properties").exists():
        return
    kafka_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
    done = subprocess.run(
        kafka_format(cluster, kafka_id),
        env=environment(cluster),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        # Ctrl-C is for us alone; this takes a second or two.
        start_new_session=True,
        check=False,
    )
    interruption.check()
    if done.returncode != 0:
        output = done.stderr or done.stdout
        reason = re.search(r"(?:Exception|Error): (.+)", output)
        raise ClusterError(f"Kafka's store cannot be made: {reason[1] if reason else output}")
