"""The learner that chooses for itself: its ridges, its mixture, its bound."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from kerneltrack.arrays import FloatArray
from kerneltrack.errors import ConfigError
from kerneltrack.in_memory import learn_all
from kerneltrack.learners import Auto, AutoSpec, RidgeSpec
from kerneltrack.learners.auto.learner import (
    ANEW,
    ANEW_END,
    EXPERTS,
    FERN_TESTS,
    LEAVES,
    LOSS,
    RIGHT,
    WEIGHT,
    carried,
    places,
)
from kerneltrack.learners.common.base import TARGET_VARIANCE
from kerneltrack.registry import get_learner

CHANNELS, FEATURES = 3, 2
FIRST_MAP = 128
"""Rows that the map is first made from, as in native/auto_map.c."""
AT_ONCE, EACH_TIME = 128, 16
"""Rows that are learned anew at once, and with each row that follows, as there."""


def made(count: int, seed: int = 0) -> tuple[FloatArray, list[str]]:
    """Rows whose class the map sees and the row does not, with features beside that know little."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, CHANNELS)) / math.sqrt(CHANNELS)
    labels = ["in" if row @ row < 0.8 else "out" for row in rows]
    whole = np.hstack([rows, 0.1 * rng.normal(size=(count, FEATURES))])
    # As the window keeps them.
    return whole.astype(np.float32).astype(np.float64), labels


def one_by_one(
    spec: AutoSpec, rows: FloatArray, labels: Any, channels: int = CHANNELS
) -> tuple[Any, list[FloatArray], list[Any]]:
    """Return the last state, what all experts said of each row before it was learned, and more."""
    learner = Auto()
    state, output_text, predicted = learner.begin(spec, rows.shape[1], channels), [], []
    for n in range(len(rows)):
        output_text.append(learner.experts(spec, state, rows[n : n + 1])[0])
        state, one = learner.update(spec, state, rows[n : n + 1], labels[n : n + 1])
        predicted.append(one)
    return state, output_text, predicted


def unpacked(state: Any, memory: int) -> FloatArray:
    """N of a memory, (p, p)."""
    size = len(state.aims) // 2
    factor = np.zeros((size, size))
    row, column = np.tril_indices(size)
    factor[row, column] = state.factors[memory, places(row, column)]
    return factor


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_the_first_taps_are_the_ridges_on_fewer_coordinates(task: str) -> None:
    """Of the long memory, exactly; of the short one, as far as λ is restored alike."""
    rows, names = made(400)
    labels: Any = names if task == "classification" else rows @ [1.0, 2.0, -1.0, 0.5, 0.0]
    spec = AutoSpec(task=task, budget=40)
    learner = Auto()
    state = learner.update(spec, learner.begin(spec, 5, CHANNELS), rows, labels)[0]
    along = unpacked(state, 0)
    constant = np.ones((len(rows), 1))
    read = np.hstack([constant, rows[:, :CHANNELS]]) @ along[: 1 + CHANNELS, : 1 + CHANNELS].T
    ridge = RidgeSpec(task=task, ridge=spec.ridge, forgetting=1.0)
    other, _ = learn_all(ridge, rows[:, :CHANNELS], labels)
    expected = get_learner("ridge").values(ridge, other, rows[:, :CHANNELS])
    values = learner.in_target_units(spec, state, read @ state.aims[: 1 + CHANNELS])
    np.testing.assert_allclose(values, expected, atol=1e-9)


class Learned:
    """Which rows were learned after so many, and how many landmarks each was learned with.

    When the map is made the last rows are learned anew at once, the others, the oldest first, with
    the rows that follow.
    """

    def __init__(self) -> None:
        self.waiting: list[int] = []
        self.met: dict[int, int] = {}

    def take(self, n: int, before: int, state: Any) -> list[int]:
        """Take a row in that was learned, `before` landmarks met; return the rows learned, too."""
        if n + 1 in (FIRST_MAP, 4 * FIRST_MAP):
            first = max(0, n + 1 - AT_ONCE)
            self.waiting, self.met = list(range(first)), {}
            again = list(range(first, n + 1))
        else:
            self.met[n] = before
            again, self.waiting = self.waiting[:EACH_TIME], self.waiting[EACH_TIME:]
        self.met.update(dict.fromkeys(again, state.met))
        return again


