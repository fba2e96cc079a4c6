"""Models of a local job are written in turns: all that change in an interval, however many."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from pipelines.local.models import Models


def changing(count: int) -> Models:
    """Return models of which each bundle changes all."""
    models = Models()
    change(models, count)
    return models


def change(models: Models, count: int) -> None:
    models.bundle += 1
    for n in range(count):
        models.visit(f"model-{n}")


@pytest.mark.parametrize(("count", "bundles"), [(1, 40), (16, 200), (1000, 100), (1000, 3)])
def test_all_that_change_are_written_once_in_an_interval(count: int, bundles: int) -> None:
    models, written = changing(count), Counter[str]()
    for _ in range(3 * bundles):
        written.update(each.key for each in models.save_some(1 / bundles, math.inf))
        change(models, count)
    assert len(written) == count
    assert {*written.values()} <= {2, 3}


def test_those_that_changed_first_are_written_first() -> None:
    models = changing(4)
    first = [each.key for each in models.save_some(0.5, math.inf)]
    change(models, 4)
    assert first == ["model-0", "model-1"]
    assert [each.key for each in models.save_some(1.0, math.inf)] == [
        *("model-2", "model-3", "model-0", "model-1")
    ]
    assert not models.save_some(1.0, math.inf)


def test_one_model_is_written_even_when_the_time_for_it_is_over() -> None:
    models = changing(3)
    assert [each.key for each in models.save_some(1.0, 0.0)] == ["model-0"]
    assert [each.key for each in models.save_some(0.0, math.inf)] == ["model-1", "model-2"]
