"""Drift alerts: what raises them, what does not, and that only the losses decide."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save

from kerneltrack.errors import ConfigError
from kerneltrack.in_memory import run_all
from kerneltrack.monitor import drift
from kerneltrack.monitor.drift import Alerts, DriftSpec, DriftState, parse_drift_spec
from kerneltrack.trackers import OKFEBSpec
from tests.oracles import drift as oracle
from tests.oracles.streams import raw, spheroid, state_bytes
from tests.parts import examples

Array = npt.NDArray[np.float64]

NOT_NUMBERS: list[Any] = [None, True, "many", math.nan, [1.0], 10**400]
BAD: dict[str, list[Any]] = {
    "block": [0, 1001, 2.0, "10", True, None],
    "threshold": [*NOT_NUMBERS, 0.0, -1.0, math.inf],
    "delta": [*NOT_NUMBERS, -0.1, math.inf],
    "clip": [*NOT_NUMBERS, 0.75, 0.0, math.inf],
    "floor": [*NOT_NUMBERS, -0.1, math.inf],
    "memory": [199, 10_000_001, 2000.0, None],
    "settle": [19, 1_000_001, 200.0, None],
    "direction": ["sideways", None, 1],
}


def detect(spec: DriftSpec, losses: Array, first: int = 0) -> tuple[DriftState, Alerts]:
    """Run a whole array through a new detector."""
    return drift.update(spec, drift.init(spec), losses, np.arange(first, first + len(losses)))


def regimes(seed: int, count: int) -> Array:
    """Losses whose level and shape change every few hundred rows."""
    rng = np.random.default_rng(seed)
    parts: list[Array] = []
    while sum(map(len, parts)) < count:
        shape, level = rng.choice([0.5, 1.0, 4.0]), 10 ** rng.uniform(-4, 0)
        parts.append(rng.gamma(shape, level / shape, size=rng.integers(50, 900)))
    return np.concatenate(parts)[:count]


def slowly(spec: DriftSpec, losses: Array) -> Iterator[tuple[int, float, float]]:
    """Page-Hinkley by its definition, over the list of all blocks since the last alert."""
    means = [
        float(np.mean(losses[k : k + spec.block]))
        for k in range(0, len(losses) - spec.block + 1, spec.block)
    ]
    span, usual = spec.memory // spec.block, 0.0
    past: list[float] = []
    level_losses: list[float] = []
    level = spread = level_loss = 0.0
    scores: list[float] = []
    for place, loss in enumerate(means):
        usual += (loss - usual) / min(place + 1, 5000)
        y = math.sqrt(loss)
        if len(past) >= spec.settle // spec.block:
            least = spec.floor * math.sqrt(usual)
            u = (y - level) / max(math.sqrt(math.pi / 2) * spread, least)
            scores.append(min(max(u, -spec.clip), spec.clip))
            number = 1 + np.arange(len(scores))
            gaps = np.array(scores) - np.cumsum(scores) / number
            rises = np.cumsum(gaps) - spec.delta * number
            falls = np.cumsum(gaps) + spec.delta * number
            rise, fall = rises[-1] - rises.min(), falls.max() - falls[-1]
            if max(rise, fall) > spec.threshold:
                sums = rises == rises.min() if rise >= fall else falls == falls.max()
                onset = int(np.flatnonzero(sums)[-1])
                since = means[place - len(scores) + 2 + onset : place + 1]
                yield (place + 1) * spec.block - 1, level_losses[onset], float(np.mean(since))
                past, scores, level_losses = [], [], []
                level = spread = level_loss = 0.0
                continue
        past.append(y)
        if len(past) > 1:
            spread += (abs(y - level) - spread) / min(len(past) - 1, span)
        level += (y - level) / min(len(past), span)
        level_loss += (loss - level_loss) / min(len(past), span)
        if scores:
            level_losses.append(level_loss)


def test_a_rise_is_found_with_its_levels() -> None:
    """By hand: the settled losses are constant, so the floor is the spread and u is clipped at 3.

    The k-th block after the change adds 3 - 3k/(80 + k) - 0.75 to the sum: 2.21, 2.18, 2.14, and
    6.53 > 6.
    """
    losses = np.repeat([0.25, 1.0], 1000)
    _, alerts = detect(DriftSpec(), losses, first=7)
    assert alerts.position.tolist() == [1029]
    assert alerts.index.tolist() == [1036]
    np.testing.assert_allclose(alerts.before, [0.25], rtol=1e-12)
    np.testing.assert_allclose(alerts.after, [1.0], rtol=1e-12)
    assert alerts.position.dtype == alerts.index.dtype == np.int64


def test_a_threshold_is_met_when_it_is_exceeded_and_not_before() -> None:
    losses = np.repeat([0.25, 1.0], 1000)
    total = sum(3 - 3 * k / (80 + k) - 0.75 for k in (1, 2, 3))
    for threshold, found in ((total - 1e-9, 1029), (total + 1e-9, 1039)):
        assert detect(DriftSpec(threshold=threshold), losses)[1].position[0] == found


@settings(max_examples=examples(25))
@given(
    seed=st.integers(0, 2**32 - 1),
    block=st.integers(1, 30),
    settled=st.integers(2, 30),
    memory=st.integers(1, 5),
    floor=st.sampled_from([0.0, 0.15]),
)
def test_alerts_are_those_of_the_definition(
    seed: int, block: int, settled: int, memory: int, floor: float
) -> None:
    settle = block * settled
    spec = DriftSpec(block=block, settle=settle, memory=memory * settle, floor=floor)
    losses = regimes(seed, 150 * block)
    _, alerts = detect(spec, losses)
    expected = list(slowly(spec, losses))
    assert alerts.position.tolist() == [place for place, _, _ in expected]
    np.testing.assert_allclose(alerts.before, [level for _, level, _ in expected], rtol=1e-9)
    np.testing.assert_allclose(alerts.after, [level for _, _, level in expected], rtol=1e-9)


@settings(max_examples=examples(25))
@given(cuts=st.lists(st.integers(0, 3000), max_size=8), seed=st.integers(0, 100))
def test_results_do_not_depend_on_how_rows_are_cut(cuts: list[int], seed: int) -> None:
    """Bit for bit, and each call continues from bytes."""
    spec, losses = DriftSpec(), np.append(regimes(seed, 1500), np.repeat([0.01, 1.0], 750))
    whole, alerts = detect(spec, losses, first=5)
    state, found = drift.init(spec), []
    for start, stop in itertools.pairwise([0, *sorted(cuts), len(losses)]):
        state = drift.from_arrays(spec, load(save(drift.arrays(state))))
        index = np.arange(5 + start, 5 + stop)
        state, part = drift.update(spec, state, losses[start:stop], index)
        assert (part.index == index[part.position]).all()
        found.append(part)
    assert state_bytes(state) == state_bytes(whole)
    for name in ("index", "before", "after"):
        assert raw(np.concatenate([getattr(part, name) for part in found])) == raw(
            getattr(alerts, name)
        )
    assert len(alerts.index) > 0


def same_as_rivers(spec: DriftSpec, losses: Array) -> int:
    """Compare state and alerts with river's bit by bit; how many alerts there were."""
    state, alerts = detect(spec, losses)
    expected, found = oracle.run(spec, losses)
    assert state_bytes(state) == state_bytes(expected)
    assert alerts.position.tolist() == [place for place, _, _ in found]
    assert raw(alerts.before) == raw(np.array([level for _, level, _ in found]))
    assert raw(alerts.after) == raw(np.array([level for _, _, level in found]))
    return len(found)


