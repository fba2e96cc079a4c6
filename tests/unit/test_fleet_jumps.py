"""A fleet in memory whose devices' clocks jump: a wild row blocks no model."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneltrack as kt
from kerneltrack.errors import ConfigError
from kerneltrack.frames.folder import states_of
from kerneltrack.frames.output import UNCONFIRMED, WAITS_AHEAD
from tests.parts import examples

N = 300


def table(count: int = N, start: str = "2024-01-01") -> pd.DataFrame:
    x = np.random.default_rng(0).normal(size=(count, 2))
    times = pd.date_range(start, periods=count, freq="min")
    return pd.DataFrame({"d": "a", "t": times, "f": x[:, 0], "g": x[:, 1]})


def fleet(**settings: Any) -> kt.Fleet:
    return kt.Fleet(rank=3, budget=6, warmup=20, reference=None, **settings)


def update(of: kt.Fleet, rows: pd.DataFrame) -> pd.DataFrame:
    reported: pd.DataFrame = of.update(rows, model_id="d", time="t")
    return reported


def states(of: kt.Fleet) -> list[Any]:
    """The models as they are written."""
    return list(states_of(of._specs, of._models))


@pytest.mark.parametrize("value", [0.0, math.nan])
@pytest.mark.parametrize("apart", [True, False])
def test_a_row_of_2099_blocks_no_model(value: float, apart: bool) -> None:
    rows, whole = table(), fleet()
    update(whole, rows)
    wild = rows[200:201].assign(t=pd.Timestamp("2099-01-01"), f=value)
    other = fleet()
    if apart:
        update(other, rows[:200])
        reported = update(other, wild)
    else:
        reported = update(other, pd.concat([rows[:200], wild])).tail(1)
    reason = WAITS_AHEAD if value == 0 else "column 'f' is missing"
    assert reported.reason.tolist() == [reason]
    assert update(other, rows[200:]).reason.isna().all()
    assert states(other)[0][0] == states(whole)[0][0]


def test_a_device_goes_on_in_a_new_time_once_enough_rows_agree() -> None:
    rows, later = table(), table(20, "2034-01-01")
    of = fleet()
    update(of, rows)
    for place in range(7):
        assert update(of, later[place : place + 1]).reason.tolist() == [WAITS_AHEAD]
    reported = update(of, later[7:8])
    assert reported["index"].tolist() == [N + 7]
    assert update(of, later[8:])["index"].tolist() == list(range(N + 8, N + 20))


def test_the_first_row_of_a_device_of_another_time() -> None:
    rows = table()
    rows.loc[0, "t"] = pd.Timestamp("1970-01-01")
    reported = update(fleet(), rows)
    assert reported.reason[0] == UNCONFIRMED
    assert reported.reason[1:].isna().all()


def test_other_limits() -> None:
    rows = table()
    rows.loc[N - 1, "t"] += pd.Timedelta("2h")
    assert update(fleet(), rows).reason.isna().all()
    assert update(fleet(max_jump=3600), rows).reason.tolist()[-1] == WAITS_AHEAD
    assert update(fleet(max_jump=3600, jump_rows=1), rows).reason.isna().all()
    rows.loc[N - 1, "t"] = pd.Timestamp("2099-01-01")
    assert update(fleet(max_jump=math.inf), rows).reason.isna().all()
    with pytest.raises(ConfigError, match="jump_rows"):
        fleet(jump_rows=0)
    with pytest.raises(ConfigError, match="max_jump"):
        fleet(max_jump=-1)


# Rows that wait ahead, through `save` and `load`.

GAPS = st.lists(st.tuples(st.integers(1, 12), st.integers(0, 20_000)), min_size=1, max_size=12)


@settings(max_examples=examples(25))
@given(GAPS, st.integers(0, 400), st.sampled_from([None, "ridge", "lms"]), st.booleans())
def test_a_fleet_that_was_saved_goes_on_as_the_one_in_memory(
    gaps: list[tuple[int, int]], at: int, learner: str | None, wait: bool
) -> None:
    rows = table()
    rows["y"] = np.where(np.arange(N) % 3 > 0, rows.f, np.nan)
    steps = np.full(N, 60)
    for place, (many, gap) in enumerate(gaps):
        first = 30 + 20 * place
        steps[first] += gap
        steps[first + many] -= gap * (many % 2)
    rows["t"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.cumsum(steps), unit="s")
    label = None if learner is None else "y"
    of = fleet(max_jump=3600.0, jump_rows=5, learner=learner and learner_of(learner))
    first, rest = rows[: 25 + at % (N - 30)], rows[25 + at % (N - 30) :]
    of.update(first, model_id="d", time="t", label=label, features=["f", "g"], wait=wait)
    if of._arrivals._newest and len(of):
        # Which rows of its newest time a model has learned is not saved.
        rest = rest[rest.t != pd.Timestamp(of._arrivals._newest["a"].time)]
    with TemporaryDirectory() as folder:
        of.save(Path(folder) / "kept")
        other = kt.Fleet.load(Path(folder) / "kept") if len(of) else of
    assert other._arrivals.ahead.keys() == of._arrivals.ahead.keys()
    for part in np.array_split(np.arange(len(rest)), 3):
        pd.testing.assert_frame_equal(
            other.update(rest.iloc[part]), of.update(rest.iloc[part]), check_exact=True
        )
    assert states(of) == states(other)


def learner_of(name: str) -> Any:
    return kt.parse_learner_spec({"learner": name, "task": "regression"})


def test_limits_of_jumps_go_along(tmp_path: Path) -> None:
    of = fleet(max_jump=math.inf, jump_rows=3)
    update(of, table())
    of.save(tmp_path / "kept")
    other = kt.Fleet.load(tmp_path / "kept")
    assert (other._arrivals.max_jump, other._arrivals.jump_rows) == (math.inf, 3)
    other = kt.Fleet.load(tmp_path / "kept", max_jump=60, jump_rows=4)
    assert (other._arrivals.max_jump, other._arrivals.jump_rows) == (60, 4)


def put(*path: Any, value: Any) -> Callable[[Any], None]:
    def change(about: Any) -> None:
        for name in path[:-1]:
            about = about[name]
        about[path[-1]] = value

    return change


ROWS = ("ahead", "a", "rows")


@pytest.mark.parametrize(
    "change",
    [
        put("max_jump", value=-1),
        put("max_jump", value=True),
        put("jump_rows", value=0),
        put("jump_rows", value=2.5),
        put("words", value={"f": ["on"]}),
        put("units", value={"f": 1}),
        put("thousands", value="."),
        put("ahead", value=[]),
        put("ahead", "a", "reach", value=-1),
        put(*ROWS, value={}),
        put(*ROWS, "time", value=[2**70]),
        put(*ROWS, "time", value=[1.5]),
        put(*ROWS, "time", 0, value=2**62),
        put(*ROWS, "x", 0, value=[1.0]),
        put(*ROWS, "x", 0, 0, value=None),
        put(*ROWS, "x", 0, 0, value="wide"),
        put(*ROWS, "label", value=["a"]),
    ],
)
def test_damaged_rows_that_wait_are_refused(change: Callable[[Any], None], tmp_path: Path) -> None:
    of = fleet(max_jump=3600)
    update(of, table())
    update(of, table(2, "2034-01-01"))
    of.save(tmp_path / "kept")
    place = tmp_path / "kept" / "columns.json"
    about = json.loads(place.read_text())
    assert len(about["ahead"]["a"]["rows"]["time"]) == 2
    change(about)
    place.write_text(json.dumps(about))
    with pytest.raises(kt.DataError, match=r"columns\.json"):
        kt.Fleet.load(tmp_path / "kept")
