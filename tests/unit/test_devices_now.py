"""`kerneltrack devices`: what a run, or a topic, says of each device now."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.errors import ConfigError, DataError
from kerneltrack.monitor.likeness import KnownFault, channel, likeness
from pipelines.cli.groups_file import read_groups
from pipelines.cli.main import main
from pipelines.devices.of_run import lines_of_run
from pipelines.devices.of_topic import take
from pipelines.files.neighbours import SCHEMA
from pipelines.report.data.files import read_run
from tests.e2e.jobs import environment
from tests.parts import examples
from tests.report_runs import SECOND, START, features, put, run_folder, times
from tests.unit.test_report_episodes import episode, neighbour
from transforms.write.schemas import devices_schema, episodes_schema

ROWS = {"m2": 100, "m10": 100, "m1": 30}
FIRST: dict[str, Any] = {"reference": {"learning": "first", "rows": 64, "until": None}}


def rows(timed: bool = True, held: bool = True) -> pa.Table:
    """Rows a second apart; their p is there from the 64th on."""
    index = np.concatenate([np.arange(many) for many in ROWS.values()])
    columns: dict[str, Any] = {}
    if timed:
        columns["time"] = times((START + index * SECOND).tolist())
    if held:
        columns["p"] = pa.array(np.full(len(index), 0.5), mask=index < 64)
    return features(ROWS, **columns)


def run(
    output: Path,
    *lines: Mapping[str, Any],
    timed: bool = True,
    held: bool = True,
    **output_text: Any,
) -> str:
    folder = run_folder(output, rows(timed, held), **output_text)
    if held:
        put(output, "episodes", pa.Table.from_pylist(list(lines), episodes_schema(timed, 3)))
    return folder


def known(output: str) -> dict[str, dict[str, Any]]:
    return {line["model_id"]: line for line in lines_of_run(output, read_run(output))}


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main(["devices", *words]) == 0
    return capsys.readouterr().out.splitlines()


def test_the_table_has_who_is_off_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = (
        episode("m2", 1, severity=9.0),
        episode("m2", 2, state="open", severity=80.0, kind="ramp"),
        episode("m10", 1, state="open", index=60, severity=90.0),
        episode("m10", 1, index=70, severity=90.0),
    )
    output = run(tmp_path / "out", *lines, **FIRST)
    assert [" ".join(line.split()) for line in printed(capsys, output)] == [
        "1 of 3 devices is off (1 well, 1 calibrating)",
        "device state since kind channels: share (+ above, - below usual) last row",
        "m2 off 2017-07-14 02:40:40 UTC ramp a 70% (-3.2), b 26% (+0.50) 2017-07-14 02:41:39 UTC",
        "m10 well 2017-07-14 02:41:10 UTC 2017-07-14 02:41:39 UTC",
        "m1 calibrating until row 64 2017-07-14 02:40:29 UTC",
    ]


def test_a_device_that_is_unlike_the_others_is_named_before_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its own rows it is well: only the others show that it was faulty from the first row."""
    about = {"compared": 3, "of": 3, "views": ["ties"], "unlike": 1}
    output = run(tmp_path, **FIRST, neighbours=about)
    lines = [neighbour("m1", 1.4, 1.0, 0.0), neighbour("m2", 0.2, 0.0, 0.0)]
    put(tmp_path, "neighbours", pa.Table.from_pylist(lines, SCHEMA))
    found = printed(capsys, output)
    assert found[1:3] == [
        "1 of 3 devices is unlike the others:",
        "  m1: in how its channels go together, in a row and from row to row: b (1.40 x the limit)",
    ]
    assert found[3].startswith("device ")


def test_states_are_asked_for_as_the_table_names_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = run(tmp_path / "out", **FIRST)
    for name in ("well", "normal"):
        _, _, *lines = printed(capsys, output, "--state", name)
        assert [line.split()[:2] for line in lines] == [["m2", "well"], ["m10", "well"]]


