"""The report as people at a site read it: their clock, quiet times, all devices on the map."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pipelines.report.data.neighbours import Neighbours
from pipelines.report.page.answer import MAP_HEIGHT, MAP_WIDTH, _map
from tests.report_runs import SECOND, START, data_of, features, page_of, put, run_folder, text_of
from transforms.write.schemas import episodes_schema

ROWS = 100
BERLIN = {"times": {"zone": "Europe/Berlin"}}


def folder(output: Path, **record: Any) -> str:
    """Two devices, of which one is off in rows 40 to 60; rows are seconds apart."""
    at = np.tile(np.arange(ROWS), 2)
    p = np.where((at >= 40) & (at <= 60), 1e-9, 0.5)
    times = pa.array(START + at * SECOND).cast(pa.timestamp("ns", "UTC"))
    table = features({"a": ROWS, "b": ROWS}, p=pa.array(p, mask=at < 20), time=times)
    run_folder(output, table, reference={"learning": "first"}, **record)
    line = {
        **{"model_id": "a", "index": 70, "episode": 1, "state": "closed", "kind": "shift"},
        **{"severity": 50.0, "p": 1e-9, "start_index": 40, "detected_index": 42},
        **{"last_index": 60, "shares": [0.7, 0.26, 0.04], "time": START + 70 * SECOND},
        **{"deviations": [None] * 3},
        **{name: START + 40 * SECOND for name in ("start", "detected")},
        "last": START + 60 * SECOND,
    }
    put(output, "episodes", pa.Table.from_pylist([line], episodes_schema(True, 3)))
    return str(output)


def test_times_are_in_the_zone_of_the_run_and_headings_name_it(tmp_path: Path) -> None:
    local, utc = page_of(folder(tmp_path / "a", **BERLIN)), page_of(folder(tmp_path / "b"))
    assert "Since (Europe/Berlin)" in text_of(local)
    assert "Since (UTC)" in text_of(utc)
    assert (data_of(local)["zone"], data_of(utc)["zone"]) == ("Europe/Berlin", "UTC")
    shown = [
        np.datetime64("T".join(found.groups()), "s")
        for page in (local, utc)
        if (found := re.search(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)", text_of(page)))
    ]
    assert abs(shown[0] - shown[1]) in [np.timedelta64(hours, "h") for hours in (1, 2)]


def test_the_page_says_when_its_rows_end_beside_its_own_date(tmp_path: Path) -> None:
    span: dict[str, Any] = {"first": "2017-07-14 02:40:00", "last": "2017-07-14 02:41:39"}
    page = page_of(folder(tmp_path / "a", time_span={**span, "far": []}, **BERLIN))
    assert "2 January 2026, 03:04 UTC · rows until 2017-07-14 04:41:39 CEST" in text_of(page)
    wrong = {**span, "far": [{"first": 2099, "last": 2099, "rows": 1}]}
    assert "rows until" not in text_of(page_of(folder(tmp_path / "b", time_span=wrong)))


def test_quiet_times_are_on_the_map_of_time_and_its_legend(tmp_path: Path) -> None:
    times = [
        {"device": "b", "group": None, "start": START + 50 * SECOND, "end": START + 10**15},
        {"device": "b", "group": None, "start": START - 10**15, "end": START - SECOND},
    ]
    quiet = {"times": [{**each, "why": "oil"} for each in times], "groups": {}}
    page = page_of(folder(tmp_path / "out", quiet=quiet))
    assert '<span class="key quiet"></span>quiet time' in page
    heat = data_of(page)["heat"]
    (none, own) = (heat["quiet"][heat["models"].index(name)] for name in "ab")
    assert none == []
    ((begin, end),) = own
    # The map begins at row 20.
    assert begin == pytest.approx(30 / 80, abs=0.02)
    assert end == 1.0
    plain = page_of(folder(tmp_path / "plain"))
    assert "key quiet" not in plain.partition("<body")[2].partition("<script")[0]
    assert data_of(plain)["heat"]["quiet"] == []


def test_a_text_has_as_many_rows_as_were_read(tmp_path: Path) -> None:
    one = [{"path": "plant.csv", "rows": None}]
    page = text_of(page_of(folder(tmp_path / "one", inputs=one)))
    assert re.search(r"plant\.csv\s+200 rows", page)
    two = [*one, {"path": "other.csv", "rows": None}]
    page = text_of(page_of(folder(tmp_path / "two", inputs=two)))
    assert re.search(r"plant\.csv\s+rows not counted", page)


def places(fleet: list[tuple[float, float]]) -> tuple[Any, Any]:
    drawn = _map(Neighbours(len(fleet), len(fleet), ["ties"], 0, [], fleet), None)
    assert drawn is not None
    points = re.findall(r"M(-?[0-9.]+) (-?[0-9.]+)h0", drawn["dots"])
    return np.array(points, float), drawn["is_drawn_in"]


def test_devices_far_away_leave_room_for_all_others() -> None:
    rng = np.random.default_rng(4)
    near = [(float(x), float(y)) for x, y in rng.normal(size=(28, 2))]
    drawn, is_drawn_in = places([*near, (500.0, 0.0), (0.0, 90.0)])
    assert is_drawn_in
    assert ((drawn >= 0) & (drawn <= [MAP_WIDTH, MAP_HEIGHT])).all()
    assert np.ptp(drawn[:28], axis=0).min() > 60
    # The directions of those far away, and which is the furthest, stay.
    away = drawn - np.median(drawn, axis=0)
    assert np.hypot(*away.T).argmax() == 28
    assert away[28, 0] > 10 * abs(away[28, 1])
    same, is_drawn_in = places([(0.0, 0.0)] * 5)
    assert not is_drawn_in
    assert len(same) == 1
