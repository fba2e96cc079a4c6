"""Drift alerts in the report: which are listed, which are marked, and what the table says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.report.data.alerts import AlertLine, AlertLines, alerts_of
from pipelines.report.data.choice import Choice
from pipelines.report.page.page import templates
from tests.report_runs import (
    HOSTILE,
    SECOND,
    START,
    alerts,
    data_of,
    features,
    page_of,
    put,
    run_folder,
    text_of,
    times,
)


def found(output: Path, drawn: list[str]) -> AlertLines:
    numbers = {name: k for k, name in enumerate(drawn)}
    result = alerts_of(str(output), Choice(numbers, drawn, drawn, [START] * len(drawn)))
    assert result is not None
    return result


def many(n: int, seed: int = 0) -> dict[str, Any]:
    """Alerts of three models in mixed order, several at one time."""
    rng = np.random.default_rng(seed)
    index = rng.permutation(n)
    return {
        "model_id": [f"m{k % 3}" for k in index.tolist()],
        "index": index,
        "time": (START + index // 4 * SECOND).tolist(),
        "before": rng.random(n),
        "after": rng.random(n),
    }


@pytest.mark.parametrize("timed", [True, False])
def test_the_earliest_are_listed_and_all_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, timed: bool
) -> None:
    monkeypatch.setattr("pipelines.report.data.alerts.MOST_LISTED", 7)
    monkeypatch.setattr("pipelines.report.data.alerts.MOST_MARKS", 5)
    columns = many(100)
    if not timed:
        del columns["time"]
    table = alerts(timed, **columns)
    put(tmp_path, "alerts", table.slice(0, 3), table.slice(3, 60), table.slice(63))
    got = found(tmp_path, ["m2", "quiet"])
    order = np.argsort(columns["index"])
    every = [
        AlertLine(
            columns["model_id"][k],
            int(columns["index"][k]),
            columns["time"][k] if timed else None,
            float(columns["before"][k]),
            float(columns["after"][k]),
        )
        for k in order
    ]
    assert got.counts == {"m0": 34, "m1": 33, "m2": 33}
    assert got.first == every[:7]
    assert got.marks == [[alert for alert in every if alert.model == "m2"][:5], []]


def lines_of(page: str) -> list[list[str]]:
    body = re.findall(r'<table class="alerts">.*?<tbody>(.*?)</tbody>', page, re.S)
    lines = re.findall(r"<tr>(.*?)</tr>", body[0], re.S)
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line) for line in lines]


def test_the_page_lists_and_marks_them(tmp_path: Path) -> None:
    time = [START + k * SECOND for k in range(4)]
    table = features({"m10": 4, "m9": 4}, time=times([*time, *time]))
    output = run_folder(tmp_path, table)
    columns: dict[str, Any] = {
        "model_id": ["m9", "m10", "m9"],
        "index": [3, 1234, 1],
        "time": [START + 3 * SECOND, START + 2 * SECOND, START + SECOND // 2],
        "before": [0.1, 0.0, 0.25],
        "after": [0.05, 0.5, 0.5],
    }
    put(output, "alerts", alerts(**columns))
    page = page_of(output)
    assert lines_of(page) == [
        ["m9", "2017-07-14 02:40:00.5", "1", "0.250", "0.500", "2.00"],
        ["m10", "2017-07-14 02:40:02", "1,234", "0", "0.500", "–"],
        ["m9", "2017-07-14 02:40:03", "3", "0.100", "0.0500", "0.500"],
    ]
    text = text_of(page)
    assert "3 alerts of 2 devices: the level of the fitting error changed." in text
    assert "m9 2 m10 1" in text
    assert data_of(page)["alerts"] == {
        "counts": [2, 1],
        "marks": [[[1, 0.5, 0.25, 0.5], [3, 3.0, 0.1, 0.05]], [[1234, 2.0, 0.0, 0.5]]],
    }


def test_without_times_there_is_no_column_for_them(tmp_path: Path) -> None:
    output = run_folder(tmp_path, features({"m": 9}))
    put(output, "alerts", alerts(False, model_id=["m"], index=[5], before=[1.0], after=[2.0]))
    page = page_of(output)
    assert lines_of(page) == [["m", "5", "1.00", "2.00", "2.00"]]
    assert "Time (UTC)" not in page
    assert data_of(page)["alerts"] == {"counts": [1], "marks": [[[5, None, 1.0, 2.0]]]}


def test_models_beyond_the_first_are_counted_together() -> None:
    first = [AlertLine("m0", 1, None, 0.1, 0.2)]
    alerts = AlertLines({f"m{k}": 40 - k for k in range(30)}, first, [])
    section = templates().get_template("alerts.html").render(alerts=alerts)
    assert "The first 1 are listed." in section
    items = re.findall(r"<li[^>]*>(.*?)</li>", section)
    assert items[:2] == ["m0 <b>40</b>", "m1 <b>39</b>"]
    assert items[24:] == [f"6 more devices <b>{sum(40 - k for k in range(24, 30))} alerts</b>"]


@pytest.mark.parametrize("empty", [False, True])
def test_a_run_without_alerts_has_no_such_part(tmp_path: Path, empty: bool) -> None:
    output = run_folder(tmp_path, features({"m": 5}))
    if empty:
        put(output, "alerts", alerts(model_id=[], index=[], time=[], before=[], after=[]))
    page = page_of(output)
    assert data_of(page)["alerts"] is None
    assert 'id="alerts-title"' not in page


def test_hostile_models_stay_texts(tmp_path: Path) -> None:
    output = run_folder(tmp_path, features({HOSTILE: 5, "other": 5}))
    columns = {"model_id": [HOSTILE, "other"], "index": [1, 2], "before": [0.1, 0.1]}
    put(output, "alerts", alerts(False, after=[0.2, 0.2], **columns))
    page = page_of(output)
    assert "<img" not in page
    assert page.count("</script>") == page.count("<script")
    # In the list of counts and in the table.
    assert text_of(page).count(" ".join(HOSTILE.split())) == 2