@pytest.mark.parametrize(
    ("memory", "more", "state"),
    [
        ("1 minute", {}, "normal"),
        ("2 minutes", {}, "learning"),
        ("1024 rows", {}, "normal"),
        ("1200 rows", {}, "learning"),
        ("2 minutes", {"warm_start": "out"}, "normal"),
    ],
)
def test_one_that_moves_calibrates_until_its_rows_span_its_memory(
    memory: str, more: dict[str, Any], state: str, tmp_path: Path
) -> None:
    index = np.arange(1100)
    at = START + (index * (60 if "minute" in memory else 1000)) * SECOND // 1000
    moves = {"reference": {"learning": "auto", "memory": memory}, **more}
    p = pa.array(np.full(len(index), 0.5), mask=index < 64)
    columns = {"time": times(at.tolist()), "p": p}
    folder = run_folder(tmp_path / "out", features({"m": len(index)}, **columns), **moves)
    put(tmp_path / "out", "episodes", pa.Table.from_pylist([], episodes_schema(True, 3)))
    assert known(folder)["m"]["state"] == state


@pytest.mark.parametrize(("height", "shown"), [(24, ["m2", "m10", "m1"]), (5, ["m2", "m1"])])
def test_a_terminal_keeps_who_is_off_in_sight(
    height: int, shown: list[str], tmp_path: Path
) -> None:
    output = run(tmp_path / "out", episode("m2", 1, state="open", severity=80.0), **FIRST)
    receiver, terminal = pty.openpty()
    command = [sys.executable, "-m", "pipelines.cli", "devices", output]
    lines = {**environment(), "LINES": str(height), "COLUMNS": "200"}
    subprocess.run(command, env=lines, stdout=terminal, check=True)
    os.close(terminal)
    total, _, *text = os.read(receiver, 10_000).decode().splitlines()
    os.close(receiver)
    assert total == "1 of 3 devices is off (1 well, 1 calibrating)"
    note = ["1 more is well: --state well lists them"] if len(shown) < 3 else []
    assert [line.split()[0] for line in text[: len(shown)]] == shown
    assert text[len(shown) :] == note


def test_a_change_that_has_lasted_is_not_well_until_the_device_has_recovered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lasting = (
        episode("m2", 1, state="steady", kind="stuck", index=70, severity=80.0),
        episode("m2", 2, index=90, severity=9.0),
        episode("m10", 1, state="steady", index=70),
        episode("m10", 2, kind="recovered", index=90),
    )
    output = run(tmp_path / "out", *lasting, **FIRST)
    found = known(output)
    assert (found["m2"]["state"], found["m2"]["kind"]) == ("changed", "stuck")
    assert (found["m2"]["since_index"], found["m2"]["episodes"]) == (40, 2)
    assert (found["m10"]["state"], found["m1"]["state"]) == ("normal", "learning")
    head, first, *_ = printed(capsys, output, "--csv", "--state", "off", "changed")
    assert head == "device,state,since,kind,severity,channels,last row"
    assert first.startswith("m2,changed,2017-07-14 02:40:40 UTC,stuck,80.0,")
    still = episode("m10", 3, state="open", index=95)
    output = run(tmp_path / "again", *lasting, still, **FIRST)
    assert known(output)["m10"]["state"] == "off"


