"""SIGTERM and SIGHUP end a command as Ctrl-C does; those that follow at once change nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from pipelines.cli import signals
from pipelines.cli.signals import SignalKeyboardInterrupt, ended_by_signals, said_of, signal_of
from pipelines.job import JobError, explain

ALL = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Begin with the handlers of a process of its own, and leave what was there."""
    former = {number: signal.getsignal(number) for number in ALL}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    for number, handler in former.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("number", "output_text", "code"),
    [
        (signal.SIGINT, "interrupted", 130),
        (signal.SIGTERM, "ended by SIGTERM", 143),
        (signal.SIGHUP, "ended by SIGHUP", 129),
    ],
)
def test_the_first_signal_raises_and_the_next_do_not(
    number: signal.Signals, output_text: str, code: int
) -> None:
    with pytest.raises(KeyboardInterrupt) as caught, ended_by_signals():
        os.kill(os.getpid(), number)
    for again in (*ALL, number, number):
        os.kill(os.getpid(), again)
    assert signal_of(caught.value) == number
    ended = explain(caught.value, "out")
    assert isinstance(ended, JobError)
    assert (str(ended), ended.exit_code) == (
        f"{output_text}: run the same command with --overwrite",
        code,
    )


def test_a_signal_that_comes_much_later_raises_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first one raised may have been lost, as in a callback of C's."""
    with pytest.raises(KeyboardInterrupt), ended_by_signals():
        os.kill(os.getpid(), signal.SIGTERM)
    monkeypatch.setattr(signals, "QUIET", 0.0)
    with pytest.raises(SignalKeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGTERM)


BUSY = """
import hashlib, sys
from pipelines.cli import signals
signals.PATIENCE = 0.2
with signals.ended_by_signals():
    print("busy", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2_000_000_000)
"""


@pytest.mark.parametrize("number", ALL)
def test_a_long_computation_does_not_keep_a_signal_waiting(number: signal.Signals) -> None:
    """Python sees signals between its own instructions, and C has none."""
    command = [sys.executable, "-c", BUSY]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "busy\n"
        # Until it has begun Python sees signals at once.
        time.sleep(1.0)
        begin = time.monotonic()
        process.send_signal(number)
        _, output_text = process.communicate(timeout=60)
        assert time.monotonic() - begin >= 0.2
    assert (output_text, process.returncode) == (f"kerneltrack: {said_of(number)}\n", 128 + number)


def test_nothing_watches_once_a_command_has_ended() -> None:
    before = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(before)
    for _ in range(3):
        with ended_by_signals():
            pass
    after = signal.set_wakeup_fd(before)
    assert after == before


def test_a_command_that_ends_by_itself_leaves_the_handlers_as_they_were() -> None:
    former = [signal.getsignal(number) for number in ALL]
    with ended_by_signals():
        assert [signal.getsignal(number) for number in ALL] != former
    assert [signal.getsignal(number) for number in ALL] == former


def test_what_was_set_otherwise_stays() -> None:
    """As by nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with ended_by_signals():
        os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("KeyboardInterrupt [while running 'Write']", signal.SIGINT),
        ("pipelines.cli.signals.SignalKeyboardInterrupt: 15 [while running 'x']", signal.SIGTERM),
        ("pipelines.cli.signals.SignalKeyboardInterrupt: 1", signal.SIGHUP),
        ("ValueError: 15", None),
    ],
)
def test_a_runner_hands_it_on_as_text(text: str, number: signal.Signals | None) -> None:
    assert signal_of(RuntimeError(text)) == number
    assert number is None or said_of(number)


PAUSES = """
import os, signal, threading
from pipelines.cluster.interruption import Interruption

for _ in range(200):
    with Interruption() as interruption:
        sender = threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGTERM))
        sender.start()
        while not interruption.came:
            interruption.pause(0)
        sender.join()
    assert interruption.number == signal.SIGTERM
print("all came")
"""


def test_a_signal_in_the_middle_of_a_pause_does_not_stop_the_process_for_ever() -> None:
    command = [sys.executable, "-c", PAUSES]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "all came\n"


ENDS_SLOWLY = """
import signal, time
from pipelines.cli import signals
from pipelines.cluster.interruption import Interruption

signals.PATIENCE = .1
with signals.ended_by_signals(), Interruption() as interruption:
    signal.raise_signal(signal.SIGTERM)
    time.sleep(1)
print("ended by itself")
"""


def test_what_a_command_does_at_its_end_may_take_longer_than_the_patience() -> None:
    command = [sys.executable, "-c", ENDS_SLOWLY]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stdout == "ended by itself\n"
