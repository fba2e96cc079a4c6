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

from kerneltrack.errors import ConfigError, DataError, one_line
from kerneltrack.paths import as_stored, is_local, remote
from transforms.read.formats import signatures
from transforms.read.formats.endings import split_ending
from transforms.read.formats.folders import (
    InputFiles,
    files_below,
    is_left_by_tools,
    is_no_data,
    of_one_kind,
)
from transforms.read.formats.spool import STANDARD, is_stream

_SHOWN = 5

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


def find(patterns: Sequence[str], form: str | None = None) -> InputFiles:
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
    return InputFiles(sorted(found.values()), tuple(dict.fromkeys(skipped)))


@contextmanager
def reading(path: str, position: str | None = None) -> Iterator[None]:
    """Turn whatever a damaged file makes a library raise into a DataError."""
    try:
        yield
    except DataError:
        raise
    except READ_ERRORS as error:
        raise DataError(path, _reason(error), position) from error


@contextmanager
def parsing(path: str, position: str | None = None) -> Iterator[None]:
    """Turn whatever a damaged file makes a parser with errors of its own raise into a DataError."""
    try:
        yield
    except (ConfigError, DataError, ModuleNotFoundError):
        raise
    except Exception as error:
        raise DataError(path, f"cannot be read: {one_line(error)}", position) from error


def open_file(path: str) -> IO[bytes]:
    """Open a file for reading its bytes as they are.

    Raises:
        DataError: if it cannot be opened.
    """
    with reading(path):
        handle = open(path, "rb") if is_local(path) else remote().open(path, **as_stored())
    return cast(IO[bytes], handle)


def decompressed(handle: IO[bytes], path: str) -> IO[bytes]:
    """Wrap an open file so that it reads decompressed: as its ending says, or its first bytes.

    Beam's own decompression takes a truncated file for a complete one; these raise.

    Raises:
        DataError: for a zip archive of several files.
    """
    compression = split_ending(path)[1] or _compression_of(handle)
    if compression == "gzip":
        return cast(IO[bytes], gzip.GzipFile(fileobj=handle, mode="rb"))
    if compression == "bzip2":
        return cast(IO[bytes], bz2.BZ2File(handle, mode="rb"))
    if compression == "xz":
        return cast(IO[bytes], lzma.LZMAFile(handle, mode="rb"))
    if compression == "zstd":
        return cast(IO[bytes], pa.CompressedInputStream(pa.PythonFile(handle, mode="r"), "zstd"))
    if compression == "zip":
        archive = zipfile.ZipFile(handle)
        return archive.open(only_member(archive, path))
    return handle


def _compression_of(handle: IO[bytes]) -> str | None:
    head = handle.read(max(map(len, signatures.COMPRESSIONS)))
    handle.seek(0)
    marks = (marks for marks in signatures.COMPRESSIONS if head.startswith(marks))
    return next((signatures.COMPRESSIONS[found] for found in marks), None)


def first_bytes(path: str) -> bytes:
    """Return a file's first bytes as they are.

    Raises:
        DataError: if it cannot be read.
    """
    with open_file(path) as handle, reading(path):
        return handle.read(signatures.HEAD)


def only_member(archive: zipfile.ZipFile, path: str) -> str:
    """Return the name of the only file in a zip archive, but for what tools leave beside data.

    Raises:
        DataError: naming its files, if there is not just one.
    """
    names = [
        info.filename
        for info in archive.infolist()
        if not info.is_dir() and not any(map(is_no_data, info.filename.split("/")))
    ]
    names = [name for name in names if not name.startswith("__MACOSX/")]
    if len(names) == 1:
        return names[0]
    if "[Content_Types].xml" in names:
        raise DataError(path, signatures.EXCEL.reason())
    shown = ", ".join(names[:_SHOWN]) + (" ..." if len(names) > _SHOWN else "")
    raise DataError(
        path, f"a zip archive of {len(names):,} files, not one: {shown}; unpack it first"
    )


def _match_one(pattern: str, form: str | None) -> InputFiles:
    if is_stream(pattern):
        return InputFiles([pattern])
    if is_local(pattern):
        if os.path.isdir(pattern):
            return _in_folder(pattern, form)
        if os.path.isfile(pattern):
            return InputFiles([pattern])
        if os.path.exists(pattern):
            reason = "is a pipe or a device: give it as standard input (-), or save it first"
            raise DataError(pattern, reason)
        if not has_magic(pattern):
            raise DataError(pattern, "no such file")
    paths = _listed(pattern)
    if is_local(pattern):
        paths = [path for path in paths if os.path.isfile(path)]
    if has_magic(pattern):
        paths = [path for path in paths if not is_left_by_tools(path)]
    if paths:
        return InputFiles(paths)
    if not is_local(pattern):
        folder = pattern.rstrip("/") + "/"
        below = [path for path in _listed(f"{folder}**") if not _is_no_data(path, folder)]
        if below:
            return of_one_kind(pattern, below, form)
    folders = [path for path in glob(pattern) if os.path.isdir(path)] if is_local(pattern) else []
    if not folders:
        raise DataError(pattern, "no such file")
    each = [_in_folder(path, form) for path in folders]
    return InputFiles(
        [path for found in each for path in found.paths],
        tuple(path for found in each for path in found.skipped),
    )


def _in_folder(folder: str, form: str | None) -> InputFiles:
    with reading(folder):
        paths = sorted(files_below(folder))
    return of_one_kind(folder, paths, form)


def _listed(pattern: str) -> list[str]:
    with reading(pattern):
        results = remote().match([pattern])
    return [cast(str, meta.path) for result in results for meta in result.metadata_list]


def _is_no_data(path: str, folder: str) -> bool:
    """Check whether a file below a folder, or a folder that it is in, is beside the data."""
    return any(map(is_no_data, path.removeprefix(folder).split("/")))


def _identity(path: str) -> str:
    if is_stream(path):
        return "-" if path in STANDARD else path
    return os.path.realpath(path) if is_local(path) else path


def _reason(error: BaseException) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, PermissionError):
        return "no permission to read it"
    if isinstance(error, EOFError):
        return "the compressed data is cut off"
    return f"cannot be read: {one_line(error)}"
