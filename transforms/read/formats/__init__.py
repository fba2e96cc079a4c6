"""File formats: a look at launch, pieces that can be read by themselves, streamed batches.

`inspect` says what a file holds and which pieces it has; `Piece.read` streams a piece. Formats are
told by the file's ending; text may be compressed (.gz, .bz2, .xz, .zst, .zip).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from zipfile import ZipFile

from kerneltrack.errors import ConfigError, DataError
from transforms.read.format_options import FORMATS, FormatOptions
from transforms.read.formats import signatures
from transforms.read.formats.base import FileInfo, Piece, PieceRows, Suggested
from transforms.read.formats.endings import ENDINGS, split_ending
from transforms.read.formats.files import find, first_bytes, only_member, open_file, reading
from transforms.read.formats.spool import is_stream, spooled

__all__ = [
    "FORMATS",
    "FileInfo",
    "FormatOptions",
    "Piece",
    "PieceRows",
    "Suggested",
    "find",
    "format_of",
    "inspect",
]


def format_of(path: str, options: FormatOptions | None = None) -> str:
    """Return the name of a file's format, by its name alone.

    Raises:
        ConfigError: if the options name an unknown format.
        DataError: if the ending is unknown, or a format that is not text is compressed.

    Example:
        >>> format_of("gs://bucket/day.csv.gz")
        'csv'
    """
    ending, compression = split_ending(path)
    name = options.format if options else None
    if name is None:
        name = ENDINGS.get(ending)
    elif name not in FORMATS:
        raise ConfigError("format", name, f"one of {', '.join(FORMATS)}")
    if name is None and ending in signatures.BY_ENDING:
        raise DataError(path, signatures.BY_ENDING[ending].reason())
    if name is None:
        known = ", ".join(ENDINGS)
        raise DataError(path, f"ending {ending!r} is not known ({known}): --format says what it is")
    if compression and not FORMATS[name].text:
        raise DataError(path, f"{name} inside {compression} cannot be read; unpack it first")
    return name


def inspect(path: str, options: FormatOptions | None = None) -> FileInfo:
    """Look at a file at launch: its columns, its pieces, its number of rows if that is cheap.

    Reads little: footers and headers, the first block of text; LIBSVM text is read once if its
    width is not declared.

    Raises:
        DataError: if the file cannot be read.
        ConfigError: if the options name an unknown format.
    """
    options = options or FormatOptions()
    if not is_stream(path):
        return _look(path, _format_within(path, options), options)
    stored = spooled(path)
    try:
        return replace(_look(stored, _format_of_stream(stored, options), options), path=path)
    except DataError as error:
        raise DataError(path, error.reason, error.position) from error


def _look(path: str, name: str, options: FormatOptions) -> FileInfo:
    module, _, function = FORMATS[name].inspect.partition(":")
    look: Callable[[str, FormatOptions], FileInfo] = getattr(
        importlib.import_module(f"{__name__}.{module}"), function
    )
    return look(path, options)


def _format_within(path: str, options: FormatOptions) -> str:
    """Return a file's format; where the name does not say it, by what is inside.

    Raises:
        ConfigError: as `format_of`.
        DataError: as `format_of`, or if the file cannot be opened.
    """
    ending, compression = split_ending(path)
    if options.format is not None or ending in ENDINGS:
        return format_of(path, options)
    if compression == "zip":
        with open_file(path) as handle, reading(path), ZipFile(handle) as archive:
            within = only_member(archive, path)
        try:
            return format_of(f"{within}.zip", options)
        except DataError as error:
            raise DataError(path, f"{within} in it: {error.reason}") from error
    if ending in signatures.BY_ENDING or compression:
        return format_of(path, options)
    return _format_by(first_bytes(path)) or format_of(path, options)


def _format_by(head: bytes) -> str | None:
    """Return the format that the first bytes of a file say."""
    return next((name for marks, name in signatures.READ.items() if head.startswith(marks)), None)


def _format_of_stream(stored: str, options: FormatOptions) -> str:
    """Return the format of a stream: CSV unless it is said, or begins as another one."""
    if options.format is not None:
        return format_of(stored, options)
    head = first_bytes(stored)
    if head.lstrip().startswith(b"{"):
        raise DataError(stored, "begins as JSON does, and CSV is expected: try --format jsonl")
    return _format_by(head) or "csv"
