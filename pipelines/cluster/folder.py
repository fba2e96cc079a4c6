"""A cluster's folder: where its settings, records, logs and data lie."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kerneltrack.errors import ConfigError, DataError
from pipelines.cluster.errors import ClusterError
from pipelines.cluster.java import Java
from pipelines.cluster.resolve import Jars
from pipelines.cluster.settings import ClusterSettings
from pipelines.cluster.turns import taken

VERSION = 1
LOCK = ".lock"
SPENT = ("tmp", "artifacts")
KINDS = ("bin", "config", "run", "logs", "kafka", "checkpoints", "savepoints", "jobs", *SPENT)


@dataclass(frozen=True)
class Folder:
    """The folder of one cluster.

    `run/` holds a record of each process, `config/` what is generated anew by every `up`, `kafka/`,
    `checkpoints/`, `savepoints/` and `jobs/` what outlives it.

    Args:
        root: Absolute path.
    """

    root: Path

    def __truediv__(self, name: str) -> Path:
        """Return the path of a part of it."""
        return self.root / name

    @property
    def run(self) -> Path:
        """Where the records of processes lie."""
        return self.root / "run"

    def log(self, name: str) -> Path:
        """Return the log file of a part."""
        return self.root / "logs" / f"{name}.log"

    def output(self, name: str) -> Path:
        """Return the file that takes what a part prints without a logger."""
        return self.root / "logs" / f"{name}.out"

    @property
    def settings(self) -> Path:
        """The file that makes it a cluster's folder."""
        return self.root / "cluster.json"

    def make(self) -> None:
        """Make it.

        Raises:
            ClusterError: if it holds other things than a cluster.
        """
        # Settings may hold passwords.
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self.settings.exists() and {path.name for path in self.root.iterdir()} - {LOCK}:
            raise ClusterError(f"--folder {self.root}: it is not empty and holds no cluster")

    def make_parts(self) -> None:
        """Make the folders in it that are missing."""
        for kind in KINDS:
            (self.root / kind).mkdir(exist_ok=True)

    def clear(self) -> None:
        """Remove what nothing needs once all processes have ended."""
        for kind in SPENT:
            shutil.rmtree(self.root / kind, ignore_errors=True)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keep other commands, and the supervisor, from changing the cluster meanwhile.

        Raises:
            ClusterError: if one is at it.
        """
        with (self.root / LOCK).open("w") as handle:
            if not taken(handle.fileno()):
                text = f"another command is starting or stopping the cluster in {self.root}"
                raise ClusterError(text)
            yield

    def wipe(self) -> None:
        """Remove the cluster's settings, logs and data, and the folder if nothing else is in it."""
        for kind in KINDS:
            shutil.rmtree(self.root / kind, ignore_errors=True)
        self.settings.unlink()
        (self.root / LOCK).unlink(missing_ok=True)
        if not any(self.root.iterdir()):
            self.root.rmdir()


@dataclass(frozen=True)
class Cluster:
    """A cluster as it was last started.

    Args:
        folder: Where it lies.
        settings: How it is set up.
        java: What it runs on.
        jars: What it runs.
        versions: Of Flink, Kafka and Beam's runner.
    """

    folder: Folder
    settings: ClusterSettings
    java: Java
    jars: Jars
    versions: dict[str, str]

    def save(self) -> None:
        """Write it down in its folder."""
        content = {
            "version": VERSION,
            "settings": self.settings.to_dict(),
            "java": {"home": str(self.java.home), "version": self.java.version},
            "jars": str(self.jars.folder),
            "versions": self.versions,
        }
        path = self.folder.settings
        part = path.with_suffix(".part")
        part.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        part.replace(path)


def named_cluster(path: str) -> Cluster:
    """Return the cluster that `--cluster` names.

    Raises:
        ConfigError: if none was started in that folder.
    """
    found = load(Folder(Path(path).absolute()))
    if found is None:
        raise ConfigError("--cluster", path, "a folder in which a cluster was started")
    return found


def load(folder: Folder) -> Cluster | None:
    """Return the cluster that was last started in a folder, if any.

    Raises:
        DataError: if what is written there cannot be read.
    """
    path = folder.settings
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if content["version"] != VERSION:
            raise DataError(
                str(path), f"it is of version {content['version']}, this program's is {VERSION}"
            )
        return Cluster(
            folder,
            ClusterSettings(**content["settings"]),
            Java(Path(content["java"]["home"]), content["java"]["version"]),
            Jars(Path(content["jars"])),
            content["versions"],
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(str(path), f"it is damaged ({error}): stop and remove it") from error
