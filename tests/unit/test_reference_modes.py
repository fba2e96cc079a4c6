"""Modes of a reference that moves: sums of each, cuts, faults within one, room, states."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneltrack as kt
from kerneltrack.arrays import IntArray
from kerneltrack.errors import ConfigError
from kerneltrack.fleet.begin import begin
from kerneltrack.fleet.model import Work
from kerneltrack.fleet.run import run_rows
from kerneltrack.fleet.states import encode
from kerneltrack.monitor import reference
from kerneltrack.monitor.quiet import QuietTime, QuietTimes
from kerneltrack.monitor.reference import AUTO, BLOCK, Episode, ReferenceSpec, Scores, paces
from kerneltrack.monitor.reference import block as references
from kerneltrack.monitor.reference.state import (
    MODE_FIRST,
    MODE_LEARNED,
    MODE_MADE,
    MODE_NOW,
    MODE_ROWS,
    MODE_SORTED,
    MODE_UNPLACED,
    MODE_WAITING,
)
from kerneltrack.number_texts import name_code
from tests.parts import examples
from transforms.read.numbers import Numbers, values_of

Array = npt.NDArray[np.float64]

SPEC = ReferenceSpec(
    learning=AUTO, rows=256, memory="1024 rows", season="none", mode=3, max_modes=3, gap="none"
)
MINUTE = 60 * 10**9


def modes_in_turn(rng: np.random.Generator, count: int, modes: int) -> IntArray:
    """The mode of each row: stretches of 15 to 90 rows."""
    lengths = rng.integers(15, 90, count // 15 + 1)
    return np.asarray(np.repeat(rng.integers(modes, size=len(lengths)), lengths)[:count])


def made(seed: int, count: int, modes: int = 3, codes: tuple[float, ...] = ()) -> Array:
    """Rows of a device whose channels have another level and other ties in each mode."""
    rng = np.random.default_rng(seed)
    mode = modes_in_turn(rng, count, modes)
    level, ties = rng.normal(size=(modes, 3)) * 5, rng.normal(size=(modes, 3))
    load = np.sin(np.arange(count) / 17)
    x = level[mode] + ties[mode] * load[:, None] + 0.2 * rng.normal(size=(count, 3))
    return np.column_stack([x, np.array(codes or range(modes), np.float64)[mode]])


def clock(count: int) -> IntArray:
    return 1_772_409_600 * 10**9 + 10 * MINUTE * np.arange(count)


def run(spec: ReferenceSpec, rows: Array, *cuts: int) -> tuple[Any, Scores, list[Episode]]:
    """All rows in calls that end at these places."""
    state, parts, reported = reference.init(spec, rows[:256]), [], []
    for piece, times in zip(np.split(rows, cuts), np.split(clock(len(rows)), cuts), strict=True):
        state, scores, found = reference.update(spec, state, piece, times)
        parts.append(scores.columns)
        reported += found
    return state, Scores(*map(np.concatenate, zip(*parts, strict=True))), reported


def test_each_mode_has_sums_of_its_own() -> None:
    """The mean of the row and its lags: as many as are looked at are spared as a mode begins."""
    rows, lags = made(1, 8 * BLOCK), SPEC.lags_for(4)
    tables = run(SPEC, rows)[0].tables
    scaled = rows / tables.scale - tables.shift
    scaled[:, 3] = 0.0
    turns = np.r_[0, np.flatnonzero(np.diff(rows[:, 3])) + 1]
    since = np.arange(len(rows)) - turns[np.searchsorted(turns, np.arange(len(rows)), "right") - 1]
    size = len(tables.mean) // 3
    for place, code in enumerate(tables.codes[:3].tolist()):
        numbers = tables.modes[place]
        assert numbers[MODE_ROWS] == (rows[:, 3] == code).sum()
        assert numbers[MODE_FIRST] == np.flatnonzero(rows[:, 3] == code)[0]
        good = np.flatnonzero((rows[:, 3] == code) & (since >= lags))
        assert numbers[MODE_LEARNED] + numbers[MODE_WAITING] == len(good)
        learned = good[: numbers[MODE_LEARNED]]
        before = np.concatenate([scaled[learned - lag] for lag in range(lags)], axis=1)
        mean = tables.mean[place * size : place * size + 4 * lags]
        np.testing.assert_allclose(mean, before.mean(axis=0), atol=1e-10)
    assert not tables.mean.reshape(3, size)[:, 3::4].any()


@settings(max_examples=examples(10))
@given(
    seed=st.integers(0, 2**31),
    cuts=st.lists(st.integers(0, 2500), max_size=12),
    modes=st.integers(1, 5),
    causes=st.sampled_from([(), (1,)]),
)
def test_cuts_change_no_bit(
    seed: int, cuts: list[int], modes: int, causes: tuple[int, ...]
) -> None:
    rows = made(seed, 2500, modes)
    rows[1900:1960, 0] += 4
    fields: dict[str, Any] = {"gap": "12 hours", "season": "day", "false_alarms": 100}
    spec = dataclasses.replace(SPEC, causes=causes, **fields)
    whole, scores, reported = run(spec, rows)
    state, others, also = run(spec, rows, *sorted(cuts))
    for one, two in zip(scores.columns, others.columns, strict=True):
        assert one.tobytes() == two.tobytes()
    for name, array in reference.arrays(whole).items():
        assert array.tobytes() == reference.arrays(state)[name].tobytes(), name
    assert repr(reported) == repr(also)
    # So does a state that was written in between, and so do many side by side.
    at = sorted(cuts)[0] if cuts else 1000
    half, _, _ = reference.update(spec, reference.init(spec, rows[:256]), rows[:at], clock(at))
    again = paces.unpack(spec, 4, paces.pack(spec, half))
    after, _, _ = reference.update(spec, again, rows[at:], clock(2500)[at:])
    assert paces.pack(spec, after) == paces.pack(spec, whole)
    starts, stops = np.array([0, 2500]), np.array([2500, 5000])
    blocks = references.begin(spec, np.vstack([rows, rows]), starts, starts + 256)
    stamps = np.tile(clock(2500), 2)
    references.go_on(spec, blocks, np.vstack([rows, rows]), starts, stops, stamps)
    columns = references.columns_of(spec, 4, blocks)
    for name, array in reference.arrays(whole).items():
        for model in (0, 1):
            np.testing.assert_array_equal(columns[name][model], array, name)


def test_a_fault_within_one_mode_is_found_by_modes_alone_and_never_blamed_on_them() -> None:
    spec = dataclasses.replace(SPEC, rows=512, memory="4032 rows")
    plain = dataclasses.replace(spec, mode=None, max_modes=4)
    found = {"modes": 0, "channel": 0, "falsely": 0}
    for seed in range(4):
        rows = made(seed, 12_000)
        rows[10_000:10_600, 1] += 1.5 * (rows[10_000:10_600, 3] == 1)
        reported = [episode for episode in run(spec, rows)[2] if episode.closed]
        during = [episode for episode in reported if 10_000 <= episode.opened < 10_600]
        found["modes"] += bool(during)
        found["falsely"] += len(reported) - len(during)
        assert all(int(episode.shares.argmax()) == 1 for episode in during)
        assert all(episode.shares[3] == 0.0 for episode in reported)
        seen = run(plain, rows)[2]
        found["channel"] += any(10_000 <= episode.opened < 10_600 for episode in seen)
    assert found["modes"] >= 3
    assert found["falsely"] <= 1
    assert found["channel"] < found["modes"]


def test_what_the_modes_are_called_changes_nothing() -> None:
    one = run(SPEC, made(3, 3000))
    other = run(SPEC, made(3, 3000, codes=(7.0, -2.0, name_code("heating"))))
    for a, b in zip(one[1].columns, other[1].columns, strict=True):
        assert a.tobytes() == b.tobytes()


def test_rows_of_modes_without_a_place_have_no_p_and_are_counted() -> None:
    rows = made(4, 6000, modes=5)
    state, scores, _ = run(SPEC, rows)
    known = np.isin(rows[:, 3], state.tables.codes[:3])
    assert state.tables.modes[-1, MODE_UNPLACED] == (~known).sum() > 0
    assert np.isnan(scores.p[~known]).all()
    assert np.isfinite(scores.p[known][-1000:]).all()
    assert state.tables.codes[3] not in state.tables.codes[:3]


def test_a_mode_that_comes_late_is_judged_after_a_memory() -> None:
    rows = made(5, 9000, modes=3)
    rows[: 9000 // 2][rows[: 9000 // 2, 3] == 2] = rows[0]
    first = int(np.flatnonzero(rows[:, 3] == 2)[0])
    assert first >= 4500
    rows[first + 300 : first + 400, 0] += 50 * (rows[first + 300 : first + 400, 3] == 2)
    state, scores, reported = run(SPEC, rows)
    assert not any(first <= episode.opened < first + 1024 for episode in reported)
    assert state.tables.modes[2, MODE_MADE] == 1
    late = np.flatnonzero(rows[:, 3] == 2)
    assert np.isnan(scores.p[late[:256]]).all()
    assert np.isfinite(scores.p[late[-1]])


def test_the_tracker_does_not_see_the_mode() -> None:
    spec = kt.OKFEBSpec(rank=3, budget=6)
    found = []
    for codes in ((0.0, 1.0, 2.0), (name_code("off"), 5e9, -3.0)):
        rows = made(6, 600, codes=codes)
        work = Work(spec=spec, reference=SPEC)
        model = begin(work, "a", rows[:20])
        _, results = run_rows(work, "a", model, rows, clock(600), 0)
        z = results.features.z
        assert results.scores is not None
        assert z is not None
        found.append((z.tobytes(), results.scores.p.tobytes()))
    assert found[0] == found[1]


def test_rows_of_missing_modes_are_refused() -> None:
    work = Work(spec=kt.OKFEBSpec(rank=3, budget=6), reference=SPEC)
    rows = made(6, 400)
    rows[100, 3] = np.nan
    _, results = run_rows(work, "a", begin(work, "a", rows[:20]), rows, clock(400), 0)
    assert np.flatnonzero(~results.features.valid).tolist() == [100]


def test_texts_are_names_and_numbers_are_themselves() -> None:
    names = Numbers(words=("*",))
    values, wrong = values_of(pa.array(["off", " off ", "2", "2.0", None, "", "on"]), names)
    assert not wrong.any()
    assert values[0] == values[1] == name_code("off") != values[6]
    assert values[2] == values[3] == 2.0
    assert np.isnan(values[4:6]).all()
    assert values[0] == int(values[0]) < 2**53


def test_a_fleet_takes_a_column_of_texts() -> None:
    rows = made(7, 2500)
    modes = np.array(["off", "heat", "clean"])[rows[:, 3].astype(int)]
    frame = pl.DataFrame({"device": ["a"] * 2500, "u": rows[:, 0], "v": rows[:, 1], "mode": modes})
    spec = dataclasses.replace(SPEC, mode="mode")
    some = kt.Fleet(reference=spec)
    features = some.update(frame, model_id="device")
    assert some.reference is not None
    assert some.reference.to_dict()["mode"] == 2
    by_number = kt.Fleet(reference=spec)
    numbers = frame.with_columns(mode=pl.Series(rows[:, 3]))
    assert by_number.update(numbers, model_id="device")["p"].equals(features["p"])
    assert features["p"].null_count() < 2500


def test_a_state_has_the_bytes_of_the_formula() -> None:
    for width in (3, 12):
        plain = dataclasses.replace(SPEC, mode=None, max_modes=4)
        spec = dataclasses.replace(SPEC, mode=1)
        rows = np.random.default_rng(0).normal(size=(50, width))
        sizes = [sum(a.nbytes for a in reference.init(each, rows).tables) for each in (plain, spec)]
        columns, streams = width * (spec.lags_for(width) + 2), 2 * width + 4
        each = 3 * columns * (columns + 1) // 2 + 2 * columns + 192 * streams + 3 * width
        assert sizes[1] - sizes[0] == 8 * (2 * each + 9 * 3 + 8 + BLOCK) + BLOCK


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("modes", (0, MODE_ROWS), 2001),
        ("modes", (1, MODE_FIRST), -1),
        ("modes", (0, MODE_LEARNED), 10**6),
        ("modes", (0, MODE_WAITING), -1),
        ("modes", (0, MODE_SORTED), 513),
        ("modes", (0, MODE_MADE), 2),
        ("modes", (-1, MODE_NOW), 3),
        ("modes", (-1, MODE_NOW), -3),
        ("modes", (-1, MODE_UNPLACED), 2001),
        ("units", 0, 0.0),
        ("causes", 3, 0),
    ],
)
def test_a_state_that_leads_astray_is_refused(name: str, place: Any, value: float) -> None:
    arrays = reference.arrays(run(SPEC, made(7, 2000))[0])
    arrays[name] = arrays[name].copy()
    arrays[name][place] = value
    with pytest.raises(ConfigError, match=name):
        reference.from_arrays(SPEC, arrays)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"mode": "state"}, "mode"),
        ({"learning": AUTO, "mode": ""}, "mode"),
        ({"learning": AUTO, "mode": -1}, "mode"),
        ({"learning": AUTO, "mode": True}, "mode"),
        ({"learning": AUTO, "mode": 1.5}, "mode"),
        ({"learning": AUTO, "mode": "a", "causes": ["a"]}, "mode"),
        ({"learning": AUTO, "mode": "a", "max_modes": 1}, "max_modes"),
        ({"max_modes": 3}, "max_modes"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        ReferenceSpec(**fields)


def test_a_mode_is_one_of_the_channels_and_not_the_only_one() -> None:
    spec = ReferenceSpec(learning=AUTO, mode="state")
    assert spec.placed(["u", "state"]).mode == 1
    for channels in (["u", "v"], ["state"]):
        with pytest.raises(ConfigError, match="mode"):
            spec.placed(channels)


@settings(max_examples=examples(10))
@given(
    seed=st.integers(0, 2**31),
    cuts=st.lists(st.integers(0, 2500), max_size=12),
    spans=st.lists(st.tuples(st.integers(0, 2500), st.integers(1, 400)), min_size=1, max_size=4),
)
def test_lines_of_a_device_with_modes_and_quiet_times_depend_on_no_cut(
    seed: int, cuts: list[int], spans: list[tuple[int, int]]
) -> None:
    rows, times = made(seed, 2500), clock(2500)
    rows[1900:1960, 0] += 40
    entries = [(int(times[0]) + at * 10 * MINUTE, many * 10 * MINUTE) for at, many in spans]
    quiet = QuietTimes(tuple(QuietTime("m", None, at, at + span, "") for at, span in entries))
    asked = dataclasses.replace(SPEC, false_alarms=100)
    work = Work(spec=kt.OKFEBSpec(), reference=asked, devices=True, quiet=quiet)

    def lines(places: list[int]) -> tuple[list[str], bytes]:
        model, found = begin(work, "m", rows[:256]), []
        for piece, part in zip(np.split(rows, places), np.split(times, places), strict=True):
            model, came = run_rows(work, "m", model, piece, part, float(times[-1]))
            found += [repr(line) for line in came.devices.get(0, [])]
        return found, encode(work, "m", model)

    whole = lines([])
    assert lines(sorted(cuts)) == whole
    passed = quiet.is_quiet("m", times)
    if not any("Episode" in line for line in whole[0]):
        assert any("state='quiet'" in line for line in whole[0]) == bool(passed.any())
