"""Makes a history that fails smaller, as long as it fails."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from tests.simulation.history import PLAIN, Action, Bundle, History, Row, Setup

_T = TypeVar("_T")


def shrink(history: History, fails: Callable[[History], bool], seconds: float = 60.0) -> History:
    """Return a smaller history that fails, the smallest that was found in this time."""
    until = time.monotonic() + seconds
    before = None
    while history != before and time.monotonic() < until:
        before = history
        for smaller in (_fewer_actions, _smaller_bundles, _plainer):
            for change in smaller(history):
                # A change is made of the history as it was when its turn began.
                if time.monotonic() > until:
                    return history
                if fails(change):
                    history = change
                    break
            else:
                continue
            break
    return history


def _fewer_actions(history: History) -> Iterator[History]:
    """Leave out actions: half of them, a quarter, ... one."""
    for actions in _without(history.actions):
        yield history._replace(actions=list(actions))


def _smaller_bundles(history: History) -> Iterator[History]:
    """Leave out entries: those of a device, then parts of a bundle."""
    keys = {e.key for a in history.actions if isinstance(a, Bundle) for e in a.entries}
    for key in sorted(keys):
        yield history._replace(actions=_without_device(history, key))
    for place, action in enumerate(history.actions):
        if isinstance(action, Bundle):
            for entries in _without(action.entries):
                yield _with(history, place, action._replace(entries=tuple(entries)))


def _plainer(history: History) -> Iterator[History]:
    """Ask for less, and make rows plain."""
    plain = Setup(seed=history.setup.seed)
    for field in dataclasses.fields(Setup):
        value = getattr(plain, field.name)
        if getattr(history.setup, field.name) != value:
            setup = dataclasses.replace(history.setup, **{field.name: value})
            yield history._replace(setup=setup)
    for place, _ in enumerate(history.setup.limits):
        limits = history.setup.limits[:place] + history.setup.limits[place + 1 :]
        yield history._replace(setup=dataclasses.replace(history.setup, limits=limits))
    for place, action in enumerate(history.actions):
        if isinstance(action, Bundle):
            if action.fault:
                yield _with(history, place, action._replace(fault=""))
            for entries in (
                tuple(e._replace(kind=PLAIN) if isinstance(e, Row) else e for e in action.entries),
                tuple(e._replace(source=0) if isinstance(e, Row) else e for e in action.entries),
            ):
                if entries != action.entries:
                    yield _with(history, place, action._replace(entries=entries))


def _without_device(history: History, key: str) -> list[Action]:
    return [
        action._replace(entries=tuple(entry for entry in action.entries if entry.key != key))
        if isinstance(action, Bundle)
        else action
        for action in history.actions
    ]


def _with(history: History, place: int, action: Action) -> History:
    actions = list(history.actions)
    actions[place] = action
    return history._replace(actions=actions)


def _without(parts: Sequence[_T]) -> Iterator[Sequence[_T]]:
    size = max(len(parts) // 2, 1)
    while len(parts):
        for start in range(0, len(parts), size):
            yield [*parts[:start], *parts[start + size :]]
        if size == 1:
            return
        size //= 2
