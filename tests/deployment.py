"""What the tests of deploy/ share: where its files are, what stands in them, how checks are run."""

from __future__ import annotations

import argparse
import re
import subprocess
from pathlib import Path
from typing import Any

import yaml
from apache_beam.options.pipeline_options import PipelineOptions

from pipelines.cli import main as cli
from pipelines.cli.beam_options import beam_options

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
DOCKERFILE = DEPLOY / "docker" / "Dockerfile"
COMPOSE = DEPLOY / "docker" / "compose.yaml"
MANIFESTS = DEPLOY / "kubernetes"
DASHBOARD = DEPLOY / "grafana" / "kerneltrack.json"
ALERTS = DEPLOY / "prometheus" / "alerts.yaml"
FLEET_DASHBOARD = DEPLOY / "grafana" / "fleet.json"
FLEET_ALERTS = DEPLOY / "prometheus" / "fleet.yaml"
SPECS = "/etc/kerneltrack/specs"
METRIC = re.compile(r"\bflink_(?:job|task)manager_\w+")


def check(*command: str) -> str:
    """Run a program that must succeed; gives what it printed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def documents(path: Path) -> list[dict[str, Any]]:
    """All documents of a YAML file."""
    text = path.read_text(encoding="utf-8")
    return [item for item in yaml.load_all(text, Loader=yaml.CSafeLoader) if item]


def resources() -> dict[tuple[str, str], dict[str, Any]]:
    """What the kustomization holds, by kind and name."""
    (kustomization,) = documents(MANIFESTS / "kustomization.yaml")
    found = [item for name in kustomization["resources"] for item in documents(MANIFESTS / name)]
    return {(item["kind"], item["metadata"]["name"]): item for item in found}


def pod_containers(resource: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The containers of a Deployment's or a Job's pods, by name."""
    pod = resource["spec"]["template"]["spec"]
    found = [*pod.get("initContainers", ()), *pod["containers"]]
    return {item["name"]: item for item in found}


def merge(base: Any, over: Any) -> Any:
    """Lay one part of a pod's template over another as the operator does, lists by their names."""
    if isinstance(base, dict) and isinstance(over, dict):
        shared = {key: merge(base[key], over[key]) for key in base.keys() & over.keys()}
        return {**base, **over, **shared}
    if isinstance(base, list) and all("name" in item for item in [*base, *over]):
        laid = {item["name"]: item for item in base}
        for item in over:
            laid[item["name"]] = merge(laid.get(item["name"], {}), item)
        return list(laid.values())
    return over


def flink_pod(part: str) -> dict[str, Any]:
    """The spec of the pods of Flink's `jobManager` or `taskManager`."""
    spec = resources()["FlinkDeployment", "kerneltrack"]["spec"]
    merged = merge(spec["podTemplate"], spec[part]["podTemplate"])
    pod: dict[str, Any] = merged["spec"]
    return pod


def flink_containers(part: str = "taskManager") -> dict[str, dict[str, Any]]:
    """The containers of Flink's pods, by name."""
    pod = flink_pod(part)
    return {item["name"]: item for item in [*pod.get("initContainers", ()), *pod["containers"]]}


def config(name: str) -> dict[str, str]:
    """The files of a ConfigMap."""
    data: dict[str, str] = resources()["ConfigMap", name]["data"]
    return data


def submit_arguments() -> list[str]:
    """The command line of the Job that submits."""
    arguments: list[str] = pod_containers(resources()["Job", "kerneltrack-submit"])["submit"][
        "args"
    ]
    return arguments


def parse(arguments: list[str]) -> tuple[argparse.Namespace, PipelineOptions]:
    """Read a command line as `kerneltrack` does."""
    _, args, rest = cli.read(arguments)
    return args, beam_options(rest)


def dashboard_queries(dashboard: dict[str, Any]) -> dict[str, list[str]]:
    """The queries of each panel, by its title."""
    return {
        panel["title"]: [target["expr"] for target in panel["targets"]]
        for panel in dashboard["panels"]
    }
