"""Quiet times that a live job is told of while it runs: they count as if a file had them."""

from __future__ import annotations

import dataclasses
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.monitor import quiet as quiet_times
from kerneltrack.monitor.quiet import Entry, QuietTime, QuietTimes, RecurringTime, Told
from kerneltrack.monitor.reference import ReferenceSpec
from tests.parts import cuts, examples
from tests.stream.running import SECOND, SPEC, Rows, Step, make_rows
from tests.stream.test_expiry import KEY, Tracking
from transforms.chunks import Chunk
from transforms.kafka.commands import Commands
from transforms.kafka.messages import BadMessageError, Message
from transforms.keyed.commands import HEADER, QUIET, Command, as_chunk, command_of
from transforms.track.order import Order
from transforms.track.step import NO_PLACE

HELD = ReferenceSpec(rows=256, lags=3, rank=3, budget=6, false_alarms=1e-3, per=1)
MOVES = ReferenceSpec(learning="auto", rows=256, memory="1024 rows", season="none", false_alarms=10)
ORDER = Order(max_disorder=5, max_jump=3600)
TOLD_AT = 400
"""Rows after which somebody tells the job of quiet times: those up to 394 s have run by then."""
LENGTH = 720


def rows_of() -> Rows:
    """A third channel that is too high for 40 rows, three times."""
    rows = make_rows(LENGTH, times=np.arange(LENGTH) * SECOND)
    x = np.random.default_rng(3).normal(size=(LENGTH, 3))
    for start in (300, 450, 600):
        x[start : start + 40, 2] += 12
    return dataclasses.replace(rows, x=x)


def message(start: int, end: int, key: str = "m", **more: Any) -> Chunk:
    """A quiet time in seconds, as it travels."""
    texts = [f"1970-01-01T00:{at // 60:02}:{at % 60:02}Z" for at in (start, end)]
    entry = {"device": key, "from": texts[0], "to": texts[1], **more}
    return as_chunk(Command(None, None, json.dumps(entry).encode(), QUIET, 1, 7))


def file_of(*spans: tuple[int, int]) -> tuple[Entry, ...]:
    return tuple(QuietTime("m", None, a * SECOND, b * SECOND, "") for a, b in spans)


def outcome_of(step: Step) -> tuple[Any, ...]:
    found = step.finish()
    features = {name: column.tobytes() for name, column in found.table("m").items()}
    return features, found.episodes.get("m"), found.devices["m"], found.snapshots[-1]


def through(
    reference: ReferenceSpec,
    file: tuple[Entry, ...],
    told: list[Chunk],
    cuts: list[int],
    later: list[int],
    together: bool = False,
    at: int = TOLD_AT,
) -> tuple[Any, ...]:
    rows, quiet = rows_of(), QuietTimes(file)
    step = Step(order=ORDER, reference=reference, devices=True, quiet=quiet)
    elements = [
        *rows.take(np.arange(at)).cut(cuts),
        *told,
        *rows.take(np.arange(at, LENGTH)).cut(later),
    ]
    if together:
        step.push_all([("m", chunk) for chunk in elements])
    else:
        for chunk in elements:
            step.push("m", chunk)
    return outcome_of(step)


@cache
def of_file(reference: ReferenceSpec, *file: Entry) -> tuple[Any, ...]:
    """What comes of the rows where all of it was in the file."""
    return through(reference, file, [], [1000], [1000])


CUTS = cuts(90, 6)


@pytest.mark.parametrize("reference", [HELD, MOVES], ids=["first", "auto"])
@settings(max_examples=examples(12))
@given(cuts=CUTS, later=CUTS, together=st.booleans())
def test_they_count_as_if_a_file_had_them(
    reference: ReferenceSpec, cuts: list[int], later: list[int], together: bool
) -> None:
    told = [
        message(440, 500),
        message(590, 650, device="*"),
        message(660, 700),
        message(660, 700, cancel=True, why="it is put off"),
    ]
    found = through(reference, (), told, cuts, later, together)
    assert found == of_file(reference, *file_of((440, 500), (590, 650)))
    assert found != of_file(reference)


@settings(max_examples=examples(12))
@given(cuts=CUTS, later=CUTS, together=st.booleans())
def test_rows_that_have_run_stay_as_they_were(
    cuts: list[int], later: list[int], together: bool
) -> None:
    """A time that began before counts from the first row on that has not run: 394 s."""
    found = through(HELD, (), [message(290, 420)], cuts, later, together)
    assert found == of_file(HELD, *file_of((394, 420)))
    # One of the file ends early, since the machine is back.
    found = through(HELD, file_of((290, 500)), [message(290, 500, cancel=True)], cuts, later)
    assert found == of_file(HELD, *file_of((290, 394)))


