"""The reference: equations against plain NumPy, cuts, rates, kinds, channels, hostile rows."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.errors import ConfigError
from kerneltrack.monitor import reference
from kerneltrack.monitor.detector import ReferenceDetector
from kerneltrack.monitor.reference import Episode, ReferenceSpec, Scores
from samples.fleet import pumps
from tests.oracles import reference as oracle
from tests.parts import examples

Array = npt.NDArray[np.float64]

SPEC = ReferenceSpec()
GATED = ReferenceSpec(learning="gated")
UP_TO_SEEN = (
    *(reference.ZERO, reference.LAST_SURPRISE, reference.SURPRISES, reference.EPISODES),
    *(reference.STRETCHED, reference.STUCK_ROWS, reference.RECENT_ROW),
)
"""Places of counts that no rows seen so far have made larger than their number."""


def normal(seed: int, count: int, width: int = 6) -> Array:
    """Rows of a device that is well: two slow waves and noise, mixed into all channels."""
    rng = np.random.default_rng(seed)
    time = np.arange(count)[:, None]
    waves = np.hstack([np.sin(time / 17 + rng.uniform(0, 6)), np.cos(time / 5)])
    mixed = waves @ rng.normal(size=(2, width)) + 0.3 * rng.normal(size=(count, width))
    return np.asarray(mixed * rng.uniform(0.5, 5, width) + rng.uniform(-9, 9, width))


def run(spec: ReferenceSpec, rows: Array, *cuts: int) -> tuple[Any, Scores, list[Episode]]:
    """All rows in calls that end at these places."""
    state = reference.init(spec, rows[:512])
    parts, reported = [], []
    for piece in np.split(rows, cuts):
        state, scores, found = reference.update(spec, state, piece)
        parts.append(scores)
        reported += found
    fields = [field.name for field in dataclasses.fields(Scores)]
    joined = [np.concatenate([getattr(part, name) for part in parts]) for name in fields]
    return state, Scores(*joined), reported


ARRAYS = ("shares", "deviations")


def told_of(episode: Episode) -> dict[str, Any]:
    return {name: value for name, value in episode._asdict().items() if name not in ARRAYS}


def as_bytes(*arrays: Array) -> bytes:
    return b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)


@pytest.mark.sanitized
@pytest.mark.parametrize("lags", [1, 5])
def test_distances_are_those_of_the_covariance_so_far(lags: int) -> None:
    rows = normal(1, 900)
    spec = ReferenceSpec(lags=lags)
    _, scores, _ = run(spec, rows)
    assert np.isnan(scores.distance[:256]).all()
    # From each whole block on all rows before it are known.
    expected = oracle.distances(scaled(rows), lags, spec.ridge, 256, [128, 256, 384, 512])[0]
    np.testing.assert_allclose(scores.distance[256:] ** 2, expected[256:], rtol=1e-8)


def scaled(rows: Array) -> Array:
    return np.asarray((rows - rows[:512].mean(axis=0)) / rows[:512].std(axis=0))


def test_p_and_evidence_follow_the_equations() -> None:
    rows = normal(2, 1500)
    rows[1200:1210, 2] += 20
    _, scores, _ = run(SPEC, rows)
    assert np.isnan(scores.p[:512]).all()
    lags = SPEC.lags_for(6)
    angle = oracle.angles(scores.residual[256:])
    angle /= angle[:256].mean()
    surprises: list[Array] = []
    ends = [128, 256, 384, 512]
    for squares in oracle.distances(scaled(rows), lags, SPEC.ridge, 256, ends)[:, 256:]:
        distance = np.sqrt(squares)
        score = oracle.combined(distance / distance[:256].mean(), angle)
        if not surprises:
            np.testing.assert_allclose(scores.score[512:], score[256:], rtol=1e-7)
        surprises.append(oracle.surprises(score[256:], score[:256]))
    np.testing.assert_allclose(-np.log(scores.p[512:]), surprises[0], rtol=1e-6, atol=1e-9)
    weighed = oracle.limited(surprises[1], surprises[2], lags)
    # Within a block the threshold stays, so that S/h is Page's sum over it.
    start = np.flatnonzero(scores.evidence[1024:1152] == 0)[0] + 1024
    total = oracle.evidence(weighed[start - 512 : 1152 - 512], SPEC.drift, 1e9)
    ratio = total[total > 0] / scores.evidence[start:1152][total > 0]
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-6)


@pytest.mark.parametrize("learning", ["first", "gated", "auto"])
def test_a_settled_score_is_the_mean_of_forty_one(learning: str) -> None:
    rows = normal(3, 1500)
    rows[1200:1210, 2] += 20
    _, scores, _ = run(ReferenceSpec(learning=learning), rows, 700, 701, 730, 1204)
    first = int(np.isfinite(scores.score).argmax())
    assert np.isnan(scores.settled[: first + 40]).all()
    means = [scores.score[at - 40 : at + 1].mean() for at in range(first + 40, len(rows))]
    np.testing.assert_allclose(scores.settled[first + 40 :], means, rtol=1e-12)


def test_a_settled_score_knows_no_rows_before_a_restart() -> None:
    rows = normal(4, 1200)
    state, before, _ = run(SPEC, rows[:1000])
    _, after, _ = reference.update(SPEC, reference.restarted(state), rows[1000:])
    assert np.isfinite(before.settled[600:]).all()
    assert np.isnan(after.settled[:40]).all()
    np.testing.assert_allclose(after.settled[40], after.score[:41].mean(), rtol=1e-12)


def test_a_change_between_known_modes_is_no_episode() -> None:
    found = 0
    for seed in range(10):
        rows = normal(seed, 2000)
        deviation = rows.std(axis=0)
        modes = np.sign(np.sin(np.arange(2000) / 40))[:, None]
        rows += 3 * modes * deviation * np.random.default_rng(seed).normal(size=6)
        assert not run(SPEC, rows)[2]
        # A row that is in none of them, for as long, is one.
        rows[1000:1003] = rows[998] + 9 * deviation
        found += [e.kind for e in run(SPEC, rows)[2] if e.closed] == ["spike"]
    # Changes of mode raise the threshold: a few odd rows may stay below it.
    assert found >= 8


def test_a_new_normal_is_accepted_after_the_stated_time_and_not_before() -> None:
    rows = normal(4, 6000)
    rows[2000:, 2] += 10 * rows[:512, 2].std()
    rows[5000:5100, 4] += 10 * rows[:512, 4].std()
    _, scores, reported = run(SPEC, rows)
    assert [episode.state for episode in reported] == ["open"]
    spec = dataclasses.replace(SPEC, accept_after=1000)
    state, scores, reported = run(spec, rows)
    assert [episode.state for episode in reported] == ["open", "accepted", "open", "closed"]
    assert [episode.number for episode in reported] == [1, 1, 2, 2]
    accepted, last = reported[1], reported[3]
    assert 1000 <= accepted.row - accepted.opened < 1000 + reference.BLOCK
    assert accepted.closed
    assert accepted.shares.argmax() == 2
    anew = accepted.row + 1
    # As at the start: half the rows are learned unseen, then p waits for the other half.
    assert np.isnan(scores.p[anew : anew + 512]).all()
    assert np.isfinite(scores.p[anew + 512 :]).all()
    assert np.isnan(scores.distance[anew : anew + 256]).all()
    assert np.isfinite(scores.distance[anew + 256 :]).all()
    assert abs(last.start - 5000) < 10
    assert last.shares.argmax() == 4
    assert (
        reference.from_arrays(spec, reference.arrays(state)).tables.counts[reference.BEGAN] == anew
    )


ACCEPTING = ReferenceSpec(learning="gated", accept_after=200, rows=300)


@pytest.mark.sanitized
@pytest.mark.parametrize("spec", [SPEC, GATED, ACCEPTING])
@settings(max_examples=examples(10))
@given(cuts=st.lists(st.integers(0, 1500), max_size=12))
def test_cuts_change_nothing(spec: ReferenceSpec, cuts: list[int]) -> None:
    rows = normal(3, 1500)
    rows[900:1250, 1] -= 12
    whole, scores, reported = run(spec, rows)
    state, other, again = run(spec, rows, *sorted(cuts))
    for field in dataclasses.fields(Scores):
        assert as_bytes(getattr(other, field.name)) == as_bytes(getattr(scores, field.name))
    assert [told_of(e) for e in again] == [told_of(e) for e in reported]
    for name in ARRAYS:
        parts, wholes = ([getattr(e, name) for e in each] for each in (again, reported))
        assert as_bytes(*parts) == as_bytes(*wholes)
    after, expected = reference.arrays(state), reference.arrays(whole)
    assert {name: as_bytes(array) for name, array in after.items()} == {
        name: as_bytes(array) for name, array in expected.items()
    }


MINUTE = 60 * 10**9


def timed(
    spec: ReferenceSpec, rows: Array, times: npt.NDArray[np.int64], *cuts: int
) -> tuple[Any, bytes, list[Episode]]:
    """As `run`, with times: state, p's bytes, episodes."""
    state, p, reported = reference.init(spec, rows[:512]), b"", []
    for piece, stamps in zip(np.split(rows, cuts), np.split(times, cuts), strict=True):
        state, scores, found = reference.update(spec, state, piece, stamps)
        p += scores.p.tobytes()
        reported += found
    return state, p, reported


