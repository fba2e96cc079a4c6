"""What the end-to-end tests share: one cluster for all live jobs, and what its broker wants."""

from __future__ import annotations

import os
import secrets
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from pipelines.cluster.java import LIGHT_FLAGS
from pipelines.cluster.resolve import Jars
from tests.conftest import BROKER_ALONE, CLUSTERS
from tests.e2e.clusters import LocalCluster, running
from tests.e2e.secure import Secure, free_ports, make_certificates

QUICK_JAVA = (
    *LIGHT_FLAGS,
    # Jars come by their checksums: their classes are not verified over again in each process.
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)


@pytest.fixture(scope="session", autouse=True)
def quick_java() -> Iterator[None]:
    """Compile Java quickly and once, and let one thread look for its garbage.

    A cluster is gone before better code would pay for itself.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", " ".join(QUICK_JAVA))
        yield


@pytest.fixture(scope="session")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Secure:
    """Certificates and secrets of the cluster's broker, which listens with and without them."""
    folder = tmp_path_factory.mktemp("secure") / "secrets"
    make_certificates(folder)
    return Secure(folder, free_ports(3), secrets.token_hex(16))


@pytest.fixture(scope="session")
def cluster(
    request: pytest.FixtureRequest,
    jars: Jars,
    secure: Secure,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[LocalCluster]:
    """The cluster of this process's live jobs: a test leaves it whole, none of its jobs running.

    Where no test of this process asks for Flink, it is a broker alone.
    """
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):
        # One more is a mistake: its tests belong to one of these processes.
        place = tmp_path_factory.getbasetemp().parent
        (place / f"has-cluster-{worker}").touch()
        assert len(list(place.glob("has-cluster-*"))) <= CLUSTERS
    folder = tmp_path_factory.mktemp("live") / "cluster"
    alone = broker_alone(request.session.items)
    with ended:
        yield ended.enter_context(running(folder, *secure.broker_flags(), broker_alone=alone))


def broker_alone(items: Sequence[pytest.Item]) -> bool:
    """Check whether the tests of this process need nothing of the cluster but its broker.

    Those of these files that run a job on Flink are of the nightly lane.
    """
    of_it = [item for item in items if _needs_cluster(item)]
    if int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) >= CLUSTERS:
        here = Path(os.environ["PYTEST_CURRENT_TEST"].partition("::")[0]).name in BROKER_ALONE
        of_it = [item for item in of_it if (item.path.name in BROKER_ALONE) == here]
    return all(
        item.path.name in BROKER_ALONE and item.get_closest_marker("nightly") is None
        for item in of_it
    )


ended = ExitStack()
"""Takes the cluster down."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, None, None]:
    """Take the cluster down after the last test of it: the others would run beside it."""
    yield
    if _needs_cluster(item) and not (nextitem and _needs_cluster(nextitem)):
        ended.close()


def _needs_cluster(item: pytest.Item) -> bool:
    return "cluster" in getattr(item, "fixturenames", ())
