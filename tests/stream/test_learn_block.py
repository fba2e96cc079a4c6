"""Learners of many models at once: what each says by itself, bit for bit."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from kerneltrack import DataError, Fleet, codec
from kerneltrack.learners import AutoSpec, LearnerSpec, RidgeSpec
from kerneltrack.learners.common.kept_classes import MAX_NAME, names_of
from kerneltrack.learners.common.prequential import MAX_FEATURE
from kerneltrack.snapshots.folder import SnapshotFolder
from tests.oracles.learner_cases import WIDTH, every_spec_in_turn
from tests.parts import lanes
from tests.stream.test_learn_warm import write_folder
from transforms.chunks import Chunk, matrix_column
from transforms.learn.inputs import narrow, narrow_labels
from transforms.learn.late_labels import LateLabels
from transforms.learn.learners import Learners, bytes_of
from transforms.learn.plan import LearnLabels, Plan
from transforms.metrics import counting
from transforms.outputs import METRICS, PREDICTIONS
from transforms.train import TrainFn

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


class Come(NamedTuple):
    """What came of models: lines of each output, snapshots, counts."""

    predictions: list[str]
    metrics: list[str]
    failures: list[str]
    snapshots: dict[str, list[bytes]]
    counts: dict[str, int]


def come_of(learn: Any, rows: Any, labels: Any, groups: list[list[str]], cuts: int = 1) -> Come:
    """Let models learn: those of a group in one call, or in so many, one after the other."""
    places = {key: place for place, key in enumerate(SIZES)}
    found = Come([], [], [], {key: [] for key in SIZES}, {})
    with counting() as counts:
        for keys in groups:
            learners = learners_of(learn, keys, labels)
            parts = []
            for cut in range(cuts):
                spans = {
                    key: np.linspace(STARTS[places[key]], STOPS[places[key]], cuts + 1).astype(int)
                    for key in keys
                }
                which = np.array([i for i, k in enumerate(keys) if np.diff(spans[k])[cut] > 0])
                own = [np.arange(*spans[keys[place]][cut : cut + 2]) for place in which.tolist()]
                if own:
                    stops = np.cumsum([len(each) for each in own])
                    starts = np.concatenate([[0], stops[:-1]])
                    part = rows.take(pa.array(np.concatenate(own)))
                    learners.take(narrow(learn.plan, Chunk(part)), which, starts, stops)
                if cut + 1 < cuts:
                    parts.append(learners.came())
            last = learners.end()
            parts.append(learners.came())
            for part in parts:
                for name in (PREDICTIONS, METRICS):
                    for batch in [part.main[name][1]] if name in part.main else []:
                        getattr(found, name).extend(exact(batch))
                for place, key in enumerate(keys):
                    found.snapshots[key].extend(part.snapshots.get(place, ()))
                    for batch in part.failures.get(place, ()):
                        found.failures.extend(exact(batch))
            for key, state in zip(keys, last, strict=True):
                if state is not None:
                    found.snapshots[key].append(state.parts.to_bytes())
    return found._replace(counts=dict(counts.totals))


def plan_of(fn: TrainFn) -> Plan:
    assert fn.plan is not None
    return fn.plan


def steps_of(
    spec: LearnerSpec,
    warm: SnapshotFolder | None = None,
    snapshot_every: float | None = None,
    **settings: Any,
) -> TrainFn:
    return TrainFn(LearnLabels(spec, **settings).plan(snapshot_every), warm, None)


def learners_of(fn: Any, keys: list[str], labels: Any) -> Learners:
    learners = Learners(fn.plan, keys, [fn.learner(key) for key in keys])
    for place, key in enumerate(keys):
        if key in labels:
            learners.arrive(place, narrow_labels((key, labels[key]), fn.plan.spec)[1])
    return learners


def compared(spec: LearnerSpec, rows: Any, labels: Any = None, **settings: Any) -> Come:
    """Return what came of all models at once, as it does of each alone, and of all in pieces."""
    steps, labels = steps_of(spec, **settings), labels or {}
    found = come_of(steps, rows, labels, [[*SIZES]])
    assert found == come_of(steps, rows, labels, [[key] for key in SIZES])
    pieces = come_of(steps, rows, labels, [[*SIZES]], cuts=3)
    assert pieces.snapshots == found.snapshots
    assert pieces.counts == found.counts
    for part in ("predictions", "metrics", "failures"):
        assert sorted(getattr(pieces, part)) == sorted(getattr(found, part))
    return found


@pytest.mark.parametrize("inputs", ["features", "both"])
@every_spec_in_turn(0)
def test_a_block_says_what_each_model_says(spec: LearnerSpec, inputs: str) -> None:
    spec = dataclasses.replace(spec, inputs=inputs, max_classes=3)
    found = compared(spec, features(spec.classifies))
    # There is something to compare: predictions met labels, in more than one model.
    assert sum("'scored': 0" not in line for line in found.metrics) >= 3


def late_classes() -> Any:
    """Features whose labels are of two classes at first, in the longer models of two others."""
    rows = features(True)
    labels = Chunk(rows).column("label").copy()
    index = Chunk(rows).column("index")
    for label, early in (("still", "run"), ("walk", "climb")):
        labels[(labels == early) & (index < 30)] = label
        labels[(labels == label) & (index >= 30)] = early
    place = rows.schema.names.index("label")
    return rows.set_column(place, "label", pa.array(labels.tolist()))


@pytest.mark.parametrize("late", [None, LateLabels(wait=None, most_rows=12)])
@pytest.mark.parametrize("window", [None, 7.0])
@pytest.mark.parametrize(
    "spec",
    [RidgeSpec(intervals=0.8, max_classes=2), AutoSpec(max_classes=2)],
    ids=lambda spec: spec.learner,
)
def test_classes_that_give_way(
    spec: LearnerSpec, window: float | None, late: LateLabels | None
) -> None:
    spec = dataclasses.replace(spec, inputs="features")
    found = compared(spec, late_classes(), late=late, window=window, snapshot_every=20.0)
    last = codec.decode_learner(found.snapshots["a"][-1]).state
    assert set(last.classes) == {"run", "climb"} and len(names_of(last)) == 4
    totals = [line for line in found.metrics if "'start': None" in line]
    # Metrics and predictions name classes with and without a place, and labels that had none.
    for name in ("still", "walk", "run", "climb", "(other)"):
        assert f"'{name}'" in totals[0]
    last_rows = found.predictions[280:300]
    assert all("'prediction': 'run'" in row or "'climb'" in row for row in last_rows)


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
    found = compared(spec, features(spec.classifies), window=window)
    many = sum(-(-size // int(window)) for size in SIZES.values())
    assert len(found.metrics) == many + len(SIZES)


@pytest.mark.parametrize("columns", [("x",), ("x", "time"), ("x", "label")])
@pytest.mark.parametrize(
    "spec", [RidgeSpec(), RidgeSpec(task="regression"), AutoSpec()], ids=["c", "r", "auto"]
)
def test_times_and_labels_may_be_missing(spec: LearnerSpec, columns: tuple[str, ...]) -> None:
    found = compared(spec, features(spec.classifies, columns))
    assert len(found.predictions) == STOPS[-1]


@pytest.mark.parametrize("refused", [[4], [*range(len(SIZES))]])
@pytest.mark.parametrize("spec", [RidgeSpec(), RidgeSpec(task="regression")], ids=["c", "r"])
def test_rows_that_are_refused_go_with_the_others(spec: LearnerSpec, refused: list[int]) -> None:
    rows = features(spec.classifies)
    z = Chunk(rows).column("z").copy()
    for model in refused:
        z[STOPS[model] - 1, 1] = 2 * MAX_FEATURE
    rows = rows.set_column(rows.schema.names.index("z"), "z", matrix_column(z))
    assert len(compared(spec, rows).predictions) == STOPS[-1]


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
    found = compared(spec, rows, warm=warm)
    totals = [line for line in found.metrics if "'start': None" in line]
    # What the fleet had scored counts in the totals.
    assert f"'rows': {SIZES['a'] + SIZES['a'] // 2}" in totals[0]


@pytest.mark.parametrize("spec", [RidgeSpec(inputs="both"), AutoSpec(inputs="rows")])
def test_the_bytes_of_a_learner_are_those_of_its_state(spec: LearnerSpec) -> None:
    rows = features(spec.classifies, ("x",))
    fn = steps_of(spec)
    learners = learners_of(fn, [*SIZES], {})
    learners.take(narrow(plan_of(fn), Chunk(rows)), np.arange(len(SIZES)), STARTS, STOPS)
    for last in learners.end():
        # None has met a class.
        assert last is not None
        assert sum(array.nbytes for array in last.parts.arrays.values()) == bytes_of(spec, 2, WIDTH)


SPECS = [
    RidgeSpec(),
    RidgeSpec(task="regression"),
    RidgeSpec(task="regression", intervals=0.8),
    RidgeSpec(intervals=0.8, max_classes=2),
    AutoSpec(),
]
IDS = ["c", "r", "i", "s", "auto"]


@pytest.mark.parametrize("window", [None, 9.0])
@pytest.mark.parametrize("spec", SPECS, ids=IDS)
def test_snapshots_in_between(spec: LearnerSpec, window: float | None) -> None:
    spec = dataclasses.replace(spec, inputs="features")
    found = compared(spec, features(spec.classifies), window=window, snapshot_every=20.0)
    many = {key: -(-size // 20) for key, size in SIZES.items()}
    assert {key: len(states) for key, states in found.snapshots.items()} == many


def late_labels(classifies: bool) -> dict[str, Chunk]:
    """Labels by index of some rows, some twice, some of rows that never come; of one more model."""
    rng, labels = np.random.default_rng(11), {}
    for key, size in {**SIZES, "a": 200}.items():
        index = rng.integers(0, size + 4, size // 2 + 2)
        reported = np.array(["still", "swim", "run"])[index % 3] if classifies else index * 0.5
        columns = {"index": index, "source": np.zeros_like(index), "row": np.arange(len(index))}
        labels[key] = Chunk(pa.RecordBatch.from_pydict({**columns, "label": reported}))
    del labels["b"]
    return labels


@pytest.mark.parametrize("settings", [{}, {"window": 9.0, "snapshot_every": 20.0}])
@pytest.mark.parametrize("most", lanes(12, 1, 1000))
@pytest.mark.parametrize("spec", SPECS, ids=IDS)
def test_labels_that_come_late(spec: LearnerSpec, most: int, settings: dict[str, Any]) -> None:
    spec = dataclasses.replace(spec, inputs="features")
    labels = late_labels(spec.classifies)
    late = LateLabels(wait=None, most_rows=most)
    found = compared(spec, features(spec.classifies), labels, late=late, **settings)
    assert len(found.predictions) == STOPS[-1]
    # Where all rows wait to the end, none is predicted by a learner that has learned.
    assert most > STOPS[0] or sum("'scored': 0" not in line for line in found.metrics) >= 3
    assert any("no such row" in line for line in found.failures)


@pytest.mark.parametrize("after", [None, LateLabels(wait=None, most_rows=5)])
def test_rows_that_wait_in_snapshots(after: LateLabels | None, tmp_path: Path) -> None:
    spec, rows = RidgeSpec(inputs="features"), features(True)
    late = LateLabels(wait=None, most_rows=30)
    learn = steps_of(spec, late=late)
    first = come_of(learn, rows, late_labels(True), [[*SIZES]])
    last = {key: states[-1] for key, states in first.snapshots.items()}
    warm = write_folder(tmp_path / "snapshots", last, spec)
    index = Chunk(rows).column("index") + np.repeat([*SIZES.values()], [*SIZES.values()])
    more = rows.set_column(0, "index", pa.array(index))
    found = compared(spec, more, late_labels(True) if after else None, warm=warm, late=after)
    waited = sum(min(size, 30) for size in SIZES.values())
    assert len(found.predictions) == STOPS[-1] + waited


def test_rows_that_were_left_out() -> None:
    fn = steps_of(RidgeSpec(inputs="features"))
    rows, learners = narrow(plan_of(fn), Chunk(features(True))), learners_of(fn, ["a"], {})
    one = np.zeros(1, np.int64)
    with pytest.raises(DataError, match="rows 0 to 4 never came, row 5 did"):
        learners.take(rows.slice(5, 15), one, one, np.array([10]))
