"""A whole run's folder as this version wrote it: read, continued to the same bits, and answered."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipelines.cli.main import main
from tests.golden.run.make import COMPANIONS, RUN, continued


@pytest.mark.parametrize("name", [*COMPANIONS])
def test_a_stored_run_continues_to_the_same_bits(name: str, tmp_path: Path) -> None:
    wanted = json.loads((RUN / "continued.json").read_text())[name]
    found = continued(name, tmp_path / "continued")
    # A later version may have more outputs.
    assert {each: found.get(each) for each in wanted} == wanted
    assert "features/z" in wanted
    assert "predictions/prediction" in wanted


def test_a_reference_with_a_setting_that_the_stored_run_did_not_have_begins_anew(
    tmp_path: Path,
) -> None:
    stored = json.loads((RUN / "auto/snapshots/index.json").read_text())["reference"]
    assert "days_off" not in stored
    continued("auto", tmp_path / "as it was")
    continued("auto", tmp_path / "other", "--reference-season", "week")
    p = [pq.read_table(tmp_path / name / "features")["p"] for name in ("as it was", "other")]
    assert p[0].null_count == 0
    assert p[1].null_count == len(p[1])


def test_a_stored_run_says_who_is_off(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", str(RUN / "first"), "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["model_id"]: line["state"] for line in lines} == {"m/0": "off", "m/1": "off"}


def test_a_stored_run_has_a_report(tmp_path: Path) -> None:
    folder = shutil.copytree(RUN / "first", tmp_path / "first")
    assert main(["report", str(folder)]) == 0
    assert "processed 1,300 rows of 2 devices" in (folder / "report.html").read_text()


def test_a_stored_run_scores_new_rows(tmp_path: Path) -> None:
    rows, snapshots = str(RUN / "rows.parquet"), str(RUN / "first" / "snapshots")
    columns = ("--model-id", "model_id", "--time", "time", "--label", "label")
    arguments = ["score", rows, *columns, "--snapshots", snapshots, "--output", str(tmp_path)]
    assert main(arguments) == 0
    assert json.loads((tmp_path / "run.json").read_text())["counts"]["rows_out"] == 300
