"""What the end-to-end tests share: the jars, and one cluster for all live jobs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipelines.cluster.interruption import Interruption
from pipelines.cluster.java import find_java
from pipelines.cluster.resolve import resolve
from tests.e2e.clusters import LocalCluster, running
from tests.parts import program


@pytest.fixture(scope="session", autouse=True)
def quick_java() -> Iterator[None]:
    """Compile Java quickly and once: a cluster is gone before better code would pay for itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")
        yield


@pytest.fixture(scope="session")
def jars() -> None:
    """The jars, fetched with Maven if this machine has not got them."""
    program("java", "Java 17")
    program("mvn", "Maven")
    resolve(find_java(), Interruption(), lambda line: None)


@pytest.fixture(scope="session")
def cluster(jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """The cluster of all live jobs: a test leaves it whole, and none of its jobs running."""
    with running(tmp_path_factory.mktemp("live") / "cluster") as cluster:
        yield cluster
