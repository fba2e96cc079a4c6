"""Which columns of texts are features, and how their texts are read as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from kerneltrack.errors import ConfigError, DataError, shorten
from transforms.read.column_options import ColumnOptions, units_of, words_of
from transforms.read.formats.base import FileInfo
from transforms.read.kinds import is_text, value_type
from transforms.read.numbers import Numbers, values_of
from transforms.read.words import texts_in, two_words

_NO_VALUE = "no value in the rows that were looked at (--features takes it)"
_MOST_LOOKS = 20


@dataclass(frozen=True)
class Texts:
    """How columns of texts are read as numbers.

    Attributes:
        infos: All input files.
        numbers: How numbers are written in their texts.
        words: The two words of columns, as the user says.
        units: The units of columns, as the user says.
    """

    infos: Sequence[FileInfo]
    numbers: Numbers
    words: Mapping[str, tuple[str, str]]
    units: Mapping[str, str]

    @staticmethod
    def of(infos: Sequence[FileInfo], options: ColumnOptions, numbers: Numbers) -> Texts:
        """Take what the user says of columns."""
        return Texts(infos, numbers, words_of(options.words), units_of(options.units))

    def is_given(self, name: str) -> bool:
        """Check whether a column of texts is a feature without being named as one."""
        return name in self.words or name in self.units or self._found_unit(name) is not None

    def check_given(self, names: Sequence[str]) -> None:
        """Check that words and units are those of columns.

        Raises:
            ConfigError: naming one that no file has.
        """
        for field, given in (("words", self.words), ("units", self.units)):
            for name in given:
                if name not in names:
                    raise ConfigError(field, name, "a column that may be a feature")

    def numbers_of(self, name: str, kinds: Sequence[pa.DataType], named: bool) -> Numbers | None:
        """Return how a feature's texts are read, None if it has none.

        Args:
            name: The column.
            kinds: Its type in each file.
            named: Whether the user named it as a feature.

        Raises:
            ConfigError: if it holds texts that are no numbers, in files that know their types.
        """
        if name in self.words:
            return Numbers(missing=self.numbers.missing, words=self.words[name])
        if name in self.units:
            return self.numbers._replace(unit=self.units[name])
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
            return Numbers(missing=self.numbers.missing, words=words)
        if in_text:
            # The look at the first rows refuses it in words of its own.
            return None
        shown = ", ".join(shorten(text) for text in found[:3]) or "no text"
        only = " (one word: --words COLUMN=ZERO,ONE names the other)" if len(found) == 1 else ""
        where = self.infos[0].path
        allowed = f"a column of numbers; in {where} it is one of texts: {shown}{only}"
        raise ConfigError("features", name, allowed)

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
        words = self._words(name, kind)
        pair = two_words(words) if words else None
        if pair is not None and len(words) == 2:
            return f"two words (--features takes it: {pair[0]} is 0, {pair[1]} is 1)"
        return f"no numbers ({kind})"

    def _words(self, name: str, kind: pa.DataType) -> Sequence[str]:
        for info in self.infos:
            if name in info.words:
                return info.words[name]
        if self.infos[0].text or not is_text(value_type(kind)):
            return ()
        if self.infos[0].schema.get_field_index(name) > _MOST_LOOKS:
            return ()
        return texts_in(self.infos[:1], name, self.numbers.missing)
