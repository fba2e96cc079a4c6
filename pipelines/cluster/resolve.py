"""Get the jars with Maven, once: they stay in the user's cache under the hash of the poms.

`python -m pipelines.cluster.resolve` does so before a cluster is started.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pipelines.cache import cache_folder
from pipelines.cluster.errors import ClusterError
from pipelines.cluster.interruption import Interruption
from pipelines.cluster.java import LIGHT_FLAGS, Java, find_java
from pipelines.cluster.turns import locked
from pipelines.cluster.versions import POMS, versions

POLL = 0.1
ADVICE = "install Maven (on Debian: apt-get install maven)"


@dataclass(frozen=True)
class Jars:
    """What the poms resolve to.

    Args:
        folder: Where it lies.
    """

    folder: Path

    @property
    def flink(self) -> str:
        """Class path of JobManager and TaskManager."""
        return str(self.folder / "flink" / "*")

    @property
    def kafka(self) -> str:
        """Class path of the broker and its tools."""
        return str(self.folder / "kafka" / "*")

    @property
    def jobserver(self) -> Path:
        """The jar of Beam's job server, the expansion service and the Java worker."""
        return self.folder / "jobserver.jar"


def stamp() -> str:
    """Return the hash of all that decides what the jars are."""
    digest = hashlib.sha256()
    for path in sorted(POMS.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            name = path.relative_to(POMS).as_posix()
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def resolve(java: Java, interruption: Interruption, say: Callable[[str], None]) -> Jars:
    """Return the jars; Maven runs only if they are not in the cache yet.

    Args:
        java: What Maven is to run on.
        interruption: Ends Maven.
        say: Takes a line when Maven is about to run.

    Raises:
        ClusterError: if Maven or a compiler is missing, or Maven fails.
        KeyboardInterrupt: if a signal came; what was fetched so far is kept by Maven.
    """
    cache = cache_folder() / "jars"
    jars = Jars(cache / stamp())
    if jars.folder.is_dir():
        return jars
    maven = shutil.which("mvn")
    if maven is None:
        raise ClusterError(
            f"the local cluster's jars are fetched once with Maven, and there is no mvn: {ADVICE}"
        )
    if not java.compiles:
        raise ClusterError(
            f"a JDK is needed to build the local cluster's jars, and {java.home} has no javac "
            "(on Debian: apt-get install openjdk-17-jdk-headless)"
        )
    cache.mkdir(parents=True, exist_ok=True)
    with locked(cache / "lock", interruption):
        # Another process may have been first.
        if not jars.folder.is_dir():
            products = ", ".join(f"{name} {version}" for name, version in versions().items())
            log = cache / "maven.log"
            say(f"Fetching {products} with Maven, once: some minutes, 350 MB (log: {log})")
            _build([maven], java, jars.folder, log, interruption)
    return jars


def _build(
    maven: list[str], java: Java, target: Path, log: Path, interruption: Interruption
) -> None:
    work = target.with_name(f"{target.name}.part")
    shutil.rmtree(work, ignore_errors=True)
    try:
        # Maven writes beside its poms, and the package's folder may be read-only.
        shutil.copytree(POMS, work / "poms")
        command = [
            *maven,
            *("--batch-mode", "--no-transfer-progress", "--strict-checksums"),
            *("--file", str(work / "poms" / "pom.xml")),
            f"-Dkerneltrack.jars={work / 'jars'}",
            "package",
        ]
        env = {"MAVEN_OPTS": " ".join(LIGHT_FLAGS), **os.environ, "JAVA_HOME": str(java.home)}
        code = _run(command, env, log, interruption)
        if code != 0:
            raise ClusterError(f"Maven failed: {_reason(log)} (all of it: {log})")
        (work / "jars").rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run(command: list[str], env: dict[str, str], log: Path, interruption: Interruption) -> int:
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            while process.poll() is None:
                interruption.wait(POLL)
        except KeyboardInterrupt:
            process.terminate()
            raise
        return process.returncode


def _reason(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    errors = [line.removeprefix("[ERROR]").strip() for line in lines if line.startswith("[ERROR]")]
    return next(iter(errors), lines[-1] if lines else "no output")


if __name__ == "__main__":
    resolve(find_java(), Interruption(), print)