@pytest.mark.sanitized
@settings(max_examples=examples(10))
@given(cuts=st.lists(st.integers(0, 1800), max_size=12), until=st.integers(384, 1300))
def test_a_stretch_ends_at_its_time_whatever_the_cuts(cuts: list[int], until: int) -> None:
    """Its last 512 scores calibrate, and what comes in the block that is open is not learned."""
    rows, times = normal(12, 1800), np.arange(1800) * MINUTE
    rows[1500:1560, 1] -= 20
    moment = f"1970-01-01T{until // 60:02}:{until % 60:02}Z"
    spec = ReferenceSpec(rows=384, until=moment)
    whole, p, reported = timed(spec, rows, times)
    state, again, episodes = timed(spec, rows, times, *sorted(cuts))
    assert again == p
    assert [told_of(e) for e in episodes] == [told_of(e) for e in reported]
    assert as_bytes(*state.tables) == as_bytes(*whole.tables)
    found = np.frombuffer(p)
    assert np.isnan(found[:until]).all()
    assert not np.isnan(found[until:]).any()
    assert whole.tables.counts[reference.LEARNED] == until // 128 * 128
    assert whole.tables.times[reference.STRETCH_TIME] == times[until - 1]
    assert any(1400 < episode.start < 1560 for episode in reported)


