"""Model ids of the first rows that may be of one device, or of several."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_ROUNDED = re.compile(r"-?[0-9](\.[0-9]+)?E\+[0-9]{2,}")
"""How a spreadsheet writes a long number."""


def id_warnings(column: str, ids: Sequence[str]) -> list[str]:
    """Return which ids are hardly different from each other, or are numbers that were rounded.

    Args:
        column: Their column.
        ids: Different ones.

    Example:
        >>> id_warnings("pump", ["a", "a "])[0].partition(":")[2].partition(" only")[0]
        " 'a' and 'a ' differ"
    """
    lines = []
    alike = _alike(ids)
    if alike:
        more = f" (and {len(alike) - 1:,} more)" if len(alike) > 1 else ""
        first, second = alike[0]
        lines.append(
            f"{column}: {first!r} and {second!r}{more} differ only in blanks, leading zeros, small "
            "and large letters or how these are encoded: they are models of their own"
        )
    rounded = [text for text in ids if _ROUNDED.fullmatch(text)]
    if rounded:
        lines.append(
            f"{column}: {rounded[0]!r} is a number as spreadsheets round it: devices may have "
            "become one (export the column as texts)"
        )
    return lines


def _alike(ids: Sequence[str]) -> list[tuple[str, str]]:
    """Return pairs of ids that a person takes for the same."""
    seen: dict[str, str] = {}
    found = []
    for text in ids:
        plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
        plain = plain.casefold().strip()
        first = seen.setdefault(plain.lstrip("0") or plain[-1:], text)
        if first != text:
            found.append((first, text))
    return found
