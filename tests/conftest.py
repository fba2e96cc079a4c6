"""What all tests share: their lanes and turns, data sets, jars, and hypothesis's settings."""

from __future__ import annotations

import gc
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

from pipelines.cluster.interruption import Interruption
from pipelines.cluster.java import find_java
from pipelines.cluster.resolve import Jars, resolve
from tests import quick_beam
from tests.parts import ALL_EXAMPLES, IN_CI, examples, missing, program
from tests.receivers import HttpServer

ROOT = Path(__file__).resolve().parents[1]

# No deadline: machines are shared. In CI the same examples every time, each night others.
hypothesis.settings.register_profile(
    "kerneltrack",
    deadline=None,
    derandomize=IN_CI and not ALL_EXAMPLES,
    max_examples=examples(100),
    print_blob=True,
)
hypothesis.settings.load_profile("kerneltrack")
quick_beam.remember()
# What a shell runs beside itself ignores Ctrl-C, what `nohup` runs the end of its terminal, and so
# would all that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


USES_CLUSTER = re.compile(
    r"^(def test_|@pytest\.fixture.*\ndef )\w+\([^)]*\bcluster: LocalCluster", re.MULTILINE
)
"""A test, or a fixture of tests, that takes the session's cluster."""

CLUSTERS = 2
"""Clusters that files share: their tests mostly wait, so two of them take half as long."""

BROKER_ALONE = {
    *("test_dead_letters.py", "test_fleet_dashboard.py", "test_labels_topic.py"),
    *("test_live_incidents.py", "test_live_periods.py", "test_local_engine.py", "test_notify.py"),
}
"""Files whose tests run no job on Flink with each change: half of all, by their time."""

LANES = {"jars": "live", "chromium": "browser", "data_file": "data"}
"""Fixtures that need what not every machine has, and the marker of the tests that use them."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by the fixtures that they use; those that mostly wait begin first.

    Of these first those that share a cluster, one after the other: it is taken down after the last.
    After them those of the nightly lane, which take long: others do not wait for them at the end.
    """
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        for fixture in fixtures & LANES.keys():
            item.add_marker(LANES[fixture])
    items.sort(key=_begins)


def _begins(item: pytest.Item) -> tuple[bool, bool, bool]:
    """Return by what tests are sorted."""
    live, nightly = (item.get_closest_marker(lane) is not None for lane in ("live", "nightly"))
    return not live, "cluster" not in getattr(item, "fixturenames", ()), not nightly


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out what tests only call: it has no doctests, and some of it takes long to import."""
    helper = collection_path.suffix == ".py" and not collection_path.name.startswith("test_")
    return True if helper and ROOT / "tests" in collection_path.parents else None


def pytest_sessionstart() -> None:
    """Look for no garbage while thousands of tests are found."""
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Look for garbage from here on, and not among what was found and imported."""
    gc.freeze()
    gc.enable()
    if compiled := getattr(session.config, "workerinput", {}).get("compiled"):
        Path(compiled).touch()


class Turns(LoadScopeScheduling):  # type: ignore[misc]
    """Gives a file's tests to one process, so that what they prepare is prepared once.

    Those that share a cluster, or the usual ports, go to one process, whatever their file.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return shared_by(file) or file


@lru_cache
def shared_by(file: str) -> str | None:
    """Return what a file's tests share with those of others, by its path in the project."""
    if file in cluster_users():
        return "cluster for its broker" if Path(file).name in BROKER_ALONE else "cluster"
    text = (ROOT / file).read_text(encoding="utf-8") if file.startswith("tests/e2e/") else ""
    # Commands as users give them; others with a cluster of their own give it ports of its own.
    own_ports = "ports_beside(" in text or "running(" in text
    return "the usual ports" if "jars: Jars" in text and not own_ports else None


@lru_cache
def cluster_users() -> set[str]:
    """Return the files whose tests take the session's cluster."""
    return {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests" / "e2e").glob("test_*.py")
        if USES_CLUSTER.search(path.read_text(encoding="utf-8"))
    }


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return how many processes run tests: two more than processors, as live tests mostly wait."""
    return (os.cpu_count() or 1) + 2


def pytest_configure_node(node: Any) -> None:
    """Where nothing is compiled yet, let the first process find all tests before others begin.

    It compiles tests and what they import, half a minute's work that each would do over again.
    """
    if first := _first.get("node"):
        while not first.channel.isclosed() and not _first["compiled"].exists():
            time.sleep(0.1)
    elif not sys.dont_write_bytecode and not any(ROOT.glob("tests/unit/__pycache__/*-pytest-*")):
        place = tempfile.mkdtemp()
        node.config.add_cleanup(lambda: shutil.rmtree(place))
        _first.update(node=node, compiled=Path(place) / "compiled")
        node.workerinput["compiled"] = str(_first["compiled"])


_first: dict[str, Any] = {}
"""The process that compiles for all others, and the file that says that it has."""


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Turns:
    """Return what says which process runs what, in the order in which tests are found."""
    config.option.loadscopereorder = False
    return Turns(config, log)


@pytest.fixture(scope="session")
def jars() -> Jars:
    """The jars, fetched with Maven if this machine has not got them."""
    program("java", "Java 17")
    program("mvn", "Maven")
    return resolve(find_java(), Interruption(), lambda line: None)


@pytest.fixture(scope="session")
def data_file() -> Callable[[str], Path]:
    """Where a real data set lies: `data_file("motionsense.parquet")`.

    The folder is `KERNELTRACK_DATA`, by default `../shared/data` beside the project. A set that is
    not there skips the test, in CI it fails it.
    """
    folder = Path(os.environ.get("KERNELTRACK_DATA", ROOT.parent / "shared" / "data"))

    def find(name: str) -> Path:
        path = folder / name
        if not path.exists():
            missing(f"no data set {path}: set KERNELTRACK_DATA to the folder that holds {name}")
        return path

    return find


@pytest.fixture(scope="session")
def sample() -> Path:
    """The real recording that the project ships."""
    return ROOT / "samples" / "watch.parquet"


@pytest.fixture
def server() -> Iterator[HttpServer]:
    """A server that keeps what it is sent."""
    running = HttpServer()
    yield running
    running.close()