def test_a_stretch_of_so_many_rows_is_one_until_the_time_after_them() -> None:
    rows, times = normal(13, 1400), np.arange(1400) * MINUTE
    _, p, reported = timed(ReferenceSpec(), rows, times)
    _, again, episodes = timed(ReferenceSpec(until="1970-01-01T08:32:00+00:00"), rows, times)
    assert again == p
    assert [told_of(e) for e in episodes] == [told_of(e) for e in reported]


@pytest.mark.sanitized
@pytest.mark.parametrize("first", [0, 200, 1000])
def test_rows_too_few_before_its_time_make_no_reference(first: int) -> None:
    """A model that began later has none, and none is made of what comes then."""
    rows, times = normal(14, 1800), (first + np.arange(1800)) * MINUTE
    spec = ReferenceSpec(until="1970-01-01T08:31:00")
    state, p, reported = timed(spec, rows, times, 100, 700)
    assert np.isnan(np.frombuffer(p)).all()
    assert not reported and not reference.ready(state)
    assert state.tables.counts[reference.SEEN] == max(511 - first, 0)
    named = reference.from_arrays(spec, reference.arrays(state))
    assert reference.update(spec, named, rows[:9], times[-1] + np.arange(9))[0].tables.counts[
        reference.SEEN
    ] == max(511 - first, 0)


