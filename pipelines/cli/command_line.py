"""What all commands share: how a command line is refused, and what exit codes mean."""

from __future__ import annotations

import argparse
import difflib
import functools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from kerneltrack.errors import ConfigError, path_text

FAILED_EXIT = 1
INPUT_EXIT = 2
ROWS_EXIT = 3
"""The job ran to its end, and its rows are not what was asked for: all or too many failed."""
SIGNAL_EXIT = 128
"""Of a command that a signal has ended; the signal's number is added."""
INTERRUPTED_EXIT = 130


class UsageError(Exception):
    """The command line itself is wrong."""


def refuse(args: argparse.Namespace, names: Iterable[str], allowed: str) -> None:
    """Refuse flags, by their attributes, if they were given.

    Raises:
        ConfigError: for the first that was; `allowed` says where it would be taken.
    """
    for name in names:
        value = getattr(args, name)
        if value is not None and value is not False and value not in ("", []):
            raise ConfigError(f"--{name}".replace("_", "-"), value, allowed)


class _Paragraphs(argparse.HelpFormatter):
    """Keeps the line ends of texts, so that each line is a paragraph of its own."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        parts = text.split("\n")
        return [
            line for part in parts for line in super(_Paragraphs, self)._split_lines(part, width)
        ]

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        filled = super()._fill_text
        # Lines that begin with spaces are tables.
        return "\n".join(
            part if part.startswith(" ") else filled(part, width, indent)
            for part in text.split("\n")
        )


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, and whose help is short unless all is asked for.

    Attributes:
        common: Flags that `--help` shows; without any it shows all, as `--help-all` does.
    """

    common: frozenset[str] = frozenset()

    def __init__(self, **options: Any) -> None:
        """Keep the line ends of help texts."""
        super().__init__(**{"formatter_class": _Paragraphs, "add_help": False, **options})
        self.add_argument("-h", "--help", action="help", help="Show this help and exit.")

    def show_common(self, flags: Iterable[str]) -> None:
        """Let `--help` show only these flags, and add `--help-all`."""
        self.common = frozenset(flags)
        self.add_argument("--help-all", action=_HelpAll, nargs=0, help="Show all flags and exit.")

    def format_help(self) -> str:
        """Return the help."""
        if not self.common:
            return super().format_help()
        hidden = [action for action in self._actions if _is_hidden(action, self.common)]
        ordinary = self.formatter_class
        self.formatter_class = functools.partial(_LineEach, common=self.common)
        try:
            text = super().format_help()
        finally:
            self.formatter_class = ordinary
        more = f"{len(hidden)} more flags, and details of these: {self.prog} --help-all"
        return f"{text}\n{more}\n"

    def error(self, message: str) -> NoReturn:
        """Raise what `main` turns into one line and exit code 2."""
        raise UsageError(f"{message} (see {self.prog} --help)")


_MOST_LETTERS = 20
"""Of a flag's choices, where each flag has a line."""
_OF = re.compile(r"^\w+(, \w+)*: (?=[A-Z])")
"""The trackers or learners at the start of a setting's text."""
_END = re.compile(r"\. |\.$| \[|\n")
"""The end of the first sentence of a flag's text."""


def _is_hidden(action: argparse.Action, common: frozenset[str]) -> bool:
    return bool(action.option_strings) and not common & set(action.option_strings)


class _LineEach(_Paragraphs):
    """Shows the first sentence of each common flag's text, and no group's text."""

    def __init__(self, prog: str, common: frozenset[str]) -> None:
        """Leave room for the flags' names."""
        super().__init__(prog, max_help_position=32)
        self._common = common

    def add_argument(self, action: argparse.Action) -> None:
        """Take a flag in."""
        if not _is_hidden(action, self._common):
            super().add_argument(action)

    def add_text(self, text: str | None) -> None:
        """Take the command's own text in, no group's."""
        if self._current_section is self._root_section:
            super().add_text(text)

    def _expand_help(self, action: argparse.Action) -> str:
        about = _OF.sub("", super()._expand_help(action))
        return _END.split(about, maxsplit=1)[0] + "."

    def _format_args(self, action: argparse.Action, default_metavar: str) -> str:
        if action.nargs == argparse.ONE_OR_MORE:
            return f"{action.metavar or default_metavar} ..."
        return super()._format_args(action, default_metavar)

    def _metavar_formatter(self, action: argparse.Action, default_metavar: str) -> Any:
        if action.choices is not None and len(",".join(action.choices)) > _MOST_LETTERS:
            return lambda size: ("NAME",) * size
        return super()._metavar_formatter(action, default_metavar)


class _HelpAll(argparse.Action):
    """Shows all flags."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        """Print the help and exit."""
        if isinstance(parser, Parser):
            parser.common = frozenset()
        parser.print_help()
        parser.exit()


def path_name(text: str) -> str:
    """Return the name of a file or folder: the type of arguments that are written to.

    Raises:
        ArgumentTypeError: if it names nothing; "" would be the folder that one is in.
    """
    if not text.strip():
        raise argparse.ArgumentTypeError(f"{text!r} names no file or folder")
    return text


def folder_name(text: str) -> str:
    """Return the name of a folder that a job writes to.

    Raises:
        ArgumentTypeError: as `path_name`, and for bytes that are not UTF-8: Beam cannot hand them
            from step to step.
    """
    if path_text(path_name(text)) != text:
        raise argparse.ArgumentTypeError(f"{text!r} is not UTF-8: no results can be written there")
    return text


def flags_of(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    """Return a parser's flags, and those of its commands, by name."""
    found: dict[str, argparse.Action] = {}
    for action in parser._actions:
        found |= dict.fromkeys(action.option_strings, action)
        if isinstance(action, argparse._SubParsersAction):
            for nested in action.choices.values():
                found |= flags_of(nested)
    return found


