"""What every learner promises, whatever it computes."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.errors import ConfigError
from kerneltrack.in_memory import learn_all
from kerneltrack.learners import (
    AutoSpec,
    FOGDSpec,
    LearnerSpec,
    LinearSpec,
    NOLANASpec,
)
from kerneltrack.learners.common.base import CARRIED, LEARNED
from kerneltrack.learners.kernel.spec import DictionarySpec
from kerneltrack.registry import get_learner
from kerneltrack.settings import Range, settings_of
from tests.oracles.learner_cases import (
    WIDTH,
    arrays_of,
    begun,
    columns,
    every_regressor,
    every_spec,
    round_trip,
    same_predictions,
    same_state,
    stream,
)
from tests.parts import examples

pytestmark = pytest.mark.sanitized


@every_spec
@settings(max_examples=examples(25))
@given(cuts=st.lists(st.integers(0, 200), max_size=8), seed=st.integers(0, 100))
def test_results_do_not_depend_on_how_rows_are_cut(
    spec: LearnerSpec, cuts: list[int], seed: int
) -> None:
    rows, labels = stream(spec, seed=seed)
    whole_state, whole = learn_all(spec, rows, labels)
    learner = get_learner(spec.learner)
    state, parts = learner.init(spec, WIDTH), []
    places = [0, *sorted(cuts), len(rows)]
    for start, stop in itertools.pairwise(places):
        state, output_text = learner.update(spec, state, rows[start:stop], labels[start:stop])
        parts.append(output_text)
    same_state(state, whole_state)
    same_predictions(parts, whole)


@every_spec
def test_results_do_not_depend_on_where_arrays_lie(spec: LearnerSpec) -> None:
    """A loop that sums and also writes to another array would: see `logistic`."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 10))
    labels: Any = [f"class {code}" for code in rng.integers(0, 9, 60)]
    if not spec.classifies:
        labels = rows.sum(axis=1)
    others: list[Any] = []
    expected = learn_all(spec, rows, labels)
    for _ in range(60):
        others += [np.empty(rng.integers(1, 50)) for _ in range(rng.integers(0, 8))]
        others = [others[place] for place in rng.permutation(len(others))[:100]]
        state, output_text = learn_all(spec, rows, labels)
        same_state(state, expected[0])
        same_predictions([output_text], expected[1])


@every_regressor
@pytest.mark.parametrize("factor", [1e-6, 0.02, 20.0, -3.7e8])
@pytest.mark.parametrize("moved", [0.0, 50.0, -101_325.0, 1e9])
def test_units_and_zero_of_targets_make_no_difference(
    spec: LearnerSpec, factor: float, moved: float
) -> None:
    rows, targets = stream(spec, count=300, seed=7)
    if not getattr(spec, "bias", True):
        moved = 0.0
    expected = learn_all(spec, rows, targets)[1].value
    output_text = learn_all(spec, rows, factor * targets + moved)[1].value
    assert expected is not None and output_text is not None
    # Each row rounds the target, the mean and the weights of the constant.
    spread = abs(factor) * float(np.nanstd(targets[np.isfinite(targets)]))
    rounding = len(rows) * np.finfo(float).eps * max(1.0, abs(moved) / spread)
    gaps = (output_text - moved) / factor - expected
    assert np.array_equal(np.isnan(output_text), np.isnan(expected))
    # Predictions before the second distinct target are that target.
    limit = rounding * float(np.nanmax(np.abs(expected)))
    np.testing.assert_allclose(gaps[~np.isnan(gaps)], 0.0, rtol=0, atol=limit)


@every_regressor
@pytest.mark.parametrize("level", [0.1, 101_325.0, -1e9])
def test_targets_that_are_all_the_same_are_predicted(spec: LearnerSpec, level: float) -> None:
    rows, _ = stream(spec, count=300, seed=8)
    output_text = learn_all(spec, rows, np.full(300, level))[1].value
    assert output_text is not None and getattr(spec, "bias", True)
    assert (output_text[~np.isnan(output_text)] == level).all() and np.isfinite(
        output_text[-50:]
    ).any()


