"""Tables of confusion: which classes stand by themselves, and what the cells say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from pipelines.report.data.scores import CUT_CLASS, FIRST_CLASS, NO_CLASS
from pipelines.report.page.confusion import Confusion, confusion_of, confusion_table
from tests.report_runs import HOSTILE, features, page_of, predictions, put, run_folder, text_of


def places(codes: Sequence[int] | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.asarray(codes, dtype=np.int64) + FIRST_CLASS


def test_classes_stand_in_natural_order() -> None:
    classes = ["c10", "c9", "never"]
    got = confusion_of(places([0, 0, 1]), places([0, 1, 1]), np.array([5, 1, 3]), classes)
    assert got.names == ["c9", "c10"]
    assert got.counts.tolist() == [[3, 0], [1, 5]]
    assert (got.folded, got.unanswered) == (0, False)


def test_the_most_frequent_twenty_stand_by_themselves() -> None:
    classes = [f"c{k}" for k in range(23)]
    label = np.arange(23)
    said = np.roll(label, 1)
    got = confusion_of(places(label), places(said), 100 - label, classes)
    assert got.names == [f"c{k}" for k in range(20)]
    assert got.folded == 3
    expected = np.zeros((21, 21), dtype=int)
    for k in range(23):
        expected[min(k, 20), min((k - 1) % 23, 20)] += 100 - k
    assert got.counts.tolist() == expected.tolist()
    table = confusion_table(got, "name")
    assert '<th scope="col" title="other (3 classes)">other (3 classes)</th>' in table
    # The common cell of the others is no hit: it holds their mistakes among each other, too.
    assert table.count('class="hit"') == 0
    assert 'class="confusion dense"' in table


def test_a_class_that_is_only_predicted_has_its_column() -> None:
    got = confusion_of(places([0]), places([1]), np.array([4]), ["a", "b"])
    assert got.names == ["a", "b"]
    assert got.counts.tolist() == [[0, 4], [0, 0]]


def test_rows_without_a_prediction_have_a_column_at_the_end() -> None:
    said = np.array([FIRST_CLASS, NO_CLASS])
    got = confusion_of(places([0, 0]), said, np.array([4, 1]), ["a"])
    assert got.counts.tolist() == [[4, 1]]
    assert got.unanswered
    assert '<th scope="col" title="none">none</th>' in confusion_table(got, "name")


def test_classes_beyond_those_told_apart_are_others() -> None:
    label = np.array([FIRST_CLASS, CUT_CLASS])
    got = confusion_of(label, label, np.array([4, 1]), ["a"])
    assert (got.names, got.folded) == (["a"], None)
    assert got.counts.tolist() == [[4, 0], [0, 1]]
    assert "other (more)" in confusion_table(got, "name")


def test_cells_are_percentages_of_their_row() -> None:
    counts = np.array([[2, 1, 0], [0, 3, 1], [0, 0, 0]])
    table = confusion_table(Confusion(["a", "b", "c"], 0, counts), "Confusion of m")
    lines = re.findall(r"<tr>(.*)</tr>\n", table)[-3:]
    assert lines == [
        '<th scope="row" title="a">a</th><td class="n">3</td>'
        '<td class="hit" style="--s:0.67" title="2 rows">66.7</td>'
        '<td style="--s:0.33" title="1 row">33.3</td><td></td>',
        '<th scope="row" title="b">b</th><td class="n">4</td><td></td>'
        '<td class="hit" style="--s:0.75" title="3 rows">75.0</td>'
        '<td style="--s:0.25" title="1 row">25.0</td>',
        '<th scope="row" title="c">c</th><td class="n">0</td><td></td><td></td><td></td>',
    ]
    assert 'aria-label="Confusion of m"' in table
    full = confusion_table(Confusion(["a"], 0, np.array([[1234]])), "m")
    assert '<td class="hit" style="--s:1.00" title="1,234 rows">100</td>' in full


def test_names_are_escaped_everywhere() -> None:
    table = confusion_table(Confusion([HOSTILE], 0, np.array([[1]])), HOSTILE)
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
    assert "100.0 % of 6 scored rows were predicted right." in text
    assert "before is right in 0.0 %, the most frequent label in 33.3 %." in text
    assert "a 2 100 b 1 100 other (more) 3 100" in text
    assert "Among the others a class taken for another of them is in their common cell." in text
