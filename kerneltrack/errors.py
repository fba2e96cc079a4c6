"""Errors that a user can act on: each message is one line."""

from __future__ import annotations


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
        super().__init__(f"{field} = {value!r}: must be {allowed}")

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
        where = path if position is None else f"{path}, {position}"
        super().__init__(f"{where}: {reason}")

    def __reduce__(self) -> tuple[type[DataError], tuple[str, str, str | None]]:
        """Keep the three parts when a worker sends the error home."""
        return (type(self), (self.path, self.reason, self.position))