def test_one_that_comes_again_is_told_and_taken_back() -> None:
    told = {"from": "every day 00:07:20", "to": "00:08:20"}
    comes = RecurringTime("m", None, "day", "00:07:20", "00:08:20", "UTC", "")
    found = through(HELD, (), [message(1, 2, **told)], [90], [80])
    assert found == of_file(HELD, *file_of((440, 500)))
    same = {"from": "Every day 00:07:20Z", "to": "00:08:20Z", "device": "*"}
    # Of another device, as it is written, so that it takes nothing back.
    assert found == through(HELD, (comes,), [message(1, 2, **same, cancel=True)], [90], [80])
    del same["device"]
    found = through(HELD, (comes,), [message(1, 2, **told, cancel=True)], [90], [80])
    assert found == of_file(HELD)


def test_a_device_that_begins_anew_or_expires_keeps_them(tmp_path: Path) -> None:
    rows, found = rows_of(), []
    for expires in (False, True):
        quiet = QuietTimes(())
        tracking = Tracking(tmp_path, ORDER, HELD, devices=True, quiet=quiet)
        tracking.push_chunk(message(440, 500, KEY))
        tracking.push(rows.take(np.arange(TOLD_AT)))
        if expires:
            tracking.expire()
            # Another worker may go on with it.
            quiet.told.clear()
        tracking.push_chunk(message(590, 650, KEY))
        tracking.push(rows.take(np.arange(TOLD_AT, LENGTH)))
        found.append(tracking.finish().episodes[KEY])
    assert found[0] == found[1]
    assert {line["episode"] for line in found[0]} == {1}


def test_those_that_are_over_make_place_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiet_times, "MOST_TOLD", 2)
    step = Step(order=ORDER, reference=HELD, devices=True, quiet=QuietTimes(()))
    step.push("m", rows_of().take(np.arange(TOLD_AT)).chunk())
    for start, end in ((440, 500), (100, 200), (590, 650)):
        assert not step.push("m", message(start, end)).failures
    (failure,) = step.push("m", message(660, 700)).failures
    assert failure == ("m", 1, 7, NO_PLACE)
    assert "64 quiet times of this device are kept that are not over yet" in NO_PLACE
    step.push("m", rows_of().take(np.arange(TOLD_AT, LENGTH)).chunk())
    wanted = of_file(HELD, *file_of((440, 500), (590, 650)))
    assert outcome_of(step) == wanted


def read(said: bytes, job: QuietTimes | None, key: bytes = b"m") -> Command | None:
    commands = Commands(SPEC, None, 3, quiet=job)
    headers = [(HEADER, b"quiet"), ("said", said)]
    found = commands.read(Message("rows", 1, 5, 0, key, None), headers)
    assert found is not None
    return command_of(found[1])


def test_a_message_is_read_and_one_that_says_something_else_is_refused() -> None:
    entry = {"device": "m", "from": "2026-03-02T06:00", "to": "2026-03-02", "why": "bearing"}
    job, text = QuietTimes((), zone="Europe/Berlin"), json.dumps(entry).encode()
    command = read(text, job)
    assert command is not None
    assert (command.said, command.action, command.source, command.row >> 20) == (text, QUIET, 1, 5)
    assert dict(command.headers) == {HEADER: b"quiet", "said": text}
    (told,) = job.read(text)
    # 06:00 in Berlin, and the end of that day there.
    start, end = 1_772_427_600 * SECOND, 1_772_492_400 * SECOND
    assert told == Told(QuietTime("m", None, start, end, "bearing"), cancels=False)
    hall = text.replace(b'"device": "m"', b'"group": "hall 2"')
    for said in (hall, text.replace(b'"m"', b'"*"')):
        assert read(said, job, b"n") is not None
    for said, key, reason in (
        (text, b"n", r"must be one entry, of n, \* or a group"),
        (text + text, b"m", "entry 1 = .*a line of JSON"),
        (b"", b"m", "must be one entry"),
        (b"[1]", b"m", "command quiet: entry 1 = "),
        (text.replace(b"2026-03-02T06", b"2026-03-29T02"), b"m", "never comes in Europe/Berlin"),
        (text.replace(b'"why": "bearing"', b'"cancel": "yes"'), b"m", "must be true or false"),
        (text.replace(b"why", b"who"), b"m", "entry 1, who"),
        (text + b" " * 3000, b"m", "at most 2,048"),
    ):
        with pytest.raises(BadMessageError, match=reason):
            read(said, job, key)
    with pytest.raises(BadMessageError, match="the job has no --reference, or rows without times"):
        read(text, None)
    until = dataclasses.replace(job, least=1_775_000_000 * SECOND)
    with pytest.raises(BadMessageError, match="2026-03-31 or later, the end of the reference's"):
        read(text, until)
    with pytest.raises(BadMessageError, match="2026-03-31 or later"):
        read(b'{"device": "m", "from": "every week Sunday", "to": "Monday"}', until)
