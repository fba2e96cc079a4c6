"""Disks that tests fill: small file systems in memory, where there is the right to mount them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.jobs import run_process
from tests.parts import missing

BLOCK = 4096


def mount(place: Path, size: int) -> None:
    """Mount a file system of so many bytes, or give one that is mounted another size."""
    options = f"remount,size={size}" if os.path.ismount(place) else f"size={size}"
    made = run_process(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)])
    if made.returncode != 0:
        missing("no right to mount a file system")


def unmount(place: Path) -> None:
    """Take it away again, whoever still looks at it."""
    if os.path.ismount(place):
        run_process(["umount", "--lazy", str(place)])


@contextmanager
def filled(place: Path) -> Iterator[None]:
    """Leave a file system without a free byte, and give them back."""
    filler = place / "filler"
    with filler.open("wb", buffering=0) as handle:
        try:
            while handle.write(bytes(BLOCK)):
                pass
        except OSError:
            pass
    yield
    filler.unlink()
