"""Settings declared once: type, range and description in one annotation.

    rank: Annotated[int, Range(1, 1000), "Dimension r of the subspace."] = 10

From there the checks and their errors, flags and help of the command line, what YAML files may
hold, `kerneltrack list NAME` and the docstrings take them.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import types
import typing
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin

from kerneltrack.errors import ConfigError


@dataclasses.dataclass(frozen=True)
class Range:
    """Which numbers a setting may have.

    Attributes:
        low: Least one.
        high: Greatest one; infinity: any.
        ends: Whether they belong to the range, as in mathematics: "[]", "(]", "[)" or "()".
    """

    low: float
    high: float
    ends: str = "[]"

    def __contains__(self, number: float) -> bool:
        """Check whether a number is in the range; NaN never is."""
        above = number >= self.low if self.ends[0] == "[" else number > self.low
        below = number <= self.high if self.ends[1] == "]" else number < self.high
        return above and below

    def __str__(self) -> str:
        """Return the range in signs, as `>= 0 and < 1`."""
        text = f"{'>=' if self.ends[0] == '[' else '>'} {self.low:g}"
        if math.isfinite(self.high):
            text += f" and {'<=' if self.ends[1] == ']' else '<'} {self.high:g}"
        return text


@dataclasses.dataclass(frozen=True)
class OneOf:
    """Which words a setting may be.

    Attributes:
        names: The words.
    """

    names: Sequence[str]


@dataclasses.dataclass(frozen=True)
class Words:
    """Which words stand for a value that the settings find by themselves.

    Attributes:
        names: The words.
    """

    names: tuple[str, ...]


_SWITCHES = {"true": True, "false": False}


def is_place(value: Any) -> bool:
    """Return whether a value is a whole number from 0 on."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


