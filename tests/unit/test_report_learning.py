"""The report's part on predictions against counts written out row by row."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.report.data.choice import Choice
from pipelines.report.data.learning import LearningResults, gain, learning_of
from pipelines.report.data.predictions import FIRST_CLASS
from pipelines.report.page.learning import REFERENCES, references_of, sentence
from tests.report_runs import (
    HOSTILE,
    SECOND,
    START,
    data_of,
    features,
    floats,
    page_of,
    predictions,
    put,
    run_folder,
    text_of,
)

MODELS = ("a", "b", "c")


def choice(drawn: list[str], starts: list[int | None] | None = None) -> Choice:
    return Choice({name: k for k, name in enumerate(drawn)}, drawn, drawn, starts or [None])


def random_rows(seed: int, task: str) -> pa.Table:
    """Rows of three models, one after another, with missing labels and first predictions."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 60, len(MODELS))
    n = int(lengths.sum())
    index = np.concatenate([np.arange(length) for length in lengths])
    if task == "classification":
        label = rng.choice(["x", "y", "z"], n, p=[0.6, 0.3, 0.1]).astype(object)
        answer = rng.choice(["x", "y", "z", "w"], n).astype(object)
    else:
        label, answer = rng.normal(size=n).astype(object), rng.normal(size=n).astype(object)
    label[rng.random(n) < 0.3] = None
    answer[index < rng.integers(0, 3)] = None
    model = np.repeat(np.array(MODELS, dtype=object), lengths)
    return predictions(
        task,
        model_id=model,
        index=index,
        time=START + index * SECOND,
        prediction=answer,
        label=label,
    )


def losses_of(rows: list[dict[str, Any]], task: str) -> dict[str, list[float]]:
    """Losses of the learner, of the label before and of the best constant, by model."""
    found: dict[str, list[float]] = {}
    for name in MODELS:
        mine = [row for row in rows if row["model_id"] == name]
        scored = [row for row in mine if None not in (row["label"], row["prediction"])]
        labels = [row["label"] for row in scored]
        sums = [0.0, 0.0, 0.0]
        # Of classes equally frequent the one named first, in whatever order files are read: the
        # sum is the same for each of them.
        if task == "classification":
            best: Any = Counter(labels).most_common(1)[0][0] if labels else None
        else:
            best = math.fsum(labels) / len(labels) if labels else None
        last = None
        for row in mine:
            if row in scored:
                before = best if last is None and task == "regression" else last
                for k, guess in enumerate((row["prediction"], before, best)):
                    if task == "classification":
                        sums[k] += guess != row["label"]
                    else:
                        sums[k] += (guess - row["label"]) ** 2
            last = row["label"] if row["label"] is not None else last
        found[name] = sums
    return found


@given(
    st.integers(0, 10_000),
    st.sampled_from(["classification", "regression"]),
    st.lists(st.integers(1, 170), max_size=4),
    st.booleans(),
)
def test_losses_equal_those_counted_row_by_row(
    tmp_path_factory: pytest.TempPathFactory, seed: int, task: str, cuts: list[int], mixed: bool
) -> None:
    table = random_rows(seed, task)
    expected = losses_of(table.to_pylist(), task)
    rng = np.random.default_rng(seed)
    shuffled = table.take(rng.permutation(len(table))) if mixed else table
    edges = [0, *sorted(cut for cut in cuts if cut < len(table)), len(table)]
    output = tmp_path_factory.mktemp("run")
    parts = [shuffled.slice(a, b - a) for a, b in pairwise(edges)]
    put(output, "predictions", *parts)
    learning = learning_of(str(output), choice(["a"]))
    assert learning is not None
    scores = learning.scores
    rows: list[Any] = table.to_pylist()
    counts = Counter(row["model_id"] for row in rows)
    for name, code in scores.models.items():
        scored = [
            row
            for row in rows
            if row["model_id"] == name and None not in (row["label"], row["prediction"])
        ]
        assert scores.predicted.rows[code] == counts[name]
        assert scores.scored.rows[code] == len(scored)
        assert learning.losses[code] == pytest.approx(expected[name], rel=1e-12)
        assert scores.length[code] == max((row["index"] + 1 for row in scored), default=0)
        if task == "regression":
            errors = [row["error"] for row in scored]
            assert scores.scored.sums["absolute"][code] == pytest.approx(math.fsum(errors))
    if task == "classification":
        assert tally_of(learning) == Counter(
            (row["model_id"], row["label"], row["prediction"])
            for row in rows
            if None not in (row["label"], row["prediction"])
        )


