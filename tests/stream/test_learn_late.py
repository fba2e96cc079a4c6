"""Labels that come late: settled by the rows' own progress, held against a row-by-row rule."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from kerneltrack import codec
from kerneltrack.learners import LearnerSpec, RidgeSpec
from tests.oracles.learner_cases import every_spec_in_turn, same_state
from tests.oracles.prequential import (
    Event,
    Ruled,
    by_the_rules,
    core_alone,
    metrics_of,
    same_metrics,
)
from tests.parts import crossed, lanes
from tests.stream.learning import (
    CLASSES,
    SECOND,
    SPEC,
    Element,
    FeatureTable,
    Late,
    Outcome,
    label_chunk,
    make_features,
    train,
    train_stream,
)
from transforms.learn.late_labels import LateLabels

REGRESSION = RidgeSpec(task="regression")
WAITS = [
    LateLabels(5.0, 1000),
    LateLabels(0.0, 1000),
    LateLabels(2.25, 7),
    LateLabels(None, 12),
    LateLabels(None, 1),
    LateLabels(1e9, 10_000_000),
]


def labels_apart(table: FeatureTable, by: str) -> tuple[FeatureTable, list[Late]]:
    """The table without its labels, and these as a stream of their own."""
    late = []
    for row, label in enumerate(table.label):
        if label is not None:
            time = None if by == "index" or table.time is None else int(table.time[row])
            index = table.first + row if by == "index" else None
            late.append(Late(label, index=index, time=time, row=row))
    return dataclasses.replace(table, label=[None] * len(table)), late


def elements_of(events: Sequence[Event], table: FeatureTable, key: str = "m") -> list[Element]:
    elements: list[Element] = []
    for event in events:
        if isinstance(event, tuple):
            elements.append((key, table.part(*event).chunk(table.kind)))
            continue
        by_index = [label for label in event if label.index is not None]
        by_time = [label for label in event if label.index is None]
        elements += [(key, label_chunk(part)) for part in (by_index, by_time) if part]
    return elements


def check(outcome: Outcome, ruled: Ruled, key: str = "m", live: bool = False) -> None:
    found = outcome.scored if live else outcome.predictions
    assert found[key] == ruled.records
    assert lost_of(outcome, key) == ruled.lost
    snapshot = codec.decode_learner(outcome.snapshots[key][-1])
    assert ruled.before_end is not None
    same_state(snapshot.state, ruled.before_end)


def lost_of(outcome: Outcome, key: str = "m") -> list[tuple[int, int]]:
    return sorted((source, row) for model, source, row, _ in outcome.failures if model == key)


def reasons_of(outcome: Outcome) -> dict[int, str]:
    return {row: reason for _, _, row, reason in outcome.failures}


def test_labels_in_a_file_of_their_own() -> None:
    """Sensor rows now, labels an hour later: each row learns with the features it came with."""
    table = make_features(200, seed=5)
    bare, labels = labels_apart(table, "index")
    late = LateLabels(wait=20.0, most_rows=1000)
    outcome = train([("m", bare.chunk(table.kind)), ("m", label_chunk(labels))], late=late)
    found = outcome.predictions["m"]
    assert [row["label"] for row in found] == table.label
    # Rows are half a second apart: the first label is learned before row 40 is predicted.
    assert [row["prediction"] is None for row in found] == [True] * 40 + [False] * 160
    assert outcome.failures == []
    check(outcome, by_the_rules(SPEC, bare, [labels, (0, 200)], late, bounded=True))


@pytest.mark.parametrize(("by", "late"), crossed(["index", "time"], WAITS), ids=str)
def test_late_labels_against_the_rule(by: str, late: LateLabels) -> None:
    table = make_features(90, seed=6)
    bare, labels = labels_apart(table, by)
    ruled = by_the_rules(SPEC, bare, [labels, (0, 90)], late, bounded=True)
    for sizes in ([4], [1, 50, 20]):
        rows = [("m", chunk) for chunk in bare.cut(sizes)]
        parts = [("m", label_chunk(labels[at : at + 17])) for at in range(0, len(labels), 17)]
        elements = [*parts[2:], *rows[::-1], *parts[:2]]
        outcome = train(elements, late=late, window=9.0)
        check(outcome, ruled)
        figures = metrics_of(SPEC, ruled.records, ruled.clock, 9 * SECOND)
        same_metrics(outcome.metrics["m"], figures)


@every_spec_in_turn(1)
def test_every_learner_takes_late_labels(spec: LearnerSpec) -> None:
    table = make_features(120, seed=7, spec=spec)
    bare, labels = labels_apart(table, "index")
    bare = dataclasses.replace(bare, label=[*[None] * 60, *table.label[60:]])
    late = LateLabels(3.0, 30)
    ruled = by_the_rules(spec, bare, [labels[:60], (0, 120)], late, bounded=True)
    outcome = train(elements_of([(0, 50), labels[:60], (50, 120)], bare), spec, late=late)
    check(outcome, ruled)


@pytest.mark.parametrize("spec", [SPEC, REGRESSION])
def test_a_wait_that_ends_with_the_next_row_is_no_wait(spec: LearnerSpec) -> None:
    """Learning from each row before the next: what labels beside the features give."""
    table = make_features(100, seed=8, spec=spec)
    bare, labels = labels_apart(table, "index")
    for late in (LateLabels(0.0, 50), LateLabels(None, 1), LateLabels(0.5, 50)):
        outcome = train(elements_of([(0, 100), labels], bare), spec, late=late, window=9.0)
        plain = train([("m", table.chunk(table.kind))], spec, window=9.0)
        assert outcome.predictions == plain.predictions == {"m": core_alone(spec, table)[1]}
        assert outcome.metrics == plain.metrics
        assert outcome.counters == plain.counters


@pytest.mark.parametrize("seed", range(3))
def test_live_streams_against_the_rule(seed: int) -> None:
    """Labels early, in time, too late, twice, of rows that never were: one model each seed."""
    rng = np.random.default_rng(seed)
    streams, ruled = [], {}
    late = [LateLabels(4.0, 30), LateLabels(None, 9), LateLabels(2.0, 5)][seed % 3]
    spec = REGRESSION if seed % 2 else SPEC
    for number in range(3):
        key = f"m{number}"
        table, events = scene(rng, spec)
        ruled[key] = by_the_rules(spec, table, events, late)
        streams.append(elements_of(events, table, key))
    # Each bundle holds one element of every model.
    bundles = [[one for one in part if one] for part in itertools.zip_longest(*streams)]
    live = train_stream(bundles, spec, late=late, window=7.0)
    for key, of_model in ruled.items():
        check(live, of_model, key, live=True)
        at_once = live.predictions[key]
        assert [row["label"] for row in at_once] == [None] * len(at_once)
        assert {row.get("correct", row.get("error")) for row in at_once} == {None}
        names = ("index", "time", "prediction", "score", "margin")
        for name in names[: 5 if spec.classifies else 3]:
            assert [row[name] for row in at_once] == [row[name] for row in of_model.records]
        figures = metrics_of(spec, of_model.records, of_model.clock, 7 * SECOND)
        same_metrics(live.metrics[key], figures)
    assert sum(len(of_model.lost) for of_model in ruled.values()) > 10


def scene(rng: np.random.Generator, spec: LearnerSpec) -> tuple[FeatureTable, list[Event]]:
    """Rows, some with equal times, and labels about the time when their rows come."""
    count = 60
    times = np.sort(rng.integers(0, 25, count)) * SECOND
    table = make_features(count, seed=int(rng.integers(1000)), spec=spec, times=times, missing=0.7)
    labels = []
    for row in range(90):
        target = int(rng.integers(-3, count + 5))
        label = CLASSES[rng.integers(4)] if spec.classifies else float(rng.normal())
        time = int(times[target % count] + (rng.random() < 0.1))
        named = {"index": target} if rng.random() < 0.6 else {"time": time}
        when = target + int(rng.integers(-12, 12))
        late = Late(
            None if rng.random() < 0.05 else label, source=int(rng.integers(2)), row=row, **named
        )
        labels.append((when, late))
    events: list[Event] = []
    start = 0
    while start < count:
        stop = min(start + int(rng.integers(1, 12)), count)
        come = [late for when, late in labels if start <= max(when, 0) < stop]
        if come:
            events.append(come)
        events.append((start, stop))
        start = stop
    rest = [late for when, late in labels if when >= count]
    return table, [*events, rest] if rest else events


@pytest.mark.parametrize("seed", [*lanes(0, 2), *lanes(1, 3)])
def test_bounded_jobs_wait_for_all_labels(seed: int) -> None:
    """The same scenes: no label is too late, and the order of the inputs does not matter."""
    rng = np.random.default_rng(seed)
    late, spec = LateLabels(4.0, 30), REGRESSION if seed % 2 else SPEC
    table, events = scene(rng, spec)
    ruled = by_the_rules(spec, table, events, late, bounded=True)
    elements = elements_of(events, table)
    rows_first = sorted(elements, key=lambda pair: pair[1].has("z"))
    for given in (elements, elements[::-1], rows_first, rows_first[::-1]):
        check(train(given, spec, late=late), ruled)


def test_a_bounded_job_gives_what_a_live_one_gives_whose_labels_come_in_time() -> None:
    table = make_features(150, seed=9)
    bare, labels = labels_apart(table, "index")
    late = LateLabels(6.0, 500)
    options: dict[str, Any] = {"window": 10.0, "snapshot_every": 15.0}
    # Six seconds are twelve rows: labels come ten rows after theirs at most.
    events: list[Event] = []
    for start in range(0, 150, 5):
        events.append((start, start + 5))
        come = [label for label in labels if start - 5 <= (label.index or 0) < start]
        events += [come] if come else []
    events.append([label for label in labels if (label.index or 0) >= 145])
    live = train_stream([[e] for e in elements_of(events, bare)], late=late, **options)
    bounded = train(elements_of([labels, (0, 150)], bare), late=late, **options)
    assert live.scored == bounded.predictions
    assert live.metrics == bounded.metrics
    assert (live.failures, bounded.failures) == ([], [])
    # Boundaries fall between rows and labels: only what had come by then differs.
    states = [
        [codec.decode_learner(data).state for data in outcome.snapshots["m"]]
        for outcome in (live, bounded)
    ]
    assert len(states[0]) == len(states[1]) == 5
    for one, other in zip(*states, strict=True):
        same_state(one, other)


def test_each_lost_label_says_why() -> None:
    table = make_features(40, times=np.arange(40) * SECOND, missing=1.0)
    table.label[16] = "walk"
    first, waits = "another label of the same row comes first", "no row of this time waits"
    never = "no such row came before the input ended"
    lost = [
        (Late("run", index=3), "row 3 was settled before its label came"),
        (Late("run", index=14), "row 14 was settled before its label came"),
        (Late("run", index=-1), "no such row"),
        (Late(None, index=19), "the label is missing"),
        (Late("run", index=18), first),
        (Late("run", index=16), first),
        (Late("run", index=40), never),
        (Late("run", time=4 * SECOND), waits),
        (Late("run", time=14 * SECOND), waits),
        (Late("run", time=15 * SECOND + 1), waits),
        (Late("run", time=30 * SECOND + 1), waits),
        (Late("run", time=16 * SECOND), first),
        (Late("run", time=17 * SECOND), first),
        (Late("run", time=99 * SECOND), never),
    ]
    numbered = [dataclasses.replace(label, row=row) for row, (label, _) in enumerate(lost)]
    taken = [Late("walk", index=18, source=1), Late("still", index=17, source=1, row=1)]
    late = LateLabels(5.0, 1000)
    events: list[Event] = [(0, 20), [*numbered, *taken], (20, 40)]
    live = train_stream([[element] for element in elements_of(events, table)], late=late)
    found = reasons_of(live)
    assert sorted(found) == list(range(len(lost)))
    for row, (_, reason) in enumerate(lost):
        assert found[row].startswith(reason), row
    labels = {row["index"]: row["label"] for row in live.scored["m"] if row["label"]}
    assert labels == {16: "walk", 17: "still", 18: "walk"}
    check(live, by_the_rules(SPEC, table, events, late), live=True)


def test_labels_of_a_model_that_never_comes() -> None:
    labels = [Late("run", index=0, row=0), Late("run", time=5, row=1)]
    elements = [("ghost", label_chunk([label])) for label in labels]
    rows = ("m", make_features(5).chunk())
    for outcome in (
        train([*elements, rows], late=LateLabels(1.0, 5)),
        train_stream([[rows], *([element] for element in elements)], late=LateLabels(1.0, 5)),
    ):
        reason = "no row of this model came"
        assert outcome.failures == [("ghost", 7, 0, reason), ("ghost", 7, 1, reason)]
        assert set(outcome.snapshots) == set(outcome.metrics) == {"m"}


def test_labels_by_time_need_rows_with_times() -> None:
    table = dataclasses.replace(make_features(9, missing=1.0), time=None)
    labels = [Late("run", time=0, row=0), Late("run", time=5, row=1), Late("run", index=2, row=2)]
    outcome = train(elements_of([labels, (0, 9)], table), late=LateLabels(None, 4))
    reason = "the model's rows have no times"
    assert outcome.failures == [("m", 7, row, reason) for row in (0, 1)]
    assert [row["label"] for row in outcome.predictions["m"]].count("run") == 1


def test_a_label_by_time_is_of_all_rows_of_that_time() -> None:
    times = np.array([0, 1, 1, 1, 2, 3]) * SECOND
    table = make_features(6, times=times, missing=1.0)
    table.label[2] = "still"
    labels = [Late("run", time=SECOND, row=1), Late("walk", index=3, row=0)]
    events: list[Event] = [(0, 2), labels, (2, 6)]
    live = train_stream([[e] for e in elements_of(events, table)], late=LateLabels(1.0, 99))
    assert [r["label"] for r in live.scored["m"]] == [None, "run", "still", "walk", None, None]
    assert live.failures == []


def test_the_same_label_again_is_left_out() -> None:
    """A source that gives a message twice loses nothing and says nothing."""
    table = make_features(30, missing=0.0)
    bare, labels = labels_apart(table, "index")
    given = elements_of([labels, (0, 30), labels, labels[::-1]], bare)
    outcome = train(given, late=LateLabels(None, 10))
    assert [row["label"] for row in outcome.predictions["m"]] == table.label
    assert (outcome.failures, outcome.counters["labels_again"]) == ([], 60)


def test_labels_far_ahead_of_the_rows_are_bounded() -> None:
    table = make_features(40, missing=0.0)
    bare, labels = labels_apart(table, "index")
    by_time = [
        Late("run", time=int(table.time[row]) if table.time is not None else 0, row=100 + row)
        for row in range(40)
    ]
    late = LateLabels(None, 10)
    events: list[Event] = [labels[20:], labels[:20], (0, 5), by_time, (5, 40)]
    live = train_stream([[element] for element in elements_of(events, bare)], late=late)
    ruled = by_the_rules(SPEC, bare, events, late)
    check(live, ruled, live=True)
    found = reasons_of(live)
    far = "too far ahead: 10 labels of earlier rows wait already"
    assert {row: found.get(row) for row in range(40)} == {
        **dict.fromkeys(range(10)),
        **dict.fromkeys(range(10, 40), far),
    }
    assert [row for row in range(40) if found.get(100 + row) == far] == list(range(15, 40))
    taken = [row["label"] for row in live.scored["m"]]
    assert taken[:10] == table.label[:10] and taken[10:15] == ["run"] * 5


def test_labels_that_come_before_the_first_row() -> None:
    table = make_features(30, seed=11)
    bare, labels = labels_apart(table, "time")
    late = LateLabels(3.0, 30)
    events: list[Event] = [labels[:4], labels[4:9], (0, 12), labels[9:], (12, 30)]
    live = train_stream([[element] for element in elements_of(events, bare)], late=late)
    check(live, by_the_rules(SPEC, bare, events, late), live=True)
    assert [row["label"] for row in live.scored["m"]] == table.label


@pytest.mark.parametrize("bounded", [True, False])
def test_rows_out_of_turn_with_late_labels(bounded: bool) -> None:
    table = make_features(60, seed=12)
    bare, labels = labels_apart(table, "index")
    late = LateLabels(4.0, 50)
    parts: list[Event] = [(start, start + 10) for start in range(0, 60, 10)]
    order = [5, 1, 0, 3, 2, 4]
    events: list[Event] = [labels, *(parts[at] for at in order), parts[1]]
    if bounded:
        outcome = train(elements_of(events, bare), late=late)
    else:
        outcome = train_stream([[element] for element in elements_of(events, bare)], late=late)
    ruled = by_the_rules(SPEC, bare, [labels, (0, 60)], late, bounded=True)
    check(outcome, ruled, live=not bounded)
    assert outcome.failures == []


def test_rows_that_a_learner_refuses_take_their_labels_along() -> None:
    table = make_features(40, missing=0.0)
    table.z[[9, 10, 25]] = np.nan
    bare, labels = labels_apart(table, "index")
    late = LateLabels(None, 6)
    outcome = train(elements_of([labels, (0, 40)], bare), late=late)
    check(outcome, by_the_rules(SPEC, bare, [labels, (0, 40)], late, bounded=True))
    assert [outcome.predictions["m"][9][name] for name in ("prediction", "label", "correct")] == [
        None,
        table.label[9],
        None,
    ]


def test_times_that_go_back_do_not_shorten_a_wait() -> None:
    times = np.array([0, 10, 3, 4, 20, 15, 16, 30, 31]) * SECOND
    table = make_features(9, times=times, missing=0.0)
    bare, labels = labels_apart(table, "index")
    late = LateLabels(9.0, 100)
    ruled = by_the_rules(SPEC, bare, [labels, (0, 9)], late, bounded=True)
    for sizes in ([1], [4], [9]):
        rows = [("m", chunk) for chunk in bare.cut(sizes)]
        check(train([*rows, ("m", label_chunk(labels))], late=late), ruled)


def test_the_longest_waits_do_not_overflow() -> None:
    limit = 9_000_000_000_000_000_000
    times = np.linspace(-limit, limit, 20).astype(np.int64)
    table = make_features(20, times=times, missing=0.0)
    bare, labels = labels_apart(table, "time")
    late = LateLabels(1e9, 100)
    ruled = by_the_rules(SPEC, bare, [labels, (0, 20)], late, bounded=True)
    check(train(elements_of([labels, (0, 20)], bare), late=late), ruled)
