"""Files of snapshots: their names, and how they are read and written."""

from __future__ import annotations

import hashlib
import math
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from kerneltrack.errors import DataError
from kerneltrack.paths import as_stored, is_local, remote
from kerneltrack.registry import TRACKERS

MAX_NAME = 180
"""Longest file name made of a model id: file systems stop at 255 bytes."""
ENDING = ".safetensors"
UNFINISHED = ".unfinished"
MOST_BYTES = 4 << 30
"""Most bytes of a file that is read at once: twice what Beam's runners can carry of a state."""

_BLOCK = 16 << 20
_PART = re.compile(r"part-[0-9]{5}-of-[0-9]{5}\.parquet")
_TOKEN = 6


def snapshot_name(model_id: str, rows: int | None = None, kind: str = TRACKERS.role) -> str:
    """Return a file name for a model's state.

    The id is percent-escaped, and shortened by a hash if too long.

    Args:
        model_id: The model.
        rows: Rows learned from, at a boundary before the end.
        kind: "tracker" or "learner".

    Example:
        >>> snapshot_name("robot/7")
        'robot%2F7.safetensors'
        >>> snapshot_name("robot/7", 1200, "learner")
        'robot%2F7@1200@learner.safetensors'
    """
    name = escaped(model_id)
    if rows is not None:
        name += f"@{rows}"
    return name + ENDING if kind == TRACKERS.role else f"{name}@{kind}{ENDING}"


def escaped(model_id: str) -> str:
    """Return a model's id as part of a file name."""
    # quote() leaves "~" alone; here it sets a hash apart.
    name = quote(model_id.encode("utf-8", "surrogatepass"), safe=" ").replace("~", "%7E")
    if name.startswith("."):
        name = "%2E" + name[1:]
    if len(name) > MAX_NAME:
        digest = hashlib.sha256(model_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        name = f"{name[: MAX_NAME - 40]}~{digest}"
    return name or "%"


def is_part(name: object) -> bool:
    """Check whether a name is one that packed files have: plain, in the folder itself."""
    return isinstance(name, str) and _PART.fullmatch(name) is not None


def read_whole(path: str, most: int = MOST_BYTES) -> bytes:
    """Return the bytes of a file.

    Args:
        path: A regular file, or an object of another of Beam's file systems.
        most: Bytes it may have; no more than that is ever in memory.

    Raises:
        DataError: if it cannot be read, is a folder, a pipe or a device, or is larger.
    """
    with opened(path, most) as handle:
        parts, left = [], most + 1
        while left > 0:
            part = handle.read(min(left, _BLOCK))
            if not part:
                break
            parts.append(part)
            left -= len(part)
    if left <= 0:
        raise DataError(path, f"cannot be read: larger than {most:,} bytes")
    return parts[0] if len(parts) == 1 else b"".join(parts)


@contextmanager
def opened(path: str, most: float = math.inf) -> Iterator[BinaryIO]:
    """Open a file to read it, its bytes as they are.

    Raises:
        DataError: if it cannot be opened or read, is larger than `most` bytes as far as can be
            seen, or is a folder, a pipe or a device: those may never end.
    """
    try:
        with _open(path, most) as handle:
            yield handle
    # Beam raises ValueError for a file system that it does not know.
    except (OSError, ValueError) as error:
        raise DataError(path, "cannot be read: " + " ".join(str(error).split())) from error


def _open(path: str, most: float) -> BinaryIO:
    if not is_local(path):
        elsewhere: BinaryIO = remote().open(path, **as_stored())
        return elsewhere
    # Opening a pipe would wait for whoever writes to it.
    handle = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))
    about = os.fstat(handle.fileno())
    if not stat.S_ISREG(about.st_mode) or about.st_size > most:
        handle.close()
        regular = stat.S_ISREG(about.st_mode)
        raise OSError(f"larger than {most:,} bytes" if regular else "not a regular file")
    return handle


def files_in(folder: str, ending: str) -> list[tuple[str, int]]:
    """Return name and size of the files of a folder whose names end so, in the order of names.

    A local folder's name may hold what a pattern would misread.
    """
    if not is_local(folder):
        systems = remote()
        (found,) = systems.match([systems.join(folder, "*" + ending)])
        files = [(systems.split(one.path)[1], one.size_in_bytes) for one in found.metadata_list]
    elif os.path.isdir(folder):
        with os.scandir(folder) as entries:
            names = [entry for entry in entries if entry.name.endswith(ending)]
            files = [(entry.name, entry.stat().st_size) for entry in names if not entry.is_dir()]
    else:
        files = []
    return sorted(files)


def write_whole(path: str, data: bytes, mime_type: str = "application/octet-stream") -> None:
    """Write a file under a name of its own and rename it, so that no half file bears its name.

    Two jobs that write the same file do not write into each other's: the last one's is kept.
    """
    unfinished = f"{path}.{secrets.token_hex(_TOKEN)}{UNFINISHED}"
    try:
        if is_local(path):
            _write(unfinished, data)
            os.replace(unfinished, path)
        else:
            with remote().create(unfinished, mime_type=mime_type, **as_stored()) as handle:
                handle.write(data)
            remote().rename([unfinished], [path])
    except BaseException as error:
        remove_file(unfinished)
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            raise OSError(error.errno, error.strerror, path) from error
        raise


def _write(path: str, data: bytes) -> None:
    try:
        with open(path, "wb", buffering=0) as handle:
            left = memoryview(data)
            while left:
                left = left[handle.write(left) :]
    except FileNotFoundError:
        folder = Path(path).parent
        if folder.is_dir():
            raise
        folder.mkdir(parents=True, exist_ok=True)
        _write(path, data)


def remove_file(path: str) -> None:
    """Remove a file if it is there. Beam takes a name for a pattern, which may match others."""
    if is_local(path):
        Path(path).unlink(missing_ok=True)
    elif remote().exists(path):
        remote().delete([path])
