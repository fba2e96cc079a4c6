"""The five programs of a cluster: how each is started, and how one sees that it answers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from pipelines.cluster import launch, records
from pipelines.cluster.configure import (
    FRAMEWORK_HEAP,
    FRAMEWORK_OFF_HEAP,
    NETWORK,
    PACKAGES,
    TASKMANAGER_ID,
    TEMPLATES,
    class_path_jar,
    metaspace,
    task_memory,
)
from pipelines.cluster.folder import Cluster
from pipelines.cluster.identity import identity
from pipelines.cluster.java import LIGHT_COMPILER, LIGHT_FLAGS
from pipelines.cluster.probes import ask_flink, grpc_answers, kafka_answers
from pipelines.cluster.records import Process
from pipelines.cluster.settings import HOST

RECORD_PATIENCE = 30.0
# What Flink 1.19 reaches into on Java 17.
OPENED = (
    *("lang", "lang.reflect", "net", "io", "nio", "text", "time", "util"),
    *("util.concurrent", "util.concurrent.atomic", "util.concurrent.locks"),
)
FLINK_FLAGS = (
    *(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in OPENED),
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/sun.net.util=ALL-UNNAMED",
    "--add-exports=java.rmi/sun.rmi.registry=ALL-UNNAMED",
    "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
)


@dataclass(frozen=True)
class ClusterPart:
    """One program of the cluster.

    Args:
        name: What it is called.
        port: The port by which it is spoken to.
        command: Its command line.
        answers: Whether it answers, its process being alive.
    """

    name: str
    port: str
    command: Callable[[Cluster], list[str]]
    answers: Callable[[Cluster, Process], bool]


def _java(cluster: Cluster, name: str, *flags: str) -> list[str]:
    folder = cluster.folder
    return [
        cluster.java.command,
        *flags,
        # Out of memory, it is better dead, and started again, than half alive.
        "-XX:+ExitOnOutOfMemoryError",
        "-XX:-UsePerfData",
        "-Djava.net.preferIPv4Stack=true",
        f"-Djava.io.tmpdir={folder / 'tmp'}",
        f"-Dkerneltrack.log={folder.log(name)}",
        f"-Dlog4j2.configurationFile={folder / 'config' / 'log4j2.properties'}",
    ]


def _heap(cluster: Cluster, name: str) -> str:
    return f"-Xmx{cluster.settings.memory[name]}m"


def _metrics(cluster: Cluster, name: str) -> list[str]:
    port = cluster.settings.ports[f"{name}-metrics"]
    return ["-D", f"metrics.reporter.prom.port={port}"]


def _kafka(cluster: Cluster) -> list[str]:
    return [
        *_java(cluster, "kafka", LIGHT_COMPILER, _heap(cluster, "kafka")),
        *("-cp", cluster.jars.kafka, "kafka.Kafka"),
        str(cluster.folder / "config" / "kafka.properties"),
    ]


def kafka_format(cluster: Cluster, kafka_id: str) -> list[str]:
    """Return the command that makes the broker's empty store."""
    return [
        *_java(cluster, "kafka", *LIGHT_FLAGS, "-Xmx128m"),
        *("-cp", cluster.jars.kafka, "kafka.tools.StorageTool", "format"),
        # In one word: one id in 64 begins with "-".
        f"--cluster-id={kafka_id}",
        *("--config", str(cluster.folder / "config" / "kafka.properties")),
    ]


def _classes(cluster: Cluster) -> str:
    """Flink's, and Beam's behind them, which would else be loaded anew with each job."""
    return os.pathsep.join((cluster.jars.flink, str(cluster.jars.jobserver)))


def _jobmanager(cluster: Cluster) -> list[str]:
    main = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
    return [
        *_java(cluster, "jobmanager", *LIGHT_FLAGS, _heap(cluster, "jobmanager"), *FLINK_FLAGS),
        *("-cp", _classes(cluster), main),
        *("--configDir", str(cluster.folder / "config" / "flink")),
        *_metrics(cluster, "jobmanager"),
    ]


def _taskmanager(cluster: Cluster) -> list[str]:
    task_heap, task_off_heap, _ = task_memory(cluster.settings)
    sizes = (
        f"-Xmx{FRAMEWORK_HEAP + task_heap}m",
        f"-Xms{FRAMEWORK_HEAP + task_heap}m",
        f"-XX:MaxDirectMemorySize={FRAMEWORK_OFF_HEAP + task_off_heap + NETWORK}m",
        f"-XX:MaxMetaspaceSize={metaspace(cluster.settings)}m",
    )
    return [
        *_java(cluster, "taskmanager", *sizes, *FLINK_FLAGS),
        *("-cp", _classes(cluster), "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"),
        *("--configDir", str(cluster.folder / "config" / "flink")),
        *_metrics(cluster, "taskmanager"),
    ]


