"""Flink's REST interface, as far as live jobs need it."""

from __future__ import annotations

import http.client
import json
import re
import time
from dataclasses import dataclass
from typing import Any

from kerneltrack.errors import KerneltrackError

TIMEOUT = 20.0
POLL = 0.25
ENDED = ("CANCELED", "FAILED", "FINISHED", "SUSPENDED")
OKAY = 300


class FlinkError(KerneltrackError):
    """Flink does not answer, or refuses."""


def cause_of(trace: str) -> str:
    r"""Return the line of a stack trace that tells the cause: Python's last error, else Java's.

    Example:
        >>> cause_of("java.io.IOException: x\\n\\tat y\\nCaused by: java.lang.Error: full")
        'Error: full'
    """
    lines = [line.strip() for line in trace.splitlines()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by:")]
    python = [line for line in lines if re.match(r"[\w.]+Error: ", line)]
    found = [*python[-1:], *causes[-1:], *lines[:1]]
    # Without the error's package, and what Beam adds before and after it.
    beam = r"^RuntimeError: (?=\w+Error: )|^(?:\w+\.)+|\s*\[while running .*\]$"
    plain = re.sub(beam, "", found[0]) if found else ""
    return plain or "it does not say why"


@dataclass(frozen=True)
class Flink:
    """A JobManager.

    Args:
        address: Host and port of its REST interface.
    """

    address: str

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """Get a path's answer, or post to it.

        Raises:
            FlinkError: if there is none, or it is an error.
        """
        status, text = self._answer("GET" if body is None else "POST", path, body)
        try:
            found = json.loads(text)
        except ValueError:
            raise FlinkError(f"Flink at {self.address}: {path}: no JSON came") from None
        if status >= OKAY:
            errors = [line for text in found.get("errors", []) for line in text.splitlines()]
            raise FlinkError(f"Flink at {self.address}: {path}: {errors[0] if errors else found}")
        return found

    def _answer(
        self, method: str, path: str, body: dict[str, Any] | None = None
    ) -> tuple[int, bytes]:
        """Return the status and text of an answer.

        Raises:
            FlinkError: if there is none.
        """
        connection = http.client.HTTPConnection(self.address, timeout=TIMEOUT)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise FlinkError(f"Flink at {self.address} does not answer: {error}") from error
        finally:
            connection.close()

    def jobs(self) -> list[dict[str, Any]]:
        """Return the jobs it knows: jid, name, state, start-time, tasks ..."""
        jobs: list[dict[str, Any]] = self.ask("/jobs/overview")["jobs"]
        return jobs

    def state(self, job: str) -> str:
        """Return a job's state."""
        return str(self.ask(f"/jobs/{job}")["state"])

    def why_failed(self, job: str) -> str:
        """Return what made a job fail, as far as it says so."""
        return cause_of(str(self.ask(f"/jobs/{job}/exceptions").get("root-exception") or ""))

    def left_by(self, job: str) -> tuple[str, str] | None:
        """Return what a job that has ended has left last, and where: a savepoint, a checkpoint.

        Flink repeats what it said of a job's checkpoints for as long as its pages do: what it said
        before the end is waited out.
        """
        time.sleep(self.ask("/config")["refresh-interval"] / 1000)
        latest = self.ask(f"/jobs/{job}/checkpoints")["latest"]
        kinds = {"savepoint": latest.get("savepoint"), "checkpoint": latest.get("completed")}
        found = [
            (one["latest_ack_timestamp"], kind, str(one["external_path"]))
            for kind, one in kinds.items()
            if one and one["status"] == "COMPLETED"
        ]
        return max(found)[1:] if found else None

    def cancel_with_savepoint(self, job: str, folder: str | None, patience: float) -> str:
        """Write a savepoint, then cancel; return where it is.

        Never Flink's own stop: it ends the input first, which empties every model's state.

        Raises:
            FlinkError: if that fails or takes longer than `patience` seconds.
        """
        body: dict[str, Any] = {"cancel-job": True}
        if folder is not None:
            body["target-directory"] = folder
        request = self.ask(f"/jobs/{job}/savepoints", body)["request-id"]
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            found = self.ask(f"/jobs/{job}/savepoints/{request}")
            if found["status"]["id"] == "COMPLETED":
                operation = found["operation"]
                if "location" not in operation:
                    cause = str(operation.get("failure-cause", {}).get("class", "no reason given"))
                    raise FlinkError(f"job {job}: no savepoint was written: {cause}")
                self.wait_until_ended(job, deadline - time.monotonic())
                return str(operation["location"])
            time.sleep(POLL)
        raise FlinkError(f"job {job}: no savepoint within {patience:g} s; the job goes on")

    def cancel(self, job: str, patience: float) -> None:
        """Cancel a job; its last checkpoint stays."""
        self._answer("PATCH", f"/jobs/{job}?mode=cancel")
        self.wait_until_ended(job, patience)

    def wait_until_ended(self, job: str, patience: float) -> None:
        """Wait for a job's end.

        Raises:
            FlinkError: if it does not come.
        """
        deadline = time.monotonic() + max(patience, TIMEOUT)
        while self.state(job) not in ENDED:
            if time.monotonic() > deadline:
                raise FlinkError(f"job {job} does not end: it is {self.state(job)}")
            time.sleep(POLL)
