"""The pipelines of docs/beam.md on Flink: what comes out is what the in-process runner gives."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.e2e.clusters import LocalCluster
from tests.e2e.jobs import ROOT, environment
from tests.e2e.test_beam_yaml import rows_of

IN_PROCESS = ["--runner=FnApiRunner"]


def outputs(folder: Path, flags: list[str]) -> tuple[list[list[str]], dict[str, list[Any]]]:
    """Run the pipelines; the lines that each printed, and the records that YAML's wrote, sorted."""
    folder.mkdir()
    pq.write_table(rows_of(), folder / "pumps.parquet")
    script = str(ROOT / "tests/e2e/beam_page_job.py")
    done = subprocess.run(
        [sys.executable, script, str(ROOT / "docs/beam.md"), *flags],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    printed = [sorted(part.splitlines()) for part in done.stdout.split("pipeline\n")[1:]]
    found: dict[str, list[Any]] = {}
    for path in sorted(folder.glob("*-of-*")):
        records = found.setdefault(path.name.partition("-")[0], [])
        records += [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for records in found.values():
        records.sort(key=lambda record: json.dumps(record, sort_keys=True))
    return printed, found


@pytest.mark.live
@pytest.mark.nightly
def test_the_pages_pipelines_give_the_same_on_flink(cluster: LocalCluster, tmp_path: Path) -> None:
    ours = [flag for flag in cluster.status()["beam_flags"] if "--environment" not in flag]
    flags = [*ours, "--environment_type=LOOPBACK", "--parallelism=1"]
    printed, records = outputs(tmp_path / "flink", flags)
    wanted, wanted_records = outputs(tmp_path / "here", IN_PROCESS)
    rows, features, anomalies = printed
    assert any(re.match(r"pump-1 \w+ shift ", line) for line in rows)
    assert sum("right=" in line for line in rows) == 2
    assert rows == wanted[0]
    assert len(features) == 600
    assert features == wanted[1]
    # Beam keeps no order of a detector's rows: of the scores this alone is sure.
    assert any("flow=9.0" in line for line in anomalies)
    assert any("flow=9.0" in line for line in wanted[2])
    assert {line["model_id"] for line in records["episodes"]} == {"b"}
    assert len(records["predictions"]) == 2 * 700 - 1
    assert records.keys() == {"episodes", "predictions", "windows", "bad"}
    for name in records:
        assert records[name] == wanted_records[name], name