@dataclasses.dataclass(frozen=True)
class Setting:
    """What the annotation of a field says.

    Attributes:
        name: The field.
        kind: int, float, bool, str, or tuple (of texts).
        optional: Whether it may be None.
        words: Words that may stand for a number, as "median".
        limits: What it may be, None: anything of its kind.
        about: What it is, a sentence or two without the last full stop.
        default: Its value unless given.
        or_whole: Whether a text may also be a whole number from 0 on, such as a place.
    """

    name: str
    kind: type
    optional: bool
    words: tuple[str, ...]
    limits: Range | OneOf | None
    about: str
    default: Any
    or_whole: bool = False

    @property
    def allowed(self) -> str:
        """What it may be, as errors say it."""
        words = "".join(f", or {word!r}" for word in self.words)
        return self._plain_allowed() + words + (", or none" if self.optional else "")

    @property
    def values(self) -> str:
        """What it may be, as help says it: short, "" if it is plain."""
        named = [*self.words, *(["none"] if self.optional else [])]
        if isinstance(self.limits, OneOf):
            return ", ".join([*self.limits.names, *named])
        if isinstance(self.limits, Range):
            if self.kind is int:
                return ", ".join([f"{self.limits.low:,} to {self.limits.high:,}", *named])
            return ", ".join([str(self.limits), *named])
        return ""

    def check(self, value: Any) -> Any:
        """Return a value as its kind has it: 1 where a float is meant is 1.0.

        Raises:
            ConfigError: naming the field, the value and what is allowed.
        """
        if (value is None and self.optional) or (isinstance(value, str) and value in self.words):
            return value
        if self._holds(value):
            return float(value) if self.kind is float else value
        raise ConfigError(self.name, value, self.allowed)

    def read(self, text: Any) -> Any:
        """Return what a text of a command line says, to be checked; what is no text is as it is.

        "none" stands for None where a number is meant: a column may be called so.

        Raises:
            ConfigError: if it is not of the setting's kind at all.
        """
        if not isinstance(text, str) or text in self.words:
            return text
        if self.kind is bool and text.lower() in _SWITCHES:
            return _SWITCHES[text.lower()]
        if self.kind not in (int, float):
            return text
        if self.optional and text.lower() in {"none", "null"}:
            return None
        try:
            return self.kind(text)
        except ValueError:
            raise ConfigError(self.name, text, self.allowed) from None

    def _plain_allowed(self) -> str:
        if isinstance(self.limits, OneOf):
            return f"one of {', '.join(self.limits.names)}"
        if self.kind is bool:
            return "true or false"
        if self.kind is tuple:
            return "a list of texts"
        if not isinstance(self.limits, Range):
            return {int: "an integer", float: "a number"}.get(self.kind, "a text")
        if self.kind is int:
            return f"an integer from {self.limits.low} to {self.limits.high}"
        return f"a number {self.limits}"

    def _holds(self, value: Any) -> bool:
        number_kind: Any = self.kind
        if self.kind is bool:
            return isinstance(value, bool)
        if self.kind is tuple:
            return isinstance(value, Sequence) and not isinstance(value, str | bytes)
        if self.kind is str:
            named = not isinstance(self.limits, OneOf) or value in self.limits.names
            return (isinstance(value, str) and named) or (self.or_whole and is_place(value))
        if isinstance(value, bool) or not isinstance(value, int | number_kind):
            return False
        try:
            number: Any = value if self.kind is int else float(value)
        except OverflowError:
            return False
        return not isinstance(self.limits, Range) or number in self.limits


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Base of frozen settings, each checked against its annotation when they are made."""

    role: ClassVar[str] = ""

    def __init_subclass__(cls, **options: Any) -> None:
        """Write the "Attributes:" of the docstring from the annotations."""
        super().__init_subclass__(**options)
        declared = _declared(cls)
        own = [name for name in vars(cls).get("__annotations__", {}) if name in declared]
        lines = [f"    {name}: {_sentence(declared[name])}" for name in own]
        if lines:
            doc = inspect.cleandoc(cls.__doc__ or "")
            head, example, rest = doc.partition("\n\nExample:")
            cls.__doc__ = "\n".join([head, "", "Attributes:", *lines]) + example + rest

    def __post_init__(self) -> None:
        """Check every field, then what fields must be together.

        Raises:
            ConfigError: naming the field, the value and what is allowed.
        """
        self.resolve()
        for name, setting in settings_of(type(self)).items():
            given = getattr(self, name)
            checked = setting.check(given)
            if checked is not given:
                self.replace(name, checked)
        self.check_together()

    def resolve(self) -> None:
        """Put values in the place of words that stand for them, before fields are checked."""

    def check_together(self) -> None:
        """Check what fields must be together; each by itself is in its range.

        Raises:
            ConfigError: naming the field, the value and what is allowed.
        """

    def replace(self, name: str, value: Any) -> None:
        """Set a field to another value, while these settings are being made."""
        object.__setattr__(self, name, value)


_KNOWN: dict[type, dict[str, Setting]] = {}


def settings_of(kind: type[Settings]) -> dict[str, Setting]:
    """Return the settings that a class of them has, by name, in its order."""
    if kind not in _KNOWN:
        declared, found = _declared(kind), {}
        for field in dataclasses.fields(kind):
            if field.name in declared:
                default = None if field.default is dataclasses.MISSING else field.default
                found[field.name] = dataclasses.replace(declared[field.name], default=default)
        _KNOWN[kind] = found
    return _KNOWN[kind]


def _declared(kind: type) -> dict[str, Setting]:
    """Return what the annotations of a class and of its bases say; without defaults."""
    return {name: each for base in reversed(kind.__mro__) for name, each in _own(base).items()}


@functools.cache
def _own(kind: type) -> dict[str, Setting]:
    found: dict[str, Setting] = {}
    for name, hint in inspect.get_annotations(kind, eval_str=issubclass(kind, Settings)).items():
        origin: Any = get_origin(hint)
        if origin is Annotated:
            found[name] = _setting(name, *get_args(hint))
    return found


def _setting(name: str, declared: Any, *extras: Any) -> Setting:
    union = get_origin(declared) in (typing.Union, types.UnionType)
    parts = get_args(declared) if union else (declared,)
    words = [word for part in parts if get_origin(part) is Literal for word in get_args(part)]
    words += [word for extra in extras if isinstance(extra, Words) for word in extra.names]
    kinds = [part for part in parts if get_origin(part) is not Literal and part is not type(None)]
    limits = next((extra for extra in extras if isinstance(extra, Range | OneOf)), None)
    about = " ".join(next(extra for extra in extras if isinstance(extra, str)).split())
    kind = tuple if get_origin(kinds[0]) in (Sequence, tuple) else kinds[0]
    optional = type(None) in parts
    whole = kind is str and int in kinds
    return Setting(name, kind, optional, tuple(words), limits, about.rstrip("."), None, whole)


def _sentence(setting: Setting) -> str:
    return setting.about + (f" ({setting.values})." if setting.values else ".")


def as_declared(kind: type, name: str, value: Any) -> Any:
    """Return a plain value (of YAML or JSON) as a field wants it.

    YAML reads 1e-3 (no point) as a text.
    """
    setting = settings_of(kind)[name]
    if setting.kind is float and isinstance(value, str) and value not in setting.words:
        try:
            return float(value)
        except ValueError:
            return value
    return value


def check_int(field: str, value: Any, low: int, high: int) -> int:
    """Return `value` if it is an integer from low to high, else raise ConfigError."""
    return int(Setting(field, int, False, (), Range(low, high), "", None).check(value))


def check_bool(field: str, value: Any) -> bool:
    """Return `value` if it is a boolean, else raise ConfigError."""
    return bool(Setting(field, bool, False, (), None, "", None).check(value))


def check_number(field: str, value: Any, within: Range) -> float:
    """Return `value` as a float if it is a number in the range, else raise ConfigError."""
    return float(Setting(field, float, False, (), within, "", None).check(value))


def check_choice(field: str, value: Any, choices: Iterable[str]) -> str:
    """Return `value` if it is one of the choices, else raise ConfigError."""
    return str(Setting(field, str, False, (), OneOf(tuple(choices)), "", None).check(value))
