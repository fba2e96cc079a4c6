"""SIGKILL at random moments, and how long a live job takes to get over it."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tests.e2e.clusters import PATIENCE, wait_for
from tests.e2e.jobs import command, environment
from tests.e2e.live import Live
from tests.e2e.warm import Warm

VICTIMS = ("worker", "taskmanager")
MOST_MESSAGES = 60
"""That come between a checkpoint and a kill, the number drawn at random."""


@dataclass(frozen=True)
class Kill:
    """One kill.

    Attributes:
        victim: Of `VICTIMS`.
        lag: Messages in the topic that no checkpoint had seen, at least.
        recovery: Seconds until the job runs again and more was written to its output topic.
    """

    victim: str
    lag: int
    recovery: float


@dataclass
class Killer:
    """Kills what a live job runs on.

    Attributes:
        live: The job's commands.
        job: Flink's id.
        seed: Of the moments.
    """

    live: Live
    job: str
    seed: int
    _killed: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)

    def kill(self, victim: str) -> Kill:
        """Kill at a random moment while rows come, and wait until the job has got over it.

        At that moment there is a checkpoint that was begun after the last kill, and messages lie
        in the topic that came after the newest checkpoint had ended: the input lags.
        """
        lag = self.wait_for_moment()
        pid = self._pid(victim)
        self._killed = time.time()
        os.kill(pid, signal.SIGKILL)
        begun = wait_for("the job to run again", self._runs_again)
        output = f"{self.live.topic}-out"
        came = wait_for("more to come out", lambda: self.live.first_since(output, begun))
        return Kill(victim, lag, came - self._killed)

    def kill_beneath(self, victim: str, portion: Path, speed: float) -> None:
        """Kill while a portion is sent at a speed, and wait until all of it was."""
        sending = command(*self.live.replay(portion, 5, "--speed", str(speed)))
        with Warm(sending, env=environment()) as feed:
            self.kill(victim)
            assert feed.wait(PATIENCE) == 0

    def wait_for_moment(self) -> int:
        """Wait until something may be killed; return the lag, in messages."""
        wait_for("a checkpoint newer than the last kill", self._has_checkpoint)
        more = self._sent() + int(self._random.integers(1, MOST_MESSAGES))
        wait_for("the moment", lambda: self._sent() >= more)
        return wait_for("messages after a checkpoint", self._lag)

    def written(self) -> int:
        """Return the number of messages that came out."""
        return sum(self.live.sizes(f"{self.live.topic}-out"))

    def _latest(self) -> tuple[int, float]:
        """Number of the newest checkpoint, and when it was begun."""
        found = self.live.cluster.ask_flink(f"/jobs/{self.job}/checkpoints")["latest"]["completed"]
        return (0, 0.0) if found is None else (found["id"], found["trigger_timestamp"] / 1000)

    def _has_checkpoint(self) -> bool:
        number, begun = self._latest()
        return number > 0 and begun > self._killed

    def _lag(self) -> int:
        number, _ = self._latest()
        # What lies there now may be in that checkpoint, what comes now cannot.
        seen = self._sent()
        came = wait_for("more messages", lambda: self._sent() - seen)
        return came if self._latest()[0] == number else 0

    def _runs_again(self) -> float | None:
        """Return when Flink started the job's tasks again, in seconds since 1970.

        It answers seconds late, when all may be over: what matters are its times, not ours.
        """
        found = self.live.cluster.ask_flink(f"/jobs/{self.job}")
        begun: float = found["timestamps"]["RUNNING"] / 1000
        return begun if begun > self._killed else None

    def _sent(self) -> int:
        return sum(self.live.sizes(self.live.topic))

    def _pid(self, victim: str) -> int:
        running = [process for process in self.live.cluster.processes() if process.alive]
        if victim == "worker":
            running = [process for process in running if _is_python(process.pid)]
        else:
            running = [process for process in running if process.name == victim]
        return int(self._random.choice([process.pid for process in running]))


def _is_python(pid: int) -> bool:
    return b"boot_worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
