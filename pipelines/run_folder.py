"""What lies where in a run's folder."""

from __future__ import annotations

from kerneltrack.errors import ConfigError
from kerneltrack.paths import exists, join
from transforms.outputs import FOLDERS

RUN = "run.json"
REPORT = "report.html"
REPORT_DEVICES = "report_devices"
"""Folder of the devices that the page itself does not hold."""


def results_in(output: str, overwrite: bool) -> list[str]:
    """Return which results of an earlier run are in a folder.

    Raises:
        ConfigError: if there are any, and they may not go.
    """
    found = [name for name in (*FOLDERS, RUN, REPORT, REPORT_DEVICES) if exists(join(output, name))]
    if found and not overwrite:
        raise ConfigError(
            "--output", output, f"a folder without {', '.join(found)}, or pass --overwrite"
        )
    return found
