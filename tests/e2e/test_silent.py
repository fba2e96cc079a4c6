"""`--silent-after`: devices without a row for longer than allowed, in files, report and table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.cli.main import main

MINUTE = 60_000
ROWS = 200
COLUMNS = ("--model-id", "device", "--time", "time")
SMALL = ("--rank", "3", "--budget", "5", "--neighbours", "0")


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> str:
    """`b` misses two hours in between, `c` the last hour."""
    rng, tables = np.random.default_rng(2), []
    for name, lost in (("a", (0, 0)), ("b", (40, 160)), ("c", (140, ROWS))):
        keep = np.r_[0 : lost[0], lost[1] : ROWS]
        tables.append(
            pa.table(
                {
                    "device": [name] * len(keep),
                    "time": pa.array(keep * MINUTE, pa.timestamp("ms", "UTC")),
                    **{f"x{k}": rng.normal(size=len(keep)) for k in range(3)},
                }
            )
        )
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    table = pa.concat_tables(tables)
    pq.write_table(table.take(pa.array(rng.permutation(len(table)))), path)
    return str(path)


def track(rows: str, output: Path, *flags: str) -> int:
    return main(["track", rows, *COLUMNS, *SMALL, "--output", str(output), *flags])


def test_silent_devices_are_told(
    rows: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "run"
    assert track(rows, output, "--silent-after", "30m", "--workers", "2") == 0
    output_text = capsys.readouterr().out
    assert (
        "silent: 1 of 3 devices at the end; 1 more device had silences that are over:"
        in output_text
    )
    assert "  c: no row since 1970-01-01 02:19:00 UTC (allowed: 30 min)" in output_text
    found = pq.read_table(output / "silent").to_pylist()
    kinds = [(line["model_id"], line["kind"], line["state"]) for line in found]
    assert kinds == [("b", "silent", "closed"), ("c", "silent", "open")]
    assert (found[0]["end"] - found[0]["start"]).total_seconds() == 121 * 60
    assert found[1]["end"] is None
    record = json.loads((output / "run.json").read_text())["silent"]
    assert record == {"after": "30m", "devices": 3, "silent": 2, "still": 1, "silences": 2}
    page = (output / "report.html").read_text()
    assert "Which devices are silent" in page
    assert '<a href="#silent-title">Silent devices</a>' in page
    assert page.count("still silent</b>") == 1
    assert main(["devices", str(output), "--json", "--state", "off"]) == 0
    line = json.loads(capsys.readouterr().out)
    assert (line["model_id"], line["kind"], line["since_index"]) == ("c", "silent", 139)
    assert main(["devices", str(output)]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0] == "1 of 3 devices is off (2 no reference)"
    assert table[2].split() == [
        *("c", "off", "1970-01-01", "02:19:00", "UTC", "silent"),
        *("1970-01-01", "02:19:00", "UTC"),
    ]


def test_nothing_else_changes(rows: str, tmp_path: Path) -> None:
    for name, flags in (("without", ()), ("with", ("--silent-after", "auto"))):
        assert track(rows, tmp_path / name, "--workers", "1", *flags) == 0
    for path in (tmp_path / "without" / "features").iterdir():
        assert path.read_bytes() == (tmp_path / "with" / "features" / path.name).read_bytes()
    assert not (tmp_path / "without" / "silent").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((*COLUMNS, "--silent-after", "soon"), "--silent-after"),
        ((*COLUMNS, "--silent-after", "20 rows"), "--silent-after"),
        (("--model-id", "device", "--exclude", "time", "--silent-after", "1h"), "--time"),
    ],
)
def test_wrong_flags_are_refused(
    rows: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    flags: tuple[str, ...],
    message: str,
) -> None:
    assert main(["track", rows, *flags, "--output", str(tmp_path / "run")]) == 2
    assert message in capsys.readouterr().err