def learned_by(spec: AutoSpec, rows: FloatArray, names: Any) -> tuple[Any, Learned]:
    """Learn row by row."""
    learner, learned = Auto(), Learned()
    state = learner.begin(spec, rows.shape[1], CHANNELS)
    for n in range(len(rows)):
        before = state.met
        state = learner.learn(spec, state, rows[n : n + 1], names[n : n + 1])
        learned.take(n, before, state)
    return state, learned


def whole_of(spec: AutoSpec, state: Any, rows: FloatArray, learned: Learned) -> FloatArray:
    """The coordinates with which rows were learned, (n, p): 0 of landmarks that came later."""
    kernels = kernel_of(spec, state, rows)
    kernels *= np.arange(spec.landmarks) < [[learned.met[n]] for n in range(len(rows))]
    return np.hstack([np.ones((len(rows), 1)), rows[:, :CHANNELS], kernels, rows[:, CHANNELS:]])


@pytest.mark.parametrize("count", [FIRST_MAP, 300, 536, 700])
def test_the_map_is_as_if_it_had_been_there_at_the_first_row(count: int) -> None:
    """The whole memory against the normal equations; landmarks that are met later were 0 before."""
    rows, names = made(count)
    spec = AutoSpec(budget=20, gamma=0.5)
    state, learned = learned_by(spec, rows, names)
    assert state.met >= 18
    whole = whole_of(spec, state, rows, learned)
    aims = np.array([[name == known for known in state.classes] for name in names], float)
    normal = whole.T @ whole + spec.ridge * np.eye(whole.shape[1])
    expected = whole @ np.linalg.solve(normal, whole.T @ aims)
    size = len(state.aims) // 2
    along = unpacked(state, 0)
    np.testing.assert_allclose(whole @ along.T @ state.aims[:size], expected, atol=1e-7)


