"""SIGTERM and SIGHUP end a command as Ctrl-C does; those that follow at once change nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from pipelines.cli import signals
from pipelines.cli.signals import SignalKeyboardInterrupt, ended_by_signals, said_of, signal_of
from pipelines.files.record import JobError
from pipelines.job import explain

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
    ("number", "said", "code"),
    [
        (signal.SIGINT, "interrupted", 130),
        (signal.SIGTERM, "ended by SIGTERM", 143),
        (signal.SIGHUP, "ended by SIGHUP", 129),
    ],
)
def test_the_first_signal_raises_and_the_next_do_not(
    number: signal.Signals, said: str, code: int
) -> None:
    with pytest.raises(KeyboardInterrupt) as caught, ended_by_signals():
        os.kill(os.getpid(), number)
    for again in (*ALL, number, number):
        os.kill(os.getpid(), again)
    assert signal_of(caught.value) == number
    ended = explain(caught.value, "out")
    assert isinstance(ended, JobError)
    assert (str(ended), ended.exit_code) == (
        f"{said}: run the same command with --overwrite",
        code,
    )


def test_a_signal_that_comes_much_later_raises_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first one raised may have been lost, as in a callback of C's."""
    with pytest.raises(KeyboardInterrupt), ended_by_signals():
        os.kill(os.getpid(), signal.SIGTERM)
    monkeypatch.setattr(signals, "QUIET", 0.0)
    with pytest.raises(SignalKeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGTERM)


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
