"""What people say of episodes while a live job runs: it counts as if a file had said it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.monitor import feedback
from kerneltrack.monitor.feedback import FALSE, REAL, Feedback, Said, entry_of, told_with
from kerneltrack.monitor.likeness import channel
from kerneltrack.monitor.reference import ReferenceSpec
from tests.parts import cuts, examples
from tests.stream.running import SECOND, SPEC, Line, Rows, Step, make_rows
from tests.stream.test_expiry import KEY, Tracking
from transforms.kafka.commands import Commands
from transforms.kafka.messages import BadMessageError, Message
from transforms.keyed.commands import HEADER, Command, as_chunk, command_of
from transforms.track.order import Order

CHANNELS = ("flow", "heat", "oil")
HELD = ReferenceSpec(rows=256, lags=3, rank=3, budget=6, false_alarms=1e-3, per=1)
ORDER = Order(max_disorder=5, max_jump=3600)
OVER = 400
"""Rows after which the first episode is over, and somebody says that it was false."""
SAID_FROM = 420 * SECOND
WHY = "like that since 1970-01-01T00:05:01Z, marked as false"


def rows_of() -> Rows:
    """A third channel that is too high for 40 rows, three times."""
    rows = make_rows(620, times=np.arange(620) * SECOND)
    x = np.random.default_rng(3).normal(size=(620, 3))
    for start in (300, 450, 560):
        x[start : start + 40, 2] += 12
    return dataclasses.replace(rows, x=x)


def step_of(*said: Said) -> Step:
    return Step(order=ORDER, reference=HELD, devices=True, feedback=people_of(said))


def people_of(said: tuple[Said, ...]) -> Feedback:
    """What a file says; of a group it is said where the device is known to be in it."""
    groups = {"m": "north"} if any(each.group is not None for each in said) else {}
    return Feedback(said, CHANNELS, groups=groups)


def of_group(said: Said) -> Said:
    return said._replace(device="", group="north")


def first_said(key: str = "m", **changes: Any) -> Said:
    """What is said of the first episode."""
    parts = {"channels": (channel("oil", 1.0, 12.0),), **changes}
    since, until = 301 * SECOND, 360 * SECOND
    return Said(key, since, until, FALSE, SAID_FROM, "shift", ())._replace(**parts)


def as_command(said: Said) -> Command:
    return Command(None, None, json.dumps(entry_of(said)).encode())


def lines(outcome: Any, key: str = "m") -> tuple[list[Line], list[Line]]:
    return outcome.episodes[key], outcome.devices[key]


@settings(max_examples=examples(20))
@given(
    cuts=cuts(90, 6),
    later=cuts(90, 6),
    one_bundle=st.booleans(),
    group=st.booleans(),
)
def test_it_counts_as_if_a_file_had_said_it(
    cuts: list[int], later: list[int], one_bundle: bool, group: bool
) -> None:
    rows, said = rows_of(), of_group(first_said()) if group else first_said()
    wanted = step_of(said)
    wanted.push("m", rows.chunk())
    told = step_of()
    elements = [
        *rows.take(np.arange(OVER)).cut(cuts),
        as_chunk(as_command(said)),
        *rows.take(np.arange(OVER, 620)).cut(later),
    ]
    if one_bundle:
        told.push_all([("m", chunk) for chunk in elements])
    else:
        for chunk in elements:
            told.push("m", chunk)
    found = lines(told.finish())
    assert found == lines(wanted.finish())
    muted = {line["episode"]: line["muted"] for line in found[0]}
    assert muted == {1: None, 2: WHY, 3: WHY}


MOVES = ReferenceSpec(learning="auto", rows=256, memory="1024 rows", season="none", false_alarms=10)
LENGTH, SAID_LATER = 2050, 1550 * SECOND


def habits() -> Rows:
    """A third channel that is too high for 20 rows, again and again."""
    rows = make_rows(LENGTH, times=np.arange(LENGTH) * SECOND)
    x = np.random.default_rng(5).normal(size=(LENGTH, 3))
    for start in (1400, 1850, 1970):
        x[start : start + 20, 2] += 8
    return dataclasses.replace(rows, x=x)


def moving_step(*said: Said) -> Step:
    return Step(order=ORDER, reference=MOVES, devices=True, feedback=people_of(said))


@pytest.mark.parametrize("group", [False, True])
@pytest.mark.parametrize(
    ("cuts", "later", "told_at"),
    [([128], [64], 1536), ([700, 37], [9, 31], 1510), ([1000], [300], 1549)],
)
def test_rows_become_normal_as_if_a_file_had_said_it(
    cuts: list[int], later: list[int], told_at: int, group: bool
) -> None:
    rows, plain = habits(), moving_step()
    plain.push("m", rows.chunk())
    outcome = plain.finish()
    first = next(line for line in lines(outcome)[0] if line["state"] == "closed")
    assert first["time"] < told_at * SECOND
    said = first_said(since=first["start"], until=first["time"], start=SAID_LATER)
    said = of_group(said) if group else said
    wanted = moving_step(said)
    wanted.push("m", rows.chunk())
    file = wanted.finish()
    told = moving_step()
    for chunk in (
        *rows.take(np.arange(told_at)).cut(cuts),
        as_chunk(as_command(said)),
        *rows.take(np.arange(told_at, LENGTH)).cut(later),
    ):
        told.push("m", chunk)
    found = told.finish()
    assert lines(found) == lines(file)
    assert found.snapshots[-1] == file.snapshots[-1]
    assert found.snapshots[-1] != outcome.snapshots[-1]
    assert len(lines(file)[0]) < len(lines(outcome)[0])


def test_what_was_said_last_counts_and_a_device_that_begins_anew_knows_it() -> None:
    rows, step, other = rows_of(), step_of(), step_of(first_said())
    # Of a device that has sent nothing yet, too.
    step.push("m", as_chunk(as_command(first_said())))
    for each in (step, other):
        each.push("m", rows.take(np.arange(480)).chunk())
        each.push("m", as_chunk(Command(None, None)))
    assert lines(step.outcome) == lines(other.outcome)
    assert lines(step.outcome)[0][-1]["muted"] == WHY
    later = dataclasses.replace(rows, time=np.arange(620) * SECOND + 500 * SECOND)
    step.push("m", later.take(np.arange(380)).chunk())
    assert lines(step.outcome)[0][-1]["muted"] == WHY
    step.push("m", as_chunk(as_command(first_said(verdict=REAL, start=0))))
    step.push("m", later.take(np.arange(380, 620)).chunk())
    assert {line["muted"] for line in lines(step.finish())[0][-4:]} == {None}


def test_a_device_that_expires_keeps_it(tmp_path: Path) -> None:
    rows, found = rows_of(), []
    for expires in (False, True):
        people = Feedback((), CHANNELS)
        tracking = Tracking(tmp_path, ORDER, HELD, devices=True, feedback=people)
        tracking.push(rows.take(np.arange(OVER)))
        tracking.push_chunk(as_chunk(as_command(first_said(KEY))))
        if expires:
            tracking.expire()
            # Another worker may go on with it.
            people.told.clear()
        tracking.push(rows.take(np.arange(OVER, 620)))
        found.append(tracking.finish().episodes[KEY])
    assert found[0] == found[1]
    assert {line["muted"] for line in found[0]} == {None, WHY}


def test_no_more_is_kept_of_a_device_than_the_last_of_what_was_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(feedback, "MOST_TOLD", 2)
    told = b""
    for verdict in (FALSE, FALSE, REAL):
        said = first_said(verdict=verdict)
        told = told_with(told, json.dumps(entry_of(said)).encode())
    people = Feedback((), CHANNELS)
    people.tell("m", told)
    assert [each.verdict for each in people.told["m"][1]] == [FALSE, REAL]
    people.tell("m", b"")
    assert people.of("m", SAID_FROM) == []


def test_what_was_told_stands_where_it_would_in_a_file() -> None:
    """Of its group first: of two episodes that are as like the one that comes first counts."""
    first, second = (of_group(first_said(since=since * SECOND)) for since in (1, 2))
    file, live = people_of((first, second, first_said())), people_of((first, first_said()))
    live.tell("m", told_with(b"", json.dumps(entry_of(second)).encode()))
    assert live.of("m", SAID_FROM) == file.of("m", SAID_FROM) == [first, second, first_said()]


def read(said: bytes, job: Feedback | None, key: bytes = b"m") -> Command | None:
    commands = Commands(SPEC, None, 3, job)
    headers = [(HEADER, b"feedback"), ("said", said)]
    found = commands.read(Message("rows", 0, 5, 0, key, None), headers)
    assert found is not None
    return command_of(found[1])


def test_a_message_is_read_and_one_that_says_something_else_is_refused() -> None:
    job, command = Feedback((), CHANNELS), as_command(first_said())._replace(row=5 << 20)
    assert command.said is not None
    assert dict(command.headers)[HEADER] == b"feedback"
    assert read(command.said, job) == command
    hall = as_command(of_group(first_said()))._replace(row=5 << 20)
    assert read(hall.said or b"", job, b"n") == hall
    for said, key, reason in (
        (command.said, b"n", "must be one entry, of n or a group"),
        (command.said * 2, b"m", "entry 1 = .*a line of JSON"),
        (b"", b"m", "must be one entry"),
        (b"[1]", b"m", "command feedback: entry 1"),
        (command.said.replace(b"oil", b"dust"), b"m", "a channel: flow, heat, oil"),
        (command.said.replace(b"false", b"wrong"), b"m", "false or real"),
        (command.said + b" " * 20_000, b"m", "at most 16,384"),
    ):
        with pytest.raises(BadMessageError, match=reason):
            read(said, job, key)
    with pytest.raises(BadMessageError, match="started without --feedback"):
        read(command.said, None)
