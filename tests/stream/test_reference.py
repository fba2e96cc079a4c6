"""The reference in the stream: the core's scores and episodes, however rows come."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack import codec
from kerneltrack.errors import DataError
from kerneltrack.fleet.model import Work
from kerneltrack.fleet.restore import decode
from kerneltrack.monitor import reference
from kerneltrack.monitor.reference import Episode, ReferenceSpec, Scores
from tests.parts import cuts, examples
from tests.stream.running import (
    SECOND,
    SPEC,
    Element,
    Line,
    Outcome,
    Rows,
    Step,
    make_rows,
    step_through,
    taking_turns,
    track,
    track_stream,
)
from tests.stream.test_boundaries import write_folder
from tests.stream.test_expiry import KEY, Tracking
from tests.stream.test_order import arriving
from transforms.keyed.commands import Command, as_chunk
from transforms.track.order import Order

HELD = ReferenceSpec(rows=256, lags=3, rank=3, budget=6, false_alarms=1e-3, per=1)
WINDOWED = dataclasses.replace(HELD, window=24)
ORDERS = [0.0, 7.0, math.inf]


def faulty(seed: int, count: int = 620) -> Rows:
    """Rows of a device that breaks near the end, a few of them refused."""
    rng = np.random.default_rng(seed)
    rows = make_rows(count, seed=seed, times=np.arange(count) * SECOND)
    x = rng.normal(size=(count, 3)) @ rng.normal(size=(3, 3))
    x[500:540, seed % 3] += 15 * x[:256].std(axis=0)[seed % 3]
    x[600:, 0] -= 40
    x[rng.integers(20, count, 5), 1] = np.nan
    return dataclasses.replace(rows, x=x)


def by_the_core(rows: Rows, spec: ReferenceSpec = HELD) -> tuple[Scores, list[Episode]]:
    """The whole model's usable rows in one call, and the episode that is open at the end."""
    good = rows.take(np.flatnonzero(np.isfinite(rows.x).all(axis=1)))
    state = reference.init(spec, good.x[: SPEC.rows_to_start])
    state, scores, reported = reference.update(spec, state, good.x, np.asarray(good.time))
    still = reference.open_episode(spec, state)
    return scores, [*reported, *([still] if still else [])]


def as_line(episode: Episode) -> Line:
    start, detected, time, last = episode.times
    return {
        "index": episode.row,
        "episode": episode.number,
        "state": episode.state,
        "kind": episode.kind,
        "severity": episode.severity,
        "p": episode.peak,
        "muted": episode.muted,
        "start_index": episode.start,
        "start": start,
        "detected_index": episode.opened,
        "detected": detected,
        "time": time,
        "last_index": episode.last,
        "last": last,
        "shares": episode.shares.tolist(),
        "deviations": [None if np.isnan(far) else far for far in episode.deviations.tolist()],
    }


def hold(
    outcome: Outcome, rows: dict[str, Rows], ended: bool = True, spec: ReferenceSpec = HELD
) -> None:
    """What came out is what the core says."""
    for key, of_model in rows.items():
        scores, reported = by_the_core(of_model, spec)
        assert len(reported) >= 3
        expected = reported if ended else reported[:-1]
        assert outcome.episodes[key] == [as_line(episode) for episode in expected]
        table = outcome.table(key)
        for name, output_text in (
            ("ref_loss", scores.residual),
            ("ref_distance", scores.distance),
            ("ref_score", scores.score),
            ("ref_settled", scores.settled),
            ("p", scores.p),
        ):
            assert table[name].tobytes() == output_text.tobytes(), name


@settings(max_examples=examples(8))
@given(
    st.sampled_from([HELD, WINDOWED]),
    st.sampled_from(ORDERS),
    cuts(90),
    st.integers(0, 2**32),
)
def test_episodes_are_the_cores_however_rows_come(
    spec: ReferenceSpec, max_disorder: float, sizes: list[int], seed: int
) -> None:
    rows = {key: faulty(number) for number, key in enumerate("ab")}
    elements: list[Element] = []
    for key, of_model in rows.items():
        elements += [(key, chunk) for chunk in arriving(of_model, max_disorder, seed).cut(sizes)]
    outcome = step_through(
        elements, order=Order(max_disorder=max_disorder), reference=spec, snapshot_every=50.0
    )
    hold(outcome, rows, spec=spec)


