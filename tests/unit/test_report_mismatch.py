"""The report's part on windows against sums written out: totals, curves, what the page says."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.report.data.choice import Choice
from pipelines.report.data.mismatch import KINDS, MismatchWindows, mismatch_of
from tests.report_runs import (
    HOSTILE,
    SECOND,
    START,
    data_of,
    features,
    floats,
    page_of,
    put,
    run_folder,
    text_of,
    times,
    windows,
)


def found(output: Path, models: list[str], starts: list[int | None]) -> MismatchWindows:
    numbers = {name: k for k, name in enumerate(models)}
    mismatch = mismatch_of(str(output), Choice(numbers, models, models, starts))
    assert mismatch is not None
    return mismatch


def random_windows(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    lines = []
    for k in range(int(rng.integers(1, 60))):
        certificate, rows = float(rng.gamma(2.0, 0.1)), int(rng.integers(1, 30))
        measured = bool(rng.random() < 0.9)
        lines.append(
            {
                "model_id": str(rng.choice(["a", "b"])),
                "kind": str(rng.choice(KINDS)),
                "start": START + k * SECOND,
                "end": START + (k + 1 + k % 3) * SECOND,
                "index": 10 * k,
                "rows": rows,
                "n": rows // 2 if rng.random() < 0.3 else rows,
                "mismatch": certificate * float(rng.random()) if measured else None,
                "trace_bound": certificate if measured else None,
                "fitting_bound": 10 * certificate if measured else None,
                "complete": bool(rng.random() < 0.8),
            }
        )
    return windows(*lines)


@given(st.integers(0, 10_000), st.integers(1, 59), st.booleans())
def test_totals_are_sums_over_the_windows_however_they_lie(
    tmp_path_factory: pytest.TempPathFactory, seed: int, cut: int, mixed: bool
) -> None:
    table = random_windows(seed)
    lines: list[Any] = table.drop_columns(["start", "end"]).to_pylist()
    rng = np.random.default_rng(seed)
    table = table.take(rng.permutation(len(table))) if mixed else table
    output = tmp_path_factory.mktemp("run")
    put(output, "mismatch", table.slice(0, cut), table.slice(cut))
    mismatch = found(output, ["a", "b"], [START, START])
    totals, sums = mismatch.totals, mismatch.totals.sums
    for name, code in mismatch.models.items():
        for kind, kind_name in enumerate(KINDS):
            mine = [x for x in lines if (x["model_id"], x["kind"]) == (name, kind_name)]
            measured = [x for x in mine if x["mismatch"] is not None]
            ratios = [x["mismatch"] / x["trace_bound"] for x in measured]
            at = code * len(KINDS) + kind
            assert totals.rows[at] == len(mine)
            assert sums["measured"][at] == len(measured)
            assert sums["incomplete"][at] == sum(not x["complete"] for x in mine)
            assert sums["sampled"][at] == sum(0 < x["n"] < x["rows"] for x in mine)
            assert totals.high["ratio"][at] == max(ratios, default=-math.inf)
            if mine:
                assert totals.high["index"][at] == max(x["index"] for x in mine)
            for total, column in (("mismatch", "mismatch"), ("certificate", "trace_bound")):
                expected = math.fsum(x[column] for x in measured)
                assert sums[total][at] == pytest.approx(expected)


def test_windows_are_drawn_one_by_one_in_order_of_their_ends(tmp_path: Path) -> None:
    table = windows(
        {"index": 29, "end": START + 40 * SECOND, "mismatch": 0.05, "complete": False},
        {"index": 9, "end": START + 10 * SECOND, "mismatch": 0.1},
        {"index": 29, "end": START + 30 * SECOND, "mismatch": 0.2, "fitting_bound": 2.0},
        {"index": 19, "end": START + 20 * SECOND, "mismatch": None, "n": 0, "trace_bound": None},
    )
    put(tmp_path, "mismatch", table.slice(0, 1), table.slice(1))
    curve = found(tmp_path, ["m"], [START - SECOND]).curves[0][KINDS.index("fixed")]
    values = {name: array.tolist() for name, array in curve.values.items()}
    assert np.isnan(values.pop("incomplete")).tolist() == [True, True, False]
    assert values == {
        "row": [9.0, 29.0, 29.0],
        "time": [11.0, 31.0, 41.0],
        "mismatch": [0.1, 0.2, 0.05],
        "certificate": [0.2, 0.2, 0.2],
        "bound": [1.0, 2.0, 1.0],
    }
    assert curve.note == (
        "Mean mismatch 0.117, mean certificate 0.200; at most 100 % of the certificate. 1 window "
        "is cut short by the end of the input (rings). 1 window is left out, for want of a row "
        "that was kept."
    )


def moving(model: str, n: int, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    certificate = rng.gamma(2.0, 0.1, n)
    lines = [
        {
            "model_id": model,
            "kind": "moving",
            "start": START + (k - 99) * SECOND,
            "end": START + k * SECOND,
            "index": k,
            "rows": 100,
            "n": 100,
            "mismatch": float(certificate[k] * rng.random()),
            "trace_bound": float(certificate[k]),
            "fitting_bound": float(10 * certificate[k]),
        }
        for k in range(99, n)
    ]
    return windows(*lines)


@pytest.mark.parametrize("mixed", [False, True])
def test_many_windows_are_drawn_as_means_with_their_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mixed: bool
) -> None:
    monkeypatch.setattr("pipelines.report.data.mismatch.MOST_BLOCKS", 100)
    table = moving("m", 1000)
    order = np.random.default_rng(1).permutation(len(table)) if mixed else np.arange(len(table))
    put(tmp_path, "mismatch", table.take(order[:400]), table.take(order[400:]))
    values = found(tmp_path, ["m"], [START]).curves[0][KINDS.index("moving")].values
    # Blocks of ten rows; the first window ends at row 99, the last of the tenth block.
    rows = table.drop_columns(["start", "end"]).to_pydict()
    blocks = [[0], *np.arange(1, 901).reshape(-1, 10).tolist()]
    for name, column in (
        *(("mismatch", "mismatch"), ("certificate", "trace_bound")),
        ("bound", "fitting_bound"),
    ):
        means = [np.mean([rows[column][k] for k in block]) for block in blocks]
        assert values[name] == pytest.approx(means)
    assert values["low"].tolist() == [min(rows["mismatch"][k] for k in block) for block in blocks]
    assert values["high"].tolist() == [max(rows["mismatch"][k] for k in block) for block in blocks]
    middles = [99.0, *(104.5 + 10 * k for k in range(90))]
    assert values["row"].tolist() == values["time"].tolist() == middles
    assert "incomplete" not in values


def test_points_of_many_models_are_fewer(tmp_path: Path) -> None:
    models = [f"m{k}" for k in range(50)]
    put(tmp_path, "mismatch", pa.concat_tables([moving(name, 700) for name in models]))
    curves = found(tmp_path, models, [START] * 50).curves
    assert {len(curve[KINDS.index("moving")].values["row"]) for curve in curves} == {240}


def test_lines_break_where_no_window_was(tmp_path: Path) -> None:
    ends = [*range(10, 110, 10), *range(1000, 1100, 10)]
    lines = [{"end": START + end * SECOND, "index": end} for end in ends]
    put(tmp_path, "mismatch", windows(*lines))
    values = found(tmp_path, ["m"], [START]).curves[0][KINDS.index("fixed")].values
    assert np.flatnonzero(np.isnan(values["mismatch"])).tolist() == [10]


def test_without_times_the_axis_counts_rows(tmp_path: Path) -> None:
    line = {"kind": "moving", "start": None, "end": None}
    put(tmp_path, "mismatch", windows({**line, "index": 12}, {**line, "index": 11}))
    mismatch = found(tmp_path, ["m"], [None])
    values = mismatch.curves[0][KINDS.index("moving")].values
    assert values["row"].tolist() == [11.0, 12.0]
    assert "time" not in values
    assert mismatch.title(KINDS.index("moving")) == "The last 10 rows"


def test_windows_of_a_kind_unknown_here_are_passed_over(tmp_path: Path) -> None:
    put(tmp_path, "mismatch", windows({"kind": "session"}, {}))
    mismatch = found(tmp_path, ["m"], [START])
    assert mismatch.totals.rows.tolist() == [1, 0, 0]
    assert mismatch.kinds() == [KINDS.index("fixed")]


def test_the_page_shows_each_kind_and_a_table(tmp_path: Path) -> None:
    time = [START + k * SECOND for k in range(20)]
    table = features({"m10": 20, "m9": 20}, time=times([*time, *time]))
    output = run_folder(tmp_path, table)
    sliding = {"kind": "sliding", "model_id": "m9", "rows": 12, "end": START + 90 * SECOND}
    lines = windows(
        {**sliding, "mismatch": 0.1, "trace_bound": 0.4},
        {**sliding, "mismatch": 0.3, "trace_bound": 0.5, "n": 12, "index": 19},
        {**sliding, "model_id": "m10", "mismatch": 0.2, "n": 12, "complete": False},
        {"kind": "moving", "model_id": "m9", "mismatch": 0.0, "trace_bound": 0.0},
    )
    put(output, "mismatch", lines)
    page = page_of(output)
    data = data_of(page)["mismatch"]
    assert data["kinds"] == [
        {"id": "sliding", "title": "Sliding windows of 90 s"},
        {"id": "moving", "title": "The last 10 rows"},
    ]
    assert data["table"] == {
        "id": ["m9", "m9", "m10"],
        "kind": ["sliding", "moving", "sliding"],
        "windows": [2, 1, 1],
        "mismatch": [0.2, 0.0, 0.2],
        "certificate": [0.45, 0.0, 0.2],
        "ratio": [0.6, None, 1.0],
        "incomplete": [0, 0, 1],
        "sampled": [1, 0, 0],
    }
    nine, ten = data["curves"]
    assert sorted(nine) == ["moving", "sliding"]
    assert sorted(ten) == ["sliding"]
    assert floats(nine["sliding"]["values"]["mismatch"]) == pytest.approx([0.1, 0.3])
    assert floats(nine["sliding"]["values"]["time"]) == [90.0, 90.0]
    assert floats(ten["sliding"]["values"]["incomplete"]) == pytest.approx([0.2])
    text = text_of(page)
    assert (
        "Sliding windows of 90 s: 3 windows, mean mismatch 0.200, mean certificate 0.367. 1 window "
        "is cut short by the end of the input (rings). 1 window is measured on fewer rows than it "
        "held, equally spaced."
    ) in text
    assert "The last 10 rows: 1 window, mean mismatch 0, mean certificate 0." in text
    for kind in ("sliding", "moving"):
        assert page.count(f'<div class="chart" id="mismatch-{kind}">') == 1
    assert 'id="mismatch-fixed"' not in page


def test_a_run_of_unmeasured_windows_says_so(tmp_path: Path) -> None:
    output = run_folder(tmp_path, features({"m": 5}))
    none = dict.fromkeys(("mismatch", "trace_bound", "fitting_bound"))
    put(output, "mismatch", windows({**none, "n": 0}, {**none, "n": 0}))
    page = page_of(output)
    assert data_of(page)["mismatch"]["curves"] == [{}]
    assert data_of(page)["mismatch"]["table"]["mismatch"] == [None]
    assert (
        "Fixed windows of 10 s: 2 windows. 2 windows are left out, for want of a row that was kept."
    ) in text_of(page)


@pytest.mark.parametrize("empty", [False, True])
def test_a_run_without_windows_has_no_such_part(tmp_path: Path, empty: bool) -> None:
    output = run_folder(tmp_path, features({"m": 5}))
    if empty:
        put(output, "mismatch", windows({}).slice(1))
    page = page_of(output)
    assert data_of(page)["mismatch"] is None
    assert 'id="mismatch-title"' not in page
    assert 'id="windows"' not in page


def test_hostile_models_stay_texts(tmp_path: Path) -> None:
    output = run_folder(tmp_path, features({HOSTILE: 5}))
    put(output, "mismatch", windows({"model_id": HOSTILE}))
    page = page_of(output)
    assert "<img" not in page
    assert page.count("</script>") == page.count("<script")
    assert data_of(page)["mismatch"]["table"]["id"] == [HOSTILE]
