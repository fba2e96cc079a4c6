"""What a local job says of messages that are refused, and of how it ends."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipelines.cli.main import main
from pipelines.devices.command import _Shown
from pipelines.live.jobs import LOCAL_RECORD
from pipelines.local.stream import Line

READ = "kerneltrack read-output --brokers b:9092 --topic out-dead-letters"


def test_the_line_and_the_end_say_what_was_refused(capsys: pytest.CaptureFixture[str]) -> None:
    steps: Any = SimpleNamespace(counts=Counter(rows_read=40), refused=0, last_reason="")
    engine: Any = SimpleNamespace(newest=None)
    models: Any = ()
    line = Line(True, steps, models, engine, READ)
    line.end()
    assert capsys.readouterr().out == ""
    steps.refused, steps.last_reason = 12, "time = 1795924800000: no time in the years 1685 to 2255"
    line._at -= 5.0
    line.show()
    shown = capsys.readouterr()
    assert "40 rows, " in shown.err
    assert ", 12 refused" in shown.err
    why = "refused: time = 1795924800000: no time in the years 1685 to 2255; --time-unit says what"
    assert why in shown.out
    assert READ in shown.out
    line.end()
    ended = capsys.readouterr().out
    assert why in ended
    assert "(12 since the start" in ended
    assert READ in ended


def test_stop_says_how_a_local_job_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / LOCAL_RECORD).touch()
    assert main(["stop", "--state-folder", str(tmp_path)]) == 2
    assert "a job with --engine local ends with Ctrl-C or SIGTERM" in capsys.readouterr().err


def test_a_topic_without_a_state_of_a_device_may_be_the_wrong_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    args: Any = SimpleNamespace(
        json=False,
        csv=False,
        state=None,
        folder=None,
        topic="plant-episodes",
        groups=None,
        watch=None,
        faults=None,
    )
    source: Any = SimpleNamespace(run=None, causes=list)
    _Shown(args, source).print([])
    said = capsys.readouterr().out
    assert said == "plant-episodes has no state of a device yet: is it a --devices-topic?\n"
