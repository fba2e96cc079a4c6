"""From when to when rows are, which are far from the others, which share a time."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.files.time_span import span_lines, span_warnings, time_span
from tests.parts import examples

START = datetime(2026, 3, 1)
MINUTE = timedelta(minutes=1)


def span(folder: Path, rows: list[tuple[str, datetime]], group: int = 1000) -> dict[str, Any]:
    (folder / "features").mkdir(exist_ok=True)
    table = pa.table(
        {
            "model_id": pa.array([name for name, _ in rows], pa.string()),
            "time": pa.array([time for _, time in rows], pa.timestamp("ns", "UTC")),
        }
    )
    pq.write_table(table, folder / "features" / "part-0.parquet", row_group_size=group)
    return time_span(str(folder), "features")


def output_text(found: dict[str, Any], sequence: str | None = None) -> list[str]:
    return [*span_lines(found, sequence), *span_warnings(found, sequence)]


def test_rows_in_order_of_their_times(tmp_path: Path) -> None:
    found = span(tmp_path, [(name, START + at * MINUTE) for name in "ab" for at in range(5)], 3)
    assert found == {
        "time_span": {"first": "2026-03-01 00:00:00", "last": "2026-03-01 00:04:00", "far": []}
    }
    assert output_text(found) == ["times:    2026-03-01 00:00:00 to 2026-03-01 00:04:00 UTC"]
    # The last row of a model has the time of the next one's first.
    found = span(tmp_path, [("a", START), ("b", START), ("c", START)])
    assert "shared" not in found["time_span"]


def test_rows_at_one_time(tmp_path: Path) -> None:
    rows = [("a", START + at // 2 * MINUTE) for at in range(10)]
    assert output_text(span(tmp_path, rows)) == [
        "times:    2026-03-01 00:00:00 to 2026-03-01 00:04:00 UTC; "
        "10 rows share a time with another of their device"
    ]
    rows += [("b", START)] * 1440
    found = span(tmp_path, rows, 10_000)
    line, warning = output_text(found)
    assert line == "times:    2026-03-01 00:00:00 to 2026-03-01 00:04:00 UTC"
    assert warning.startswith(
        "1,440 rows of one device (b) at one time, 2026-03-01 00:00:00 UTC; 1,450 rows in all "
        "share a time (is the time of day in another column, --time DATE TIME?"
    )
    # Who names what puts them in order knows that they share it.
    assert output_text(found, "seq") == [line]


def test_rows_of_a_wrong_clock(tmp_path: Path) -> None:
    rows = [("a", START + at * MINUTE) for at in range(1000)]
    wrong = [("b", datetime(1970, 1, 1) + at * MINUTE) for at in range(300)]
    found = span(tmp_path, [*rows, *wrong, ("c", datetime(2099, 12, 31))])
    assert found["time_span"]["far"] == [
        {"first": 1970, "last": 1970, "rows": 300},
        {"first": 2099, "last": 2099, "rows": 1},
    ]
    assert output_text(found)[1] == (
        "300 rows of 1970, 1 row of 2099: years apart from all other rows (a wrong clock? or times "
        "of another unit or format?)"
    )
    assert output_text(span(tmp_path, wrong))[1:] == []


@settings(max_examples=examples(50))
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1))),
        min_size=1,
        max_size=40,
    ).map(lambda rows: sorted([*rows, *rows[::3], *rows[::5]]))
)
def test_what_is_counted_is_what_a_plain_count_gives(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, datetime]]
) -> None:
    rows = [(name, time.replace(microsecond=0)) for name, time in rows]
    found = span(tmp_path_factory.mktemp("span"), rows)["time_span"]
    times = [time for _, time in rows]
    assert (found["first"], found["last"]) == (str(min(times)), str(max(times)))
    sizes = [len(list(same)) for _, same in groupby(rows)]
    assert found.get("shared", 0) == sum(size for size in sizes if size > 1)
    assert found.get("most", 1) == max(sizes)
    years = [time.year for time in times]
    for part in found["far"]:
        assert sum(part["first"] <= year <= part["last"] for year in years) == part["rows"]
        others = [year for year in years if not part["first"] <= year <= part["last"]]
        assert min(min(abs(year - part[end]) for year in others) for end in ("first", "last")) > 3


def test_rows_without_times_have_none(tmp_path: Path) -> None:
    (tmp_path / "features").mkdir()
    pq.write_table(pa.table({"model_id": ["a"]}), tmp_path / "features" / "part-0.parquet")
    assert time_span(str(tmp_path), "features") == {}
    assert output_text({}) == []
