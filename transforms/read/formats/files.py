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
from typing import IO, cast

import pyarrow as pa

from kerneltrack.errors import DataError, one_line
from kerneltrack.paths import as_stored, is_local, remote

COMPRESSIONS = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}
"""Compression of text files by their last ending."""

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


def match(patterns: Sequence[str]) -> list[str]:
    """Return the files that the patterns match, sorted, each once.

    A path that exists is taken as it is, even if it looks like a pattern.

    Raises:
        DataError: if a pattern matches nothing, or a folder is named.
    """
    found: dict[str, str] = {}
    for pattern in patterns:
        for path in _match_one(pattern):
            found.setdefault(_identity(path), path)
    return sorted(found.values())


def split_ending(path: str) -> tuple[str, str | None]:
    """Return the file's ending in lower case and the compression around it, if any."""
    stem, ending = os.path.splitext(path.lower())
    compression = COMPRESSIONS.get(ending)
    return (os.path.splitext(stem)[1], compression) if compression else (ending, None)


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


def _match_one(pattern: str) -> list[str]:
    if is_local(pattern):
        if os.path.isdir(pattern):
            raise DataError(pattern, f"is a folder; name its files, as {pattern.rstrip('/')}/*")
        if os.path.isfile(pattern):
            return [pattern]
        if os.path.exists(pattern):
            raise DataError(pattern, "is a pipe or a device: save it first, files are read twice")
    with reading(pattern):
        results = remote().match([pattern])
    paths = [cast(str, meta.path) for result in results for meta in result.metadata_list]
    if is_local(pattern):
        paths = [path for path in paths if os.path.isfile(path)]
    if not paths:
        raise DataError(pattern, "no such file")
    return paths


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
