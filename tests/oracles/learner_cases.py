"""Learners' settings and streams that the tests of all learners share."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from safetensors.numpy import load, save

from kerneltrack.in_memory import learn_all
from kerneltrack.learners import (
    AutoSpec,
    BSGDSpec,
    FOGDSpec,
    HingeSpec,
    Learner,
    LearnerSpec,
    LearnerState,
    LMSSpec,
    LogisticSpec,
    NOLANASpec,
    PASpec,
    PegasosSpec,
    POLKSpec,
    Predictions,
    RidgeSpec,
)
from kerneltrack.registry import LEARNERS, get_learner, parse_learner_spec
from tests.parts import in_turn

WIDTH = 3
CLASSES = ("still", "walk", "run", "climb")
SPECS: tuple[LearnerSpec, ...] = (
    PegasosSpec(),
    PegasosSpec(ridge=1e-2, project=True, bias=False),
    HingeSpec(ridge=1e-3, decay_rows=50),
    LogisticSpec(ridge=1e-3),
    LMSSpec(),
    LMSSpec(normalised=False, ridge=0.1, bias=False),
    LMSSpec(task="regression"),
    PASpec(),
    PASpec(variant="pa", bias=False),
    PASpec(task="regression", variant="pa2"),
    POLKSpec(warmup=20, budget=12),
    POLKSpec(loss="logistic", batch=5, gamma=2.0, kernel="laplacian", budget=9),
    POLKSpec(task="regression", warmup=20, budget=8, parsimony=0.0),
    BSGDSpec(warmup=20, budget=6),
    BSGDSpec(warmup=20, budget=6, maintenance="removal", kernel="laplacian"),
    BSGDSpec(gamma=2.0, budget=6, maintenance="projection", ridge=1e-3, decay_rows=50),
    NOLANASpec(warmup=20, budget=6, rank=4),
    NOLANASpec(kernel="laplacian", gamma=2.0, loss="logistic", budget=9, rank=9, threshold=1.0),
    NOLANASpec(task="regression", warmup=20, budget=8, rank=5, threshold=None),
    NOLANASpec(warmup=20, budget=6, rank=4, stage_order="move_first"),
    FOGDSpec(warmup=20, budget=30),
    FOGDSpec(kernel="laplacian", gamma=2.0, loss="logistic", budget=50, seed=7, ridge=1e-3),
    FOGDSpec(task="regression", warmup=20, budget=40, decay_rows=50),
    AutoSpec(budget=8, inputs="features"),
    AutoSpec(budget=60, forgetting=1.0, last_label=False, gamma=3.0, inputs="features"),
    AutoSpec(task="regression", budget=5, forgetting=0.95, inputs="features"),
    AutoSpec(effort="low", window=40, inputs="features"),
    RidgeSpec(),
    RidgeSpec(forgetting=1.0, bias=False),
    RidgeSpec(task="regression", forgetting=0.95),
    RidgeSpec(task="regression", intervals=0.9),
    POLKSpec(task="regression", warmup=20, budget=8, batch=3, intervals=0.5),
    AutoSpec(task="regression", budget=8, inputs="features", intervals=0.99),
    HingeSpec(intervals=0.9),
    POLKSpec(warmup=20, budget=8, batch=3, intervals=0.5),
    AutoSpec(budget=8, inputs="features", intervals=0.99),
    HingeSpec(class_weight="balanced", max_classes=4),
    POLKSpec(warmup=20, budget=8, batch=3, class_weight="root", intervals=0.5),
    AutoSpec(budget=8, inputs="features", costs=(("run", "walk", 3.0), ("still", "run", 0.2))),
    RidgeSpec(max_classes=2),
    POLKSpec(warmup=20, budget=8, batch=3, max_classes=2),
    AutoSpec(budget=8, inputs="features", max_classes=2, intervals=0.9),
)
SPECS += tuple(
    LEARNERS.spec_type(name)() for name in LEARNERS if all(spec.learner != name for spec in SPECS)
)


def title(spec: LearnerSpec) -> str:
    kind = type(spec)
    odd = [
        f"{field.name}={getattr(spec, field.name)}"
        for field in dataclasses.fields(spec)
        if getattr(spec, field.name) != getattr(kind(), field.name)
    ]
    return "-".join([spec.learner, *odd])


def lanes(specs: Iterable[LearnerSpec]) -> list[Any]:
    """Return learners as parameters; those that only vary one before are of the nightly lane.

    With each change runs each learner, with classes and with targets, and each setting that all
    learners share.
    """
    shown: set[Any] = set()
    params = []
    for spec in specs:
        shows: set[Any] = {(spec.learner, spec.classifies)}
        plain = type(spec)()
        shows |= {name for name in SHARED if getattr(spec, name, 0) != getattr(plain, name, 0)}
        marks = (pytest.mark.nightly,) if shows <= shown else ()
        params.append(pytest.param(spec, marks=marks, id=title(spec)))
        shown |= shows
    return params


SHARED = ("intervals", "class_weight", "costs", "max_classes")
every_spec = pytest.mark.parametrize("spec", lanes(SPECS))


def every_spec_in_turn(turn: int) -> pytest.MarkDecorator:
    """Parameters as `every_spec`: with each change a third of those, from this one on."""
    return pytest.mark.parametrize("spec", in_turn(lanes(SPECS), turn))


every_classifier = pytest.mark.parametrize("spec", lanes(spec for spec in SPECS if spec.classifies))
every_regressor = pytest.mark.parametrize(
    "spec", lanes(spec for spec in SPECS if not spec.classifies)
)


def stream(spec: LearnerSpec, count: int = 200, seed: int = 0) -> tuple[Any, Any]:
    """Rows and labels: classes appear late, labels are missing, rows and targets are broken."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, WIDTH))
    rows[rng.random(count) < 0.05, 1] = np.nan
    rows[rng.random(count) < 0.02, 0] = -np.inf
    absent = rng.random(count) < 0.2
    if spec.classifies:
        most = 1 + np.arange(count) * len(CLASSES) // count
        codes = (rng.random(count) * most).astype(int)
        return rows, [None if a else CLASSES[c] for a, c in zip(absent, codes, strict=True)]
    targets = rows @ [1.0, 2.0, 3.0]
    targets[absent] = np.nan
    targets[rng.random(count) < 0.05] = np.inf
    return rows, targets