def test_times_are_those_of_the_site(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    still = episode("m2", 1, state="open")
    output = run(tmp_path / "out", still, **FIRST, times={"zone": "Europe/Berlin"})
    for words in ([output], [output, "--csv"]):
        first = printed(capsys, *words, "--state", "off")[-1]
        assert "2017-07-14 04:40:40 CEST" in first
    assert known(output)["m2"]["since"].startswith("2017-07-14T02:40:40")


def test_a_device_that_differs_by_day_to_the_end_has_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = run(
        tmp_path / "out",
        episode("m10", 1, state="open", index=95),
        **FIRST,
        periods={"length": "day"},
        differences={"judged": 3},
    )
    common: dict[str, Any] = {
        "group": None,
        "noticed": START,
        "last": START,
        "number": "level",
        "up": True,
        "score": 9.0,
        "changed": 1,
        "of": 3,
        "channel": "b",
        "start": START,
    }
    spells: list[dict[str, Any]] = [
        {"model_id": "m2", "state": "open"},
        {"model_id": "m1", "state": "closed"},
        {"model_id": "m10", "state": "open"},
        {"model_id": None, "state": "closed", "group": "hall 1"},
        {"model_id": None, "state": "open", "group": "hall 2", "changed": 31, "of": 40},
    ]
    table = pa.Table.from_pylist([{**common, **spell} for spell in spells])
    for name in ("start", "noticed", "last"):
        moments = table.column(name).cast(pa.timestamp("ns", tz="UTC"))
        table = table.set_column(table.schema.get_field_index(name), name, moments)
    put(tmp_path / "out", "differences", table)
    found = known(output)
    assert (found["m2"]["state"], found["m2"]["kind"]) == ("changed", "by day")
    assert found["m2"]["channels"] == [{"channel": "b", "share": 1.0, "deviation": None}]
    assert found["m2"]["since"].startswith("2017-07-14T02:40:00")
    assert (found["m10"]["state"], found["m1"]["state"]) == ("off", "learning")
    head = printed(capsys, output)[:3]
    shared = [line for line in head if line.startswith("common cause")]
    assert shared == [
        "common cause: 31 of 40 devices of hall 2 changed on 2017-07-14: b higher",
    ]


def test_json_has_the_fields_of_the_devices_topic(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for timed in (True, False):
        lines = (episode("m2", state="open", timed=timed),)
        output = run(tmp_path / f"out-{timed}", *lines, timed=timed, **FIRST)
        found = [json.loads(line) for line in printed(capsys, output, "--json")]
        names = {"model_id", *devices_schema(timed, 3).names} - {"shares", "deviations"}
        names |= {"channels"}
        assert [set(line) for line in found] == [names] * 3
        assert [(line["model_id"], line["state"]) for line in found] == [
            ("m2", "off"),
            ("m10", "normal"),
            ("m1", "learning"),
        ]
        assert [line["rows"] for line in found] == [100, 100, 30]
        assert found[0]["since_index"] == 40
        assert found[0]["channels"] == [
            {"channel": "a", "share": 0.7, "deviation": -3.21},
            {"channel": "b", "share": 0.26, "deviation": 0.5},
            {"channel": "c", "share": 0.04, "deviation": None},
        ]
        assert found[1]["channels"] is None
        if timed:
            assert found[0]["since"] == "2017-07-14T02:40:40.000000000Z"
            assert found[0]["time"] == "2017-07-14T02:41:39.000000000Z"
    some = printed(capsys, output, "--json", "--state", "off", "learning")
    assert [json.loads(line)["model_id"] for line in some] == ["m2", "m1"]
    # The first line counts all devices, whichever are listed.
    total = "1 of 3 devices is off (1 well, 1 calibrating)"
    assert printed(capsys, output, "--state", "unwatched") == [total]
    listed = printed(capsys, output, "--state", "off")
    assert listed[0] == total and [line.split()[0] for line in listed[2:]] == ["m2"]


def test_without_a_reference_nothing_is_known(tmp_path: Path) -> None:
    states = {name: line["state"] for name, line in known(run(tmp_path / "a", held=False)).items()}
    assert states == dict.fromkeys(ROWS, "unwatched")
    given = known(run(tmp_path / "b", **FIRST, reference_from="good/snapshots"))
    assert {name: line["state"] for name, line in given.items()} == {
        "m2": "normal",
        "m10": "normal",
        "m1": "unwatched",
    }


@settings(max_examples=examples(20))
@given(st.randoms(), st.integers(1, 5))
def test_the_order_of_rows_and_files_does_not_matter(
    tmp_path_factory: pytest.TempPathFactory, random: Any, files: int
) -> None:
    lines = [episode("m2", 1), episode("m2", 2, state="open"), episode("m10", 1)]
    wanted = known(run(tmp_path_factory.mktemp("one") / "out", *lines, **FIRST))
    random.shuffle(lines)
    output = run(tmp_path_factory.mktemp("other") / "out", *lines, **FIRST)
    table = rows()
    order = list(range(len(table)))
    random.shuffle(order)
    mixed, step = table.take(pa.array(order)), -(-len(order) // files)
    for number in range(files):
        part = mixed.slice(number * step, step)
        pq.write_table(part, Path(output) / "features" / f"part-{number}.parquet")
    assert known(output) == wanted


def test_a_watch_prints_what_changes_until_it_is_ended(tmp_path: Path) -> None:
    output = run(tmp_path / "out", episode("m2", state="open"), **FIRST)
    words = [sys.executable, "-m", "pipelines.cli", "devices", output, "--json", "--watch", "0.05"]
    flags = ("--state", "off")
    with subprocess.Popen([*words, *flags], stdout=subprocess.PIPE, text=True) as watch:
        assert watch.stdout is not None
        before = json.loads(watch.stdout.readline())
        run_json = tmp_path / "out" / "run.json"
        # A job that writes the folder anew takes the record away first, and writes it last.
        hidden = run_json.rename(tmp_path / "hidden")
        put(output, "episodes", pa.Table.from_pylist([episode("m2")], episodes_schema(True, 3)))
        hidden.rename(run_json)
        after = json.loads(watch.stdout.readline())
        watch.send_signal(signal.SIGINT)
        assert watch.stdout.read() == ""
    assert watch.returncode == 130
    assert (before["model_id"], before["state"]) == ("m2", "off")
    assert (after["model_id"], after["state"]) == ("m2", "normal")


def test_the_newest_message_of_a_device_counts() -> None:
    newest: dict[str, dict[str, Any]] = {}
    line = {"model_id": "a", "state": "off", "rows": 5, "since_index": 3, "episodes": 1}
    for row in (
        {**line, "channels": []},
        {**line, "model_id": "b", "channels": []},
        {**line, "state": "normal", "rows": 9, "channels": []},
        {"model_id": "b", "state": "gone"},
        {"model_id": "c", "state": "gone"},
    ):
        take(newest, row, "devices")
    assert newest == {"a": {**line, "state": "normal", "rows": 9, "channels": []}}
    features_row = {"model_id": "a", "index": 3, "p": 0.5}
    with pytest.raises(DataError, match="devices: has a message that is no state of a device"):
        take(newest, features_row, "devices")


WRONG = {
    "neither": ([], "DIR"),
    "both": (["out", "--topic", "t"], "left out with the folder out"),
    "brokers of a folder": (["out", "--brokers", "a:1"], "--brokers"),
    "a setting of a client of a folder": (["out", "--client", "a=b"], "--client"),
    "periods of a folder": (["out", "--periods-topic", "t"], "--periods-topic = 't': must be left"),
    "groups of a folder": (["out", "--groups", "a.csv"], "--groups = 'a.csv': must be left out"),
    "no brokers": (["--topic", "t"], "--brokers"),
    "no time": (["out", "--watch", "0"], "seconds, above 0, at most 86400"),
    "a table and JSON": (["out", "--csv", "--json"], "left out with --json"),
    "a state that is none": (["out", "--state", "ill"], "ill"),
    "a folder that is none": (["nowhere"], "run.json"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words, text = WRONG[name]
    assert main(["devices", *words]) in (1, 2)
    assert text in capsys.readouterr().err


def test_a_run_of_score_is_refused(tmp_path: Path) -> None:
    output = run_folder(tmp_path / "out", None)
    with pytest.raises(ConfigError, match="kerneltrack track"):
        lines_of_run(output, read_run(output))


def test_devices_are_named_after_known_faults_of_their_run_or_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    far: dict[str, Any] = {"shares": [0.9, 0.1, 0.0], "deviations": [-8.0, 2.0, None]}
    lines = [
        episode("m2", state="open", **far),
        episode("m10", state="open", shares=[0.0, 0.1, 0.9], deviations=[None, 2.0, 5.0]),
    ]
    output = run(tmp_path / "out", *lines, **FIRST)
    # The newest line of the episode counts.
    before = episode("m10", index=50, state="open", shares=[0.0, 0.0, 1.0])
    old = run(tmp_path / "old", before, episode("m10", state="open"), **FIRST)
    faults = tmp_path / "faults.csv"
    faults.write_text(f"name,device,episode,run\nleak,m10,1,\nbearing,m10,1,{old}\n")
    table = printed(capsys, output, "--faults", str(faults))
    assert any("shift, like bearing of m10 (75%) a 90% (-8.0)" in _joined(line) for line in table)
    assert any("shift, like leak of m10 (100%)" in line for line in table)
    parts = ["--faults", str(faults), "--json"]
    named = {line["model_id"]: line for line in map(json.loads, printed(capsys, output, *parts))}
    likeness = 0.9**0.5 * 0.7**0.5 * (3.21 / 8) ** 0.25 + 0.026**0.5 * (0.5 / 2) ** 0.25
    expected = {"name": "bearing", "device": "m10", "likeness": pytest.approx(likeness)}
    assert (named["m2"]["like"], named["m1"]["like"]) == (expected, None)
    plain = {line["model_id"]: line for line in map(json.loads, printed(capsys, output, "--json"))}
    assert {name: {**line, "like": named[name]["like"]} for name, line in plain.items()} == named


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("name,device\nleak,m2\n", "must be a mapping with name, device, episode"),
        ("name,device,episode\n,m2,1\n", "line 2, name"),
        ("name,device,episode\nleak,m2,first\n", "line 2, episode = 'first'"),
        ("name,device,episode\nleak,m2,1\nleak,m1,7\n", "line 3, episode = 7: must be one of m1"),
        ("name,device,episode\n", "entries = 0"),
    ],
)
def test_a_file_of_faults_is_refused_by_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, error: str
) -> None:
    output = run(tmp_path / "out", episode("m2"), **FIRST)
    (tmp_path / "faults.csv").write_text(text)
    assert main(["devices", output, "--faults", str(tmp_path / "faults.csv")]) != 0
    assert error in capsys.readouterr().err
    assert main(["devices", "--topic", "t", "--faults", str(tmp_path / "faults.csv")]) != 0


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("device,hall\np1,a\n", "must have the columns device, group"),
        ("device,group\np1,\n", "line 2, group = None: must be a text"),
        ("device,group\np1,a\np2,a\np1,b\n", "line 4, group = 'b': must be 'a', its group in"),
        ("device,group\n", "entries = 0"),
    ],
)
def test_a_file_of_groups_is_refused_by_line(tmp_path: Path, text: str, error: str) -> None:
    path = tmp_path / "groups.csv"
    path.write_text(text)
    with pytest.raises(DataError) as raised:
        read_groups(str(path))
    assert error in str(raised.value)


