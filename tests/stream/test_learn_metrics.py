"""Running metrics and confusion, held against scikit-learn's over the rows that came out."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.learners import LearnerSpec, LMSSpec, PegasosSpec, RidgeSpec
from kerneltrack.learners.common.guesses import MOST_CHANNELS
from kerneltrack.learners.common.prequential import MAX_FEATURE
from tests.oracles.prequential import core_alone, metrics_of, same_metrics
from tests.parts import examples
from tests.stream.learning import (
    CLASSES,
    SECOND,
    SPEC,
    FeatureTable,
    Late,
    Outcome,
    Step,
    label_chunk,
    make_features,
    train,
    train_stream,
)
from transforms.keyed import last_written as last_written_module
from transforms.keyed.last_written import MOST_KEPT
from transforms.learn.late_labels import LateLabels
from transforms.outputs import METRICS

REGRESSION = RidgeSpec(task="regression")
OTHER = "(other)"


def check(outcome: Outcome, spec: LearnerSpec, clock: Sequence[int], window: int | None) -> None:
    same_metrics(outcome.metrics["m"], metrics_of(spec, outcome.predictions["m"], clock, window))


def clock_of(table: FeatureTable) -> list[int]:
    assert table.time is not None
    return list(itertools.accumulate(table.time.tolist(), max))


@pytest.mark.parametrize(
    "spec", [SPEC, PegasosSpec(), REGRESSION, LMSSpec(task="regression")], ids=str
)
@pytest.mark.parametrize("window", [None, 3.0, 10.5, 1e6])
def test_metrics_are_scikit_learns(spec: LearnerSpec, window: float | None) -> None:
    table = make_features(150, seed=1, spec=spec)
    outcome = train([("m", chunk) for chunk in table.cut([40])], spec, window=window)
    nanoseconds = None if window is None else round(window * SECOND)
    check(outcome, spec, clock_of(table), nanoseconds)


@settings(max_examples=examples(10))
@given(
    st.lists(st.integers(-20, 60), min_size=30, max_size=30),
    st.sampled_from([SPEC, REGRESSION]),
    st.sampled_from([0.5, 4.0, 13.0]),
    st.integers(0, 1000),
)
def test_windows_of_any_times(
    seconds: list[int], spec: LearnerSpec, window: float, seed: int
) -> None:
    """Times with gaps, before 1970, out of order; the last row of every window unlabelled."""
    table = make_features(30, seed=seed, spec=spec, times=np.array(seconds) * SECOND)
    clock = clock_of(table)
    outcome = train([("m", chunk) for chunk in table.cut([11])], spec, window=window)
    check(outcome, spec, clock, round(window * SECOND))


def test_the_figures_of_a_small_stream() -> None:
    """By hand: the first label is learned, never scored; a row without a label is only counted."""
    table = FeatureTable(
        time=np.array([0, 1, 2, 10, 11]) * SECOND,
        z=np.eye(3)[[0, 0, 1, 0, 1]],
        label=["a", "a", "b", None, "b"],
    )
    outcome = train([("m", table.chunk())], window=10.0)
    first = {
        "start": 0,
        "end": 10 * SECOND,
        "rows": 3,
        "scored": 2,
        "correct": 1,
        "accuracy": 0.5,
        "running_accuracy": 0.5,
        "macro_f1": 1 / 3,
        "kappa": 0.0,
        "confusion": [
            {"label": "a", "prediction": "a", "count": 1},
            {"label": "b", "prediction": "a", "count": 1},
        ],
        # Of the two labels that came, the ridge beside is what the learner is.
        "accuracy_commonest": 0.5,
        "accuracy_last": 0.5,
        "accuracy_rows": 0.5,
    }
    second = {
        "start": 10 * SECOND,
        "end": 20 * SECOND,
        "rows": 2,
        "scored": 1,
        "correct": 1,
        "accuracy": 1.0,
        "running_accuracy": 2 / 3,
        "macro_f1": 1.0,
        "kappa": None,
        "confusion": [{"label": "b", "prediction": "b", "count": 1}],
        "accuracy_commonest": 0.0,
        "accuracy_last": 1.0,
        "accuracy_rows": 1.0,
    }
    total = {
        "start": None,
        "end": None,
        "rows": 5,
        "scored": 3,
        "correct": 2,
        "accuracy": 2 / 3,
        "running_accuracy": 2 / 3,
        "macro_f1": pytest.approx(2 / 3),
        "kappa": pytest.approx(0.4),
        "confusion": [*first["confusion"], *second["confusion"]],  # type: ignore[misc]
        "accuracy_commonest": 1 / 3,
        "accuracy_last": 2 / 3,
        "accuracy_rows": 2 / 3,
    }
    lines = outcome.metrics["m"]
    # The one class that is known has the probability 1: once right, once wrong.
    assert math.isclose(lines[0].pop("log_loss"), -math.log(1e-6) / 2, rel_tol=1e-12)
    assert lines[0].pop("brier") == 0.5
    sure = outcome.predictions["m"][-1]["score"]
    assert 0.5 < sure < 1.0
    for line, squares, rows in ((lines[1], 0.0, 1), (lines[2], 1.0, 3)):
        assert math.isclose(line.pop("brier"), (squares + (1.0 - sure) ** 2) / rows, rel_tol=1e-12)
        logs = (squares * -math.log(1e-6) - math.log(sure)) / rows
        assert math.isclose(line.pop("log_loss"), logs, rel_tol=1e-12)
    assert lines == [first, second, total]


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("cut", [[1], [90], [7, 30]])
def test_the_guess_of_a_ridge_is_a_ridges(task: str, cut: list[int]) -> None:
    """Beside another learner: on the same rows, as its own job would have been scored."""
    spec: LearnerSpec = LMSSpec(task=task)
    table = make_features(90, seed=8, spec=spec, missing=0.2)
    outcome = train([("m", chunk) for chunk in table.cut(cut)], spec)
    alone = train([("m", table.chunk())], RidgeSpec(task=task))
    name = "accuracy" if spec.classifies else "rmse"
    found = outcome.metrics["m"][-1][f"{name}_rows"]
    assert math.isclose(found, alone.metrics["m"][-1][name], rel_tol=1e-12)


def test_rows_of_many_channels_have_no_ridge_beside() -> None:
    rows = np.random.default_rng(0).normal(size=(20, MOST_CHANNELS + 1))
    table = FeatureTable(time=None, z=rows, label=["a", "b"] * 10)
    (line,) = train([("m", table.chunk())], LMSSpec()).metrics["m"]
    assert line["accuracy_rows"] is None
    assert (line["accuracy_commonest"], line["accuracy_last"]) == (9 / 19, 0.0)


def test_windows_without_scored_rows_have_no_accuracy() -> None:
    for spec, names in (
        (SPEC, ("accuracy", "running_accuracy")),
        (REGRESSION, ("rmse", "mae", "running_rmse")),
    ):
        table = make_features(8, spec=spec, missing=0.0, times=np.arange(8) * SECOND)
        table.label[4:] = [None] * 4
        outcome = train([("m", table.chunk())], spec, window=4.0)
        first, second, total = outcome.metrics["m"]
        assert (first["scored"], second["scored"], total["scored"]) == (3, 0, 3)
        assert second[names[0]] is None and second[names[-1]] == first[names[-1]] is not None
        table.label[:4] = [None] * 4
        nothing = train([("m", table.chunk())], spec, window=4.0)
        assert {line[name] for line in nothing.metrics["m"] for name in names} == {None}


@pytest.mark.parametrize("most", [2, 4, 50])
def test_classes_without_room_are_one_in_the_confusion(most: int) -> None:
    """A class too many, or one with too long a name."""
    spec = RidgeSpec(max_classes=most)
    table = make_features(120, seed=3, missing=0.0)
    table.label[100] = "x" * 201
    outcome = train([("m", chunk) for chunk in table.cut([17])], spec, window=10.0)
    known = set(CLASSES[:most])
    folded = [
        {**row, "label": row["label"] if row["label"] in known else OTHER}
        for row in outcome.predictions["m"]
    ]
    expected = metrics_of(spec, folded, clock_of(table), 10 * SECOND)
    same_metrics(outcome.metrics["m"], expected)
    total = outcome.metrics["m"][-1]["confusion"]
    assert {cell["label"] for cell in total} == {*known, OTHER}
    assert outcome.counters["unusable"] == sum(label not in known for label in table.label)
    assert known == set(list(dict.fromkeys(table.label))[: len(known)])


def test_errors_without_bound_stay_figures() -> None:
    """Targets that are infinite are not learned or scored; huge ones are, and nothing breaks."""
    table = make_features(12, spec=REGRESSION, missing=0.0)
    table.label[3:7] = [float("inf"), 1e99, -1e99, float("nan")]
    outcome = train([("m", table.chunk())], REGRESSION, window=2.0)
    _, records = core_alone(REGRESSION, dataclasses.replace(table, label=table.label))
    assert [row["error"] for row in outcome.predictions["m"]] == [row["error"] for row in records]
    total = outcome.metrics["m"][-1]
    assert (total["rows"], total["scored"]) == (12, 9)
    assert np.isfinite([total["rmse"], total["mae"]]).all() and total["rmse"] > 1e98


def test_late_labels_count_where_their_rows_were_predicted() -> None:
    table = make_features(40, seed=4, missing=0.0, times=np.arange(40) * SECOND)
    bare = dataclasses.replace(table, label=[None] * 40)
    labels = [Late(table.label[row], index=row, row=row) for row in range(40)]
    bundles = [
        [("m", bare.part(0, 6).chunk())],
        [("m", label_chunk(labels[:6]))],
        [("m", bare.part(6, 12).chunk())],
        [("m", label_chunk(labels[6:12]))],
        [("m", bare.part(12, 40).chunk())],
    ]
    outcome = train_stream(bundles, late=LateLabels(6.0, 100), window=10.0)
    # The last chunk brings rows and their deadlines at once: no label of theirs comes in time.
    assert [row["label"] for row in outcome.scored["m"]] == [*table.label[:12], *[None] * 28]
    expected = metrics_of(SPEC, outcome.scored["m"], clock_of(table), 10 * SECOND)
    same_metrics(outcome.metrics["m"], expected)
    assert [line["scored"] for line in outcome.metrics["m"]] == [4, 2, 0, 0, 6]


@pytest.mark.parametrize(
    ("late", "given"),
    [
        (None, {10: [0], 30: [10]}),
        (LateLabels(6.0, 100), {15: [0], 30: [10]}),
        (LateLabels(None, 3), {12: [0], 32: [10]}),
    ],
)
def test_a_window_is_given_out_once_its_rows_are_settled(
    late: LateLabels | None, given: dict[int, list[int]]
) -> None:
    """And a row at or after its end has come: no window waits for the end of the input."""
    seconds = [*range(20), *range(30, 40)]
    table = make_features(30, times=np.array(seconds) * SECOND)
    step = Step(SPEC, late=late, window=10 * SECOND)
    found = {}
    for row, second in enumerate(seconds):
        starts = [
            line["start"] // SECOND
            for name, (_, lines) in step.take(table.part(row, row + 1).chunk())
            if name == METRICS
            for line in lines.batch.to_pylist()
        ]
        if starts:
            found[second] = starts
    assert found == given


def test_windows_do_not_depend_on_the_model_beside() -> None:
    tables = {f"m{seed}": make_features(70, seed=seed) for seed in range(3)}
    elements = [(key, chunk) for key in tables for chunk in tables[key].cut([9])]
    outcome = train(elements[::-1], window=5.0)
    for key, table in tables.items():
        expected = metrics_of(SPEC, outcome.predictions[key], clock_of(table), 5 * SECOND)
        same_metrics(outcome.metrics[key], expected)


@pytest.mark.parametrize("spec", [RidgeSpec(), RidgeSpec(task="regression")], ids=["c", "r"])
def test_the_label_of_a_refused_row_is_no_guess(spec: RidgeSpec) -> None:
    """Else what guesses know would depend on what came with it, and on whether it was read back."""
    table = make_features(30, spec=spec, missing=0.0)
    table.z[0] = table.z[20] = 2 * MAX_FEATURE
    if spec.classifies:
        table.label[:3] = "run", "still", "run"
    found = []
    for size, kept in ((30, MOST_KEPT), (1, MOST_KEPT), (1, 0), (7, 0)):
        step = Step(spec)
        with patch.object(last_written_module, "MOST_KEPT", kept):
            for chunk in table.cut([size]):
                step.take(chunk)
            found += [dict(step.end())[METRICS][1].batch.to_pylist()]
    assert found[0][0]["scored"] == 27
    assert found == [found[0]] * 4


@pytest.mark.parametrize("window", [None, 10.0])
def test_sets_are_counted(window: float | None) -> None:
    spec = RidgeSpec(intervals=0.8, max_classes=2)
    table = make_features(150, seed=3, spec=spec)
    outcome = train([("m", chunk) for chunk in table.cut([40, 90])], spec, window=window)
    line = outcome.metrics["m"][-1]
    rows = [row for row in outcome.predictions["m"] if row["correct"] is not None]
    assert len(rows) == line["scored"]
    inside = [row["label"] in row["set"] for row in rows]
    assert line["coverage"] == pytest.approx(sum(inside) / len(rows))
    assert line["set_size"] == pytest.approx(sum(len(row["set"]) for row in rows) / len(rows))
    # A label without room is held by no set.
    assert {len(row["set"]) for row in rows} <= {0, 1, 2} and any(inside)


@pytest.mark.parametrize("window", [None, 10.0])
def test_intervals_are_counted(window: float | None) -> None:
    spec = RidgeSpec(task="regression", intervals=0.8)
    table = make_features(150, seed=3, spec=spec)
    outcome = train([("m", chunk) for chunk in table.cut([40, 90])], spec, window=window)
    line = outcome.metrics["m"][-1]
    rows = [row for row in outcome.predictions["m"] if row["error"] is not None]
    known = [row for row in rows if row["lower"] is not None]
    assert len(rows) == line["scored"] > len(known) == len(rows) - 1
    inside = [row["lower"] <= row["label"] <= row["upper"] for row in known]
    widths = [row["upper"] - row["lower"] for row in known]
    outside = [max(row["lower"] - row["label"], row["label"] - row["upper"], 0.0) for row in known]
    assert line["coverage"] == pytest.approx(sum(inside) / len(rows))
    assert line["width"] == pytest.approx(sum(widths) / len(rows))
    scores = [width + 10.0 * out for width, out in zip(widths, outside, strict=True)]
    assert line["interval_score"] == pytest.approx(sum(scores) / len(rows))
