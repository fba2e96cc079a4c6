"""Messages that have come and have not run: the partitions of a busy topic take turns.

A row waits until the messages that run have run, and then while its own do. With a thousand devices
each bundle takes .1 s however few rows it has of each; what makes it shorter is fewer devices, and
those of one partition are not in another.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from operator import itemgetter

from transforms.kafka.messages import Message

LEAST = 1000
"""Messages up to which all run together: a transaction of their own would cost more."""
PARTS = 4
"""A bundle has one in so many of the messages that wait, at least."""

Place = tuple[str, int]
"""A topic, and a partition."""


class Turns:
    """Messages that wait, by partition.

    Args:
        most: Messages of a bundle at most.
        gap: Seconds between two turns of the partition whose turn it is, at least.
    """

    def __init__(self, most: int, gap: float) -> None:
        self._most, self._gap = most, gap
        self._waiting: dict[Place, list[Message]] = {}
        self._count, self._keyed = 0, True
        self._taken: dict[Place, float] = {}
        self._all_taken = 0.0

    @property
    def room(self) -> int:
        """How many messages more may wait."""
        return self._most - self._count

    def add(self, messages: Iterable[Message]) -> None:
        """Take messages in, those of a partition in their order."""
        for place, group in itertools.groupby(messages, itemgetter(0, 1)):
            own = list(group)
            self._waiting.setdefault(place, []).extend(own)
            self._count += len(own)
            self._keyed = self._keyed and all(message.key is not None for message in own)

    @property
    def _together(self) -> bool:
        """Whether all that wait run together.

        Messages without a key may be of any device: each partition would bring all devices.
        """
        return self._count <= LEAST or not self._keyed

    def due(self) -> float:
        """Return when messages may be taken next."""
        if self.room <= 0:
            return 0.0
        return min(map(self._since, self._waiting), default=self._all_taken) + self._gap

    def take(self, now: float) -> list[Message]:
        """Return the messages whose turn it is; none before they are `due`."""
        found: list[Message] = []
        if now < self.due():
            return found
        enough = self._count if self._together else max(LEAST, self._count / PARTS)
        for place in sorted(self._waiting, key=self._since):
            if len(found) < enough:
                found += self._waiting.pop(place)
                self._taken[place] = now
        self._count -= len(found)
        if not self._waiting:
            self._all_taken, self._keyed = now, True
        return found

    def _since(self, place: Place) -> float:
        """Return when a partition's messages were taken last."""
        return max(self._taken.get(place, 0.0), self._all_taken)