def _jobserver(cluster: Cluster) -> list[str]:
    settings, folder = cluster.settings, cluster.folder
    return [
        *_java(cluster, "jobserver", *LIGHT_FLAGS, _heap(cluster, "jobserver"), *FLINK_FLAGS),
        *("-cp", str(cluster.jars.jobserver), "kerneltrack.cluster.LocalJobServer"),
        settings.address("flink"),
        str(folder / "config" / "client"),
        str(class_path_jar(cluster)),
        *("--job-host", HOST, "--job-port", str(settings.ports["jobserver"])),
        *("--artifact-port", str(settings.ports["artifacts"])),
        *("--artifacts-dir", str(folder / "artifacts")),
        # It has an expansion service of its own, which takes no settings.
        *("--expansion-port", "0"),
    ]


def _expansion(cluster: Cluster) -> list[str]:
    return [
        *_java(cluster, "expansion", *LIGHT_FLAGS, _heap(cluster, "expansion")),
        *("-cp", str(cluster.jars.jobserver), "kerneltrack.cluster.LoopbackExpansionService"),
        str(cluster.settings.ports["expansion"]),
        # By default each expansion hands out, and each job stores, the class path: 200 MB.
        f"--filesToStage={class_path_jar(cluster)}",
        # KafkaIO is known by its own name; no other class is to be had.
        f"--javaClassLookupAllowlistFile={TEMPLATES / 'java-classes.yaml'}",
        # Kafka as a native source of Flink's, its offsets in Flink's checkpoints.
        "--experiments=use_deprecated_read",
        # What Java does of a job is done in the TaskManager: a worker of its own would be another
        # process to start, with each job and after each failure, and one more on rows' way.
        "--defaultEnvironmentType=EMBEDDED",
    ]


def taskmanager_state(cluster: Cluster, process: Process) -> dict[str, int] | None:
    """Return the slots of the TaskManager, all and free, if the JobManager has heard of it.

    Args:
        cluster: The cluster.
        process: The TaskManager; word of an earlier one does not count.
    """
    listed = ask_flink(cluster.settings.ports["flink"], "/taskmanagers")
    for item in (listed or {}).get("taskmanagers", ()):
        heard = item.get("timeSinceLastHeartbeat", 0) / 1000
        if item.get("id") == TASKMANAGER_ID and heard >= process.since:
            return {"all": item["slotsNumber"], "free": item["freeSlots"]}
    return None


def _port(cluster: Cluster, name: str) -> int:
    return cluster.settings.ports[name]


PARTS = (
    ClusterPart("kafka", "kafka", _kafka, lambda c, _: kafka_answers(_port(c, "kafka"))),
    ClusterPart(
        "jobmanager",
        "flink",
        _jobmanager,
        lambda c, _: ask_flink(_port(c, "flink"), "/overview") is not None,
    ),
    ClusterPart(
        "taskmanager",
        "taskmanager-metrics",
        _taskmanager,
        lambda c, process: taskmanager_state(c, process) is not None,
    ),
    ClusterPart(
        "jobserver", "jobserver", _jobserver, lambda c, _: grpc_answers(_port(c, "jobserver"))
    ),
    ClusterPart(
        "expansion", "expansion", _expansion, lambda c, _: grpc_answers(_port(c, "expansion"))
    ),
)


def environment(cluster: Cluster) -> dict[str, str]:
    """Return the environment of a cluster's processes and their workers."""
    paths = [str(PACKAGES), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "JAVA_HOME": str(cluster.java.home),
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "TMPDIR": str(cluster.folder / "tmp"),
    }


def start(cluster: Cluster, part: ClusterPart, restarts: int = 0) -> int:
    """Start a part and return its process id."""
    folder = cluster.folder
    return launch.spawn(
        folder.run,
        part.name,
        folder.output(part.name),
        part.command(cluster),
        environment(cluster),
        restarts,
    )


def recorded(cluster: Cluster, name: str, pid: int) -> Process | None:
    """Return the record of a process just started, or None if it ended without writing one."""
    deadline = time.monotonic() + RECORD_PATIENCE
    runs = True
    while runs and time.monotonic() < deadline:
        # Asked before the record is read: what has ended may have written it first.
        runs = identity(pid) is not None
        process = records.read(cluster.folder.run, name)
        if process is not None and process.pid == pid:
            return process
        time.sleep(records.POLL / 5 if runs else 0)
    return None
