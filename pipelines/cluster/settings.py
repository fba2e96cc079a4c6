"""What can be set of a local cluster: ports, memory, slots, Flink's and Kafka's own settings."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any

from kerneltrack.errors import ConfigError
from pipelines.cluster.errors import ClusterError

HOST = "127.0.0.1"
"""All that the cluster opens is bound to it."""

PORTS = {
    "flink": 8081,
    "flink-rpc": 6123,
    "jobmanager-metrics": 9249,
    "taskmanager-metrics": 9250,
    "kafka": 9092,
    "kafka-controller": 9093,
    "jobserver": 8099,
    "artifacts": 8098,
    "expansion": 8097,
}
"""Names and usual numbers."""

SLOTS = 4
MOST_SLOTS = 256
LAST_PORT = 65535
FIRST_PORT = 1024
CLASSES = 64
"""MiB of the TaskManager for each slot's classes. Jobs share Beam's, of 46 MiB, and bring few of
their own, which go some time after them."""

OWN_FLAGS = {
    "jobmanager.memory.": "--memory jobmanager=MIB",
    "jobmanager.rpc.port": "--port flink-rpc=PORT",
    "rest.bind-port": "--port flink=PORT",
    "rest.port": "--port flink=PORT",
    "taskmanager.memory.": "--memory taskmanager=MIB",
    "taskmanager.numberOfTaskSlots": "--slots",
}
"""Beginnings of Flink's keys and the flag that sets them: Java's own flags, too, go by that one."""


def usual_memory(slots: int) -> dict[str, int]:
    """Return MiB for each part: all of a TaskManager's memory, the heap of the others.

    With two Python workers a job fits into the 4 GiB of a small laptop.
    """
    return {
        "jobmanager": 320,
        "taskmanager": 1216 + slots * CLASSES,
        "kafka": 320,
        "jobserver": 320,
        "expansion": 192,
    }


def least_memory(slots: int) -> dict[str, int]:
    """Return the least that can be set of each part's memory."""
    return {**dict.fromkeys(usual_memory(slots), 128), "taskmanager": 896 + slots * CLASSES}


@dataclass(frozen=True)
class ClusterSettings:
    """How a cluster is set up.

    Args:
        ports: Number of each port in PORTS.
        memory: MiB of each part, as `usual_memory` has them.
        slots: Slots of the TaskManager: the sum of the parallelism of all jobs.
        flink: Settings of Flink's own that are added or replaced.
        kafka: Settings of the broker's own that are added or replaced.
    """

    ports: Mapping[str, int]
    memory: Mapping[str, int]
    slots: int = SLOTS
    flink: Mapping[str, str] = field(default_factory=dict)
    kafka: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON takes it."""
        return asdict(self)

    def address(self, port: str) -> str:
        """Return host and number of a port."""
        return f"{HOST}:{self.ports[port]}"


def choose(
    ports: Mapping[str, int], memory: Mapping[str, int], slots: int, former: Mapping[str, int]
) -> ClusterSettings:
    """Return settings with every port and size given a number.

    Args:
        ports: Ports given by the user.
        memory: Sizes given by the user.
        slots: Slots of the TaskManager.
        former: Ports of the cluster that ran here before: jobs resumed from its checkpoints
            look for Kafka there.

    Raises:
        ConfigError: for an unknown name or a number out of range.
        ClusterError: if a port that was given is taken.
    """
    for name, number in ports.items():
        _one_of("--port", name, PORTS)
        if not FIRST_PORT <= number <= LAST_PORT:
            raise ConfigError(f"--port {name}", number, f"{FIRST_PORT} to {LAST_PORT}")
        if not is_free(number):
            raise ClusterError(f"--port {name}={number}: another program listens there")
    if len(set(ports.values())) < len(ports):
        raise ConfigError("--port", dict(ports), "a number of its own for each name")
    if not 1 <= slots <= MOST_SLOTS:
        raise ConfigError("--slots", slots, f"1 to {MOST_SLOTS}")
    sizes, least = usual_memory(slots), least_memory(slots)
    for name, size in memory.items():
        _one_of("--memory", name, sizes)
        if size < least[name]:
            allowed = f"at least {least[name]} (MiB) with {slots} slots"
            raise ConfigError(f"--memory {name}", size, allowed)
    chosen: dict[str, int] = dict(ports)
    for name, usual in PORTS.items():
        if name not in chosen:
            chosen[name] = _free_from(former.get(name, usual), usual, chosen.values())
    return ClusterSettings({name: chosen[name] for name in PORTS}, {**sizes, **memory}, slots)


def check_flink(given: Mapping[str, str]) -> None:
    """Check that settings of Flink are none that another flag sets.

    Args:
        given: Values by key.

    Raises:
        ConfigError: for the first one that is.
    """
    for key, value in given.items():
        for beginning, flag in OWN_FLAGS.items():
            if key.startswith(beginning):
                raise ConfigError(f"--flink {key}", value, f"set by {flag}")


def _one_of(flag: str, name: str, names: Iterable[str]) -> None:
    if name not in names:
        raise ConfigError(flag, name, "NAME=NUMBER with NAME one of " + ", ".join(names))


def _free_from(first: int, usual: int, taken: Iterable[int]) -> int:
    """Return the first port that is free, counting up.

    Below where systems take ports for outgoing connections: none of those comes between the
    choice and the use.
    """
    used = set(taken)
    for number in chain([first], range(usual, LAST_PORT + 1)):
        if number not in used and is_free(number):
            return number
    raise ClusterError("no port is free")


def is_free(port: int) -> bool:
    """Check whether nothing listens at a port of this machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Connections of a program that has ended do not keep a port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True
