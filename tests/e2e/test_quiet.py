"""`--quiet`: rows of times that people know of are tracked, not judged and not learned."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.cli.main import main

ROWS = 2000
COLUMNS = ("--model-id", "device", "--time", "time", "--group", "hall", "--reference", "first")
SMALL = ("--rank", "3", "--budget", "5", "--neighbours", "0")


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three pumps that are all off for 100 minutes from minute 1,000 on."""
    rng, tables = np.random.default_rng(2), []
    at = np.arange(ROWS)
    for name, hall in (("p1", "north"), ("p2", "south"), ("p3", "south")):
        values = rng.normal(size=(ROWS, 3))
        values[1000:1100, 1] += 8
        tables.append(
            pa.table(
                {
                    "device": [name] * ROWS,
                    "hall": [hall] * ROWS,
                    "time": pa.array(at * 60_000, pa.timestamp("ms", "UTC")),
                    **{f"x{k}": values[:, k] for k in range(3)},
                }
            )
        )
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pq.write_table(pa.concat_tables(tables), path)
    return str(path)


def track(rows: str, output: Path, *flags: str) -> int:
    return main(["track", rows, *COLUMNS, *SMALL, "--output", str(output), *flags])


def test_quiet_rows_are_tracked_and_not_judged(
    rows: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quiet = tmp_path / "quiet.csv"
    quiet.write_text(
        "device,group,from,to,why\n"
        "p1,,1970-01-01T16:00:00,1970-01-01T20:00:00,new bearing\n"
        ",south,1970-01-01T16:00:00,1970-01-01T20:00:00,\n"
        "p9,,1970-01-01,1970-01-02,\n"
    )
    plain, output = tmp_path / "plain", tmp_path / "run"
    assert track(rows, plain, "--periods", "day", "--workers", "1") == 0
    capsys.readouterr()
    assert track(rows, output, "--quiet", str(quiet), "--workers", "1") == 0
    output_text = capsys.readouterr().out
    assert "rows of 3 quiet times are not compared with references:" in output_text
    assert "  p1: 1970-01-01 16:00:00 UTC to 1970-01-01 20:00:00 UTC, new bearing" in output_text
    assert "  south (2 devices): 1970-01-01 16:00:00 UTC to 1970-01-01 20:00:00 UTC" in output_text
    assert "warning:  --quiet names what is not there: p9" in output_text
    assert len({line["model_id"] for line in pq.read_table(plain / "episodes").to_pylist()}) == 3
    assert pq.read_table(output / "episodes").num_rows == 0
    features = pq.read_table(output / "features").sort_by("index")
    p = features["p"].to_numpy().reshape(ROWS, 3)
    assert np.isnan(p[960:1200].astype(float)).all()
    assert np.isfinite(p[1200:].astype(float)).all()
    # The tracker takes them.
    before = pq.read_table(plain / "features").sort_by("index")
    assert features["loss"].equals(before["loss"])
    record = json.loads((output / "run.json").read_text())["quiet"]
    assert record["groups"] == {"p2": "south", "p3": "south"}
    assert [each["why"] for each in record["times"]] == ["new bearing", "", ""]
    assert main(["devices", str(output), "--json"]) == 0
    assert [json.loads(line)["state"] for line in capsys.readouterr().out.splitlines()] == [
        *("normal", "normal", "normal")
    ]
    quiet.write_text("device,from,to\n*,every year 01-01T16:00:00,01-02\n")
    assert track(rows, tmp_path / "end", "--quiet", str(quiet), "--workers", "1") == 0
    ended = capsys.readouterr().out
    assert "rows of 1 quiet time are not compared with references:\n" in ended
    assert "  all devices: every year 01-01T16:00:00 to 01-02 (UTC)\n" in ended
    page = (tmp_path / "end" / "report.html").read_text()
    assert page.count('[[57600.0,172800.0,""]]') == 3
    assert main(["devices", str(tmp_path / "end")]) == 0
    assert capsys.readouterr().out.startswith("0 of 3 devices are off (3 quiet)\n")
    page = (output / "report.html").read_text()
    assert '"quiet":[[[57600.0,72000.0,"new bearing"]],[[57600.0,72000.0,""]]' in page


@pytest.mark.parametrize(
    ("text", "flags", "message"),
    [
        ("device,from,to\np1,soon,1970-01-02\n", (), "line 2, from"),
        ("group,from,to\nsouth,1970-01-01,1970-01-02\n", ("--group",), "names the group south"),
        ("device,from,to\np1,1970-01-01,1970-01-02\n", ("--reference",), "--reference"),
        ("device,from,to\np1,1970-01-01,1970-01-02\n", ("--time",), "--time"),
        (
            "device,from,to\np1,1970-01-01,1970-01-02\n",
            ("+", "--reference-until", "1970-01-02"),
            "--reference-until",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(
    rows: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    text: str,
    flags: tuple[str, ...],
    message: str,
) -> None:
    quiet = tmp_path / "quiet.csv"
    quiet.write_text(text)
    pairs = zip(COLUMNS[::2], COLUMNS[1::2], strict=True)
    kept = [word for pair in pairs if pair[0] not in flags for word in pair]
    kept += ["--exclude", "hall", "time"] if "--time" in flags else ["--exclude", "hall"]
    more = flags[1:] if flags[:1] == ("+",) else ()
    place = ["--output", str(tmp_path / "run"), "--quiet", str(quiet)]
    assert main(["track", rows, *kept, *more, *place]) == 2
    assert message in capsys.readouterr().err
