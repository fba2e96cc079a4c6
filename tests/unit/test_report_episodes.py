"""What the report opens on: who is off and who is unlike the others, in the table and on curves."""

from __future__ import annotations

import base64
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.cli.main import main
from pipelines.files.neighbours import SCHEMA
from pipelines.report import write_report
from pipelines.report.data.choice import MOST_CURVES
from pipelines.report.data.episodes import (
    MOST_LISTED,
    Episodes,
    day_lines,
    early_lines,
    episode_lines,
    episodes_of,
    lately_lines,
    moving_lines,
    rate_lines,
)
from pipelines.report.data.heat import MOST_BINS, MOST_MODELS, NOTHING, STEPS
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
)
from transforms.write.schemas import episodes_schema

ROWS = 100
RUN: dict[str, Any] = {"reference": {"learning": "first"}}


def episode(model: str, number: int = 1, *, timed: bool = True, **fields: Any) -> dict[str, Any]:
    """A line of an episode over the rows 40 to 60, rows a second apart."""
    line = {
        "model_id": model,
        "index": 70,
        "episode": number,
        "state": "closed",
        "kind": "shift",
        "severity": 50.0,
        "p": 1e-9,
        "start_index": 40,
        "detected_index": 42,
        "last_index": 60,
        "shares": [0.7, 0.26, 0.04],
        "deviations": [-3.21, 0.5, None],
        **fields,
    }
    if timed:
        moments = {"time": "index", "start": "start_index", "last": "last_index"}
        moments["detected"] = "detected_index"
        line |= {name: START + line[row] * SECOND for name, row in moments.items()}
    return line


def rows(models: list[str], timed: bool = True) -> pa.Table:
    index = np.tile(np.arange(ROWS), len(models))
    p = np.where(index < 20, np.nan, np.where((index >= 40) & (index <= 60), 1e-9, 0.5))
    columns: dict[str, Any] = {"p": pa.array(p, mask=np.isnan(p))}
    if timed:
        times = pa.array(START + index * SECOND).cast(pa.timestamp("ns", "UTC"))
        columns["time"] = times
    return features(dict.fromkeys(models, ROWS), **columns)


def run(
    output: Path,
    models: list[str],
    *lines: dict[str, Any],
    timed: bool = True,
    neighbours: list[dict[str, Any]] | None = None,
    about: dict[str, Any] | None = None,
) -> str:
    record: dict[str, Any] = {"reference": {"learning": "first"}, **(about or {})}
    if neighbours is not None:
        unlike = [line["model_id"] for line in neighbours if line["unlike"]]
        record["neighbours"] = {
            "compared": len(neighbours),
            "of": len(neighbours),
            "landmarks": len(neighbours),
            "views": ["subspace", "ties", "level"],
            "unlike": len(unlike),
            "models": unlike,
        }
    run_folder(output, rows(models, timed), **record)
    if lines:
        put(output, "episodes", pa.Table.from_pylist(list(lines), episodes_schema(timed, 3)))
    if neighbours is not None:
        put(output, "neighbours", pa.Table.from_pylist(neighbours, SCHEMA))
    return str(output)


def neighbour(model: str, apart: float, x: float, y: float, **fields: Any) -> dict[str, Any]:
    line = {
        "model_id": model,
        "apart": apart,
        "view": "ties",
        "unlike": apart > 1,
        "subspace": 0.1,
        "ties": apart,
        "level": 0.0,
        "nearest": ["b", "c"],
        "shares": [0.1, 0.88, 0.02] if apart > 1 else None,
        "x": x,
        "y": y,
    }
    return {**line, **fields}


