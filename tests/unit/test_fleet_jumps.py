"""A fleet in memory whose devices' clocks jump: a wild row blocks no model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

import kerneltrack as kt
from kerneltrack.errors import ConfigError
from kerneltrack.frames.fleet import UNCONFIRMED, WAITS_AHEAD

N = 300


def table(count: int = N, start: str = "2024-01-01") -> pd.DataFrame:
    x = np.random.default_rng(0).normal(size=(count, 2))
    times = pd.date_range(start, periods=count, freq="min")
    return pd.DataFrame({"d": "a", "t": times, "f": x[:, 0], "g": x[:, 1]})


def fleet(**settings: Any) -> kt.Fleet:
    return kt.Fleet(rank=3, budget=6, warmup=20, reference=None, **settings)


def update(of: kt.Fleet, rows: pd.DataFrame) -> pd.DataFrame:
    told: pd.DataFrame = of.update(rows, model_id="d", time="t")
    return told


@pytest.mark.parametrize("value", [0.0, math.nan])
@pytest.mark.parametrize("apart", [True, False])
def test_a_row_of_2099_blocks_no_model(value: float, apart: bool) -> None:
    rows, whole = table(), fleet()
    update(whole, rows)
    wild = rows[200:201].assign(t=pd.Timestamp("2099-01-01"), f=value)
    other = fleet()
    if apart:
        update(other, rows[:200])
        told = update(other, wild)
    else:
        told = update(other, pd.concat([rows[:200], wild])).tail(1)
    reason = WAITS_AHEAD if value == 0 else "column 'f' is missing"
    assert told.reason.tolist() == [reason]
    assert update(other, rows[200:]).reason.isna().all()
    assert other._states().__next__()[0] == whole._states().__next__()[0]


def test_a_device_goes_on_in_a_new_time_once_enough_rows_agree() -> None:
    rows, later = table(), table(20, "2034-01-01")
    of = fleet()
    update(of, rows)
    for place in range(7):
        assert update(of, later[place : place + 1]).reason.tolist() == [WAITS_AHEAD]
    told = update(of, later[7:8])
    assert told["index"].tolist() == [N + 7]
    assert update(of, later[8:])["index"].tolist() == list(range(N + 8, N + 20))


def test_the_first_row_of_a_device_of_another_time() -> None:
    rows = table()
    rows.loc[0, "t"] = pd.Timestamp("1970-01-01")
    told = update(fleet(), rows)
    assert told.reason[0] == UNCONFIRMED
    assert told.reason[1:].isna().all()


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