def tally_of(learning: LearningResults) -> Counter[tuple[str, str, str]]:
    names = list(learning.scores.models)
    classes = learning.classes
    found: Counter[tuple[str, str, str]] = Counter()
    for model, label, guess, count in zip(*learning.scores.tally.columns(), strict=True):
        key = names[model], classes[label - FIRST_CLASS], classes[guess - FIRST_CLASS]
        found[key] = int(count)
    return found


def test_the_row_before_reaches_over_files_and_over_missing_labels(tmp_path: Path) -> None:
    label = ["x", None, None, "x", "y", None, "y"]
    table = predictions(
        model_id=["m"] * 7, index=range(7), prediction=[None, *["x"] * 6], label=label
    )
    put(tmp_path, "predictions", table.slice(5), table.slice(0, 2), table.slice(2, 3))
    learning = learning_of(str(tmp_path), choice(["m"]))
    assert learning is not None
    # Scored are rows 3, 4 and 6: the label before them is x, x and y; the most frequent is y.
    assert learning.losses.tolist() == [[2.0, 1.0, 1.0]]
    assert float(gain(learning.losses[0])) == -1.0


def test_a_scored_row_without_a_prediction_is_a_mistake(tmp_path: Path) -> None:
    """As learners score the row that brings the first class of all."""
    table = predictions(
        model_id=["m"] * 3, index=range(3), prediction=[None, "x", "x"], label=["x", "x", "y"]
    )
    correct = pa.array([False, True, False])
    output = run_folder(tmp_path / "run", features({"m": 3}))
    put(output, "predictions", table.set_column(table.num_columns - 1, "correct", correct))
    text = text_of(page_of(output))
    assert "33.3 % of 3 rows with a label were predicted right." in text
    # The columns of the confusion: x, y, and rows without a prediction.
    assert "predicted → Rows x y none x 2 50.0 50.0 y 1 100" in text


def test_a_row_whose_label_is_not_there_is_not_scored(tmp_path: Path) -> None:
    table = predictions(
        model_id=["m"] * 2, index=range(2), prediction=["x", "x"], label=["x", None]
    )
    correct = pa.array([True, False])
    put(tmp_path, "predictions", table.set_column(table.num_columns - 1, "correct", correct))
    learning = learning_of(str(tmp_path), choice(["m"]))
    assert learning is not None
    assert learning.scores.scored.rows.tolist() == [1]


def test_rows_in_any_order_are_few_runs(tmp_path: Path) -> None:
    table = random_rows(0, "classification")
    put(tmp_path, "predictions", table.take(np.random.default_rng(0).permutation(len(table))))
    learning = learning_of(str(tmp_path), choice(["a"]))
    assert learning is not None
    assert len(learning.scores.known) == len(MODELS)


def test_without_a_mistake_of_a_reference_there_is_no_gain() -> None:
    assert math.isnan(gain(np.array([1.0, 0.0, 3.0])))
    assert gain(np.array([[1.0, 4.0, 2.0], [0.0, 5.0, 9.0]])).tolist() == [0.5, 1.0]


def test_a_prediction_without_a_score_counts_as_a_row_alone(tmp_path: Path) -> None:
    table = predictions(
        model_id=["m"] * 3, index=range(3), prediction=["x", "x", "x"], label=[None] * 3
    )
    output = run_folder(tmp_path / "run", features({"m": 3}))
    put(output, "predictions", table)
    page = page_of(output)
    assert "No row was scored: none has a label." in text_of(page)
    learning = data_of(page)["learning"]
    assert learning["curves"] == [None]
    assert (learning["table"]["rows"], learning["table"]["scored"]) == ([3], [0])
    assert learning["table"]["learner"] == learning["table"]["gain"] == [None]
    assert 'id="confusion-title"' not in page


