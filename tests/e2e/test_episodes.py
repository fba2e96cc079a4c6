"""Which devices are off: a made fleet through the command, its files, its end and its report."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.e2e import fleet as made
from tests.e2e.fleet import BROKEN, ROWS, SINCE, track
from tests.e2e.jobs import write


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The made fleet in a file."""
    path = tmp_path_factory.mktemp("fleet") / "fleet.parquet"
    write(path, made.fleet())
    return path


@pytest.fixture(scope="module")
def tracked(fleet: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the job leaves."""
    output = tmp_path_factory.mktemp("out") / "out"
    assert track(fleet, output, "--reference", "first") == 0
    return output


def test_the_broken_ones_are_named_at_the_end(
    fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert track(fleet, tmp_path / "out", "--reference", "gated") == 0
    lines = capsys.readouterr().out.splitlines()
    at = next(place for place, line in enumerate(lines) if "devices were off" in line)
    assert lines[at] == "2 of 12 devices were off, all to the end:"
    for line in lines[at + 1 : at + 3]:
        name, output_text = line.strip().split(": ", 1)
        kind, channel = BROKEN[name]
        since, said_kind, first, *_ = output_text.removeprefix("since ").split(", ")
        assert (said_kind, first) == (kind, f"ch{channel}")
        assert since.startswith(("1970-01-01 09:", "1970-01-01 10:"))


def test_a_reference_that_moves_finds_them_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(5)
    rows = np.sin(np.arange(2600) / 20)[:, None] + 0.1 * rng.normal(size=(3, 2600, 3))
    rows[1, 2000:, 2] += 1.0
    path, output = tmp_path / "rows.parquet", tmp_path / "out"
    columns = {f"ch{channel}": rows[..., channel].ravel() for channel in range(3)}
    names = np.repeat([f"pump-{number}" for number in range(3)], 2600)
    times = pa.array(np.tile(np.arange(2600), 3) * 60, pa.timestamp("s"))
    pq.write_table(pa.table({"pump": names, "time": times, **columns}), path)
    memory = ("--reference-memory", "1500 rows", "--reference-season", "none")
    flags = (*memory, "--causes", "ch0", "--time-zone", "Asia/Tokyo")
    assert track(path, output, "--reference", "auto", *flags) == 0
    assert "normal is what a device's last 1500 rows showed" in capsys.readouterr().out
    lines = pq.read_table(output / "episodes").to_pylist()
    assert {line["model_id"] for line in lines} == {"pump-1"}
    assert abs(lines[0]["index"] - 2000) < 20
    assert int(np.argmax(lines[-1]["shares"])) == 2
    kept = json.loads((output / "run.json").read_text("utf-8"))["reference"]
    assert (kept["learning"], kept["memory"], kept["season"]) == ("auto", memory[1], "none")
    assert (kept["causes"], kept["zone"]) == ([0], "Asia/Tokyo")
    features = pq.read_table(output / "features")
    assert features["ref_loss"].null_count == len(features)
    assert features["p"].null_count == 3 * 512


def test_each_mode_has_a_normal_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(5)
    mode = np.repeat(np.arange(102) % 3, 60)[:6000]
    rows = np.array([0.0, 20.0, 60.0])[mode][:, None] + rng.normal(size=(2, 6000, 2))
    rows[1, 5000:, 1] += 12 * (mode[5000:] == 0)
    path, output = tmp_path / "rows.parquet", tmp_path / "out"
    columns = {f"ch{channel}": rows[..., channel].ravel() for channel in range(2)}
    columns["state"] = np.tile(np.array(["off", "heat", "clean"])[mode], 2)
    names = np.repeat([f"pump-{number}" for number in range(2)], 6000)
    times = pa.array(np.tile(np.arange(6000), 2) * 60, pa.timestamp("s"))
    pq.write_table(pa.table({"pump": names, "time": times, **columns}), path)
    memory = ("--reference-memory", "3000 rows", "--reference-season", "none")
    rest = ("--features", "ch*", "--mode", "state", "--reference-max-modes", "3")
    assert track(path, output, "--reference", "auto", *memory, *rest) == 0
    assert "mode:     state" in capsys.readouterr().out
    lines = pq.read_table(output / "episodes").to_pylist()
    assert {line["model_id"] for line in lines} == {"pump-1"}
    assert 5000 <= lines[0]["index"] < 5200
    assert int(np.argmax(lines[-1]["shares"])) == 1
    record = json.loads((output / "run.json").read_text("utf-8"))
    assert (record["reference"]["mode"], record["reference"]["max_modes"]) == (2, 3)
    assert record["columns"]["words"] == {"state": ["*"]}
    again = ("--warm-start", str(output / "snapshots"), "--reference", "auto")
    few = ("--features", "ch*", "--mode", "state", "--reference-max-modes", "2", *memory)
    assert track(path, tmp_path / "few", "--reference", "auto", *few) == 0
    assert "rows are of modes beyond those" in capsys.readouterr().out
    later = pq.read_table(path)
    moved = pa.compute.add(later["time"], pa.scalar(400_000, pa.duration("s")))
    pq.write_table(later.set_column(1, "time", moved), path)
    assert track(path, tmp_path / "later", *again, *memory, *rest) == 0
    features = pq.read_table(tmp_path / "later" / "features")
    assert features["p"].null_count == 0


def test_episodes_are_opened_and_last_to_the_end(tracked: Path) -> None:
    lines = pq.read_table(tracked / "episodes").to_pylist()
    assert {line["model_id"] for line in lines} == set(BROKEN)
    for name, (kind, channel) in BROKEN.items():
        opened, ended = (line for line in lines if line["model_id"] == name)
        assert {opened["state"], ended["state"]} == {"open"}
        assert ended["kind"] == kind
        assert ended["index"] == ROWS - 1
        assert abs(ended["start_index"] - SINCE) <= (60 if kind == "ramp" else 20)
        assert opened["start_index"] == ended["start_index"] <= opened["detected_index"]
        assert ended["severity"] > opened["severity"]
        assert int(np.argmax(ended["shares"])) == channel
        for moment, row in (("start", "start_index"), ("time", "index"), ("last", "last_index")):
            assert ended[moment] == datetime.fromtimestamp(60 * ended[row], timezone.utc)


def test_features_have_the_scores(tracked: Path) -> None:
    table = pq.read_table(tracked / "features").filter(
        pa.compute.equal(pq.read_table(tracked / "features")["model_id"], "pump-3")
    )
    p = table.sort_by("index")["p"]
    assert p.slice(0, 512).null_count == 512
    assert p.slice(512).null_count == 0
    assert np.median(p.slice(SINCE).to_numpy()) < 1e-3
    assert table["ref_loss"].null_count == table["ref_distance"].null_count == 256


def test_report_and_record_say_so(tracked: Path) -> None:
    run = json.loads((tracked / "run.json").read_text())
    assert run["reference"]["learning"] == "first"
    assert run["counts"]["episodes"] == 2
    page = (tracked / "report.html").read_text(encoding="utf-8")
    section = page[page.index("Which devices are off") : page.index('id="drawn"')]
    assert "2 of 12 devices</b> were off, all to the end" in section
    assert section.index("pump-3") < section.index("pump-7")
    assert section.count(">still off<") == 2


def test_stretch_and_rate_in_event_time(
    fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows are a minute apart; those of a pump that began later make no reference."""
    table = pq.read_table(fleet)
    names = table["pump"].to_numpy(zero_copy_only=False)
    late = (names == "pump-4") & (np.tile(np.arange(ROWS), made.PUMPS) < 200)
    rows = write(tmp_path / "rows.parquet", table.filter(pa.array(~late)))
    until = ("--reference-until", "1970-01-01T09:30Z")
    rate = ("--reference-per", "700 days", "--reference-false-alarms", "1")
    output = tmp_path / "out"
    assert track(Path(rows), output, "--reference", "first", *until, *rate) == 0
    printed = capsys.readouterr().out
    assert "2 of 11 devices were off, all to the end:" in printed
    assert (
        "without a reference: 1 of 12 devices "
        "(fewer than 512 rows before 1970-01-01T09:30Z): pump-4"
    ) in printed
    features = pq.read_table(output / "features").sort_by([("model_id", "ascending")])
    for name, known in (("pump-4", 0), ("pump-5", ROWS - 570)):
        p = features.filter(pa.compute.equal(features["model_id"], name))["p"]
        assert len(p) - p.null_count == known
    run = json.loads((output / "run.json").read_text())
    assert (run["reference"]["until"], run["reference"]["per"]) == (until[1], rate[1])


@pytest.mark.parametrize("flags", [(), ("--reference", "none")])
def test_without_a_reference_nothing_is_said(
    fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...]
) -> None:
    assert track(fleet, tmp_path / "out", *flags) == 0
    output_text = capsys.readouterr().out
    assert "were off" not in output_text
    # Where nothing was asked the last lines say how to.
    assert ("which devices are off" in output_text) == (not flags)
    assert not (tmp_path / "out" / "episodes").exists()
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "Which devices are off" not in page