@pytest.mark.sanitized
@pytest.mark.parametrize(
    ("per", "rows"), [("30 days", 43_200), ("12 hours", 720), ("720.5 minutes", 720.5)]
)
def test_a_rate_in_time_is_one_in_rows_at_the_models_pace(per: str, rows: float) -> None:
    matrix, times = normal(15, 1500), np.arange(1500) * MINUTE
    spec = ReferenceSpec(false_alarms=2, per=per)
    assert spec.rate is None and spec.needs_times
    state, p, _ = timed(spec, matrix, times)
    plain = ReferenceSpec(false_alarms=2 / rows * 1e6, per=1_000_000)
    assert plain.rate is not None
    other, same, _ = timed(plain, matrix, times)
    assert same == p
    threshold = state.tables.reals[reference.THRESHOLD]
    np.testing.assert_allclose(threshold, other.tables.reals[reference.THRESHOLD], rtol=1e-9)
    # Twice as fast, the same rate in time is half as many in rows.
    quick, _, _ = timed(spec, matrix, times // 2)
    assert quick.tables.reals[reference.THRESHOLD] > threshold
    # All at one time: no rate is too low.
    timed(spec, matrix, times * 0)


def test_a_rate_per_rows_may_be_a_bare_number() -> None:
    for per in (5000, "5000", "5000 rows", " 5000 rows"):
        spec = ReferenceSpec(per=per)
        assert spec.rate == 1 / 5000
    assert ReferenceSpec(per="5000").to_dict()["per"] == "5000 rows"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("per", value) for value in ("0 rows", "1.5 rows", "soon", "3 months", "-1", True, "")],
        *[("per", value) for value in ("0 days", "99999999999 weeks", "1e6", None, 2.5)],
        *[("until", value) for value in ("yesterday", "2026-13-01", 5, "")],
    ],
)
def test_odd_rates_and_times_are_refused(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=field):
        ReferenceSpec(**{field: value})


def test_times_that_a_spec_goes_by_must_be_there() -> None:
    for spec in (ReferenceSpec(until="2026-01-01"), ReferenceSpec(per="3 days")):
        state = reference.init(spec, normal(16, 50))
        with pytest.raises(ConfigError, match="times"):
            reference.update(spec, state, normal(16, 50))


def test_what_learns_nothing_goes_on_with_its_evidence() -> None:
    """As a reference of the kind that is kept does, whatever the spec says."""
    rows = normal(11, 2500)
    rows[2000:2100, 1] += 15
    state, _, _ = run(GATED, rows[:1024])
    assert reference.ready(state)
    assert not reference.ready(run(GATED, rows[:384])[0])
    after, scores, reported = reference.update(GATED, state, rows[1024:], learn=False)
    assert [episode.closed for episode in reported] == [False, True]
    for name in ("mean", "scatter", "whitener", "calibration"):
        assert as_bytes(getattr(after.tables, name)) == as_bytes(getattr(state.tables, name))
    kernels = [reference.KERNEL.arrays(each.kernel).values() for each in (after, state)]
    assert as_bytes(*kernels[0]) == as_bytes(*kernels[1])
    kept = dataclasses.replace(GATED, learning="first")
    np.testing.assert_array_equal(reference.update(kept, state, rows[1024:])[1].p, scores.p)
    moved = reference.update(GATED, state, rows[1024:])[0]
    assert as_bytes(moved.tables.whitener) != as_bytes(state.tables.whitener)


SIZES = {"shift": 8.0, "spike": 30.0}


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        ("shift", np.full(200, 8.0)),
        ("spike", np.full(2, 30.0)),
        ("ramp", np.linspace(0, 30, 300)),
        # Lines of C that else only drawn rows reach, and not each example of theirs.
        pytest.param("stuck", np.full(80, np.nan), marks=pytest.mark.sanitized),
    ],
)
def test_kind_since_when_and_channel(kind: str, fault: Array) -> None:
    hits, off = 0, []
    for seed in range(20):
        rows = normal(seed, 2000)
        deviation = rows[:512].std(axis=0)
        channel = seed % 6
        rows[1000 : 1000 + len(fault), channel] += fault * deviation[channel]
        rows[:, channel] = np.where(
            np.isnan(rows[:, channel]), rows[999, channel], rows[:, channel]
        )
        _, _, reported = run(SPEC, rows)
        closed = [episode for episode in reported if episode.closed and episode.row > 1000]
        assert len(closed) == 1
        (episode,) = closed
        hits += episode.kind == kind
        off.append(abs(episode.start - 1000))
        assert int(episode.shares.argmax()) == channel
        assert episode.shares.sum() == pytest.approx(1.0)
        by = float(episode.deviations[channel])
        if kind in SIZES:
            assert by == pytest.approx(SIZES[kind] * deviation[channel], rel=0.1), seed
        assert math.isnan(by) == (episode.kind == "stuck")
        assert 1000 <= episode.opened <= 1000 + len(fault) + 5
        assert episode.last >= episode.opened - 1
    assert hits >= 19
    assert np.mean(np.array(off) <= 20) >= (0.5 if kind == "ramp" else 0.95)


