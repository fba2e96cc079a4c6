"""The fleet's dashboard and alert rules on a real Prometheus that asks a real exporter."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.cli.main import main
from pipelines.devices.of_run import lines_of_run
from pipelines.report.data.files import read_run
from tests.deployment import FLEET_ALERTS, FLEET_DASHBOARD, dashboard_queries
from tests.e2e.clusters import PATIENCE, LocalCluster, make_topics, wait_for
from tests.e2e.jobs import command, environment
from tests.e2e.live import Live
from tests.parts import program

ROWS, OFF_FROM = 900, 700
METRIC = re.compile(r"\bkerneltrack_\w+")


@pytest.fixture
def run(tmp_path: Path) -> str:
    """A run of four pumps: one is off, one is silent, one rests, one is well."""
    tables = []
    for number, stop in ((1, ROWS), (2, ROWS), (3, 600), (4, ROWS)):
        x = np.random.default_rng(number).normal(size=(stop, 2))
        if number == 1:
            x[OFF_FROM:, 1] += 8
        times = pa.array(np.arange(stop) * 60_000, pa.timestamp("ms", "UTC"))
        columns = {"device": [f"pump-{number}"] * stop, "time": times, "flow": x[:, 0]}
        tables.append(pa.table({**columns, "heat": x[:, 1]}))
    path, quiet, output = tmp_path / "rows.parquet", tmp_path / "quiet.csv", tmp_path / "run"
    pq.write_table(pa.concat_tables(tables), path)
    quiet.write_text("device,from,to,why\npump-4,1970-01-01T14:00,1970-01-03,rest\n")
    words = ["track", str(path), "--model-id", "device", "--time", "time", "--reference", "first"]
    words += ["--reference-rows", "256", "--rank", "2", "--budget", "5", "--neighbours", "0"]
    words += ["--silent-after", "2h", "--quiet", str(quiet), "--output", str(output)]
    assert main(words) == 0
    return str(output)


@contextmanager
def exporter(*words: str) -> Iterator[str]:
    """Run `kerneltrack devices --serve`; yields its address."""
    line = command("devices", *words, "--serve", "127.0.0.1:0", "--watch", "0.5")
    with subprocess.Popen(line, env=environment(), stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout
            (url,) = re.findall(r"metrics at (http://\S+/metrics)", running.stdout.readline())
            yield url
            running.send_signal(signal.SIGINT)
            assert running.wait(PATIENCE) == 130
        finally:
            running.kill()


@contextmanager
def prometheus(url: str, folder: Path) -> Iterator[str]:
    """Run a Prometheus that asks an exporter, with the fleet's rules; yields its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        place = f"127.0.0.1:{free.getsockname()[1]}"
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(FLEET_ALERTS)],
        "scrape_configs": [
            {
                "job_name": "pumps",
                "static_configs": [{"targets": [urllib.parse.urlsplit(url).netloc]}],
            }
        ],
    }
    path = folder / "prometheus.yml"
    path.write_text(json.dumps(config))
    line = [program("prometheus", "prometheus"), f"--config.file={path}"]
    line += [f"--web.listen-address={place}", f"--storage.tsdb.path={folder / 'prometheus'}"]
    log = (folder / "prometheus.log").open("w")
    with log, subprocess.Popen(line, stdout=log, stderr=log) as running:
        try:
            yield f"http://{place}"
        finally:
            running.terminate()


def asked(place: str, path: str, **words: str) -> Any:
    """What Prometheus' API answers."""
    query = urllib.parse.urlencode(words)
    with urllib.request.urlopen(f"{place}/api/v1/{path}?{query}", timeout=10) as answer:
        found = json.load(answer)
    assert found["status"] == "success"
    return found["data"]


def text_of(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())


def answers(url: str) -> bool:
    try:
        return bool(text_of(url))
    except OSError:
        return False