def copies(arrays: dict[str, Any]) -> dict[str, Any]:
    return {name: array.copy() for name, array in arrays.items()}


@every_spec
def test_arguments_are_not_written_to(spec: LearnerSpec) -> None:
    learner, state = begun(spec)
    rows, labels = stream(spec, seed=1)
    before = rows.copy(), list(labels), state._replace(**copies(arrays_of(state)))
    output_text = learner.predict(spec, state, rows)
    said_before = copies(columns(output_text))
    learner.update(spec, state, rows, labels)
    learner.learn(spec, state, rows, labels)
    learner.score(spec, state, output_text, labels)
    np.testing.assert_array_equal(rows, before[0])
    np.testing.assert_equal(list(labels), before[1])
    same_state(state, before[2])
    for name, column in columns(output_text).items():
        np.testing.assert_array_equal(column, said_before[name])


@every_spec
def test_rows_may_be_read_only_and_lie_in_any_order(spec: LearnerSpec) -> None:
    learner, state = begun(spec)
    rows, labels = stream(spec, seed=2)
    expected = learner.update(spec, state, rows, labels)[1]
    rows.flags.writeable = False
    for same in (rows, np.asfortranarray(rows), np.repeat(rows, 2, axis=1)[:, ::2], rows.tolist()):
        same_predictions([learner.update(spec, state, same, labels)[1]], expected)
    frozen = state._replace(**copies(arrays_of(state)))
    for array in arrays_of(frozen).values():
        array.flags.writeable = False
    same_predictions([learner.update(spec, frozen, rows, labels)[1]], expected)
    output_text = learner.predict(spec, frozen, rows)
    same_predictions([output_text], learner.predict(spec, state, rows))


@every_spec
def test_predictions_that_are_scored_may_be_every_other_one(spec: LearnerSpec) -> None:
    learner, state = begun(spec)
    rows, labels = stream(spec, seed=2)
    output_text = learner.predict(spec, state, rows)
    every_other: dict[str, Any] = {name: each[::2] for name, each in columns(output_text).items()}
    half = dataclasses.replace(output_text, **every_other)
    expected = learner.score(spec, state, learner.predict(spec, state, rows[::2]), labels[::2])
    after, marked = learner.score(spec, state, half, labels[::2])
    same_state(after, expected[0])
    same_predictions([marked], expected[1])


@every_spec
def test_whole_numbers_are_as_good_as_reals(spec: LearnerSpec) -> None:
    rows, labels = stream(spec, seed=2)
    reals_of = [
        each
        for each in settings_of(type(spec)).values()
        if each.kind is float and each.default is not None
    ]
    whole: dict[str, Any] = {
        each.name: int(not isinstance(each.limits, Range) or 1 in each.limits) for each in reals_of
    }
    reals: dict[str, Any] = {name: float(value) for name, value in whole.items()}
    state, output_text = learn_all(dataclasses.replace(spec, **whole), rows, labels)
    again, expected = learn_all(dataclasses.replace(spec, **reals), rows, labels)
    same_state(state, again)
    same_predictions([output_text], expected)


