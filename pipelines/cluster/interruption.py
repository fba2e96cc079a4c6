"""Ctrl-C and the other ways to end a command, taken up where it can clean up."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption:
    """While entered, signals that would end the process are kept until `check` or `wait`.

    So no process is ever started without being written down.
    """

    def __init__(self) -> None:
        """Take no signal yet."""
        self._came = threading.Event()

    def __enter__(self) -> Interruption:
        """Take the signals."""
        # What nohup had ignored stays ignored.
        heard = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
        self._former = {number: signal.signal(number, self._take) for number in heard}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Restore the handlers of the signals."""
        for number, handler in self._former.items():
            signal.signal(number, handler)

    def _take(self, number: int, frame: FrameType | None) -> None:
        self._came.set()

    @property
    def came(self) -> bool:
        """Whether a signal came."""
        return self._came.is_set()

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal came."""
        if self.came:
            raise KeyboardInterrupt

    def pause(self, seconds: float) -> None:
        """Wait, until a signal comes at the latest."""
        self._came.wait(seconds)

    def wait(self, seconds: float) -> None:
        """Wait, and raise KeyboardInterrupt as soon as a signal comes."""
        self.pause(seconds)
        self.check()
