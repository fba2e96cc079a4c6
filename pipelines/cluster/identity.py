"""Tell one process from another that got the same id later."""

from __future__ import annotations

import subprocess
from pathlib import Path

PROC = Path("/proc")
BOOT = PROC / "sys/kernel/random/boot_id"


def identity(pid: int) -> str | None:
    """Return what a live process shares with no other of the same id: when it started.

    Returns:
        None if there is no such process, or it has ended and waits for its parent to notice.
    """
    if BOOT.exists():
        try:
            # The command in brackets may hold anything, so count from its end.
            fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        state, threads, ticks = fields[0], int(fields[17]), fields[19]
        # A first thread that has ended keeps the id while others still hold ports and files.
        ended = state in "ZX" and threads <= 1
        return None if ended else f"{BOOT.read_text().strip()}/{ticks}"
    asked = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    state, _, start = asked.stdout.strip().partition(" ")
    return None if not state or state.startswith("Z") else " ".join(start.split())
