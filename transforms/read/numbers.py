"""How the texts of a column are read as numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kerneltrack.arrays import BoolArray, FloatArray
from kerneltrack.number_texts import NAMES, name_code, number_pattern
from transforms.read.format_options import NULL_VALUES
from transforms.read.kinds import as_bytes, codes_of, encode, flat, is_bytes, is_text

NO_NUMBER = b"?"
_WORDS = {b"true": 1.0, b"false": 0.0, b"True": 1.0, b"False": 0.0, b"TRUE": 1.0, b"FALSE": 0.0}
_MAY_BE_WORD = "(?i)true|false|inf|nan"
"""What no plain number holds, but a text that is read as one all the same."""
_BLANKS = ("\u00a0", "\u202f")
_DIGIT = "[0-9]"


class Numbers(NamedTuple):
    """How numbers are written in a column of texts.

    Attributes:
        decimal: The decimal mark.
        missing: Texts of a missing value.
        thousands: The mark between thousands, "" for none; a space stands for no-break ones, too.
        unit: What stands after each number, "" for nothing.
        words: The text that is 0 and the one that is 1, none for numbers; `NAMES` where texts are
            names.
    """

    decimal: str = "."
    missing: tuple[str, ...] = NULL_VALUES
    thousands: str = ""
    unit: str = ""
    words: tuple[str, ...] = ()

    @property
    def are_names(self) -> bool:
        """Whether each text is a name, which stands for a number of its own."""
        return self.words == NAMES

    @property
    def meaning(self) -> str:
        """What a text is that cannot be read."""
        if self.words and not self.are_names:
            return " nor ".join(["neither " + repr(self.words[0]), repr(self.words[1])])
        return f"not a number in {self.unit}" if self.unit else "not a number"


PLAIN = Numbers()


def nulls_of(numbers: Numbers) -> tuple[float, ...]:
    """Return the numbers among the texts of a missing value.

    Example:
        >>> nulls_of(Numbers(missing=("", "NaN", "-200", "Bad")))
        (-200.0,)
    """
    found = []
    for text in numbers.missing:
        try:
            value = float(text.replace(numbers.decimal, "."))
        except ValueError:
            continue
        if not math.isnan(value):
            found.append(value)
    return tuple(found)


def without_nulls(
    values: npt.NDArray[np.floating], nulls: Sequence[float]
) -> tuple[npt.NDArray[np.floating], int]:
    """Return values with NaN for the numbers that mean a missing one, and how many there were."""
    met = np.zeros(values.shape, dtype=np.bool_)
    for number in nulls:
        met |= values == values.dtype.type(number)
    count = int(met.sum())
    return (np.where(met, values.dtype.type(np.nan), values), count) if count else (values, 0)


def values_of(
    values: pa.Array, numbers: Numbers, dtype: npt.DTypeLike = np.float64
) -> tuple[npt.NDArray[np.floating], BoolArray]:
    """Return values as numbers, NaN where they are missing, and which are none."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if not is_text(values.type):
        found = flat(values).astype(dtype)
        return found, np.zeros(len(found), dtype=np.bool_)
    texts = as_bytes(values)
    return _read_texts(texts if is_bytes(texts.type) else texts.cast(pa.binary()), numbers)