def test_the_worst_comes_first_and_is_what_the_curves_show(tmp_path: Path) -> None:
    page = page_of(
        run(
            tmp_path / "out",
            ["a", "b", "c"],
            episode("a"),
            episode("c", severity=900.0, kind="ramp", state="open", index=99, last_index=98),
        )
    )
    output_text = text_of(page)
    assert "2 of 3 devices were off, 1 to the end, 1 well again." in output_text
    assert output_text.index("2017-07-14 02:40:40 row 40 ramp") < output_text.index("row 40 shift")
    assert "a 70 % (-3.2) , b 26 % (+0.50)" in output_text
    data = data_of(page)
    assert data["first"] == 2
    assert data["episodes"] == [
        [["shift", "closed", 40, 61, 40.0, 60.0]],
        [],
        [["ramp", "open", 40, 99, 40.0, 98.0]],
    ]
    odd = floats(data["curves"][0]["loss"]["odd"])
    assert np.isnan(odd[:20]).all()
    assert odd[50] == pytest.approx(9.0)
    assert odd[80] == pytest.approx(-np.log10(0.5))
    assert page.count('<svg class="spark"') == 2


def test_rows_without_times_are_placed_by_their_index(tmp_path: Path) -> None:
    page = page_of(run(tmp_path / "out", ["a"], episode("a", timed=False), timed=False))
    assert data_of(page)["episodes"] == [[["shift", "closed", 40, 61, None, None]]]
    assert "1 of 1 device was off, well again." in text_of(page)
    assert "Since row" in text_of(page)


NAMED = {"columns": {"features": ["a", "b", "c"]}}


def test_of_an_episode_the_last_line_counts_and_of_a_model_that_is_well_the_worst(
    tmp_path: Path,
) -> None:
    output = run(
        tmp_path / "out",
        ["a"],
        episode("a", 1, state="open", index=42, severity=5.0, last_index=42),
        episode("a", 1, severity=80.0),
        episode("a", 2, index=95, start_index=85, last_index=90, severity=9.0),
    )
    found = episodes_of(output, RUN | NAMED)
    assert found is not None
    (off,) = found.worst
    assert (found.models, found.still, found.total) == (1, 0, 2)
    assert (off.row, off.severity, off.open, off.episodes, off.worst) == (40, 80.0, False, 2, None)
    since = "since 2017-07-14 02:40:40 UTC until 2017-07-14 02:41:00 UTC"
    assert episode_lines(found, 1, "run/episodes") == [
        "1 of 1 devices was off, well again:",
        f"  a: {since}, shift, a, b (the worst of 2 episodes)",
    ]


