"""File formats: a look at launch, pieces that can be read by themselves, streamed batches.

`inspect` says what a file holds and which pieces it has; `Piece.read` streams a piece. Formats are
told by the file's ending; text may be compressed (.gz, .bz2, .xz, .zst).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kerneltrack.errors import ConfigError, DataError
from transforms.read.formats.arrays import inspect_npy, inspect_npz
from transforms.read.formats.arrow_ipc import inspect_arrow
from transforms.read.formats.base import FileInfo, Piece, Rows, Suggested
from transforms.read.formats.delimited import PAMAP2_NAMES, inspect_csv, inspect_pamap2
from transforms.read.formats.files import match, split_ending
from transforms.read.formats.libsvm import inspect_libsvm
from transforms.read.formats.options import FORMATS, FormatOptions
from transforms.read.formats.parquet import inspect_parquet

__all__ = [
    "ENDINGS",
    "FORMATS",
    "PAMAP2_NAMES",
    "FileInfo",
    "FormatOptions",
    "Piece",
    "Rows",
    "Suggested",
    "format_of",
    "inspect",
    "match",
]

_INSPECT: Mapping[str, Callable[[str, FormatOptions], FileInfo]] = {
    "parquet": inspect_parquet,
    "csv": inspect_csv,
    "arrow": inspect_arrow,
    "libsvm": inspect_libsvm,
    "npy": inspect_npy,
    "npz": inspect_npz,
    "pamap2": inspect_pamap2,
}

TEXT_FORMATS = ("csv", "libsvm", "pamap2")
"""Formats that may be compressed."""

ENDINGS: Mapping[str, str] = {
    ".parquet": "parquet",
    ".parq": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".txt": "csv",
    ".data": "csv",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".libsvm": "libsvm",
    ".svm": "libsvm",
    ".svmlight": "libsvm",
    ".npy": "npy",
    ".npz": "npz",
    ".dat": "pamap2",
}
"""Formats by the file's ending, after that of the compression."""


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
    if compression and name not in TEXT_FORMATS:
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
    return _INSPECT[format_of(path, options)](path, options)