@every_spec
@pytest.mark.parametrize("count", [10, 2000])
def test_bytes_are_bounded_as_documented(spec: LearnerSpec, count: int) -> None:
    _, state = begun(spec, count=count)
    classes = len(state.classes) if spec.classifies else 1
    if isinstance(spec, LinearSpec):
        size = WIDTH + int(spec.bias)
        memory = {"ridge": size * size, "pegasos": size}.get(spec.learner, 0)
        expected = classes * size + memory + 8
    elif isinstance(spec, AutoSpec):
        size = 1 + WIDTH + spec.landmarks
        rows = min(int(state.counts[LEARNED]), spec.rows_kept(WIDTH))
        assert state.met <= spec.landmarks
        lines, eights = -(-size // 4) * 4, -(-rows // 8) * 8
        expected = lines * (lines + 4) + 2 * size * (classes + 1) + (spec.landmarks + 1) * WIDTH
        expected += 8 * spec.ferns * (2 * classes + 3)
        # The window's rows are of single precision.
        expected += classes * (WIDTH + classes + 2) + rows + 800 + eights // 2 * WIDTH
    elif isinstance(spec, FOGDSpec):
        early = int(state.counts[6])
        assert early < spec.warmup
        expected = classes * spec.budget + early * (WIDTH + 1) + 12
    elif isinstance(spec, NOLANASpec):
        slots, early = spec.budget + 1, int(state.counts[6])
        assert state.size <= spec.budget and early < spec.warmup
        expected = slots * (WIDTH + 2 * spec.rank + slots + 1) + classes * spec.rank
        expected += early * (WIDTH + 1) + 13
    else:
        stored, pending, early = (int(each) for each in state.counts[4:7])
        assert isinstance(spec, DictionarySpec) and stored <= spec.budget
        assert pending < spec.rows_a_step and early < spec.warmup
        projects = getattr(spec, "maintenance", "projection") == "projection"
        expected = (stored + pending) * (WIDTH + classes) + projects * stored * (stored + 1)
        expected += early * (WIDTH + 1) + 13
    expected += (0 if spec.classifies else 2) + (0 if spec.intervals is None else 4)
    expected += classes if spec.classifies else 0
    assert sum(array.nbytes for array in arrays_of(state).values()) == 8 * expected


@every_spec
def test_a_state_survives_the_codec_mid_stream(spec: LearnerSpec) -> None:
    learner, state = begun(spec)
    restored = round_trip(spec, learner, state)
    same_state(restored, state)
    rows, labels = stream(spec, seed=3)
    after, output_text = learner.update(spec, state, rows, labels)
    again, said_again = learner.update(spec, restored, rows, labels)
    same_state(again, after)
    same_predictions([said_again], output_text)


@every_spec
def test_a_fresh_state_survives_the_codec(spec: LearnerSpec) -> None:
    learner = get_learner(spec.learner)
    state = learner.init(spec, WIDTH)
    same_state(round_trip(spec, learner, state), state)


@every_spec
def test_damaged_states_are_refused(spec: LearnerSpec) -> None:
    learner, state = begun(spec)
    arrays, header = learner.arrays(state), learner.header(state)
    for name, array in arrays.items():
        rest = {other: arrays[other] for other in arrays if other != name}
        more = np.zeros((*array.shape[:-1], array.shape[-1] + 1), array.dtype)
        for wrong in (rest, rest | {name: array[None]}, rest | {name: more}):
            if name != "weights" or wrong is rest or wrong[name] is not more:
                with pytest.raises(ConfigError):
                    learner.from_arrays(spec, wrong, header)
        with pytest.raises(ConfigError):
            learner.from_arrays(spec, rest | {name: np.zeros((), array.dtype)}, header)
    for classes in (None, ["a", "a"], [1], ["x"] * 5, ["x" * 201], "abcd"):
        with pytest.raises(ConfigError):
            learner.from_arrays(spec, arrays, {"classes": classes})


@every_spec
@pytest.mark.parametrize("scale", [0.0, 1e-300, 1e-9, 1e9, 1e100])
def test_degenerate_features_leave_everything_finite(spec: LearnerSpec, scale: float) -> None:
    learner, state = begun(spec)
    rows, labels = stream(spec, seed=4)
    rows = np.clip(np.nan_to_num(rows), -1.0, 1.0)
    if not spec.classifies:
        labels = np.where(np.arange(len(rows)) % 3 == 0, 1e100, labels)
    mixed = np.where(np.arange(len(rows))[:, None] % 2 == 0, rows, rows * scale)
    for block in (np.tile(rows[:1] * scale, (len(rows), 1)), rows * scale, mixed, rows):
        state, output_text = learner.update(spec, state, block, labels)
        assert output_text.valid.all()
        assert all(np.isfinite(array).all() for array in arrays_of(state).values())
        for name in ("score", "margin", "value"):
            column = getattr(output_text, name)
            assert column is None or np.isfinite(column).all()


@every_spec
def test_refused_rows_leave_no_trace(spec: LearnerSpec) -> None:
    learner, state = begun(spec)
    bad = np.ones((4, WIDTH))
    bad[np.arange(4), [0, 1, 2, 2]] = [np.nan, np.inf, -np.inf, 1e101]
    labels: Any = ["never seen"] * 4 if spec.classifies else np.ones(4)
    after, output_text = learner.update(spec, state, bad, labels)
    same_state(after, state)
    assert not output_text.valid.any() and not output_text.scored.any()
    assert output_text.code is None or (output_text.code == -1).all()
    assert output_text.value is None or np.isnan(output_text.value).all()


@every_spec
def test_rows_without_labels_are_predicted_only(spec: LearnerSpec) -> None:
    learner, state = begun(spec)
    rows, _ = stream(spec, seed=5)
    absent: Any = [None] * len(rows) if spec.classifies else np.full(len(rows), np.nan)
    expected = learner.predict(spec, state, rows)
    for labels in (absent, None):
        after, output_text = learner.update(spec, state, rows, labels)
        same_state(after, state)
        same_predictions([output_text], expected)
    assert not expected.scored.any()


@every_spec
def test_update_predicts_before_it_learns(spec: LearnerSpec) -> None:
    learner = get_learner(spec.learner)
    rows, labels = stream(spec)
    whole_state, whole = learn_all(spec, rows, labels)
    state, parts = learner.init(spec, WIDTH), []
    for n in range(len(rows)):
        output_text = learner.predict(spec, state, rows[n : n + 1])
        state, marked = learner.score(spec, state, output_text, labels[n : n + 1])
        state = learner.learn(spec, state, rows[n : n + 1], labels[n : n + 1])
        parts.append(dataclasses.replace(marked, classes=state.classes))
    same_state(state, whole_state)
    same_predictions(parts, whole)


@every_spec
def test_labels_that_come_late_are_scored_and_learned(spec: LearnerSpec) -> None:
    learner, state = begun(spec)
    rows, labels = stream(spec, seed=6)
    output_text = learner.predict(spec, state, rows)
    state, marked = learner.score(spec, state, output_text, labels)
    before = learner.counters(state)
    state = learner.learn(spec, state, rows, labels)
    after = learner.counters(state)
    moved = {"learned", "unusable"}
    moved |= {name for name in after if name.startswith(CARRIED)}
    assert {k: v for k, v in after.items() if k not in moved} == {
        k: v for k, v in before.items() if k not in moved
    }
    usable = [
        bool(valid) and (label is not None if spec.classifies else bool(np.isfinite(label)))
        for valid, label in zip(marked.valid, labels, strict=True)
    ]
    assert marked.scored.tolist() == usable
    # A class without a place is scored, and not learned.
    names = ("learned", "unusable") if spec.classifies else ("learned",)
    assert sum(after[name] - before[name] for name in names) == sum(usable)


@every_spec
def test_counters_add_up(spec: LearnerSpec) -> None:
    rows, labels = stream(spec)
    learner, (state, output_text) = get_learner(spec.learner), learn_all(spec, rows, labels)
    counters = learner.counters(state)
    assert counters["scored"] == output_text.scored.sum()
    if output_text.correct is not None:
        assert counters["correct"] == output_text.correct.sum() > 0
        assert (counters["squared"], counters["absolute"]) == (0.0, 0.0)
    if output_text.error is not None:
        errors = output_text.error[output_text.scored]
        assert counters["squared"] == pytest.approx((errors**2).sum(), rel=1e-12)
        assert counters["absolute"] == pytest.approx(errors.sum(), rel=1e-12)
        assert counters["unusable"] == (np.isinf(labels) & output_text.valid).sum() > 0
