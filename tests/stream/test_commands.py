"""A model that begins anew, or goes on from a snapshot, between two rows of its stream."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from apache_beam import pvalue
from apache_beam.transforms.window import FixedWindows
from hypothesis import given

from kerneltrack import codec
from kerneltrack.fleet.restore import decode
from kerneltrack.monitor.drift import DriftSpec
from kerneltrack.trackers import OKFEBSpec
from kerneltrack.trackers.common import state as places
from tests.parts import cuts, lanes
from tests.stream import learning
from tests.stream.running import (
    SECOND,
    SPEC,
    Element,
    Outcome,
    Rows,
    Step,
    Table,
    assert_same,
    core_alone,
    exact,
    make_rows,
    track_stream,
)
from tests.stream.test_messages import columns
from transforms.kafka.commands import Commands
from transforms.kafka.messages import BadMessageError, Message
from transforms.kafka.read import DEAD_LETTERS, GatherFn
from transforms.keyed.commands import HEADER, Command, as_chunk, command_of
from transforms.learn.plan import LearnLabels
from transforms.track.order import Order
from transforms.track.transform import MeasureMismatch

DISORDER = 5
ORDER = Order(max_disorder=DISORDER, max_jump=3600)
RESET = Command(None, None)
CUTS = cuts(40, 6)


def released(rows: Rows) -> int:
    """How many of these rows, two a second, do not wait for others."""
    assert rows.time is not None
    return int(np.sum(rows.time < rows.time[-1] - DISORDER * SECOND))


def moved_on(table: Table, rows: int) -> Table:
    return {**table, "index": table["index"] + rows}


def joined(*tables: Table) -> Table:
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


def snapshot_of(rows: Rows, spec: OKFEBSpec = SPEC) -> bytes:
    step = Step(spec=spec)
    step.push("other", rows.chunk())
    ((_, data),) = step.finish().snapshots
    return data


@given(before=CUTS, after=CUTS)
def test_a_model_that_is_reset_is_a_new_one_with_later_indexes(
    before: list[int], after: list[int]
) -> None:
    """The rows that wait are its first ones, however all of them were cut."""
    rows = make_rows(160)
    first = rows.take(np.arange(90))
    step = Step(order=ORDER)
    for chunk in first.cut(before):
        step.push("m", chunk)
    step.push("m", as_chunk(RESET))
    for chunk in rows.take(np.arange(90, 160)).cut(after):
        step.push("m", chunk)
    outcome = step.finish()
    old = released(first)
    wanted = [core_alone(rows.take(part)) for part in (np.arange(old), np.arange(old, 160))]
    assert_same(outcome.table("m"), joined(wanted[0], moved_on(wanted[1], old)))
    assert outcome.late == []


def test_a_model_that_is_replaced_goes_on_as_the_snapshot_would() -> None:
    known, rows = make_rows(70, seed=3), make_rows(160)
    first = rows.take(np.arange(90))
    step = Step(order=ORDER)
    step.push("m", first.chunk())
    data = snapshot_of(known)
    step.push("m", as_chunk(Command(data, None)))
    step.push("m", rows.take(np.arange(90, 160)).chunk())
    outcome = step.finish()
    old = released(first)
    later = rows.take(np.arange(old, 160))
    both = make_rows(70 + len(later))
    both = dataclasses.replace(both, x=np.concatenate([known.x, later.x]))
    alone = {name: values[70:] for name, values in core_alone(both).items()}
    wanted = joined(core_alone(rows.take(np.arange(old))), moved_on(alone, old - 70))
    assert_same(outcome.table("m"), wanted, ignore=("time", "row", "source"))
    ((_, last),) = outcome.snapshots
    about = codec.decode(last).header["about"]
    assert (about["rows"], about["before"]) == (160, old - 70)


def test_a_model_that_was_not_known_begins_at_row_0_with_a_snapshot() -> None:
    step = Step(order=Order(max_disorder=0, max_jump=3600))
    step.push("new", as_chunk(Command(snapshot_of(make_rows(70)), None)))
    outcome = step.push("new", make_rows(9, seed=2).chunk())
    assert outcome.table("new")["index"].tolist() == list(range(9))
    assert not outcome.table("new")["initial"].any()


def test_windows_alerts_and_snapshots_go_on_with_the_indexes() -> None:
    asked: dict[str, Any] = {
        "measure": MeasureMismatch(FixedWindows(7), moving=5),
        "drift": DriftSpec(settle=20),
        "snapshot_every": 10,
        "order": Order(max_disorder=0, max_jump=3600),
    }
    rows = make_rows(160)
    second = rows.take(np.arange(80, 160))
    step, alone = Step(**asked), Step(**asked)
    for each in (step, alone):
        if each is step:
            step.push("m", rows.take(np.arange(80)).chunk())
            step.push("m", as_chunk(RESET))
            step.outcome = Outcome()
        each.push("m", second.chunk())
        each.finish()
    assert exact(step.outcome.mismatch["m"]) == exact(
        [{**line, "index": line["index"] + 80} for line in alone.outcome.mismatch["m"]]
    )
    shifted = [{**line, "index": line["index"] + 80} for line in alone.outcome.alerts.get("m", [])]
    assert exact(step.outcome.alerts.get("m", [])) == exact(shifted)
    ends = [codec.decode(data).header["about"]["rows"] for _, data in step.outcome.snapshots]
    assert ends == [
        codec.decode(data).header["about"]["rows"] + 80 for _, data in alone.outcome.snapshots
    ]
    model = decode(step.work, step.outcome.snapshots[-1][1], "m")
    assert model.rows == 160


@pytest.mark.parametrize("sizes", [*lanes([7], [1]), [200]])
def test_a_live_pipeline_obeys_in_the_order_of_arrival(sizes: list[int]) -> None:
    rows, data = make_rows(120), snapshot_of(make_rows(70, seed=3))
    parts = np.array_split(np.arange(120), 3)
    elements: list[Element] = []
    for part, command in zip(parts, (RESET, Command(data, None), None), strict=True):
        elements += [("m", chunk) for chunk in rows.take(part).cut(sizes)]
        elements += [("n", chunk) for chunk in rows.take(part).cut(sizes)]
        if command is not None:
            elements.append(("m", as_chunk(command)))
    outcome = track_stream([[element] for element in elements], order=ORDER)
    step = Step(order=ORDER)
    for part, command in zip(parts, (RESET, Command(data, None), None), strict=True):
        step.push("m", rows.take(part).chunk())
        if command is not None:
            step.push("m", as_chunk(command))
    assert_same(outcome.table("m"), step.finish().table("m"))
    assert outcome.table("m")["index"].tolist() == list(range(120))
    assert_same(outcome.table("n"), core_alone(rows))


def labelled(count: int, seed: int = 0) -> Rows:
    rows = make_rows(count, seed=seed)
    signs = np.where(rows.x[:, 0] > 0, "up", "down").astype(object)
    return dataclasses.replace(rows, label=signs)


def learning_step(**asked: Any) -> Step:
    learner = LearnLabels(learning.SPEC, bounded=False, **asked)
    return Step(order=Order(max_disorder=0, max_jump=3600), learner=learner)


def test_a_learner_begins_anew_with_its_model() -> None:
    rows = labelled(160)
    later = rows.take(np.arange(80, 160))
    step, alone = learning_step(window=7.0), learning_step(window=7.0)
    step.push("m", rows.take(np.arange(80)).chunk())
    before = len(step.outcome.metrics["m"])
    total = step.push("m", as_chunk(RESET)).metrics["m"]
    # What it had to say is said: of the window that was open, and of all rows.
    assert [line["start"] is None for line in total] == [False, True]
    assert total[-1]["rows"] == 80
    found, wanted = step.push("m", later.chunk()), alone.push("m", later.chunk())
    assert scores(found) == scores(wanted)
    assert len(scores(found)) == 80
    assert [line["index"] for line in found.predictions["m"]] == [*range(80, 160)]
    assert exact(step.finish().metrics["m"][before + 2 :]) == exact(alone.finish().metrics["m"])


def test_a_learner_goes_on_with_what_a_snapshot_had_learned() -> None:
    known, rows = labelled(70, seed=3), labelled(160)
    other = learning_step()
    other.push("m", known.chunk())
    tracker, learner = (data for _, data in copy.deepcopy(other).finish().snapshots)
    step = learning_step()
    step.push("m", rows.take(np.arange(90)).chunk())
    step.push("m", as_chunk(Command(tracker, learner)))
    later = rows.take(np.arange(90, 150)).chunk()
    found, wanted = step.push("m", later), other.push("m", later)
    assert scores(found) == scores(wanted)
    assert [line["index"] for line in found.predictions["m"]] == [*range(90, 150)]


def test_a_learner_that_a_snapshot_lacks_begins_anew() -> None:
    rows = labelled(120)
    step, alone = learning_step(), learning_step()
    for each in (step, alone):
        each.push("m", rows.take(np.arange(60)).chunk())
        each.push("m", as_chunk(Command(snapshot_of(make_rows(70)), None)))
    later = rows.take(np.arange(60, 120))
    step.push("m", later.chunk())
    for part in later.cut([1]):
        alone.push("m", part)
    found = scores(step.finish())
    assert found == scores(alone.finish())
    # The first one after the command knows no class.
    assert found[60] == found[0] == repr((None, None))


def scores(outcome: Outcome) -> list[str]:
    lines = exact(outcome.predictions["m"])
    return [repr((line["prediction"], line["score"])) for line in lines]


COMMANDS = Commands(SPEC, learning.SPEC, 3)


def message(key: bytes | None = b"m") -> Message:
    return Message("rows", 0, 5, 1_600_000_000_000, key, None)


def test_a_message_without_the_header_is_none() -> None:
    assert COMMANDS.read(message(), [("traceparent", b"00-1")]) is None


@pytest.mark.parametrize(
    ("key", "headers", "reason"),
    [
        (None, [(HEADER, b"reset")], "without a model id"),
        (b"\xff", [(HEADER, b"reset")], "key is no model id"),
        (
            b"m",
            [(HEADER, b"forget")],
            "command 'forget': must be reset, replace, feedback or quiet",
        ),
        (b"m", [(HEADER, b"\xff")], "must be reset, replace, feedback or quiet"),
        (b"m", [(HEADER, b"replace")], "without a header tracker"),
        (b"m", [(HEADER, b"replace"), ("tracker", b"")], "command replace: tracker: "),
        (b"m", [(HEADER, b"replace"), ("tracker", b"x" * 99)], "command replace: tracker: "),
    ],
)
def test_what_cannot_be_obeyed_is_refused(
    key: bytes | None, headers: list[tuple[str, bytes]], reason: str
) -> None:
    with pytest.raises(BadMessageError, match=reason):
        COMMANDS.read(message(key), headers)


def test_states_of_other_jobs_are_refused() -> None:
    rows = make_rows(70)
    other = snapshot_of(rows, dataclasses.replace(SPEC, budget=6))
    good, wide = snapshot_of(rows), snapshot_of(make_rows(70, width=4))
    step = learning.Step(learning.SPEC)
    step.take(learning.make_features(9, width=5).chunk())
    assert step.kept() is not None
    for headers, reason in [
        ([("tracker", other)], "a tracker with other settings"),
        ([("tracker", wide)], "of 4 features, this job has 3"),
        ([("tracker", good), ("learner", good)], "learner: "),
        ([("tracker", good), ("learner", step.kept() or b"")], "of 5 features, a row has 3"),
    ]:
        with pytest.raises(BadMessageError, match=reason):
            COMMANDS.read(message(), [(HEADER, b"replace"), *headers])


@pytest.mark.parametrize(("place", "name"), [(places.SIZE, "stored rows"), (places.LOSSES, "")])
def test_states_that_would_lead_a_loop_astray_are_refused(place: int, name: str) -> None:
    """Taken, they would end the worker at its next row, and again after every restart."""
    known = codec.decode(snapshot_of(make_rows(70)))
    known.state.counts[place] = 2**53 + 1
    crafted = codec.encode(known.spec, known.state, known.header["about"])
    reason = rf"command replace: tracker: damaged state: state\.counts.*{name} = 9007199254740993"
    with pytest.raises(BadMessageError, match=reason):
        COMMANDS.read(message(), [(HEADER, b"replace"), ("tracker", crafted)])


def test_a_job_without_a_learner_takes_the_tracker_alone() -> None:
    command = Command(snapshot_of(make_rows(70)), b"a learner's")
    found = Commands(SPEC, None, 3).read(message(), command.headers)
    assert found is not None
    assert command_of(found[1]) == command._replace(learner=None)


def test_a_bundle_keeps_commands_between_the_rows() -> None:
    gather = GatherFn(columns(), "json", Commands(SPEC, None, 2))
    gather.start_bundle()
    values = [b'{"time": 1, "a": 1, "b": 2, "label": "x"}'] * 2
    sent = [(values[0], b"m", []), (None, b"n", [HEADER]), (values[1], b"m", [])]
    elements = [*_gathered(gather, sent), *gather.finish_bundle()]
    found = [each.value for each in elements if not isinstance(each, pvalue.TaggedOutput)]
    assert [(key, command_of(chunk), len(chunk)) for key, chunk in found] == [
        ("m", None, 1),
        ("n", RESET, 1),
        ("m", None, 1),
    ]
    gather.start_bundle()
    (letter,) = _gathered(gather, [(None, None, [HEADER])])
    assert letter.tag == DEAD_LETTERS
    assert dict(letter.value.value[2])["reason"] == b"a command without a model id as its key"


def _gathered(gather: GatherFn, sent: Sequence[tuple[Any, Any, list[str]]]) -> list[Any]:
    found: list[Any] = []
    for offset, (value, key, names) in enumerate(sent):
        headers = [SimpleNamespace(key=name, value=b"reset") for name in names]
        record = SimpleNamespace(
            topic="rows", partition=0, offset=offset, timestamp=5, key=key, value=value,
            headers=headers,
        )  # fmt: skip
        found += gather.process(record, timestamp=0)
    return found


@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize("chunk", [1, 9])
@pytest.mark.parametrize("disorder", [0.0, 5.0])
def test_a_reset_forgets_a_clock_that_was_wrong(begun: bool, chunk: int, disorder: float) -> None:
    """Eight rows of 2096 count, then all right ones are late; from the reset on they count."""
    first = 60 if begun else 0
    times = np.arange(200) * (SECOND // 2)
    times[first : first + 8] += 4 * 10**18
    rows = make_rows(200, times=times)
    step = Step(order=Order(max_disorder=disorder, max_jump=3600))
    for part in rows.take(np.arange(100)).cut([chunk]):
        step.push("m", part)
    refused = 100 - first - 8
    assert len(step.outcome.late) == refused
    step.push("m", as_chunk(RESET))
    for part in rows.take(np.arange(100, 200)).cut([chunk]):
        step.push("m", part)
    outcome = step.finish()
    assert len(outcome.late) == refused
    table = outcome.table("m")
    # Rows of the wrong time that waited when the model was reset are refused.
    wild = [failure[2] for failure in outcome.failures]
    assert wild == ([] if begun and disorder == 0 else [*range(first, first + 8)])
    assert_same(
        {name: values[-100:] for name, values in table.items()},
        moved_on(core_alone(rows.take(np.arange(100, 200))), len(table["index"]) - 100),
    )
