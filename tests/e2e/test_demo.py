"""The demo: broken pumps are found, labels that come late are learned, and the report says so."""

from __future__ import annotations

import hashlib
import re
import shlex
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipelines.cli.main import main
from samples import fleet

ROOT = Path(__file__).resolve().parents[2]
PUMPS = 60


def command() -> list[str]:
    """The flags of the Makefile's demo."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    found = re.search(r"^demo:.*?bin/kerneltrack (track .*?)\n\t@", text, re.M | re.S)
    assert found is not None
    return shlex.split(found[1].replace("\\\n", " "))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    rows, labels = fleet.tables(PUMPS)
    (folder / "fleet").mkdir()
    pq.write_table(rows, folder / "fleet" / "rows.parquet")
    pq.write_table(labels, folder / "fleet" / "labels.parquet")
    return folder


def test_the_fleet_is_the_same_each_time() -> None:
    first = hashlib.sha256()
    for pump in fleet.pumps(12):
        first.update(pump.rows.tobytes())
    again = hashlib.sha256()
    for pump in fleet.pumps(12):
        again.update(pump.rows.tobytes())
    assert first.digest() == again.digest()
    kinds = [pump.kind for pump in fleet.pumps(240, fleet.SEED, fleet.ROWS)]
    assert {place: kind for place, kind in enumerate(kinds) if kind is not None} == {
        112: "stuck",
        121: "stuck",
        180: "ramp",
        228: "shift",
    }


def test_the_readme_names_what_is_broken() -> None:
    """Kinds and channels of the four, those that are off before any others."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    reported = re.findall(r"^  pump-(\d+): since \S+ \S+ UTC, (\w+), (.*)$", readme, re.M)
    pumps = list(fleet.pumps(240, fleet.SEED, fleet.ROWS))
    assert sorted(int(place) for place, _, _ in reported) == [
        n for n, pump in enumerate(pumps) if pump.kind
    ]
    for place, kind, named in reported:
        pump = pumps[int(place)]
        channels = {fleet.CHANNELS[channel] for channel in pump.channels}
        assert kind == pump.kind
        assert {*re.findall(r"[aw][xyz]", named)[: len(channels)]} == channels


def test_wrists_take_turns() -> None:
    for name, rows, labels in fleet.wrists():
        assert re.fullmatch("wrist-0[3468]", name)
        assert rows.shape == (len(labels), len(fleet.CHANNELS))
        assert len(set(labels[:512])) == 7
        changes = np.flatnonzero(labels[1:] != labels[:-1]) + 1
        assert (changes % 36 == 0).all()


def test_what_the_demo_finds(
    made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [flag.replace("build/", f"{made}/") for flag in command()]
    assert main(flags) == 0
    reported = capsys.readouterr().out
    made_pumps = enumerate(fleet.pumps(PUMPS, fleet.SEED, fleet.ROWS))
    broken = [f"pump-{place:03}" for place, pump in made_pumps if pump.kind]
    assert len(broken) == 1
    assert f"1 of {PUMPS + 4} devices was off" in reported
    assert broken[0] in reported
    episodes = pq.read_table(made / "demo" / "episodes").to_pylist()
    assert {line["model_id"] for line in episodes} == set(broken)
    rows = [line["start_index"] for line in episodes]
    assert all(abs(row - fleet.SINCE) < 30 for row in rows)
    page = (made / "demo" / "report.html").read_text(encoding="utf-8")
    assert broken[0] in page
    # Seven exercises: by chance one in seven would be right.
    right = re.search(r"met a label: ([0-9.]+)% correct", reported)
    assert right is not None
    assert float(right[1]) > 40
    assert "Labels came later than their rows" in page
    assert "the same label as the row before" not in page


def test_the_readme_tells_what_broke() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    reported = {
        name: (kind, set(channels.split(", ")))
        for name, kind, channels in re.findall(
            r"^  (pump-\d+): since .*?, (\w+), (.*)$", text, re.M
        )
    }
    broken = {
        f"pump-{place:03}": (pump.kind, {fleet.CHANNELS[channel] for channel in pump.channels})
        for place, pump in enumerate(fleet.pumps(240, fleet.SEED, fleet.ROWS))
        if pump.kind is not None
    }
    assert reported.keys() == broken.keys()
    for name, (kind, channels) in broken.items():
        assert reported[name][0] == kind
        assert reported[name][1] & channels


def test_the_readmes_command_runs_on_a_table(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = [
        line
        for block in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)
        for line in block.splitlines()
        if line.startswith("kerneltrack ")
    ]
    assert len(lines) == 1
    few = pq.read_table(made / "fleet" / "rows.parquet")
    names = few["device"].to_pylist()
    few = few.filter(np.array([name in ("pump-000", "wrist-03") for name in names]))
    pq.write_table(few, tmp_path / "rows.parquet")
    monkeypatch.chdir(tmp_path)
    for line in lines:
        assert main(shlex.split(line)[1:]) == 0
    assert (tmp_path / "out" / "report.html").is_file()