def begun(spec: LearnerSpec, **options: Any) -> tuple[Learner, Any]:
    """A learner in the middle of its stream."""
    return get_learner(spec.learner), learn_all(spec, *stream(spec, **options))[0]


def arrays_of(state: Any) -> dict[str, npt.NDArray[Any]]:
    """A state's arrays by name."""
    return {name: each for name, each in state._asdict().items() if name not in ("classes", "kept")}


def same_state(left: LearnerState, right: LearnerState) -> None:
    assert left.classes == right.classes
    assert left.kept == right.kept
    assert type(left) is type(right)
    for name in arrays_of(left):
        mine, other = getattr(left, name), getattr(right, name)
        assert (mine.shape, mine.dtype) == (other.shape, other.dtype)
        assert mine.tobytes() == other.tobytes(), name


def columns(output_text: Predictions) -> dict[str, npt.NDArray[Any]]:
    values = {f.name: getattr(output_text, f.name) for f in dataclasses.fields(output_text)}
    return {
        name: value for name, value in values.items() if name != "classes" and value is not None
    }


def same_predictions(parts: list[Predictions], whole: Predictions) -> None:
    assert parts[-1].classes == whole.classes
    for name, column in columns(whole).items():
        joined = np.concatenate([getattr(part, name) for part in parts])
        assert joined.tobytes() == column.tobytes(), name


def round_trip(spec: LearnerSpec, learner: Learner, state: Any) -> Any:
    """The state, written and read again."""
    data = save(learner.arrays(state))
    header = json.loads(json.dumps(learner.header(state)))
    again = parse_learner_spec(json.loads(json.dumps(spec.to_dict())))
    assert again == spec
    return learner.from_arrays(again, load(data), header)
