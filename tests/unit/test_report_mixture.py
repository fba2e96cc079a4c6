"""How sure predictions were, which experts carried them, and the ridge beside: report and page."""

from __future__ import annotations

import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kerneltrack.learners import AutoSpec, LMSSpec
from kerneltrack.learners.auto.learner import EXPERTS, Auto, course
from pipelines.files.record import experts, performance_text
from pipelines.report.data.choice import Choice
from pipelines.report.data.learning import RELIABILITY_BINS, Reliability, learning_of
from pipelines.report.data.mixture import POINTS, Course, mixture_of, weights_in
from pipelines.report.page.learning import sentence
from pipelines.report.page.mixture import HEIGHT, MOST_EXPERTS, WIDTH, course_view, reliability_view
from tests.report_runs import features, page_of, predictions, put, run_folder
from transforms.learn.metrics import LEAST_WEIGHT
from transforms.write.schemas import metrics_schema


def choice(*drawn: str) -> Choice:
    names = list(drawn)
    return Choice({name: k for k, name in enumerate(names)}, names, names, [None] * len(names))


def metrics(lines: list[dict[str, Any]], spec: Any = None) -> pa.Table:
    schema = metrics_schema(AutoSpec() if spec is None else spec)
    return pa.table(
        {
            name: pa.array([line.get(name) for line in lines], schema.field(name).type)
            for name in schema.names
        }
    )


def cells(*spans: tuple[int, dict[str, float]]) -> list[dict[str, Any]]:
    return [
        {"rows": rows, "expert": expert, "weight": weight}
        for rows, weights in spans
        for expert, weight in weights.items()
    ]


def test_reliability_is_counted_by_hand() -> None:
    found = Reliability()
    chance = np.array([0.31, 0.34, 0.96, 1.0, 0.5, math.nan, 1.5])
    right = np.array([True, False, True, False, True, True, True])
    found.add(chance[:3], right[:3])
    found.add(chance[3:], right[3:])
    assert len(found.rows) == RELIABILITY_BINS == 20
    assert {int(place): found.rows[place] for place in np.flatnonzero(found.rows)} == {
        6: 2,
        10: 1,
        19: 2,
    }
    assert (found.right[6], found.right[10], found.right[19]) == (1, 1, 1)
    assert found.chance[[6, 10, 19]].tolist() == pytest.approx([0.65, 0.5, 1.96])
    given = [0.31, 0.66, 0.96, 1e-6, 0.5]
    assert found.log_loss == pytest.approx(-math.fsum(map(math.log, given)), rel=1e-12)
    assert found.brier == pytest.approx(
        sum((1.0 - p) ** 2 for p in [0.31, 0.66, 0.96, 0.0, 0.5]), abs=1e-5
    )
    view = reliability_view(found)
    assert view is not None
    assert view["gap"] == pytest.approx((0.35 + 0.5 + 0.96) / 5)
    assert [point["rows"] for point in view["points"]] == [2, 1, 2]
    assert all(point["few"] for point in view["points"])
    assert reliability_view(Reliability()) is None


def test_courses_are_read_of_models_drawn_and_put_together_by_the_share_of_rows(
    tmp_path: Path,
) -> None:
    """A model of three times the rows counts three times; windows have no course."""
    short = cells((4, {"rows": 1.0}), (10, {"follower": 1.0}))
    long = cells((15, {"rows": 0.5, "stack": 0.5}), (30, {"stack": 1.0}))
    total = {"start": None, "scored": 9, "accuracy_rows": 0.5}
    window = {"start": 0, "end": 10**9, "scored": 3, "accuracy_rows": 0.1}
    table = metrics(
        [
            {"model_id": "a", **window},
            {"model_id": "a", **total, "experts": short},
            {"model_id": "b", **total, "scored": 29, "accuracy_rows": 0.9, "experts": long},
        ]
    )
    put(tmp_path, "metrics", table)
    found = mixture_of(str(tmp_path), choice("b", "c"))
    assert found.plain == {"a": (0.5, 9), "b": (0.9, 29)}
    own, none = found.drawn
    assert none is None and own is not None
    assert own.experts == ("rows", "stack") and own.ends.tolist() == [15, 30]
    assert own.weights.tolist() == [[0.5, 0.5], [0.0, 1.0]]
    whole = found.course
    assert whole is not None and whole.weights.shape == (POINTS, 3)
    place = {name: at for at, name in enumerate(whole.experts)}
    first, last = whole.weights[0], whole.weights[-1]
    assert first[[place["rows"], place["stack"]]].tolist() == pytest.approx([0.625, 0.375])
    assert last[[place["follower"], place["stack"]]].tolist() == pytest.approx([0.25, 0.75])
    assert whole.weights.sum(axis=1) == pytest.approx(np.ones(POINTS))


