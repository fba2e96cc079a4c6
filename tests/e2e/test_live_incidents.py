"""Incidents of a live job: devices that are off, and messages, by its devices topic."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kerneltrack.monitor.incidents import LEAST_DEVICES
from pipelines.cli.main import main
from tests.e2e.clusters import LocalCluster, make_topics, wait_for
from tests.e2e.jobs import command
from tests.e2e.live import Live
from tests.e2e.test_incidents import OFF, ROWS, TOGETHER, pump, track
from tests.e2e.test_local_engine import started
from tests.receivers import HttpServer

DEVICES = 12
COLUMNS = ("--model-id", "pump", "--time", "time", "--features", "flow", "heat")
FLAGS = ("--reference", "first", "--reference-rows", "256", "--rank", "2", "--budget", "5")
TOPIC, STATES = "pumps", "pumps-now"
ENDS = (OFF + 5, ROWS, 1400)

Capture = pytest.CaptureFixture[str]


class Plant:
    """Twelve pumps, and what the commands say of them."""

    def __init__(self, cluster: LocalCluster, folder: Path, capsys: Capture) -> None:
        self.place = ("--cluster", str(cluster.folder))
        self._folder, self._capsys = folder, capsys

    def job(self) -> list[str]:
        return command(
            *("stream", "--engine", "local", *self.place, "--topic", TOPIC, "--create-topics"),
            *("--output-topic", "pumps-out", "--devices-topic", STATES, "--idle-flush", "1"),
            *("--time-unit", "ns", *COLUMNS[2:], *FLAGS),
        )

    def send(self, start: int, stop: int) -> None:
        """The rows of all pumps, as they come in time."""
        rows = pa.concat_tables(pump(number, stop)[start:] for number in range(DEVICES))
        path = self._folder / "part.parquet"
        pq.write_table(rows.sort_by("time"), path)
        words = ("replay", str(path), *COLUMNS, *self.place, "--topic", TOPIC, "--times", "keep")
        assert main([*words, "--speed", "0", "--message-rows", "20"]) == 0

    def groups(self) -> tuple[str, str]:
        """The flag by which those that go off together are a hall."""
        path = self._folder / "halls.csv"
        hall = "".join(f"pump-{number},hall 1\n" for number in TOGETHER)
        path.write_text(f"device,group\n{hall}pump-9,hall 2\n")
        return "--groups", str(path)

    def _devices(self, *words: str) -> list[str]:
        self._capsys.readouterr()
        assert main(["devices", *self.place, "--topic", STATES, *words]) == 0
        return self._capsys.readouterr().out.splitlines()

    def off(self) -> set[str]:
        lines = map(json.loads, self._devices("--json"))
        return {line["model_id"] for line in lines if line["state"] == "off"}

    def incidents(self, *words: str) -> list[str]:
        return [line for line in self._devices(*words) if line.startswith("incident:")]

    def notify(self, server: HttpServer, *flags: str, state: str = "state") -> list[dict[str, Any]]:
        before = len(server.bodies)
        words = ("--state", str(self._folder / state), "--webhook", server.url, *flags)
        assert main(["notify", "--devices-topic", STATES, *self.place, *words]) == 0
        return list(server.bodies[before:])


def test_devices_that_go_off_together_are_one_line_and_one_message(
    cluster: LocalCluster, tmp_path: Path, capsys: Capture, server: HttpServer
) -> None:
    track(tmp_path / "rows", list(range(DEVICES)))
    (of_files,) = [each for each in capsys.readouterr().out.splitlines() if "incident:" in each]
    make_topics(Live(cluster, TOPIC, "json").client, TOPIC, partitions=3)
    plant, together = Plant(cluster, tmp_path, capsys), {f"pump-{number}" for number in TOGETHER}
    with started(plant.job()) as job:
        plant.send(0, ENDS[0])
        wait_for("the first", plant.off)
        early = {body["device"] for body in plant.notify(server)}
        assert early and early < together
        plant.send(*ENDS[:2])
        wait_for("all of them", lambda: plant.off() == together)
        # The topic knows of less time without episodes than the files: spans are shorter.
        (line,) = plant.incidents()
        text, _, names = line.partition(", all still off: ")
        members = set(names.split(", "))
        assert text == of_files.partition(", all")[0].replace("5 of", f"{len(members)} of")
        assert len(members) >= LEAST_DEVICES
        (incident, *others) = sorted(plant.notify(server), key=lambda body: str(body["device"]))
        assert (incident["device"], incident["kind"]) == ("fleet", "incident")
        assert incident["summary"].endswith(f": {names}")
        (of_hall,) = plant.incidents(*plant.groups())
        assert of_hall == line.replace("devices went", "devices of hall 1 went")
        bodies = plant.notify(server, *plant.groups(), state="by hall")
        assert "hall 1" in {body["device"] for body in bodies}
        alone = {body["device"] for body in others}
        assert alone == together - members - early
        assert plant.notify(server) == []
        plant.send(*ENDS[1:])
        wait_for("their ends", lambda: not plant.off())
        assert plant.incidents() == []
        over = plant.notify(server)
        assert {body["status"] for body in over} == {"resolved"}
        assert {body["device"] for body in over} == early | alone | {"fleet"}
        assert incident["key"] in {body["key"] for body in over}
        job.send_signal(signal.SIGINT)
