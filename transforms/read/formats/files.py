"""Finding and opening files, those of Beam's other file systems (gs:// and the like) too."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from glob import glob, has_magic
from typing import IO, cast

import pyarrow as pa

from kerneltrack.errors import DataError, one_line
from kerneltrack.paths import as_stored, is_local, remote
from transforms.read.formats.endings import split_ending
from transforms.read.formats.folders import (
    Found,
    files_below,
    is_beside_data,
    is_left_by_tools,
    of_one_kind,
)

READ_ERRORS = (
    OSError,
    EOFError,
    ValueError,
    LookupError,
    MemoryError,
    ArithmeticError,
    TypeError,
    SyntaxError,
    RuntimeError,
    pa.ArrowException,
    lzma.LZMAError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What libraries raise on files that are missing, damaged or of another format; NumPy reads
headers as Python literals, hence the syntax errors."""


def find(patterns: Sequence[str], form: str | None = None) -> Found:
    """Return the files that the patterns match, sorted, each once.

    A path that exists is taken as it is, even if it looks like a pattern. Of a folder all files
    below it are taken whose ending is known, or all if the format is said. Checksums, hidden files
    and the like are left out (`folders.is_beside_data`).

    Args:
        patterns: Files, folders and glob patterns.
        form: The format that the user says.

    Raises:
        DataError: if a pattern matches nothing, or the files of a folder have different endings.
    """
    found: dict[str, str] = {}
    skipped: list[str] = []
    for pattern in patterns:
        matched = _match_one(pattern, form)
        skipped += matched.skipped
        for path in matched.paths:
            found.setdefault(_identity(path), path)
    return Found(sorted(found.values()), tuple(dict.fromkeys(skipped)))


@contextmanager
def reading(path: str, position: str | None = None) -> Iterator[None]:
    """Turn whatever a damaged file makes a library raise into a DataError."""
    try:
        yield
    except DataError:
        raise
    except READ_ERRORS as error:
        raise DataError(path, _reason(error), position) from error


def open_file(path: str) -> IO[bytes]:
    """Open a file for reading its bytes as they are.

    Raises:
        DataError: if it cannot be opened.
    """
    with reading(path):
        handle = open(path, "rb") if is_local(path) else remote().open(path, **as_stored())
    return cast(IO[bytes], handle)


def decompressed(handle: IO[bytes], path: str) -> IO[bytes]:
    """Wrap an open file so that it reads decompressed, by the path's last ending.

    Beam's own decompression takes a truncated file for a complete one; these raise.
    """
    _, compression = split_ending(path)
    if compression == "gzip":
        return cast(IO[bytes], gzip.GzipFile(fileobj=handle, mode="rb"))
    if compression == "bzip2":
        return cast(IO[bytes], bz2.BZ2File(handle, mode="rb"))
    if compression == "xz":
        return cast(IO[bytes], lzma.LZMAFile(handle, mode="rb"))
    if compression == "zstd":
        return cast(IO[bytes], pa.CompressedInputStream(pa.PythonFile(handle, mode="r"), "zstd"))
    return handle


def _match_one(pattern: str, form: str | None) -> Found:
    if is_local(pattern):
        if os.path.isdir(pattern):
            return _in_folder(pattern, form)
        if os.path.isfile(pattern):
            return Found([pattern])
        if os.path.exists(pattern):
            raise DataError(pattern, "is a pipe or a device: save it first, files are read twice")
    paths = _listed(pattern)
    if is_local(pattern):
        paths = [path for path in paths if os.path.isfile(path)]
    if has_magic(pattern):
        paths = [path for path in paths if not is_left_by_tools(path)]
    if paths:
        return Found(paths)
    if not is_local(pattern):
        folder = pattern.rstrip("/") + "/"
        below = [path for path in _listed(f"{folder}**") if not _is_beside(path, folder)]
        if below:
            return of_one_kind(pattern, below, form)
    folders = [path for path in glob(pattern) if os.path.isdir(path)] if is_local(pattern) else []
    if not folders:
        raise DataError(pattern, "no such file")
    each = [_in_folder(path, form) for path in folders]
    return Found(
        [path for found in each for path in found.paths],
        tuple(path for found in each for path in found.skipped),
    )


def _in_folder(folder: str, form: str | None) -> Found:
    with reading(folder):
        paths = sorted(files_below(folder))
    return of_one_kind(folder, paths, form)


def _listed(pattern: str) -> list[str]:
    with reading(pattern):
        results = remote().match([pattern])
    return [cast(str, meta.path) for result in results for meta in result.metadata_list]


def _is_beside(path: str, folder: str) -> bool:
    """Check whether a file below a folder, or a folder that it is in, is beside the data."""
    return any(map(is_beside_data, path.removeprefix(folder).split("/")))


def _identity(path: str) -> str:
    return os.path.realpath(path) if is_local(path) else path


def _reason(error: BaseException) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, PermissionError):
        return "no permission to read it"
    if isinstance(error, EOFError):
        return "the compressed data is cut off"
    return f"cannot be read: {one_line(error)}"
