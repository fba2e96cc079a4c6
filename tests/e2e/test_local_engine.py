"""A live job without an engine: the bytes of the file job, each once, through kills."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import AdminClient

from pipelines.cli.main import main
from pipelines.local.store import FILE
from tests.e2e.clusters import PATIENCE, LocalCluster, wait_for
from tests.e2e.jobs import COLUMNS, ROOT, command, environment, run_process, table_of, track
from tests.e2e.live import CHANNELS, SPECS, Live, Recording, assert_same_bits, record, settled
from tests.e2e.quiet_told import ToldTimes
from tests.e2e.test_stream import ALERTS, DRIFT, assert_same_as_file_job
from tests.e2e.warm import Warm, run_warm
from tests.receivers import HttpServer

ROWS = 1200
REFERENCE = ("--reference", "first", "--reference-per", "100000 rows", "--reference-rows", "384")
LOCAL = ("--engine", "local")
SEED = 11
OFTEN = "--checkpointing_interval=300"


@pytest.fixture(scope="module")
def recording(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return record(sample, tmp_path_factory.mktemp("recording") / "rows", ROWS)


@contextmanager
def running(live: Live, *flags: str) -> Iterator[subprocess.Popen[str]]:
    """Run the job, which ends with Ctrl-C."""
    with started(live.attached(*LOCAL, *flags)) as job:
        yield job
        job.send_signal(signal.SIGINT)
        output, _ = job.communicate(timeout=PATIENCE)
        assert job.returncode == 130, output
        assert "go on with --resume latest" in output


@contextmanager
def started(
    words: list[str], process: Callable[..., subprocess.Popen[str]] = Warm
) -> Iterator[subprocess.Popen[str]]:
    """Start a job, and wait until it runs."""
    job = process(
        words,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert job.stdout is not None
        first = job.stdout.readline()
        if "runs in this process" not in first:
            job.kill()
            pytest.fail(first + job.stdout.read())
        yield job
    finally:
        if job.poll() is None:
            job.kill()
        job.wait(PATIENCE)


def committed(live: Live, topic: str) -> list[dict[str, Any]]:
    """All rows of an output that its readers see, as often as they are there."""
    consumer = confluent_kafka.Consumer({**live.client, "group.id": "once"})
    places = [
        confluent_kafka.TopicPartition(topic, part, 0)
        for part in consumer.list_topics(topic, timeout=30).topics[topic].partitions
    ]
    # The ends of transactions reach partitions one after the other, the last after the job's end.
    ends = confluent_kafka.Consumer(
        {**live.client, "group.id": "ends", "isolation.level": "read_uncommitted"}
    )
    left = {place.partition: ends.get_watermark_offsets(place, 30)[1] for place in places}
    ends.close()
    consumer.assign(places)
    rows: list[dict[str, Any]] = []
    while any(consumer.position([place])[0].offset < left[place.partition] for place in places):
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            rows += json.loads(message.value() or b"")
        if all(not high for high in left.values()):
            break
    consumer.close()
    return rows


@pytest.mark.parametrize("form", ["json", "arrow"])
def test_it_gives_the_bytes_of_the_file_job(
    form: str, cluster: LocalCluster, recording: Recording, tmp_path: Path
) -> None:
    output = tmp_path / "files"
    some, others = recording.files
    track(str(some), str(others), *COLUMNS, *SPECS, *DRIFT, *REFERENCE, "--output", str(output))
    alerts = settled(table_of(output, "alerts"), recording.rows)
    episodes = settled(table_of(output, "episodes"), recording.rows)
    live = Live(cluster, f"local-{form}", form)
    live.make_topic(4)
    live.send(some, 20)
    with running(live, *DRIFT, *REFERENCE, "--devices-topic", f"local-{form}-devices"):
        live.send(others, 1)
        assert_same_as_file_job(live, recording, tmp_path)
        assert_same_bits(live.read("-alerts", len(alerts), tmp_path), alerts, ALERTS)
        lines = live.read("-episodes", len(episodes), tmp_path)
        assert len(lines) == len(episodes)
    check_names(lines.to_pylist())
    check_notified(live, form, lines.to_pylist(), tmp_path)
    assert main(["devices", *live.place, "--topic", f"local-{form}-devices"]) == 0


def check_names(lines: list[dict[str, Any]]) -> None:
    """Each line of episodes has the names of the channels with the largest shares."""
    for line in lines:
        shares = dict(zip(CHANNELS, line["shares"], strict=True))
        named = {each["channel"]: each["share"] for each in line["channels"]}
        assert named == {name: share for name, share in shares.items() if share > 0}
        assert list(named.values()) == sorted(named.values(), reverse=True)


def check_notified(live: Live, form: str, lines: list[dict[str, Any]], folder: Path) -> None:
    """Episodes that go on are sent to a webhook with the channel that explains most of each."""
    ended = {(line["model_id"], line["episode"]) for line in lines if line["state"] != "open"}
    still = {
        line["model_id"]: line["channels"][0]["channel"]
        for line in lines
        if (line["model_id"], line["episode"]) not in ended
    }
    assert still
    server = HttpServer()
    try:
        place = ("--topic", f"{live.topic}-out-episodes", *live.place, "--output-format", form)
        words = ("--state", str(folder / "notified"), "--webhook", server.url)
        assert main(["notify", *place, *words]) == 0
        assert {body["device"]: body["channels"].split()[0] for body in server.bodies} == still
    finally:
        server.close()


def test_quiet_times_arrive(
    cluster: LocalCluster,
    recording: Recording,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    quiet, devices = tmp_path / "quiet.csv", "local-quiet-devices"
    quiet.write_text("device,from,to,why\n*,1970-01-01,2200-01-01,never judged\n")
    live = Live(cluster, "local-quiet", "json")
    live.make_topic(1)

    def states() -> list[str]:
        capsys.readouterr()
        assert main(["devices", *live.place, "--topic", devices, "--json"]) == 0
        return [json.loads(line)["state"] for line in capsys.readouterr().out.splitlines()]

    with running(live, *REFERENCE, "--devices-topic", devices, "--quiet", str(quiet)):
        live.send(recording.files[0], 20)
        wait_for("quiet devices", lambda: set(states()) == {"quiet"})


def test_quiet_times_told_while_it_runs_are_those_of_a_file_through_kills(
    cluster: LocalCluster, recording: Recording, tmp_path: Path
) -> None:
    live, told = Live(cluster, "local-told", "json"), ToldTimes(recording, tmp_path, *REFERENCE)
    live.make_topic(3)
    random, resume = np.random.default_rng(SEED), tuple[str, ...]()
    for number, part in enumerate(recording.portions):
        if number == 2:
            told.tell(live)
        live.send(part, 3)
        words = (OFTEN, "--max_bundle_size=40", *REFERENCE, *resume)
        with started(live.attached(*LOCAL, *words)) as job:
            time.sleep(float(random.uniform(0.3, 1.5)))
            job.kill()
        resume = ("--resume", "latest")
    with running(live, *REFERENCE, *resume):
        told.check(live)


def in_halls(recording: Recording, folder: Path) -> tuple[list[Path], dict[str, str]]:
    """The recording with a column that says which hall each device is in, and these."""
    files = [folder / f"{place.stem}-halls.parquet" for place in recording.files]
    halls: dict[str, str] = {}
    for place, file in zip(recording.files, files, strict=True):
        table = pq.read_table(place)
        names = table.column("model_id").to_pylist()
        halls |= {name: "south" if name == max(names) else "north" for name in sorted({*names})}
        pq.write_table(table.append_column("hall", pa.array([halls[name] for name in names])), file)
    return files, halls


@pytest.mark.parametrize(
    ("while_running", "group"),
    [(False, "north"), pytest.param(True, None, marks=pytest.mark.nightly), (True, "north")],
)
def test_feedback_counts_as_in_the_file_job(
    cluster: LocalCluster,
    recording: Recording,
    tmp_path: Path,
    while_running: bool,
    group: str | None,
) -> None:
    files, names = in_halls(recording, tmp_path)
    job = (*map(str, files), *COLUMNS, *SPECS, *REFERENCE, "--features", *CHANNELS)
    said, halls = tmp_path / "said.csv", tmp_path / "halls.csv"
    halls.write_text("device,group\n" + "".join(f"{name},{hall}\n" for name, hall in names.items()))
    track(*job, "--output", str(tmp_path / "plain"))
    lines = table_of(tmp_path / "plain", "episodes").to_pylist()
    first = next(line for line in lines if names[line["model_id"]] == "north")
    answer = [first["model_id"], "1", "false", "--from", "1970-01-02"]
    if group is not None:
        answer += ["--group", group]
    assert main(["feedback", str(tmp_path / "plain"), *answer, "--to", str(said)]) == 0
    flags = ("--feedback", str(said))
    track(*job, *flags, "--group", "hall", "--output", str(tmp_path / "files"))
    wanted = settled(table_of(tmp_path / "files", "episodes"), recording.rows).to_pylist()
    assert {None} < {line["muted"] for line in wanted}
    live = Live(cluster, f"local-feedback-{while_running}-{group}", "json")
    live.make_topic(4)
    by_file = () if group is None else ("--groups", str(halls))
    if while_running:
        sent = ("--send", live.topic, *live.place)
        assert main(["feedback", str(tmp_path / "plain"), *answer, *by_file, *sent]) == 0
        said.write_text(said.read_text().splitlines()[0] + "\n")
        by_file = ()
    live.send(recording.files[0], 20)
    with running(live, *REFERENCE, *flags, *by_file):
        live.send(recording.files[1], 1)
        found = live.read("-episodes", len(wanted), tmp_path).to_pylist()
    keys = ("model_id", "episode", "index", "muted")
    assert [[line[key] for key in keys] for line in found] == [
        [line[key] for key in keys] for line in wanted
    ]
    # What a topic says of an episode is what the folder says.
    for place in (
        [str(tmp_path / "files")],
        [*live.place, "--topic", f"{live.topic}-out-episodes"],
    ):
        name = f"of-{len(place)}.csv"
        assert main(["feedback", *place, *answer, "--to", str(tmp_path / name)]) == 0
    assert (tmp_path / "of-1.csv").read_text() == (tmp_path / f"of-{len(place)}.csv").read_text()


def test_a_condition_is_that_of_the_file_job(
    cluster: LocalCluster, recording: Recording, tmp_path: Path
) -> None:
    table, place = pq.read_table(recording.files[0]), tmp_path / "rows.parquet"
    load = np.arange(len(table)) % 9.0
    pq.write_table(table.append_column("load", pa.array(load)), place)
    flags = (*REFERENCE, "--only-while", f"load <= 7 and {CHANNELS[0]} < 1e9")
    output = tmp_path / "files"
    track(str(place), *COLUMNS, *SPECS, *flags, "--features", *CHANNELS, "--output", str(output))
    wanted = settled(table_of(output, "features"), recording.rows)
    judged = wanted.column("p").is_valid().to_numpy()
    assert 0 < judged.sum() < len(judged) - 2 * 384
    live = Live(cluster, "local-while", "json")
    live.make_topic(2)
    with running(live, *flags):
        live.send(place, 20)
        found = live.read("", wanted.num_rows, tmp_path)
        assert_same_bits(found, wanted, ("loss", "z", "p", "ref_distance"))


def test_devices_that_send_nothing_are_off_until_their_next_row(
    cluster: LocalCluster,
    recording: Recording,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    devices, live = "local-silent-devices", Live(cluster, "local-silent", "json")
    live.make_topic(2)
    names = set(recording.features.column("model_id").to_pylist())

    def off() -> dict[str, str]:
        capsys.readouterr()
        assert main(["devices", *live.place, "--topic", devices, "--json"]) == 0
        lines = map(json.loads, capsys.readouterr().out.splitlines())
        return {line["model_id"]: line["kind"] for line in lines if line["state"] == "off"}

    def silences() -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for line in committed(live, "local-silent-out-episodes"):
            if line["kind"] == "silent":
                found.setdefault(line["model_id"], []).append(line["state"])
        return found

    flags = (*REFERENCE, "--devices-topic", devices, "--silent-after", "3s")
    with running(live, *flags):
        live.send(recording.portions[0], 20)
        wait_for("silent devices", lambda: off() == dict.fromkeys(names, "silent"))
    with running(live, *flags, "--resume", "latest"):
        assert off() == dict.fromkeys(names, "silent")
        live.send(recording.portions[1], 20)
        twice = {name: ["open", "closed", "open"] for name in names}
        wait_for("their rows, and silence again", lambda: silences() == twice)
        # Two of them have an open episode by now, which says more.
        assert off().keys() == names
        assert "silent" in off().values()


def check_kills(
    kills: int,
    live: Live,
    recording: Recording,
    folder: Path,
    process: Callable[..., subprocess.Popen[str]] = Warm,
) -> None:
    """Kill a job again and again while rows come: nothing is lost, twice or different."""
    live.make_topic(3)
    random = np.random.default_rng(SEED)
    sending = [command(*live.replay(part, 3, "--speed", "0")) for part in recording.portions]
    each = np.array_split(np.arange(kills), len(sending))
    resume: tuple[str, ...] = ()
    for feed, own in zip(sending, each, strict=True):
        with process(feed, env=environment(), stdout=subprocess.DEVNULL) as sender:
            for _ in own:
                words = (OFTEN, "--max_bundle_size=40", *resume)
                with started(live.attached(*LOCAL, *words), process) as job:
                    time.sleep(float(random.uniform(0.05, 1.0)))
                    job.kill()
                resume = ("--resume", "latest")
            assert sender.wait(PATIENCE) == 0
    with running(live, *resume):
        assert_same_as_file_job(live, recording, folder)
    for output in ("", "-predictions"):
        rows = committed(live, f"{live.topic}-out{output}")
        found = Counter((row["model_id"], row["index"]) for row in rows)
        assert max(found.values()) == 1
        assert len(found) == recording.features.num_rows


def test_kills_lose_and_change_nothing(
    cluster: LocalCluster, recording: Recording, tmp_path: Path
) -> None:
    check_kills(5, Live(cluster, "local-killed", "json"), recording, tmp_path)


@pytest.mark.nightly
def test_twenty_kills_lose_and_change_nothing(
    cluster: LocalCluster, recording: Recording, tmp_path: Path
) -> None:
    check_kills(
        20, Live(cluster, "local-killed-often", "json"), recording, tmp_path, subprocess.Popen
    )


def test_what_it_cannot_do_is_one_line(
    cluster: LocalCluster,
    recording: Recording,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    live = Live(cluster, "local-refused", "json")
    live.make_topic(1)

    def refused(*flags: str, job: Live = live) -> str:
        capsys.readouterr()
        _, _, _, *words = job.attached(*LOCAL, *flags)
        assert main(words) == 2
        shown = capsys.readouterr()
        assert (shown.out, len(shown.err.splitlines())) == ("", 1), shown.err
        return shown.err

    assert "--parallelism = '2': must be left out with --engine local" in refused("--parallelism=2")
    assert "--detach: left out" in refused("--detach")
    assert "--streaming" in refused("--streaming=true")
    assert "holds no job" in refused("--resume", "latest")
    missing, nowhere = Live(cluster, "local-missing", "json"), tmp_path / "nowhere"
    assert "--topic = 'local-missing': must be a topic of" in refused(
        "--state-folder", str(nowhere), job=missing
    )
    assert not (nowhere / FILE).exists()
    state = tmp_path / "state"
    with running(live, "--state-folder", str(state), "--resume", "auto"):
        live.send(recording.files[0], 100)
        wait_for("features", lambda: sum(live.sizes(f"{live.topic}-out")))
        assert "must be one that" in refused("--state-folder", str(state), "--resume", "latest")
    assert "--resume latest: it holds job" in refused("--state-folder", str(state))
    other = refused("--state-folder", str(state), "--resume", "latest", "--clip", "3")
    assert "tracker.clip" in other
    older = tmp_path / FILE
    shutil.copy(state / FILE, older)
    before = sum(live.sizes(f"{live.topic}-out"))
    with running(live, "--state-folder", str(state), "--resume", "auto"):
        live.send(recording.files[1], 100)
        wait_for("features", lambda: sum(live.sizes(f"{live.topic}-out")) > before + 1)
    shutil.copy(older, state / FILE)
    assert "which Kafka has: it is an older copy" in refused(
        "--state-folder", str(state), "--resume", "latest"
    )


def test_a_topic_that_is_deleted_ends_the_job(cluster: LocalCluster, recording: Recording) -> None:
    live = Live(cluster, "local-deleted", "json")
    live.make_topic(2)
    with started(live.attached(*LOCAL)) as job:
        live.send(recording.files[0], 100)
        wait_for("features", lambda: sum(live.sizes(f"{live.topic}-out")))
        admin = AdminClient(live.client)
        admin.delete_topics([live.topic])[live.topic].result()
        output, _ = job.communicate(timeout=PATIENCE)
        assert job.returncode == 1
        assert re.fullmatch(r"kerneltrack: local-deleted.*nknown topic or partition.*\n", output)


def test_a_second_job_is_refused_what_the_first_writes(
    cluster: LocalCluster, recording: Recording, tmp_path: Path
) -> None:
    live = Live(cluster, "local-shared", "json")
    live.make_topic(2)
    admin, group = AdminClient(live.client), f"kerneltrack-writes-{live.topic}-out"

    def writers() -> list[str]:
        found = admin.describe_consumer_groups([group])[group].result().members
        return [member.client_id for member in found]

    other = live.attached(*LOCAL, "--state-folder", str(tmp_path / "other"))
    with running(live):
        live.send(recording.files[0], 100)
        wait_for("the writer", writers)
        done = run_warm(other)
        assert done.returncode == 2
        assert f"no other job writes: {writers()[0]} does (it runs on 127.0.0.1" in done.stderr
        assert not (tmp_path / "other" / FILE).exists()
    wait_for("its end", lambda: not writers())


def page_commands(heading: str) -> list[list[str]]:
    """The commands of a section of the tutorial of live jobs."""
    page = (ROOT / "docs/tutorials/live.md").read_text(encoding="utf-8")
    section = page.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    block = re.findall(r"^```text\n(.*?)^```", section, re.M | re.S)[0]
    return [shlex.split(line) for line in block.replace("\\\n", "").splitlines()]


def test_the_commands_of_the_page_watch_a_plant(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    topic, stream, devices, notify = page_commands("Your plant, on one machine")
    client = Live(cluster, "machines", "json").client
    brokers, hook = client["bootstrap.servers"], HttpServer()

    def here(words: list[str]) -> list[str]:
        texts = [text.replace("localhost:9092", brokers) for text in words[1:]]
        return [text.replace("http://localhost:8000", hook.url) for text in texts]

    subprocess.run([sys.executable, *here(topic)], check=True)
    producer, rng = confluent_kafka.Producer(client), np.random.default_rng(SEED)
    for at in range(1500):
        for machine in ("M01", "M02"):
            load, temp, pressure = rng.normal(size=3)
            temp += 9 * (machine == "M02" and at >= 1200)
            row = {"id": machine, "time": 1_795_924_800_000 + 2000 * at}
            value = json.dumps({**row, "load": load, "temp": load + temp, "pressure": pressure})
            producer.produce("machines", value, machine.encode())
        producer.poll(0)
    assert producer.flush(60) == 0
    jobs = []
    try:
        for words in (stream, notify):
            jobs.append(subprocess.Popen(command(*here(words)), env=environment()))
            wait_for(
                "its topic", lambda: "plant-episodes" in AdminClient(client).list_topics().topics
            )
        wait_for("the alarm", lambda: [body["device"] for body in hook.bodies] == ["M02"])
        shown = run_process(command(*here(devices))).stdout
        assert "1 of 2 devices is off (1 well)" in shown
        assert re.search(r"^M02 +off .* temp \d+%", shown, re.M)
    finally:
        for job in jobs:
            job.send_signal(signal.SIGTERM)
            job.wait(PATIENCE)
        hook.close()