def test_a_well_fleet_is_said_to_be_well(
    tmp_path: Path, fleet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pq.read_table(fleet)
    well = table.filter(pa.compute.invert(pa.compute.is_in(table["pump"], pa.array([*BROKEN]))))
    pq.write_table(well, tmp_path / "well.parquet")
    assert track(tmp_path / "well.parquet", tmp_path / "out", "--reference", "first") == 0
    assert "none of 10 devices was off" in capsys.readouterr().out
    assert "None of 10 devices." in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("flags", "output_text"),
    [
        (("--reference", "first", "--reference-rows", "100"), "--reference-rows = 100"),
        (("--reference", "none", "--reference-rows", "1000"), "--reference = 'none'"),
        (("--reference", "first", "--reference-until", "soon"), "--reference-until = 'soon'"),
        (("--reference", "first", "--reference-per", "3 moons"), "--reference-per = '3 moons'"),
        (
            ("--reference", "first", "--reference-false-alarms", "1e6"),
            "--reference-false-alarms = 1000000.0",
        ),
    ],
)
def test_bad_settings_are_one_line(
    fleet: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    flags: tuple[str, ...],
    output_text: str,
) -> None:
    assert track(fleet, tmp_path / "out", *flags) == 2
    errors = capsys.readouterr().err
    assert output_text in errors
    assert len(errors.splitlines()) == 1
