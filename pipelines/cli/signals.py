"""Signals that end a command: SIGTERM and SIGHUP end it as Ctrl-C does, with what that undoes."""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from pipelines.cli.command_line import SIGNAL_EXIT

QUIET = 10.0
"""Seconds in which further signals do not disturb what the first one has set going."""
PATIENCE = 10.0
"""Seconds for which a computation may keep Python from seeing a signal; then the process ends."""

_DEFAULTS: dict[signal.Signals, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}
_IN_TEXT = re.compile(r"KeyboardInterrupt(?:: (1|15)\b)?")


class SignalKeyboardInterrupt(KeyboardInterrupt):
    """What SIGTERM and SIGHUP raise; its one argument is the signal's number."""


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let SIGINT, SIGTERM and SIGHUP raise in the main thread, once.

    What a caller has set otherwise stays: nohup's SIGHUP is ignored, and a caller's own handlers
    are kept. After a signal the handlers stay, so that none falls into the process's end.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    raised: list[float] = []
    seen = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        if raised and time.monotonic() - raised[-1] < QUIET:
            return
        raised.append(time.monotonic())
        seen.set()
        raise KeyboardInterrupt if number == signal.SIGINT else SignalKeyboardInterrupt(number)

    taken = [number for number, usual in _DEFAULTS.items() if signal.getsignal(number) == usual]
    for number in taken:
        signal.signal(number, end)
    try:
        with _within_patience(taken, seen):
            yield
    finally:
        if not raised:
            for number in taken:
                signal.signal(number, _DEFAULTS[number])


@contextmanager
def _within_patience(numbers: Collection[int], seen: threading.Event) -> Iterator[None]:
    """End the process if a signal's handler has not been run for a while.

    Python runs handlers between its own instructions, and a row loop with a large rank may take
    minutes for one call. Outputs have temporary names until a job ends, so that nothing half-done
    passes for whole.
    """
    receiver, sender = socket.socketpair()
    sender.setblocking(False)

    def watch() -> None:
        with receiver:
            while came := receiver.recv(16):
                for number in came:
                    if number in numbers and not seen.wait(PATIENCE):
                        os.write(2, f"kerneltrack: {said_of(signal.Signals(number))}\n".encode())
                        os._exit(SIGNAL_EXIT + number)

    former = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=watch, name="signals", daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(former)
        sender.close()


def signal_of(error: BaseException) -> signal.Signals | None:
    """Return the signal that an error comes from, None if it comes from none.

    A runner hands on what was raised in a worker's step as text.
    """
    if isinstance(error, SignalKeyboardInterrupt):
        return signal.Signals(error.args[0])
    if isinstance(error, KeyboardInterrupt):
        return signal.SIGINT
    found = _IN_TEXT.search(str(error))
    return signal.Signals(int(found[1] or signal.SIGINT)) if found else None


def said_of(number: signal.Signals) -> str:
    """Return the word for a command that a signal has ended."""
    return "interrupted" if number == signal.SIGINT else f"ended by {number.name}"
