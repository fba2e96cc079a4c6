"""What people say of a fleet's episodes: rules and feedback, read once its columns are known."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from kerneltrack.errors import ConfigError
from kerneltrack.frames.table import FrameColumns
from kerneltrack.monitor.entries import check_devices, numbered
from kerneltrack.monitor.feedback import Feedback, checked_feedback
from kerneltrack.monitor.rules import Rules, checked_rules

Entries: TypeAlias = Sequence[Mapping[str, Any]] | None
_Read: TypeAlias = tuple[Rules | None, Feedback | None]


class People:
    """Rules and feedback as they were given, and as they were read last.

    Args:
        rules: As of `Fleet`; so is `feedback`.
        feedback: See `rules`.
    """

    def __init__(self, rules: Entries, feedback: Entries) -> None:
        # Another iterable than a list, such as a reader of a file, can be read but once.
        given = rules, feedback
        self._given = [own if own is None or isinstance(own, list) else [*own] for own in given]
        self._read: tuple[object, _Read] = (None, (None, None))

    def of(self, columns: FrameColumns | None) -> _Read:
        """Return both for frames of these columns; None for what is not given, or before those.

        Raises:
            ConfigError: for an entry that says something else, by its place, or for feedback of
                rows without times.
        """
        if columns is None:
            return None, None
        # Entries may have been added to the lists since.
        now = [None if own is None else [*map(copy.copy, own)] for own in self._given]
        if self._read[0] != (columns, now):
            read = _rules_of(now[0], columns), _feedback_of(now[1], columns)
            self._read = (columns, now), read
        return self._read[1]


def _rules_of(given: Entries, columns: FrameColumns) -> Rules | None:
    if given is None:
        return None
    rules = checked_rules(numbered(given, "rules, "), columns.features)
    check_devices("rules", rules.rules)
    return rules


def _feedback_of(given: Entries, columns: FrameColumns) -> Feedback | None:
    if given is None:
        return None
    if columns.time is None:
        raise ConfigError("time", None, "given, since feedback counts from a time on")
    said = checked_feedback(numbered(given, "feedback, "), columns.features)
    check_devices("feedback", said)
    return Feedback(said, tuple(columns.features))
