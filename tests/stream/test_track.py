"""TrackSubspace on bounded input: the core's features, bit for bit, however rows are cut."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack import codec
from kerneltrack.errors import ConfigError
from kerneltrack.in_memory import run_all
from kerneltrack.trackers import RowsSpec
from tests.parts import examples
from tests.stream.running import (
    SECOND,
    SPEC,
    Rows,
    assert_same,
    core_alone,
    make_rows,
    shuffled,
    step_through,
    track,
)
from transforms.track import slices
from transforms.track.order import Order
from transforms.track.transform import TrackSubspace

RUNNERS: dict[str, tuple[Any, list[str]]] = {
    "embedded": (FnApiRunner, []),
    "two workers": (
        FnApiRunner,
        ["--direct_num_workers=2", "--direct_running_mode=multi_threading"],
    ),
    "state cache": (FnApiRunner, ["--max_cache_memory_usage_mb=100"]),
    "bundle based": (BundleBasedDirectRunner, []),
}


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_chunks_of_any_size_give_the_cores_features(size: int) -> None:
    rows = {f"m{seed}": make_rows(150, seed=seed) for seed in range(3)}
    elements = [(key, chunk) for key in rows for chunk in rows[key].cut([size])]
    outcome = track(shuffled(elements, size))
    assert sorted(outcome.features) == sorted(rows)
    for key, of_model in rows.items():
        assert_same(outcome.table(key), core_alone(of_model))
    assert (outcome.late, outcome.failures) == ([], [])


@pytest.mark.parametrize("order", [Order(), Order(max_disorder=2.0), Order(max_disorder=0)])
@pytest.mark.parametrize("name", RUNNERS)
def test_runners_give_the_same(name: str, order: Order) -> None:
    runner, flags = RUNNERS[name]
    rows = {f"m{seed}": make_rows(120, seed=seed) for seed in range(5)}
    cuts = {key: of_model.cut([7, 1, 30]) for key, of_model in rows.items()}
    # Models interleave; a model's chunks come in order, as max_disorder = 0 asks for.
    longest = max(len(cut) for cut in cuts.values())
    elements = [(k, cuts[k][i]) for i in range(longest) for k in rows if i < len(cuts[k])]
    outcome = track(elements, order=order, runner=runner(), flags=flags)
    for key, of_model in rows.items():
        assert_same(outcome.table(key), core_alone(of_model))
    assert sorted(outcome.features) == sorted(rows)
    assert outcome.failures == []


@settings(max_examples=examples(15))
@given(
    st.lists(st.integers(0, 4), min_size=60, max_size=60),
    st.lists(st.integers(0, 3), min_size=60, max_size=60),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_equal_times_are_ordered_by_sequence_then_source_then_row(
    seconds: list[int], others: list[int], with_time: bool, with_sequence: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    rows = Rows(
        time=np.array(seconds) * 10**9 if with_time else None,
        x=rng.normal(size=(60, 2)),
        source=np.array(others, dtype=np.int32),
        row=rng.permutation(60).astype(np.int64),
        sequence=rng.integers(-3, 3, size=60) if with_sequence else None,
    )
    elements = [("m", chunk) for chunk in rows.cut(rng.integers(1, 9, size=60).tolist())]
    table = step_through(shuffled(elements, seed)).table("m")
    if with_sequence:
        assert "sequence" not in table
    assert_same(table, core_alone(rows.in_order()))


def test_a_model_longer_than_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_ROWS", 300)
    rows = make_rows(605, seed=1)
    outcome = track([("m", chunk) for chunk in rows.cut([250])])
    assert sorted(len(chunk) for chunk in outcome.features["m"]) == [5, 300, 300]
    assert_same(outcome.table("m"), core_alone(rows))


@pytest.mark.parametrize("count", [1, 2, 19, 20, 21])
@pytest.mark.parametrize("order", [Order(), Order(max_disorder=1.0), Order(max_disorder=0)])
def test_models_about_as_long_as_the_warm_up(count: int, order: Order) -> None:
    rows = make_rows(count, seed=count)
    outcome = step_through([("m", chunk) for chunk in rows.cut([1])], order=order)
    assert_same(outcome.table("m"), core_alone(rows))
    (snapshot,) = outcome.snapshots
    assert codec.decode(snapshot[1]).state.n == count


def test_no_input_gives_no_output() -> None:
    outcome = track([])
    assert (outcome.features, outcome.snapshots) == ({}, [])
    assert (outcome.late, outcome.failures) == ([], [])


@pytest.mark.parametrize("order", [Order(), Order(max_disorder=2.0)])
def test_snapshots_are_the_cores_last_states(order: Order) -> None:
    rows = {key: make_rows(90, seed=seed) for seed, key in enumerate(["a", "b/c", "é"])}
    elements = [(key, chunk) for key in rows for chunk in rows[key].cut([13])]
    outcome = track(elements, order=order)
    last = 89 * SECOND // 2
    about = {"rows": 90, "time": last, "until": last, "final": True}
    expected = [
        (key, codec.encode(SPEC, run_all(SPEC, of_model.x)[0], {**about, "model_id": key}))
        for key, of_model in rows.items()
    ]
    assert outcome.snapshots == sorted(expected)


@pytest.mark.parametrize(
    ("changes", "extras"),
    [
        ({"emit": "q"}, ()),
        ({}, ("q",)),
        ({}, ("q", "s")),
        ({"emit": "q"}, ("s",)),
        ({"rule": "nonparametric", "step": "majorised", "policy": "compensated"}, ("q",)),
        ({"censor": "moving", "kernel": "laplacian"}, ()),
        ({"kernel": "linear", "standardise": False}, ()),
        ({"start": "rank_one", "policy": "fifo"}, ()),
    ],
)
def test_every_setting_reaches_the_core(changes: dict[str, Any], extras: tuple[str, ...]) -> None:
    spec = dataclasses.replace(SPEC, **changes)
    rows = make_rows(130, seed=2)
    for order in (Order(), Order(max_disorder=3.0)):
        outcome = step_through(
            [("m", chunk) for chunk in rows.cut([11])], spec=spec, order=order, extras=extras
        )
        assert_same(outcome.table("m"), core_alone(rows, spec, extras))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_carry_time_place_and_label(dtype: Any) -> None:
    rows = dataclasses.replace(
        make_rows(40, dtype=dtype),
        label=np.array([None if i % 3 == 0 else f"é{i % 2}" for i in range(40)]),
        source=np.arange(40, dtype=np.int32) // 20,
    )
    outcome = track([("m", chunk) for chunk in rows.cut([9])])
    table = outcome.table("m")
    assert_same(table, core_alone(rows))
    assert list(table) == [
        *("index", "time", "source", "row", "loss", "novelty", "informative", "evicted"),
        *("initial", "z", "label"),
    ]
    assert table["label"].tolist()[:3] == [None, "é1", "é0"]


@pytest.mark.parametrize("order", [Order(), Order(max_disorder=1.0), Order(max_disorder=0)])
def test_rows_that_the_tracker_refuses_leave_no_trace(order: Order) -> None:
    spec = dataclasses.replace(SPEC, standardise=False, kernel="linear")
    rows = make_rows(100, seed=4)
    wild = rows.x.copy()
    wild[50] = 1e60
    wild[[70, 71], 1] = [np.nan, np.inf]
    with_wild = dataclasses.replace(rows, x=wild)
    good = np.setdiff1d(np.arange(100), [50, 70, 71])
    outcome = step_through([("m", chunk) for chunk in with_wild.cut([9])], spec=spec, order=order)
    expected = core_alone(rows.take(good), spec)
    assert_same(outcome.table("m"), expected)
    assert outcome.failures == [
        ("m", 0, 50, "the kernel's value of the row with itself is above 1e+100"),
        ("m", 0, 70, "channel 1 is NaN"),
        ("m", 0, 71, "channel 1 is infinite"),
    ]


def test_equal_rows_come_out_as_often_as_they_went_in() -> None:
    rows = make_rows(30)
    twice = rows.take(np.repeat(np.arange(30), 2))
    outcome = track([("m", rows.chunk()), ("m", rows.chunk())])
    assert_same(outcome.table("m"), core_alone(twice))


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Order(max_disorder=-1), "max_disorder"),
        (lambda: Order(max_disorder=float("nan")), "max_disorder"),
        (lambda: Order(max_jump=-0.5), "max_jump"),
        (lambda: Order(hold_for=-1), "hold_for"),
        (lambda: TrackSubspace(SPEC, extras=("z",)), "extras"),
        (lambda: TrackSubspace(RowsSpec(rank=3), extras=("s",)), "extras"),
    ],
)
def test_wrong_settings_are_refused_at_once(make: Any, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert caught.value.field == field
