"""No bytes of a state lead a loop out of its arrays, or to a state that cannot be read again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from apache_beam.transforms.window import FixedWindows

from kerneltrack import codec
from kerneltrack.errors import ConfigError, DataError
from kerneltrack.fleet.windows import OpenWindows
from kerneltrack.in_memory import run_all
from kerneltrack.learners import RidgeSpec
from kerneltrack.limits import MOST, MOST_GIVEN
from kerneltrack.monitor.moving import MovingWindow
from kerneltrack.registry import get_tracker
from kerneltrack.trackers import CovarianceSpec, OKFEBSpec
from kerneltrack.trackers.common import state as places
from tests.crafted_states import ROWS, Case, cases, clock_trial, landmarks_trial, trial
from transforms.learn import learner
from transforms.track.windows import MeasureMismatch

pytestmark = pytest.mark.sanitized

TRIALS = 10
CASES = cases()
SIZES: dict[str, Any] = {"rank": 3, "budget": 6, "warmup": 20}


@pytest.mark.parametrize("make", list(CASES.values()), ids=list(CASES))
def test_crafted_states_are_refused_or_gone_on_from(make: Callable[[], Case]) -> None:
    case = make()
    taken = sum(trial(case, seed) for seed in range(TRIALS))
    assert 0 < taken < TRIALS


def test_crafted_clocks_are_refused_or_read() -> None:
    assert 0 < sum(map(clock_trial, range(60))) < 60


def test_models_begin_from_crafted_landmarks_or_refuse_them() -> None:
    assert 0 < sum(map(landmarks_trial, range(60))) < 60


def refused(spec: Any, place: int, value: int, message: str) -> None:
    state, _ = run_all(spec, ROWS)
    state.counts[place] = value
    with pytest.raises(DataError, match=message):
        codec.decode(codec.encode(spec, state))


def test_ranks_and_sizes_beyond_the_arrays_are_refused() -> None:
    chosen = CovarianceSpec(**SIZES, rank_factor=1.5)
    refused(chosen, places.RANK, 4, "rank in use = 4: must be 1 to 3")
    refused(chosen, places.RANK, 0, "rank in use = 0: must be 1 to 3")
    refused(chosen, places.SIZE, 7, "stored rows = 7: must be 0 to 6")
    # A start that seems not to be over would take a slot for each of its rows.
    refused(OKFEBSpec(**SIZES), places.STARTED, 2, "stored rows = 6: must be 2")
    refused(OKFEBSpec(**SIZES), places.STARTED, 4, "rows of the start = 4: must be 0 to 3")


def test_counts_from_outside_leave_room_and_the_jobs_own_may_be_larger() -> None:
    spec = OKFEBSpec(**SIZES)
    state, _ = run_all(spec, ROWS)
    for count, own, good in (
        (MOST_GIVEN, False, True),
        (MOST_GIVEN + 1, False, False),
        (MOST_GIVEN + 1, True, True),
        (MOST + 1, True, False),
    ):
        counts = state.counts.copy()
        counts[places.LOSSES] = count
        data = codec.encode(spec, state._replace(counts=counts))
        if good:
            read = codec.decode(data, own=own).state
            after, _ = get_tracker("okfeb").update(spec, read, ROWS)
            assert int(after.counts[places.LOSSES]) == count + len(ROWS)
        else:
            with pytest.raises(DataError, match=str(count)):
                codec.decode(data, own=own)


def test_arrays_that_claim_a_size_get_no_room() -> None:
    spec = OKFEBSpec(**SIZES)
    state, _ = run_all(spec, ROWS)
    wide = state._replace(stored=np.zeros((0, 2**40)))
    with pytest.raises(DataError, match=r"state\.stored"):
        codec.decode(codec.encode(spec, wide))


def test_windows_whose_stride_never_ends_are_refused() -> None:
    measure = MeasureMismatch(FixedWindows(60), most_rows=2).in_ns()
    good = OpenWindows.none(3)._replace(
        windows=np.array([[0, 0, 1]]), rows=np.zeros((2, 3)), numbers=np.array([0, 1])
    )
    assert OpenWindows.from_arrays(good._asdict(), measure, 3, 5).stride.tolist() == [1]
    for name, value in (
        ("stride", np.array([0])),
        ("stride", np.array([3])),
        ("windows", np.array([[0, 0, 0]])),
        ("windows", np.array([[0, 6, 1]])),
        ("windows", np.array([[-(2**63), 0, 1]])),
        ("numbers", np.array([0, 0])),
        ("numbers", np.array([3, 5])),
        ("rows", np.zeros((3, 3))),
    ):
        with pytest.raises(ConfigError, match=rf"open\.{name}"):
            OpenWindows.from_arrays({**good._asdict(), name: value}, measure, 3, 5)


@pytest.mark.parametrize("counts", [[-1, 0, 1], [91, 0, 1], [0, 4, 1], [0, -1, 1], [0, 0, 2]])
def test_moving_windows_that_no_rows_have_made_are_refused(counts: list[int]) -> None:
    spec = OKFEBSpec(**SIZES)
    state, _ = run_all(spec, ROWS)
    window = MovingWindow(10)
    arrays = {**window.init(spec, state)._asdict(), "counts": np.array(counts)}
    with pytest.raises(ConfigError, match=r"moving\.counts"):
        window.from_arrays(spec, state, arrays)


def test_moving_windows_of_rows_without_a_length_are_refused() -> None:
    spec = OKFEBSpec(**SIZES)
    state, _ = run_all(spec, ROWS)
    window = MovingWindow(10)
    arrays = window.init(spec, state)._asdict()
    for value in (-1e-300, np.nan, np.inf):
        with pytest.raises(ConfigError, match=r"moving\.own"):
            window.from_arrays(spec, state, {**arrays, "own": np.full(10, value)})


HARMFUL = {
    "model okfeb": (824,),  # a time that no row has, and that the moving window then kept
    "learning ridge-targets": (9323,),  # the metrics' window was more than a pair of numbers
}
"""Seeds of states that were taken and then ended the step, by their case."""


@pytest.mark.parametrize("name", HARMFUL)
def test_states_that_did_harm_are_refused(name: str) -> None:
    case = cases()[name]()
    assert [trial(case, seed) for seed in HARMFUL[name]] == [False] * len(HARMFUL[name])


def test_guesses_from_outside_leave_room_for_rows_to_come() -> None:
    case = CASES["learning ridge"]()
    now = case.read(case.data, False)
    guesses = now.board.guesses
    for counts in (guesses.seen, guesses.ridge.counts):
        before = counts.copy()
        counts[:] = MOST_GIVEN + 1
        data = learner.encode_working(RidgeSpec(), "a", now)
        with pytest.raises(DataError, match=f"must be 0 to {MOST_GIVEN}"):
            case.read(data, False)
        case.read(data, True)
        counts[:] = before
