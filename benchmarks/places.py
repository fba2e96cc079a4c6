"""Where the benchmarks find the data sets, and where they write."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The project's folder."""
DATA = Path(os.environ.get("KERNELTRACK_DATA", ROOT.parent / "shared" / "data"))
"""The folder of the data sets."""
BUILD = ROOT / "build" / "benchmarks"
"""Tables, values and plots; made by whoever writes first."""


def _processor() -> str:
    """Return the processor's name; the architecture where the system does not say it."""
    listed = Path("/proc/cpuinfo")
    text = listed.read_text(encoding="utf-8") if listed.exists() else ""
    name = re.search(r"^model name\s*: (.*)$", text, re.M)
    return re.sub(r"\((R|TM)\)", "", name[1]).strip() if name else platform.machine()


def provenance() -> dict[str, str]:
    """Return where figures come from: machine, versions, commit, date."""
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"],
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "machine": f"{_processor()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "commit": commit.stdout.strip() or "unknown",
        "date": datetime.now(tz=timezone.utc).isoformat(timespec="seconds"),
    }
