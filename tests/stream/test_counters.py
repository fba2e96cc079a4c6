"""Counters of what is seen from outside: sums that give the mean loss and the mean lag."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pipelines.calls import Calls
from tests.stream.running import Step, make_rows, step_through
from transforms.metrics import MOST_LAG, MOST_UNITS, TALLY, count_lags, count_losses
from transforms.track.order import Order


@pytest.fixture
def tally() -> None:
    TALLY.clear()


def test_losses_add_up(tally: None) -> None:
    losses = np.random.default_rng(0).random((50, 20))
    for part in losses:
        count_losses(part)
    # Each call rounds to the nearest millionth.
    assert TALLY["loss_millionths"] / 1e6 == pytest.approx(losses.sum(), abs=50 * 0.5e-6)


@pytest.mark.parametrize(
    ("losses", "counted"),
    [([], 0), ([0.0, 0.0], 0), ([math.nan], 0), ([math.inf], int(MOST_UNITS)), ([1e300], 10**14)],
)
def test_no_loss_is_too_much_for_a_counter(losses: list[float], counted: int, tally: None) -> None:
    count_losses(np.array(losses, dtype=np.float64))
    assert TALLY["loss_millionths"] == counted


def test_a_row_of_long_ago_lags_a_day_and_one_of_the_future_not_at_all(tally: None) -> None:
    extremes = np.iinfo(np.int64)
    count_lags(np.array([extremes.min, 0, extremes.max], dtype=np.int64))
    assert TALLY["lag_milliseconds"] == 2 * MOST_LAG * 1000


@pytest.mark.parametrize("live", [True, False])
def test_the_keyed_step_counts_what_it_gives(live: bool, tally: None) -> None:
    rows = make_rows(200)
    rows.x[150] = math.nan
    order = Order(max_disorder=1.0) if live else Order()
    outcome = step_through([("m", chunk) for chunk in rows.cut([30, 1, 50])], order=order)
    features = outcome.table("m")
    assert (TALLY["rows_tracked"], TALLY["rows_failed"]) == (199, 1)
    assert TALLY["loss_millionths"] / 1e6 == pytest.approx(features["loss"].sum(), abs=200 * 0.5e-6)
    assert TALLY["informative"] == features["informative"].sum()
    assert TALLY["evicted"] == (features["evicted"] >= 0).sum()
    # A job over files tells of rows of long ago: they lag nothing.
    assert TALLY["lag_milliseconds"] == (199 * MOST_LAG * 1000 if live else 0)


def test_calls_are_counted_with_their_models(tally: None) -> None:
    """One call for all devices of a bundle."""
    step = Step(order=Order(max_disorder=1.0))
    first, *later = make_rows(63).cut([40, 10, 10, 3])
    step.push_all([(key, first) for key in ("a", "b", "c")])
    assert (TALLY["calls"], TALLY["models_called"]) == (1, 3)
    step.push_all([(key, later[0]) for key in ("a", "b")])
    assert (TALLY["calls"], TALLY["models_called"]) == (2, 5)
    step.push("a", later[1])
    step.push("b", later[1])
    assert (TALLY["calls"], TALLY["models_called"]) == (4, 7)
    assert Calls.of(TALLY) == (4, round(TALLY["rows_tracked"] / 4, 1), 1.8)