def curve_of(tmp_path: Path, *, time: list[int] | None = None) -> dict[str, Any]:
    """One model, 200 rows: the second quarter is wrong, the label changes at row 100."""
    answer = ["x"] * 50 + ["y"] * 50 + ["y"] * 100
    label = ["x"] * 100 + ["y"] * 100
    columns: dict[str, Any] = {
        "model_id": ["m"] * 200,
        "index": range(200),
        "prediction": answer,
        "label": label,
    }
    if time is not None:
        columns["time"] = time
    put(tmp_path, "predictions", predictions(**columns))
    start = time[0] if time else None
    learning = learning_of(str(tmp_path), choice(["m"], [start]))
    assert learning is not None
    assert (learning.by_time, learning.by_row) == (None, None)
    assert learning.curves[0] is not None
    curve = learning.curves[0]
    assert curve.start == start
    return {"covered": curve.covered, **{k: v.tolist() for k, v in curve.values.items()}}


def test_the_curve_has_bins_and_all_rows_so_far(tmp_path: Path) -> None:
    curve = curve_of(tmp_path, time=[START + k * SECOND for k in range(200)])
    assert curve["row"] == [24.5, 74.5, 124.5, 174.5]
    assert curve["time"] == [24.5, 74.5, 124.5, 174.5]
    assert curve["block"] == [1.0, 0.0, 1.0, 1.0]
    assert curve["learner"] == pytest.approx([1.0, 0.5, 2 / 3, 0.75])
    # The first row has none before it, row 100 has another.
    assert curve["before"] == pytest.approx([49 / 50, 99 / 100, 148 / 150, 198 / 200])
    # Both labels are as frequent: the one met first.
    assert curve["constant"] == pytest.approx([1.0, 1.0, 2 / 3, 0.5])
    assert curve["covered"] == 1.0


def test_the_curve_breaks_where_nothing_was_recorded(tmp_path: Path) -> None:
    time = [START + (k + 1000 * (k >= 100)) * SECOND for k in range(200)]
    curve = curve_of(tmp_path, time=time)
    assert np.isnan(curve["block"]).tolist() == [False, False, True, False, False]
    assert curve["covered"] == pytest.approx(1 - 1001 / 1199)


def test_without_times_the_axis_counts_rows(tmp_path: Path) -> None:
    assert "time" not in curve_of(tmp_path)


def test_a_regressions_curve_is_a_root_mean_square(tmp_path: Path) -> None:
    table = predictions(
        "regression",
        model_id=["m"] * 100,
        index=range(100),
        prediction=[1.0] * 50 + [0.0] * 50,
        label=[4.0, -4.0] * 25 + [0.0, 2.0] * 25,
    )
    put(tmp_path, "predictions", table)
    learning = learning_of(str(tmp_path), choice(["m"]))
    assert learning is not None
    assert learning.curves[0] is not None
    values = learning.curves[0].values
    first = (9 + 25) / 2
    assert values["block"] == pytest.approx([math.sqrt(first), math.sqrt(2)])
    assert values["learner"] == pytest.approx([math.sqrt(first), math.sqrt((first + 2) / 2)])
    # The mean label is 0.5; the first row, which has none before it, is guessed to be that.
    first_before = (3.5**2 + 49 * 8.0**2) / 50
    second_before = (4.0**2 + 49 * 2.0**2) / 50
    assert values["before"] == pytest.approx(
        [math.sqrt(first_before), math.sqrt((first_before + second_before) / 2)]
    )
    constant = [(3.5**2 + 4.5**2) / 2, (0.5**2 + 1.5**2) / 2]
    assert values["constant"] == pytest.approx(
        [math.sqrt(constant[0]), math.sqrt((constant[0] + constant[1]) / 2)]
    )


def test_all_models_together_have_curves_by_time_and_by_row(tmp_path: Path) -> None:
    """Model a comes in the first hundred seconds and is right, b in the second and is wrong."""
    n = 100
    table = predictions(
        model_id=["a"] * n + ["b"] * n,
        index=[*range(n), *range(n)],
        time=[START + k * SECOND for k in range(2 * n)],
        prediction=["x"] * (2 * n),
        label=["x"] * n + ["y"] * n,
    )
    put(tmp_path, "predictions", table)
    learning = learning_of(str(tmp_path), choice(["a", "b"], [START, START + n * SECOND]))
    assert learning is not None
    assert learning.by_time is not None
    assert learning.by_row is not None
    assert learning.by_time.values["block"].tolist() == [1.0, 1.0, 0.0, 0.0]
    assert learning.by_time.values["learner"] == pytest.approx([1.0, 1.0, 2 / 3, 0.5])
    assert learning.by_time.start == START
    assert learning.by_time.values["time"].tolist() == [24.5, 74.5, 124.5, 174.5]
    assert learning.by_row.values["block"] == pytest.approx([0.5] * 4)
    assert learning.by_row.values["row"].tolist() == [12.0, 37.0, 62.0, 87.0]
    assert "time" not in learning.by_row.values


