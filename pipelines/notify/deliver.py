"""Deliveries: in order, at a limited rate, again after a while where they fail."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence

from pipelines.notify.notices import Event
from pipelines.notify.outbox import Outbox
from pipelines.notify.post import DeliveryError
from pipelines.notify.receivers import Receiver

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0
"""Seconds until a delivery that failed is tried again: each time twice as long."""
MINUTE = 60.0


class Delivery:
    """Deliveries to one receiver.

    Args:
        receiver: Whom.
        outbox: What is to be sent.
        most: Messages in a minute, at most.
        say: Prints a line for people.
        clock: Returns seconds.

    Attributes:
        due: When it is tried next, in seconds of the clock.
        refused: Notifications that the receiver refused for what they hold: they are left out.
    """

    def __init__(
        self,
        receiver: Receiver,
        outbox: Outbox,
        most: int,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._receiver, self._outbox, self._most = receiver, outbox, most
        self._say, self._clock = say, clock
        self._times: deque[float] = deque(maxlen=most)
        self._pause, self._failed = FIRST_PAUSE, ""
        self._sent_again = clock()
        self.due, self.refused, self.delivered = clock(), 0, 0

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to be sent."""
        return not self._outbox.due(self._receiver.name, 1)

    def go_on(self) -> None:
        """Send what can be sent now."""
        while self._clock() >= self.due:
            events = self._outbox.due(self._receiver.name, self._receiver.most)
            if not events:
                break
            if not self._may_send() or not self._send([*events], list(events.values())):
                return
        self._send_again()

    def _may_send(self) -> bool:
        """Check whether one more message is allowed within the last minute."""
        now = self._clock()
        if len(self._times) == self._most and now - self._times[0] < MINUTE:
            self.due = self._times[0] + MINUTE
            return False
        self._times.append(now)
        return True

    def _send(self, numbers: Sequence[int], events: Sequence[Event]) -> bool:
        self._outbox.trying(numbers)
        try:
            self._receiver.send(events)
        except DeliveryError as error:
            if error.final and len(numbers) == 1:
                self._say(f"left out: {error}")
                self.refused += 1
                self._outbox.sent(numbers)
                return True
            self._outbox.failed(numbers)
            self._fail(error)
            return False
        self._outbox.sent(numbers)
        self.delivered += len(numbers)
        self._recover()
        return True

    def _send_again(self) -> None:
        """Send again what goes on, to a receiver that forgets."""
        again, now = self._receiver.again, self._clock()
        if again is None or now - self._sent_again < again or now < self.due:
            return
        events = self._outbox.going_on(self._receiver.name)
        for first in range(0, len(events), self._receiver.most):
            try:
                self._receiver.send(events[first : first + self._receiver.most])
            except DeliveryError as error:
                self._fail(error)
                return
        self._sent_again = now
        self._recover()

    def _fail(self, error: DeliveryError) -> None:
        """Wait, each time twice as long, and at least as long as the receiver says."""
        wait = min(max(self._pause, error.after or 0.0), LONGEST_PAUSE)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        self.due = self._clock() + wait
        if str(error) != self._failed:
            self._say(f"{error}; again in {wait:.0f} s")
        self._failed = str(error)

    def _recover(self) -> None:
        if self._failed:
            self._say(f"{self._receiver.name} takes notifications again")
        self._pause, self._failed = FIRST_PAUSE, ""
