"""What a run says where values are missing, or are no numbers."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from pipelines.cli.main import main
from tests.e2e.jobs import SMALL, failures_of, record_of

ROWS = 200


def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    """Two devices with the channels a, b and c; of d2 each b is missing, c has a mark."""
    start = datetime.datetime(2026, 3, 1)
    lines = ["device,time,a,b,c"]
    for at in range(ROWS):
        time = (start + datetime.timedelta(seconds=at)).isoformat()
        mark = "Bad" if at % 50 == 7 else f"{at % 13}.5"
        lines += [f"d1,{time},{at % 7}.25,{at % 11},{mark}", f"d2,{time},{at % 5},,{at % 13}.5"]
    (tmp_path / "in.csv").write_text("\n".join(lines) + "\n")
    output = str(tmp_path / "out")
    names = ("--model-id", "device", "--time", "time")
    command = ["track", str(tmp_path / "in.csv"), *names, *SMALL, "--output", output, *flags]
    assert main(command) == 0
    return capsys.readouterr().out


def test_missing_values_name_what_each_choice_would_leave(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = run(tmp_path, capsys)
    assert "missing:  1 of 3 channels lack values: b in 200 rows" in printed
    assert "--missing drop would leave 2 of 3 channels; --missing hold" in printed
    assert "gone:     1 of 2 devices have no row left, all of theirs failed: d2" in printed
    assert "4 rows: c: not a number (--null-values Bad, if" in printed
    record = record_of(tmp_path / "out")
    assert record["missing"] == {"channels": 1, "of": 3, "rows": {"b": ROWS}}
    assert record["models_without_rows"] == {"count": 1, "of": 2, "names": ["d2"]}
    failed = failures_of(tmp_path / "out")
    assert {model for model, *_, reason in failed if "Bad" in reason} == {"d1"}


def test_marks_of_missing_values_are_held_like_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = run(tmp_path, capsys, "--null-values", "Bad", "--missing", "hold", "--exclude", "b")
    assert failures_of(tmp_path / "out") == []
    assert "missing:  missing values take" in printed


def test_a_value_too_old_to_be_held_names_how_long_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = run(tmp_path, capsys, "--missing", "hold")
    assert "--hold-for SECONDS says how old" in printed
    assert record_of(tmp_path / "out")["counts"]["rows_failed"] == ROWS + 4