def test_long_models_are_drawn_from_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.report.data.learning.MOST_BLOCKS", 10)
    rng = np.random.default_rng(0)
    label = rng.choice(["x", "y"], 1000)
    table = predictions(
        model_id=["m"] * 1000, index=range(1000), prediction=["x"] * 1000, label=label.tolist()
    )
    put(tmp_path, "predictions", table)
    learning = learning_of(str(tmp_path), choice(["m"]))
    assert learning is not None
    assert learning.curves[0] is not None
    right = (label == "x").reshape(10, 100).mean(axis=1)
    assert learning.curves[0].values["block"] == pytest.approx(right)
    assert learning.curves[0].values["row"].tolist() == [49.5 + 100 * k for k in range(10)]


def page_with(tmp_path: Path, task: str = "classification", **columns: Any) -> str:
    rows = Counter(columns["model_id"])
    output = run_folder(tmp_path, features(dict(rows)))
    put(output, "predictions", predictions(task, **columns))
    return page_of(output)


def test_the_page_says_how_the_learner_stands(tmp_path: Path) -> None:
    page = page_with(
        tmp_path,
        model_id=["m9"] * 6 + ["m10"] * 4,
        index=[*range(6), *range(4)],
        prediction=[None, "x", "x", "y", "y", "x", None, "y", "y", "x"],
        label=["x", "x", "x", "y", "x", None, "y", "y", "y", "y"],
    )
    text = text_of(page)
    # Scored: m9 1..4 (three right; label before right in 1 and 2), m10 1..3 (two right).
    assert (
        "71.4 % of 7 rows with a label were predicted right. In the same rows the same label as "
        "the row before is right in 71.4 %, the most frequent label of each device in 85.7 %. The "
        "learner makes 2.00 times as many mistakes as the better of the two, the most frequent "
        "label of each device."
    ) in text
    assert "Rows predicted 10" in text
    assert "With a label 7 70.0 % of the rows Correct 5 Accuracy 71.4 %" in text
    # x: 2 of 3 right; y: 3 of 4.
    assert "Balanced accuracy 70.8 % mean over the classes" in text
    learning = data_of(page)["learning"]
    assert learning["table"] == {
        "id": ["m9", "m10"],
        "rows": [6, 4],
        "scored": [4, 3],
        "learner": [0.75, pytest.approx(2 / 3, rel=1e-5)],
        "before": [0.5, 1.0],
        "constant": [0.75, 1.0],
        "gain": [0.0, None],
        "correct": [3, 2],
        "balanced": [pytest.approx(5 / 6, rel=1e-5), pytest.approx(2 / 3, rel=1e-5)],
    }
    nine, ten = learning["curves"]
    assert nine["note"].startswith(
        "75.0 % of 4 rows with a label were predicted right. In the same rows the same label as "
        "the row before is right in 50.0 %, the most frequent label in 75.0 %."
    )
    assert ten["note"].endswith(
        "Nothing can be gained on the same label as the row before: it makes no mistake."
    )
    assert floats(nine["values"]["learner"]) == [0.75]
    assert floats(learning["byRow"]["values"]["learner"]) == [pytest.approx(5 / 7)]
    assert (learning["byTime"], learning["classifies"]) == (None, True)
    assert page.count('<details class="confusion-of"') == 2
    assert 'data-curve="1"><summary>Confusion of <b>m10</b>' in page


def test_the_page_says_how_a_regression_stands(tmp_path: Path) -> None:
    page = page_with(
        tmp_path,
        "regression",
        model_id=["m"] * 5,
        index=range(5),
        prediction=[None, 1.0, 2.0, 3.0, 4.0],
        label=[0.0, 2.0, 2.0, 4.0, 4.0],
    )
    text = text_of(page)
    # Errors 1, 0, 1, 0; the row before is off by 2, 0, 2, 0; the mean 3 by 1 each time.
    assert (
        "The root mean squared error over 4 rows with a label is 0.707. In the same rows that of "
        "the value of the row before is 1.41, that of the mean value 1.00. The better of the two "
        "is the mean value: the learner saves 50.0 % of its squared error."
    ) in text
    assert "RMSE 0.707 root mean squared error MAE 0.500 mean absolute error" in text
    assert data_of(page)["learning"]["table"]["mae"] == [0.5]
    assert "Confusion" not in text
    # Of one model there is nothing more to say over all models.
    assert 'id="score-all"' not in page
    assert data_of(page)["learning"]["byRow"] is None


