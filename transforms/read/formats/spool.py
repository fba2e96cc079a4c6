"""Standard input and other open pipes: kept in a file, since a job reads its input twice."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from typing import IO, Any

from kerneltrack.errors import DataError

STANDARD = ("-", "/dev/stdin")
"""Names of standard input."""

_DESCRIPTORS = ("/dev/fd/", "/proc/self/fd/")
"""Where the shell puts the pipes of `<(command)`."""

_kept: dict[str, tuple[Any, str]] = {}


def is_stream(path: str) -> bool:
    """Check whether a path names standard input, or a pipe of the shell."""
    return path in STANDARD or path.startswith(_DESCRIPTORS)


def spooled(path: str) -> str:
    """Return the file that holds what came through a stream; it is read on the first call.

    The file is in the system's folder for temporary files, and goes when the process ends.

    Raises:
        DataError: if the stream cannot be read.
    """
    name = STANDARD[0] if path in STANDARD else path
    stream = sys.stdin if name in STANDARD else None
    if name in _kept and _kept[name][0] is stream:
        return _kept[name][1]
    stored = new_file("stdin" if stream is not None else os.path.basename(name))
    try:
        with open(stored, "wb") as file, _opened(path, stream) as handle:
            shutil.copyfileobj(handle, file, 1 << 20)
    except (OSError, ValueError) as error:
        raise DataError(path, f"cannot be read: {error}") from error
    _kept[name] = stream, stored
    return stored


def new_file(name: str) -> str:
    """Return the path of a new temporary file of a name; it goes when the process ends."""
    folder = tempfile.mkdtemp(prefix="kerneltrack-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return os.path.join(folder, name)


def _opened(path: str, stream: Any) -> IO[bytes]:
    """Open a stream; standard input stays open when what is returned is closed."""
    if path not in STANDARD:
        return open(path, "rb")
    if stream is None:
        raise ValueError("there is no standard input")
    return os.fdopen(os.dup(stream.fileno()), "rb")
