"""What all commands share: how a command line is refused, and what exit codes mean."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterable, Sequence
from typing import NoReturn

FAILED_EXIT = 1
INPUT_EXIT = 2
SIGNAL_EXIT = 128
"""Of a command that a signal has ended; the signal's number is added."""
INTERRUPTED_EXIT = 130


class UsageError(Exception):
    """The command line itself is wrong."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Raise what `main` turns into one line and exit code 2."""
        raise UsageError(f"{message} (see {self.prog} --help)")


def path_name(text: str) -> str:
    """Return the name of a file or folder: the type of arguments that are written to.

    Raises:
        ArgumentTypeError: if it names nothing; "" would be the folder that one is in.
    """
    if not text.strip():
        raise argparse.ArgumentTypeError(f"{text!r} names no file or folder")
    return text


def flags_of(parser: argparse.ArgumentParser) -> list[str]:
    """Return the names of a parser's flags, and of those of its commands."""
    found: list[str] = []
    for action in parser._actions:
        found += action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            found += [flag for nested in action.choices.values() for flag in flags_of(nested)]
    return found


def refuse(arguments: Sequence[str], known: Iterable[str]) -> None:
    """Refuse unknown flags, naming the nearest known one.

    Raises:
        UsageError: if there is any.
    """
    for argument in arguments:
        name = argument.partition("=")[0]
        if name.startswith("-"):
            near = difflib.get_close_matches(name, list(known), n=1)
            hint = f": did you mean {near[0]}?" if near else ""
            raise UsageError(f"unknown flag {name}{hint}")
