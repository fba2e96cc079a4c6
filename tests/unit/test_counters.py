"""Counters: found by the first rows of every model, and left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerneltrack.in_memory import run_all
from kerneltrack.trackers import OKFEBSpec
from pipelines.cli.main import main
from tests.e2e.jobs import SMALL, array_of, features_of, record_of
from transforms.read.column_options import ColumnOptions
from transforms.read.counters import is_counter, without_counters
from transforms.read.look import look_at_files

RNG = np.random.default_rng(4)
N = 400
ENERGY = 5_000 + np.cumsum(np.maximum(RNG.normal(0.2, 0.2, N), 0))
COUNTERS = {
    "energy": ENERGY,
    "pulses": np.cumsum(RNG.poisson(40, N)) % 65_536,
    "uptime": np.where(np.arange(N) < 250, 60 * np.arange(N), 60 * (np.arange(N) - 250)),
    "with_gaps": np.where(np.arange(N) % 3 == 1, np.nan, ENERGY),
}
OTHERS = {
    "noise": RNG.normal(20, 1, N),
    "walk": np.cumsum(RNG.normal(0, 1, N)),
    "drift": 0.01 * np.arange(N) + RNG.normal(0, 1, N),
    "falling": 1_000.0 - np.arange(N),
    "minute": np.arange(N) % 60,
    "state": np.repeat([0.0, 1.0], N // 2),
    "constant": np.full(N, 7.0),
    "few": np.arange(40.0),
}


@pytest.mark.parametrize("name", [*COUNTERS, *OTHERS])
def test_what_counts_up_is_a_counter(name: str) -> None:
    assert is_counter({**COUNTERS, **OTHERS}[name]) == (name in COUNTERS)


@given(st.lists(st.floats(0.01, 10), min_size=60, max_size=200), st.data())
def test_whatever_rises_with_a_reset_is_a_counter(steps: list[float], data: st.DataObject) -> None:
    values = np.cumsum(steps)
    reset = data.draw(st.integers(len(steps) // 2, len(steps) - 1))
    assert is_counter(values)
    values[reset:] -= values[reset]
    assert is_counter(values)
    swapped = np.concatenate([values[:reset], values[:reset][::-1]])
    assert not is_counter(swapped)


def write(path: Path, devices: int = 2, **columns: Any) -> Path:
    """Rows of devices, interleaved, the later times first."""
    lines = [",".join(["device", "time", *columns])]
    for at in reversed(range(N)):
        cells = ",".join(f"{values[at]:.6f}" for values in columns.values())
        lines += [f"d{device},{at},{cells}" for device in range(devices)]
    path.write_text("\n".join(lines) + "\n")
    return path


ROLES: dict[str, Any] = {"model_id": "device", "time": "time"}


def channels(path: Path, **options: Any) -> tuple[str, ...]:
    found = look_at_files(str(path), ColumnOptions(**{**ROLES, **options}))
    return without_counters(found.infos, found.columns).channels


def test_counters_are_left_out_unless_somebody_wants_them(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", temp=OTHERS["noise"], energy=ENERGY, walk=OTHERS["walk"])
    every = ("temp", "energy", "walk")
    assert channels(path) == ("temp", "walk")
    assert channels(path, counters=("none",)) == every
    assert channels(path, features=every) == every
    assert channels(path, counters=("walk",)) == ("temp", "energy")
    assert channels(path, time=None, exclude=("time",)) == every
    found = look_at_files(str(path), ColumnOptions(**ROLES))
    assert "counts up, with resets at most" in without_counters(*_both(found)).describe()


def _both(found: Any) -> tuple[Any, Any]:
    return found.infos, found.columns


def test_all_models_must_have_it(tmp_path: Path) -> None:
    one = write(tmp_path / "a.csv", 1, temp=OTHERS["noise"], energy=ENERGY)
    text = one.read_text().replace("d0,", "d1,").splitlines()
    names, others = text[0], [line.rsplit(",", 1)[0] + f",{at % 9}" for at, line in enumerate(text)]
    other = tmp_path / "b.csv"
    other.write_text("\n".join([names, *others[1:]]) + "\n")
    found = look_at_files([str(one), str(other)], ColumnOptions(**ROLES))
    assert without_counters(*_both(found)).channels == ("temp", "energy")


def test_counters_alone_are_kept(tmp_path: Path) -> None:
    assert channels(write(tmp_path / "a.csv", energy=ENERGY)) == ("energy",)


def test_a_job_leaves_them_out_and_hands_that_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    temp, walk = OTHERS["noise"], OTHERS["walk"]
    write(Path("one.csv"), 1, temp=temp, energy=ENERGY, walk=walk)
    # The meter stands still: the second month alone would not show it.
    lines = ["device,time,temp,energy,walk"]
    lines += [f"d0,{N + at},{temp[at]:.6f},9.5,{walk[at]:.6f}" for at in range(N)]
    Path("two.csv").write_text("\n".join(lines) + "\n")
    roles = ["--model-id", "device", "--time", "time"]
    assert main(["track", "one.csv", *roles, *SMALL, "--output", "out"]) == 0
    assert "left out: energy: counts up" in capsys.readouterr().out
    assert record_of(Path("out"))["columns"]["counters"] == ["energy"]
    going_on = [*roles, "--warm-start", "out/snapshots", "--output", "next"]
    assert main(["track", "two.csv", *going_on]) == 0
    assert record_of(Path("next"))["columns"]["features"] == ["temp", "walk"]
    rows = np.round(np.column_stack([np.tile(temp, 2), np.tile(walk, 2)]), 6)
    _, expected = run_all(OKFEBSpec(rank=4, budget=7, warmup=50), rows)
    assert (array_of(features_of(Path("next")), "z") == np.array(expected.z)[N:]).all()
