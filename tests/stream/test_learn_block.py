"""Learners of many models at once: what each says by itself, bit for bit."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from kerneltrack import Fleet
from kerneltrack.learners import AutoSpec, LearnerSpec, RidgeSpec
from kerneltrack.learners.common.labels import MAX_NAME
from kerneltrack.learners.common.prequential import MAX_FEATURE
from kerneltrack.snapshots.folder import SnapshotFolder
from tests.oracles.learner_cases import WIDTH, every_spec
from transforms.chunks import Chunk, matrix_column
from transforms.learn.late_labels import LateLabels
from transforms.learn.transform import TrainLinear
from transforms.metrics import counting
from transforms.outputs import METRICS, PREDICTIONS
from transforms.partition.learn_block import bytes_of, learn_models, takes_blocks
from transforms.partition.steps import Rows, State, Steps
from transforms.track.order import Order

SIZES = {"a": 300, "b": 1, "none": 40, "c": 2, "é": 65, "long": 30, "z": 90}
"""Rows of each model; one has no label, one labels that are too long."""
STOPS = np.cumsum([*SIZES.values()])
STARTS: Any = STOPS - [*SIZES.values()]


def features(classifies: bool, columns: tuple[str, ...] = ("time", "x", "label")) -> Any:
    """Features of all models, whose labels depend on them, with some that are missing or odd."""
    rng = np.random.default_rng(7)
    count = int(STOPS[-1])
    z, x = rng.normal(size=(count, WIDTH)), rng.normal(size=(count, 2))
    index = np.concatenate([np.arange(size) for size in SIZES.values()])
    made: dict[str, Any] = {"index": pa.array(index), "z": matrix_column(z)}
    odd = rng.random(count) < 0.1
    odd[STARTS[2] : STOPS[2]] = True
    if classifies:
        names = np.array(["still", "walk", "run", "climb"], object)[
            (z[:, 0] > 0) + 2 * (x[:, 0] > 0)
        ]
        names[STARTS[5] : STOPS[5] - 3] = "l" * (MAX_NAME + 1)
        labels = pa.array([None if bad else name for name, bad in zip(names, odd, strict=True)])
    else:
        targets = z[:, 0] + x[:, 1]
        targets[STARTS[5] : STARTS[5] + 4] = np.inf, -np.inf, 2 * MAX_FEATURE, np.nan
        labels = pa.array(targets, mask=odd)
    given = {
        "time": pa.array(index * 10**9),
        "x": matrix_column(x),
        "label": labels,
    }
    return pa.RecordBatch.from_pydict({**made, **{name: given[name] for name in columns}})


def exact(batch: pa.RecordBatch) -> list[str]:
    """Return lines as text that tells -0.0 from 0.0, and one NaN from none."""
    return [repr(line) for line in batch.to_pylist()]


def alone(steps: Steps, rows: Any) -> tuple[dict[str, list[str]], list[bytes], dict[str, int]]:
    """What all models say one by one: lines of each output, snapshots, counts."""
    lines: dict[str, list[str]] = {PREDICTIONS: [], METRICS: []}
    states = []
    with counting() as counts:
        for key, start, stop in zip(SIZES, STARTS.tolist(), STOPS.tolist(), strict=True):
            for item in steps.learn_from(key, rows.slice(start, stop - start), None):
                if isinstance(item, State):
                    states.append(item.data)
                else:
                    assert isinstance(item, Rows)
                    lines[item.part] += exact(item.batch)
    return lines, states, dict(counts.totals)


def steps_of(spec: LearnerSpec, **settings: Any) -> Steps:
    track: Any = None
    return Steps(track, Order(), TrainLinear(spec, **settings).steps())


def compared(spec: LearnerSpec, rows: Any, **settings: Any) -> Any:
    steps = steps_of(spec, **settings)
    assert steps.learn is not None
    with counting() as counts:
        found = learn_models(steps.learn, list(SIZES), rows, STARTS, STOPS)
    assert found is not None
    lines, states, totals = alone(steps, rows)
    if found.done.all():
        assert exact(found.predictions) == lines[PREDICTIONS]
        assert exact(found.metrics) == lines[METRICS]
        assert [parts.to_bytes() for parts in found.states] == states
        assert dict(counts.totals) == totals
    return found, lines, states


@pytest.mark.parametrize("inputs", ["features", "both"])
@every_spec
def test_a_block_says_what_each_model_says(spec: LearnerSpec, inputs: str) -> None:
    spec = dataclasses.replace(spec, inputs=inputs, max_classes=3)
    found, lines, _ = compared(spec, features(spec.classifies))
    assert found.done.all()
    # There is something to compare: predictions met labels, in more than one model.
    assert sum("'scored': 0" not in line for line in lines[METRICS]) >= 3


@pytest.mark.parametrize("window", [1.0, 7.0, 1000.0])
@pytest.mark.parametrize(
    "spec",
    [
        RidgeSpec(),
        RidgeSpec(task="regression"),
        RidgeSpec(task="regression", intervals=0.8),
        RidgeSpec(intervals=0.8, max_classes=2),
        AutoSpec(),
    ],
    ids=["c", "r", "i", "s", "auto"],
)
def test_metrics_of_windows(spec: LearnerSpec, window: float) -> None:
    _, lines, _ = compared(spec, features(spec.classifies), window=window)
    many = sum(-(-size // int(window)) for size in SIZES.values())
    assert len(lines[METRICS]) == many + len(SIZES)


@pytest.mark.parametrize("columns", [("x",), ("x", "time"), ("x", "label")])
@pytest.mark.parametrize(
    "spec", [RidgeSpec(), RidgeSpec(task="regression"), AutoSpec()], ids=["c", "r", "auto"]
)
def test_times_and_labels_may_be_missing(spec: LearnerSpec, columns: tuple[str, ...]) -> None:
    found, _, _ = compared(spec, features(spec.classifies, columns))
    assert found.done.all()


@pytest.mark.parametrize("refused", [[4], [*range(len(SIZES))]])
@pytest.mark.parametrize("spec", [RidgeSpec(), RidgeSpec(task="regression")], ids=["c", "r"])
def test_rows_that_are_refused_go_with_the_others(spec: LearnerSpec, refused: list[int]) -> None:
    rows = features(spec.classifies)
    z = Chunk(rows).column("z").copy()
    for model in refused:
        z[STOPS[model] - 1, 1] = 2 * MAX_FEATURE
    rows = rows.set_column(rows.schema.names.index("z"), "z", matrix_column(z))
    found, lines, _ = compared(spec, rows)
    assert found.done.all()
    assert len(lines[PREDICTIONS]) == STOPS[-1]


@pytest.mark.parametrize(
    "spec", [RidgeSpec(), RidgeSpec(task="regression"), AutoSpec()], ids=["c", "r", "auto"]
)
def test_learners_go_on_from_snapshots(spec: LearnerSpec, tmp_path: Path) -> None:
    spec = dataclasses.replace(spec, inputs="features")
    rows, before = features(spec.classifies, ("time", "label")), np.array([*SIZES.values()]) // 2
    rng, count = np.random.default_rng(5), int(before.sum())
    named = pd.DataFrame(rng.normal(size=(count, 3)), columns=["a", "b", "c"])
    named["model"] = np.repeat([*SIZES], before)
    named["label"] = np.where(named["a"] > 0, "still", "swim") if spec.classifies else named["b"]
    fleet = Fleet(rank=WIDTH, warmup=20, learner=spec)
    fleet.update(named, model_id="model", label="label", features=["a", "b", "c"])
    fleet.save(tmp_path / "snapshots")
    index = Chunk(rows).column("index") + np.repeat(before, [*SIZES.values()])
    rows = rows.set_column(0, "index", pa.array(index))
    warm = SnapshotFolder(str(tmp_path / "snapshots"), learner=True)
    found, lines, _ = compared(spec, rows, warm=warm)
    assert found.done.all()
    totals = [line for line in lines[METRICS] if "'start': None" in line]
    # What the fleet had scored counts in the totals.
    assert f"'rows': {SIZES['a'] + SIZES['a'] // 2}" in totals[0]


@pytest.mark.parametrize("spec", [RidgeSpec(inputs="both"), AutoSpec(inputs="rows")])
def test_the_bytes_of_a_learner_are_those_of_its_state(spec: LearnerSpec) -> None:
    found, _, _ = compared(spec, features(spec.classifies, ("x",)))
    # None has met a class.
    for parts in found.states[1:]:
        own = sum(array.nbytes for array in parts.arrays.values())
        assert own == bytes_of(spec, 2, WIDTH)


def test_what_goes_by_blocks() -> None:
    def goes(**settings: Any) -> bool:
        learn = steps_of(RidgeSpec(), **settings).learn
        return learn is not None and takes_blocks(learn[1])

    assert goes()
    assert goes(window=20.0)
    assert not goes(snapshot_every=20.0)
    assert not goes(late=LateLabels(wait=None, most_rows=10))