@settings(max_examples=examples(6))
@given(
    st.sampled_from(ORDERS),
    cuts(90),
    st.integers(0, 2**32),
)
def test_a_stretch_until_a_time_is_the_cores_too(
    max_disorder: float, sizes: list[int], seed: int
) -> None:
    spec = dataclasses.replace(HELD, until="1970-01-01T00:05:00", false_alarms=3600, per="1 hour")
    rows = {key: faulty(number) for number, key in enumerate("ab")}
    rows["late"] = dataclasses.replace(rows["a"], time=np.arange(620) * SECOND + 60 * SECOND)
    elements: list[Element] = []
    for key, of_model in rows.items():
        elements += [(key, chunk) for chunk in arriving(of_model, max_disorder, seed).cut(sizes)]
    order = Order(max_disorder=max_disorder)
    outcome = step_through(elements, order=order, reference=spec, snapshot_every=50.0)
    for key, of_model in rows.items():
        scores, reported = by_the_core(of_model, spec)
        assert outcome.episodes.get(key, []) == [as_line(episode) for episode in reported]
        assert outcome.table(key)["p"].tobytes() == scores.p.tobytes()
        assert np.isnan(scores.p).all() == (key == "late")


@pytest.mark.parametrize("max_disorder", [0.0, math.inf])
def test_both_pipelines_give_the_cores_episodes(max_disorder: float) -> None:
    rows = {key: faulty(number) for number, key in enumerate(["a", "b/c"])}
    order = Order(max_disorder=max_disorder)
    chunks = {key: arriving(rows[key], max_disorder, 1).cut([70, 10, 130]) for key in rows}
    elements = taking_turns(chunks)
    bundles = [elements[k : k + 4] for k in range(0, len(elements), 4)]
    bounded = track(elements, order=order, reference=HELD)
    live = track_stream(bundles, order=order, reference=HELD)
    for outcome in (bounded, live):
        hold(outcome, rows)
    assert live.snapshots == bounded.snapshots


TWO = ReferenceSpec(
    learning="auto",
    rows=256,
    memory="1024 rows",
    lags=2,
    season="none",
    false_alarms=100,
    also_every="2 seconds",
)


def faulty_for_long(seed: int) -> Rows:
    """Rows of a device that breaks twice once both references may open episodes, and drifts."""
    rng = np.random.default_rng(seed)
    rows = make_rows(4000, seed=seed, times=np.arange(4000) * SECOND)
    x = rng.normal(size=(4000, 3)) @ rng.normal(size=(3, 3))
    spread = x[:256].std(axis=0)
    x[2600:2640, seed % 3] += 8 * spread[seed % 3]
    x[2900:3200, 1] += np.linspace(0.0, 3.0, 300) * spread[1]
    x[3600:3700, 0] -= 5 * spread[0]
    x[rng.integers(20, 4000, 5), 1] = np.nan
    return dataclasses.replace(rows, x=x)


def test_two_references_of_a_device_are_the_cores_in_files_and_live() -> None:
    rows = {key: faulty_for_long(number) for number, key in enumerate(["a", "b/c"])}
    order = Order(max_disorder=7.0)
    chunks = {key: arriving(rows[key], 7.0, 1).cut([70, 10, 130]) for key in rows}
    elements = taking_turns(chunks)
    bundles = [elements[k : k + 4] for k in range(0, len(elements), 4)]
    bounded = track(elements, order=order, reference=TWO)
    live = track_stream(bundles, order=order, reference=TWO)
    stepped = step_through(elements, order=order, reference=TWO, snapshot_every=200.0)
    for outcome in (bounded, live, stepped):
        hold(outcome, rows, spec=TWO)
    assert live.snapshots == bounded.snapshots


FOLLOWED = Order(max_disorder=0, max_jump=3600)


def later(rows: Rows) -> Rows:
    """The same rows, a thousand seconds later."""
    return dataclasses.replace(rows, time=np.asarray(rows.time) + 1000 * SECOND)


def test_a_silent_model_comes_back_with_its_reference(tmp_path: Path) -> None:
    """In the middle of its stretch, and of an episode, which goes on."""
    rows = faulty(1)
    tracking = Tracking(tmp_path, FOLLOWED, HELD)
    for start, stop in ((0, 200), (200, 520), (520, 620)):
        tracking.push(rows.take(np.arange(start, stop)))
        if stop < 620:
            tracking.expire()
    outcome = tracking.finish()
    scores, reported = by_the_core(rows)
    assert outcome.episodes[KEY] == [as_line(episode) for episode in reported]
    assert outcome.table(KEY)["p"].tobytes() == scores.p.tobytes()


def test_a_model_that_is_reset_makes_a_new_reference() -> None:
    """Of the rows that come then, whose episodes have the later indexes."""
    rows, again = faulty(1), later(faulty(2))
    step = Step(order=FOLLOWED, reference=HELD)
    step.push("m", rows.take(np.arange(530)).chunk())
    step.push("m", as_chunk(Command(None, None)))
    before = len(step.outcome.episodes["m"])
    step.push("m", again.chunk())
    outcome = step.finish()
    usable = int(np.isfinite(rows.x[:530]).all(axis=1).sum())
    scores, reported = by_the_core(again)
    lines = [as_line(episode.moved(usable)) for episode in reported]
    assert outcome.episodes["m"][before:] == lines
    assert outcome.table("m")["p"][usable:].tobytes() == scores.p.tobytes()