def flags_by_field(parser: argparse.ArgumentParser, args: argparse.Namespace) -> dict[str, str]:
    """Return the flag of each field, for `flags_named`: a flag's value is kept under its field.

    What the file of `--spec` may have said keeps the name that it has there.
    """
    in_file = getattr(args, "spec", None) is not None
    found: dict[str, str] = {}
    for flag, action in flags_of(parser).items():
        if not in_file or getattr(args, action.dest, None) not in (None, action.default):
            found.setdefault(action.dest, flag)
    return found


_NAMED = re.compile(r"\b(try|than|where) ([a-z_]+)\b")


@contextmanager
def flags_named(flags: Mapping[str, str]) -> Iterator[None]:
    """Name settings in errors by the flags that gave them.

    Args:
        flags: Flag by field.

    Raises:
        ConfigError: as raised within, of the flag instead of the field; fields that its text names
            after "try", "than" or "where" go by their flags, too. Elsewhere it may list columns.
    """
    try:
        yield
    except ConfigError as error:
        name = flags.get(error.field, error.field)
        allowed = _NAMED.sub(lambda m: f"{m[1]} {flags.get(m[2], m[2])}", error.allowed)
        raise ConfigError(name, error.value, allowed) from None


def refuse_flags(rest: Sequence[str], parser: argparse.ArgumentParser) -> None:
    """Refuse unknown flags, naming the nearest known one.

    Args:
        rest: What is left of a command line.
        parser: Its parser.

    Raises:
        UsageError: if there is one.
    """
    for argument in rest:
        name = argument.partition("=")[0]
        if name.startswith("-"):
            raise UsageError(_unknown(name, flags_of(parser)))


def _unknown(name: str, flags: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, flags, n=1)
    return f"unknown flag {name}" + (f": did you mean {near[0]}?" if near else "")


def refuse_words(
    rest: Sequence[str],
    given: Sequence[str],
    parser: argparse.ArgumentParser,
    args: argparse.Namespace,
    beam: bool,
) -> None:
    """Refuse words that no flag takes.

    Args:
        rest: What is left of a command line.
        given: The command line.
        parser: Its parser.
        args: What the parser made of it.
        beam: Whether the command takes Beam's flags.

    Raises:
        UsageError: if there is one.
    """
    flags = flags_of(parser)
    for word in rest:
        if word.startswith("-"):
            continue
        before = given[given.index(word) - 1]
        if before in rest and before.startswith("--") and "=" not in before:
            beams = f" (Beam's own are given as {before}={word})" if beam else ""
            raise UsageError(_unknown(before, flags) + beams)
        taker = _flag_before(word, given, flags)
        why = f": {taker[0]} takes {taker[1]}" if taker else ""
        near = difflib.get_close_matches(f"--{word}", flags, n=1, cutoff=0.8)
        hint = f" (did you mean {near[0]}?)" if near else ""
        inputs = getattr(args, "input", None)
        if not hint and isinstance(inputs, list):
            hint = f" (inputs stand together: {' '.join(inputs)})"
        raise UsageError(f"{word!r} was not understood{why}{hint}")


def inputs_after_time(given: Sequence[str]) -> list[str]:
    """Keep `--time`, which takes a column or two, from taking a file as the second one.

    Args:
        given: A command line.

    Returns:
        The command line, with `--time=COLUMN` where a file comes after it.

    Example:
        >>> inputs_after_time(["track", "--time", "t", "rows.csv"])
        ['track', '--time=t', 'rows.csv']
        >>> inputs_after_time(["track", "rows.csv", "--time", "Date", "Time"])
        ['track', 'rows.csv', '--time', 'Date', 'Time']
    """
    words = list(given)
    for at, word in enumerate(words[:-2]):
        if word == _TIME and not words[at + 1].startswith("-") and _names_files(words[at + 2]):
            return [*words[:at], f"{_TIME}={words[at + 1]}", *words[at + 2 :]]
    return words


_TIME = "--time"


def _names_files(word: str) -> bool:
    # Not for every command: the package of formats takes longer to import than a look.
    from transforms.read.formats.endings import ENDINGS, split_ending  # noqa: PLC0415

    known = split_ending(word)[0] in ENDINGS
    return known or word == "-" or "/" in word or "*" in word or os.path.exists(word)


_MANY = ("+", "*")


def greedy_flag(given: Sequence[str], parser: argparse.ArgumentParser) -> str | None:
    """Return the first flag given that takes all words after it."""
    flags = flags_of(parser)
    return next((word for word in given if word in flags and flags[word].nargs in _MANY), None)


def _flag_before(
    word: str, given: Sequence[str], flags: Mapping[str, argparse.Action]
) -> tuple[str, str] | None:
    """Return the flag that a stray word follows, and what it takes."""
    flag, left = None, 0
    for argument in given:
        name, sign, _ = argument.partition("=")
        if name in flags and name.startswith("-"):
            nargs = flags[name].nargs
            left = 0 if sign or nargs == 0 else 1
            takes = "no value" if nargs == 0 else "no more" if sign else "one value"
            flag = None if nargs in _MANY else (name, takes)
        elif argument.startswith("--"):
            flag = None
        elif flag is not None and left == 0 and argument == word:
            return flag
        else:
            left = max(0, left - 1)
    return None