@pytest.mark.parametrize("many", [1, 2, 3])
def test_the_right_channels_come_first(many: int) -> None:
    right = 0
    for seed in range(40):
        rows = normal(seed, 1500, width=10)
        channels = np.random.default_rng(seed).permutation(10)[:many]
        rows[1000:1060, channels] += 5 * rows[:512].std(axis=0)[channels]
        _, _, reported = run(SPEC, rows)
        episode = next(episode for episode in reported if episode.closed and episode.row > 1000)
        right += {*np.argsort(-episode.shares)[:many].tolist()} == {*channels.tolist()}
    assert right >= 38


@pytest.mark.sanitized
def test_channels_that_others_could_stand_for_come_first() -> None:
    """Six channels of two waves: three that ramp are nearly what three others could be."""
    broken = [
        pump
        for seed in range(8)
        for pump in pumps(60, seed=seed, many=60)
        if pump.kind == "ramp" and len(pump.channels) == 3
    ]
    right = 0
    for pump in broken:
        state, _, _ = run(SPEC, pump.rows)
        episode = reference.open_episode(SPEC, state)
        assert episode is not None
        right += {*np.argsort(-episode.shares)[:3].tolist()} == {*pump.channels}
    assert len(broken) > 40
    assert right >= 0.93 * len(broken)


@pytest.mark.parametrize("turn", [32, 15_000])
def test_a_long_episodes_channels_are_those_of_all_its_rows(turn: int) -> None:
    """Few of its rows are searched; a machine's own beat, here of 64 rows, must not choose them."""
    rows = np.random.default_rng(turn).normal(size=(512 + 4 * 15_000, 5))
    second = np.arange(len(rows) - 512) // turn % 2 == 1
    rows[512:][second, 3] += 6
    rows[512:][~second, 1] += 6
    state, _, _ = run(SPEC, rows, 700, 20_000)
    episode = reference.open_episode(SPEC, state)
    assert episode is not None
    assert episode.shares[[1, 3]] == pytest.approx([0.5, 0.5], abs=0.06)


@pytest.mark.sanitized
@pytest.mark.parametrize("many", [1, 2])
def test_channels_that_only_the_residual_sees_come_first(many: int) -> None:
    """Channels that were high or low, each for itself, stand between: their ties are none."""
    right = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        rows = rng.choice([-1.0, 1.0], size=(1500, 3)) + 0.05 * rng.normal(size=(1500, 3))
        channels = rng.permutation(3)[:many]
        rows[1000:1100, channels] = 0.05 * rng.normal(size=(100, many))
        _, scores, reported = run(SPEC, rows)
        # The linear ties see nothing odd in them.
        assert np.median(scores.distance[1000:1100]) < 1.2 * np.median(scores.distance[600:1000])
        (episode,) = (episode for episode in reported if episode.closed)
        right += {*np.argsort(-episode.shares)[:many].tolist()} == {*channels.tolist()}
    assert right >= 38


@pytest.mark.parametrize("spec", [SPEC, GATED])
def test_the_stated_rate_is_kept(spec: ReferenceSpec) -> None:
    stated = dataclasses.replace(spec, false_alarms=500)
    alarms = rows = 0
    for seed in range(8):
        data = np.random.default_rng(seed).normal(size=(20_000, 5))
        _, _, reported = run(stated, data)
        alarms += sum(not episode.closed for episode in reported)
        rows += len(data) - stated.rows
    assert stated.rate is not None
    assert 0.3 < alarms / rows / stated.rate < 2


def test_a_fault_is_not_learned_and_drift_is() -> None:
    rows = normal(5, 6000)
    deviation = rows[:512].std(axis=0)
    fault = rows.copy()
    fault[3000:, 0] += 10 * deviation[0]
    for spec in (SPEC, GATED):
        _, scores, reported = run(spec, fault)
        assert scores.evidence[3100:].min() > 1
        assert [episode.closed for episode in reported] == [False]
    slow = normal(5, 40_000)
    slow += np.linspace(0, 4, len(slow))[:, None] * deviation
    p = {spec.learning: run(spec, slow)[1].p[-1000:] for spec in (SPEC, GATED)}
    assert np.median(p["first"]) < 1e-3
    assert np.median(p["gated"]) > 0.01


