"""Texts that are numbers: with other marks, a unit after each, of two words, or names of modes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from kerneltrack.errors import ConfigError

PAIRS = (
    *(("off", "on"), ("false", "true"), ("no", "yes"), ("n", "y"), ("f", "t")),
    *(("closed", "open"), ("close", "open"), ("inactive", "active"), ("disabled", "enabled")),
    *(("stopped", "running"), ("stop", "run"), ("down", "up"), ("low", "high")),
    *(("normal", "alarm"), ("ok", "alarm"), ("ok", "fault"), ("ok", "error"), ("ok", "fail")),
    *(("absent", "present"), ("unlocked", "locked"), ("offline", "online"), ("out", "in")),
    *(("disconnected", "connected"), ("idle", "busy"), ("unoccupied", "occupied")),
    ("bad", "good"),
)
"""Which of two words is 0. Of other words it is the one that comes first in the alphabet."""

FOREIGN_PAIRS = (
    *(("nein", "ja"), ("aus", "ein"), ("aus", "an"), ("zu", "auf"), ("falsch", "wahr")),
    *(("non", "oui"), ("faux", "vrai"), ("arrêt", "marche"), ("fermé", "ouvert")),
    *(("no", "sí"), ("no", "si"), ("no", "sì"), ("falso", "verdadero"), ("falso", "vero")),
    *(("não", "sim"), ("nao", "sim"), ("falso", "verdadeiro"), ("apagado", "encendido")),
    *(("nee", "ja"), ("uit", "aan"), ("onwaar", "waar"), ("nej", "ja"), ("från", "till")),
    *(("av", "på"), ("nei", "ja"), ("nie", "tak"), ("ne", "ano"), ("vypnuto", "zapnuto")),
    *(("нет", "да"), ("выкл", "вкл"), ("关", "开"), ("否", "是"), ("オフ", "オン")),
)
"""The same in other languages: both words must be there."""

NAMES = ("*",)
"""In place of two words: each text is a name, and is read as a number of its own."""
_NO_WORD = frozenset(",:=")
_NAMED = 1 << 51
"""Names have whole numbers from here on, which a double holds exactly; no plain number is there."""
_BLANKS = re.compile("[\u00a0\u202f]")


def number_pattern(decimal: str = ".", thousands: str = "") -> str:
    """Return a regular expression of plain decimal numbers, with marks between thousands or not."""
    mark = "[" + ("\\" if decimal in "\\]^-" else "") + decimal + "]"
    whole = "[0-9]+"
    if thousands:
        whole = f"(?:[0-9]{{1,3}}(?:{re.escape(thousands)}[0-9]{{3}})+|[0-9]+)"
    return rf"^[ \t]*[+-]?({whole}({mark}[0-9]*)?|{mark}[0-9]+)([eE][+-]?[0-9]+)?[ \t]*$"


def name_code(text: str) -> float:
    """Return the number that stands for a name: its own if it is one, else one drawn by its bytes.

    Example:
        >>> name_code("3"), name_code(" run ") == name_code("run"), name_code("run") > 2**51
        (3.0, True, True)
    """
    name = text.strip()
    if re.fullmatch(number_pattern(), name):
        return float(name)
    drawn = hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=8).digest()
    return float(int.from_bytes(drawn, "little") % _NAMED + _NAMED)


@dataclass(frozen=True)
class NumberTexts:
    """How the texts of channels are read as numbers, as `kerneltrack track` reads them.

    Attributes:
        words: Of channels of two words the one that is 0 and the one that is 1; `NAMES` for one
            whose texts are names.
        units: Of channels the unit that stands after each number.
        thousands: Mark between the thousands of numbers, "" for none; a space stands for no-break
            ones, too.
        decimal: Their decimal mark.

    Raises:
        ConfigError: naming the setting that cannot be.

    Example:
        >>> texts = NumberTexts({"valve": ("off", "on")}, {"flow": "l/h"}, ",")
        >>> texts.read("valve", "on"), texts.read("flow", "1,004.5 l/h"), texts.read("heat", "20 C")
        (1.0, 1004.5, None)
    """

    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    thousands: str = ""
    decimal: str = "."

    def __post_init__(self) -> None:
        """Check the settings; see the class."""
        for name, pair in _entries("words", self.words):
            if not _are_words(pair):
                allowed = "two words without comma, colon and equals sign, for each channel"
                raise ConfigError("words", {name: pair}, allowed)
        for name, unit in _entries("units", self.units):
            if not isinstance(unit, str) or not unit.strip():
                raise ConfigError("units", {name: unit}, "a unit for each channel")
            if name in self.words:
                raise ConfigError("units", name, "a channel that `words` does not name")
        if not _is_mark(self.decimal):
            raise ConfigError("decimal", self.decimal, "one ASCII character that is no digit")
        if self.thousands != "" and (
            not _is_mark(self.thousands) or self.thousands == self.decimal
        ):
            allowed = "one ASCII character other than the decimal mark, or nothing"
            raise ConfigError("thousands", self.thousands, allowed)

    @property
    def named(self) -> Collection[str]:
        """Channels of texts that are named here."""
        return (*self.words, *self.units)

    def says_how(self, name: str) -> bool:
        """Check whether texts of a channel are read in another way than as plain numbers."""
        return name in self.named or (self.thousands, self.decimal) != ("", ".")

    def meaning(self, name: str) -> str:
        """Return what a text of this channel is that cannot be read."""
        if name in self.words and tuple(self.words[name]) != NAMES:
            zero, one = self.words[name]
            return f"neither {zero!r} nor {one!r}"
        return f"not a number in {self.units[name]}" if name in self.units else "not a number"

    def read(self, name: str, text: str) -> float | None:
        """Return the number that a text of a channel stands for, None for what is none."""
        if tuple(self.words.get(name, ())) == NAMES:
            return name_code(text)
        if name in self.words:
            pair = [word.strip() for word in self.words[name]]
            return float(pair.index(text.strip())) if text.strip() in pair else None
        if name in self.units or self.thousands:
            text = _BLANKS.sub(" ", text)
        if name in self.units:
            unit, text = self.units[name].strip(), text.rstrip(" \t")
            if not text.endswith(unit):
                return None
            text = text.removesuffix(unit).rstrip(" \t")
        if not re.fullmatch(number_pattern(self.decimal, self.thousands), text):
            return None
        whole = text.strip(" \t")
        if self.thousands:
            whole = whole.replace(self.thousands, "")
        return float(whole.replace(self.decimal, "."))


def _entries(setting: str, given: Any) -> Collection[tuple[Any, Any]]:
    if not isinstance(given, Mapping):
        raise ConfigError(setting, given, "a dict by the names of channels")
    return given.items()


def _are_words(pair: Any) -> bool:
    if isinstance(pair, str) or not isinstance(pair, tuple | list) or len(pair) != 2:
        return isinstance(pair, tuple | list) and tuple(pair) == NAMES
    if not all(isinstance(word, str) and word.strip() for word in pair):
        return False
    return pair[0].strip() != pair[1].strip() and not _NO_WORD & set("".join(pair))


def _is_mark(mark: Any) -> bool:
    return isinstance(mark, str) and len(mark) == 1 and mark.isascii() and not mark.isdigit()
