"""Which models are unlike the others: a made fleet through the command, its files and its end."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.report import write_report
from tests.e2e.fleet import track

ROWS, PUMPS, UNLIKE = 620, 14, "pump-6"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pumps that share how their channels go together; in one the sign of a channel is turned."""
    rng = np.random.default_rng(0)
    ties, tables = rng.normal(size=(2, 4)), []
    for number in range(PUMPS):
        name = f"pump-{number}"
        rows = rng.normal(size=(ROWS, 2)) @ ties + 0.2 * rng.normal(size=(ROWS, 4))
        if name == UNLIKE:
            rows[:, 2] *= -1
        columns = {f"ch{place}": rows[:, place] for place in range(4)}
        times = pa.array(np.arange(ROWS) * 1_000_000, pa.timestamp("us", "UTC"))
        tables.append(pa.table({"pump": [name] * ROWS, "time": times, **columns}))
    path = tmp_path_factory.mktemp("fleet") / "fleet.parquet"
    pq.write_table(pa.concat_tables(tables), path)
    return path


def test_the_one_that_is_unlike_is_named_everywhere(
    fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    assert track(fleet, output, "--reference", "first") == 0
    assert (
        f"1 of 14 devices is unlike the others:\n  {UNLIKE}: in how its channels go"
        in capsys.readouterr().out
    )
    table = pq.read_table(output / "neighbours")
    assert len(table) == PUMPS
    first, *others = table.to_pylist()
    assert (first["model_id"], first["view"], first["unlike"]) == (UNLIKE, "ties", True)
    assert int(np.argmax(first["shares"])) == 2
    assert not any(line["unlike"] for line in others)
    assert len(first["nearest"]) == 5
    record = json.loads((output / "run.json").read_text())["neighbours"]
    assert record["views"] == ["subspace", "ties", "level"]
    assert (record["compared"], record["of"], record["unlike"]) == (PUMPS, PUMPS, 1)
    page = (output / "report.html").read_text(encoding="utf-8")
    section = page[page.index('id="fleet-title"') : page.index('id="run-title"')]
    assert "<b>1 of 14 devices</b> is unlike the others" in section
    assert f"<title>{UNLIKE}</title>" in section
    # The page is made of the files: once more, and it is the same.
    write_report(str(output))
    again = (output / "report.html").read_text(encoding="utf-8")
    assert again[again.index('id="fleet-title"') : again.index('id="run-title"')] == section


def test_what_is_compared_does_not_depend_on_the_order_of_rows(fleet: Path, tmp_path: Path) -> None:
    table = pq.read_table(fleet)
    order = np.random.default_rng(1).permutation(len(table))
    pq.write_table(table.take(pa.array(order)), tmp_path / "mixed.parquet")
    found = []
    for number, rows in enumerate((fleet, tmp_path / "mixed.parquet")):
        output = tmp_path / str(number)
        assert track(rows, output, "--reference", "first") == 0
        (part,) = (output / "neighbours").iterdir()
        found.append(part.read_bytes())
    assert found[0] == found[1]


def test_none_are_compared_where_none_is_to_be(
    fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    assert track(fleet, output) == 0
    assert (output / "neighbours").exists()
    assert track(fleet, output, "--neighbours", "0", "--overwrite") == 0
    assert not (output / "neighbours").exists()
    assert "neighbours" not in json.loads((output / "run.json").read_text())
    assert "unlike the others" not in (output / "report.html").read_text(encoding="utf-8")
    assert track(fleet, tmp_path / "other", "--neighbours", "-1") == 2
    assert "--neighbours = -1" in capsys.readouterr().err
