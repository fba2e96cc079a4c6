"""Models that fall silent leave the state and come back: nothing in the results tells of it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from apache_beam import pvalue
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.errors import ConfigError, DataError
from kerneltrack.fleet.model import Work
from kerneltrack.monitor.feedback import Feedback
from kerneltrack.monitor.quiet import QuietTimes
from kerneltrack.monitor.reference import ReferenceSpec
from tests.parts import examples
from tests.stream.learning import SPEC as LEARNER
from tests.stream.learning import Late, Step, label_chunk, make_features
from tests.stream.running import (
    SPEC,
    Outcome,
    Rows,
    assert_same,
    core_alone,
    empty_cells,
    end_of_bundle,
    make_rows,
)
from tests.stream.test_idle_flush import Timer, at
from transforms.chunks import Chunk
from transforms.keyed import expiry as expiry_module
from transforms.keyed.expiry import Expiry, KeptModel
from transforms.keyed.silence import SilentAfter
from transforms.learn.late_labels import LateLabels
from transforms.track import log
from transforms.track.keyed_fn import with_timers
from transforms.track.log import MOST_ENTRIES, Cells, ModelLog
from transforms.track.order import Order
from transforms.track.step import TrackFn
from transforms.track.transform import FEATURES, SNAPSHOTS

ORDER = Order(max_disorder=2, max_jump=3600)
KEY = "robot/7"


class Tracking:
    """The keyed step of one model; what it keeps can be put back, as a checkpoint does."""

    def __init__(
        self,
        folder: Path,
        order: Order = ORDER,
        reference: ReferenceSpec | None = None,
        devices: bool = False,
        quiet: QuietTimes | None = None,
        silent_after: SilentAfter | None = None,
        feedback: Feedback | None = None,
    ) -> None:
        people: dict[str, Any] = {"quiet": quiet, "feedback": feedback}
        work = Work(spec=SPEC, reference=reference, devices=devices, **people)
        step = with_timers(TrackFn, "end", live=True, listens=silent_after is not None)
        expiry = Expiry(str(folder), 60)
        self.step: Any = step(work, order, None, expiry, None, silent_after)
        self.cells = empty_cells()
        self.end, self.idle, self.silent, self.unheard = Timer(), Timer(), Timer(), Timer()
        self.listens = silent_after is not None
        self.now = 1_000_000.0
        self.outcome = Outcome()

    def push(self, rows: Rows) -> None:
        self.push_chunk(rows.chunk())

    def push_chunk(self, chunk: Chunk) -> None:
        timers = {"end": self.end, "idle": self.idle, "silent": self.silent}
        if self.listens:
            timers["unheard"] = self.unheard
        reported = {**self.cells, **timers, "timestamp": MIN_TIMESTAMP}
        with at(self.now):
            self._keep(self.step.process((KEY, chunk), **reported))

    def expire(self, late_by: float = 0.0) -> None:
        due, self.silent.due = self.silent.due, None
        assert due is not None
        self.now = due + late_by
        timers = {"end": self.end, "silent": self.silent, "due": due}
        with at(self.now):
            self._keep(self.step.at_silence(KEY, **self.cells, **timers))

    def miss(self, late_by: float = 0.0) -> None:
        due, self.unheard.due = self.unheard.due, None
        assert due is not None
        self.now = due + late_by
        with at(self.now):
            reported = {**self.cells, "unheard": self.unheard, "due": due}
            self._keep(self.step.at_absence(KEY, **reported))

    def finish(self) -> Outcome:
        self._keep(self.step.at_end(KEY, **self.cells))
        return self.outcome

    @property
    def kept(self) -> int:
        return sum(len(data) for name in ("log", "buffer") for data in self.cells[name].encoded)

    @property
    def model(self) -> bytes:
        found: bytes | None = self.step.state(KEY, ModelLog(Cells(**self.cells)))
        assert found is not None
        return found

    def _keep(self, elements: Any) -> None:
        for element in [*elements, *end_of_bundle(self.step)]:
            tagged = isinstance(element, pvalue.TaggedOutput)
            name, value = (element.tag, element.value) if tagged else (FEATURES, element)
            self.outcome.keep(name, value)


def test_what_stays_of_a_silent_model_is_a_name(tmp_path: Path) -> None:
    tracking = Tracking(tmp_path)
    tracking.push(make_rows(60))
    before = tracking.model
    assert tracking.kept > 1000
    tracking.expire()
    assert tracking.kept == 17
    assert tracking.end.due is None
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("robot%2F7@")
    # The state goes out as a snapshot, too.
    assert tracking.outcome.snapshots == [(KEY, before)]


@settings(max_examples=examples(25))
@given(
    parts=st.lists(st.tuples(st.integers(1, 40), st.booleans()), min_size=1, max_size=12),
    most=st.sampled_from([1, 3, MOST_ENTRIES]),
)
def test_a_model_that_comes_back_goes_on(
    tmp_path_factory: pytest.TempPathFactory, parts: list[tuple[int, bool]], most: int
) -> None:
    """Wherever its rows waited: in the log, or, once that is full, beside it."""
    tracking = Tracking(tmp_path_factory.mktemp("idle"))
    rows = make_rows(sum(count for count, _ in parts))
    start = 0
    with patch.object(log, "MOST_ENTRIES", most):
        for count, expires in parts:
            tracking.push(rows.take(np.arange(start, start + count)))
            start += count
            if expires:
                tracking.expire()
    if not parts[-1][1]:
        tracking.finish()
        if tracking.outcome.features:
            assert_same(tracking.outcome.table(KEY), core_alone(rows))
    else:
        # What came out so far is the beginning of it.
        wanted = core_alone(rows)
        if tracking.outcome.features:
            found = tracking.outcome.table(KEY)
            count = len(found["index"])
            assert_same(found, {name: column[:count] for name, column in wanted.items()})


def test_a_model_that_has_not_begun_expires_with_its_rows(tmp_path: Path) -> None:
    tracking = Tracking(tmp_path)
    rows = make_rows(40)
    tracking.push(rows.take([0, 1]))
    tracking.expire()
    assert (tracking.kept, tracking.outcome.snapshots) == (17, [])
    tracking.push(rows.take(np.arange(2, 40)))
    assert_same(tracking.finish().table(KEY), core_alone(rows))


def test_an_older_checkpoint_finds_the_model_as_it_was_then(tmp_path: Path) -> None:
    """The job dies after the model has expired a second time, and goes on from before that."""
    tracking = Tracking(tmp_path)
    rows = make_rows(90)
    parts = [rows.take(np.arange(at, at + 30)) for at in (0, 30, 60)]
    tracking.push(parts[0])
    running = copy.deepcopy(tracking.cells)
    tracking.expire()
    expired = copy.deepcopy(tracking.cells)
    tracking.push(parts[1])
    tracking.expire()
    for cells in (running, expired):
        again = Tracking(tmp_path)
        again.cells = copy.deepcopy(cells)
        for part in parts[1:]:
            again.push(part)
        found = again.finish().table(KEY)
        first = int(found["index"][0])
        wanted = {name: column[first:] for name, column in core_alone(rows).items()}
        assert_same(found, wanted)


def test_expiring_again_writes_the_same_file(tmp_path: Path) -> None:
    tracking = Tracking(tmp_path)
    tracking.push(make_rows(60))
    cells, due = copy.deepcopy(tracking.cells), tracking.silent.due
    tracking.expire()
    name = tracking.cells["log"].encoded
    tracking.cells, tracking.silent.due = cells, due
    tracking.expire()
    assert tracking.cells["log"].encoded == name
    assert len(list(tmp_path.iterdir())) == 1


def test_a_timer_that_fires_long_after_its_time_is_set_again(tmp_path: Path) -> None:
    tracking = Tracking(tmp_path)
    tracking.push(make_rows(60))
    tracking.expire(late_by=200)
    assert tracking.kept > 1000
    assert list(tmp_path.iterdir()) == []


def test_rows_that_wait_are_taken_before_a_model_expires(tmp_path: Path) -> None:
    order = Order(max_disorder=2, max_jump=3600, idle_flush=30)
    tracking = Tracking(tmp_path, order)
    rows = make_rows(60)
    tracking.push(rows)
    assert tracking.idle.due is not None
    due = tracking.idle.due
    with at(due):
        reported = {**tracking.cells, "idle": tracking.idle, "due": Timestamp.of(due)}
        tracking._keep(tracking.step.at_idle(KEY, **reported))
    tracking.expire()
    late = rows.take([58])
    tracking.push(late)
    assert tracking.outcome.late == [(KEY, 0, 58)]
    assert_same(tracking.finish().table(KEY), core_alone(rows))


def test_a_lost_or_damaged_file_is_told_of(tmp_path: Path) -> None:
    expiry = Expiry(str(tmp_path), 60)
    name = expiry.write("a", KeptModel(b"state", b"clock"))
    assert expiry.read("a", name) == KeptModel(b"state", b"clock")
    with pytest.raises(DataError, match="cannot be read"):
        expiry.read("b", name)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(DataError, match="damaged"):
        expiry.read("a", name)


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    expiry = Expiry(str(tmp_path), 60)
    schema = expiry_module._SCHEMA.with_metadata({b"kerneltrack.idle": b"2"})
    with patch.object(expiry_module, "_SCHEMA", schema):
        name = expiry.write("a", KeptModel(b"state", b"clock"))
    with pytest.raises(DataError, match=r"a@.*\.idle: format version 2: this code reads version 3"):
        expiry.read("a", name)


def test_a_job_without_the_folder_says_so(tmp_path: Path) -> None:
    tracking = Tracking(tmp_path)
    tracking.push(make_rows(30))
    tracking.expire()
    tracking.step = with_timers(TrackFn, "end", live=True)(Work(spec=SPEC), ORDER, None, None)
    with pytest.raises(DataError, match=r"robot/7.*it has expired"):
        tracking.push(make_rows(30))


def test_a_learner_that_comes_back_goes_on(tmp_path: Path) -> None:
    table = make_features(60)
    # Labels that wait, rows that wait for them, and rows before their turn.
    parts = [
        table.part(0, 20).chunk(table.kind),
        label_chunk([Late("run", index=row, row=row) for row in range(15, 50)]),
        table.part(40, 60).chunk(table.kind),
        table.part(20, 40).chunk(table.kind),
    ]
    late = LateLabels(4.0, 30)
    usual = Step(LEARNER, late=late)
    expiring = Step(LEARNER, late=late, expiry=Expiry(str(tmp_path), 60))
    snapshots = 0
    for part in parts:
        assert expiring.take(part) == usual.take(part)
        snapshots += [name for name, _ in expiring.expire()] == [SNAPSHOTS]
        assert expiring.kept() is None
        assert [len(bag.encoded) for bag in expiring.cells().values()] == [1, 0, 0, 0]
        assert expiring.expire() == []
    assert snapshots == len(parts)
    assert expiring.take(parts[0]) == usual.take(parts[0])
    assert expiring.end() == usual.end()


@pytest.mark.parametrize("after", [0, -1, 0.01, 1e9, "soon"])
def test_bad_spans_are_refused(after: Any) -> None:
    with pytest.raises(ConfigError, match="after"):
        Expiry("folder", after)


def test_it_is_longer_than_idle_flush() -> None:
    with pytest.raises(ConfigError, match="more than idle_flush = 60"):
        Expiry("folder", 60).check_longer(60)
    Expiry("folder", 61).check_longer(60)
    Expiry("folder").check_longer(60)
