"""`--reference FILE`: rows held against the references of another run's snapshots."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pipelines.cli.main import main
from tests.e2e.fleet import BROKEN, CHANNELS, ROWS, fleet, part
from tests.e2e.jobs import features_of, lines_of, record_of, snapshots_of, write

IDS = ("--model-id", "pump", "--time", "time")
HEAD = 560


@pytest.fixture(scope="module")
def rest() -> pa.Table:
    """What comes after the good time."""
    return part(fleet(), HEAD, ROWS)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Snapshots of a good time of all pumps but two, one of which was too short to tell."""
    folder = tmp_path_factory.mktemp("good")
    table = part(fleet(), 0, HEAD)
    at = np.tile(np.arange(HEAD), 12)
    names = table["pump"].to_numpy(zero_copy_only=False)
    table = table.filter(pa.array((names != "pump-8") & ((names != "pump-9") | (at < 400))))
    rows = write(folder / "good.parquet", table)
    assert track(rows, folder / "run", "--reference", "first", "--rank", "4") == 0
    return folder / "run" / "snapshots"


def track(rows: str, output: Path, *flags: str) -> int:
    return main(["track", rows, *IDS, "--output", str(output), *flags])


def p_of(output: Path) -> dict[str, list[float | None]]:
    table = features_of(output)
    return {
        name: table.filter(pa.compute.equal(table["model_id"], name))["p"].to_pylist()
        for name in set(table["model_id"].to_pylist())
    }


def test_rows_are_held_against_the_references_of_their_ids(
    good: Path, rest: pa.Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the first row on, under another tracker's spec; those without one are told."""
    rows, output = write(tmp_path / "rows.parquet", rest), tmp_path / "out"
    assert track(rows, output, "--reference", str(good)) == 0
    episodes = lines_of(output, "episodes")
    assert set(episodes) == set(BROKEN)
    for lines in episodes.values():
        assert {line["episode"] for line in lines} == {1}
        assert all(30 <= line["start_index"] <= 100 for line in lines)
    unknown = {name for name, values in p_of(output).items() if None in values}
    assert unknown == {"pump-8", "pump-9"}
    assert all(set(p_of(output)[name]) == {None} for name in unknown)
    printed = capsys.readouterr().out
    assert "2 of 10 devices were off" in printed
    assert (
        f"without a reference: 2 of 12 devices (none that is complete in {good}): pump-8, pump-9"
    ) in printed
    record = record_of(output)
    assert record["reference_from"] == str(good)
    assert record["models_without_reference"] == ["pump-8", "pump-9"]
    assert record["counts"]["models_without_reference"] == 2


def test_a_good_device_stands_for_all(good: Path, rest: pa.Table, tmp_path: Path) -> None:
    """From a file, or a folder that holds just one; `reference:` of a spec file says the same."""
    rows = rest.filter(pa.compute.equal(rest["pump"], "pump-2"))
    names = pa.array(["new"] * rows.num_rows)
    path = write(tmp_path / "rows.parquet", rows.set_column(0, "pump", names))
    file = good / "pump-2.safetensors"
    assert track(path, tmp_path / "file", "--reference", str(file)) == 0
    (tmp_path / "one").mkdir()
    shutil.copy(file, tmp_path / "one")
    (tmp_path / "spec.yaml").write_text(f"reference: {tmp_path / 'one'}\n")
    assert track(path, tmp_path / "folder", "--spec", str(tmp_path / "spec.yaml")) == 0
    assert track(path, tmp_path / "all", "--reference", str(good)) == 0
    plain = write(tmp_path / "plain.parquet", rows)
    assert track(plain, tmp_path / "own", "--reference", str(good)) == 0
    expected = p_of(tmp_path / "own")["pump-2"]
    assert None not in expected
    assert p_of(tmp_path / "file") == p_of(tmp_path / "folder") == {"new": expected}
    assert p_of(tmp_path / "all") == {"new": [None] * len(expected)}


def test_a_warm_start_goes_on_with_what_was_given(
    good: Path, rest: pa.Table, tmp_path: Path
) -> None:
    """As one job over all the rows; and with its own, where another is given then."""
    small = ("--rank", "4", "--warmup", "50")
    flags = ("--reference", str(good), *small)
    names = rest["pump"].to_numpy(zero_copy_only=False)
    three = rest.filter(pa.array(np.isin(names, ["pump-3", "pump-4", "pump-8"])))
    at = np.tile(np.arange(ROWS - HEAD), 3)
    first = write(tmp_path / "1.parquet", three.filter(pa.array(at < 100)))
    second = write(tmp_path / "2.parquet", three.filter(pa.array(at >= 100)))
    assert track(write(tmp_path / "all.parquet", three), tmp_path / "whole", *flags) == 0
    assert track(first, tmp_path / "one", *flags) == 0
    warm = ("--warm-start", str(tmp_path / "one" / "snapshots"))
    assert track(second, tmp_path / "two", *flags, *warm) == 0
    assert snapshots_of(tmp_path / "two") == snapshots_of(tmp_path / "whole")
    whole, later = p_of(tmp_path / "whole"), p_of(tmp_path / "two")
    assert {name: values[100:] for name, values in whole.items()} == later
    assert track(second, tmp_path / "own", "--reference", "first", *small, *warm) == 0
    assert set(p_of(tmp_path / "own")["pump-4"]) == {None}


@pytest.mark.parametrize(
    ("flags", "output_text"),
    [
        (
            ("--reference", "firts"),
            "--reference = 'firts': must be one of first, gated, auto, none, or",
        ),
        (
            ("--reference", "GOOD", "--reference-lags", "3"),
            "--reference-lags = 3: must be none, as in ",
        ),
        (("--reference", "BARE"), "bare/snapshots: holds no reference: `kerneltrack track"),
        (("--reference", "GOOD", "--exclude", "ch0"), "number of features = 3: must be 4"),
    ],
)
def test_what_cannot_be_held_against_is_one_line(
    good: Path,
    rest: pa.Table,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    flags: tuple[str, ...],
    output_text: str,
) -> None:
    rows = write(tmp_path / "rows.parquet", rest.slice(0, 200))
    assert track(rows, tmp_path / "bare", "--reference", "none") == 0
    places = {"GOOD": str(good), "BARE": str(tmp_path / "bare" / "snapshots")}
    capsys.readouterr()
    assert track(rows, tmp_path / "out", *(places.get(flag, flag) for flag in flags)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert output_text in line
    assert CHANNELS == 4