@pytest.mark.parametrize("direction", ["both", "up", "down"])
@pytest.mark.parametrize("values", [{}, {"block": 1, "settle": 20}, {"block": 7, "floor": 0.0}])
def test_page_hinkley_is_rivers_to_the_bit(direction: str, values: dict[str, Any]) -> None:
    spec = DriftSpec(direction=direction, **values)
    assert sum(same_as_rivers(spec, regimes(seed, 6000 + seed)) for seed in range(3)) > 0


def test_page_hinkley_is_rivers_on_a_trackers_losses() -> None:
    rng = np.random.default_rng(3)
    rows = [spheroid(rng, 1500, axis=place % 2) for place in range(6)]
    _, features = run_all(OKFEBSpec(emit="q"), np.vstack(rows))
    assert same_as_rivers(DriftSpec(), np.maximum(features.loss, 0.0)) > 0


def test_row_by_row_is_the_same() -> None:
    spec, losses = DriftSpec(block=7), regimes(3, 2000)
    whole, alerts = detect(spec, losses)
    state, found = drift.init(spec), []
    for place, loss in enumerate(losses):
        state, part = drift.update(spec, state, [loss], [place])
        found += part.index.tolist()
    assert state_bytes(state) == state_bytes(whole)
    assert found == alerts.index.tolist() != []


