"""Clocks that are put back and forward, through whole jobs: the rows right, or refused and told."""

from __future__ import annotations

import json
import re
import zoneinfo
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines.cli.main import main
from tests.e2e.jobs import SMALL, failures_of, features_of, record_of, track

BERLIN = "Europe/Berlin"
COLUMNS = ("--model-id", "id", "--time", "t", "--features", "x", "y", "--label", "u")
FLAGS = (*COLUMNS, "--time-zone", BERLIN, *SMALL)
STEP = timedelta(minutes=5)
LOST = ("2026-10-25 02:20:00", "2026-03-29 02:30:00")
"""Of model b: rows of the hours that come twice and never."""


def moments(start: datetime) -> list[datetime]:
    return [start + STEP * i for i in range(60)]


SPRING = moments(datetime(2026, 3, 28, 23, tzinfo=timezone.utc))
AUTUMN = moments(datetime(2026, 10, 24, 22, tzinfo=timezone.utc))
TWICE = [i for i, at in enumerate(AUTUMN) if at.hour in (0, 1)]
"""Of them, those of the hour that comes twice: 02:00 to 03:00, and once more."""


def written(path: Path, zone: str) -> str:
    """Rows of model a in order of time, as clocks of a zone show them, and two of model b."""
    clocks = [at.astimezone(zoneinfo.ZoneInfo(zone)) for at in [*SPRING, *AUTUMN]]
    lines = ["id,t,x,y,u"]
    for i, at in enumerate(clocks):
        lines.append(f"a,{at:%Y-%m-%d %H:%M:%S},{i % 7}.5,{i % 11}.25,{i % 2}")
    lines += [f"b,{text},1.5,2.5,1" for text in LOST] if zone == BERLIN else []
    path.write_text("\n".join([*lines, ""]))
    return str(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log in local time, the same in UTC, and the run of the latter."""
    folder = tmp_path_factory.mktemp("local")
    written(folder / "local.csv", BERLIN)
    source = written(folder / "utc.csv", "UTC")
    track(source, *COLUMNS, *SMALL, "--output", str(folder / "utc"))
    return folder


def run(folder: Path, output: Path, *flags: str) -> tuple[pa.Table, list[str], Any]:
    """Features, reasons of failures and the record of the log in local time."""
    track(str(folder / "local.csv"), *FLAGS, *flags, "--output", str(output))
    reasons = [reason for *_, reason in failures_of(output)]
    return features_of(output), reasons, record_of(output)


def without_places(features: pa.Table) -> pa.Table:
    return features.drop_columns(["source", "row"])


def test_the_order_of_rows_tells(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    features, reasons, record = run(folder, tmp_path / "out", "--time-ambiguous", "infer")
    assert without_places(features).equals(without_places(features_of(folder / "utc")))
    assert sorted(reasons) == [
        f"t = '{LOST[1]}': local time that does not exist in Europe/Berlin (--time-nonexistent "
        "shift takes it)",
        f"t = '{LOST[0]}': local time that comes twice in Europe/Berlin (the order of rows does "
        "not tell which is meant)",
    ]
    assert record["local_times"] == {
        "zone": BERLIN,
        "ambiguous": "infer",
        "nonexistent": "fail",
        "rows": {
            "ambiguous": 25,
            "ambiguous_failed": 1,
            "nonexistent": 1,
            "nonexistent_failed": 1,
        },
    }
    output_text = capsys.readouterr().out
    assert (
        "25 rows with a local time that comes twice in Europe/Berlin: 24 resolved by the order "
        "of rows, 1 failed\n1 row with a local time that does not exist in Europe/Berlin: failed "
        "(--time-nonexistent shift takes them)\n"
    ) in output_text


def test_by_default_they_fail(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    features, reasons, record = run(folder, tmp_path / "out")
    assert features.column("row").to_pylist() == [
        i for i in range(120) if i - len(SPRING) not in TWICE
    ]
    assert len(reasons) == 26
    twice = "t: local time that comes twice in Europe/Berlin (--time-ambiguous says which is meant)"
    never = "t: local time that does not exist in Europe/Berlin (--time-nonexistent shift takes it)"
    assert record["failures"] == {twice: 25, never: 1}
    assert re.search(r"25 rows with a local time .*: failed \(--time-amb", capsys.readouterr().out)


@pytest.mark.parametrize("mode", ["earliest", "latest"])
def test_they_are_all_the_first_or_the_second(
    mode: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--time-ambiguous", mode, "--time-nonexistent", "shift")
    features, reasons, record = run(folder, tmp_path / "out", *flags)
    assert reasons == []
    hour = 0 if mode == "earliest" else 1
    expected = sorted([*SPRING, *(at.replace(hour=hour) if i in TWICE else at
                                  for i, at in enumerate(AUTUMN))])  # fmt: skip
    found = _times(features)
    assert found["a"] == expected
    end_of_gap = datetime(2026, 3, 29, 1, tzinfo=timezone.utc)
    lost = datetime(2026, 10, 25, hour, 20, tzinfo=timezone.utc)
    assert found["b"] == [end_of_gap, lost]
    counts = {
        "ambiguous": 25,
        "ambiguous_failed": 0,
        "nonexistent": 1,
        "nonexistent_failed": 0,
    }
    assert record["local_times"]["rows"] == counts
    output_text = capsys.readouterr().out
    which = "first" if mode == "earliest" else "second"
    assert f"25 rows with a local time that comes twice in Europe/Berlin: taken as the {which}" in (
        output_text
    )
    assert (
        "1 row with a local time that does not exist in Europe/Berlin: moved to the end"
        in output_text
    )


def _times(features: pa.Table) -> dict[str, list[datetime]]:
    found: dict[str, list[datetime]] = {}
    for name, time in zip(
        features.column("model_id").to_pylist(),
        features.column("time").cast(pa.timestamp("us", "UTC")).to_pylist(),
        strict=True,
    ):
        found.setdefault(name, []).append(time.astimezone(timezone.utc))
    return found


def test_labels_of_their_own_are_matched_by_the_order_of_theirs(
    folder: Path, tmp_path: Path
) -> None:
    lines = (folder / "local.csv").read_text().splitlines()
    labels = [",".join([*line.split(",")[:2], line.split(",")[-1]]) for line in lines]
    (tmp_path / "labels.csv").write_text("\n".join([*labels, ""]))
    flags = ["--labels", str(tmp_path / "labels.csv"), "--label-column", "u", "--label", ""]
    flags += ["--label-wait", "60", "--learner", "ridge", "--label-type", "float64"]
    flags += ["--time-ambiguous", "infer"]
    _, _, record = run(folder, tmp_path / "out", *flags)
    assert record["counts"]["labels_in"] == 122
    assert record["counts"]["labels_failed"] == 2
    assert record["local_times"]["labels"] == record["local_times"]["rows"]


@pytest.mark.parametrize(
    ("command", "reported"),
    [
        (("score", "--snapshots", "utc/snapshots", "--output", "scored"), "120 scored, 4 failed"),
        (("landmarks", "--output", "marks.json", "--method", "uniform"), "(120 read, 4 failed)"),
    ],
)
def test_other_commands_read_local_times_alike(
    command: Sequence[str],
    reported: str,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A log of which the order tells all rows but those of another model, at its end."""
    monkeypatch.chdir(folder)
    name, *flags = command
    text = (folder / "local.csv").read_text()
    more = "".join(f"b,2026-10-25 02:{minute},1.5,2.5,1\n" for minute in (30, 40))
    source = tmp_path / "in.csv"
    source.write_text(text + more)
    assert main(
        [name, str(source), *flags, *COLUMNS, "--time-zone", BERLIN, "--time-ambiguous", "infer"]
    ) == 0  # fmt: skip
    output_text = capsys.readouterr().out
    assert reported in output_text
    assert "27 rows with a local time that comes twice in Europe/Berlin: 24 resolved" in output_text
    if name == "score":
        record = json.loads((folder / "scored" / "run.json").read_text())
        assert record["local_times"]["rows"]["ambiguous_failed"] == 3
