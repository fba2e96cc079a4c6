"""One cluster of a user starts at a time: none takes the ports that another has just chosen."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipelines.cluster.interruption import Interruption

POLL = 0.2


@contextmanager
def turn(interruption: Interruption) -> Iterator[None]:
    """Wait until no other cluster is being started, and keep others waiting meanwhile.

    Args:
        interruption: Ends the wait.

    Raises:
        KeyboardInterrupt: if a signal came.
    """
    # Not in the cache's folder: clusters with different ones share the machine's ports too.
    with locked(Path(tempfile.gettempdir()) / f"kerneltrack-{os.getuid()}.lock", interruption):
        yield


@contextmanager
def locked(path: Path, interruption: Interruption) -> Iterator[None]:
    """Wait until a file can be locked, and hold it; arguments and errors as of `turn`."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        while not taken(handle):
            interruption.wait(POLL)
        yield
    finally:
        os.close(handle)


def taken(handle: int) -> bool:
    """Lock an open file, unless another process has done so."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
