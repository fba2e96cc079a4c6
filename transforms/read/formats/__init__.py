"""File formats: a look at launch, pieces that can be read by themselves, streamed batches.

`inspect` says what a file holds and which pieces it has; `Piece.read` streams a piece. Formats are
told by the file's ending; text may be compressed (.gz, .bz2, .xz, .zst).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

from kerneltrack.errors import ConfigError, DataError
from transforms.read.format_options import FORMATS, FormatOptions
from transforms.read.formats.base import FileInfo, Piece, Rows, Suggested
from transforms.read.formats.endings import ENDINGS, split_ending
from transforms.read.formats.files import find

__all__ = [
    "FORMATS",
    "FileInfo",
    "FormatOptions",
    "Piece",
    "Rows",
    "Suggested",
    "find",
    "format_of",
    "inspect",
]


def format_of(path: str, options: FormatOptions | None = None) -> str:
    """Return the name of a file's format.

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
    if name is None:
        known = ", ".join(ENDINGS)
        raise DataError(path, f"ending {ending!r} is not known ({known}); set the format")
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
    module, _, name = FORMATS[format_of(path, options)].inspect.partition(":")
    look: Callable[[str, FormatOptions], FileInfo] = getattr(
        importlib.import_module(f"{__name__}.{module}"), name
    )
    return look(path, options)