def test_every_panel_and_rule_finds_what_the_exporter_shows(run: str, tmp_path: Path) -> None:
    dashboard = json.loads(FLEET_DASHBOARD.read_text(encoding="utf-8"))
    panels = dashboard_queries(dashboard)
    variables = [each.get("definition", "") for each in dashboard["templating"]["list"]]
    with exporter(run) as url:
        wait_for("the metrics", lambda: answers(url))
        shown = set(re.findall(r"^# TYPE (\w+)", text_of(url), re.M))
        named = METRIC.findall(json.dumps([panels, variables]) + FLEET_ALERTS.read_text())
        # What is shown is used, and what is used is shown.
        assert set(named) == shown
        with prometheus(url, tmp_path) as place:

            def found(query: str) -> list[dict[str, Any]]:
                query = query.replace("$__rate_interval", "1m").replace("$fleet", "pumps")
                results: list[dict[str, Any]] = asked(
                    place, "query", query=query.replace("$device", "pump-1")
                )["result"]
                return results

            queries = [query for panel in panels.values() for query in panel]
            wait_for("each query", lambda: answers(place) and all(map(found, queries)))
            values = {title: found(panels[title][0])[0]["value"][1] for title in STATS}
            assert values == STATS
            listed = [each["metric"] for each in found(panels[TABLE][0])]
            assert {(each["device"], each["state"], each.get("kind")) for each in listed} == {
                ("pump-1", "off", "shift"),
                ("pump-3", "off", "silent"),
                ("pump-4", "quiet", None),
            }
            assert listed[0]["channel"] == "heat"
            since = {each["metric"]["device"]: each["value"][1] for each in found(panels[TABLE][1])}
            known = {line["model_id"]: line["since"] for line in lines_of_run(run, read_run(run))}
            for name in ("pump-1", "pump-3"):
                assert np.datetime64(int(float(since[name])), "ms") == np.datetime64(
                    known[name][:-1]
                )
            for variable in variables[1:]:
                query = re.fullmatch(r"label_values\((.*), (\w+)\)", variable)
                assert query and all(query[2] in each["metric"] for each in found(query[1]))

            def firing() -> set[tuple[str, str]]:
                return {
                    (each["labels"]["alertname"], each["annotations"]["summary"])
                    for each in asked(place, "alerts")["alerts"]
                    if each["state"] == "firing"
                }

            wanted = {
                ("KerneltrackDeviceOff", "pump-1 is off: shift in heat"),
                ("KerneltrackDeviceSilent", "pump-3 sends nothing"),
            }
            wait_for("the alerts", lambda: firing() == wanted)
            (group,) = asked(place, "rules")["groups"]
            assert {rule["health"] for rule in group["rules"]} == {"ok"}


def test_a_topic_is_served_as_it_comes(cluster: LocalCluster) -> None:
    live = Live(cluster, "served", "json")
    make_topics(live.client, "served-devices", partitions=2)
    producer = confluent_kafka.Producer(live.client)

    def send(name: str, **line: Any) -> None:
        given = {"model_id": name, "rows": 9, "since_index": 3, "episodes": 0, "channels": []}
        given |= {"severity": None, "kind": None, "since": "2026-03-01T19:59:00.000000000Z"}
        value = json.dumps({**given, **line}).encode() if line else None
        producer.produce("served-devices", value, name.encode())
        producer.flush(PATIENCE)

    def has(url: str, *wanted: str) -> bool:
        return answers(url) and set(wanted) <= set(text_of(url).splitlines())

    send("pump-1", state="off", episodes=2, kind="ramp", severity=7.5)
    send("pump-2", state="normal")
    with exporter("--topic", "served-devices", *live.place) as url:
        info = 'kerneltrack_device_info{device="pump-1",state="off",kind="ramp"} 1'
        normal, off = ('kerneltrack_devices{state="normal"}', 'kerneltrack_devices{state="off"}')
        wait_for("the topic", lambda: has(url, info, f"{normal} 1", "kerneltrack_episodes_total 0"))
        send("pump-1", state="normal", episodes=2)
        send("pump-2", state="off", episodes=1, kind="shift", severity=9.0)
        wait_for("a change", lambda: has(url, f"{normal} 1", "kerneltrack_episodes_total 1"))
        assert info not in text_of(url)
        send("pump-2")
        wait_for("the end", lambda: has(url, f"{normal} 1", f"{off} 0"))


TABLE = "Which devices are off, changed or quiet"
STATS = {"Off": "2", "Silent": "1", "Changed": "0", "Quiet": "1", "Calibrating": "0", "Well": "1"}