def _read_texts(texts: pa.Array, numbers: Numbers) -> tuple[FloatArray, BoolArray]:
    none = pa.array([text.encode() for text in numbers.missing], texts.type)
    missing = pc.or_(pc.is_null(texts), pc.is_in(texts, value_set=none))
    plain = pc.if_else(missing, pa.scalar(None, texts.type), texts)
    if numbers.are_names:
        return _read_names(plain)
    if numbers.words:
        return _read_words(plain, numbers.words)
    if numbers.unit or numbers.thousands:
        for blank in _BLANKS:
            plain = pc.replace_substring(plain, blank, " ")
    if numbers.unit:
        plain = _without_unit(plain, numbers.unit.encode())
    if numbers.thousands:
        plain = _without_thousands(plain, numbers)
    if numbers.decimal != ".":
        # A point is none of its digits.
        plain = pc.replace_substring(plain, ".", " ? ")
        plain = pc.replace_substring(plain, numbers.decimal, ".")
    try:
        # Bytes that are not UTF-8 are no number either.
        return _cast(plain), np.zeros(len(texts), dtype=np.bool_)
    except pa.ArrowInvalid:
        pass
    sure = pc.match_substring_regex(plain, number_pattern()).fill_null(True)
    found = _cast(pc.if_else(sure, plain, pa.scalar(None, plain.type)))
    rest = encode(pc.if_else(sure, pa.scalar(None, plain.type), plain))
    may_be = pc.match_substring_regex(rest.dictionary, _MAY_BE_WORD).to_pylist()
    read = [
        _word(text) if may else None
        for text, may in zip(rest.dictionary.to_pylist(), may_be, strict=True)
    ]
    read.append(math.nan)
    none_of_them = [*(value is None for value in read[:-1]), False]
    codes = codes_of(rest)
    values = np.array([math.nan if value is None else value for value in read])[codes]
    wrong = np.array(none_of_them, dtype=np.bool_)[codes]
    return np.where(sure.to_numpy(zero_copy_only=False), found, values), wrong


def _cast(texts: pa.Array) -> FloatArray:
    """Read texts.

    Raises:
        pa.ArrowInvalid: if one of them is no number.
    """
    trimmed = pc.utf8_trim(pc.cast(texts, pa.string()), " \t")
    found: FloatArray = pc.cast(trimmed, pa.float64()).to_numpy(zero_copy_only=False)
    return found


def _word(text: bytes) -> float | None:
    """Read a text that is no plain number; None if it is none at all."""
    if text in _WORDS:
        return _WORDS[text]
    try:
        return float(_cast(pa.array([text], pa.binary()))[0])
    except pa.ArrowInvalid:
        return None


def _read_words(texts: pa.Array, words: Sequence[str]) -> tuple[FloatArray, BoolArray]:
    """Read the first word as 0 and the second as 1."""
    numbers = {word.strip(): float(at) for at, word in enumerate(words)}
    encoded = encode(texts)
    texts_of = [text.decode(errors="surrogateescape") for text in encoded.dictionary.to_pylist()]
    read = [numbers.get(text.strip()) for text in texts_of]
    codes = codes_of(encoded)
    values = np.array([*(math.nan if each is None else each for each in read), math.nan])
    wrong = np.array([*(each is None for each in read), False], dtype=np.bool_)
    return values[codes], wrong[codes]


def _read_names(texts: pa.Array) -> tuple[FloatArray, BoolArray]:
    """Read each text as the number of its name; one without a letter is missing."""
    encoded = encode(texts)
    names = [text.decode(errors="surrogateescape") for text in encoded.dictionary.to_pylist()]
    read = [name_code(name) if name.strip() else math.nan for name in names]
    values = np.array([*read, math.nan])[codes_of(encoded)]
    return values, np.zeros(len(values), dtype=np.bool_)


def _without_unit(texts: pa.Array, unit: bytes) -> pa.Array:
    """Cut the unit off; a text without it is no number any more."""
    trimmed = pc.replace_substring_regex(texts, "[ \t]+$", "")
    has = pc.ends_with(trimmed, unit)
    cut = pc.replace_substring_regex(pc.binary_slice(trimmed, 0, -len(unit)), "[ \t]+$", "")
    # An empty text would be a missing number.
    has = pc.and_(has, pc.greater(pc.binary_length(cut), 0))
    return pc.if_else(
        has, cut, pc.if_else(pc.is_valid(texts), pa.scalar(NO_NUMBER, pa.binary()), texts)
    )


def _without_thousands(texts: pa.Array, numbers: Numbers) -> pa.Array:
    """Take the marks between thousands out, where they stand between three digits each."""
    pattern = number_pattern(numbers.decimal, numbers.thousands)
    right = pc.match_substring_regex(texts, pattern)
    bare = pc.replace_substring_regex(texts, f"({_DIGIT}){re.escape(numbers.thousands)}", r"\1")
    return pc.if_else(right, bare, texts)
