"""Intervals of predictions: what follows the errors, and what share of targets it holds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.datasets import load_digits

from kerneltrack.arrays import FloatArray
from kerneltrack.in_memory import learn_all
from kerneltrack.learners import AutoSpec, HingeSpec, LearnerSpec, LMSSpec, POLKSpec, RidgeSpec
from kerneltrack.learners.common.base import ERROR_SUMS
from kerneltrack.learners.common.board import of_intervals
from kerneltrack.learners.common.label_sets import flags_of, joined, of_sets, sets_of
from kerneltrack.registry import get_learner, parse_learner_spec
from tests.oracles.learner_cases import stream
from tests.parts import lanes

SKIPPED = 100
"""Rows that are scored for nobody: the bound begins with the first error."""


def followed(errors: FloatArray, missing: float) -> FloatArray:
    """The bound before each error, by the equations of `prequential`."""
    found, log_bound, run, owed = np.full(len(errors), np.nan), 0.0, 0, 0.0
    rarity = math.sqrt(0.1 / missing)
    pace, first = min(0.2, 0.1 * rarity), 2.0 * min(1.0, 1.0 / rarity)
    longest = {
        miss: math.floor(math.log(1e-5) / math.log(chance))
        for miss, chance in ((True, missing), (False, 1.0 - missing))
    }
    for t, error in enumerate(errors):
        if t == 0:
            log_bound = math.log(error)
            continue
        found[t] = math.exp(log_bound)
        miss = bool(error > found[t])
        run = max(run, 0) + 1 if miss else min(run, 0) - 1
        times = max(1, abs(run) - longest[miss])
        log_bound += max(pace, first / math.sqrt(t)) * times * (miss - missing + owed)
        most = min(missing, 1.0 - missing) / 2.0
        owed = min(most, max(-most, owed + 0.01 * (miss - missing)))
    return found


@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.99])
def test_the_bound_follows_the_errors(coverage: float) -> None:
    spec = RidgeSpec(task="regression", intervals=coverage)
    rows, targets = stream(spec, count=600, seed=3)
    _, output_text = learn_all(spec, rows, targets)
    assert output_text.value is not None and output_text.error is not None
    assert output_text.lower is not None and output_text.upper is not None
    scored = np.flatnonzero(output_text.scored)
    expected = followed(output_text.error[scored], 1.0 - coverage)
    width = (output_text.upper - output_text.lower)[scored]
    np.testing.assert_allclose(width, 2.0 * expected, rtol=1e-6)
    known = ~np.isnan(output_text.lower)
    np.testing.assert_allclose(
        (output_text.lower + output_text.upper)[known] / 2, output_text.value[known], rtol=1e-12
    )


def made(kind: str, seed: int, count: int = 6_000) -> tuple[FloatArray, FloatArray]:
    """Rows and targets; the noise of most of them changes."""
    rng = np.random.default_rng(seed)
    rows, at = rng.normal(size=(count, 4)) / 2, np.arange(count) / count
    noise = {
        "still": rng.normal(size=count),
        "heavy tails": rng.standard_t(2, size=count),
        "jumps of size": rng.normal(size=count) * np.where((at > 0.3) & (at < 0.6), 30.0, 1.0),
        "slow growth": rng.normal(size=count) * np.exp(4 * at),
        "drift": rng.normal(size=count) + np.cumsum(rng.normal(size=count)) / 5,
        "skewed": rng.exponential(size=count),
    }[kind]
    weights = rng.normal(size=4)
    targets = rows @ weights + np.sin(4 * rows[:, 0]) + 0.3 * noise
    if kind == "drift":
        targets[count // 2 :] += 5 * rows[count // 2 :, 1]
    return rows, 1e4 + targets


KINDS = ("still", "heavy tails", "jumps of size", "slow growth", "drift", "skewed")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("coverage", lanes(0.9, 0.5, 0.8, 0.95))
@pytest.mark.parametrize(
    "kind_of", [RidgeSpec, LMSSpec, POLKSpec, AutoSpec], ids=lambda kind: kind.learner
)
def test_the_stated_share_of_targets_is_inside(
    kind: str, coverage: float, kind_of: type[LearnerSpec]
) -> None:
    spec = kind_of(task="regression", intervals=coverage)
    rows, targets = made(kind, seed=11)
    _, output_text = learn_all(spec, rows, targets)
    assert (
        output_text.lower is not None
        and output_text.upper is not None
        and output_text.error is not None
    )
    reported = ~np.isnan(output_text.lower)
    reported[np.flatnonzero(reported)[:SKIPPED]] = False
    within = of_intervals(
        coverage, output_text.lower[reported], output_text.upper[reported], targets[reported]
    )
    assert abs(within[:, 0].mean() - coverage) < 0.02
    # As good as the half width that is the best of one for all rows, known only in hindsight.
    half = float(np.quantile(output_text.error[reported], coverage))
    assert output_text.value is not None
    still = of_intervals(
        coverage,
        output_text.value[reported] - half,
        output_text.value[reported] + half,
        targets[reported],
    )
    assert within[:, 2].mean() < 1.1 * still[:, 2].mean()


@pytest.mark.parametrize("size", [1e6, 1e-6])
def test_errors_of_another_size_are_followed_soon(size: float) -> None:
    rng = np.random.default_rng(0)
    rows, targets = np.ones((6_000, 1)), rng.normal(size=6_000)
    targets[3_000:] *= size
    spec = LMSSpec(task="regression", intervals=0.9, step_size=0.01)
    _, output_text = learn_all(spec, rows, targets)
    assert output_text.lower is not None and output_text.upper is not None
    inside = (output_text.lower <= targets) & (targets <= output_text.upper)
    assert abs(inside[3_600:].mean() - 0.9) < 0.03
    assert np.median((output_text.upper - output_text.lower)[3_600:]) < 6.0 * size


def test_targets_without_errors_have_intervals_of_no_width() -> None:
    spec = RidgeSpec(task="regression", intervals=0.9)
    targets = np.full(2_000, 7.0)
    targets[1_500:] += np.random.default_rng(0).normal(size=500)
    _, output_text = learn_all(spec, np.ones((2_000, 1)), targets)
    assert output_text.lower is not None and output_text.upper is not None
    assert (output_text.lower[2:1_500] == 7.0).all() and (output_text.upper[2:1_500] == 7.0).all()
    inside = (output_text.lower <= targets) & (targets <= output_text.upper)
    assert inside[1_600:].mean() > 0.8


def drifting(kind: str, seed: int, count: int = 6_000) -> tuple[FloatArray, list[str]]:
    """Rows and classes; where they lie, or how many there are, changes."""
    rng = np.random.default_rng(seed)
    rows, at = rng.normal(size=(count, 3)), np.arange(count) / count
    turn = {"still": 0.0 * at, "turns": 3.0 * at, "jumps": np.floor(3.0 * at)}.get(kind, 0.0 * at)
    side = np.cos(turn) * rows[:, 0] + np.sin(turn) * rows[:, 1] + 0.3 * rng.normal(size=count)
    codes = (side > 0.5).astype(int) + (side > -0.5)
    if kind == "late class":
        codes[(at > 0.6) & (rows[:, 2] > 0.5)] = 3
    if kind == "noisier":
        wrong = rng.random(count) < 0.5 * at
        codes[wrong] = rng.integers(0, 3, int(wrong.sum()))
    return rows, [f"class {code}" for code in codes.tolist()]


@pytest.mark.parametrize("kind", ["still", "turns", "jumps", "late class", "noisier"])
@pytest.mark.parametrize("coverage", lanes(0.9, 0.5, 0.8, 0.95, 0.99))
@pytest.mark.parametrize(
    "kind_of", [RidgeSpec, HingeSpec, POLKSpec, AutoSpec], ids=lambda kind: kind.learner
)
def test_the_stated_share_of_labels_is_in_sets(
    kind: str, coverage: float, kind_of: type[LearnerSpec]
) -> None:
    rows, labels = drifting(kind, seed=5)
    _, output_text = learn_all(kind_of(intervals=coverage), rows, labels)
    assert output_text.members is not None and output_text.lower is None
    codes = np.array([output_text.classes.index(label) for label in labels])
    within = of_sets(output_text.members, codes)[SKIPPED:]
    assert abs(within[:, 0].mean() - coverage) < 0.02
    assert within[:, 1].mean() < len(output_text.classes)


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("coverage", lanes(0.9, 0.8, 0.95))
@pytest.mark.parametrize("kind_of", [RidgeSpec, HingeSpec, AutoSpec], ids=lambda kind: kind.learner)
def test_a_learner_that_improves_soon_does_not_hold_too_many(
    order: int, coverage: float, kind_of: type[LearnerSpec]
) -> None:
    """Odds of digits fall a thousandfold within 1,797 rows."""
    digits = load_digits()
    places = np.random.default_rng(order).permutation(len(digits.data))
    rows, codes = digits.data[places] / 16, digits.target[places]
    _, guessed = learn_all(kind_of(intervals=coverage), rows, [f"{code}" for code in codes])
    assert guessed.members is not None
    labels = np.array([guessed.classes.index(f"{code}") for code in codes])
    assert abs(of_sets(guessed.members, labels)[SKIPPED:, 0].mean() - coverage) < 0.02


@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.95])
@pytest.mark.parametrize("kind_of", [RidgeSpec, AutoSpec], ids=lambda kind: kind.learner)
def test_the_only_class_known_is_in_the_stated_share_of_sets(
    coverage: float, kind_of: type[LearnerSpec]
) -> None:
    rows, labels = drifting("still", seed=1, count=2_000)
    labels[:1_000] = ["class 0"] * 1_000
    _, guessed = learn_all(kind_of(intervals=coverage), rows, labels)
    assert guessed.members is not None
    codes = np.array([guessed.classes.index(label) for label in labels])
    within = of_sets(guessed.members, codes)[:, 0]
    assert abs(within[SKIPPED:1_000].mean() - coverage) < 0.02
    assert abs(within[1_000:].mean() - coverage) < 0.02


def test_a_set_is_of_the_likeliest_classes_by_the_bound() -> None:
    rows, labels = drifting("turns", seed=2, count=400)
    spec, learner = HingeSpec(intervals=0.8), get_learner("hinge")
    state, oddness, found = learner.begin(spec, 3, 3), [], []
    for row, label in zip(rows, labels, strict=True):
        chances = learner.probabilities(spec, state, row[np.newaxis])[0]
        known = dict(zip(state.classes, (-np.log(chances)).tolist(), strict=True))
        state, output_text = learner.update(spec, state, row[np.newaxis], [label])
        found.append(set(output_text.sets[0]))
        if known:
            oddness.append((known, known.get(label, -math.log(1e-3 / (len(known) + 1)))))
    bounds = followed(np.array([max(odd, 0.0) for _, odd in oddness if odd > 1e-12]), 0.2)
    later = [part for part in oddness if part[1] > 1e-12]
    sets = found[-len(later) :]
    for (known, _), bound, members in list(zip(later, bounds, sets, strict=True))[1:]:
        assert members == {name for name, odd in known.items() if odd <= bound}


@pytest.mark.parametrize("learner", ["polk", "bsgd", "nolana", "fogd"])
def test_rows_that_wait_for_a_bandwidth_have_one_error_each(learner: str) -> None:
    """They are learned once more when it is known: that is not another prediction of theirs."""
    given = {"warmup": 20, "budget": 12, "intervals": 0.9}
    more = {"rank": 5} if learner == "nolana" else {}
    spec = parse_learner_spec({"learner": learner, **given, **more})
    rows, labels = stream(spec, seed=4)
    fit = np.isfinite(rows).all(axis=1) & [name is not None for name in labels]
    for count in (15, 25, len(rows)):
        state, _ = learn_all(spec, rows[:count], labels[:count])
        labelled = np.count_nonzero(fit[:count])
        assert labelled > 1
        # The first class has nothing to be compared with.
        assert state.sums[1 - ERROR_SUMS] == labelled - 1


def test_flags_and_sets_are_each_others_way_back() -> None:
    flags = np.random.default_rng(0).random((7, 130)) < 0.3
    members = sets_of(flags)
    assert members.shape == (7, 3) and members.dtype == np.int64
    assert np.array_equal(flags_of(members, 130), flags)
    assert np.array_equal(flags_of(members, 200)[:, 130:], np.zeros((7, 70), np.bool_))
    more = joined([sets_of(flags[:, :3]), members])
    assert np.array_equal(flags_of(more, 130)[7:], flags)
    codes = np.array([0, 64, 129, -1, -2, 500, 1])
    held = [bool(0 <= c < 130 and row[c]) for row, c in zip(flags, codes.tolist(), strict=True)]
    assert of_sets(members, codes).tolist() == [
        [float(one), float(row.sum())] for one, row in zip(held, flags, strict=True)
    ]
