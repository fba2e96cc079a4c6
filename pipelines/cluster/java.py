"""Find Java, and say in one line what is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from pipelines.cluster.errors import ClusterError

OLDEST = 17
NEWEST = 21
NEEDED = f"the local cluster needs Java {OLDEST} (up to {NEWEST})"
LIGHT_COMPILER = "-XX:TieredStopAtLevel=1"
"""For a broker: the thorough compiler takes .4 of a core in its first minute, beside the job."""
# Of programs that compute little: quick to start, one thread that looks for garbage.
LIGHT_FLAGS = ("-XX:+UseSerialGC", LIGHT_COMPILER)
ADVICE = "install it or set JAVA_HOME (on Debian: apt-get install openjdk-17-jdk-headless)"


@dataclass(frozen=True)
class Java:
    """A Java that can run the cluster.

    Args:
        home: Its folder, as JAVA_HOME names it.
        version: Its major version.
    """

    home: Path
    version: int

    @property
    def command(self) -> str:
        """The `java` program."""
        return str(self.home / "bin" / "java")

    @property
    def compiles(self) -> bool:
        """Whether it is a JDK."""
        return (self.home / "bin" / "javac").exists()


def find_java() -> Java:
    """Return the Java of JAVA_HOME, else the one on the path.

    Raises:
        ClusterError: if there is none, or none of a version that Flink and Kafka run on.
    """
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if program is None:
        raise ClusterError(f"{NEEDED}, and there is no java on the path: {ADVICE}")
    try:
        asked = subprocess.run(
            [program, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClusterError(f"{NEEDED}, and {program} does not run ({error}): {ADVICE}") from error
    facts = dict(re.findall(r"^ +(java\.\S+) = (.+)$", asked.stderr + asked.stdout, re.M))
    version = facts.get("java.specification.version", "unknown")
    if not version.isdigit() or not OLDEST <= int(version) <= NEWEST:
        raise ClusterError(f"{NEEDED}, and {program} is Java {version}: {ADVICE}")
    return Java(Path(facts["java.home"]), int(version))
