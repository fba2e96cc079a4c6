"""Models kept beside their bytes: the bytes say which model it is, nothing else does."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from kerneltrack.fleet.begin import begin
from kerneltrack.fleet.learn import prediction_columns
from kerneltrack.fleet.model import Model, Work
from kerneltrack.fleet.restore import decode
from kerneltrack.fleet.states import encode
from kerneltrack.learners import RidgeSpec
from kerneltrack.registry import get_tracker
from kerneltrack.trackers import OKFEBSpec
from transforms.chunks import Chunk, matrix_column
from transforms.keyed import last_written as kept_values
from transforms.keyed.last_written import LastWritten
from transforms.learn.late_labels import LateLabels
from transforms.learn.learner import begin as begin_learner
from transforms.learn.learner import encode_working
from transforms.learn.learner import last_written as written_learners
from transforms.learn.learners import Learners
from transforms.learn.plan import Plan


def last_written(work: Work) -> LastWritten[Model]:
    return LastWritten(partial(encode, work), lambda key, data: decode(work, data, key, own=True))


WORK = Work(spec=OKFEBSpec(rank=3, budget=5, warmup=20))
ROWS = np.random.default_rng(0).normal(size=(60, 4))


def grown(model: Model) -> Model:
    tracker = get_tracker(WORK.spec.tracker)
    state, _ = tracker.update(WORK.spec, model.state, ROWS[20:])
    return model._replace(state=state)


def test_what_was_written_comes_back_once_and_only_for_its_bytes() -> None:
    written, young = last_written(WORK), begin(WORK, "m", ROWS[:20])
    old = grown(young)
    before = encode(WORK, "m", young)
    after = written.put("m", old)
    assert written.take("m", after) is old
    # Lent out, it may have been changed.
    again = written.take("m", after)
    assert again is not old
    assert encode(WORK, "m", again) == after
    # A bundle that failed: the state is that of the checkpoint, not what was written last.
    written.put("m", old)
    assert encode(WORK, "m", written.take("m", before)) == before
    assert encode(WORK, "other", written.take("other", after)) != before


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    model = begin(WORK, "m", ROWS[:20])
    size = len(encode(WORK, "m00", model))
    monkeypatch.setattr(kept_values, "MOST_KEPT", 3 * size)
    written = last_written(WORK)
    for turn in range(2):
        kept = {f"m{n:02}": written.put(f"m{n:02}", model) for n in range(10)}
        found = [n for n in kept if written.take(n, kept[n]) is model]
        assert found == ["m07", "m08", "m09"], turn


@pytest.mark.parametrize("late", [None, LateLabels(wait=None, most_rows=30)])
def test_a_learner_that_is_kept_holds_no_more_than_its_own_rows(late: LateLabels | None) -> None:
    """The arrays of a chunk would stay for as long as a part of one is kept."""
    plan = Plan(spec=RidgeSpec(), late=late)
    columns = {"index": np.arange(60), "z": matrix_column(ROWS), "label": ["a"] * 60}
    learners = Learners(plan, ["m"], [begin_learner(plan.spec)])
    one = np.zeros(1, np.int64)
    learners.take(Chunk(pa.RecordBatch.from_pydict(columns)), one, one, np.array([60]))
    (now,) = learners.now
    written = written_learners(plan.spec)
    data = written.put("m", now.without_rows())
    kept = written.take("m", data)
    assert kept.waiting is not None
    assert len(kept.waiting) == (0 if late is None else 30)
    arrays = [*prediction_columns(kept.waiting.predictions).values(), kept.waiting.rows.z]
    assert all(array.base is None for array in arrays)
    assert encode_working(plan.spec, "m", kept) == data
    # Read back from the bytes it is the same.
    assert encode_working(plan.spec, "m", written.take("m", data)) == data
