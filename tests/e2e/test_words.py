"""What a first look decides about texts is a setting: printed, recorded, and handed on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kerneltrack.in_memory import run_all
from kerneltrack.trackers import OKFEBSpec
from pipelines.cli.main import main
from tests.e2e.jobs import SMALL, array_of, failures_of, features_of, record_of

SPEC = OKFEBSpec(rank=4, budget=7, warmup=50)
ROLES = ("--model-id", "device", "--time", "time")
FEATURES = ("--features", "temp", "mode")


def write(path: Path, first: int, modes: list[str]) -> None:
    """Rows of a device whose temperature has a unit; `modes` has a word for each."""
    rng = np.random.default_rng(first)
    lines = ["device,time,temp,mode"]
    for at, mode in enumerate(modes, first):
        lines.append(f"p1,{at},{rng.normal():.3f} °C,{mode}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def numbers(path: Path, one: str) -> list[list[float]]:
    rows = [line.split(",") for line in path.read_text(encoding="utf-8").splitlines()[1:]]
    return [[float(temp.removesuffix(" °C")), float(mode == one)] for _, _, temp, mode in rows]


def test_words_and_units_are_handed_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the second month there is another word: it is no 0 or 1 of its own, but fails."""
    monkeypatch.chdir(tmp_path)
    write(Path("one.csv"), 0, ["IDLE", "RUN", "IDLE"] * 40)
    write(Path("two.csv"), 120, ["RUN", "RUN", "IDLE", "AUTO"] * 20)
    assert main(["track", "one.csv", *ROLES, *FEATURES, *SMALL, "--output", "out"]) == 0
    printed = capsys.readouterr().out
    assert "words:    mode: IDLE is 0, RUN is 1 (--words mode=IDLE,RUN)" in printed
    assert "unit:     temp: in °C" in printed
    columns = record_of(Path("out"))["columns"]
    assert (columns["words"], columns["units"]) == ({"mode": ["IDLE", "RUN"]}, {"temp": "°C"})
    going_on = [*ROLES, *FEATURES, "--warm-start", "out/snapshots", "--output", "next"]
    assert main(["track", "two.csv", *going_on]) == 0
    rows = [*numbers(Path("one.csv"), "RUN"), *numbers(Path("two.csv"), "RUN")]
    kept = [row for at, row in enumerate(rows) if at < 120 or (at - 120) % 4 != 3]
    _, expected = run_all(SPEC, np.array(kept))
    assert (array_of(features_of(Path("next")), "z") == np.array(expected.z)[120:]).all()
    failed = failures_of(Path("next"))
    assert {(model, reason) for model, _, _, reason in failed} == {
        ("p1", "mode = 'AUTO': neither 'IDLE' nor 'RUN'")
    }
    assert len(failed) == 20
    assert record_of(Path("next"))["columns"]["words"] == columns["words"]
    scored = [*ROLES, *FEATURES, "--snapshots", "out/snapshots", "--output", "scores"]
    assert main(["score", "two.csv", *scored]) == 0
    assert record_of(Path("scores"))["columns"]["words"] == columns["words"]
    assert failures_of(Path("scores")) == failed
