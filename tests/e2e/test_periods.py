"""`--periods`: which devices differ by day from their past and the fleet, and common causes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.cli.main import main
from pipelines.files import partitioned
from tests.e2e.jobs import lines_of, record_of

DEVICES, DAYS, PER_DAY = 10, 22, 24
CHANNELS = ("hot", "fast", "loud")
IDS = ("--model-id", "device", "--time", "time")
SMALL = ("--rank", "3", "--budget", "5", "--neighbours", "0")
BEGIN = 1_767_225_600
"""2026-01-01, UTC."""


def site(groups: bool = False) -> pa.Table:
    """Ten devices; one has a hotter bearing from day 18 on, six are slower on day 20."""
    rng = np.random.default_rng(4)
    ties = rng.normal(size=(2, 3))
    tables = []
    at = np.arange(DAYS * PER_DAY)
    day = at // PER_DAY
    for number in range(DEVICES):
        rows = rng.normal(size=(len(at), 2)) @ ties + 0.2 * rng.normal(size=(len(at), 3)) + 10
        if number == 3:
            rows[day >= 18, 0] += 2
        if number >= 4:
            rows[day == 20, 1] -= 4
        columns = {
            "device": [f"d{number}"] * len(at),
            "time": pa.array((BEGIN + 3600 * at) * 1000, pa.timestamp("ms", "UTC")),
            **dict(zip(CHANNELS, rows.T, strict=True)),
        }
        if groups:
            columns["site"] = pa.array([number // 5] * len(at))
        tables.append(pa.table(columns))
    table = pa.concat_tables(tables)
    return table.take(pa.array(rng.permutation(len(table))))


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("site") / "rows.parquet"
    pq.write_table(site(), path)
    return str(path)


def track(rows: str, output: Path, *flags: str) -> int:
    return main(["track", rows, *IDS, *SMALL, "--output", str(output), *flags])


def table_of(output: Path, part: str) -> pa.Table:
    return pa.concat_tables(map(pq.read_table, sorted((output / part).glob("*.parquet")))).sort_by(
        [("model_id", "ascending"), ("start", "ascending")]
    )


@pytest.fixture(scope="module")
def output(rows: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("out") / "run"
    assert track(rows, place, "--periods", "day") == 0
    return place


def test_who_differs_and_what_all_share_is_found(
    output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = pq.read_table(output / "differences").to_pylist()
    shared = [line for line in lines if line["model_id"] is None]
    assert [(line["changed"], line["of"], line["channel"], line["up"]) for line in shared] == [
        (6, DEVICES, "fast", False)
    ]
    assert f"{shared[0]['start']:%Y-%m-%d}" == "2026-01-21"
    (own,) = [line for line in lines if line["model_id"] is not None]
    assert (own["model_id"], own["channel"], own["number"], own["up"], own["state"]) == (
        *("d3", "hot", "level", True),
        "open",
    )
    assert f"{own['start']:%Y-%m-%d} {own['noticed']:%Y-%m-%d}" == "2026-01-19 2026-01-21"
    record = record_of(output)
    assert record["differences"] == {
        **{"devices": DEVICES, "judged": DEVICES, "differ": 1, "spells": 1, "common": 1},
        "groups": None,
    }
    assert record["periods"]["length"] == "day"
    page = (output / "report.html").read_text("utf-8")
    assert "<b>1 of 10 devices</b> differs from its own past and the fleet" in page
    assert "<b>6 of 10 devices</b> changed on 2026-01-21: fast lower. A common cause." in page


def test_the_end_of_a_job_says_so(
    rows: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert track(rows, tmp_path / "out", "--periods", "day") == 0
    output_text = capsys.readouterr().out
    assert (
        "by day: 1 of 10 devices differs from its own past and the fleet, 1 to the end:"
        in output_text
    )
    assert "  d3: since 2026-01-19, hot higher" in output_text
    assert "common cause: 6 of 10 devices changed on 2026-01-21: fast lower" in output_text


def test_periods_are_the_same_by_a_runner_and_from_disk(
    rows: str, output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One code for devices in blocks, for those merged from sorted runs, and for Beam's."""
    assert track(rows, tmp_path / "beam", "--periods", "day", "--runner=FnApiRunner") == 0
    monkeypatch.setattr(partitioned, "MOST_IN_MEMORY", 1 << 12)
    assert track(rows, tmp_path / "disk", "--periods", "day") == 0
    for part in ("periods", "differences"):
        expected = table_of(output, part)
        assert len(expected)
        for other in ("beam", "disk"):
            assert table_of(tmp_path / other, part).equals(expected)