def test_the_report_has_the_weights_that_the_end_of_a_job_prints(tmp_path: Path) -> None:
    """Small ones are not in the metrics: they count among the others."""
    rng, spec, lines, counters = np.random.default_rng(7), AutoSpec(budget=20), [], Counter[str]()
    for model, many in (("a", 90), ("b", 12), ("c", 9)):
        names = [*"xyz"] * (many // 3)
        rows = rng.normal(size=(many, 3)) + (np.arange(many) % 3)[:, None]
        state, _ = Auto().update(spec, Auto().begin(spec, 3, 3), rows, names)
        counters.update({name: int(count) for name, count in Auto().counters(state).items()})
        spans = zip(*(part.tolist() for part in course(state)), strict=True)
        kept = [
            (end, {name: w for name, w in zip(EXPERTS, ws, strict=True) if w >= LEAST_WEIGHT})
            for end, ws in spans
        ]
        total = {"start": None, "scored": many, "accuracy_rows": 0.5}
        lines.append({"model_id": model, **total, "experts": cells(*kept)})
    put(tmp_path, "metrics", metrics(lines))
    counts = {"scored": 1, "accuracy": 1.0, **experts(counters)}
    view = course_view(mixture_of(str(tmp_path), choice()).course, None, weights_in(counts))
    assert view is not None
    shown = "; ".join(f"{name} {share:.0%}" for name, share in view["legend"][:3])
    assert performance_text(counts).endswith(f"\nmain sub-models: {shown}")
    assert sum(share for _, share in view["legend"]) == pytest.approx(1.0)


def test_a_picture_of_a_course_is_full_and_has_the_largest_experts() -> None:
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(8), size=5)
    course = Course(tuple("abcdefgh"), np.array([4.0, 8, 12, 16, 17]), weights)
    view = course_view(course, 17)
    assert view is not None and len(view["legend"]) == MOST_EXPERTS + 1
    assert view["legend"][-1][0] == "others"
    assert sum(share for _, share in view["legend"]) == pytest.approx(1.0)
    means = np.diff([0, 4, 8, 12, 16, 17]) @ weights / 17
    assert [name for name, _ in view["legend"][:-1]] == [
        "abcdefgh"[at] for at in np.argsort(-means)[:MOST_EXPERTS]
    ]
    assert sum(width for _, width, _ in view["columns"]) == pytest.approx(WIDTH)
    for _, _, bars in view["columns"]:
        assert sum(height for _, height, _ in bars) == pytest.approx(HEIGHT)
        assert min(y for y, _, _ in bars) == pytest.approx(0.0, abs=1e-9)
    assert course_view(None, None) is None


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_the_sentence_has_the_ridge_where_all_models_have(tmp_path: Path, task: str) -> None:
    label = ["x", "y"] * 5 if task == "classification" else [1.0, 2.0] * 5
    table = predictions(
        task, model_id=["a"] * 5 + ["b"] * 5, index=[*range(5)] * 2, prediction=label, label=label
    )
    put(tmp_path, "predictions", table)
    name = "accuracy_rows" if task == "classification" else "rmse_rows"
    lines = [
        {"model_id": model, "start": None, "scored": 5, name: value}
        for model, value in (("a", 0.5), ("b", 0.7))
    ]
    put(tmp_path, "metrics", metrics(lines, LMSSpec(task=task)))
    learning = learning_of(str(tmp_path), choice("a"))
    assert learning is not None
    whole = "60.0 %" if task == "classification" else f"{math.sqrt((0.25 + 0.49) / 2):.3g}"
    verb = "is right in" if task == "classification" else "has"
    assert (
        f"; a ridge regression on the plain rows, learned row by row, {verb} {whole}."
        in sentence(learning)
    )
    one = "70.0 %" if task == "classification" else "0.7"
    assert f"{verb} {one}" in sentence(learning, learning.scores.models["b"])
    put(tmp_path, "metrics", metrics(lines[:1], LMSSpec(task=task)))
    learning = learning_of(str(tmp_path), choice("a"))
    assert learning is not None and "ridge" not in sentence(learning)


def test_the_page_shows_all_of_it(tmp_path: Path) -> None:
    names = ["a"] * 20 + ["b"] * 20
    output = run_folder(tmp_path / "out", features({"a": 20, "b": 20}))
    label = ["x", "y"] * 20
    table = predictions(model_id=names, index=[*range(20)] * 2, prediction=label, label=label)
    place = table.schema.get_field_index("score")
    table = table.set_column(place, "score", pa.array([0.9] * 40))
    put(output, "predictions", table)
    lines = [
        {
            "model_id": model,
            "start": None,
            "scored": 20,
            "accuracy_rows": 0.5,
            "experts": cells((16, {"rows": 0.8, "stack": 0.2}), (20, {"stack": 1.0})),
        }
        for model in "ab"
    ]
    put(output, "metrics", metrics(lines))
    page = page_of(output)
    assert (
        "Which sub-models had the most weight" in page and "How sure, and how often right" in page
    )
    assert len(re.findall(r'<figure class="course">', page)) == 3
    assert "stack 36" in page and "20 rows learned from" in page
    assert page.count("<circle") >= 1 and "40 rows: probability 0.900, right 1.000" in page
    assert "differ by 10.0 points" in page
