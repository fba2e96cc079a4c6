"""A broker that wants SASL/PLAIN over TLS: all commands reach it, nobody learns the password."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipelines.cli.main import main
from tests.e2e.clusters import LocalCluster
from tests.e2e.jobs import command, run_process
from tests.e2e.live import CHANNELS, Live
from tests.e2e.secure import Secure, make_certificates
from tests.parts import lanes

ROWS = 400
TOPIC = "guarded"
OUTPUT = "guarded-out"


@pytest.fixture(scope="module", autouse=True)
def topic(cluster: LocalCluster) -> None:
    Live(cluster, TOPIC, "json").make_topic(1)


def stream(cluster: LocalCluster, *flags: str) -> list[str]:
    return command(
        *("stream", "--cluster", str(cluster.folder), "--topic", TOPIC, "--create-topics"),
        *("--detach", "--output-topic", OUTPUT, "--features", *CHANNELS),
        *("--time", "time", "--time-unit", "ns", *flags),
        *("--rank", "4", "--budget", "7", "--warmup", "50", "--max-disorder", "0"),
    )


def files_with(folder: Path, text: str) -> list[Path]:
    found = []
    # Checkpoints, and the folders of topics, come and go.
    for place, _, names in os.walk(folder):
        for path in (Path(place, name) for name in names):
            try:
                if path.is_file() and text.encode() in written(path):
                    found.append(path)
            except FileNotFoundError:
                continue
    return found


def written(path: Path) -> bytes:
    """What was written to a file: the broker makes room for indexes, gigabytes of nothing."""
    parts = []
    with path.open("rb") as file:
        place, end = 0, os.fstat(file.fileno()).st_size
        while place < end:
            try:
                place = os.lseek(file.fileno(), place, os.SEEK_DATA)
            except OSError:
                break  # Nothing comes any more.
            until = os.lseek(file.fileno(), place, os.SEEK_HOLE)
            parts.append(os.pread(file.fileno(), until - place, place))
            place = until
    return b"".join(parts)


def processes_with(text: str) -> list[str]:
    """Command lines of processes that have a text in them, or in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            reported = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
        except OSError:
            continue
        if text.encode() in reported:
            found.append(str(reported))
    return found


@pytest.mark.parametrize("resumes", lanes(False, True))
def test_all_commands_reach_it_and_the_password_is_nowhere(
    resumes: bool, cluster: LocalCluster, secure: Secure, sample: Path, tmp_path: Path
) -> None:
    good = secure.secret("client", secure.password)
    client, consumer = secure.client_flags(good), secure.consumer_flags(good)
    shown = ""
    steps = [
        command(
            *("replay", str(sample), "--topic", TOPIC, *client),
            *("--rows", str(ROWS), "--speed", "0", "--model-id", "model_id", "--time", "time"),
        ),
        stream(cluster, *client, *consumer),
        command(
            *("read-output", "--topic", OUTPUT, "--rows", str(ROWS), "--idle", "100"),
            *("--output", str(tmp_path / "features.parquet"), *client),
        ),
    ]
    for step in steps:
        done = run_process(step)
        shown += done.stdout + done.stderr
        assert done.returncode == 0, shown
    assert f"{ROWS} rows, 0 came again" in shown
    # Workers, TaskManager and clients run.
    assert processes_with(secure.password) == []
    assert main(["stop", "--cluster", str(cluster.folder), "--savepoint"]) == 0
    if resumes:
        again = run_process(stream(cluster, *client, *consumer, "--resume", "latest"))
        shown += again.stdout + again.stderr
        assert again.returncode == 0, shown
        assert main(["stop", "--cluster", str(cluster.folder)]) == 0
    assert secure.password not in shown
    for folder in ("checkpoints", "savepoints"):
        # The reference is there: what is written as it is would be found.
        assert files_with(cluster.folder / folder, f"${{file:{good}:jaas}}") != []
    assert files_with(cluster.folder, secure.password) == []
    assert files_with(tmp_path, secure.password) == []
    assert good in files_with(secure.folder, secure.password)


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ("client", "--client sasl.* = '...': must be what {} takes: SASL authentication error: "),
        ("consumer", "--consumer = '...': must be what the brokers take: "),
    ],
)
def test_a_wrong_password_is_one_line(
    wrong: str, line: str, cluster: LocalCluster, secure: Secure
) -> None:
    good = secure.secret("right", secure.password)
    bad = secure.secret("wrong", "not-this-one")
    client = secure.client_flags(bad if wrong == "client" else good)
    consumer = secure.consumer_flags(bad if wrong == "consumer" else good)
    jobs = len(cluster.flink.jobs())
    done = run_process(stream(cluster, *client, *consumer))
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    expected = f"kerneltrack: {line.format(secure.brokers)}Authentication failed: "
    assert done.stderr.startswith(expected)
    assert done.stderr.count("\n") == 1
    assert "not-this-one" not in done.stderr
    assert len(cluster.flink.jobs()) == jobs


def test_a_broker_that_is_someone_else_is_one_line(
    cluster: LocalCluster, secure: Secure, tmp_path: Path
) -> None:
    make_certificates(tmp_path / "others")
    flags = secure.client_flags(secure.secret("right", secure.password))
    others = str(tmp_path / "others" / "ca.pem")
    flags += [f"--client=ssl.ca.location={others}"]
    done = run_process(command("read-output", "--topic", OUTPUT, *flags))
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.startswith("kerneltrack: --client ssl.* = '...': must be what ")
    assert "certificate" in done.stderr
