"""Paths: of this machine's files, and of Beam's other file systems (gs:// and the like).

Beam is imported for the latter only: it takes longer than most commands take.
"""

from __future__ import annotations

import importlib
import os
import re
from typing import Any

_SCHEME = re.compile(r"[a-zA-Z][-a-zA-Z0-9+.]*://")


def is_local(path: str) -> bool:
    """Check whether a path is one of this machine's files."""
    return _SCHEME.match(path) is None


def remote() -> Any:
    """Return Beam's `FileSystems`."""
    return importlib.import_module("apache_beam.io.filesystems").FileSystems


def as_stored() -> dict[str, Any]:
    """Return the argument that makes Beam's file systems leave bytes as they are."""
    kinds = importlib.import_module("apache_beam.io.filesystem").CompressionTypes
    return {"compression_type": kinds.UNCOMPRESSED}


def join(folder: str, *names: str) -> str:
    """Return the path of a file in a folder."""
    path: str = os.path.join(folder, *names) if is_local(folder) else remote().join(folder, *names)
    return path


def whole(path: str) -> str:
    """Return a path as processes with another working directory find it too.

    Example:
        >>> whole("gs://bucket/snapshots")
        'gs://bucket/snapshots'
    """
    return os.path.abspath(path) if is_local(path) else path


def exists(path: str) -> bool:
    """Check whether there is a file or folder of this name."""
    return os.path.exists(path) if is_local(path) else bool(remote().exists(path))