@pytest.mark.parametrize("count", [FIRST_MAP, 300, 536])
def test_a_targets_map_is_held_back_as_functions_of_its_kernel_are(count: int) -> None:
    """The whole memory against the normal equations, 10λ(K + .01 I) of the landmarks chosen."""
    rows, _ = made(count)
    targets = np.sin(3.0 * rows[:, 0]) + rows[:, 1]
    spec = AutoSpec(task="regression", budget=20, scale_targets=False)
    state, learned = learned_by(spec, rows, targets)
    whole = whole_of(spec, state, rows, learned)
    held, chosen = spec.ridge * np.eye(whole.shape[1]), int(0.9 * spec.landmarks)
    gaps = state.landmarks[:chosen, None] - state.landmarks[None, :chosen]
    kernel = np.exp(-np.sum(gaps * gaps, axis=2) / spec.bandwidth)
    held[4 : 4 + chosen, 4 : 4 + chosen] = 10.0 * spec.ridge * (kernel + 0.01 * np.eye(chosen))
    expected = whole @ np.linalg.solve(whole.T @ whole + held, whole.T @ targets)
    output_text = whole @ unpacked(state, 0).T @ state.aims[: len(state.aims) // 2, 0]
    np.testing.assert_allclose(output_text, expected, atol=1e-7)


def test_channels_along_which_targets_rise_evenly_do_not_blur_the_map() -> None:
    """The ridge over the row has them; the map's scale is for what it has not."""
    rows, _ = made(512)
    rows = rows[:, :CHANNELS]
    targets = rows[:, 0] ** 2 + 30.0 * rows[:, 1]
    state, _ = learn_all(AutoSpec(task="regression"), rows, targets)
    curved, even, _ = state.scales
    assert curved > 2.0 * even


def test_rows_that_are_learned_late_count_as_much_as_is_left_of_them() -> None:
    """The short memory while λ hardly matters, against the normal equations of weighed rows."""
    rows, names = made(560)
    spec = AutoSpec(budget=5, forgetting=0.99, ridge=1e-6)
    state, learned = learned_by(spec, rows, names)
    assert not learned.waiting
    whole = whole_of(spec, state, rows, learned)
    aims = np.array([[name == known for known in state.classes] for name in names], float)
    weighed = whole.T * spec.shorter ** np.arange(559, -1, -1)
    normal = weighed @ whole + spec.ridge * np.eye(whole.shape[1])
    expected = whole @ np.linalg.solve(normal, weighed @ aims)
    size = len(state.aims) // 2
    output_text = whole @ unpacked(state, 1).T @ state.aims[size:]
    np.testing.assert_allclose(output_text, expected, atol=1e-4)


def test_rows_that_wait_are_learned_before_their_place_is_taken() -> None:
    """A window that is full when the map is made, and no row that costs many rows' time."""
    rows, names = made(600)
    spec, learner = AutoSpec(budget=5, window=200), Auto()
    state, left = learner.begin(spec, 5, CHANNELS), []
    for n in range(len(rows)):
        state = learner.learn(spec, state, rows[n : n + 1], names[n : n + 1])
        left.append(int(state.counts[ANEW_END] - state.counts[ANEW]))
    assert left[:200] == [0] * 199 + [200 - AT_ONCE]
    expected = [max(0, 200 - AT_ONCE - EACH_TIME * n) for n in range(1, 401)]
    assert left[200:] == expected


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_ferns_take_gradient_steps_on_the_leaves_that_a_row_comes_to(task: str) -> None:
    """Against plain loops over what the state says of their tests."""
    rows, names = made(560)
    labels: Any = names if task == "classification" else rows @ [1.0, 2.0, -1.0, 0.5, 0.0]
    spec = AutoSpec(task=task, budget=5, window=2_000, scale_targets=False)
    learner, learned = Auto(), Learned()
    state = learner.begin(spec, 5, CHANNELS)
    weights = np.zeros((LEAVES * spec.ferns, 2 if task == "classification" else 1))
    squares = np.zeros(len(weights))
    for n in range(len(rows)):
        before = state
        state = learner.learn(spec, state, rows[n : n + 1], labels[n : n + 1])
        again = learned.take(n, 0, state)
        if n + 1 in (FIRST_MAP, 4 * FIRST_MAP):
            weights[:], squares[:] = 0.0, 0.0
        elif before.fern_squares.any():
            again = [n, *again]
        for place in again:
            tests = rows[place, state.fern_channels] > state.fern_thresholds
            leaves = tests.reshape(-1, FERN_TESTS) @ [8, 4, 2, 1] + LEAVES * np.arange(spec.ferns)
            values = weights[leaves].sum(axis=0)
            if task == "classification":
                chances = np.exp(values) / np.exp(values).sum()
                pushes = np.eye(2)[state.classes.index(names[place])] - chances
                square, pace = pushes @ pushes, 0.8 / math.sqrt(spec.ferns)
            else:
                pushes = labels[place] - values
                square, pace = 0.1, 1.0 / spec.ferns
            squares[leaves] = 0.99 * squares[leaves] + square
            weights[leaves] += pace / np.sqrt(1.0 + squares[leaves])[:, None] * pushes
    assert state.fern_squares.any()
    np.testing.assert_allclose(state.fern_squares, squares, atol=1e-9)
    np.testing.assert_allclose(state.fern_weights, weights, atol=1e-9)


def test_ferns_test_where_rows_differ() -> None:
    """All channels but one that is constant, at places between what its rows have."""
    rows, names = made(FIRST_MAP)
    rows[:, 1] = 7.0
    state, _ = learn_all(AutoSpec(budget=5), rows[:, :CHANNELS], names)
    for channel in range(CHANNELS):
        thresholds = state.fern_thresholds[state.fern_channels == channel]
        assert len(thresholds) > 50
        assert rows[:, channel].min() <= thresholds.min() <= thresholds.max()
        assert thresholds.max() <= rows[:, channel].max()
        assert len(set(thresholds.tolist())) == (1 if channel == 1 else len(thresholds))


def test_ferns_know_what_depends_on_channels_one_by_one() -> None:
    """An alternating step in each of two channels, which no ridge on rows sees."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1.0, 1.0, size=(3_000, 3))
    codes = np.floor(2.0 * rows[:, 0]).astype(int) % 2 ^ (rows[:, 1] > 0.0)
    state, _ = learn_all(AutoSpec(budget=5), rows, ["ab"[code] for code in codes])
    rates = state.tally[:, RIGHT] / len(rows)
    assert rates[EXPERTS.index("rows")] < 0.6
    assert rates[EXPERTS.index("ferns")] > 0.8


def kernel_of(spec: AutoSpec, state: Any, rows: FloatArray) -> FloatArray:
    """κ of rows and all landmarks, (n, m)."""
    gaps = (rows[:, :CHANNELS] * state.scales)[:, None] - state.landmarks[None]
    values: FloatArray = np.exp(-np.sum(gaps * gaps, axis=2) / spec.bandwidth)
    return values


def spread_of(state: Any, rows: FloatArray) -> float:
    """Mean squared distance of two rows in the map's scale."""
    return 2.0 * float(np.var(rows[:, :CHANNELS] * state.scales, axis=0).sum())


def test_the_map_takes_its_scale_from_the_rows() -> None:
    """At first alike of all channels; then by the mean squared slopes of the long memory."""
    rows, names = made(512)
    names = ["high" if row[0] ** 2 + 0.3 * row[1] > 0.4 else "low" for row in rows]
    spec, learner = AutoSpec(budget=20), Auto()
    first = learner.learn(
        spec, learner.begin(spec, 5, CHANNELS), rows[:FIRST_MAP], names[:FIRST_MAP]
    )
    assert len(set(first.scales.tolist())) == 1
    assert spread_of(first, rows[:FIRST_MAP]) == pytest.approx(2.0)
    before = learner.learn(spec, first, rows[FIRST_MAP:511], names[FIRST_MAP:511])
    np.testing.assert_array_equal(before.scales, first.scales)
    after = learner.learn(spec, before, rows[511:], names[511:])
    assert spread_of(after, rows) == pytest.approx(2.0)
    shares = after.scales**2 / np.sum(after.scales**2)
    # The memory has not learned the last row when slopes are taken from it; that hardly matters.
    slopes = np.zeros(CHANNELS)
    for d in range(CHANNELS):
        step = np.zeros(5)
        step[d] = 1e-5
        up, down = (map_values(spec, before, rows + sign * step) for sign in (1.0, -1.0))
        slopes[d] = np.mean(np.sum(((up - down) / 2e-5) ** 2, axis=1)[::3])
    expected = 0.9 * slopes / slopes.sum() + 0.1 / CHANNELS
    np.testing.assert_allclose(shares, expected, atol=0.02)
    assert shares[0] > 0.6 and shares[2] < 0.1


def map_values(spec: AutoSpec, state: Any, rows: FloatArray) -> FloatArray:
    """What the ridge over all coordinates of the long memory says, (n, C)."""
    kernels = kernel_of(spec, state, rows) * (np.arange(spec.landmarks) < state.met)
    whole = np.hstack([np.ones((len(rows), 1)), rows[:, :CHANNELS], kernels, rows[:, CHANNELS:]])
    values: FloatArray = whole @ unpacked(state, 0).T @ state.aims[: len(state.aims) // 2]
    return values


def test_the_map_does_not_mind_the_rows_unit() -> None:
    """Whatever they come in, landmarks are the same; by powers of 2 to the bit."""
    rows, names = made(200)
    spec = AutoSpec(budget=30)
    states = [learn_all(spec, unit * rows, names)[0] for unit in (2.0**-20, 1.0, 2.0**20)]
    for state, unit in zip(states, (2.0**-20, 1.0, 2.0**20), strict=True):
        np.testing.assert_array_equal(state.scales * unit, states[1].scales)
        np.testing.assert_array_equal(state.landmarks[:27], states[1].landmarks[:27])


@pytest.mark.parametrize("budget", [40, 150, 400])
def test_as_many_landmarks_are_met_as_were_asked_for(budget: int) -> None:
    """Of two clusters that are far apart, of which one is rare, too."""
    rng = np.random.default_rng(0)
    rows = 0.3 * rng.normal(size=(4_500, 4)) + 5.0 * (rng.random((4_500, 1)) < 0.05)
    names = ["a" if flip else "b" for flip in rng.random(4_500) < 0.5]
    state, _ = learn_all(AutoSpec(budget=budget), rows, names)
    assert state.met == budget


def test_rows_that_repeat_themselves_are_met_once() -> None:
    rows = np.tile(np.eye(3), (400, 1))
    state, _ = learn_all(AutoSpec(), rows, ["a", "b", "a"] * 400)
    assert state.met == 3


def test_the_nearest_rows_are_those_of_the_window() -> None:
    """Three experts against distances of all rows, before and behind the window's end."""
    rows, names = made(330, seed=5)
    spec, learner = AutoSpec(budget=5, window=100), Auto()
    first = EXPERTS.index("nearest rows")
    for count in (3, 90, 320):
        state, _ = learn_all_of(spec, rows[:count], names[:count])
        output_text = learner.experts(spec, state, rows[count : count + 10])[:, first : first + 3]
        known = np.array([state.classes.index(name) for name in names[:count]])[-100:]
        window = rows[:count, :CHANNELS][-100:]
        for n in range(10):
            gaps = (rows[count + n, :CHANNELS] - window) * state.scales
            squared = np.sum(gaps * gaps, axis=1)
            order = np.argsort(squared, kind="stable")[:16]
            close = ((squared[order[0]] + 1e-6) / (squared[order] + 1e-6)) ** 2
            few = np.where(np.arange(len(order)) < 4, 1.0, 0.0)
            for place, weights in enumerate((close, few, np.ones(len(order)))):
                votes = np.bincount(known[order], weights, len(state.classes)) / weights.sum()
                powers = np.exp(state.tempers[first + place, 0] * votes)
                chances = 0.999 * powers / powers.sum() + 0.001 / len(state.classes)
                np.testing.assert_allclose(output_text[n, place], chances, atol=1e-4)


NEAR_AND_FAR = (0.0, 0.1, 0.3, 0.7)


@pytest.mark.parametrize(
    "window",
    [
        np.zeros(400),
        np.resize(NEAR_AND_FAR, 400),
        np.repeat(NEAR_AND_FAR[::-1], 100),
        np.linspace(2.0, 0.0, 400),
        np.linspace(0.0, 2.0, 37),
    ],
    ids=["all alike", "in turn", "ever nearer", "each nearer than those before", "farther"],
)
def test_of_rows_as_near_those_that_stand_first_are_the_nearest(window: FloatArray) -> None:
    spec, learner = AutoSpec(budget=5, window=400), Auto()
    names = [f"c{code}" for code in np.random.default_rng(0).integers(5, size=len(window))]
    state, _ = learner.update(spec, learner.init(spec, 1), window[:, None], names)
    order = np.argsort(window, kind="stable")[:16]
    known = np.array([state.classes.index(name) for name in names])
    place = EXPERTS.index("16 nearest rows")
    output_text = learner.experts(spec, state, np.zeros((1, 1)))[0, place]
    votes = np.bincount(known[order], minlength=len(state.classes)) / 16
    powers = np.exp(state.tempers[place, 0] * votes)
    chances = 0.999 * powers / powers.sum() + 0.001 / len(state.classes)
    np.testing.assert_allclose(output_text, chances, atol=1e-9)


@pytest.mark.parametrize("classes", range(2, 22))
def test_a_ridge_of_a_class_is_the_same_whatever_other_classes_there_are(classes: int) -> None:
    """Before there is a map: what a class is to say does not depend on the others' names."""
    rng = np.random.default_rng(classes)
    rows = rng.normal(size=(100, CHANNELS)) / math.sqrt(CHANNELS)
    codes = rng.integers(classes, size=len(rows))
    state, _ = learn_all(AutoSpec(), rows, [str(code) for code in codes])
    for place, name in enumerate(state.classes):
        alone, _ = learn_all(AutoSpec(), rows, [str(str(code) == name) for code in codes])
        column = alone.classes.index("True")
        assert np.array_equal(state.aims[:, place], alone.aims[:, column])


def learn_all_of(spec: AutoSpec, rows: FloatArray, labels: Any) -> tuple[Any, Any]:
    learner = Auto()
    return learner.update(spec, learner.begin(spec, rows.shape[1], CHANNELS), rows, labels)


def test_efforts_are_sizes() -> None:
    sizes = {effort: AutoSpec(effort=effort) for effort in ("low", "default", "high")}
    landmarks = {effort: spec.landmarks for effort, spec in sizes.items()}
    assert landmarks == {"low": 60, "default": 120, "high": 300}
    kept = {effort: spec.rows_kept(12) for effort, spec in sizes.items()}
    assert kept == {"low": 512, "default": 2048, "high": 8192}
    assert {effort: spec.ferns for effort, spec in sizes.items()} == {
        "low": 24,
        "default": 64,
        "high": 256,
    }
    assert AutoSpec(effort="low", budget=7, window=9).landmarks == 7
    assert AutoSpec(effort="low", budget=7, window=9).rows_kept(500) == 9


def test_the_ridge_is_restored_while_rows_are_forgotten() -> None:
    """Rows that excite one direction only leave P bounded in the others."""
    spec = AutoSpec(budget=1, forgetting=0.95)
    rows = np.tile([[1.0, 0.0, 0.0]], (5_000, 1))
    state, _ = learn_all(spec, rows, ["a", "b"] * 2_500)
    size = len(state.aims) // 2
    factor = unpacked(state, 1)
    # Every coordinate has its turn once in 4p rows.
    inverse = factor.T @ np.diag(state.pivots[1]) @ factor
    assert np.diag(inverse).max() <= 1.0 / (spec.ridge * 0.95 ** (4 * size))


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("share", [0.0, 0.002, 0.1])
def test_the_mixture_keeps_its_bound(task: str, share: float) -> None:
    """Against every expert, and against every sequence of two that changes once."""
    rows, names = made(260)
    rng = np.random.default_rng(1)
    labels: Any = names[:130] + [["in", "out"][code] for code in rng.integers(0, 2, 130)]
    if task == "regression":
        labels = np.where(np.arange(260) < 130, rows[:, 0], 50.0 * rng.normal(size=260))
    spec = AutoSpec(task=task, budget=20, share=share)
    losses, mixed, shares, known = [], [], np.full(len(EXPERTS), 1 / len(EXPERTS)), 0
    learner = Auto()
    state = learner.begin(spec, 5, CHANNELS)
    for n in range(len(rows)):
        output_text = learner.experts(spec, state, rows[n : n + 1])[0]
        before = state
        state = learner.learn(spec, state, rows[n : n + 1], labels[n : n + 1])
        np.testing.assert_allclose(before.shares.sum(), 1.0, atol=1e-9)
        if len(state.classes) > known or (task == "regression" and before.reals[4] == 0.0):
            known = len(state.classes)
            shares = state.shares
            continue
        if task == "classification":
            loss = -np.log(output_text[:, state.classes.index(labels[n])])
        else:
            spread = before.reals[4] * before.sums[TARGET_VARIANCE]
            loss = np.minimum(25.0, (labels[n] - output_text[:, 0]) ** 2 / spread) / 16.0
        weighed = shares * np.exp(-loss)
        mixed.append(-math.log(weighed.sum()))
        losses.append(loss)
        shares = (1 - share) * weighed / weighed.sum() + share / len(EXPERTS)
        np.testing.assert_allclose(state.shares, shares, rtol=1e-6, atol=1e-12)
    table, count = np.array(losses), len(losses)
    paths = [(table.sum(axis=0).min(), 0)]
    if share:
        halves = table[: count // 2].sum(axis=0).min() + table[count // 2 :].sum(axis=0).min()
        paths.append((halves, 1))
    for best, changes in paths:
        more = math.log(len(EXPERTS)) + (changes * math.log(len(EXPERTS) / share) if share else 0)
        # Rows of a class's first label are learned from, too; they may move the shares once each.
        more += (count - 1 - changes) * -math.log(1 - share) + 2 * math.log(1e3 * len(EXPERTS))
        assert sum(mixed) <= best + more


def test_probabilities_are_probabilities_and_say_how_often_they_are_right() -> None:
    rows, names = made(3_000, seed=3)
    flipped = np.random.default_rng(4).random(len(names)) < 0.1
    labels = [
        ("out" if n == "in" else "in") if f else n for n, f in zip(names, flipped, strict=True)
    ]
    spec, learner = AutoSpec(), Auto()
    state, output_text = learner.update(spec, learner.begin(spec, 5, CHANNELS), rows, labels)
    values = learner.values(spec, state, rows[:50])
    np.testing.assert_allclose(values.sum(axis=1), 1.0, atol=1e-12)
    assert (values > 0).all()
    assert (
        output_text.score is not None
        and output_text.correct is not None
        and output_text.margin is not None
    )
    assert (output_text.score[1:] >= 0.5 - 1e-12).all() and (output_text.score <= 1).all()
    settled = slice(500, None)
    sure = output_text.score[settled] > 0.8
    # 1,500 rows and more: five deviations are .04.
    gap = output_text.correct[settled][sure].mean() - output_text.score[settled][sure].mean()
    assert sure.sum() > 1_000 and abs(gap) < 0.04


def test_the_tally_says_what_the_experts_did() -> None:
    rows, names = made(200)
    spec = AutoSpec(budget=20)
    state, output_text, predicted = one_by_one(spec, rows, names)
    right = np.zeros(len(EXPERTS))
    for n, values in enumerate(output_text):
        known = predicted[n].classes
        if n and names[n] in known[: values.shape[1]]:
            right += values.argmax(axis=1) == known.index(names[n])
    place = EXPERTS.index("last label")
    right[place] = sum(names[n] == names[n - 1] for n in range(1, len(names)))
    # A row of a new class is held against all experts when the class is known.
    assert (np.abs(state.tally[:-1, RIGHT] - right) <= 2).all()
    assert abs(state.tally[-1, RIGHT] - sum(bool(p.correct[0]) for p in predicted)) <= 2
    np.testing.assert_allclose(state.tally[:-1, WEIGHT].sum(), len(rows))
    assert (state.tally[:, LOSS] > 0).all()
    assert sum(carried(state).values()) == pytest.approx(1.0)
    assert carried(Auto().begin(spec, 5, CHANNELS)) == dict.fromkeys(EXPERTS, 0.0)


def test_the_mixture_is_near_the_best_of_its_experts() -> None:
    rows, names = made(4_000)
    learner = Auto()
    state, output_text = learner.update(
        AutoSpec(), learner.begin(AutoSpec(), 5, CHANNELS), rows, names
    )
    assert output_text.correct is not None
    rates = state.tally[:, RIGHT] / len(rows)
    assert rates[-1] >= rates[:-1].max() - 0.01
    # What it is there for: the row alone does not tell the classes.
    assert rates[-1] > rates[EXPERTS.index("rows")] + 0.2


def test_the_last_label_is_an_expert_only_where_it_is_said_to_be() -> None:
    rows = np.random.default_rng(0).normal(size=(1_000, 3))
    labels = list(itertools.chain.from_iterable([["a", "b"][n % 2]] * 50 for n in range(20)))
    place = EXPERTS.index("last label")
    for last_label, least, most in ((True, 0.95, 1.0), (False, 0.45, 0.55)):
        spec = AutoSpec(last_label=last_label, budget=10)
        state, _ = learn_all(spec, rows, labels)
        chance = Auto().experts(spec, state, rows[:1])[0, place, state.classes.index(labels[-1])]
        assert least < chance < most


def test_labels_that_follow_each_other_are_expected() -> None:
    """Three in a circle, and one that follows one of them by half."""
    rng = np.random.default_rng(0)
    labels = list(
        itertools.chain.from_iterable("abc" if flip else "abd" for flip in rng.random(500) < 0.5)
    )
    place = EXPERTS.index("last label")
    state, output_text = learn_all(AutoSpec(budget=10), rng.normal(size=(1_500, 3)), labels)
    for last, expected in (("a", {"b": 1.0}), ("b", {"c": 0.5, "d": 0.5}), ("d", {"a": 1.0})):
        after = Auto().learn(AutoSpec(budget=10), state, np.zeros((1, 3)), [last])
        chances = Auto().experts(AutoSpec(budget=10), after, np.zeros((1, 3)))[0, place]
        for name, chance in zip(state.classes, chances, strict=True):
            assert chance == pytest.approx(expected.get(name, 0.0), abs=0.08)
    assert output_text.correct is not None and output_text.correct[500:].mean() > 0.75


def test_the_mixtures_log_loss_keeps_the_bound_over_all_rows() -> None:
    rows, names = made(1_000)
    spec, learner = AutoSpec(), Auto()
    state, _ = learner.update(spec, learner.begin(spec, 5, CHANNELS), rows, names)
    losses = state.tally[:, LOSS]
    more = math.log(len(EXPERTS)) - (len(rows) - 1) * math.log(1 - spec.share)
    assert losses[-1] <= losses[:-1].min() + more


def test_channels_and_width_are_checked() -> None:
    learner = Auto()
    with pytest.raises(ConfigError, match="channels"):
        learner.begin(AutoSpec(), 3, 4)
    with pytest.raises(ConfigError, match="width"):
        learner.begin(AutoSpec(), 4_001, 4)
