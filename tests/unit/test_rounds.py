"""Rows of many models at once: what each of them gives is what it gives alone, however cut."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.fleet.begin import begin
from kerneltrack.fleet.model import Model, Work
from kerneltrack.fleet.models import Models
from kerneltrack.fleet.results import Results
from kerneltrack.fleet.run import run_models, run_rows
from kerneltrack.fleet.states import encode
from kerneltrack.fleet.windows import SLIDING, MeasuredWindows
from kerneltrack.monitor.drift import DriftSpec
from kerneltrack.monitor.entries import ALL
from kerneltrack.monitor.feedback import FALSE, REAL, Feedback, Said
from kerneltrack.monitor.likeness import channel
from kerneltrack.monitor.quiet import QuietTime, QuietTimes
from kerneltrack.monitor.reference import AUTO, ReferenceSpec
from kerneltrack.monitor.rules import Rule, Rules
from kerneltrack.trackers import (
    CovarianceSpec,
    DSKPCASpec,
    OANASpec,
    OKFEBSpec,
    OKFESpec,
    RowsSpec,
)
from tests.parts import crossed, examples

SECOND = 10**9
WIDTH = 3
TRACKERS = {
    "okfeb": OKFEBSpec(rank=3, budget=6, warmup=4),
    "okfe": OKFESpec(rank=3, warmup=4),
    "covariance": CovarianceSpec(rank=3, budget=6, warmup=4),
    "halflife": CovarianceSpec(rank=3, budget=6, warmup=4, halflife_seconds=60.0),
    "oana": OANASpec(rank=3, warmup=4),
    "doubly": DSKPCASpec(rank=3, warmup=4),
    "rows": RowsSpec(rank=WIDTH, warmup=4),
}
STORES_ROWS = ("okfeb", "okfe", "covariance", "halflife", "oana")
ON_A_BUDGET = ("okfeb", "covariance")
REFERENCE = ReferenceSpec(rows=256, lags=2, rank=3, budget=6, false_alarms=1e-2)
WHILE = dataclasses.replace(REFERENCE, only_while="channel[0] < 4.5 and column[2] + 7 > 0")
WINDOWS = MeasuredWindows(size=40 * SECOND, period=15 * SECOND, kind=SLIDING, most_rows=30)
QUIET = QuietTimes(
    (
        QuietTime(ALL, None, 60 * SECOND, 95 * SECOND, ""),
        QuietTime("m1", None, 400 * SECOND, 403 * SECOND, ""),
        QuietTime(ALL, None, 700 * SECOND, 1000 * SECOND, ""),
    )
)
RULES = Rules(
    (
        Rule(ALL, None, "a", "down"),
        Rule(ALL, None, "c", None, 4.37),
        Rule("m3", None, "c", "down"),
    ),
    ("a", "b", "c"),
)
FEEDBACK = Feedback(
    tuple(
        Said("m0", 0, 700 * SECOND, verdict, at * SECOND, "shift", (channel("c", 1.0, 4.3),))
        for verdict, at in ((FALSE, 1500), (REAL, 2000))
    ),
    ("a", "b", "c"),
)
MOVES = ReferenceSpec(
    learning=AUTO, rows=256, lags=2, memory="1024 rows", season="none", false_alarms=10
)
TWO = dataclasses.replace(MOVES, also_every="3 seconds")
ALL_FALSE = Feedback(
    (Said("", 0, 10**18, FALSE, 600 * SECOND, "shift", (), group="all"),),
    ("a", "b", "c"),
    groups={"m0": "all", "m2": "all", "m4": "all"},
)
"""All episodes of some devices were false, which counts from ten minutes on."""
COMPANIONS: dict[str, dict[str, Any]] = {
    "alone": {},
    "windows": {"measure": WINDOWS},
    "few": {"measure": dataclasses.replace(WINDOWS, most_rows=8)},
    "moving": {"measure": MeasuredWindows(moving=5)},
    "both": {"measure": dataclasses.replace(WINDOWS, moving=5), "every": 70 * SECOND},
    "drift": {"drift": DriftSpec(block=5, clip=4, delta=1, threshold=3), "every": 100 * SECOND},
    "reference": {"reference": REFERENCE, "hold": 3 * SECOND},
    "accepts": {"reference": dataclasses.replace(REFERENCE, accept_after=128)},
    "until": {"reference": dataclasses.replace(REFERENCE, until="1970-01-01T00:09:50")},
    "devices": {"reference": REFERENCE, "devices": True},
    "quiet": {"reference": REFERENCE, "devices": True, "quiet": QUIET},
    "rules": {"reference": REFERENCE, "rules": RULES},
    "rules for devices": {"reference": REFERENCE, "rules": RULES, "devices": True, "quiet": QUIET},
    "feedback": {"reference": REFERENCE, "feedback": FEEDBACK, "devices": True},
    "normal": {"reference": MOVES, "feedback": ALL_FALSE, "devices": True},
    "two": {"reference": TWO, "feedback": ALL_FALSE, "devices": True, "every": 90 * SECOND},
    "two and quiet": {"reference": TWO, "devices": True, "quiet": QUIET},
    "while": {"reference": WHILE, "devices": True},
    "while and quiet": {"reference": WHILE, "devices": True, "quiet": QUIET, "hold": 3 * SECOND},
    "all": {
        "measure": WINDOWS,
        "drift": DriftSpec(),
        "reference": REFERENCE,
        "every": 90 * SECOND,
        "hold": 2 * SECOND,
    },
}


class Fleet(NamedTuple):
    """Rows of some models.

    Attributes:
        keys: The models.
        rows: Of each, (n, D).
        times: Of each, (n,) ns.
    """

    keys: list[str]
    rows: list[npt.NDArray[np.float64]]
    times: list[npt.NDArray[np.int64]]


def fleet(seed: int, lengths: tuple[int, ...]) -> Fleet:
    """Models with shifts, missing values, rows of one time, times that go back, wild numbers."""
    rng = np.random.default_rng(seed)
    rows, times = [], []
    for number, length in enumerate(lengths):
        own = rng.normal(size=(length, WIDTH)) + 3 * rng.normal(size=WIDTH)
        own[length * 2 // 3 :] += rng.choice([0.0, 6.0])
        if number % 3 == 1 and length > 20:
            own[rng.integers(6, length, 5), rng.integers(0, WIDTH, 5)] = np.nan
            own[rng.integers(6, length), 0] = 1e200
        clock = np.cumsum(rng.choice([0, 1, 2, 9], length)) * SECOND
        if number % 4 == 2 and length > 20:
            clock[10] -= 3 * SECOND
        rows.append(own)
        times.append(clock)
    return Fleet([f"m{number}" for number in range(len(lengths))], rows, times)


def first_of(work: Work, key: str, rows: npt.NDArray[np.float64]) -> Model:
    whole = rows[np.isfinite(rows).all(axis=1)]
    return begin(work, key, whole[: work.rows_to_start])


def alone(work: Work, known: Fleet, place: int, timed: bool) -> tuple[Model, Results]:
    key, rows = known.keys[place], known.rows[place]
    times = known.times[place] if timed else None
    return run_rows(work, key, first_of(work, key, rows), rows, times, math.inf)


def together(
    work: Work, known: Fleet, places: list[int], timed: bool, cuts: list[int]
) -> tuple[Models, list[Results]]:
    """Run models at once, in calls that end at these shares (in tenths) of each one's rows."""
    models = Models.of(
        work,
        [known.keys[place] for place in places],
        [first_of(work, known.keys[place], known.rows[place]) for place in places],
    )
    found = []
    for number, (low, high) in enumerate(zip([0, *cuts], [*cuts, 10], strict=True)):
        spans = [
            slice(len(known.rows[p]) * low // 10, len(known.rows[p]) * high // 10) for p in places
        ]
        rows = [known.rows[p][span] for p, span in zip(places, spans, strict=True)]
        times = [known.times[p][span] for p, span in zip(places, spans, strict=True)]
        stops = np.cumsum([len(part) for part in rows])
        starts = stops - [len(part) for part in rows]
        until = [math.inf if number == len(cuts) else -math.inf] * len(places)
        clock = np.concatenate(times) if timed else None
        found.append(run_models(models, np.concatenate(rows), clock, starts, stops, until))
    return models, found


def columns_of(found: Results, start: int, stop: int) -> dict[str, bytes]:
    """What is said of rows, byte by byte; of refused ones only that they are."""
    valid = found.features.valid[start:stop]
    columns: dict[str, Any] = {"valid": valid, "rows": found.rows[start:stop]}
    for field in dataclasses.fields(found.features):
        column = getattr(found.features, field.name)
        if column is not None and field.name != "valid":
            columns[field.name] = column[start:stop][valid]
    if found.scores is not None:
        for field in dataclasses.fields(found.scores):
            columns[f"score {field.name}"] = getattr(found.scores, field.name)[start:stop][valid]
    return {name: np.ascontiguousarray(column).tobytes() for name, column in columns.items()}


def lines_of(found: Results, place: int) -> dict[str, str]:
    names = ("measured", "alerts", "episodes", "devices", "snapshots")
    return {name: repr(getattr(found, name).get(place, [])) for name in names}


def work_of(tracker: str, companion: str) -> Work:
    given = COMPANIONS[companion]
    measure = given.get("measure")
    if measure is not None and tracker not in STORES_ROWS:
        given = {**given, "measure": None}
    elif measure is not None and measure.moving and tracker not in ON_A_BUDGET:
        given = {**given, "measure": dataclasses.replace(measure, moving=None)}
        if given["measure"].size is None:
            given["measure"] = None
    return Work(spec=TRACKERS[tracker], **given)


@pytest.mark.parametrize(("tracker", "companion"), crossed(TRACKERS, COMPANIONS))
def test_many_models_at_once_are_each_alone(tracker: str, companion: str) -> None:
    work, known = work_of(tracker, companion), fleet(3, (700, 40, 5, 640, 90, 333))
    models, (found,) = together(work, known, list(range(6)), True, [])
    at = 0
    for place in range(6):
        after, own = alone(work, known, place, True)
        stop = at + len(known.rows[place])
        assert columns_of(found, at, stop) == columns_of(own, 0, stop - at), place
        assert lines_of(found, place) == lines_of(own, 0), place
        wanted = encode(work, known.keys[place], after)
        assert encode(work, known.keys[place], models.model(place)) == wanted, place
        at = stop
    if companion == "all" and tracker == "okfeb":
        assert all((found.measured, found.snapshots, found.episodes))
    if companion == "rules":
        muted = {each.muted for reported in found.episodes.values() for each in reported}
        assert {None, "c: by 4.37 or more"} <= muted
    if companion == "feedback":
        muted = {each.muted for reported in found.episodes.values() for each in reported}
        assert muted == {None, FEEDBACK.said[0].text}
    if companion == "accepts":
        assert any(each.accepted for reported in found.episodes.values() for each in reported)


@settings(max_examples=examples(60))
@given(
    tracker=st.sampled_from(sorted(TRACKERS)),
    companion=st.sampled_from(sorted(COMPANIONS)),
    seed=st.integers(0, 1000),
    lengths=st.lists(st.integers(5, 400), min_size=1, max_size=5),
    cuts=st.lists(st.integers(0, 10), max_size=3),
    order=st.randoms(use_true_random=False),
    timed=st.booleans(),
)
def test_neither_cuts_nor_neighbours_change_a_byte(
    tracker: str,
    companion: str,
    seed: int,
    lengths: list[int],
    cuts: list[int],
    order: Any,
    timed: bool,
) -> None:
    work, known = work_of(tracker, companion), fleet(seed, tuple(lengths))
    needs_times = work.reference is not None and work.reference.needs_times
    timed = timed or tracker == "halflife" or needs_times
    places = list(range(len(lengths)))
    order.shuffle(places)
    places = places[: order.randint(1, len(places))]
    models, found = together(work, known, places, timed, sorted(cuts))
    for at, place in enumerate(places):
        after, own = alone(work, known, place, timed)
        wanted = encode(work, known.keys[place], after)
        assert encode(work, known.keys[place], models.model(at)) == wanted
        lines = [lines_of(part, at) for part in found]
        for name in lines_of(own, 0):
            assert _joined(lines, name) == _plain(own, name), name


def _joined(parts: list[dict[str, str]], name: str) -> str:
    return "".join(part[name][1:-1] for part in parts).replace(", ", "")


def _plain(own: Results, name: str) -> str:
    return repr(getattr(own, name).get(0, []))[1:-1].replace(", ", "")


def test_rounds_are_counted_and_the_models_in_them() -> None:
    """Windows of 40 s cut 100 rows, one a second, into three; the other model has 30 s."""
    work = Work(
        spec=TRACKERS["okfeb"], measure=MeasuredWindows(size=40 * SECOND, period=40 * SECOND)
    )
    rows = np.random.default_rng(5).normal(size=(130, WIDTH))
    times = np.concatenate([np.arange(100), np.arange(30)]) * SECOND
    models = Models.of(work, ["a", "b"], [first_of(work, key, rows) for key in "ab"])
    starts, stops = np.array([0, 100]), np.array([100, 130])
    found = run_models(models, rows, times, starts, stops, [math.inf] * 2)
    assert (found.calls, found.models_called) == (3, 4)
    plain = Work(spec=TRACKERS["okfeb"])
    models = Models.of(plain, ["a", "b"], [first_of(plain, key, rows) for key in "ab"])
    found = run_models(models, rows, times, starts, stops, [math.inf] * 2)
    assert (found.calls, found.models_called) == (1, 2)
