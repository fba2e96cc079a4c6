"""The local cluster's parts that need no Java: what is missing, which ports, which process."""

from __future__ import annotations

import itertools
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kerneltrack.errors import ConfigError
from pipelines.cluster import identity as identities
from pipelines.cluster import records
from pipelines.cluster.configure import metaspace, task_memory
from pipelines.cluster.errors import ClusterError
from pipelines.cluster.identity import identity
from pipelines.cluster.interruption import Interruption
from pipelines.cluster.java import Java, find_java
from pipelines.cluster.launch import spawn
from pipelines.cluster.records import Process
from pipelines.cluster.resolve import resolve, stamp
from pipelines.cluster.settings import (
    HOST,
    PORTS,
    check_flink,
    choose,
    is_free,
    least_memory,
    usual_memory,
)
from pipelines.cluster.tail import Tail
from pipelines.cluster.versions import POMS, versions

NOBODY = "no such process lives"


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that would stay for ever."""
    with subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]) as process:
        yield process
        process.kill()


def listening() -> socket.socket:
    server = socket.socket()
    server.bind((HOST, 0))
    server.listen()
    return server


def test_a_missing_java_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterError, match=r"^the local cluster needs Java 17 .*no java on the"):
        find_java()


def test_an_old_java_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program(tmp_path / "bin/java", "echo '    java.specification.version = 11' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ClusterError, match=r"needs Java 17 .* is Java 11: .*JAVA_HOME"):
        find_java()


def test_a_java_is_known_by_what_it_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    output_text = f"    java.home = {tmp_path}\\n    java.specification.version = 17"
    program(tmp_path / "bin/java", f"printf '{output_text}\\n' >&2")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert find_java() == Java(tmp_path, 17)


def test_a_missing_maven_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KERNELTRACK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterError, match=r"there is no mvn: install Maven"):
        resolve(Java(tmp_path, 17), Interruption(), pytest.fail)


def test_a_missing_compiler_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KERNELTRACK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(program(tmp_path / "mvn", "exit 0").parent))
    with pytest.raises(ClusterError, match=r"a JDK is needed .* has no javac"):
        resolve(Java(tmp_path, 17), Interruption(), pytest.fail)


def test_maven_says_why_it_failed_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KERNELTRACK_CACHE", str(tmp_path / "cache"))
    program(tmp_path / "bin/mvn", "echo '[INFO] x'; echo '[ERROR] no such artifact'; exit 1")
    program(tmp_path / "bin/javac", "")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    output_text: list[str] = []
    with pytest.raises(ClusterError, match=r"^Maven failed: no such artifact \(all of it: "):
        resolve(Java(tmp_path, 17), Interruption(), output_text.append)
    assert [line.partition(" ")[0] for line in output_text] == ["Fetching"]
    left = {path.name for path in (tmp_path / "cache/jars").iterdir()}
    assert left == {"lock", "maven.log"}


def test_what_is_resolved_needs_no_maven(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "jars" / stamp()
    folder.mkdir(parents=True)
    monkeypatch.setenv("KERNELTRACK_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert resolve(Java(tmp_path, 17), Interruption(), pytest.fail).folder == folder


def test_versions_stand_in_one_pom() -> None:
    assert set(versions()) == {"flink", "kafka", "beam runner"}
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in versions().values())
    stated = {
        path.parent.name: re.findall(r"<version>([^$].*?)</version>", path.read_text("utf-8"))
        for path in POMS.glob("*/pom.xml")
    }
    # But for the parent's, which is always 1.
    assert stated == {name: ["1"] for name in ("flink", "kafka", "jobserver", "rocksdb")}


def test_poms_name_no_repository() -> None:
    texts = [path.read_text("utf-8") for path in POMS.rglob("*") if path.is_file()]
    addresses = set(re.findall(r"\w+://[^\s\"<]+", "\n".join(texts)))
    assert addresses == {"http://maven.apache.org/POM/4.0.0"}


def test_ports_are_usual_or_the_next_free_ones() -> None:
    usual = choose({}, {}, 4, {}).ports
    assert list(usual) == list(PORTS)
    assert all(usual[name] >= PORTS[name] for name in PORTS)
    assert len(set(usual.values())) == len(PORTS)
    with listening() as server:
        taken = server.getsockname()[1]
        assert not is_free(taken)
        # The port of the last time, unless another has it by now.
        assert choose({}, {}, 4, {"kafka": taken}).ports["kafka"] == usual["kafka"]
        with pytest.raises(ClusterError, match=f"--port kafka={taken}: another program"):
            choose({"kafka": taken}, {}, 4, {})
    assert choose({}, {}, 4, {"kafka": taken}).ports["kafka"] == taken
    assert choose({"flink": taken}, {}, 4, {"kafka": taken}).ports["flink"] == taken


MISTAKES = {
    "port": ({"web": 8081}, {}, 4),
    "low port": ({"flink": 80}, {}, 4),
    "one port twice": ({"flink": 18081, "kafka": 18081}, {}, 4),
    "memory": ({}, {"everything": 1000}, 4),
    "little memory": ({}, {"taskmanager": 500}, 4),
    "slots": ({}, {}, 0),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_bad_setting_is_refused(name: str) -> None:
    ports, memory, slots = MISTAKES[name]
    with pytest.raises(ConfigError):
        choose(ports, memory, slots, {})


@pytest.mark.parametrize(
    ("key", "flag"),
    [
        ("taskmanager.memory.jvm-metaspace.size", "--memory taskmanager=MIB"),
        ("taskmanager.numberOfTaskSlots", "--slots"),
        ("rest.port", "--port flink=PORT"),
    ],
)
def test_a_key_of_flink_that_has_a_flag_of_its_own_is_refused(key: str, flag: str) -> None:
    check_flink({"a": "1"})
    with pytest.raises(ConfigError, match=f"^--flink {key} = '1': must be set by {flag}$"):
        check_flink({"a": "1", key: "1"})


@pytest.mark.parametrize("slots", [1, 4, 16])
@pytest.mark.parametrize("sizes", [least_memory, usual_memory, lambda _: {"taskmanager": 8192}])
def test_the_memory_of_a_taskmanager_adds_up(
    sizes: Callable[[int], dict[str, int]], slots: int
) -> None:
    total = sizes(slots)["taskmanager"]
    settings = choose({}, {"taskmanager": total}, slots, {})
    heap, off_heap, managed = task_memory(settings)
    assert metaspace(settings) == 128 + 64 * slots
    assert heap + off_heap + managed == total - metaspace(settings) - 448
    assert heap > managed > off_heap > 0


def test_what_a_dead_part_said_last_is_kept(tmp_path: Path) -> None:
    output = tmp_path / "part.out"
    for restarts, output_text in ((0, "a"), (1, "b"), (2, "c")):
        pid = spawn(tmp_path, "part", output, ["echo", output_text], dict(os.environ), restarts)
        assert os.waitpid(pid, 0)[1] == 0
    assert output.read_text() == "a\nb\nc\n"
    os.waitpid(spawn(tmp_path, "part", output, ["echo", "new"], dict(os.environ)), 0)
    assert output.read_text() == "new\n"


def test_a_process_is_known_from_one_of_the_same_id(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    for boot in (identities.BOOT, Path("/no/such/file")):
        monkeypatch.setattr(identities, "BOOT", boot)
        first = identity(sleeper.pid)
        assert first is not None
        assert first == identity(sleeper.pid)
    # Without /proc a start is known to the second.
    monkeypatch.undo()
    assert len({identity(sleeper.pid), identity(os.getpid()), identity(os.getppid())}) == 3


def test_a_process_that_ended_is_nobody(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    # It is dead, but its parent, this test, has not taken note.
    assert identity(sleeper.pid) is None
    with monkeypatch.context() as patch:
        patch.setattr(identities, "BOOT", Path("/no/such/file"))
        assert identity(sleeper.pid) is None
    sleeper.wait()
    assert identity(sleeper.pid) is None


def test_another_process_of_the_same_id_is_left_alone(sleeper: subprocess.Popen[bytes]) -> None:
    start = identity(sleeper.pid)
    assert start is not None
    ours = Process("kafka", sleeper.pid, start, time.time())
    recycled = Process("kafka", sleeper.pid, f"{start}1", time.time())
    assert (ours.alive, recycled.alive) == (True, False)
    assert records.stop([recycled], 0.0) == []
    recycled.signal(signal.SIGKILL)
    assert sleeper.poll() is None
    assert records.stop([ours], 30.0) == []
    assert sleeper.wait() == -signal.SIGTERM


def test_who_does_not_hear_is_killed() -> None:
    deaf = (
        "import signal, sys; signal.signal(15, signal.SIG_IGN); print(flush=True); signal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        start = identity(process.pid)
        assert start is not None
        assert records.stop([Process("kafka", process.pid, start, time.time())], 0.1) == []
        assert process.wait() == -signal.SIGKILL


def test_a_record_is_forgotten_by_its_process_only(tmp_path: Path) -> None:
    records.write_own(tmp_path, "kafka", 2)
    mine = records.read(tmp_path, "kafka")
    assert mine is not None
    assert (mine.pid, mine.restarts, mine.alive) == (os.getpid(), 2, True)
    records.forget(tmp_path, [Process("kafka", mine.pid, NOBODY, mine.since)])
    assert records.read_all(tmp_path) == [mine]
    records.forget(tmp_path, [mine])
    assert records.read_all(tmp_path) == []


def test_the_tail_follows_a_file_that_is_rolled(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    tail = Tail(path)
    assert (tail.last(3), tail.more()) == ([], [])
    lines = [f"line {i} {'x' * (i % 50)}" for i in range(9000)]
    path.write_text("".join(f"{line}\n" for line in lines))
    assert tail.last(0) == []
    assert Tail(path).last(10**6) == lines
    assert tail.last(4321) == lines[-4321:]
    parts = ["half", " a line\nand", " more\n"]
    seen = []
    for part in parts:
        with path.open("a") as handle:
            handle.write(part)
        seen.append(tail.more())
    assert seen == [[], ["half a line"], ["and more"]]
    path.rename(tmp_path / "a.log.1")
    path.write_text("new\n")
    assert list(itertools.chain(tail.more(), tail.more())) == ["new"]