def test_almost_all_is_not_all(tmp_path: Path) -> None:
    label = ["x"] * 4000 + ["y"] * 4000
    page = page_with(
        tmp_path, model_id=["m"] * 8000, index=range(8000), prediction=label, label=label
    )
    # The row before is wrong about the first row and the first y.
    assert "predicted right. In the same rows the same label as the row before is right in " in page
    assert "is right in 99.97 %, the most frequent label in 50.0 %." in text_of(page)
    assert "100.0 % of 8,000 rows with a label" in text_of(page)


def test_a_learner_worse_than_the_references_is_said_to_be(tmp_path: Path) -> None:
    page = page_with(
        tmp_path,
        "regression",
        model_id=["m"] * 3,
        index=range(3),
        prediction=[None, 3.0, 5.0],
        label=[1.0, 2.0, 3.0],
    )
    assert "the mean value: the learner has 10.0 times its squared error." in text_of(page)


def test_a_runaway_prediction_leaves_the_page_whole(tmp_path: Path) -> None:
    page = page_with(
        tmp_path,
        "regression",
        model_id=["m"] * 3,
        index=range(3),
        prediction=[1e300, -1e300, 0.0],
        label=[1.0, 2.0, 3.0],
    )
    assert data_of(page)["learning"]["table"]["learner"] == [None]
    text = text_of(page)
    assert (
        "over 3 rows with a label is –. In the same rows that of the value of the row before is"
        in text
    )
    assert "The better of the two" not in text


@pytest.mark.parametrize("empty", [False, True])
def test_a_run_without_predictions_has_no_such_part(tmp_path: Path, empty: bool) -> None:
    output = run_folder(tmp_path, features({"m": 5}))
    if empty:
        none: list[Any] = []
        table = predictions(model_id=none, index=none, prediction=none, label=none)
        put(output, "predictions", table)
    page = page_of(output)
    assert data_of(page)["learning"] is None
    for name in ("score", "score-all", "scores", "learning-title", "confusion-title"):
        assert f'id="{name}"' not in page


def test_models_that_the_features_do_not_name_count_in_the_totals(tmp_path: Path) -> None:
    output = run_folder(tmp_path, features({"m": 2}))
    columns: dict[str, Any] = {
        "model_id": ["m", "m", "other", "other"],
        "index": [0, 1, 0, 1],
        "prediction": ["x"] * 4,
        "label": ["x", "x", "x", "y"],
    }
    put(output, "predictions", predictions(**columns))
    page = page_of(output)
    assert "75.0 % of 4 rows with a label were predicted right" in text_of(page)
    assert data_of(page)["learning"]["table"]["id"] == ["m"]


def test_hostile_models_and_classes_stay_texts(tmp_path: Path) -> None:
    names = [HOSTILE, f"{HOSTILE}2"]
    page = page_with(
        tmp_path,
        model_id=[names[0]] * 2 + [names[1]] * 2,
        index=[0, 1, 0, 1],
        prediction=[HOSTILE, "x", HOSTILE, "x"],
        label=[HOSTILE, HOSTILE, "x", "x"],
    )
    assert "<img" not in page
    assert page.count("</script>") == page.count("<script")
    assert data_of(page)["learning"]["table"]["id"] == names
    assert " ".join(f"Confusion of {HOSTILE}2".split()) in text_of(page)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_labels_that_come_late_have_no_row_before(tmp_path: Path, task: str) -> None:
    table = random_rows(3, task)
    put(tmp_path, "predictions", table)
    at_once = learning_of(str(tmp_path), choice(["a"]))
    late = learning_of(str(tmp_path), choice(["a"]), late=True)
    assert late is not None
    assert at_once is not None
    np.testing.assert_array_equal(late.losses, at_once.losses)
    before, constant = REFERENCES[task == "classification"]
    assert references_of(late) == (None, constant)
    assert references_of(at_once) == (before, constant)
    assert before in sentence(at_once)
    output_text = sentence(late)
    assert before not in output_text
    assert "Labels came later than their rows" in output_text
    losses = late.losses.sum(axis=0)
    assert float(late.gain(losses)) == pytest.approx(1 - losses[0] / losses[2])