def test_groups_are_written_as_lists_of_yaml_too(tmp_path: Path) -> None:
    path = tmp_path / "groups.yaml"
    path.write_text("- {device: p1, group: hall 1}\n- {device: 7, group: 2}\n")
    assert read_groups(str(path)) == {"p1": "hall 1", "7": "2"}


@pytest.mark.parametrize(
    ("kind", "fault", "wanted"),
    [
        ("stuck", "stuck", 0.6),
        ("shift", "stuck", 0.0),
        ("stuck", "shift", 0.0),
        ("spike", "ramp", 0.6 / 4**0.25),
    ],
)
def test_stuck_channels_are_like_stuck_channels(kind: str, fault: str, wanted: float) -> None:
    known = KnownFault("cable", "m", fault, [channel("a", 1.0, 4.0), channel("b", 0.0, None)])
    mine = [channel("a", 0.36, 1.0), channel("c", 0.64, 1.0)]
    assert likeness(kind, mine, known) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("mine", "other", "wanted"),
    [(None, None, 1), (None, 2.0, 0), (2.0, None, 0), (2.0, -2.0, 0), (-2.0, -32.0, 0.5)],
)
def test_sides_are_alike_or_not_known_in_both(
    mine: float | None, other: float | None, wanted: float
) -> None:
    known = KnownFault("cable", "m", "shift", [channel("a", 1.0, other)])
    assert likeness("shift", [channel("a", 1.0, mine)], known) == pytest.approx(wanted)


def _joined(line: str) -> str:
    return " ".join(line.split())