def test_a_state_has_the_bytes_of_the_formula() -> None:
    for width, lags, means in ((1, 5, 2), (12, 3, 2), (38, 1, 2), (70, 1, 1), (200, 1, 0)):
        state = reference.init(SPEC, np.random.default_rng(0).normal(size=(50, width)))
        columns = width * (lags + means)
        own = columns * (columns + 3) + width * (lags + means + 140) + 4250
        own = 8 * own + 256
        assert sum(array.nbytes for array in state.tables) == own


@pytest.mark.sanitized
def test_a_state_goes_on_from_its_arrays() -> None:
    rows = normal(6, 2000)
    state, _, _ = run(GATED, rows[:1000])
    again = reference.from_arrays(GATED, reference.arrays(state))
    one, two = (reference.update(GATED, each, rows[1000:])[1] for each in (state, again))
    assert as_bytes(one.p) == as_bytes(two.p)


@pytest.mark.sanitized
@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("counts", reference.SEEN, -1),
        ("counts", reference.LEARNED, 10**6),
        ("counts", reference.KEPT, 10**6),
        ("counts", reference.CALIBRATED, 513),
        ("counts", reference.EXCURSIONS, 65),
        ("counts", reference.OPENED, 10**6),
        ("counts", reference.OPENED, -2),
        ("counts", reference.BEGAN, 10**6),
        ("counts", reference.PAD, 128),
        *(("counts", place, 701) for place in UP_TO_SEEN),
        # What is whole of 700 rows, 640, and a block.
        ("counts", reference.LEARNED, 769),
        ("counts", reference.KEPT, 769),
        ("runs", 0, 2**62),
        ("longest", 1, -1),
        ("scale", 0, 0.0),
        ("kernel.counts", 1, 21),
    ],
)
def test_a_state_that_leads_astray_is_refused(name: str, place: int, value: float) -> None:
    arrays = reference.arrays(run(SPEC, normal(7, 700))[0])
    arrays[name] = arrays[name].copy()
    arrays[name][place] = value
    with pytest.raises(ConfigError, match=name.rpartition(".")[2]):
        reference.from_arrays(SPEC, arrays)


@pytest.mark.sanitized
def test_counts_at_their_limits_stay_within_them() -> None:
    spec = dataclasses.replace(GATED, rows=256)
    state, _, _ = run(spec, normal(7, 700))
    arrays = reference.arrays(state)
    for place in (*UP_TO_SEEN, reference.LEARNED, reference.KEPT):
        arrays["counts"][place] = 700
    arrays["counts"][[reference.LEARNED, reference.KEPT]] = 640 + reference.BLOCK
    arrays["good"][:] = 1
    for _ in range(4):
        state = reference.from_arrays(spec, arrays)
        state, _, _ = reference.update(spec, state, normal(8, 70))
        arrays = reference.arrays(state)
    assert arrays["counts"][reference.KEPT] > 640 + reference.BLOCK


@pytest.mark.sanitized
@settings(max_examples=examples(30))
@given(
    seed=st.integers(0, 2**32 - 1),
    scale=st.sampled_from([0.0, 1e-150, 1e-9, 1.0, 1e9, 1e150]),
    wild=st.sampled_from([0.0, 1e-300, 1e12, 1e150]),
    width=st.integers(1, 4),
)
def test_hostile_rows_give_numbers(seed: int, scale: float, wild: float, width: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(900, width)) * scale
    rows[rng.integers(0, 900, 40)] = wild
    rows[rng.integers(0, 900, 40), 0] = -wild
    state, scores, reported = run(GATED, rows)
    assert np.isfinite(scores.p[512:]).all()
    assert ((scores.p[512:] >= 0) & (scores.p[512:] <= 1)).all()
    assert np.isfinite(scores.evidence[512:]).all()
    assert all(np.isfinite(episode.shares).all() for episode in reported)
    assert all(np.isfinite(array).all() for array in reference.arrays(state).values())


