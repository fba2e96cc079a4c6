"""Drift alerts in the stream: the core's, with index and time, however rows come."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.fleet.results import Alert
from kerneltrack.in_memory import run_all
from kerneltrack.monitor import drift
from kerneltrack.monitor.drift import DriftSpec
from tests.parts import cuts, examples
from tests.stream.running import (
    SECOND,
    SPEC,
    Element,
    Line,
    Rows,
    Step,
    assert_same,
    core_alone,
    exact,
    make_rows,
    step_through,
    taking_turns,
    track,
    track_stream,
)
from tests.stream.test_order import arriving
from transforms.track.features import alert_chunk
from transforms.track.order import Order
from transforms.track.transform import MeasureMismatch

# Small blocks and a low threshold: several alerts within a hundred rows.
TOLD = DriftSpec(block=3, settle=9, memory=40, threshold=0.5, delta=0.2)
DISORDERS = [0.0, 1.0, 7.0, math.inf]


def regimes(count: int, seed: int, refused: float = 0.1) -> Rows:
    """Rows whose cloud jumps and changes its width, at odd times, some of them refused."""
    rng = np.random.default_rng(seed)
    level, width = np.zeros(count), np.ones(count)
    for place in range(0, count, 40):
        level[place:] = rng.normal(scale=4)
        width[place:] = 10 ** rng.uniform(-1, 0.5)
    times = (np.cumsum(rng.choice([0, 1, 1, 2, 20], size=count)) - count) * (SECOND // 2)
    rows = make_rows(count, seed=seed, times=times)
    x = rng.normal(size=(count, 3)) * width[:, None] + level[:, None]
    x[rng.random(count) < refused, rng.integers(0, 3)] = np.nan
    return dataclasses.replace(rows, x=x)


def by_the_core(rows: Rows, reported: DriftSpec = TOLD, spec: Any = SPEC) -> list[Line]:
    """Run the whole model's losses through the detector in one call."""
    good = rows.take(np.flatnonzero(np.isfinite(rows.x).all(axis=1)))
    _, features = run_all(spec, good.x)
    losses = features.loss[features.valid]
    _, found = drift.update(reported, drift.init(reported), losses, np.arange(len(losses)))
    return [
        {
            "index": int(row),
            "time": None if good.time is None else int(good.time[row]),
            "before": float(before),
            "after": float(after),
        }
        for row, before, after in zip(found.index, found.before, found.after, strict=True)
    ]


@settings(max_examples=examples(20))
@given(
    st.sampled_from([TOLD, DriftSpec(settle=30, memory=60, threshold=2, direction="up")]),
    st.sampled_from(DISORDERS),
    cuts(50),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_alerts_are_the_cores_however_rows_come(
    reported: DriftSpec, max_disorder: float, sizes: list[int], windows: bool, seed: int
) -> None:
    rows = {key: regimes(200, 2 * seed + number) for number, key in enumerate("ab")}
    elements: list[Element] = []
    for key, of_model in rows.items():
        elements += [(key, chunk) for chunk in arriving(of_model, max_disorder, seed).cut(sizes)]
    outcome = step_through(
        elements,
        order=Order(max_disorder=max_disorder),
        drift=reported,
        # What else works along with the tracker changes nothing.
        measure=MeasureMismatch(moving=5) if windows else None,
        snapshot_every=7.0 if windows else None,
    )
    for key, of_model in rows.items():
        assert exact(outcome.alerts.get(key, [])) == exact(by_the_core(of_model, reported))


def test_the_streams_of_these_tests_raise_alerts_of_both_kinds() -> None:
    lines = [line for seed in range(5) for line in by_the_core(regimes(200, seed))]
    rising = [line["after"] > line["before"] for line in lines]
    assert 10 < len(lines) < 60
    assert any(rising)
    assert not all(rising)


@pytest.mark.parametrize("max_disorder", [0.0, 2.0, math.inf])
def test_both_pipelines_give_the_cores_alerts(max_disorder: float) -> None:
    rows = {key: regimes(160, seed) for seed, key in enumerate(["a", "b/c", "é"])}
    order = Order(max_disorder=max_disorder)
    chunks = {key: arriving(rows[key], max_disorder, 1).cut([7, 1, 30]) for key in rows}
    elements = taking_turns(chunks)
    bundles = [elements[k : k + 4] for k in range(0, len(elements), 4)]
    bounded = track(elements, order=order, drift=TOLD)
    live = track_stream(bundles, order=order, drift=TOLD)
    for key, of_model in rows.items():
        expected = by_the_core(of_model)
        assert expected
        for outcome in (bounded, live):
            assert exact(outcome.alerts[key]) == exact(expected)
            good = np.flatnonzero(np.isfinite(of_model.x).all(axis=1))
            assert_same(outcome.table(key), core_alone(of_model.take(good)))
    assert live.snapshots == bounded.snapshots


def test_an_alert_leaves_with_its_row() -> None:
    """Live, it comes out with the features of the row that raised it, not later."""
    rows = regimes(200, 3)
    step = Step(order=Order(max_disorder=2.0), drift=TOLD)
    raised = 0
    for chunk in rows.cut([1]):
        out = step.push("m", chunk)
        for line in out.alerts.get("m", []):
            raised += 1
            table = out.table("m")
            (place,) = np.flatnonzero(table["index"] == line["index"])
            assert table["time"][place] == line["time"]
            assert not np.isnan(table["loss"][place])
    assert raised > 3


def test_alerts_without_times() -> None:
    rows = dataclasses.replace(regimes(200, 4), time=None)
    outcome = step_through([("m", chunk) for chunk in rows.cut([11])], drift=TOLD)
    assert exact(outcome.alerts["m"]) == exact(by_the_core(rows))
    assert {line["time"] for line in outcome.alerts["m"]} == {None}


def test_without_a_detector_there_are_no_alerts() -> None:
    rows = regimes(200, 3)
    assert by_the_core(rows)
    assert step_through([("m", rows.chunk())]).alerts == {}


def test_alerts_are_written_with_their_types() -> None:
    chunk = alert_chunk([Alert(3, 5 * SECOND, 0.25, 0.5), Alert(9, None, 0.5, 0.125)])
    assert chunk.batch.schema == pa.schema(
        {"index": pa.int64(), "time": pa.int64(), "before": pa.float64(), "after": pa.float64()}
    )
    assert chunk.batch.to_pylist() == [
        {"index": 3, "time": 5 * SECOND, "before": 0.25, "after": 0.5},
        {"index": 9, "time": None, "before": 0.5, "after": 0.125},
    ]
