"""The learner that chooses for itself: its ridges, its mixture, its bound."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kerneltrack.errors import ConfigError
from kerneltrack.in_memory import learn_all
from kerneltrack.learners import Auto, AutoSpec, RidgeSpec
from kerneltrack.learners.auto.learner import (
    EXPERTS,
    LOSS,
    MAPPED,
    RIGHT,
    WEIGHT,
    carried,
    places,
)
from kerneltrack.learners.common.base import TARGET_VARIANCE
from kerneltrack.registry import get_learner

FloatArray = npt.NDArray[np.float64]
CHANNELS, FEATURES = 3, 2


def made(count: int, seed: int = 0) -> tuple[FloatArray, list[str]]:
    """Rows whose class the map sees and the row does not, with features beside that know little."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, CHANNELS)) / math.sqrt(CHANNELS)
    labels = ["in" if row @ row < 0.8 else "out" for row in rows]
    return np.hstack([rows, 0.1 * rng.normal(size=(count, FEATURES))]), labels


def one_by_one(
    spec: AutoSpec, rows: FloatArray, labels: Any, channels: int = CHANNELS
) -> tuple[Any, list[FloatArray], list[Any]]:
    """Return the last state, what all experts said of each row before it was learned, and more."""
    learner = Auto()
    state, said, predicted = learner.begin(spec, rows.shape[1], channels), [], []
    for n in range(len(rows)):
        said.append(learner.experts(spec, state, rows[n : n + 1])[0])
        state, one = learner.update(spec, state, rows[n : n + 1], labels[n : n + 1])
        predicted.append(one)
    return state, said, predicted


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


def test_the_map_is_as_if_it_had_been_there_at_the_first_row() -> None:
    """The whole memory against the normal equations; landmarks that are met later were 0 before."""
    rows, names = made(300)
    spec = AutoSpec(budget=20, gamma=0.5)
    learner = Auto()
    state = learner.begin(spec, 5, CHANNELS)
    kernels = np.zeros((len(rows), 20))
    began = 0
    for n in range(len(rows)):
        met = state.met if state.counts[MAPPED] else 0
        kernels[n, :met] = 1.0
        state = learner.learn(spec, state, rows[n : n + 1], names[n : n + 1])
        if state.counts[MAPPED] and not began:
            began = n + 1
            kernels[:began, : state.met] = 1.0
    assert 15 <= began <= 256 and state.met >= 15
    gaps = rows[:, None, :CHANNELS] - state.landmarks[None]
    kernels *= np.exp(-np.sum(gaps * gaps, axis=2) / spec.gamma)
    whole = np.hstack([np.ones((len(rows), 1)), rows[:, :CHANNELS], kernels, rows[:, CHANNELS:]])
    aims = np.array([[name == known for known in state.classes] for name in names], float)
    normal = whole.T @ whole + spec.ridge * np.eye(whole.shape[1])
    expected = whole @ np.linalg.solve(normal, whole.T @ aims)
    size = len(state.aims) // 2
    along = unpacked(state, 0)
    np.testing.assert_allclose(whole @ along.T @ state.aims[:size], expected, atol=1e-7)


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
        said = learner.experts(spec, state, rows[n : n + 1])[0]
        before = state
        state = learner.learn(spec, state, rows[n : n + 1], labels[n : n + 1])
        np.testing.assert_allclose(before.shares.sum(), 1.0, atol=1e-9)
        if len(state.classes) > known or (task == "regression" and before.reals[4] == 0.0):
            known = len(state.classes)
            shares = state.shares
            continue
        if task == "classification":
            loss = -np.log(said[:, state.classes.index(labels[n])])
        else:
            spread = before.reals[4] * before.sums[TARGET_VARIANCE]
            loss = 0.5 * np.minimum(25.0, (labels[n] - said[:, 0]) ** 2 / spread)
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
    state, said = learner.update(spec, learner.begin(spec, 5, CHANNELS), rows, labels)
    values = learner.values(spec, state, rows[:50])
    np.testing.assert_allclose(values.sum(axis=1), 1.0, atol=1e-12)
    assert (values > 0).all()
    assert said.score is not None and said.correct is not None and said.margin is not None
    assert (said.score[1:] >= 0.5 - 1e-12).all() and (said.score <= 1).all()
    settled = slice(500, None)
    sure = said.score[settled] > 0.8
    # 1,500 rows and more: five deviations are .04.
    gap = said.correct[settled][sure].mean() - said.score[settled][sure].mean()
    assert sure.sum() > 1_000 and abs(gap) < 0.04


def test_the_tally_says_what_the_experts_did() -> None:
    rows, names = made(200)
    spec = AutoSpec(budget=20)
    state, said, predicted = one_by_one(spec, rows, names)
    right = np.zeros(len(EXPERTS))
    for n, values in enumerate(said):
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
    state, said = learner.update(AutoSpec(), learner.begin(AutoSpec(), 5, CHANNELS), rows, names)
    assert said.correct is not None
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
