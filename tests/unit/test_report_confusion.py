"""Tables of confusion: which classes stand by themselves, and what the cells say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pipelines.report.data.predictions import CUT_CLASS, FIRST_CLASS, NO_CLASS
from pipelines.report.page.learning import Confusion, confusion_of
from pipelines.report.page.page import templates
from tests.report_runs import HOSTILE, features, page_of, predictions, put, run_folder, text_of


def places(codes: Sequence[int] | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.asarray(codes, dtype=np.int64) + FIRST_CLASS


def table_of(confusion: Confusion, name: str) -> str:
    module: Any = templates().get_template("parts.html").module
    return str(module.confusion_table(confusion, name))


def test_classes_stand_in_natural_order() -> None:
    classes = ["c10", "c9", "never"]
    got = confusion_of(places([0, 0, 1]), places([0, 1, 1]), np.array([5, 1, 3]), classes)
    assert got == Confusion(["c9", "c10"], ["c9", "c10"], [("c9", [3, 0]), ("c10", [1, 5])])


def test_the_most_frequent_twenty_stand_by_themselves() -> None:
    classes = [f"c{k}" for k in range(23)]
    label = np.arange(23)
    got = confusion_of(places(label), places(np.roll(label, 1)), 100 - label, classes)
    assert got.names == [f"c{k}" for k in range(20)]
    assert got.columns == [*got.names, "other (3 classes)"]
    expected = np.zeros((21, 21), dtype=int)
    for k in range(23):
        expected[min(k, 20), min((k - 1) % 23, 20)] += 100 - k
    assert got.lines == list(zip(got.columns, expected.tolist(), strict=True))
    table = table_of(got, "name")
    assert '<th scope="col" title="other (3 classes)">other (3 classes)</th>' in table
    # The common cell of the others is no hit: it holds their mistakes among each other, too.
    assert table.count('class="hit"') == 0
    assert 'class="confusion dense"' in table


def test_a_class_that_is_only_predicted_has_its_column() -> None:
    got = confusion_of(places([0]), places([1]), np.array([4]), ["a", "b"])
    assert got == Confusion(["a", "b"], ["a", "b"], [("a", [0, 4]), ("b", [0, 0])])


def test_rows_without_a_prediction_have_a_column_at_the_end() -> None:
    predicted = np.array([FIRST_CLASS, NO_CLASS])
    got = confusion_of(places([0, 0]), predicted, np.array([4, 1]), ["a"])
    assert got == Confusion(["a"], ["a", "none"], [("a", [4, 1])])


def test_classes_beyond_those_known_are_others() -> None:
    label = np.array([FIRST_CLASS, CUT_CLASS])
    got = confusion_of(label, label, np.array([4, 1]), ["a"])
    assert got.columns == ["a", "other (more)"]
    assert got.lines == [("a", [4, 0]), ("other (more)", [0, 1])]


def test_cells_are_percentages_of_their_row() -> None:
    names = ["a", "b", "c"]
    lines = [("a", [2, 1, 0]), ("b", [0, 3, 1]), ("c", [0, 0, 0])]
    table = table_of(Confusion(names, names, lines), "Confusion of m")
    assert re.findall(r"<tr>(.*)</tr>\n", table)[-3:] == [
        '<th scope="row" title="a">a</th><td class="n">3</td>'
        '<td class="hit" style="--s:0.67" title="2 rows">66.7</td>'
        '<td style="--s:0.33" title="1 row">33.3</td><td></td>',
        '<th scope="row" title="b">b</th><td class="n">4</td><td></td>'
        '<td class="hit" style="--s:0.75" title="3 rows">75.0</td>'
        '<td style="--s:0.25" title="1 row">25.0</td>',
        '<th scope="row" title="c">c</th><td class="n">0</td><td></td><td></td><td></td>',
    ]
    assert 'aria-label="Confusion of m"' in table
    full = table_of(Confusion(["a"], ["a"], [("a", [1234])]), "m")
    assert '<td class="hit" style="--s:1.00" title="1,234 rows">100</td>' in full


def test_names_are_escaped_everywhere() -> None:
    table = table_of(Confusion([HOSTILE], [HOSTILE], [(HOSTILE, [1])]), HOSTILE)
    assert "<img" not in table
    assert "</script" not in table
    assert table.count("&lt;/script&gt;") == 5


def test_too_many_classes_are_told_apart_no_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.report.data.labels.MOST_CLASSES_OF_TEXT", 2)
    output = run_folder(tmp_path, features({"m": 6}))
    label = ["a", "b", "c", "d", "a", "c"]
    table = predictions(model_id=["m"] * 6, index=range(6), prediction=label, label=label)
    put(output, "predictions", table)
    text = text_of(page_of(output))
    # c and d are right like the others; no guess of a reference is right about them.
    assert "100.0 % of 6 rows with a label were predicted right." in text
    assert "before is right in 0.0 %, the most frequent label in 33.3 %." in text
    assert "a 2 100 b 1 100 other (more) 3 100" in text
    assert "A mistake between two of the others is in their common cell." in text
