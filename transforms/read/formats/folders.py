"""Folders of data: which of their files are read, and which are beside the data."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kerneltrack.errors import DataError
from transforms.read.formats.endings import ENDINGS, split_ending

_SHOWN = 6


class InputFiles(NamedTuple):
    """Files of an input.

    Attributes:
        paths: Those that are read.
        skipped: Those in folders that are not read, because nothing says that they are data.
    """

    paths: list[str]
    skipped: tuple[str, ...] = ()


def is_no_data(name: str) -> bool:
    """Check whether a file or folder is one that tools leave beside data.

    These are hidden ones, checksums (`.part-0.parquet.crc`), and those that begin with an
    underscore (`_SUCCESS`, `_metadata`, `_delta_log`), unless they are partitions (`_day=1`).

    Example:
        >>> [is_beside_data(name) for name in ("_SUCCESS", ".a.crc", "_day=1", "a.csv")]
        [True, True, False, False]
    """
    hidden = name.startswith(".") or (name.startswith("_") and "=" not in name)
    return hidden or name.endswith(".crc")


def is_left_by_tools(path: str) -> bool:
    """Check whether a file that a pattern matched is none of the data: see `is_no_data`."""
    return is_no_data(path.rsplit("/", 1)[-1]) and split_ending(path)[0] not in ENDINGS


def files_below(folder: str) -> Iterator[str]:
    """Yield the files below a local folder, but for those beside the data.

    Raises:
        OSError: if a folder cannot be listed.
    """
    seen = set()
    for place, folders, names in os.walk(folder, onerror=_raise, followlinks=True):
        # Links may lead round in a circle.
        real = os.path.realpath(place)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = [name for name in folders if not is_no_data(name)]
        paths = [os.path.join(place, name) for name in names if not is_no_data(name)]
        yield from (path for path in paths if os.path.isfile(path))


def of_one_kind(folder: str, paths: Sequence[str], form: str | None) -> InputFiles:
    """Choose the files of a folder that are data: all with a known ending, which must be the same.

    Args:
        folder: The folder.
        paths: Its files.
        form: The format that the user says; all files are then data.

    Raises:
        DataError: if there is none, or endings differ.
    """
    if form is not None:
        chosen = list(paths)
    else:
        chosen = [path for path in paths if split_ending(path)[0] in ENDINGS]
    if not chosen:
        if not paths:
            raise DataError(folder, "is a folder without files")
        known = ", ".join(ENDINGS)
        example = os.path.basename(paths[0])
        reason = f"no file of this folder has a known ending ({known}), as {example}: set --format"
        raise DataError(folder, reason)
    kinds = Counter(split_ending(path)[0] for path in chosen).most_common(_SHOWN)
    if form is None and len(kinds) > 1:
        many = ", ".join(f"{ending} ({count:,})" for ending, count in kinds)
        proposed = f"{folder.rstrip('/')}/**{kinds[0][0]}"
        reason = f"files of different endings: {many}; name those of one, as '{proposed}'"
        raise DataError(folder, reason)
    left = set(chosen)
    return InputFiles(chosen, tuple(path for path in paths if path not in left))


def _raise(error: OSError) -> None:
    raise error
