"""What the live job's commands refuse before anything runs, and what they write down."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kerneltrack.errors import ConfigError, DataError
from pipelines.cli import main as cli
from pipelines.cli.main import parser_of
from pipelines.flink.client import Flink
from pipelines.live.columns import columns_from_flags
from pipelines.live.jobs import FORMATS, Left, Place, Record, check_same, find_left, read_record
from pipelines.topics.read_output import Once
from pipelines.topics.replay import Replay, _flags
from tests.e2e.jobs import run_process
from transforms.kafka.gather import Gathering
from transforms.kafka.messages import Message
from transforms.read.column_options import ColumnOptions
from transforms.read.files import ReadChunks
from transforms.read.parse import parsed_of

SAMPLE = Path(__file__).resolve().parents[2] / "samples" / "watch.parquet"

STREAM = ["stream", "--topic", "in", "--output-topic", "out", "--flink", "localhost:1"]
JOB = ["--state-folder", "jobs", "--runner=PortableRunner", "--expansion-service", "localhost:1"]


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        ([], "--features = '': must be the names of the fields that are features"),
        (["--features", "x", "x"], "--features = 'x': must be another field than --features"),
        (["--features", "x", "--time", "x"], "another field than --time"),
        (["--features", "x", "--missing", "drop"], "--missing = 'drop': must be fail or hold"),
        (
            ["--features", "x", "--time-zone", "Europe/Berlin", "--time-ambiguous", "infer"],
            "--time-ambiguous = 'infer': must be fail, earliest or latest: what comes later would",
        ),
        (["--features", "x", "--exclude", "y"], "--exclude = 'y': must be left out"),
        (["--features", "x", "--learner", "ridge"], "--learner = 'ridge': must be none without"),
        (["--features", "x", "--snapshot-every", "5"], "left out without --snapshots"),
        (["--features", "x", "--snapshots", "d"], "left out without --snapshot-every or --exp"),
        (
            ["--features", "x", "--duplicates", "drop", "--max-disorder", "0"],
            "--duplicates = 'drop': must be keep where --max-disorder is 0",
        ),
        (
            ["--features", "x", "--periods", "day", "--max-disorder", "0"],
            "--max-disorder = 0.0: must be above 0 with periods",
        ),
        (["--features", "x", "--periods-limit", "9"], "--periods-limit is given"),
        (["--features", "x", "--metric", "m"], "--value = None: must be the column of values"),
        (["--metric", "m", "--value", "v"], "--features = '': must be the names of the fields"),
        (["--features", "x", "--metric", "m", "--value", "m"], "another field than --metric"),
        (
            ["--features", "x", "--metric", "m", "--value", "v", "--max-disorder", "0"],
            "--max-disorder = '0': must be over 0 with --metric",
        ),
        (["--features", "x", "--expire-after", "60"], "left out without --snapshots"),
        (["--features", "x", "--devices-topic", "d"], "left out without --reference"),
        (["--features", "x", "--overlap", "drop"], "left out without --warm-start"),
        (
            ["--features", "x", "--expire-after", "9", "--snapshots", "d"],
            "--expire-after = 9.0: must be more than --idle-flush = 10",
        ),
        (["--features", "x", "--metrics-window", "5"], "left out without --learner"),
        (["--features", "x", "--max-disorder", "inf"], "--max-disorder = inf: must be a finite"),
        (["--features", "x", "--max-disorder", "-1"], "--max-disorder = -1.0: must be a number"),
        (["--features", "x", "--idle-flush", "1e9"], "--idle-flush = 1000000000.0: must be"),
        (["--features", "x", "--rank", "0"], "rank = 0"),
        (["--features", "x", "--checkpointing_interval", "0"], "--checkpointing_interval = 0"),
        (["--features", "x", "--resume", "/none"], "--resume = '/none': must be a savepoint with"),
        (["--features", "x", "--resume", "latest"], "no job of in has left anything here"),
        (["--features", "x"], "--brokers = '': must be HOST:PORT of Kafka's brokers"),
        (
            ["--features", "x", "--brokers", "b:1", "--format", "confluent-avro"],
            "--registry url = '': must be http://HOST[:PORT] or https://",
        ),
        (
            ["--features", "x", "--brokers", "b:1", "--format", "confluent-protobuf"],
            "--registry url = '': must be http://HOST[:PORT] or https://",
        ),
        (
            ["--features", "x", "--brokers", "b:1", "--registry", "url=http://r"],
            "--registry = 'url=http://r': must be left out: --format json",
        ),
        (
            [
                *("--features", "x", "--brokers", "b:1", "--format", "confluent-avro"),
                *("--registry", "url=http://127.0.0.1:9"),
            ],
            "http://127.0.0.1:9/schemas/types: the schema registry does not answer: ",
        ),
        (["--features", "x", "--formt", "json"], "unknown flag --formt: did you mean --format?"),
    ],
)
def test_bad_flags_are_one_line(
    flags: list[str],
    line: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main([*STREAM, *JOB, *flags]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("kerneltrack: ")
    assert shown.err.count("\n") == 1
    assert line in shown.err


@pytest.mark.parametrize("name", ["stream", "replay", "read-output"])
def test_without_kafkas_client_one_line_names_the_extra(name: str) -> None:
    needs = {
        "stream": [*STREAM, *JOB, "--features", "x"],
        "replay": ["replay", "in.csv", "--topic", "in", "--brokers", "localhost:1"],
        "read-output": ["read-output", "--topic", "out", "--brokers", "localhost:1"],
    }
    program = (
        "import sys; sys.modules['confluent_kafka'] = None; from pipelines.cli.main import main; "
        f"sys.exit(main({needs[name]!r}))"
    )
    done = run_process([sys.executable, "-c", program])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "kerneltrack: this needs confluent_kafka, which is not installed: "
        "pip install '.[live]' in a clone of kerneltrack\n"
    )


@pytest.mark.parametrize(
    ("given", "output_text"),
    [
        (["list", "okfeb"], ""),
        (["--help"], ""),
        (["track", str(SAMPLE), "--output", "out"], "'.[beam]'"),
        (["report", "out"], "'.[beam]'"),
    ],
)
def test_without_beam_only_jobs_ask_for_it(given: list[str], output_text: str) -> None:
    """As `pip install .` leaves it: numerics, and what the command knows of them."""
    program = (
        "import sys; sys.modules |= dict.fromkeys(('apache_beam', 'pyarrow', 'jinja2')); "
        f"from pipelines.cli.main import main; sys.exit(main({given!r}))"
    )
    done = run_process([sys.executable, "-c", program])
    assert (done.returncode, output_text in done.stderr) == (2 if output_text else 0, True)
    assert bool(done.stdout) is not bool(output_text)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([*STREAM[:5], "--features", "x"], "--flink = '': must be HOST:PORT of Flink's REST"),
        ([*STREAM, "--features", "x"], "--state-folder = '': must be a folder"),
        (["stop", "--cluster", "none"], "--cluster = 'none': must be a folder in which a cluster"),
        (["read-output", "--topic", "t"], "--brokers = '': must be HOST:PORT"),
        (["replay", "f", "--topic", "t", "--speed", "-1"], "--speed = -1.0: must be a number >= 0"),
        (["replay", "f", "--topic", "t", "--message-rows", "0"], "--message-rows = 0: must be"),
    ],
)
def test_bad_places_are_one_line(
    arguments: list[str],
    line: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(arguments) == 2
    assert line in capsys.readouterr().err


def test_a_flink_that_does_not_answer_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    place = ["--flink", "127.0.0.1:1", "--state-folder", str(tmp_path)]
    assert cli.main(["stop", *place]) == 1
    assert "Flink at 127.0.0.1:1 does not answer" in capsys.readouterr().err


SETTINGS: dict[str, Any] = {"tracker": {"rank": 3, "budget": 5}, "order": {"max_disorder": 1.0}}


def write_record(folder: Path, job: str, topic: str = "in") -> Record:
    record = Record(job, f"name-{job}", 1.0, topic, "digest", SETTINGS, FORMATS)
    record.write(folder / f"{job}.json")
    return record


def test_records_come_back(tmp_path: Path) -> None:
    record = write_record(tmp_path, "a")
    assert read_record(tmp_path / "a.json") == record
    (tmp_path / "b.json").write_text('{"version": 9}')
    with pytest.raises(DataError, match="version 9: this program reads 2"):
        read_record(tmp_path / "b.json")


def test_a_checkpoint_is_known_by_its_job(tmp_path: Path) -> None:
    place = Place(Flink("127.0.0.1:1"), tmp_path / "jobs", None)
    record = write_record(place.state, "abc")
    checkpoint = tmp_path / "checkpoints" / "abc" / "chk-7"
    checkpoint.mkdir(parents=True)
    with pytest.raises(ConfigError, match="--resume"):
        find_left(place, str(checkpoint), "in", {})
    (checkpoint / "_metadata").touch()
    for name in (str(checkpoint), checkpoint.as_uri(), f"file:{checkpoint}"):
        assert find_left(place, name, "in", {}) == Left(checkpoint.as_uri(), record)


def test_other_settings_are_named() -> None:
    record = Record("a", "n", 1.0, "in", "digest", SETTINGS, FORMATS)
    left = Left("file:///there", record)
    check_same(left, SETTINGS)
    with pytest.raises(ConfigError, match=r"tracker\.rank = 4: must be 3, as in file:///there"):
        check_same(left, {**SETTINGS, "tracker": {"rank": 4, "budget": 5}})
    with pytest.raises(ConfigError, match=r"order\.max_disorder = None: must be 1\.0"):
        check_same(left, {"tracker": SETTINGS["tracker"], "order": {}})
    with pytest.raises(ConfigError, match=r"order\.duplicates = 'drop': must be None, as in"):
        check_same(left, {**SETTINGS, "order": {"max_disorder": 1.0, "duplicates": "drop"}})
    other = {"max_disorder": 1.0, "max_jump": 9, "jump_rows": 3, "idle_flush": None}
    check_same(left, {**SETTINGS, "order": other})


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "--brokers = '': must be HOST:PORT of Kafka's brokers"),
        (["--from-model", "m2"], "--from-model = 'm2': must be given with --snapshots only"),
        (["--snapshots", "nowhere"], "nowhere/index.json: cannot be read"),
    ],
)
def test_a_reset_that_cannot_be_is_refused(
    words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["reset", "m1", "--topic", "in", *words]) == 2
    assert line in capsys.readouterr().err


def test_rows_come_once_and_two_values_of_one_are_counted() -> None:
    once = Once()
    rows = [
        {"model_id": "a", "index": 0, "loss": 1.0},
        {"model_id": "a", "index": 0, "loss": 1.0},
        {"model_id": "b", "index": 0, "loss": 2.0},
        {"model_id": "a", "index": 0, "loss": 3.0},
    ]
    assert [once.is_new(row) for row in rows] == [True, False, True, False]
    assert (len(once), once.repeated, once.conflicts) == (2, 1, 1)


def test_a_replay_sends_every_row_once_in_order_of_time(sample: Path) -> None:
    options = ColumnOptions(model_id="model_id", time="time", label="label")
    replay = Replay(ReadChunks(str(sample), options).input)
    messages = replay.messages(50, 0)
    rows = [row for message in messages for row in message.rows.tolist()]
    assert sorted(rows) == list(range(82_152))
    assert [message.due for message in messages] == sorted(message.due for message in messages)
    for message in messages[:20]:
        assert set(replay.models[message.rows]) == {message.key}
        assert (replay.times[message.rows][1:] >= replay.times[message.rows][:-1]).all()
    value = replay.value(messages[0].rows, replay.times[messages[0].rows], "json")
    first = json.loads(value)[0]
    assert list(first) == ["time", "ax", "ay", "az", "wx", "wy", "wz", "label"]


def test_a_replay_puts_local_times_in_order(tmp_path: Path) -> None:
    """The hour that comes twice, and rows of which no one knows when they were."""
    lines = ["02:00", "02:40", "02:00", "02:40", "03:10"]
    texts = [f"a,2026-10-25 {line},{at}" for at, line in enumerate(lines)]
    texts += ["b,2026-10-25 02:20,7", "b,2026-03-29 02:20,8", "b,2026-10-25 03:00,9", ",2026,1"]
    (tmp_path / "in.csv").write_text("\n".join(["id,t,x", *texts]))
    options = ColumnOptions(
        model_id="id", time="t", time_zone="Europe/Berlin", time_ambiguous="infer"
    )
    replay = Replay(ReadChunks(str(tmp_path / "in.csv"), options).input)
    assert replay.table.column("x").to_pylist() == [0, 1, 2, 3, 9, 4]
    minutes = [int(time - replay.times[0]) // 60_000_000_000 for time in replay.times]
    assert minutes == [0, 40, 60, 100, 120, 130]
    assert replay.skipped == 3
    assert replay.local == (5, 1, 1, 1)


@pytest.mark.parametrize("form", ["json", "arrow", "avro"])
@pytest.mark.parametrize("missing", ["drop", "hold"])
def test_a_job_with_the_flags_that_a_replay_names_reads_what_a_file_job_reads(
    form: str, missing: str, tmp_path: Path
) -> None:
    """Also where a list has numbers that are missing, and a column is missing in whole."""
    lists = [[1.0, None, 3.0, 4.0], [5.0, 6.0, 7.0, None], [0.1, 0.2, 0.3, 0.4]]
    table = pa.table(
        {
            "t": pa.array([1, 2, 3], pa.timestamp("s", "UTC")),
            "v": pa.array(lists, pa.list_(pa.float64(), 4)),
            "w": pa.array([None, 8.0, 9.0]),
            "u": pa.array([7.0, 8.0, 9.0]),
            "y": pa.array([1.5, 2.5, None]),
        }
    )
    pq.write_table(table, tmp_path / "in.parquet")
    options = ColumnOptions(time="t", label="y", missing=missing)
    read = ReadChunks(str(tmp_path / "in.parquet"), options).input
    parsed = [part for part, _ in parsed_of(read.infos, read.columns)]
    replay = Replay(read)
    flags = shlex.split(" ".join(_flags(replay.columns, form)))
    args = parser_of("stream").parse_args([*STREAM, *flags])
    gathering = Gathering(columns_from_flags(args), args.format)
    for each in replay.messages(2, 0):
        value = replay.value(each.rows, replay.times[each.rows], form)
        gathering.add(Message("in", 0, int(each.rows[0]), 5, each.key.encode(), value))
    ((_, chunk),) = gathering.chunks()
    assert list(gathering.dead_letters()) == []
    np.testing.assert_array_equal(
        np.array(chunk.batch.column("x").to_pylist(), dtype=float),
        np.concatenate([part.x for part in parsed]),
    )
    assert chunk.batch.column("label").to_pylist() == [1.5, 2.5, None]


def test_disorder_is_less_than_it_says(sample: Path) -> None:
    options = ColumnOptions(model_id="model_id", time="time", label="label")
    replay = Replay(ReadChunks(str(sample), options).input)
    disorder = 500_000_000
    newest: dict[str, int] = {}
    behind = 0
    for message in replay.messages(1, disorder):
        (time,) = replay.times[message.rows].tolist()
        behind = max(behind, newest.get(message.key, time) - time)
        newest[message.key] = max(newest.get(message.key, time), time)
    assert disorder // 2 < behind < disorder
