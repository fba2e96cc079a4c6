"""The report's second pass against sums written out: blocks, curves, the table's numbers."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.report.data.columns import model_numbers
from pipelines.report.data.curves import (
    HIGH_NOVELTY,
    WINDOW,
    Curve,
    Curves,
    Regime,
    block_size,
    curve_of,
    moving_average,
)
from pipelines.report.data.groups import Part, bin_starts
from pipelines.report.data.models import SPARK_BINS, ShownModels
from pipelines.report.data.totals import FATES, add_up
from tests.report_runs import SECOND, START, random_features


def features(n: int, seed: int = 0, **columns: Any) -> pa.Table:
    return random_features("m", n, seed, **columns)


def gather(table: pa.Table, parts: list[pa.Table], most_blocks: int = 10**6) -> tuple[Part, int]:
    """Return the blocks of one model and their size, rows added in these parts."""
    totals = add_up(table.combine_chunks().to_batches())
    curves = Curves(totals, ["m"], table.column_names, most_blocks)
    for part in parts:
        batch = part.combine_chunks().to_batches()[0]
        curves.add(batch, model_numbers(batch, totals.models))
    return curves.blocks.part(0), int(curves.size[0])


def curve(table: pa.Table, bins: int) -> Curve:
    part, size = gather(table, [table])
    return curve_of(part, size, bins)


def test_blocks_divide_the_window_until_they_are_the_window() -> None:
    assert block_size(1000, 1000) == 1
    assert block_size(1001, 1000) == 2
    assert block_size(6000, 1000) == 8
    for length in range(1, 200_000, 997):
        size = block_size(length, 1000)
        assert -(-length // size) <= 1000
        assert WINDOW % size == 0
    assert block_size(300_000, 1000) == 2 * WINDOW


@given(
    st.lists(st.integers(1, 299), max_size=6),
    st.integers(0, 9),
    st.sampled_from([(300, 1), (100, 4)]),
)
def test_blocks_are_sums_in_whatever_order_rows_come(
    cuts: list[int], seed: int, bound: tuple[int, int]
) -> None:
    n = 300
    most_blocks, size = bound
    rng = np.random.default_rng(seed)
    table = features(n, time=START + np.arange(n), label=np.repeat(["a", "b"], n // 2))
    edges = [0, *sorted(set(cuts)), n]
    parts = [table.slice(a, b - a) for a, b in pairwise(edges)]
    shuffled = [parts[k].take(rng.permutation(len(parts[k]))) for k in rng.permutation(len(parts))]
    got, rows_of_a_block = gather(table, shuffled, most_blocks)
    starts = np.arange(0, n, size)
    loss = table["loss"].to_numpy()
    assert rows_of_a_block == size
    assert got.low["index"].tolist() == starts.tolist()
    ends = np.minimum(starts + size, n) - 1
    assert got.high["index"].tolist() == ends.tolist()
    assert got.rows.tolist() == [min(size, n - a) for a in starts]
    assert got.sums["loss"] == pytest.approx(np.add.reduceat(loss, starts), rel=1e-14)
    assert got.low["loss"].tolist() == np.minimum.reduceat(loss, starts).tolist()
    assert got.high["loss"].tolist() == np.maximum.reduceat(loss, starts).tolist()
    novelty = table["novelty"].to_numpy()
    assert got.sums["novelty"] == pytest.approx(np.add.reduceat(novelty, starts), rel=1e-6)
    novel = np.add.reduceat(novelty >= HIGH_NOVELTY, starts, dtype=int)
    assert got.sums["novel"].tolist() == novel.tolist()
    rows: list[Any] = table.drop_columns("time").to_pylist()
    fates = [
        [
            sum(not row["informative"] for row in rows[a : a + size]),
            sum(row["evicted"] is not None for row in rows[a : a + size]),
            sum(row["evicted"] == row["index"] for row in rows[a : a + size]),
        ]
        for a in starts.tolist()
    ]
    assert np.transpose([got.sums[name] for name in FATES]).tolist() == fates
    assert got.low["time"].tolist() == (START + starts).tolist()
    assert got.high["time"].tolist() == (START + ends).tolist()
    # Of a block with both labels the second one's code.
    assert got.high["label"].tolist() == [int(end >= n // 2) for end in ends]


def test_rows_of_other_models_are_left_out() -> None:
    table = pa.concat_tables([features(3), random_features("n", 3)])
    (batch,) = table.combine_chunks().to_batches()
    totals = add_up([batch])
    curves = Curves(totals, ["n"], table.column_names)
    model = model_numbers(batch, totals.models)
    curves.add(batch.slice(0, 3), model[:3])
    assert curves.blocks.part(0).rows.tolist() == []
    curves.add(batch.slice(2, 2), model[2:4])
    assert curves.blocks.part(0).rows.tolist() == [1]


@pytest.mark.parametrize("most_blocks", [1000, 300])
def test_the_moving_average_is_over_the_last_200_rows(most_blocks: int) -> None:
    table = features(1000)
    blocks, size = gather(table, [table], most_blocks)
    loss = table["loss"].to_numpy()
    ends = blocks.high["index"] + 1
    expected = [np.mean(loss[max(0, end - WINDOW) : end]) for end in ends]
    assert moving_average(blocks, size) == pytest.approx(np.array(expected), rel=1e-12)


@given(st.sets(st.integers(1, 99), max_size=12), st.integers(1, 150))
def test_bins_begin_at_every_cut_and_cover_everything(cuts: set[int], bins: int) -> None:
    starts = bin_starts(sorted(cuts), 100, bins)
    assert starts[0] == 0
    assert np.all(np.diff(starts) > 0)
    assert starts[-1] < 100
    assert cuts <= set(starts.tolist())
    assert len(starts) <= min(100, bins + 2 * len(cuts) + 1)


def test_bins_hold_mean_and_range_of_their_rows() -> None:
    table = features(1000, time=START + np.arange(1000) * SECOND)
    got = curve(table, 10)
    loss = table["loss"].to_numpy().reshape(10, 100)
    assert got.loss["mean"] == pytest.approx(loss.mean(axis=1), rel=1e-12)
    assert got.loss["low"].tolist() == loss.min(axis=1).tolist()
    assert got.loss["high"].tolist() == loss.max(axis=1).tolist()
    assert got.loss["row"].tolist() == [49.5 + 100 * k for k in range(10)]
    assert got.loss["time"].tolist() == [49.5 + 100 * k for k in range(10)]
    assert (got.start, got.gaps, got.covered, got.regimes) == (START, 0, 1.0, None)


def test_rates_are_shares_of_a_bins_rows() -> None:
    table = features(60)
    got = curve(table, 10).rates
    rows = table.to_pylist()
    parts = [rows[:20], rows[20:40], rows[40:]]
    dropped = [sum(row["evicted"] == row["index"] for row in part) / 20 for part in parts]
    evicted = [sum(row["evicted"] is not None for row in part) / 20 for part in parts]
    assert got["row"].tolist() == [9.5, 29.5, 49.5]
    assert got["censored"].tolist() == [sum(not r["informative"] for r in p) / 20 for p in parts]
    assert got["dropped"].tolist() == dropped
    assert got["replaced"] == pytest.approx(np.subtract(evicted, dropped))
    assert got["novel"].tolist() == [sum(r["novelty"] >= 0.95 for r in p) / 20 for p in parts]
    assert got["novelty"] == pytest.approx([sum(r["novelty"] for r in p) / 20 for p in parts])


def test_lines_break_where_nothing_was_recorded() -> None:
    time = np.concatenate([np.arange(300), 1000 + np.arange(300)]) * SECOND + START
    got = curve(features(600, time=time), 60)
    assert got.gaps == 1
    assert got.covered == pytest.approx(1 - 701 / 1299)
    broken = np.flatnonzero(np.isnan(got.loss["mean"]))
    assert broken.tolist() == [30]
    assert 299 < got.loss["time"][30] < 1000
    assert not np.isnan(got.loss["time"]).any()
    assert np.all(np.diff(got.loss["time"]) > 0)
    assert np.isnan(got.rates["censored"]).sum() == 1


@pytest.mark.parametrize("most_blocks", [10**6, 100])
def test_rows_of_wild_clocks_lie_outside_of_the_time_axis(most_blocks: int) -> None:
    seconds = np.arange(1_000, 1_600)
    time = START + np.concatenate([[0, 60], 10**8 + seconds, [2 * 10**9]]) * SECOND
    part, size = gather(features(603, time=time), [features(603, time=time)], most_blocks)
    # Also where a block has rows of both clocks.
    assert size == (1 if most_blocks > 603 else 8)
    got = curve_of(part, size, 60)
    skipped = 0 if size == 1 else 5
    assert got.start == START + (10**8 + 1_000 + skipped) * SECOND
    assert got.outside.startswith("before 2020-09-13 12:43:")
    assert got.outside.endswith(" (up to 2080-11-28 06:13:20)")
    assert got.covered == 1.0
    shown = got.loss["time"][np.isfinite(got.loss["time"])]
    assert 0 <= shown[0] < 20 and 570 < shown[-1] <= 600
    assert np.all(np.diff(shown) > 0)
    # The axis of rows has all of them.
    assert np.isfinite(got.loss["row"]).all()
    assert got.loss["row"][0] < 8 and got.loss["row"][-1] > 590


def test_a_step_as_long_as_the_others_is_no_gap() -> None:
    assert curve(features(3, time=START + np.array([0, 5, 10]) * SECOND), 10).gaps == 0


def test_regimes_are_the_runs_of_the_label_without_the_nulls() -> None:
    label = pa.array(["a"] * 20 + [None] * 5 + ["b"] * 15 + ["a"] * 10)
    got = curve(features(50, label=label, time=START + np.arange(50) * SECOND), 20)
    assert got.label_changes == 3
    assert got.regimes == [
        Regime(0, 0, 20, 0.0, 20.0),
        Regime(1, 25, 40, 25.0, 40.0),
        Regime(0, 40, 50, 40.0, 49.0),
    ]


def test_no_bin_holds_two_labels() -> None:
    loss = np.concatenate([np.zeros(333), np.ones(667)])
    got = curve(features(1000, loss=loss, label=["a"] * 333 + ["b"] * 667), 10)
    assert set(got.loss["mean"].tolist()) == {0.0, 1.0}
    assert got.loss["low"].tolist() == got.loss["high"].tolist() == got.loss["mean"].tolist()


def test_labels_in_random_order_are_not_shaded() -> None:
    label = np.random.default_rng(0).choice(["a", "b"], 1000)
    got = curve(features(1000, label=label), 100)
    assert got.regimes is None
    assert got.label_changes == np.count_nonzero(label[1:] != label[:-1])


def test_a_label_that_is_always_null_gives_no_regimes() -> None:
    assert curve(features(20, label=pa.array([None] * 20, pa.string())), 10).regimes is None


def test_a_numeric_label_is_a_line() -> None:
    target = np.linspace(0.0, 1.0, 100)
    got = curve(features(100, label=pa.array(target, mask=np.arange(100) < 10)), 10)
    assert np.isnan(got.loss["target"][0])
    assert got.loss["target"][1:] == pytest.approx(target.reshape(10, 10).mean(axis=1)[1:])
    assert got.regimes is None


@pytest.mark.parametrize("time", [[5, 5, 5], [3, 2, 1], [7]])
def test_times_that_do_not_order_the_rows_are_no_axis(time: list[int]) -> None:
    got = curve(features(len(time), time=START + np.array(time)), 10)
    assert got.start is None
    assert "time" not in got.loss
    assert got.loss["row"].tolist() == list(range(len(time)))


def shown(losses: npt.NDArray[np.float64], initial: int = 0) -> ShownModels:
    """A model with these losses and one whose rows are all initial."""
    table = features(len(losses), loss=losses, initial=np.arange(len(losses)) < initial)
    other = random_features("n", 4, initial=[True] * 4)
    (batch,) = pa.concat_tables([table, other]).combine_chunks().to_batches()
    totals = add_up([batch])
    lines = ShownModels(totals, ["m", "n"])
    lines.add(batch, model_numbers(batch, totals.models))
    return lines


@given(st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=60), st.floats(0.01, 1.0))
def test_quantiles_are_within_one_per_cent(losses: list[float], share: float) -> None:
    exact = sorted(losses)[max(1, math.ceil(share * len(losses))) - 1]
    got = shown(np.array(losses)).quantile(share)
    assert got[0] == pytest.approx(exact, rel=1 / 128)
    assert math.isnan(got[1])


@pytest.mark.parametrize("loss", [0.0, 0.125, 1e-300, 1e300])
def test_a_constant_loss_is_its_own_quantile(loss: float) -> None:
    assert shown(np.full(10, loss)).quantile(0.95)[0] == loss


def test_the_last_half_and_the_small_curve_leave_out_the_start() -> None:
    losses = np.arange(64, dtype=float)
    table = shown(losses, initial=33).table()
    assert table["half"][0] == losses[33:].mean()
    spark = table["spark"][0]
    assert spark.shape == (SPARK_BINS,)
    assert np.isnan(spark[:16]).all()
    assert spark[16:].tolist() == [33.0, *(losses[34:].reshape(-1, 2).mean(axis=1).tolist())]
    assert math.isnan(table["half"][1])
