"""What the ending of a file's name says of its format and compression."""

from __future__ import annotations

import os

from transforms.read.format_options import FORMATS

COMPRESSIONS = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd", ".zip": "zip"}
"""Compression of text files by their last ending."""

ENDINGS = {ending: name for name, found in FORMATS.items() for ending in found.endings}
"""Format by ending."""


def split_ending(path: str) -> tuple[str, str | None]:
    """Return the file's ending in lower case and the compression around it, if any."""
    stem, ending = os.path.splitext(path.lower())
    compression = COMPRESSIONS.get(ending)
    return (os.path.splitext(stem)[1], compression) if compression else (ending, None)


def bare_name(path: str) -> str:
    """Return a file's name without its folder and the endings that are known.

    Others belong to the name, as in `2004.02.12.10.32.39` or `pump.1`.

    Example:
        >>> bare_name("gs://bucket/pump.1.csv.gz")
        'pump.1'
    """
    name = path.rsplit("/", 1)[-1]
    for known in (COMPRESSIONS, ENDINGS):
        stem, ending = os.path.splitext(name)
        if ending.lower() in known and stem:
            name = stem
    return name
