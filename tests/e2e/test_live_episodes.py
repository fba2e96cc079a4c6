"""Episodes of a live job on a real Flink: a line when one opens, one when it closes, once each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kerneltrack.monitor.feedback import FIELDS
from pipelines.cli.main import main
from pipelines.topics.admin import Topics
from tests.e2e.clusters import LocalCluster, wait_for
from tests.e2e.jobs import features_of, table_of, track
from tests.e2e.kills import Killer
from tests.e2e.live import CHANNELS, COLUMNS, SPECS, Live, Recording, assert_same_bits, record
from tests.e2e.quiet_told import ToldTimes

ROWS = 1200
BROKEN = range(610, 650)
REFERENCE = ("--reference", "first", "--reference-per", "100000 rows", "--reference-rows", "384")
SCORES = ("ref_loss", "ref_distance", "ref_score", "ref_settled", "p")
EPISODE = (
    *("episode", "state", "kind", "severity", "p", "time", "start_index", "start"),
    *("detected_index", "detected", "last_index", "last", "shares", "deviations"),
)
DEVICES = "devices-now"
HISTORY = ROWS // 2
SEED = 7


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """Rows of four devices, 50 a second; two of them are off for forty rows."""
    folder, tables = tmp_path_factory.mktemp("episodes"), []
    for number in range(4):
        rng = np.random.default_rng(number)
        waves = np.sin(np.arange(ROWS)[:, None] / 9 + rng.uniform(0, 6, 2))
        rows = waves @ rng.normal(size=(2, 6)) + 0.3 * rng.normal(size=(ROWS, 6))
        if number % 2:
            rows[BROKEN, number] += 12 * rows[:, number].std()
        columns = {
            "model_id": [f"device-{number}"] * ROWS,
            "time": pa.array(np.arange(ROWS) * 20, pa.timestamp("ms", "UTC")),
            **{name: rows[:, place] for place, name in enumerate(CHANNELS)},
            "label": np.where(waves[:, 0] > 0, "up", "down").tolist(),
        }
        tables.append(pa.table(columns))
    path = folder / "made.parquet"
    pq.write_table(pa.concat_tables(tables), path)
    return record(path, folder / "rows", ROWS)


def test_episodes_are_those_of_the_file_job_through_a_kill_and_a_savepoint(
    cluster: LocalCluster,
    recording: Recording,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = tmp_path / "files"
    files = [str(path) for path in recording.files]
    track(*files, *COLUMNS, *SPECS, *REFERENCE, "--output", str(output))
    wanted = table_of(output, "episodes").sort_by(
        [("model_id", "ascending"), ("index", "ascending")]
    )
    # None lasts to the end, which a live job does not have.
    for name in ("device-1", "device-3"):
        lines = wanted.filter(pa.compute.equal(wanted["model_id"], name))
        assert lines["state"].to_pylist() == ["open", "closed"]
    assert len(wanted) == 2 * 2
    live = Live(cluster, "episodes", "arrow")
    live.make_topic(4)
    first, second, third, last = recording.portions
    live.send(first, 5)
    live.send(second, 5)
    flags = (*REFERENCE, "--checkpointing_interval=500", "--devices-topic", DEVICES)
    job = live.start(*flags)
    live.read("", 1, tmp_path)
    Killer(live, job, SEED).kill_beneath("taskmanager", third, 0.4)
    assert main(["stop", *live.place, "--savepoint"]) == 0
    with live.running(*flags, "--resume", "latest"):
        live.send(last, 5)
        rows = recording.features.num_rows
        features = live.read("", rows, tmp_path)
        episodes = live.read("-episodes", len(wanted), tmp_path)
        again = {name: told_again(wanted, name) for name in ("device-1", "device-3")}
        more = sum(map(len, again.values()))
        devices = read_devices(live, 4 * 2 + len(wanted) + more, tmp_path)
        assert devices_now(capsys, *live.place, "--topic", DEVICES) == devices_now(
            capsys, str(output)
        )
    expected = features_of(output)
    expected = expected.filter(pa.compute.less(expected["index"], ROWS))
    assert_same_bits(features, expected, SCORES)
    assert_same_bits(episodes, wanted, EPISODE)
    assert Topics(live.client).cleanup_policy(DEVICES) == "compact"
    for number in range(4):
        name = f"device-{number}"
        lines = [line for line in devices if line["model_id"] == name]
        further = again.get(name, [])
        off = ["off", *("off" for _ in further), "normal"] if number % 2 else []
        assert len(further) == number % 2
        assert [line["state"] for line in lines] == ["learning", "normal", *off]
        assert [line["rows"] - 1 for line in lines[3:-1]] == further
        assert [line["rows"] for line in lines[:2]] == [0, 385]
        output_text = wanted.filter(pa.compute.equal(wanted["model_id"], name)).to_pylist()
        changed = [*lines[2:3], *lines[-1:]] if output_text else []
        for line, episode in zip(changed, output_text, strict=True):
            assert line["rows"] == episode["index"] + 1
            for column in ("episode", "kind", "severity", "p", "start_index", "last_index"):
                assert line[column] == episode[column], column
            first = line["channels"][0]
            assert first["channel"] == CHANNELS[number]
            assert first["share"] == max(episode["shares"])


def devices_now(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    """What `kerneltrack devices` says, but for what only a topic, or a run, knows.

    A topic has the row of a device's last change, and since when one is normal that never was off.
    """
    capsys.readouterr()
    assert main(["devices", *words, "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["model_id"] for line in lines] == [f"device-{number}" for number in range(4)]
    of_no_episode = {"since": 0, "since_index": 0}
    return [
        {**line, "rows": 0, "time": 0, **(of_no_episode if line["episode"] is None else {})}
        for line in lines
    ]


def told_again(episodes: pa.Table, name: str) -> list[int]:
    """The rows after which a device's only episode is told of once more, while it is open."""
    opened, closed = episodes.filter(pa.compute.equal(episodes["model_id"], name))[
        "index"
    ].to_pylist()
    return [row for row in (opened + 32, opened + 128) if row < closed]