@pytest.mark.parametrize("power", [-100, 100])
def test_alerts_do_not_depend_on_the_unit_of_the_loss(power: int) -> None:
    """Times a power of four every number of the detector is the same but for its exponent."""
    losses, scale = regimes(1, 20_000), 4.0**power
    _, small = detect(DriftSpec(), losses)
    _, large = detect(DriftSpec(), losses * scale)
    assert large.position.tolist() == small.position.tolist() != []
    assert raw(large.before) == raw(small.before * scale)
    assert raw(large.after) == raw(small.after * scale)


def test_direction_says_which_changes_count() -> None:
    losses = np.repeat([0.25, 1.0, 0.25], 1000)
    found = {
        direction: detect(DriftSpec(direction=direction), losses)[1]
        for direction in ("both", "up", "down")
    }
    assert {name: alerts.position.tolist() for name, alerts in found.items()} == {
        "both": [1029, 2029],
        "up": [1029],
        # Without an alert at 1029 level and spread know both regimes.
        "down": [2039],
    }
    np.testing.assert_allclose(found["both"].before, [0.25, 1.0])
    np.testing.assert_allclose(found["both"].after, [1.0, 0.25])


def test_there_is_quiet_after_an_alert() -> None:
    """It waits until level and spread are learnt; the shortest wait is not much longer."""
    losses = regimes(6, 60_000)
    for settle in (50, 200, 1000):
        _, alerts = detect(DriftSpec(settle=settle), losses)
        shortest = np.diff(alerts.position, prepend=-1).min()
        assert settle < shortest <= settle + 200


def test_one_outlier_raises_no_alert_and_three_blocks_do() -> None:
    losses = np.random.default_rng(0).gamma(2, 0.05, size=3000)
    assert len(detect(DriftSpec(), losses)[1].index) == 0
    losses[1500] = 1e6
    assert len(detect(DriftSpec(), losses)[1].index) == 0
    losses[1500:1530] = 1e6
    assert detect(DriftSpec(), losses)[1].index[0] == 1529


def test_a_change_counts_by_the_losses_usual_for_the_model() -> None:
    """Fourfold is nothing while losses of 1 are within the last 5,000 blocks, later it is much."""
    for calm, found in ((1000, 1), (100_000, 2)):
        losses = np.repeat([1.0, 1e-4, 4e-4], [1000, calm, 1000])
        assert len(detect(DriftSpec(block=1), losses)[1].index) == found


@pytest.mark.parametrize("value", [0.0, 1e-320, 0.3, 1.7e308])
def test_constant_losses_raise_none(value: float) -> None:
    state, alerts = detect(DriftSpec(), np.full(50_000, value))
    assert len(alerts.index) == 0
    assert not np.isnan(state.reals).any()


def test_losses_below_zero_by_rounding_count_as_zero() -> None:
    state, alerts = detect(DriftSpec(), np.tile([-1e-17, 0.0], 1000))
    assert len(alerts.index) == 0
    assert state_bytes(state) == state_bytes(detect(DriftSpec(), np.zeros(2000))[0])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("floor", [0.0, 0.15])
def test_huge_losses_are_held(floor: float) -> None:
    losses = np.concatenate([np.zeros(1000), np.tile([0.0, 1.7e308], 1000), np.full(1000, 1e-300)])
    state, alerts = detect(DriftSpec(floor=floor), losses)
    assert alerts.index.tolist() == [1029, 3029]
    np.testing.assert_allclose(alerts.before, [0, 0.85e308])
    np.testing.assert_allclose(alerts.after, [0.85e308, 1e-300])
    assert not np.isnan(state.reals).any()


