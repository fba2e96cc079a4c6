"""`--direction`, `--least-deviation`, `--rules`: which episodes count, in files, score, Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import kerneltrack as kt
from pipelines.cli.main import main

ROWS = 1500
COLUMNS = ("--model-id", "device", "--time", "time")
SMALL = ("--rank", "3", "--budget", "5", "--neighbours", "0", "--workers", "1")
TRACK = (*COLUMNS, *SMALL, "--group", "hall", "--reference", "first")
HEAD = "device,group,channel,direction,least_deviation\n"
OUR_RULES = HEAD + ",,heat,up,\np2,,heat,,3\n,south,flow,,4\n"


def table() -> pd.DataFrame:
    """Heat falls on p1 and p2, flow rises on p3, p4 is well."""
    rng, parts = np.random.default_rng(5), []
    for name, hall in (("p1", "north"), ("p2", "north"), ("p3", "south"), ("p4", "south")):
        rows = pd.DataFrame(rng.normal(size=(ROWS, 3)), columns=["flow", "heat", "oil"])
        rows.loc[1200:, "heat"] -= 8 * (name in ("p1", "p2"))
        rows.loc[1200:, "flow"] += 6 * (name == "p3")
        rows.insert(0, "device", name)
        rows.insert(1, "hall", hall)
        rows.insert(2, "time", pd.Timestamp("2026-01-01") + pd.to_timedelta(rows.index, "min"))
        parts.append(rows)
    return pd.concat(parts)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    table().to_parquet(path)
    return str(path)


def states(run: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    capsys.readouterr()
    assert main(["devices", str(run), "--json"]) == 0
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    return {line["model_id"]: line["state"] for line in lines}


def test_only_what_counts_is_off(
    rows: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rules.csv").write_text(OUR_RULES + "p9,,heat,up,\n")
    plain, output = tmp_path / "plain", tmp_path / "run"
    assert main(["track", rows, *TRACK, "--output", str(plain)]) == 0
    named = ("--rules", str(tmp_path / "rules.csv"))
    capsys.readouterr()
    assert main(["track", rows, *TRACK, "--output", str(output), *named]) == 0
    text = capsys.readouterr().out
    assert "muted: 1 episode (heat: up only: 1)" in text
    assert "warning:  --rules names what is not there: p9" in text
    assert states(plain, capsys) == {"p1": "off", "p2": "off", "p3": "off", "p4": "normal"}
    assert states(output, capsys) == {"p1": "normal", "p2": "off", "p3": "off", "p4": "normal"}
    assert "muted: 1 episode (heat: up only: 1)" in (output / "report.html").read_text()
    # Nothing else depends on rules: rows, states, and what episodes are.
    for name in ("features", "snapshots"):
        both = [sorted((run / name).glob("*")) for run in (plain, output)]
        assert [path.read_bytes() for path in both[0] if path.suffix == ".parquet"] == [
            path.read_bytes() for path in both[1] if path.suffix == ".parquet"
        ]
    muted = pq.read_table(output / "episodes").to_pylist()
    assert {(line["model_id"], line.pop("muted")) for line in muted} == {
        *{("p1", "heat: up only"), ("p2", None), ("p3", None)}
    }
    before = pq.read_table(plain / "episodes").to_pylist()
    assert all(line in muted for line in before)
    assert len(before) < len(muted)
    record = json.loads((output / "run.json").read_text())
    assert record["rules"]["groups"] == {"p3": "south", "p4": "south"}
    channels = [each["channel"] for each in record["rules"]["rules"]]
    assert channels == ["heat", "heat", "flow", "heat"]
    assert record["counts"]["episodes"] == 3


def test_flags_spec_score_and_python_say_the_same(
    rows: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        "rank: 3\nbudget: 5\nreference: first\nrules:\n"
        "  - {channel: heat, direction: up}\n"
        "  - {channel: flow, least_deviation: 10}\n"
    )
    flags = ("--direction", "heat=up", "--least-deviation", "flow=10")
    place = (rows, *COLUMNS, "--neighbours", "0", "--workers", "1", "--exclude", "hall")
    runs = tmp_path / "spec", tmp_path / "flags"
    assert main(["track", *place, "--spec", str(spec), "--output", str(runs[0])]) == 0
    own = ("--rank", "3", "--budget", "5", "--reference", "first", "--output", str(runs[1]))
    assert main(["track", *place, *own, *flags]) == 0
    found = [pq.read_table(run / "episodes").to_pylist() for run in runs]
    assert found[0] == found[1]
    assert {line["muted"] for line in found[0]} == {"heat: up only", "flow: by 10 or more"}
    assert set(states(runs[1], capsys).values()) == {"normal"}
    # New rows, none learned.
    late = tmp_path / "late.parquet"
    frame = table().assign(time=lambda rows: rows["time"] + pd.Timedelta("10 days"))
    frame.to_parquet(late)
    scored = tmp_path / "scored"
    known = ("--snapshots", str(runs[1] / "snapshots"), "--exclude", "hall")
    score = ("score", str(late), *COLUMNS, *known, "--output", str(scored))
    assert main([*score, *flags]) == 0
    muted = {line["muted"] for line in pq.read_table(scored / "episodes").to_pylist()}
    assert {"heat: up only", "flow: by 10 or more"} <= muted
    rules: list[dict[str, Any]] = [
        *({"channel": "heat", "direction": "up"}, {"channel": "flow", "least_deviation": 10})
    ]
    fleet = kt.Fleet(rank=3, budget=5, rules=rules)
    fleet.update(table().drop(columns="hall"), model_id="device", time="time")
    last = {line["model_id"]: line for line in found[1]}
    episodes = fleet.episodes.set_index("device")
    assert len(episodes) == 3
    for name, line in episodes.iterrows():
        assert line["muted"] == last[str(name)]["muted"]
    assert "0 off" in repr(fleet)
    fleet.save(tmp_path / "saved")
    loaded = kt.Fleet.load(tmp_path / "saved", rules=rules[:1])
    assert sorted(loaded.episodes["muted"].dropna()) == ["heat: up only"] * 2
    with pytest.raises(kt.ConfigError, match="rules, entry 1, channel"):
        kt.Fleet(rules=[{"channel": "speed", "direction": "up"}]).update(
            table().drop(columns="hall"), model_id="device", time="time"
        )


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--direction", "heat"), "--direction"),
        (("--direction", "speed=up"), "a channel: flow, heat, oil"),
        (("--direction", "heat=left"), "up or down"),
        (("--direction", "heat=up", "heat=down"), "once: heat has up"),
        (("--least-deviation", "heat=much"), "a number above 0"),
        (("--direction", "heat=up", "--rules", "rules.csv"), "once: line 2 has it"),
        (("--rules", "bad.csv"), "bad.csv: line 3, least_deviation"),
        (("--rules", "empty.csv"), "holds no rules"),
        (("--no-group", "--rules", "rules.csv"), "names the group south"),
        (
            ("--no-group", "--reference", "none", "--direction", "heat=up"),
            "left out without --reference",
        ),
    ],
)
def test_what_is_wrong_is_said_before_rows_are_read(
    rows: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    flags: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rules.csv").write_text(OUR_RULES)
    Path("bad.csv").write_text("channel,direction,least_deviation\nheat,up,\nflow,,-2\n")
    Path("empty.csv").write_text("channel,direction\n")
    known = TRACK
    if "--no-group" in flags:
        known = (*COLUMNS, *SMALL, "--exclude", "hall", "--reference", "first")
        flags = flags[1:]
    assert main(["track", rows, *known, "--output", "run", *flags]) == 2
    assert message in capsys.readouterr().err
    assert not Path("run/run.json").exists()
