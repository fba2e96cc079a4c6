"""Columns of two words, such as `off` and `on`, that are read as 0 and 1."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from kerneltrack.number_texts import FOREIGN_PAIRS, PAIRS
from transforms.read.formats.base import FileInfo
from transforms.read.formats.head import MARKS
from transforms.read.kinds import is_text, texts_of, value_type

_NO_WORD = re.compile(r"$|[+-]?[.,]?[0-9]")
"""How a text begins that is no word, but a number in a unit or with other marks."""
_USUAL = frozenset(tuple(sorted(pair)) for pair in PAIRS)

_MOST_FILES = 32
_MOST_ROWS = 20_000
_MOST_TEXTS = 50


def two_words(texts: Collection[str]) -> tuple[str, str] | None:
    """Return which of two texts is 0 and which 1; None if they are no two words.

    Of a single word the other one is known if it is one of a usual pair. Texts that look like
    marks of missing values (`head.MARKS`) are no words but in such a pair.

    Example:
        >>> two_words(["ON", "OFF"]), two_words(["Open", "unknown"]), two_words(["HEAT", "IDLE"])
        (('OFF', 'ON'), ('Closed', 'Open'), ('HEAT', 'IDLE'))
    """
    words = sorted(set(texts))
    if tuple(sorted(word.lower() for word in words)) not in _USUAL:
        words = [word for word in words if word.lower() not in MARKS]
    if (
        any(_NO_WORD.match(word) or set(word) & set("=,:") for word in words)
        or not 1 <= len(words) <= 2
    ):
        return None
    lowered = [word.lower() for word in words]
    if len(words) == 1:
        near = [pair for pair in PAIRS if lowered[0] in pair]
        if not near or (len(near) > 1 and near[0] != ("closed", "open")):
            return None
        zero, one = (_like(words[0], word) for word in near[0])
        return zero, one
    for zero, one in (*PAIRS, *FOREIGN_PAIRS):
        if sorted((zero, one)) == sorted(lowered):
            return (words[0], words[1]) if lowered[0] == zero else (words[1], words[0])
    return words[0], words[1]


def _like(word: str, other: str) -> str:
    """Write another word in the letters of a word: small, large, or a large one first."""
    if other == word.lower():
        return word
    if word.isupper():
        return other.upper()
    return other.capitalize() if word[:1].isupper() else other


def texts_in(infos: Sequence[FileInfo], name: str, missing: Collection[str]) -> list[str]:
    """Return the different texts of a column in the first rows of files, 50 or a few more.

    Raises:
        DataError: if a file cannot be read.
    """
    found: dict[str, None] = {}
    for info in infos[:_MOST_FILES]:
        if info.schema.get_field_index(name) < 0:
            continue
        for piece in info.pieces[:1]:
            rows = piece.first({name: pa.string()}, _MOST_ROWS)
            if rows is None or not is_text(value_type(rows.batch.schema.field(name).type)):
                continue
            values = rows.batch.column(name)
            if pa.types.is_dictionary(values.type):
                values = values.dictionary_decode()
            texts = texts_of(pc.unique(values).drop_null()[:_MOST_TEXTS])
            found.update(dict.fromkeys(text.strip() for text in texts if text is not None))
        if len(found) > _MOST_TEXTS:
            break
    return [text for text in found if text and text not in missing]