@pytest.mark.parametrize("block", [1, 10, 1000])
def test_the_state_does_not_grow(block: int) -> None:
    spec = DriftSpec(block=block, settle=2 * block, memory=50 * block)
    losses = np.repeat([0.1, 0.9], 20_000)
    fresh, (state, alerts) = drift.init(spec), detect(spec, losses)
    assert len(alerts.index) > 0
    for held in (fresh, state):
        assert sum(array.nbytes for array in drift.arrays(held).values()) == 8 * (block + 19)


def test_nothing_is_written_to() -> None:
    spec, losses = DriftSpec(), regimes(4, 1234)
    state, _ = detect(spec, losses)
    kept, index = state_bytes(state), np.arange(1234)
    for array in (*state, losses, index):
        array.flags.writeable = False
    drift.update(spec, state, losses, index)
    assert state_bytes(state) == kept


def test_a_call_without_rows_changes_nothing() -> None:
    spec = DriftSpec()
    state, _ = detect(spec, regimes(5, 777))
    after, alerts = drift.update(spec, state, [], [])
    assert state_bytes(after) == state_bytes(state)
    assert [array.shape for array in (alerts.position, alerts.before)] == [(0,), (0,)]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_losses_that_are_not_finite_are_refused(bad: float) -> None:
    with pytest.raises(ConfigError, match="losses = 'NaN or infinite values': must be finite"):
        detect(DriftSpec(), np.array([0.1, bad]))


@pytest.mark.parametrize(("losses", "index"), [([0.1], [1, 2]), ([[0.1]], [[1]]), (0.1, 1)])
def test_other_shapes_are_refused(losses: Any, index: Any) -> None:
    spec = DriftSpec()
    with pytest.raises(ConfigError, match="losses = "):
        drift.update(spec, drift.init(spec), losses, index)


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field, values in BAD.items() for value in values]
)
def test_bad_values_are_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"^{field} = "):
        DriftSpec(**{field: value})


def test_specs_come_from_plain_values_and_go_back() -> None:
    spec = DriftSpec(threshold=8, delta=1, direction="up")
    assert spec == parse_drift_spec(json.loads(json.dumps(spec.to_dict())))
    assert json.dumps(spec.to_dict()) == json.dumps(
        parse_drift_spec({"threshold": 8.0, "delta": "1e0", "direction": "up"}).to_dict()
    )
    assert parse_drift_spec({}) == DriftSpec()
    with pytest.raises(ConfigError, match=r"did you mean 'threshold'\?"):
        parse_drift_spec({"treshold": 8.0})
    with pytest.raises(ConfigError, match=r"^drift = 'adwin': must be one of page_hinkley$"):
        parse_drift_spec({"drift": "adwin"})


def test_arrays_of_another_state_are_refused() -> None:
    spec, good = DriftSpec(), drift.arrays(drift.init(DriftSpec()))
    for bad in (
        {name: array for name, array in good.items() if name != "reals"},
        good | {"more": np.zeros(1)},
        good | {"reals": np.zeros(5)},
        drift.arrays(drift.init(DriftSpec(block=11))),
    ):
        with pytest.raises(ConfigError, match="drift"):
            drift.from_arrays(spec, bad)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_changes_of_the_two_spheroids_are_found(seed: int) -> None:
    """Each of eight within 100 rows; at most one alert in 10,000 static rows."""
    rng = np.random.default_rng(seed)
    counts = [12_000] + [2000] * 8
    rows = [spheroid(rng, count, axis=place % 2) for place, count in enumerate(counts)]
    _, features = run_all(OKFEBSpec(emit="q", seed=seed), np.vstack(rows))
    found = detect(DriftSpec(), features.loss)[1].index
    changes = np.cumsum(counts)[:-1]
    assert ((found >= 2000) & (found < 12_000)).sum() <= 1
    assert [bool(((found >= row) & (found < row + 100)).any()) for row in changes] == [True] * 8
