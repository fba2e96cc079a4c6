"""`kerneltrack feedback`, and `--feedback` of jobs on files, score and Python."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import kerneltrack as kt
from pipelines.cli.main import main
from pipelines.notify.notices import Event
from pipelines.notify.sources import notices_of_run

ROWS = 1500
COLUMNS = ("--model-id", "device", "--time", "time")
JOB = ("--neighbours", "0", "--workers", "1")
TRACK = (*COLUMNS, *JOB, "--rank", "3", "--budget", "5", "--reference", "first")
WHY = "like that since 2026-01-01T11:26:00Z, marked as false"


def table() -> pd.DataFrame:
    """Heat rises on p1 twice, the same on p2 once, flow on p1 and p3 at the end."""
    rng, parts = np.random.default_rng(5), []
    for name in ("p1", "p2", "p3", "p4"):
        rows = pd.DataFrame(rng.normal(size=(ROWS, 3)), columns=["flow", "heat", "oil"])
        for start in {"p1": (700, 1000), "p2": (1000,)}.get(name, ()):
            rows.loc[start : start + 60, "heat"] += 7
        rows.loc[1400:, "flow"] += 7 * (name in ("p1", "p3"))
        rows.insert(0, "device", name)
        rows.insert(1, "time", pd.Timestamp("2026-01-01") + pd.to_timedelta(rows.index, "min"))
        parts.append(rows)
    return pd.concat(parts)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows, a run on them, and feedback: the first episode of p1 was false, the last was a leak."""
    folder = tmp_path_factory.mktemp("site")
    table().to_parquet(folder / "rows.parquet")
    run, to = str(folder / "plain"), ("--to", str(folder / "said.csv"))
    assert main(["track", str(folder / "rows.parquet"), *TRACK, "--output", run]) == 0
    assert main(["feedback", run, "p1", "1", "false", *to, "--why", "cleaned"]) == 0
    assert main(["feedback", run, "p1", "last", "real", *to, "--name", "leak"]) == 0
    return folder


def episodes(run: Path) -> list[dict[str, Any]]:
    return list(pq.read_table(run / "episodes").to_pylist())


def ends(run: Path) -> dict[tuple[str, int], str | None]:
    """Why each episode is muted at its end."""
    return {(line["model_id"], line["episode"]): line["muted"] for line in episodes(run)}