@pytest.mark.sanitized
def test_bad_rows_are_refused() -> None:
    state = reference.init(SPEC, np.zeros((3, 2)))
    with pytest.raises(ConfigError, match="rows"):
        reference.update(SPEC, state, np.zeros((3, 3)))
    with pytest.raises(ConfigError, match="rows"):
        reference.update(SPEC, state, [[np.nan, 0.0]])
    with pytest.raises(ConfigError, match="first_rows"):
        reference.init(SPEC, np.zeros((0, 2)))


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"rows": 255}, "rows"),
        ({"false_alarms": 200_000.0}, "false_alarms"),
        ({"rank": 30}, "budget"),
        ({"learning": "never"}, "learning"),
        ({"drift": 1.0}, "drift"),
        ({"accept_after": 100}, "accept_after"),
    ],
)
def test_settings_out_of_range_are_refused(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        ReferenceSpec(**fields)


@pytest.mark.sanitized
def test_the_detector_goes_on_where_it_was() -> None:
    rows = normal(8, 3000)
    rows[2000:2200, 3] += 20
    detector = ReferenceDetector().fit(rows[:1000])
    scores = detector.decision_function(rows[1000:])
    odd = detector.predict(rows[1000:])
    assert scores[1010:1190].min() > detector.threshold_ > np.median(scores[:900])
    assert odd[1010:1190].all()
    assert not odd[:990].any()
    assert detector.partial_fit(rows[1000:]).episodes_[0].shares.argmax() == 3
    with pytest.raises(ConfigError, match="fitted"):
        ReferenceDetector().predict(rows)
    with pytest.raises(ConfigError, match="X"):
        ReferenceDetector().fit(rows[:100])


@pytest.mark.sanitized
def test_rows_that_follow_no_others_begin_a_block() -> None:
    rows = np.random.default_rng(4).normal(size=(900, 3))
    state = reference.init(SPEC, rows[:100])
    states = [reference.update(SPEC, state, rows[:count])[0] for count in (640, 700)]
    of_block, within = (reference.restarted(each) for each in states)
    assert [
        int(reference.next_places(each.tables.counts)) for each in (states[1], of_block, within)
    ] == [
        60,
        0,
        0,
    ]
    assert np.isnan(within.tables.rows[:4]).all()
    expected, found = (
        reference.update(SPEC, each, rows[700:], learn=False)[1] for each in (of_block, within)
    )
    for name in ("distance", "residual", "score", "p"):
        assert getattr(found, name).tobytes() == getattr(expected, name).tobytes()


def mildly_odd(seed: int = 3) -> Array:
    """Rows of which a hundred are odd together, none by itself."""
    rows = np.random.default_rng(seed).normal(size=(1000, 3))
    rows[560:660] = np.sign(rows[560:660]) * np.clip(np.abs(rows[560:660]), 1.2, 2.2)
    return rows


@pytest.mark.sanitized
@settings(max_examples=examples(30))
@given(
    seed=st.integers(0, 2**31),
    drift=st.floats(1.01, 4.0),
    faults=st.lists(st.tuples(st.integers(520, 2400), st.floats(0.3, 30.0)), max_size=4),
)
def test_an_episodes_times_are_those_of_its_rows(
    seed: int, drift: float, faults: list[tuple[int, float]]
) -> None:
    """Also where no row was odd by itself, or the last such row is of an earlier excursion."""
    rows = np.vstack([mildly_odd(seed), normal(seed, 1500, 3)])
    for row, size in faults:
        rows[row : row + 40] += size * rows[:512].std(axis=0)
    spec = ReferenceSpec(drift=drift, false_alarms=100, accept_after=400)
    times = 10**18 + np.arange(len(rows)) * 60 * 10**9
    state, _, reported = reference.update(spec, reference.init(spec, rows[:512]), rows, times)
    still = reference.open_episode(spec, state)
    for episode in [*reported, *([still] if still else [])]:
        places = episode.start, episode.opened, episode.row, episode.last
        assert episode.times == tuple(times[list(places)].tolist())
        assert episode.start <= episode.last <= episode.row
        assert episode.start <= episode.opened <= episode.row


def test_an_episode_without_a_row_that_is_odd_by_itself_ends_where_it_began() -> None:
    times = 10**18 + np.arange(1000)
    spec = ReferenceSpec(false_alarms=100)
    found = []
    for seed in range(20):
        rows = mildly_odd(seed)
        found += reference.update(spec, reference.init(spec, rows[:512]), rows, times)[2]
    mild = [episode for episode in found if episode.last == episode.start]
    assert mild
    assert all(episode.times[3] == episode.times[0] for episode in mild)
