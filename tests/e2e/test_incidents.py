"""Incidents of a job on files: found, shown and sent as one, whatever the order of devices."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.cli.main import main
from pipelines.report.data.files import read_lines, read_run
from tests.receivers import HttpServer

ROWS, OFF, OVER = 800, 700, 900
TOGETHER = range(5)
TEN_MINUTES = 600_000


def pump(number: int, rows: int) -> pa.Table:
    """A row each ten minutes; five pumps go off within an hour, and one by itself long before."""
    x = np.random.default_rng(number).normal(size=(rows, 2))
    if number in TOGETHER:
        x[OFF + number : OVER, 1] += 8
    if number == 9:
        x[550:600, 0] += 8
    times = pa.array(np.arange(rows) * TEN_MINUTES, pa.timestamp("ms", "UTC"))
    columns = {"pump": [f"pump-{number}"] * rows, "time": times, "flow": x[:, 0], "heat": x[:, 1]}
    hall = ["north" if number in TOGETHER else "south"] * rows
    return pa.table({**columns, "hall": pa.array(hall)})


def track(folder: Path, order: list[int], *words: str, rows: int = ROWS) -> Path:
    folder.mkdir(exist_ok=True)
    for place, number in enumerate(order):
        pq.write_table(pump(number, rows), folder / f"{place:02}.parquet")
    flags = ["--model-id", "pump", "--time", "time", "--features", "flow", "heat", "--overwrite"]
    flags += ["--reference", "first", "--reference-rows", "256", "--rank", "2", "--budget", "5"]
    output = folder.with_name(f"{folder.name}-run")
    words = (*words, "--neighbours", "0", "--output", str(output))
    assert main(["track", *map(str, sorted(folder.glob("*.parquet"))), *flags, *words]) == 0
    return output


def incidents(output: Path) -> list[dict[str, Any]]:
    return list(read_lines(str(output), "incidents"))


def test_devices_that_go_off_together_are_one_incident(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = track(tmp_path / "rows", list(range(12)))
    printed = capsys.readouterr().out
    lines = incidents(output)
    assert {line["model_id"] for line in lines} == {f"pump-{number}" for number in TOGETHER}
    assert {(line["incident"], line["devices"], line["state"]) for line in lines} == {
        (1, len(TOGETHER), "open")
    }
    assert all(0 < line["chance"] < 0.01 and line["group"] is None for line in lines)
    episodes = {
        (line["model_id"], line["episode"]): line["detected"]
        for line in read_lines(str(output), "episodes")
    }
    for line in lines:
        assert line["detected"] == episodes[line["model_id"], line["episode"]]
    assert read_run(str(output))["incidents"]["incidents"] == 1
    first = min(line["detected"] for line in lines)
    at = str(np.datetime64(first // 10**9, "s")).replace("T", " ")
    names = "pump-0, pump-1, pump-2, pump-3, pump-4"
    text = f"5 of 12 devices went off together from {at} UTC on, all still off: {names}"
    assert f"incident: {text}" in printed.splitlines()
    assert main(["devices", str(output)]) == 0
    assert capsys.readouterr().out.splitlines()[1] == f"incident: {text}"
    page = (output / "report.html").read_text()
    assert f"</b> went off together from {at} on, all still off: {names}." in page


def test_they_change_nothing_else_and_depend_on_no_order(tmp_path: Path) -> None:
    def digests(output: Path) -> dict[str, str]:
        """Of what is there of each device, whatever the order of the devices."""
        found = {}
        for name in ("episodes", "incidents"):
            lines = sorted(map(str, read_lines(str(output), name)))
            found[name] = hashlib.blake2b("\n".join(lines).encode()).hexdigest()
        return found

    wanted = track(tmp_path / "rows", list(range(12)))
    other = track(tmp_path / "others", [7, 3, 11, 0, 9, 1, 8, 2, 10, 4, 6, 5])
    assert digests(other) == digests(wanted)
    assert incidents(other) == incidents(wanted)


def test_groups_are_looked_at_by_themselves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = track(tmp_path / "rows", list(range(12)), "--group", "hall")
    assert {line["group"] for line in incidents(output)} == {"north"}
    assert "incident: 5 of 12 devices of north went off together" in capsys.readouterr().out


def test_an_incident_is_one_message(tmp_path: Path, server: HttpServer) -> None:
    rows, output = tmp_path / "rows", tmp_path / "rows-run"

    def notify() -> list[dict[str, Any]]:
        before = len(server.bodies)
        words = ("--state", str(tmp_path / "state"), "--webhook", server.url)
        assert main(["notify", str(output), *words]) == 0
        return list(server.bodies[before:])

    # Two of the five are off before there is an incident, and are sent by themselves.
    track(rows, list(range(12)), rows=OFF + 5)
    early = {body["device"] for body in notify()}
    track(rows, list(range(12)))
    (incident, *others) = sorted(notify(), key=lambda body: str(body["device"]))
    assert others == []
    assert (incident["device"], incident["kind"], incident["status"]) == (
        ("fleet", "incident", "firing")
    )
    assert incident["summary"].startswith("5 devices went off together from 1970-01-05 ")
    assert incident["summary"].endswith("on: pump-0, pump-1, pump-2, pump-3, pump-4")
    assert notify() == []
    # All are well again: whoever was sent by itself is so, too.
    track(rows, list(range(12)), rows=1400)
    over = notify()
    assert {body["status"] for body in over} == {"resolved"}
    assert {body["device"] for body in over} == early | {"fleet"}
    (last,) = [body for body in over if body["device"] == "fleet"]
    assert last["key"] == incident["key"]
    assert last["summary"].startswith("the incident since 1970-01-05 ")


def test_without_times_there_are_none(tmp_path: Path) -> None:
    rows = tmp_path / "rows.parquet"
    pq.write_table(pa.concat_tables([pump(n, ROWS) for n in range(12)]).drop(["time"]), rows)
    words = ["--model-id", "pump", "--features", "flow", "heat", "--reference", "first"]
    output = tmp_path / "run"
    assert main(["track", str(rows), *words, "--neighbours", "0", "--output", str(output)]) == 0
    assert not (output / "incidents").exists() and "incidents" not in read_run(str(output))
