"""The end of a log file, and what is added to it."""

from __future__ import annotations

import os
from pathlib import Path

BLOCK = 65536


class Tail:
    """A log file that grows, is rolled, and may not be there yet.

    Args:
        path: Where it lies.
    """

    def __init__(self, path: Path) -> None:
        """Begin at the start of the file."""
        self._path = path
        self._place = 0
        self._inode = 0
        self._rest = b""

    def last(self, count: int) -> list[str]:
        """Return the last lines, and go on from there."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as handle:
            self._inode = os.fstat(handle.fileno()).st_ino
            end = handle.seek(0, os.SEEK_END)
            text, begin = b"", end
            while begin > 0 and text.count(b"\n") <= count:
                begin = max(0, begin - BLOCK)
                handle.seek(begin)
                text = handle.read(end - begin)
        self._place = end
        return text.decode("utf-8", "replace").splitlines()[-count:] if count else []

    def more(self) -> list[str]:
        """Return the lines that came since."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as handle:
            about = os.fstat(handle.fileno())
            if about.st_ino != self._inode or about.st_size < self._place:
                self._inode, self._place, self._rest = about.st_ino, 0, b""
            handle.seek(self._place)
            text = self._rest + handle.read()
            self._place = handle.tell()
        *lines, self._rest = text.split(b"\n")
        return [line.decode("utf-8", "replace") for line in lines]
