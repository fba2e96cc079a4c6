"""Copies of the project's sources: the code before an upgrade, and, with a change, after it."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

from tests.e2e.clusters import LocalCluster
from tests.e2e.jobs import ROOT

PACKAGES = ("transforms", "pipelines")
"""Not kerneltrack, whose loops are built where it is installed."""
STEPS = "pipelines/live/pipeline.py"
BOOT = (sys.executable, "-m", "pipelines.cluster.boot_worker")


class Sources:
    """A copy of the packages.

    Args:
        folder: Where to; made.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in PACKAGES:
            shutil.copytree(ROOT / name, folder / name)

    def change(self, file: str, pattern: str, replacement: str) -> None:
        """Replace the one place where a pattern is found."""
        path = self.folder / file
        text, count = re.subn(pattern, replacement, path.read_text(encoding="utf-8"))
        assert count == 1, f"{file} has {count} times {pattern}"
        path.write_text(text, encoding="utf-8")

    @property
    def environment(self) -> dict[str, str]:
        """Variables by which a process imports them."""
        return {"PYTHONPATH": os.pathsep.join((str(self.folder), str(ROOT)))}

    def workers(self, cluster: LocalCluster) -> tuple[str, str]:
        """Flags by which a job's workers do."""
        boot = self.folder / "python-worker"
        command = [*BOOT, str(cluster.folder)]
        # The folder that a module is started in comes first.
        lines = [
            "#!/bin/sh",
            f"cd {shlex.quote(str(self.folder))}",
            *(f"export {name}={shlex.quote(value)}" for name, value in self.environment.items()),
            f'exec {shlex.join(command)} "$@"',
        ]
        boot.write_text("\n".join(lines) + "\n", encoding="utf-8")
        boot.chmod(0o755)
        config = json.dumps({"command": str(boot)})
        return "--environment_type=PROCESS", f"--environment_config={config}"


def newer(folder: Path) -> Sources:
    """Code with one more step before the tracker."""
    sources = Sources(folder)
    copy = '"Copy" >> beam.Map(lambda rows: rows).with_output_types(tuple[str, kafka.Chunk])'
    sources.change(STEPS, r"apply_job\(job, read\[kafka\.ROWS\]", rf"\g<0> | {copy}")
    return sources
