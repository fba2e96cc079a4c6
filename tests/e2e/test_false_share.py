"""`--fleet-false-share`: the list of a job on files, and that it changes nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.cli.main import main
from pipelines.report.data.files import read_lines, read_run

ROWS, OFF, LEARNED = 800, 700, 256
PUMPS = range(12)
BROKEN = ("pump-1", "pump-4", "pump-10")
REFERENCE = ("--reference", "first", "--reference-rows", str(LEARNED))


def pump(number: int, first: int = 0, last: int = ROWS) -> pa.Table:
    """A row a minute; three pumps go off at the end."""
    x = np.random.default_rng(number).normal(size=(ROWS, 2))
    if f"pump-{number}" in BROKEN:
        x[OFF:, 1] += 8
    times = pa.array(np.arange(ROWS) * 60_000, pa.timestamp("ms", "UTC"))
    columns = {"pump": [f"pump-{number}"] * ROWS, "time": times, "flow": x[:, 0], "heat": x[:, 1]}
    return pa.table(columns).slice(first, last - first)


def track(folder: Path, *words: str, order: tuple[int, ...] = tuple(PUMPS), **rows: int) -> Path:
    folder.mkdir()
    for place, number in enumerate(order):
        pq.write_table(pump(number, **rows), folder / f"{place:02}.parquet")
    flags = ["--model-id", "pump", "--time", "time", "--features", "flow", "heat"]
    flags += ["--rank", "2", "--budget", "5", "--neighbours", "0"]
    output = folder / "run"
    given = map(str, sorted(folder.glob("*.parquet")))
    assert main(["track", *given, *flags, *words, "--output", str(output)]) == 0
    return output


def lines_of(output: Path, name: str = "listed") -> list[dict[str, Any]]:
    return list(read_lines(str(output), name))


def test_the_list_is_told_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = track(tmp_path / "rows", *REFERENCE, "--fleet-false-share", ".2")
    printed = capsys.readouterr().out.splitlines()
    expected = (ROWS - LEARNED) * 1e-6
    lines = lines_of(output)
    # In the order of their IDs as texts.
    assert [line["model_id"] for line in lines] == ["pump-1", "pump-10", "pump-4"]
    for line in lines:
        assert (line["episodes"], line["listed"]) == (1, True)
        assert line["expected"] == pytest.approx(expected)
        assert line["e_value"] == pytest.approx(1 / expected)
    about = read_run(str(output))["listed"]
    assert about == {
        **{"share": 0.2, "devices": 12, "off": 3, "listed": 3},
        "by_chance": pytest.approx(12 * expected),
    }
    text = (
        "3 of 3 devices that were off; at most 20% of a list are false on average (by chance "
        "0.00653 of 12 devices would be off)"
    )
    told = f"listed: {text}: pump-1, pump-4, pump-10"
    assert told in printed
    page = (output / "report.html").read_text(encoding="utf-8")
    assert f"{text}." in page and page.count('title="on the list"') == 3
    assert main(["devices", str(output)]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[1] == told
    (head,) = (place for place, row in enumerate(table) if row.startswith("device "))
    assert table[head].endswith("  listed")
    assert {row.split()[0] for row in table[head:] if row.endswith("  yes")} == {*BROKEN}
    assert main(["devices", str(output), "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["model_id"] for line in found if line["listed"]} == {*BROKEN}


def test_too_many_by_chance_make_no_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    often = ("--reference-false-alarms", "1000", "--fleet-false-share", ".01")
    output = track(tmp_path / "rows", *REFERENCE, *often)
    assert not any(line["listed"] for line in lines_of(output))
    assert "listed: none of " in capsys.readouterr().out
    # Its devices were off all the same.
    assert {line["model_id"] for line in lines_of(output, "episodes")} >= {*BROKEN}


def test_it_changes_nothing_else_and_depends_on_no_order(tmp_path: Path) -> None:
    share = ("--fleet-false-share", ".2")
    without = track(tmp_path / "without", *REFERENCE, "--workers", "2")
    wanted = track(tmp_path / "with", *REFERENCE, *share, "--workers", "2")
    assert not (without / "listed").exists() and "listed" not in read_run(str(without))
    features = [pq.read_table(each / "features").drop(["source"]) for each in (wanted, without)]
    assert features[0].equals(features[1])
    assert lines_of(wanted, "episodes") == lines_of(without, "episodes")
    other = track(
        tmp_path / "others", *REFERENCE, *share, order=(7, 3, 11, 0, 9, 1, 8, 2, 10, 4, 6, 5)
    )
    assert lines_of(other) == lines_of(wanted)
    assert read_run(str(other))["listed"] == read_run(str(wanted))["listed"]


def test_what_is_watched_is_of_this_run(tmp_path: Path) -> None:
    """A run that goes on counts its own rows, and episodes that open in them."""
    share = ("--fleet-false-share", ".2")
    first = track(tmp_path / "first", *REFERENCE, *share, last=OFF + 50)
    assert {line["model_id"] for line in lines_of(first)} == {*BROKEN}
    words = ("--warm-start", str(first / "snapshots"), *REFERENCE, *share)
    second = track(tmp_path / "second", *words, first=OFF + 50)
    assert lines_of(second) == []
    about = read_run(str(second))["listed"]
    assert about["by_chance"] == pytest.approx(12 * 50e-6)


def test_a_rate_in_time_counts_time(tmp_path: Path) -> None:
    rate = ("--reference-false-alarms", ".5", "--reference-per", "30 days")
    output = track(tmp_path / "rows", *REFERENCE, *rate, "--fleet-false-share", ".2")
    minutes = ROWS - LEARNED - 1
    about = read_run(str(output))["listed"]
    assert about["by_chance"] == pytest.approx(12 * 0.5 * minutes / (30 * 24 * 60))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*REFERENCE, "--fleet-false-share", "20"), "above 0 and below 1"),
        (("--fleet-false-share", ".2"), "left out without --reference"),
    ],
)
def test_what_cannot_be_stated(
    words: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows.parquet"
    pq.write_table(pump(0), rows)
    flags = ("--model-id", "pump", "--time", "time", "--output", str(tmp_path / "run"))
    assert main(["track", str(rows), *flags, *words]) == 2
    error = capsys.readouterr().err
    assert "--fleet-false-share" in error and message in error
    assert not (tmp_path / "run").exists()
