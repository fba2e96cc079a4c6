"""The manifests' own commands, run on this machine against a real Flink and a real Kafka.

Addresses and folders of the cluster are replaced by those of here, nothing else: what Kubernetes
would start is started, what its Job would submit is submitted, and the dashboard's and the alerts'
metrics are looked for where Flink shows them.
"""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
import confluent_kafka
import grpc  # type: ignore[import-untyped]
import pytest
import yaml
from apache_beam.portability.api import beam_expansion_api_pb2, beam_expansion_api_pb2_grpc
from apache_beam.transforms.external import JavaExternalTransform

from pipelines.cluster.configure import TEMPLATES, class_path_jar, worker_command
from pipelines.cluster.folder import Cluster, Folder, load
from pipelines.cluster.probes import grpc_answers
from tests.deployment import (
    ALERTS,
    DASHBOARD,
    DEPLOY,
    METRIC,
    SPECS,
    config,
    dashboard_queries,
    flink_containers,
    pod_containers,
    resources,
    submit_arguments,
)
from tests.e2e.clusters import LocalCluster, own_ports, wait_for
from tests.e2e.jobs import command, environment, run_process

ROWS = 20_000
INPUT = "readings"
SCRAPES = ("jobmanager-metrics", "taskmanager-metrics")


@dataclass(frozen=True)
class Deployed:
    """What the manifests say, with the addresses and folders of here.

    Attributes:
        cluster: Flink and Kafka.
        ports: The cluster's.
        folder: For files of the manifests' volumes.
        replaced: What stands here in the place of what stands there, longest first.
    """

    cluster: LocalCluster
    ports: Mapping[str, int]
    folder: Path
    replaced: dict[str, str]

    def here(self, words: Sequence[str]) -> list[str]:
        any_of = "|".join(map(re.escape, self.replaced))
        return [re.sub(any_of, lambda match: self.replaced[match[0]], word) for word in words]

    def metrics(self, name: str) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[name], timeout=30)
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()

    def shown(self) -> set[str]:
        """The names of all metrics that Flink shows."""
        text = "".join(self.metrics(name) for name in SCRAPES)
        return set(re.findall(r"^(\w+)", text, re.M))

    def total(self, name: str) -> float:
        """A counter's sum over tasks."""
        metric = f"flink_taskmanager_job_task_operator_kerneltrack_{name}"
        text = self.metrics("taskmanager-metrics")
        return sum(float(value) for value in re.findall(rf"^{metric}{{.*}} (\S+)$", text, re.M))


def addresses(cluster: Cluster, folder: Path) -> dict[str, str]:
    """What stands here in the place of the manifests' addresses and folders."""
    ports = zip(("8099", "8098", "8097", "50000", "50001"), own_ports(), strict=False)
    return {
        "kafka-bootstrap.kafka:9092": cluster.settings.address("kafka"),
        "kerneltrack-rest:8081": cluster.settings.address("flink"),
        "/opt/kerneltrack/class-path.jar": str(class_path_jar(cluster)),
        "/opt/kerneltrack/java-classes.yaml": str(TEMPLATES / "java-classes.yaml"),
        "/opt/kerneltrack/jobserver.jar": str(cluster.jars.jobserver),
        "/etc/kerneltrack/flink": str(folder / "flink"),
        SPECS: str(folder / "specs"),
        "/var/lib/kerneltrack": str(folder / "state"),
        "kerneltrack-jobserver": "127.0.0.1",
        "$(POD_IP)": "127.0.0.1",
        **{name: str(port) for name, port in ports},
    }


def write_volumes(folder: Path, flink: str) -> None:
    """Write the ConfigMaps' files to where they are mounted."""
    host, port = flink.split(":")
    for name, place in (("kerneltrack-specs", "specs"), ("kerneltrack-flink-client", "flink")):
        (folder / place).mkdir()
        for file, text in config(name).items():
            content = yaml.safe_load(text)
            if "rest.address" in content:
                content |= {"rest.address": host, "rest.port": int(port)}
            (folder / place / file).write_text(yaml.safe_dump(content), encoding="utf-8")
    (folder / "state").mkdir()


pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def deployed(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    """The manifests' servers and workers, running beside a Flink and a Kafka."""
    folder = tmp_path_factory.mktemp("deployed")
    with ExitStack() as stack:
        known = load(Folder(cluster.folder))
        assert known is not None
        replaced = addresses(known, folder)
        deployed = Deployed(cluster, known.settings.ports, folder, replaced)
        write_volumes(folder, known.settings.address("flink"))
        servers = pod_containers(resources()["Deployment", "kerneltrack-jobserver"])
        java = flink_containers()["java-worker"]
        pool = [
            *(sys.executable, "-m", "apache_beam.runners.worker.worker_pool_main"),
            "--service_port=50000",
            # Beam's image starts its own program here, which does the same.
            f"--container_executable={worker_command(known)}",
        ]
        variables = {item["name"]: deployed.here([item["value"]])[0] for item in java["env"]}
        for name, words in {
            "python-worker": pool,
            "java-worker": [*java["command"], *java["args"]],
            **{name: [*item["command"], *item["args"]] for name, item in servers.items()},
        }.items():
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            process = subprocess.Popen(
                deployed.here(words), env=environment(variables), stdout=log, stderr=log
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
        for name in ("8099", "8097", "50000", "50001"):
            wait_for(f"port {name}", partial(grpc_answers, int(replaced[name])))
        yield deployed


def send_bad_rows(brokers: str) -> None:
    """A row that is none, and one that comes too late."""
    producer = confluent_kafka.Producer({"bootstrap.servers": brokers})
    late = {"time": 10**9, "label": "x", **dict.fromkeys(("ax", "ay", "az", "wx", "wy", "wz"), 0.5)}
    for value in (b"no row", json.dumps(late).encode()):
        producer.produce(INPUT, value, b"subject-04")
    assert producer.flush(60) == 0


def replay(deployed: Deployed, sample: Path, rows: int) -> None:
    """Send the sample's first rows."""
    place = ("--cluster", str(deployed.cluster.folder))
    sent = run_process(
        command(
            *("replay", str(sample), *place, "--topic", INPUT, "--create-topic", "3"),
            *("--model-id", "model_id", "--time", "time", "--label", "label"),
            *("--rows", str(rows), "--message-rows", "50", "--speed", "0", "--times", "keep"),
        )
    )
    assert sent.returncode == 0, sent.stderr


@pytest.fixture(scope="module")
def job(deployed: Deployed, sample: Path) -> Iterator[str]:
    """The job that the manifest submits, its rows sent and read."""
    place = ("--cluster", str(deployed.cluster.folder))
    replay(deployed, sample, ROWS)
    # Kubernetes has the topics made beforehand.
    done = run_process(command(*deployed.here(submit_arguments()), "--create-topics"))
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"\((\w{32})\) runs", done.stdout)
    assert found
    wait_for("all rows", lambda: deployed.total("rows_tracked") == ROWS)
    send_bad_rows(deployed.replaced["kafka-bootstrap.kafka:9092"])
    wait_for("dead letters", lambda: deployed.total("dead_letters") == 1)
    wait_for("late rows", lambda: deployed.total("rows_late") == 1)
    yield found[1]
    run_process(command("stop", *place, "--state-folder", str(deployed.folder / "state/jobs")))


def test_the_manifests_job_runs_on_workers_in_sidecars(deployed: Deployed, job: str) -> None:
    assert deployed.total("rows_tracked") == ROWS
    assert deployed.total("rows_read") == ROWS + 2
    assert deployed.total("rows_failed") == 1
    python = (deployed.folder / "python-worker.log").read_text()
    assert python.count("Starting worker with command") == 1
    environments = deployed.cluster.ask_flink(f"/jobs/{job}/config")["execution-config"]
    assert environments["job-parallelism"] == 2
    # Only the jar that names Beam's: no file that a Python worker would look for in vain.
    staged = [path.name for path in (deployed.folder / "state").rglob("*") if path.is_file()]
    staged = [name for name in staged if not name.endswith(".json")]
    assert len(staged) == 1
    assert "class-path" in staged[0]
    record = json.loads((deployed.folder / f"state/jobs/{job}.json").read_text())
    assert record["settings"]["tracker"]["budget"] == 20


def test_workers_check_what_they_write(deployed: Deployed, job: str) -> None:
    """They begin with it: Beam's worker logs the flags that it is started with."""
    logged = (deployed.cluster.folder / "logs/taskmanager.log").read_text()
    (options,) = set(re.findall(rf"Pipeline_options: (.*'kerneltrack-{INPUT}-.*)", logged))
    assert "'beam_plugins': ['transforms.beam_worker.live_worker']" in options


def test_the_expansion_service_takes_no_class_and_no_large_message(deployed: Deployed) -> None:
    address = f"127.0.0.1:{deployed.replaced['8097']}"
    sequence = JavaExternalTransform("org.apache.beam.sdk.io.GenerateSequence", address)
    with pytest.raises(RuntimeError, match="allow list does not enable"):
        _ = beam.Pipeline() | getattr(sequence, "from")(1)
    large = beam_expansion_api_pb2.ExpansionRequest(namespace="x" * (5 << 20))
    with grpc.insecure_channel(address) as channel:
        stub = beam_expansion_api_pb2_grpc.ExpansionServiceStub(channel)
        with pytest.raises(grpc.RpcError) as refused:
            stub.Expand(large, timeout=60)
    assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_every_query_of_dashboard_and_alerts_names_a_metric(deployed: Deployed, job: str) -> None:
    dashboard: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    rules = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"][0]["rules"]
    queries = [query for panel in dashboard_queries(dashboard).values() for query in panel]
    queries += [rule["expr"] for rule in rules]
    queries += [
        variable["definition"]
        for variable in dashboard["templating"]["list"]
        if "definition" in variable
    ]
    named = {name for query in queries for name in METRIC.findall(query)}
    assert all(METRIC.search(query) for query in queries)
    table = re.findall(r"^\| (`\w+`[^|]*) \|", (DEPLOY / "README.md").read_text(), re.M)
    counters = [name for cell in table for name in re.findall(r"`(\w+)`", cell)]
    assert {"rows_read", "loss_millionths", "lag_milliseconds"} <= set(counters)
    named |= {f"flink_taskmanager_job_task_operator_kerneltrack_{name}" for name in counters}
    # This job's times are numbers, its labels come along, it begins anew, its rows are wide and
    # have no modes, and none of them waits for others to confirm its time.
    words = ["ambiguous", "nonexistent", "learned_before", "duplicate", "labels", "episodes"]
    words += ["unconfirmed", "merged", "unnamed", "replaced", "without_mode", "idle"]
    others = {word: {name for name in named if f"_{word}" in name} for word in words}
    assert all(others.values())
    wanted = named.difference(*others.values())
    wait_for(
        "every metric", lambda: wanted <= deployed.shown(), lambda: str(wanted - deployed.shown())
    )


def test_loss_and_lag_are_means_of_the_rows(deployed: Deployed, job: str) -> None:
    mean = deployed.total("loss_millionths") / deployed.total("rows_tracked") / 1e6
    # A Gaussian kernel's fitting error.
    assert 0 < mean < 1
    # Rows of years ago count a day each.
    assert deployed.total("lag_milliseconds") == 86_400_000 * ROWS


def test_pools_give_workers_to_the_next_taskmanager(
    deployed: Deployed, job: str, sample: Path
) -> None:
    """The last one of these: counters begin anew."""

    def completed() -> int:
        counts = deployed.cluster.ask_flink(f"/jobs/{job}/checkpoints")["counts"]
        return int(counts["completed"])

    so_far = completed()
    wait_for("a checkpoint of all that was read", lambda: completed() > so_far + 1)
    deployed.cluster.kill_taskmanager()
    replay(deployed, sample, 100)
    # Its counters begin at 0; these rows have been there before.
    wait_for("rows", lambda: deployed.total("rows_late") == 100)
    assert deployed.total("rows_read") == 100
    python = (deployed.folder / "python-worker.log").read_text()
    assert python.count("Starting worker with command") > 1
