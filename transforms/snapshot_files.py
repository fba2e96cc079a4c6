"""Files of snapshots: their names, and how they are read and written."""

from __future__ import annotations

import hashlib
from urllib.parse import quote

from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems

from kerneltrack import codec
from kerneltrack.errors import DataError

MAX_NAME = 180
"""Longest file name made of a model id: file systems stop at 255 bytes."""
ENDING = ".safetensors"


def snapshot_name(model_id: str, rows: int | None = None, kind: str = codec.TRACKER) -> str:
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
    return name + ENDING if kind == codec.TRACKER else f"{name}@{kind}{ENDING}"


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


def read_whole(path: str) -> bytes:
    """Read a file.

    Raises:
        DataError: if it cannot be read.
    """
    try:
        with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as handle:
            data: bytes = handle.read()
    except (OSError, BeamIOError) as error:
        raise DataError(path, "cannot be read: " + " ".join(str(error).split())) from error
    return data


def write_whole(path: str, data: bytes) -> None:
    """Write a file under another name and rename it, so that no half file bears its name."""
    unfinished = path + ".unfinished"
    try:
        with FileSystems.create(
            unfinished, compression_type=CompressionTypes.UNCOMPRESSED
        ) as handle:
            handle.write(data)
        FileSystems.rename([unfinished], [path])
    except BaseException as error:
        if FileSystems.exists(unfinished):
            FileSystems.delete([unfinished])
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            raise OSError(error.errno, error.strerror, path) from error
        raise
