"""Models kept beside their bytes: the bytes say which model it is, nothing else does."""

from __future__ import annotations

import numpy as np
import pytest

from kerneltrack.registry import get_tracker
from kerneltrack.trackers import OKFEBSpec
from transforms.track import model as models
from transforms.track.model import LastWritten, Work, begin, encode

WORK = Work(spec=OKFEBSpec(rank=3, budget=5, warmup=20))
ROWS = np.random.default_rng(0).normal(size=(60, 4))


def grown(model: models.Model) -> models.Model:
    tracker = get_tracker(WORK.spec.tracker)
    state, _ = tracker.update(WORK.spec, model.state, ROWS[20:])
    return model._replace(state=state)


def test_what_was_written_comes_back_once_and_only_for_its_bytes() -> None:
    written, young = LastWritten(), begin(WORK, "m", ROWS[:20])
    old = grown(young)
    before = encode(WORK, "m", young)
    after = written.put(WORK, "m", old)
    assert written.take(WORK, "m", after, "state") is old
    # Lent out, it may have been changed.
    again = written.take(WORK, "m", after, "state")
    assert again is not old
    assert encode(WORK, "m", again) == after
    # A bundle that failed: the state is that of the checkpoint, not what was written last.
    written.put(WORK, "m", old)
    assert encode(WORK, "m", written.take(WORK, "m", before, "state")) == before
    assert encode(WORK, "other", written.take(WORK, "other", after, "state")) != before


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    model = begin(WORK, "m", ROWS[:20])
    size = len(encode(WORK, "m00", model))
    monkeypatch.setattr(models, "MOST_KEPT", 3 * size)
    written = LastWritten()
    for turn in range(2):
        kept = {f"m{n:02}": written.put(WORK, f"m{n:02}", model) for n in range(10)}
        found = [n for n in kept if written.take(WORK, n, kept[n], "state") is model]
        assert found == ["m07", "m08", "m09"], turn