def read_devices(live: Live, rows: int, folder: Path) -> list[dict[str, Any]]:
    """What is said of the devices, each line once, in the order in which it holds."""
    path = folder / "devices.parquet"
    place = (*live.place, "--topic", DEVICES, "--output-format", "json")
    limits = ("--rows", str(rows), "--idle", "100")
    assert main(["read-output", *place, *limits, "--output", str(path)]) == 0
    lines: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return sorted(lines, key=lambda line: (line["model_id"], line["rows"]))


def from_row(table: pa.Table, row: int) -> pa.Table:
    return table.filter(pa.compute.greater_equal(table["index"], row))


def same_again(portion: Path, path: Path) -> Path:
    """Write the rows in which a device was off a second time, after all others; return the file.

    The last row of the recording is ten seconds after those before it.
    """
    rows = pq.read_table(portion)
    rows = rows.filter(pa.compute.equal(rows["model_id"], "device-1"))
    later = pa.compute.add(rows["time"], pa.scalar(30_000, pa.duration("ms")))
    times = later.cast(rows.schema.field("time").type)
    pq.write_table(rows.set_column(rows.column_names.index("time"), "time", times), path)
    return path


def test_history_then_live_is_one_job(
    cluster: LocalCluster,
    recording: Recording,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A history of files, then a live job that reads the topic from before the history's end.

    While it runs somebody says that an episode was false: the next one like it is muted.
    """
    order = [("model_id", "ascending"), ("index", "ascending")]
    whole, history = tmp_path / "whole", tmp_path / "history"
    files = [str(path) for path in recording.files]
    (tmp_path / "said.csv").write_text(",".join(FIELDS) + "\n")
    said = ("--feedback", str(tmp_path / "said.csv"))
    track(*files, *COLUMNS, *SPECS, *REFERENCE, *said, "--output", str(whole))
    first, second, third, last = recording.portions
    track(str(first), str(second), *COLUMNS, *SPECS, *REFERENCE, "--output", str(history))
    live = Live(cluster, "history-then-live", "arrow")
    live.make_topic(2)
    # The topic still has the history's second half.
    for part in (second, third, last):
        live.send(part, 5)
    # As typed in the folder of the history; workers have another working directory.
    monkeypatch.chdir(tmp_path)
    warm = ("--warm-start", "history/snapshots", "--overlap", "drop")
    expected = from_row(table_of(whole, "episodes").sort_by(order), HISTORY)
    rows = recording.features.num_rows * (ROWS - HISTORY) // ROWS
    with live.running(*REFERENCE, *warm, *said):
        features = live.read("", rows, tmp_path)
        predictions = live.read("-predictions", rows, tmp_path)
        episodes = live.read("-episodes", len(expected), tmp_path)
        answer = ("device-1", "last", "false", "--send", live.topic)
        assert main(["feedback", str(whole), *answer, *live.place]) == 0
        live.send(same_again(third, tmp_path / "again.parquet"), 20)
        more = live.read("-episodes", len(expected) + 1, tmp_path).to_pylist()
        muted = {line["muted"] for line in more if line["episode"] == 2}
        assert muted == {"like that since 1970-01-01T00:00:12Z, marked as false"}
        assert sum(live.sizes(f"{live.topic}-out-dead-letters")) == 0
    wanted = features_of(whole).sort_by(order)
    wanted = wanted.filter(pa.compute.less(wanted["index"], ROWS))
    assert_same_bits(features, from_row(wanted, HISTORY), ("loss", "novelty", "z", *SCORES))
    settled = from_row(recording.predictions, HISTORY)
    assert_same_bits(predictions, settled, ("prediction", "score", "label"))
    assert_same_bits(episodes, expected, EPISODE)
    before = wanted.filter(pa.compute.less(wanted["index"], HISTORY))
    assert_same_bits(features_of(history).sort_by(order), before, ("loss", "z", *SCORES))


@pytest.mark.nightly
def test_quiet_times_told_while_it_runs_are_those_of_a_file_on_flink_too(
    cluster: LocalCluster, recording: Recording, tmp_path: Path
) -> None:
    live, told = Live(cluster, "told-on-flink", "json"), ToldTimes(recording, tmp_path, *REFERENCE)
    live.make_topic(3)
    first, second, third, last = recording.portions
    flags = (*REFERENCE, "--checkpointing_interval=500")
    job = live.start(*flags)
    live.send(first, 5)
    live.send(second, 5)
    told.tell(live)
    Killer(live, job, SEED).kill_beneath("taskmanager", third, 0.4)
    assert main(["stop", *live.place, "--savepoint"]) == 0
    with live.running(*flags, "--resume", "latest"):
        live.send(last, 5)
        told.check(live)


@pytest.mark.nightly
def test_devices_that_send_nothing_are_off_on_flink_too(
    cluster: LocalCluster, recording: Recording, capsys: pytest.CaptureFixture[str]
) -> None:
    devices, live = "silent-on-flink", Live(cluster, "silent-flink", "json")
    live.make_topic(2)
    names = set(pq.read_table(recording.portions[0]).column("model_id").to_pylist())

    def silent() -> set[str]:
        capsys.readouterr()
        assert main(["devices", *live.place, "--topic", devices, "--json"]) == 0
        lines = map(json.loads, capsys.readouterr().out.splitlines())
        return {line["model_id"] for line in lines if line["kind"] == "silent"}

    with live.running(*REFERENCE, "--devices-topic", devices, "--silent-after", "5s"):
        live.send(recording.portions[0], 20)
        wait_for("silent devices", lambda: silent() == names)
        live.send(recording.portions[1], 20)
        wait_for("their rows", lambda: not silent())
        wait_for("silent devices", lambda: silent() == names)