@pytest.mark.parametrize(
    ("state", "standing", "until"),
    [("open", "to the end", ""), ("steady", "changed to stay", ", changed to stay")],
)
def test_the_report_names_the_episode_that_devices_names_and_the_worst(
    state: str, standing: str, until: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who is off now is off by the open episode, even where an earlier one was worse."""
    output = run(
        tmp_path / "out",
        ["a"],
        episode("a", 1, severity=80.0),
        episode("a", 2, kind="ramp", state=state, index=95, start_index=85, severity=9.0),
        about={**NAMED, "reference": {"learning": "first", "rows": 20, "until": None}},
    )
    found = episodes_of(output, RUN | NAMED)
    assert found is not None
    (off,) = found.worst
    assert (off.row, off.kind, off.severity) == (85, "ramp", 9.0)
    assert episode_lines(found, 1, "run/episodes") == [
        f"1 of 1 devices was off, {standing}:",
        f"  a: since 2017-07-14 02:41:25 UTC{until}, ramp, a, b (of 2 episodes; the worst since "
        "2017-07-14 02:40:40 UTC, shift)",
    ]
    assert main(["devices", output, "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    named = json.loads(line)
    assert (named["since_index"], named["kind"]) == (off.row, off.kind)
    page = page_of(output)
    assert "2017-07-14 02:41:25 row 85 ramp" in text_of(page)
    assert "2 worst: shift since 2017-07-14 02:40:40" in text_of(page)
    bands = data_of(page)["episodes"]
    assert [band[:3] for band in bands[0]] == [["shift", "closed", 40], ["ramp", state, 85]]


@pytest.mark.parametrize(
    ("shares", "where"),
    [
        ([0.7, 0.26, 0.04], "a, b"),
        ([0.0, 0.0, 0.0], "no single channel"),
        ([0.3, 0.4, 0.3], "b, a, c"),
    ],
)
def test_channels_are_named_by_their_shares(
    tmp_path: Path, shares: list[float], where: str
) -> None:
    output = run(tmp_path / "out", ["a"], episode("a", shares=shares))
    found = episodes_of(output, {**RUN, "columns": {"features": ["a", "b", "c"]}})
    assert found is not None
    assert episode_lines(found, 1, "run/episodes") == [
        "1 of 1 devices was off, well again:",
        f"  a: since 2017-07-14 02:40:40 UTC until 2017-07-14 02:41:00 UTC, shift, {where}",
    ]


def day(rows: int, seconds: float, together: int = 1, **reference: Any) -> list[str]:
    """What is said of models that were off at noon of the fourth day, a row in so many seconds."""
    noon = round(3.5 * 86_400 / seconds)
    found = Episodes(together, 0, 4, [], together, 0, seconds * 1e9, noon)
    return day_lines(found, 12, {"rows": rows, "until": None, **reference})


def test_a_reference_of_some_hours_is_told_of_where_there_are_days() -> None:
    assert day(512, 60) == [
        "normal is what the first 512 rows showed, some 8.5 hours: if it changes with the time of "
        "day, give it whole days (--reference-rows 1440)"
    ]
    assert day(1440, 60) == day(512, 300) == []  # A day; nearly two.
    assert day(512, 1) == []  # Minutes: it is not about days.
    assert day(512, 60, until=0) == []


def test_a_reference_that_moves_is_told_of_by_its_memory() -> None:
    auto: dict[str, Any] = {"learning": "auto", "memory": "14 days"}
    assert day(512, 60, **auto) == []
    (line,) = day(512, 60, 3, **auto)
    assert "went off within 3 hours" in line
    assert "--reference-rows" not in line
    assert moving_lines(auto) == [
        "normal is what a device's last 14 days showed: none can be off before that"
    ]
    assert moving_lines({"learning": "first", "memory": "14 days"}) == []


@pytest.mark.parametrize(
    ("last", "covered"),
    [
        ("2026-03-01T00:01:00", "a few minutes"),
        ("2026-03-01T01:00:00", "60.0 minutes"),
        ("2026-03-01T16:39:00", "16.6 hours"),
        ("2026-03-14T23:59:00", "13.9 days"),
    ],
)
def test_rows_of_less_time_than_the_memory_are_told_of(last: str, covered: str) -> None:
    auto: dict[str, Any] = {"learning": "auto", "memory": "14 days"}
    span = {"first": "2026-03-01T00:00:00", "last": last, "far": 0}
    about = {"reference": auto, "time_span": span}
    assert early_lines(about) == [
        "no device can be off yet: normal is what its last 14 days showed (--reference-memory), "
        f"and the rows cover {covered}; --reference first needs hours"
    ]
    assert early_lines({**about, "reference": {**auto, "learning": "first"}}) == []
    assert early_lines({**about, "reference": {**auto, "memory": "1024 rows"}}) == []
    assert early_lines({**about, "time_span": {**span, "far": 1}}) == []
    assert early_lines({**about, "time_span": None}) == []
    assert early_lines({**about, "warm_start": "out/snapshots"}) == []
    assert early_lines({**about, "reference": None}) == []
    assert early_lines({**about, "time_span": {**span, "last": "2026-03-15T00:00:00"}}) == []


@pytest.mark.parametrize("reference", [{}, {"until": 0}])
def test_models_that_go_off_in_the_same_hours_are_told_of(reference: dict[str, Any]) -> None:
    (line,) = day(4032, 300, 3, **reference)
    assert line == (
        "3 of 12 devices went off within 3 hours from 1970-01-01 00:00:00 UTC on: if they were "
        "healthy, what they share (the hour, the weekday, the weather) is new to the reference: "
        "give it whole days, and weeks (--reference-rows 2016 is a week)"
    )
    assert day(4032, 300, 2, **reference) == []
    assert day(4032, 1, 3, **reference) != []  # Three days and a half, whatever the pace.
    assert [len(day(512, 60, 5)), len(day(512, 60, 2))] == [2, 1]


def test_what_many_have_changed_alike_stands_behind_a_change_of_one_device(tmp_path: Path) -> None:
    own: dict[str, Any] = {
        "shares": [0.0, 0.0, 1.0],
        "deviations": [None, None, 2.0],
        "severity": 1.0,
    }
    lines = [episode(name, state="steady", severity=100.0) for name in "abc"]
    lines.append(episode("d", state="steady", **own))
    channels = {"columns": {"features": ["heat", "power", "speed"]}}
    found = episodes_of(run(tmp_path / "out", list("abcd"), *lines), RUN | channels)
    assert found is not None
    assert [off.model for off in found.worst] == ["d", "a", "b", "c"]
    assert found.alike == ["3 devices differ alike (heat below, power above): a, b, c"]


def test_models_are_together_within_three_hours(tmp_path: Path) -> None:
    hour = 3600 * SECOND
    lines = []
    for model, number, when in (
        *(("a", 1, 0), ("a", 2, 20), ("b", 1, 21), ("b", 2, 22), ("c", 1, 22.9), ("d", 1, 23.1)),
        ("e", 1, 60),
    ):
        at = round(START + when * hour)
        lines.append(episode(model, number) | dict.fromkeys(("start", "detected", "last"), at))
    channels = {"columns": {"features": ["heat", "power", "speed"]}}
    found = episodes_of(run(tmp_path / "out", list("abcde"), *lines), RUN | channels)
    assert found is not None
    assert (found.together, found.together_at) == (3, START + 20 * hour)


@pytest.mark.parametrize(
    ("first", "far", "lines"),
    [
        ("2017-07-14 02:40:00", [], ["the last 30 days: 3 episodes on 2 devices"]),
        ("2017-08-01 00:00:00", [], []),
        ("2017-07-14 02:40:00", [{"first": 1970, "last": 1970, "rows": 1}], []),
    ],
)
def test_the_alarms_of_the_last_thirty_days_are_counted(
    tmp_path: Path, first: str, far: list[dict[str, int]], lines: list[str]
) -> None:
    """An episode is of the day on which it was noticed; rows of fewer days have no such line."""
    day = 86_400 * SECOND
    start = int(np.datetime64("2017-07-14T02:40", "ns").astype(np.int64))
    reported = [
        episode(model, number) | dict.fromkeys(("start", "detected", "last"), start + when * day)
        for model, number, when in (("a", 1, 1), ("a", 2, 15), ("b", 1, 39), ("b", 2, 40))
    ]
    reported.append({**reported[-1], "index": 90})
    span = {"first": first, "last": "2017-08-23 02:40:00.5", "far": far}
    about = {**RUN, "columns": {"features": ["heat", "power", "speed"]}, "time_span": span}
    found = episodes_of(run(tmp_path / "out", ["a", "b"], *reported), about)
    assert found is not None
    assert lately_lines(found) == lines


def test_rows_of_many_days_without_an_alarm_say_so() -> None:
    assert lately_lines(Episodes(0, 0, 0, [], lately=(0, 0))) == ["the last 30 days: no episode"]
    one = Episodes(1, 0, 1, [], lately=(1, 1))
    assert lately_lines(one) == ["the last 30 days: 1 episode on 1 device"]


def test_those_that_are_off_are_drawn_before_all_others(tmp_path: Path) -> None:
    models = [f"m{number}" for number in range(MOST_CURVES + 30)]
    lines = [episode("m77", severity=9.0), episode("m3", severity=99.0)]
    near = [neighbour(name, 2.0 if name == "m55" else 0.1, n, 1.0) for n, name in enumerate(models)]
    data = data_of(page_of(run(tmp_path / "out", models, *lines, neighbours=near)))
    drawn = [curve["id"] for curve in data["curves"][:MOST_CURVES]]
    further = [curve["id"] for curve in data["curves"][MOST_CURVES:]]
    assert sorted([*drawn, *further]) == sorted(models)
    assert {"m77", "m3", "m55"} <= set(drawn)
    assert drawn[data["first"]] == "m3"


@pytest.mark.parametrize("timed", [True, False])
def test_the_heat_map_has_a_line_a_model_the_odd_ones_first(tmp_path: Path, timed: bool) -> None:
    odd = episode("m7", timed=timed)
    heat = data_of(page_of(run(tmp_path / "out", ["m7", "m10", "m2"], odd, timed=timed)))["heat"]
    assert (heat["models"], heat["odd"], heat["timed"]) == (["m7", "m2", "m10"], 1, timed)
    cells = np.frombuffer(base64.b64decode(heat["cells"]), np.uint8).reshape(3, heat["bins"])
    width = ((ROWS - 1) * SECOND if timed else ROWS - 1) + 1
    step = -(-width // ROWS)
    row = np.arange(ROWS) * (SECOND if timed else 1) // step
    expected = np.full(-(-width // step), NOTHING)
    expected[row[20:]] = round(-STEPS * math.log10(0.5))
    expected[row[40:61]] = 9 * STEPS
    # It begins where there is a reference.
    expected = expected[row[20] :]
    first = row[20] * step
    assert heat["first"] == ((START + first) / 1e6 if timed else first)
    for line in cells:
        assert line.tolist() == expected.tolist()
    (span,) = heat["episodes"][0]
    whole = step * len(expected) / (SECOND if timed else 1)
    begun = first / (SECOND if timed else 1)
    assert span == pytest.approx([(40 - begun) / whole, (60 - begun) / whole], rel=1e-5)
    assert heat["episodes"][1:] == [[], []]


def test_a_device_in_1970_and_a_row_of_2099_leave_the_others_their_map(tmp_path: Path) -> None:
    models = ["m1", "m2", "m3", "lost"]
    table = rows(models)
    times = table["time"].cast(pa.int64()).to_numpy().copy()
    times[3 * ROWS :] -= times[0]
    times[ROWS - 1] = 4_070_908_800 * SECOND
    place = table.column_names.index("time")
    table = table.set_column(place, "time", pa.array(times).cast(pa.timestamp("ns", "UTC")))
    output = run_folder(tmp_path / "out", table, **RUN)
    off = [episode("m2"), episode("lost", last_index=99)]
    for name in ("start", "last", "detected", "time"):
        off[1][name] -= START
    put(output, "episodes", pa.Table.from_pylist(off, episodes_schema(True, 3)))
    page = page_of(output)
    heat = data_of(page)["heat"]
    cells = np.frombuffer(base64.b64decode(heat["cells"]), np.uint8).reshape(4, heat["bins"])
    lines = dict(zip(heat["models"], cells, strict=True))
    assert (heat["last"] - heat["first"]) / 1e3 == pytest.approx(80, abs=2)
    assert np.all(lines["lost"] == NOTHING)
    for name in ("m1", "m2", "m3"):
        assert np.count_nonzero(lines[name] == 9 * STEPS) >= 20
    episodes = dict(zip(heat["models"], heat["episodes"], strict=True))
    assert episodes["lost"] == [] and len(episodes["m2"]) == 1
    assert (
        "Check the clocks: 101 rows of 2 of 4 devices have times far from the others. The time "
        "axes show 2017-07-14 02:40:00 to 2017-07-14 02:41:39 (UTC) and leave out lost (100 rows, "
        "1970-01-01 00:00:00 to 1970-01-01 00:01:39), m1 (1 row, 2099-01-01 00:00:00)."
    ) in text_of(page).replace(" )", ")").replace("lost  ", "lost ")
    curves = {curve["id"]: curve for curve in data_of(page)["curves"]}
    assert curves["m1"]["outside"] == ("after 2017-07-14 02:41:38 (up to 2099-01-01 00:00:00)")
    assert curves["lost"]["outside"] == "" and curves["lost"]["start"] == 0


@pytest.mark.parametrize("bare", [100, 900])
def test_a_long_heat_map_has_no_more_parts_than_it_has_room_for(tmp_path: Path, bare: int) -> None:
    index = np.arange(1_000)
    p = np.where(index == 950, 1e-5, 0.5)
    table = features({"m": 1_000}, p=pa.array(p, mask=index < bare))
    heat = data_of(page_of(run_folder(tmp_path / "out", table, **RUN)))["heat"]
    cells = np.frombuffer(base64.b64decode(heat["cells"]), np.uint8)
    # Kept in parts of 3 rows, of which two go together where more than 180 are left.
    together = 3 if bare == 900 else 6
    assert heat["first"] == bare - bare % 3
    assert len(cells) == heat["bins"] == -(-(1_000 - heat["first"]) // together) <= MOST_BINS
    assert int(np.argmax(cells)) == (950 - heat["first"]) // together
    assert sorted(set(cells.tolist())) == [3, 50]


def test_of_many_models_the_heat_map_shows_some_from_everywhere(tmp_path: Path) -> None:
    models = [f"m{number}" for number in range(2 * MOST_MODELS)]
    path = run(tmp_path / "out", models, episode("m1"), episode("m9", severity=60.0))
    page = page_of(path)
    heat = data_of(page)["heat"]
    assert len(heat["models"]) == len(set(heat["models"])) == MOST_MODELS
    assert heat["models"][:4] == ["m9", "m1", "m0", "m3"]
    assert int(heat["models"][-1].removeprefix("m")) > 2 * MOST_MODELS - 5
    assert "240 of 480 devices are shown" in text_of(page)


def test_without_a_reference_there_is_no_heat_map(tmp_path: Path) -> None:
    run_folder(tmp_path / "out", rows(["a", "b"]))
    page = page_of(str(tmp_path / "out"))
    assert data_of(page)["heat"] is None
    assert "heat-title" not in page


@pytest.mark.parametrize(
    ("learning", "says"),
    [("auto", "No device can be off yet: normal is"), ("first", "no device differs from its ref")],
)
def test_page_and_command_say_why_none_is_off(
    learning: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    span = {"first": "2026-03-01 00:00:00", "last": "2026-03-01 16:39:00", "far": []}
    reference = {"learning": learning, "memory": "14 days", "rows": 512}
    run(tmp_path / "out", ["a", "b"], about={"reference": reference, "time_span": span})
    output_text = text_of(page_of(str(tmp_path / "out")))
    assert "None of 2 devices." in output_text and says in output_text
    assert main(["devices", str(tmp_path / "out")]) == 0
    assert ("no device can be off yet" in capsys.readouterr().out) == (learning == "auto")


def test_a_fleet_is_mapped_and_those_apart_are_numbered(tmp_path: Path) -> None:
    near = [
        neighbour("a", 3.0, 5.0, 0.0),
        neighbour("b", 0.2, 0.0, 0.0),
        neighbour("c", 0.1, 0.0, 1.0),
        neighbour("d", 0.0, 1.0, 0.5),
    ]
    page = page_of(run(tmp_path / "out", ["a", "b", "c", "d"], neighbours=near))
    output_text = text_of(page)
    assert "None of 4 devices." in output_text
    assert "1 of 4 devices is unlike the others." in output_text
    assert "how its channels go together, in a row and from row to row b 88" in output_text
    assert "3.00 × the limit" in output_text
    dots = page.partition('class="dots" d="')[2].partition('"')[0]
    assert dots.count("M") == 3
    assert page.count("<circle") == 1
    assert data_of(page)["first"] == 0


def test_names_stay_text(tmp_path: Path) -> None:
    models = [HOSTILE, "b", "c"]
    near = [
        neighbour(HOSTILE, 2.0, 0.0, 0.0, nearest=[HOSTILE]),
        neighbour("b", 0.1, 1.0, 0.0),
        neighbour("c", 0.1, 1.0, 1.0),
    ]
    page = page_of(run(tmp_path / "out", models, episode(HOSTILE), neighbours=near))
    assert "<img" not in page
    assert page.count("&lt;/script&gt;&lt;img") >= 4
    assert data_of(page)["curves"][0]["id"] in models


def test_ten_thousand_models_make_no_huge_page(tmp_path: Path) -> None:
    models = [f"device-{number:05}" for number in range(10_000)]
    output, some = tmp_path / "out", models[:3_000]
    near = [neighbour(name, 2.0 - n / 5_000, n % 71, n % 89) for n, name in enumerate(models)]
    table = features(dict.fromkeys(models, 2))
    table = table.append_column("p", pa.nulls(len(table), pa.float64()))
    record = {
        "compared": len(near),
        "of": len(near),
        "views": ["ties"],
        "unlike": sum(line["unlike"] for line in near),
    }
    run_folder(output, table, reference={"learning": "first"}, neighbours=record)
    lines = [episode(name, severity=float(n)) for n, name in enumerate(some)]
    put(output, "episodes", pa.Table.from_pylist(lines, episodes_schema(True, 3)))
    put(output, "neighbours", pa.Table.from_pylist(near, SCHEMA))
    path = Path(write_report(str(output)))
    assert path.stat().st_size < 2_200_000
    page = path.read_text(encoding="utf-8")
    assert "3,000 of 10,000 devices" in text_of(page)
    assert page.count('<b class="still">') + page.count('class="when"') < 4 * MOST_LISTED
    assert page.count("<circle") == 20
    assert pq.read_table(output / "neighbours").num_rows == 10_000


def test_devices_that_recovered_are_not_off(tmp_path: Path) -> None:
    reported = [
        episode("a", severity=20.0),
        episode("a", 2, state="open", severity=30.0, index=80),
        episode("a", 2, kind="recovered", severity=90.0, index=90),
        episode("b", kind="recovered"),
        episode("c"),
    ]
    about = RUN | {"columns": {"features": ["a", "b", "c"]}}
    found = episodes_of(run(tmp_path / "out", ["a", "b", "c"], *reported), about)
    assert found is not None
    assert (found.models, found.total, found.still) == (2, 2, 0)
    assert [(off.model, off.kind, off.severity) for off in found.worst] == [
        ("c", "shift", 50.0),
        ("a", "shift", 20.0),
    ]
    lines = episode_lines(found, 3, "run/episodes")
    assert lines[0] == "2 of 3 devices were off, all well again:"
    assert lines[-1] == "back to what was normal before a lasting change: a, b"
    only = episodes_of(run(tmp_path / "only", ["b"], reported[3]), about)
    assert only is not None
    assert episode_lines(only, 1, "run/episodes")[0] == "none of 1 devices was off"


def test_devices_that_changed_come_before_stuck_sensors(tmp_path: Path) -> None:
    reported = [
        episode("a", kind="stuck", severity=6000.0),
        episode("b", kind="ramp", severity=20.0),
        episode("c", severity=90.0),
        episode("d", kind="stuck", severity=7000.0),
    ]
    about = RUN | {"columns": {"features": ["a", "b", "c"]}}
    found = episodes_of(run(tmp_path / "out", ["a", "b", "c", "d"], *reported), about)
    assert found is not None
    assert [off.model for off in found.worst] == ["c", "b", "d", "a"]


def test_a_rate_that_a_memory_cannot_show_is_named() -> None:
    auto = {"learning": "auto", "memory": "14 days", "per": "1000000 rows", "false_alarms": 1.0}
    span = {"first": "2026-03-01T00:00:00", "last": "2026-04-30T00:00:00", "far": 0}
    counts = {"models": 40, "rows_in": 40 * 60 * 288}
    about: dict[str, Any] = {"reference": auto, "time_span": span, "counts": counts}
    assert rate_lines(about) == [
        "the rate of false alarms is not sure: one in 1,000,000 rows was asked for, but the "
        "4,032 rows of a device that are remembered (--reference-memory) can prove no rarer one "
        "than one in 1,008: look at those with the highest severity first, and compare with "
        "--periods day"
    ]
    often = {**auto, "false_alarms": 1000.0, "memory": "4032 rows"}
    assert rate_lines({**about, "reference": often}) == []
    assert rate_lines({**about, "reference": {**often, "false_alarms": 500.0}})
    assert rate_lines({**about, "reference": {**auto, "learning": "first"}}) == []
    assert rate_lines({**about, "reference": {**auto, "per": "30 days"}}) == []
    assert rate_lines({**about, "time_span": None}) == []
