"""Ctrl-C and the other ways to end a command, taken up where it can clean up."""

from __future__ import annotations

import signal
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption:
    """While entered, signals that would end the process are kept until `check` or `wait`.

    So no process is ever started without being written down. What is left to do then may take
    longer than the command line waits for a computation that keeps Python from seeing a signal.
    """

    def __init__(self) -> None:
        self.number = 0
        """The first signal that came."""
        # What a handler does may come in the middle of a pause. An Event's lock would then be taken
        # a second time by the same thread, which waits for ever; this queue is made for it.
        self._wake: SimpleQueue[int] = SimpleQueue()

    def __enter__(self) -> Interruption:
        """Take the signals."""
        # What nohup had ignored stays ignored.
        heard = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
        self._former = {number: signal.signal(number, self._take) for number in heard}
        self._watch = signal.set_wakeup_fd(-1)
        return self

    def __exit__(self, *error: object) -> None:
        """Restore the handlers of the signals."""
        signal.set_wakeup_fd(self._watch, warn_on_full_buffer=False)
        for number, handler in self._former.items():
            signal.signal(number, handler)

    def _take(self, number: int, frame: FrameType | None) -> None:
        self.number = self.number or number
        self._wake.put(number)

    @property
    def came(self) -> bool:
        """Whether a signal came."""
        return self.number > 0

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal came."""
        if self.came:
            raise KeyboardInterrupt

    def pause(self, seconds: float) -> None:
        """Wait, until a signal comes at the latest."""
        if not self.came:
            with suppress(Empty):
                self._wake.get(timeout=max(seconds, 0.0))

    def wait(self, seconds: float) -> None:
        """Wait, and raise KeyboardInterrupt as soon as a signal comes."""
        self.pause(seconds)
        self.check()
