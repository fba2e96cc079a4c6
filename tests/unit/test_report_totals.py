"""The report's first pass against sums written out: totals, moments and label codes."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.report.data.labels import NO_LABEL, LabelCodes, label_values
from pipelines.report.data.totals import FATES, Moments, add_up, columns_for_totals
from tests.report_runs import random_features

ROWS = 400


def features() -> pa.Table:
    """Rows of three models, mixed, with nulls among the labels and every fate."""
    rng = np.random.default_rng(0)
    model = rng.choice(["b", "a", "c"], ROWS, p=[0.6, 0.39, 0.01])
    index = np.array([int(np.count_nonzero(model[:k] == model[k])) for k in range(ROWS)])
    evicted = np.where(rng.random(ROWS) < 0.5, index - rng.integers(0, 3, ROWS), -1)
    return random_features(
        "",
        ROWS,
        model_id=model,
        index=index,
        informative=rng.random(ROWS) < 0.7,
        evicted=pa.array(evicted, mask=evicted < 0),
        initial=index < 10,
        label=pa.array(rng.choice(["walk", "run", ""], ROWS), mask=rng.random(ROWS) < 0.1),
    )


@given(st.integers(1, ROWS), st.booleans())
def test_totals_are_sums_over_the_rows_however_they_are_cut(size: int, turned: bool) -> None:
    table = features()
    batches = table.to_batches(max_chunksize=size)
    totals = add_up(reversed(batches) if turned else batches)
    rows = table.to_pylist()
    assert sorted(totals.models) == sorted({row["model_id"] for row in rows})
    sd = totals.loss.sd()
    for name, code in totals.models.items():
        mine = [row for row in rows if row["model_id"] == name]
        counted = [row["loss"] for row in mine if not row["initial"]]
        assert totals.counts.rows[code] == len(mine)
        assert totals.length[code] == max(row["index"] for row in mine) + 1
        assert [totals.counts.sums[fate][code] for fate in FATES] == [
            sum(not row["informative"] for row in mine),
            sum(row["evicted"] is not None for row in mine),
            sum(row["evicted"] == row["index"] for row in mine),
        ]
        assert totals.loss.n[code] == len(counted)
        if counted:
            assert totals.means()[code] == pytest.approx(math.fsum(counted) / len(counted))
            assert sd[code] == pytest.approx(np.std(counted))
        else:
            assert math.isnan(totals.means()[code])
    every = [row["loss"] for row in rows if not row["initial"]]
    mean = math.fsum(every) / len(every)
    assert totals.loss.together() == pytest.approx((len(every), mean, np.std(every)))


def test_labels_are_summed_without_the_start_rows_and_nulls_apart() -> None:
    table = features()
    totals = add_up(table.to_batches(max_chunksize=37))
    groups: dict[str | None, list[float]] = defaultdict(list)
    for row in table.to_pylist():
        if not row["initial"]:
            groups[row["label"]].append(row["loss"])
    names = [None, *totals.labels.names()]
    assert set(names) == set(groups)
    assert totals.by_label.n.tolist() == [len(groups[name]) for name in names]
    for place, name in enumerate(names):
        assert totals.by_label.mean[place] == pytest.approx(np.mean(groups[name]))
        assert totals.by_label.sd()[place] == pytest.approx(np.std(groups[name]))


def test_no_batches_give_empty_totals() -> None:
    totals = add_up([])
    assert totals.models == {}
    assert len(totals.means()) == 0
    assert totals.loss.together() == (0, 0.0, 0.0)


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 4), st.floats(-1e3, 1e3)), max_size=20), max_size=6)
)
def test_moments_merge_batches(batches: list[list[tuple[int, float]]]) -> None:
    moments = Moments()
    for batch in batches:
        groups = np.array([group for group, _ in batch], dtype=np.int64)
        moments.add(groups, np.array([value for _, value in batch]), 5)
    for group in range(len(moments.n)):
        values = [value for batch in batches for key, value in batch if key == group]
        assert moments.n[group] == len(values)
        if values:
            # Each merge rounds a few times at the size of the largest value, 1e3: 120 values at
            # most, 2^-53 each, and the square root of that for the spread of equal values.
            assert moments.mean[group] == pytest.approx(np.mean(values), abs=1e-10)
            assert moments.sd()[group] == pytest.approx(np.std(values), abs=1e-5)


def test_a_small_spread_about_a_large_mean_is_kept() -> None:
    moments = Moments()
    values = 1e9 + np.array([0.0, 1.0, 2.0, 3.0])
    for pair in (values[:2], values[2:]):
        moments.add(np.zeros(2, dtype=np.int64), pair, 1)
    assert moments.sd().tolist() == [pytest.approx(math.sqrt(1.25), rel=1e-12)]


def test_columns_that_are_absent_are_not_asked_for() -> None:
    assert "label" not in columns_for_totals(["model_id", "index", "loss", "z"])
    assert "z" not in columns_for_totals(["model_id", "z", "label"])


def test_text_labels_are_numbered_in_the_order_met() -> None:
    codes = LabelCodes()
    assert codes.encode(pa.array(["b", None, "a", "b"])).tolist() == [0, NO_LABEL, 1, 0]
    encoded = pa.array(["c", "a"]).dictionary_encode()
    assert codes.encode(encoded).tolist() == [2, 1]
    assert codes.encode(pa.array([None, None], pa.string())).tolist() == [NO_LABEL, NO_LABEL]
    assert codes.names() == ["b", "a", "c"]
    assert not codes.is_numeric


def test_numeric_labels_are_classes_up_to_24_values() -> None:
    codes = LabelCodes()
    assert codes.encode(pa.array([1.0, None, math.nan, 2.5])).tolist() == [0, -1, -1, 1]
    assert codes.names() == ["1", "2.5"]
    codes.encode(pa.array(np.arange(22, dtype=float) + 100))
    assert not codes.is_target
    codes.encode(pa.array([7.0]))
    assert codes.is_target
    assert codes.encode(pa.array([1.0, 2.0])).tolist() == [NO_LABEL, NO_LABEL]


def test_text_beyond_the_limit_is_no_label(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.report.data.labels.MOST_CLASSES_OF_TEXT", 2)
    codes = LabelCodes()
    assert codes.encode(pa.array(["a", "b", None])).tolist() == [0, 1, -1]
    assert not codes.is_cut
    assert codes.encode(pa.array(["a", "c"])).tolist() == [0, -1]
    assert codes.is_cut


def test_label_values_are_nan_where_there_is_none() -> None:
    integers = label_values(pa.array([1, None, 3]))
    assert integers[[0, 2]].tolist() == [1.0, 3.0]
    assert np.isnan(integers[1])
    assert np.isnan(label_values(pa.array([math.inf, math.nan]))).all()