def test_features_do_not_depend_on_periods(rows: str, output: Path, tmp_path: Path) -> None:
    assert track(rows, tmp_path / "plain") == 0
    order = [(name, "ascending") for name in ("model_id", "index")]
    with_periods, plain = (
        pa.concat_tables(map(pq.read_table, sorted((place / "features").glob("*.parquet"))))
        for place in (output, tmp_path / "plain")
    )
    assert with_periods.sort_by(order).equals(plain.sort_by(order))
    assert not (tmp_path / "plain" / "periods").exists()
    assert not (tmp_path / "plain" / "differences").exists()


def test_groups_are_fleets_of_their_own_and_no_channel(tmp_path: Path) -> None:
    pq.write_table(site(groups=True), tmp_path / "rows.parquet")
    flags = ("--periods", "day", "--group", "site")
    assert track(str(tmp_path / "rows.parquet"), tmp_path / "out", *flags) == 0
    record = record_of(tmp_path / "out")
    assert record["columns"]["features"] == list(CHANNELS)
    assert record["differences"]["groups"] == 2
    lines = pq.read_table(tmp_path / "out" / "differences").to_pylist()
    shared = [line for line in lines if line["model_id"] is None]
    # In the other group one of five was slower.
    assert [(line["group"], line["changed"], line["of"]) for line in shared] == [("1", 5, 5)]
    assert {line["model_id"] for line in lines} == {None, "d3"}


def test_held_values_and_rows_of_one_time_count_as_the_tracker_has_them(tmp_path: Path) -> None:
    """Each channel in rows of its own, merged or held: the periods are those of whole rows."""
    table = site()
    parts = [table.select(["device", "time", name]) for name in CHANNELS]
    pq.write_table(pa.concat_tables(parts, promote_options="default"), tmp_path / "parts.parquet")
    pq.write_table(table, tmp_path / "rows.parquet")
    flags = ("--periods", "day")
    assert track(str(tmp_path / "rows.parquet"), tmp_path / "whole", *flags) == 0
    merged = ("--duplicates", "merge", "--missing", "hold")
    assert track(str(tmp_path / "parts.parquet"), tmp_path / "parts", *flags, *merged) == 0
    assert table_of(tmp_path / "parts", "periods").equals(table_of(tmp_path / "whole", "periods"))
    counts = record_of(tmp_path / "parts")["counts"]
    assert counts["rows_merged"] == 2 * DEVICES * DAYS * PER_DAY


@pytest.mark.parametrize(
    ("flags", "output_text"),
    [
        (("--periods", "week"), "--periods"),
        (("--periods-limit", "3"), "--periods = None: .*--periods-limit is given"),
        (("--group", "loud"), "--group = 'loud': .*without --periods"),
        (
            ("--periods", "day", "--group", "lud"),
            "--group = 'lud': must be a column .did you mean 'loud'",
        ),
        (("--periods", "day", "--group", "device"), "--group = 'device'"),
        (("--periods", "day", "--periods-limit", "0"), "--periods-limit = 0"),
        (("--periods", "day", "--max-disorder", "60"), "--max-disorder = 60"),
        (("--periods", "day", "--max-jump", "60"), "--max-jump = 60"),
    ],
)
def test_what_does_not_go_together_is_refused(
    rows: str,
    tmp_path: Path,
    flags: tuple[str, ...],
    output_text: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    try:
        code = track(rows, tmp_path / "out", *flags)
    except SystemExit as end:
        code = int(end.code or 0)
    assert code == 2
    assert re.search(output_text, capsys.readouterr().err)


def test_a_device_of_two_groups_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = site(groups=True)
    place = np.array(table["site"]).copy()
    place[17] = 1 - place[17]
    wrong = table.set_column(table.schema.get_field_index("site"), "site", pa.array(place))
    pq.write_table(wrong, tmp_path / "rows.parquet")
    flags = ("--periods", "day", "--group", "site")
    assert track(str(tmp_path / "rows.parquet"), tmp_path / "out", *flags) == 2
    assert "is of two groups, " in capsys.readouterr().err


def test_few_days_say_that_they_are_few(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = site()
    few = table.filter(pa.compute.less(table["time"].cast("int64"), (BEGIN + 4 * 86_400) * 1000))
    pq.write_table(few, tmp_path / "rows.parquet")
    assert track(str(tmp_path / "rows.parquet"), tmp_path / "out", "--periods", "day") == 0
    assert not lines_of(tmp_path / "out", "differences")
    assert "by day: no device has 14 days to be compared with" in capsys.readouterr().out


def test_settings_may_come_from_the_spec_file(
    rows: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text("rank: 3\nperiods: {length: day, limit: 1e5}\n")
    assert track(rows, tmp_path / "out", "--spec", str(spec)) == 0
    assert record_of(tmp_path / "out")["differences"]["spells"] == 0
