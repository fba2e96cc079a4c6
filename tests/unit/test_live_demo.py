"""The demonstration of a live job, ended by a signal before it is through."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.cli import main as cli
from pipelines.live import demo

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture
def handlers() -> Iterator[None]:
    """What this process does at signals, as before afterwards."""
    before = {number: signal.getsignal(number) for number in NUMBERS}
    # A shell lets what it starts in the background ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("number", NUMBERS)
def test_whatever_ends_it_the_cluster_is_taken_down(
    number: signal.Signals,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    commands: list[list[str]] = []

    def run(folder: str, args: object) -> int:
        os.kill(os.getpid(), number)
        signal.pause()
        return 0

    def command(words: list[str]) -> int:
        commands.append(words)
        return 0

    monkeypatch.setattr(demo, "_run", run)
    monkeypatch.setattr(demo, "load", lambda folder: folder)
    monkeypatch.setattr(cli, "main", command)
    assert demo.main(["--folder", str(tmp_path)]) == 130
    assert commands == [["cluster", "down", "--folder", str(tmp_path), "--wipe"]]
    assert capsys.readouterr().out == "interrupted\n"
