"""Which columns and metrics of texts are features, and how their texts are read as numbers."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from kerneltrack.errors import ConfigError, DataError, shorten
from kerneltrack.number_texts import NAMES
from transforms.read.column_options import ColumnOptions, units_of, words_of
from transforms.read.formats.base import FileInfo
from transforms.read.formats.guess import marks_of, unit_of
from transforms.read.formats.head import MARKS
from transforms.read.kinds import is_text, value_type
from transforms.read.numbers import Numbers, values_of
from transforms.read.words import texts_in, two_words

_NO_VALUE = "no value in the rows read in advance (--features takes it)"
_ONE_WORD = "one word: --words COLUMN=ZERO,ONE names the other"
_MOST_LOOKS = 20


@dataclass(frozen=True)
class Texts:
    """How columns, or metrics, of texts are read as numbers.

    Attributes:
        infos: All input files.
        numbers: How numbers are written in their texts.
        words: The two words of columns or metrics, as the user says.
        units: Their units, as the user says.
    """

    infos: Sequence[FileInfo]
    numbers: Numbers
    words: Mapping[str, tuple[str, ...]]
    units: Mapping[str, str]

    @staticmethod
    def of(infos: Sequence[FileInfo], options: ColumnOptions, numbers: Numbers) -> Texts:
        """Take what the user says of columns."""
        return Texts(infos, numbers, words_of(options.words), units_of(options.units))

    @property
    def names(self) -> Numbers:
        """How texts are read that are names."""
        return self._of_words(NAMES)

    def is_given(self, name: str) -> bool:
        """Check whether a column of texts is a feature without being named as one."""
        return self.given(name) is not None or self._found_unit(name) is not None

    def given(self, name: str) -> Numbers | None:
        """Return how the texts of a column or metric are read, if the user says it."""
        if name in self.words:
            return self._of_words(self.words[name])
        return self.numbers._replace(unit=self.units[name]) if name in self.units else None

    def check_given(self, names: Sequence[str], what: str = "column") -> None:
        """Check that words and units are those of columns, or of metrics.

        Raises:
            ConfigError: naming one that no file has.
        """
        for field, given in (("words", self.words), ("units", self.units)):
            for name in given:
                if name not in names:
                    raise ConfigError(field, name, f"a {what} that may be a channel")

    def numbers_of(self, name: str, kinds: Sequence[pa.DataType], named: bool) -> Numbers | None:
        """Return how a feature's texts are read, None if it has none.

        Args:
            name: The column.
            kinds: Its type in each file.
            named: Whether the user named it as a feature.

        Raises:
            ConfigError: if it holds texts that are no numbers, in files that know their types.
        """
        given = self.given(name)
        if given is not None:
            return given
        unit = self._found_unit(name)
        if unit is not None:
            return self.numbers._replace(unit=unit)
        in_text = any(info.is_text(name) for info in self.infos)
        texts = [kind for kind in kinds if not pa.types.is_null(kind)]
        if named and texts and all(is_text(value_type(kind)) for kind in texts):
            return self._of_texts(name, in_text)
        return self.numbers if in_text and self.numbers.thousands else None

    def _of_texts(self, name: str, in_text: bool) -> Numbers | None:
        """Return how the texts of a column that is named as a feature are read."""
        found = texts_in(self.infos, name, self.numbers.missing)
        _, wrong = values_of(pa.array(found, pa.string()), self.numbers)
        if not in_text and found and not wrong.any():
            return self.numbers
        words = two_words(found)
        if words is not None and wrong.all():
            return self._of_words(words)
        if in_text:
            # The look at the first rows refuses it in words of its own.
            return None
        shown = ", ".join(shorten(text) for text in found[:3]) or "no text"
        only = f" ({_ONE_WORD})" if len(found) == 1 else ""
        where = self.infos[0].path
        allowed = f"a column of numbers; in {where} it is one of texts: {shown}{only}"
        raise ConfigError("features", name, allowed)

    def of_metric(self, texts: Sequence[str], *, named: bool) -> Numbers | None:
        """Return how the texts of a metric are read whose first values are no plain numbers.

        Args:
            texts: The different ones among the first values, one at least.
            named: Whether the user named the metric as a feature: only then it may be two words.

        Returns:
            None if they are neither numbers with a unit nor two words.
        """
        unit = unit_of(_unmarked(texts), self.numbers.decimal, self.numbers.thousands)
        if unit:
            return self.numbers._replace(unit=unit)
        words = two_words(texts) if named else None
        return None if words is None else self._of_words(words)

    def _of_words(self, words: tuple[str, ...]) -> Numbers:
        return Numbers(missing=self.numbers.missing, words=words)

    def _found_unit(self, name: str) -> str | None:
        """Return the unit that all files have after each number of a column.

        Raises:
            DataError: if files have different ones.
        """
        first = next((info for info in self.infos if name in info.units), None)
        if first is None:
            return None
        unit = first.units[name]
        for info in self.infos:
            at = info.schema.get_field_index(name)
            if at < 0 or pa.types.is_null(info.schema.field(at).type):
                continue
            if info.units.get(name) != unit:
                other = info.units.get(name, "no unit")
                reason = f"column {name!r} has {other}, unlike {unit} in {first.path}"
                raise DataError(info.path, reason)
        return unit

    def why_none(self, name: str, kind: pa.DataType) -> str:
        """Return why a column is left out that is none of numbers."""
        if pa.types.is_null(kind):
            return _NO_VALUE
        return _two_words_line(self._words(name, kind)) or f"not numbers ({kind})"

    def why_no_metric(self, texts: Sequence[str]) -> str:
        """Return why a metric is left out, with the flag that takes it if there is one.

        Args:
            texts: The different ones among its first values that are no numbers, one at least.
        """
        plain = _unmarked(texts)
        line = _two_words_line(plain)
        if line:
            return line
        thousands, decimal = marks_of(plain, self.numbers.decimal, self.numbers.thousands)
        flags = mark_flags("" if decimal == self.numbers.decimal else decimal, thousands)
        example = shorten((plain or texts)[0])
        return f"no numbers, but such as {example}{f' ({flags})' if flags else ''}"

    def _words(self, name: str, kind: pa.DataType) -> Sequence[str]:
        for info in self.infos:
            if name in info.words:
                return info.words[name]
        if self.infos[0].text or not is_text(value_type(kind)):
            return ()
        if self.infos[0].schema.get_field_index(name) > _MOST_LOOKS:
            return ()
        return texts_in(self.infos[:1], name, self.numbers.missing)


def mark_flags(decimal: str, thousands: str) -> str:
    """Return the flags under which texts with these marks are numbers; "" for none is needed."""
    marks = ("--decimal", decimal), ("--thousands", thousands)
    return " ".join(f"{flag} {shlex.quote(mark)}" for flag, mark in marks if mark)


def _unmarked(texts: Sequence[str]) -> list[str]:
    """Return texts without those that look like marks of missing values."""
    return [text for text in texts if text.lower() not in MARKS]


def _two_words_line(texts: Sequence[str]) -> str:
    """Return how a feature of two words is taken, "" if texts are no two words."""
    words = two_words(texts) if len(texts) == 2 else None
    if words is None:
        return ""
    return f"two words (--features takes it: {words[0]} is 0, {words[1]} is 1)"
