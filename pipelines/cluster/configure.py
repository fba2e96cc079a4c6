"""Write the configuration of Flink, Kafka and the workers into a cluster's folder."""

from __future__ import annotations

import shlex
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any

import yaml

from pipelines.cluster.folder import Cluster
from pipelines.cluster.settings import CLASSES, HOST, ClusterSettings

TEMPLATES = Path(__file__).parent / "templates"
PACKAGES = Path(__file__).resolve().parents[2]
"""What the workers import the project from."""

TASKMANAGER_ID = "taskmanager"
FOREVER = -1
MANIFEST_LINE = 70

# MiB of a TaskManager that do not grow with it.
FRAMEWORK_HEAP = 128
FRAMEWORK_OFF_HEAP = 128
NETWORK = 64
OVERHEAD = 128
OWN_CLASSES = 128
FIXED = FRAMEWORK_HEAP + FRAMEWORK_OFF_HEAP + NETWORK + OVERHEAD + OWN_CLASSES
# And how the rest is shared; what is left is the heap of the tasks.
MANAGED_SHARE = 0.4
OFF_HEAP_SHARE = 0.15


def configure(cluster: Cluster) -> None:
    """Write all files under config/ and bin/."""
    config = cluster.folder / "config"
    shutil.copy(TEMPLATES / "log4j2.properties", config / "log4j2.properties")
    for name, content in (("flink", flink(cluster)), ("client", client(cluster))):
        (config / name).mkdir(exist_ok=True)
        (config / name / "config.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    lines = [f"{key}={value}\n" for key, value in kafka(cluster).items()]
    (config / "kafka.properties").write_text("".join(lines), encoding="utf-8")
    _write_class_path(class_path_jar(cluster), cluster.jars.jobserver)
    path = worker_command(cluster)
    path.write_text(_worker_script(cluster), encoding="utf-8")
    path.chmod(0o755)


def task_memory(settings: ClusterSettings) -> tuple[int, int, int]:
    """Return MiB of the tasks' heap, of their direct buffers, and of RocksDB (managed memory)."""
    free = settings.memory["taskmanager"] - FIXED - settings.slots * CLASSES
    managed = int(free * MANAGED_SHARE)
    off_heap = int(free * OFF_HEAP_SHARE)
    return free - managed - off_heap, off_heap, managed


def metaspace(settings: ClusterSettings) -> int:
    """Return MiB for the classes of Flink and of the jobs: where it is used up, Java ends."""
    return OWN_CLASSES + settings.slots * CLASSES


def flink(cluster: Cluster) -> dict[str, Any]:
    """Return the configuration of JobManager and TaskManager."""
    settings, folder = cluster.settings, cluster.folder
    task_heap, task_off_heap, managed = task_memory(settings)
    # Flink's own start script would work these out.
    memory = {
        "framework.heap.size": FRAMEWORK_HEAP,
        "framework.off-heap.size": FRAMEWORK_OFF_HEAP,
        "task.heap.size": task_heap,
        "task.off-heap.size": task_off_heap,
        "network.min": NETWORK,
        "network.max": NETWORK,
        "managed.size": managed,
        "jvm-metaspace.size": metaspace(settings),
        "jvm-overhead.min": OVERHEAD,
        "jvm-overhead.max": OVERHEAD,
        "process.size": settings.memory["taskmanager"],
    }
    return {
        "jobmanager.rpc.address": HOST,
        "jobmanager.rpc.port": settings.ports["flink-rpc"],
        "jobmanager.bind-host": HOST,
        "taskmanager.host": HOST,
        "taskmanager.bind-host": HOST,
        # A new TaskManager of the same id takes the place of a dead one at once.
        "taskmanager.resource-id": TASKMANAGER_ID,
        "taskmanager.numberOfTaskSlots": settings.slots,
        "taskmanager.cpu.cores": float(settings.slots),
        **{f"taskmanager.memory.{name}": f"{size}m" for name, size in memory.items()},
        # Of bounded jobs each exchange would want a quarter of the network's memory.
        "taskmanager.network.sort-shuffle.min-buffers": 64,
        **_rest(settings),
        "rest.bind-port": settings.ports["flink"],
        "rest.bind-address": HOST,
        # Jars come by the job server; nobody else is to run code by the web page.
        "web.submit.enable": False,
        # All jobs are Beam's, of the version that is here: its classes are loaded, and compiled,
        # once. Of its own each job would have them again: a third of what a small one costs.
        "classloader.resolve-order": "parent-first",
        "web.tmpdir": str(folder / "tmp"),
        "io.tmp.dirs": str(folder / "tmp"),
        "state.backend.type": "rocksdb",
        # All of it for whatever slots are in use: a quarter of it, that of one slot in four, has no
        # room for what a bundle writes of a thousand models.
        "state.backend.rocksdb.memory.managed": False,
        "state.backend.rocksdb.memory.fixed-per-tm": f"{managed}m",
        "state.backend.rocksdb.options-factory": "kerneltrack.rocksdb.ShortManifest",
        "state.checkpoints.dir": (folder / "checkpoints").as_uri(),
        "state.savepoints.dir": (folder / "savepoints").as_uri(),
        **_jobs(),
        # Of 10 s a busy machine makes too little.
        "pekko.startup-timeout": "60 s",
        "heartbeat.interval": 1000,
        "heartbeat.timeout": 10000,
        # No metric is fetched before the last fetch has ended: one of a TaskManager that died
        # meanwhile ends by this alone, by default after 10 minutes.
        "web.timeout": 30000,
        "metrics.reporter.prom.factory.class": (
            "org.apache.flink.metrics.prometheus.LoopbackReporterFactory"
        ),
        **settings.flink,
    }


def client(cluster: Cluster) -> dict[str, Any]:
    """Return the configuration that the job server gives to jobs.

    It names no state backend: the job server would want to load it.
    """
    given = cluster.settings.flink.items()
    return {
        **_rest(cluster.settings),
        **_jobs(),
        **{key: value for key, value in given if not key.startswith("state.backend")},
    }


def _rest(settings: ClusterSettings) -> dict[str, Any]:
    return {
        "rest.address": HOST,
        "rest.port": settings.ports["flink"],
        # What it tells of a job is so many milliseconds old at most; by default 3,000.
        "web.refresh-interval": 500,
    }


def _jobs() -> dict[str, Any]:
    return {
        # For ever; what fails again and again is left more and more time to be mended, what has run
        # for five seconds is not.
        "restart-strategy.type": "exponential-delay",
        "restart-strategy.exponential-delay.initial-backoff": "250 ms",
        "restart-strategy.exponential-delay.max-backoff": "10 s",
        "restart-strategy.exponential-delay.reset-backoff-threshold": "5 s",
        # One that hangs is given up, and the next one tried; by default after 10 minutes.
        "execution.checkpointing.timeout": "60 s",
        # Else those of a job that failed or was cancelled are deleted.
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    }


def kafka(cluster: Cluster) -> dict[str, Any]:
    """Return the configuration of the broker, which is its own controller."""
    settings = cluster.settings
    broker, controller = settings.address("kafka"), settings.address("kafka-controller")
    return {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@{controller}",
        "listeners": f"PLAINTEXT://{broker},CONTROLLER://{controller}",
        "advertised.listeners": f"PLAINTEXT://{broker}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": cluster.folder / "kafka",
        # A misspelt topic is an error, as where it matters.
        "auto.create.topics.enable": "false",
        # Records of past years would be deleted as they come.
        "log.retention.ms": FOREVER,
        "offsets.topic.num.partitions": 1,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "share.coordinator.state.topic.num.partitions": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
        # By default 128 MiB, half of the heap.
        "log.cleaner.dedupe.buffer.size": 16 * 2**20,
        **settings.kafka,
    }


def class_path_jar(cluster: Cluster) -> Path:
    """Return the jar that jobs carry: it says where on this machine the real one lies."""
    return cluster.folder / "config" / "class-path.jar"


def _write_class_path(path: Path, jar: Path) -> None:
    """Write a jar that holds nothing but the address of another, its lines cut as jars want it."""
    line = f"Class-Path: {jar.as_uri()}".encode()
    cut = range(MANIFEST_LINE, len(line), MANIFEST_LINE - 1)
    lines = [line[:MANIFEST_LINE], *(b" " + line[i : i + MANIFEST_LINE - 1] for i in cut)]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "META-INF/MANIFEST.MF", b"\n".join([b"Manifest-Version: 1.0", *lines, b""])
        )


def worker_command(cluster: Cluster) -> Path:
    """Return the program that Beam's PROCESS environment calls to start a worker for Python."""
    return cluster.folder / "bin" / "python-worker"


def _worker_script(cluster: Cluster) -> str:
    command = [sys.executable, "-m", "pipelines.cluster.boot_worker", cluster.folder.root]
    words = " ".join(shlex.quote(str(word)) for word in command)
    return (
        "#!/bin/sh\n"
        f"PYTHONPATH={shlex.quote(str(PACKAGES))}${{PYTHONPATH:+:$PYTHONPATH}}\n"
        "export PYTHONPATH\n"
        f'exec {words} "$@"\n'
    )
