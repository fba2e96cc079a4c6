"""Learners of a bundle's models together give what each gives by itself, and keep the same."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.learners import (
    AutoSpec,
    BSGDSpec,
    LearnerSpec,
    PegasosSpec,
    POLKSpec,
    RidgeSpec,
)
from kerneltrack.learners.common.prequential import MAX_FEATURE
from tests.oracles.learner_cases import every_spec
from tests.parts import examples
from tests.stream.learning import SECOND, Element, Step, make_features
from transforms.learn import learners
from transforms.learn.block import learn_rows
from transforms.learn.late_labels import LateLabels
from transforms.metrics import counting
from transforms.outputs import METRICS, PREDICTIONS, SNAPSHOTS
from transforms.track import keyed_fn

MODELS = 5
ROWS = 80
SPECS: tuple[LearnerSpec, ...] = (
    RidgeSpec(max_classes=3),
    RidgeSpec(task="regression", intervals=0.8),
    RidgeSpec(intervals=0.8),
    AutoSpec(budget=8, max_classes=3, inputs="features"),
    PegasosSpec(),
    POLKSpec(warmup=20, budget=12),
    BSGDSpec(warmup=20, budget=6),
)


def bundles(spec: LearnerSpec, seed: int, odd: bool, chunk: int) -> Iterator[list[Element]]:
    """Yield what comes for a few models, one of them silent at first; odd rows if asked for."""
    rng = np.random.default_rng(seed)
    parts: list[list[Element]] = []
    for model in range(MODELS):
        times = np.arange(ROWS) * SECOND
        if odd:
            times[rng.integers(20, ROWS)] -= 7 * SECOND
        rows = make_features(ROWS, seed=10 * seed + model, spec=spec, times=times)
        if odd and model in {1, 2}:
            rows.z[rng.integers(0, ROWS), rng.integers(0, 3)] = 2 * MAX_FEATURE
        sizes = iter(lambda: int(rng.integers(1, 2 * chunk)), 0)
        cut = [(f"m{model}", part) for part in rows.cut(sizes)]
        if odd and model == 3:
            place = int(rng.integers(0, len(cut) - 1))
            cut[place : place + 2] = [cut[place + 1], cut[place], cut[place]]
        parts.append([*[None] * (model % 2), *cut])  # type: ignore[list-item]
    turns = itertools.zip_longest(*parts)
    elements = [part for turn in turns for part in turn if part is not None]
    while elements:
        size = int(rng.integers(1, 4 * MODELS))
        yield elements[:size]
        del elements[:size]


def exact(outputs: Sequence[tuple[str, Any]]) -> dict[str, dict[str, list[str]]]:
    """Return what came out by output and model, as text that tells -0.0 from 0.0."""
    found: dict[str, dict[str, list[str]]] = {}
    for name, (key, value) in outputs:
        lines = [repr(value)] if isinstance(value, bytes) else map(repr, value.batch.to_pylist())
        found.setdefault(name, {}).setdefault(key, []).extend(lines)
    return found


def ran(
    spec: LearnerSpec, given: Sequence[Sequence[Element]], whole: bool, **plan: Any
) -> tuple[Any, ...]:
    """Run bundles through the step, or their elements one by one."""
    step = Step(spec, **plan)
    keys = sorted({key for bundle in given for key, _ in bundle})
    with counting() as counts:
        outputs = []
        for bundle in given:
            for part in [bundle] if whole else [[element] for element in bundle]:
                outputs += step.push(part)
        kept = [step.kept(key) for key in keys]
        for key in keys:
            outputs += step.end(key)
    return exact(outputs), kept, dict(counts.totals)


def compared(spec: LearnerSpec, given: Sequence[Sequence[Element]], **plan: Any) -> Any:
    expected = ran(spec, given, False, **plan)
    found = ran(spec, given, True, **plan)
    for mine, theirs in zip(found, expected, strict=True):
        assert mine == theirs
    return found[0]


@settings(max_examples=examples(20))
@given(
    spec=st.sampled_from(SPECS),
    seed=st.integers(0, 10_000),
    odd=st.booleans(),
    chunk=st.sampled_from([1, 2, 9, 40]),
    window=st.sampled_from([None, 3 * SECOND, 50 * SECOND]),
)
def test_they_give_what_each_gives_by_itself(
    spec: LearnerSpec, seed: int, odd: bool, chunk: int, window: int | None
) -> None:
    found = compared(spec, list(bundles(spec, seed, odd, chunk)), window=window)
    # All rows came out, and metrics of more than the totals where windows are asked for.
    assert [len(lines) for _, lines in sorted(found[PREDICTIONS].items())] == [ROWS] * MODELS
    many = sum(map(len, found[METRICS].values()))
    assert many > MODELS if window else many == MODELS


@every_spec
def test_every_learner_goes_on(spec: LearnerSpec) -> None:
    compared(replace(spec, max_classes=3), list(bundles(spec, 3, False, 9)))


@pytest.mark.parametrize("name", ["MOST_BYTES", "MOST_HELD"])
def test_blocks_are_cut_where_there_is_much(name: str) -> None:
    spec = RidgeSpec()
    given = list(bundles(spec, 1, True, 9))
    whole = ran(spec, given, True)
    with (
        patch.object(keyed_fn, name, 50),
        patch.object(learners, "learn_rows", wraps=learn_rows) as run,
    ):
        assert ran(spec, given, True) == whole
    assert run.call_count > len(given)


def test_what_a_model_keeps_is_its_own() -> None:
    """No part of arrays of all models: they would stay as long as it does."""
    spec = RidgeSpec()
    step = Step(spec, window=SECOND)
    for bundle in bundles(spec, 0, False, 9):
        step.push(bundle)
    kept = step._step._learners._values
    assert len(kept) == MODELS
    arrays = [
        array
        for _, now in kept.values()
        for array in (
            *now.board.arrays().values(),
            *(part for part in now.state if isinstance(part, np.ndarray)),
            now.waiting.rows.z,
            now.waiting.predictions.valid,
        )
    ]
    assert len(arrays) > 10 * MODELS
    assert all(array.base is None or array.base.size <= 4 * array.size + 64 for array in arrays)


@pytest.mark.parametrize("odd", [False, True])
def test_snapshots_in_between(odd: bool) -> None:
    spec = RidgeSpec()
    found = compared(spec, list(bundles(spec, 2, odd, 3)), every=13 * SECOND)
    assert sum(map(len, found[SNAPSHOTS].values())) >= 6 * MODELS


@pytest.mark.parametrize("odd", [False, True])
def test_labels_that_come_late(odd: bool) -> None:
    spec = RidgeSpec()
    compared(spec, list(bundles(spec, 0, odd, 9)), late=LateLabels(5.0, 100), every=13 * SECOND)