def test_what_was_false_is_not_told_again(
    site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, output, rows = site / "plain", tmp_path / "run", str(site / "rows.parquet")
    flags = ("--feedback", str(site / "said.csv"), "--output", str(output))
    assert main(["track", rows, *TRACK, *flags]) == 0
    text = capsys.readouterr().out
    assert f"muted: 2 episodes ({WHY}: 2)" in text
    assert ends(output) == {
        **{("p1", 1): WHY, ("p1", 2): WHY, ("p1", 3): None},
        **{("p2", 1): None, ("p3", 1): None},
    }
    # It counts from the end of the first one on; the second is muted from its beginning.
    muted = [line["muted"] for line in episodes(output) if line["model_id"] == "p1"]
    assert muted[:3] == [None, None, WHY]
    assert {WHY} == {
        line["muted"]
        for line in episodes(output)
        if (line["model_id"], line["episode"]) == ("p1", 2)
    }
    for name in ("features", "snapshots"):
        both = [sorted((run / name).glob("*.parquet")) for run in (plain, output)]
        assert [path.read_bytes() for path in both[0]] == [path.read_bytes() for path in both[1]]
    said = json.loads((output / "run.json").read_text())["feedback"]
    assert [(each["name"], each["verdict"]) for each in said] == [("", "false"), ("leak", "real")]
    # Real ones give others their names: at the end of the job, in its report, in lists of devices.
    assert re.search(r"p3: since .*, like leak of p1 \(\d+%\), flow", text)
    assert "<small>like leak of p1 (100%)</small>" in (output / "report.html").read_text()
    assert main(["devices", str(output), "--json"]) == 0
    own = capsys.readouterr().out
    assert main(["devices", str(plain), "--faults", str(site / "said.csv"), "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    likes = {line["model_id"]: line["like"] for line in lines}
    assert {line["model_id"]: line["like"] for line in map(json.loads, own.splitlines())} == likes
    summaries = [Event(notice).summary for notice in notices_of_run(str(output))[0]]
    assert any("like leak of p1 (100 %) in flow 100 %" in text for text in summaries)
    like = {line["model_id"]: line["like"] for line in lines if line["state"] == "off"}
    assert {name: (each["name"], each["device"]) for name, each in like.items()} == {
        **{"p1": ("leak", "p1"), "p3": ("leak", "p1")}
    }
    assert like["p1"]["likeness"] == pytest.approx(1.0)


def test_what_is_said_of_a_group_is_said_of_each_of_its_devices(
    site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    halls = {"p1": "north", "p2": "north"}
    rows, run, said = tmp_path / "rows.parquet", tmp_path / "run", tmp_path / "said.csv"
    table().assign(hall=lambda all: all["device"].map(halls).fillna("south")).to_parquet(rows)
    answer = ("p1", "1", "false", "--group", "north", "--to", str(said))
    assert main(["feedback", str(site / "plain"), *answer]) == 0
    assert "and those of north in that time: false" in capsys.readouterr().out
    flags = ("--exclude", "hall", "--feedback", str(said), "--output", str(run))
    assert main(["track", str(rows), *TRACK, *flags]) == 2
    assert "--group" in capsys.readouterr().err
    assert main(["track", str(rows), *TRACK, *flags, "--group", "hall"]) == 0
    assert ends(run) == {
        **{("p1", 1): WHY, ("p1", 2): WHY, ("p1", 3): None},
        **{("p2", 1): WHY, ("p3", 1): None},
    }
    place = ("--snapshots", str(site / "plain" / "snapshots"), "--output", str(tmp_path / "scores"))
    capsys.readouterr()
    assert main(["score", str(rows), *COLUMNS, *place, "--feedback", str(said)]) == 2
    assert "a device: groups are of files" in capsys.readouterr().err
    names = tmp_path / "halls.csv"
    names.write_text("device,group\np1,south\np2,north\n")
    send, by_file = ("--send", "rows", "--brokers", "localhost:1"), ("--groups", str(names))
    wrong: list[tuple[tuple[str, ...], str]] = [
        (send, "--groups = None: must be the file of the groups' devices"),
        ((*send, *by_file, "--partition", "1"), "--partition = 1: must be left out with --group"),
        ((*send, *by_file), "--group = 'north': must be the group of p1 in"),
        (("--to", str(said), *by_file), "left out without --group and --send"),
    ]
    for words, message in wrong:
        assert main(["feedback", str(site / "plain"), *answer[:5], *words]) == 2
        assert message in capsys.readouterr().err


def test_spec_score_and_python_say_the_same(site: Path, tmp_path: Path) -> None:
    with open(site / "said.csv", newline="") as file:
        said = list(csv.DictReader(file))
    spec, place, run = tmp_path / "spec.yaml", (str(site / "rows.parquet"),), tmp_path / "run"
    section = json.dumps([{k: v for k, v in line.items() if v} for line in said])
    spec.write_text(f"rank: 3\nbudget: 5\nreference: first\nfeedback: {section}\n")
    flags = ("--spec", str(spec), "--output", str(run))
    assert main(["track", *place, *COLUMNS, *JOB, *flags]) == 0
    wanted = ends(run)
    assert [why for why in wanted.values() if why] == [WHY] * 2
    # Whatever gives the lines, it is read once.
    lines: Any = iter(said)
    fleet = kt.Fleet(rank=3, budget=5, feedback=lines)
    fleet.update(table(), model_id="device", time="time")
    found = fleet.episodes
    assert (
        dict(zip(zip(found["device"], found["episode"], strict=True), found["muted"], strict=True))
        == wanted
    )
    with pytest.raises(kt.ConfigError, match="feedback counts from a time on"):
        kt.Fleet(feedback=said).update(table().drop(columns="time"), model_id="device")
    with pytest.raises(kt.ConfigError, match="feedback, entry 1, verdict"):
        kt.Fleet(feedback=[{**said[0], "verdict": "?"}]).update(
            table(), model_id="device", time="time"
        )
    # New rows, none learned.
    late, scored = tmp_path / "late.parquet", tmp_path / "scored"
    table().assign(time=lambda rows: rows["time"] + pd.Timedelta("9 days")).to_parquet(late)
    known = ("--snapshots", str(run / "snapshots"), "--feedback", str(site / "said.csv"))
    assert main(["score", str(late), *COLUMNS, *known, "--output", str(scored)]) == 0
    muted = {(line["model_id"], line["muted"]) for line in episodes(scored)}
    assert {("p1", WHY), ("p1", None), ("p2", None)} <= muted
    assert ("p2", WHY) not in muted


def test_an_episode_is_found_by_number_time_or_as_the_last(
    site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, to = str(site / "plain"), ("--to", str(tmp_path / "said.csv"))
    for episode in ("2", "2026-01-01T17:00", "2026-01-01 17:00:30"):
        assert main(["feedback", run, "p1", episode, "false", *to]) == 0
    text = capsys.readouterr().out.splitlines()
    assert text[0].startswith("episode 2 of p1, since 2026-01-01 16:40:00 UTC: false (from 2026-")
    assert text[0].endswith(
        "; with --reference first episodes like it are muted, its rows stay odd)"
    )
    assert [line.endswith("has that already)") for line in text] == [False, True, True]
    assert main(["feedback", run, "p1", "2", "false", *to, "--from", "2026-01-03"]) == 0
    assert "from 2026-01-03 00:00:00 UTC on" in capsys.readouterr().out
    assert len(Path(to[1]).read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("plain", "p1", "7", "false"), "an episode of p1 in plain (1, 2, 3)"),
        (("plain", "p4", "last", "false"), "an episode of p4 in plain (it has none there)"),
        (("plain", "p1", "2025-01-01", "false"), "an episode of p1"),
        (("plain", "p1", "first", "false"), "a time in ISO 8601"),
        (("plain", "p1", "1", "false", "--name", "leak"), "--name"),
        (("plain", "p1", "1", "false", "--topic", "t"), "left out with the folder plain"),
        (("plain", "p1", "1", "false", "--from", "soon"), "--from"),
        (("plain", "p1", "1", "false", "--to", "rows.parquet"), "rows.parquet: "),
        (("p1", "1", "false"), "a run's folder, or --topic TOPIC"),
        (("plain", "p1", "1", "false", "--partition", "2"), "left out without --send"),
    ],
)
def test_what_is_wrong_is_said(
    site: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(site)
    to = () if "--to" in words else ("--to", "other.csv")
    assert main(["feedback", *words, *to]) == 2
    assert message in capsys.readouterr().err
    assert not Path("other.csv").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((*COLUMNS, "--reference", "first", "--feedback", "bad.csv"), "bad.csv: line 3, verdict"),
        (
            (*COLUMNS, "--reference", "first", "--feedback", "empty.csv"),
            "must have the columns device, since, until, verdict, from, kind, channels",
        ),
        (
            (*COLUMNS, "--reference", "first", "--exclude", "flow", "--feedback", "said.csv"),
            "said.csv: line 2, channels = 'flow': must be a channel: heat, oil",
        ),
        ((*COLUMNS, "--feedback", "said.csv"), "left out without --reference"),
        (("--model-id", "device", "--reference", "first", "--feedback", "said.csv"), "--time"),
    ],
)
def test_jobs_refuse_it_by_line_before_rows_are_read(
    site: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    flags: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    text = Path(shutil.copy(site / "said.csv", "said.csv")).read_text()
    Path("bad.csv").write_text(text.replace(",real,", ",rael,"))
    Path("empty.csv").write_text("")
    assert main(["track", str(site / "rows.parquet"), *flags, *JOB, "--output", "run"]) == 2
    assert message in capsys.readouterr().err
    assert not Path("run/run.json").exists()


def test_devices_that_are_not_there_are_named(
    site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = tmp_path / "said.csv"
    said.write_text((site / "said.csv").read_text().replace("p1,", "p9,"))
    flags = ("--feedback", str(said), "--output", str(tmp_path / "run"))
    assert main(["track", str(site / "rows.parquet"), *TRACK, *flags]) == 0
    assert "warning:  --feedback names what is not there: p9" in capsys.readouterr().out


def test_a_file_may_have_no_line_yet(site: Path, tmp_path: Path) -> None:
    said = tmp_path / "said.csv"
    said.write_text((site / "said.csv").read_text().splitlines()[0] + "\n")
    flags = ("--feedback", str(said), "--output", str(tmp_path / "run"))
    assert main(["track", str(site / "rows.parquet"), *TRACK, *flags]) == 0
    assert {*ends(tmp_path / "run").values()} == {None}
