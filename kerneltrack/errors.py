"""Errors that a user can act on: each message is one line, and short.

What messages quote (values, names of columns and files, what libraries say) comes from outside. It
is made fit for a terminal and a log here, where messages are made: `printable` escapes, `fit`
shortens too, `shorten` writes a value.
"""

from __future__ import annotations

import re
import reprlib

MOST_VALUE = 40
"""Characters of a value in the reason why a row is refused."""

MOST_REASON = 300
"""Characters of such a reason, and of one clause of an error's message."""

MOST_NAME = 160
"""Characters of a name, of a file or of anything else, in a message."""

MOST_MESSAGE = 800
"""Characters of any message."""

_BREAK = re.compile(r"[ ]*[\t-\r\x1c-\x1f\x85\u2028\u2029]\s*")
_SURROGATE = re.compile("[\ud800-\udfff]")
_MOST_GIVEN = 100
_MOST_BITS = 256


def printable(text: str) -> str:
    r"""Return a text with `\x1b` and the like for what would steer a terminal or break the line.

    That is all that Python does not call printable: control characters, line ends, characters
    that turn the direction of writing, and the bytes of file names that are not UTF-8.

    Example:
        >>> print(printable("one\nline"))
        one\nline
    """
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() else _escape(mark) for mark in text)


def fit(text: object, most: int = MOST_REASON) -> str:
    """Return a text on one line, printable and at most so long: its middle is left out.

    Line ends become spaces. Begin and end stay: the setting, and what is allowed.

    Example:
        >>> fit("no column 'x', only a, b, c, d, e, f", 24)
        "no column 'x',...d, e, f"
    """
    text = str(text).strip()
    if len(text) > 4 * most:
        text = text[: 2 * most] + text[-2 * most :]
    return _cut(_BREAK.sub(" ", text), most)


def one_line(error: BaseException) -> str:
    """Return an error's message on one line."""
    return fit(error) or type(error).__name__


def shorten(value: object, most: int = MOST_VALUE) -> str:
    """Write a value into a reason: quoted, without control characters, at most 40 characters.

    Its cost does not grow with the value, which may be a list that holds itself many times over.

    Example:
        >>> shorten("x" * 1000, 12)
        "'xxxxxxx...'"
    """
    if isinstance(value, bytes):
        # A character has four bytes at most.
        value = value[: 4 * most + 4].decode("utf-8", "backslashreplace")
    text = repr(value[: most + 1]) if isinstance(value, str) else _BRIEF.repr(value)
    if len(text) > most:
        text = text[: most - 4] + "..." + text[-1]
    return printable(text)


def path_text(path: str) -> str:
    r"""Return a path as text that can be stored: bytes that are not UTF-8 as `\xff`.

    Example:
        >>> print(path_text("day\udcff.csv"))
        day\xff.csv
    """
    return _SURROGATE.sub(lambda found: _escape(found[0]), path)


class KerneltrackError(Exception):
    """Base of the errors that the command line turns into one line and exit code 2."""


class ConfigError(KerneltrackError, ValueError):
    """A setting is out of its allowed range.

    Args:
        field: Name of the setting, as the user writes it.
        value: What was given.
        allowed: The range or the values that would be accepted.
    """

    def __init__(self, field: str, value: object, allowed: str) -> None:
        """Build the message from field, value and allowed range."""
        self.field = field
        self.value = value
        self.allowed = allowed
        given = shorten(value, _MOST_GIVEN)
        if isinstance(value, list | tuple) and value and field.startswith("--"):
            # As they were written, not as Python has them.
            given = given[1:-1].removesuffix(",")
        super().__init__(f"{fit(field, MOST_NAME)} = {given}: must be {fit(allowed)}")

    def __reduce__(self) -> tuple[type[ConfigError], tuple[str, object, str]]:
        """Keep the three parts when a worker sends the error home."""
        return (type(self), (self.field, self.value, self.allowed))


class DataError(KerneltrackError):
    """A file or a message cannot be read at all.

    Args:
        path: File, object or topic.
        reason: What is wrong, in one clause.
        position: Where in it (a line, a row, a byte), if known.
    """

    def __init__(self, path: str, reason: str, position: str | None = None) -> None:
        """Build the message from file, position and reason."""
        self.path = path
        self.reason = reason
        self.position = position
        where = "" if position is None else f", {fit(position, MOST_NAME)}"
        # Spaces and line ends are part of a file's name; a name may be empty.
        super().__init__(f"{_cut(path, MOST_NAME) or repr(path)}{where}: {fit(reason)}")

    def __reduce__(self) -> tuple[type[DataError], tuple[str, str, str | None]]:
        """Keep the three parts when a worker sends the error home."""
        return (type(self), (self.path, self.reason, self.position))


class _Brief(reprlib.Repr):
    """Writes values, however large or nested, in a bounded number of steps."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 2
        self.maxstring = self.maxother = 2 * _MOST_GIVEN
        self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxdict = 20

    def repr_int(self, x: int, level: int) -> str:
        del level
        if x.bit_length() <= _MOST_BITS:
            return repr(x)
        return f"an integer of about {int(x.bit_length() * 0.30103) + 1} digits"


_BRIEF = _Brief()


def _cut(text: str, most: int) -> str:
    """Return a text printable and at most so long."""
    if len(text) > 2 * most:
        # No escape is shorter than what it stands for, so this is cut once more.
        text = text[:most] + text[-most:]
    text = printable(text)
    if len(text) <= most:
        return text
    head = (most - 3) * 2 // 3
    return text[:head] + "..." + text[head + 3 - most :]


def _escape(mark: str) -> str:
    if "\udc80" <= mark <= "\udcff":
        # A byte of a file's name, as Python writes it.
        return f"\\x{ord(mark) - 0xDC00:02x}"
    return mark.encode("unicode_escape").decode("ascii")
