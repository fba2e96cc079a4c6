"""Why a time cannot be read, for the reason of its row."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from transforms.read.column_options import ColumnOptions
from transforms.read.kinds import is_text, texts_of
from transforms.read.time_formats import offset_of

MISSING = "missing time"
LEAP_SECOND = "a leap second, which is none of the seconds since 1970"
OUT_OF_RANGE = "no time in the years 1685 to 2255"

_LEAP = re.compile(r":[0-9]{2}:60(?![0-9])")
_ISO_ZONE = re.compile(r"\s*[0-9]{4}-?[0-9]{2}-?[0-9]{2}[T ][0-9:.,]+ ?([A-Za-z]{2,5})\s*")
_WORD = re.compile(r"\b[A-Z]{2,5}\b")


def why_bad(
    values: pa.Array, bad: npt.NDArray[np.bool_], options: ColumnOptions
) -> Iterator[tuple[npt.NDArray[np.bool_], str]]:
    """Yield why times could not be read, and of which rows; the last reason suits all of them.

    Args:
        values: The times.
        bad: (n,) which could not be read.
        options: How they were read.
    """
    at = np.flatnonzero(bad)
    if not len(at):
        return
    part = values.take(pa.array(at))
    if pa.types.is_dictionary(part.type):
        part = part.dictionary_decode()
    texts = texts_of(part) if is_text(part.type) else [None] * len(part)
    reasons: dict[str, list[int]] = {}
    for place, (text, is_there) in enumerate(zip(texts, part.is_valid().to_pylist(), strict=True)):
        why = _why(text, options) if is_there else MISSING
        if why is not None:
            reasons.setdefault(why, []).append(place)
    for why, places in reasons.items():
        mask = np.zeros(len(bad), bool)
        mask[at[places]] = True
        yield mask, why
    yield bad, OUT_OF_RANGE


def _why(text: str | None, options: ColumnOptions) -> str | None:
    if text is None:
        return None
    if not text.strip():
        return MISSING
    if _LEAP.search(text):
        return LEAP_SECOND
    if options.time_format is None:
        found = _ISO_ZONE.fullmatch(text)
        names = [found[1]] if found else []
    else:
        names = _WORD.findall(text) if "%Z" in options.time_format else []
    for name in names:
        if name.upper() not in ("AM", "PM") and offset_of(name, options.time_zone) is None:
            return f"{name} is no time zone, or several (--time-zone says which has that name)"
    return None