@pytest.mark.parametrize("held", [False, True])
def test_a_model_that_is_replaced_makes_a_new_reference(held: bool) -> None:
    """By the snapshot's scale, whatever the snapshot's own reference was."""
    given = step_through([("other", faulty(3).chunk())], reference=HELD if held else None)
    ((_, data),) = given.snapshots
    rows, again = faulty(1), later(faulty(2))
    step = Step(order=FOLLOWED, reference=HELD)
    step.push("m", rows.take(np.arange(530)).chunk())
    before = len(step.outcome.episodes["m"])
    step.push("m", as_chunk(Command(data, None)))
    step.push("m", again.chunk())
    outcome = step.finish()
    usable = int(np.isfinite(rows.x[:530]).all(axis=1).sum())
    state = codec.decode(data).state
    centre, deviation = state.shift * state.scale, state.scale / np.sqrt(2.0)
    good = again.take(np.flatnonzero(np.isfinite(again.x).all(axis=1)))
    made = reference.init(HELD, np.stack([centre - deviation, centre + deviation]))
    made, scores, reported = reference.update(HELD, made, good.x, np.asarray(good.time))
    still = reference.open_episode(HELD, made)
    reported += [still] if still else []
    lines = [as_line(episode.moved(usable)) for episode in reported]
    assert outcome.episodes["m"][before:] == lines
    assert outcome.table("m")["p"][usable:].tobytes() == scores.p.tobytes()


@pytest.mark.parametrize("cut", [150, 300, 520])
def test_a_warm_start_is_one_job(cut: int, tmp_path: Path) -> None:
    """Within the stretch, after it, and within an episode."""
    rows = faulty(3)
    whole = step_through([("m", rows.chunk())], reference=HELD)
    first = step_through([("m", rows.take(np.arange(cut)).chunk())], reference=HELD)
    warm = write_folder(first, tmp_path, reference=HELD)
    rest = rows.take(np.arange(cut, 620)).chunk()
    second = step_through([("m", rest)], reference=HELD, warm=warm)
    assert second.snapshots == whole.snapshots
    p = whole.table("m")["p"]
    again = second.table("m")["p"]
    assert again.tobytes() == p[-len(again) :].tobytes()
    # What was open when the first job ended is not said to open again.
    lines = [line for line in whole.episodes["m"] if line["index"] >= rows_before(rows, cut)]
    assert second.episodes["m"] == lines


def rows_before(rows: Rows, stop: int) -> int:
    """How many of the first rows are usable."""
    return int(np.isfinite(rows.x[:stop]).all(axis=1).sum())


@pytest.mark.parametrize(
    "change", [{"learning": "gated"}, {"lags": 2}, {"per": "2 rows"}, {"until": "2026-01-01"}]
)
def test_a_warm_start_with_other_settings_makes_a_new_reference(
    change: dict[str, Any], tmp_path: Path
) -> None:
    rows = faulty(3)
    first = step_through([("m", rows.chunk())], reference=HELD)
    warm = write_folder(first, tmp_path, reference=HELD)
    other = dataclasses.replace(HELD, **change)
    outcome = step_through(
        [("m", later(rows).take(np.arange(300)).chunk())],
        reference=other,
        warm=warm,
    )
    p = outcome.table("m")["p"]
    assert np.isnan(p[:256]).all()
    assert np.isnan(p[256:]).all() == ("until" in change)


def test_without_a_reference_nothing_of_it_is_there() -> None:
    outcome = step_through([("m", faulty(1).cut([620])[0])])
    assert not {"ref_loss", "ref_distance", "ref_score", "ref_settled", "p"} & set(
        outcome.table("m")
    )
    assert outcome.episodes == {}
    (_, data) = outcome.snapshots[-1]
    assert not any(name.startswith("reference") for name in codec.decode(data).extras)


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("counts", 0, 2**60),
        ("kernel.counts", 1, 10**6),
        ("times", 0, 2**63 - 1),
        ("reals", reference.THRESHOLD, np.nan),
        ("reals", reference.EVIDENCE + 2, -1e308),
        ("whitener", (0, 0), np.inf),
        ("calibration", (1, 3), np.nan),
        ("peaks", 0, np.inf),
    ],
)
def test_a_reference_that_leads_astray_is_a_damaged_state(
    name: str, place: Any, value: float
) -> None:
    outcome = step_through([("m", faulty(1).cut([620])[0])], reference=HELD)
    (_, data) = outcome.snapshots[-1]
    snapshot: Any = codec.decode(data)
    extras = dict(snapshot.extras)
    extras[f"reference.{name}"] = extras[f"reference.{name}"].copy()
    extras[f"reference.{name}"][place] = value
    about = snapshot.header["about"]
    wrong = codec.encode(snapshot.spec, snapshot.state, about, extras=extras)
    with pytest.raises(DataError, match="damaged"):
        decode(Work(spec=SPEC, reference=HELD), wrong, "given")
