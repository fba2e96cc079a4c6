"""Fleets on frames of long tables: to the bit what the wide frame gives."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneltrack as kt
from tests.parts import examples

KINDS: dict[str, Any] = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}
NAMES: dict[str, Any] = {"model_id": "pump", "time": "when"}
LONG: dict[str, Any] = {**NAMES, "metric": "what", "value": "it"}
CHANNELS = ("flow", "heat", "oil")
COUNT = 120


def wide(seed: int = 0, count: int = COUNT) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {
        "pump": np.repeat(["a", "b"], count).tolist(),
        "when": np.tile(np.arange(count), 2).tolist(),
    }
    return columns | {name: rng.normal(size=2 * count).tolist() for name in CHANNELS}


def long_of(rows: dict[str, Any], order: np.random.Generator | None = None) -> dict[str, Any]:
    lines = [
        (pump, when, name, value)
        for pump, when, *values in zip(*rows.values(), strict=True)
        for name, value in zip(CHANNELS, values, strict=True)
    ]
    if order is not None:
        lines = [lines[at] for at in order.permutation(len(lines))]
    return dict(
        zip(("pump", "when", "what", "it"), map(list, zip(*lines, strict=True)), strict=True)
    )


def fleet() -> kt.Fleet:
    return kt.Fleet(rank=4, budget=8)


def by_place(frame: Any) -> dict[tuple[str, int], Any]:
    """What was said of each row, exactly."""
    table = pa.table(frame) if isinstance(frame, pa.Table) else pa.Table.from_pylist(rows_of(frame))
    return {
        (line["pump"], int(line["when"])): {
            name: value.hex() if isinstance(value, float) else value
            for name, value in line.items()
            if name not in ("pump", "when")
        }
        for line in table.to_pylist()
    }


def rows_of(frame: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (
        frame.to_dict("records") if isinstance(frame, pd.DataFrame) else frame.to_dicts()
    )
    return found


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(8))
@given(seed=st.integers(0, 99))
def test_a_long_frame_gives_what_the_wide_one_gives(kind: str, seed: int) -> None:
    rows, rng = wide(seed), np.random.default_rng(seed)
    some, other = fleet(), fleet()
    expected = by_place(some.update(KINDS[kind](rows), **NAMES))
    found = other.update(KINDS[kind](long_of(rows, rng)), **LONG)
    assert by_place(found) == expected
    assert other.columns is not None
    assert other.columns.features == CHANNELS
    later = wide(seed + 1)
    later["when"] = [when + COUNT for when in later["when"]]
    scored = by_place(some.score(KINDS[kind](later)))
    assert by_place(other.score(KINDS[kind](long_of(later, rng)))) == scored
    assert by_place(other.score(KINDS[kind](later))) == scored
    assert by_place(other.update(KINDS[kind](long_of(later, rng)))) == by_place(
        some.update(KINDS[kind](later))
    )


def test_lines_come_in_the_order_of_their_first_rows() -> None:
    rows = long_of(wide(), np.random.default_rng(1))
    found = fleet().update(pl.DataFrame(rows), **LONG)
    first = list(dict.fromkeys(zip(rows["pump"], rows["when"], strict=True)))
    assert list(zip(found["pump"], found["when"], strict=True)) == first


def test_what_a_time_lacks_is_missing_and_named() -> None:
    rows = long_of(wide())
    rows = {name: values[:-1] for name, values in rows.items()}
    found = fleet().update(pl.DataFrame(rows), **LONG)
    assert found["reason"].to_list()[-1] == "column 'oil' is missing"
    assert set(found["reason"].to_list()[:-1]) == {None}


def test_labels_are_the_last_that_are_given() -> None:
    rows = long_of(wide())
    half = len(rows["it"]) // 2
    rows["mode"] = [None if at % 3 != 1 else ("x" if at < half else "y") for at in range(2 * half)]
    some = kt.Fleet(rank=4, budget=8, learner="ridge")
    found = some.update(pl.DataFrame(rows), **LONG, label="mode")
    assert found["correct"].null_count() < len(found)


def test_the_columns_hold_through_save_and_load(tmp_path: Path) -> None:
    some, rows = fleet(), long_of(wide())
    some.update(pl.DataFrame(rows), **LONG)
    some.save(tmp_path / "fleet")
    again = kt.Fleet.load(tmp_path / "fleet")
    assert again.columns == some.columns
    assert by_place(again.score(pl.DataFrame(rows))) == by_place(some.score(pl.DataFrame(rows)))


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        ({"features": ["heat", "flow"]}, "are left out: oil"),
        ({"mode": "heating"}, "metrics without numbers are left out: mode"),
        ({"flow": "n/a?"}, "120 values of flow are missing: no numbers, such as 'n/a\\?'"),
        ({"again": True}, "2 values came again for the same device, time and metric"),
    ],
)
def test_what_is_not_taken_is_said(changes: dict[str, Any], warning: str) -> None:
    rows = long_of(wide())
    more = {name: value for name, value in changes.items() if name == "features"}
    if "mode" in changes:
        for name, value in zip(rows, ("a", 1, "mode", "heating"), strict=True):
            rows[name].append(value)
    if "again" in changes:
        for name in rows:
            rows[name] += rows[name][:2]
    if "flow" in changes:
        rows["it"] = [
            changes["flow"] if name == "flow" and pump == "a" else value
            for name, value, pump in zip(rows["what"], rows["it"], rows["pump"], strict=True)
        ]
        rows["it"].append("1")
        for name, value in zip(("pump", "when", "what"), ("b", 999, "flow"), strict=True):
            rows[name].append(value)
    frame = pl.DataFrame(rows, strict=False)
    if any(isinstance(value, str) for value in rows["it"]):
        frame = frame.with_columns(pl.Series("it", [str(value) for value in rows["it"]]))
    with pytest.warns(UserWarning, match=warning):
        fleet().update(frame, **LONG, **more)


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"value": None}, "value = None"),
        ({"metric": None}, "metric = None"),
        ({"metric": "nothing"}, "metric = 'nothing': must be a column of the frame"),
        ({"time": None}, "time = None: must be a column of event times"),
        ({"features": ["speed"]}, "features = 'speed': must be metrics: flow, heat, oil"),
    ],
)
def test_bad_arguments_are_named(changes: dict[str, Any], wrong: str) -> None:
    with pytest.raises(kt.ConfigError, match=wrong):
        fleet().update(pl.DataFrame(long_of(wide())), **{**LONG, **changes})


def test_a_row_without_a_metric_is_an_error() -> None:
    rows = long_of(wide())
    rows["what"][7] = None
    with pytest.raises(kt.ConfigError, match="1 rows have none"):
        fleet().update(pl.DataFrame(rows), **LONG)


def test_a_missing_id_or_time_is_refused_by_itself() -> None:
    rows = long_of(wide())
    rows["when"] = [float(when) for when in rows["when"]]
    rows["pump"][0], rows["when"][4] = None, math.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "4 of 242 rows are refused")
        found = fleet().update(pd.DataFrame(rows), **LONG)
    reasons = [reason for reason in found["reason"] if isinstance(reason, str)]
    assert len(found) == 2 * COUNT + 2
    assert sorted(reasons) == [
        "column 'flow' is missing",
        "column 'heat' is missing",
        "the model id is missing",
        "the time is missing, or too far from 1970",
    ]
