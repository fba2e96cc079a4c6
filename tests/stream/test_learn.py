"""TrainLinear with labels beside the features: the core's predictions, bit for bit."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack import codec
from kerneltrack.errors import ConfigError
from kerneltrack.in_memory import run_all
from kerneltrack.learners import LearnerSpec, POLKSpec, RidgeSpec
from kerneltrack.learners.common.base import CARRIED
from kerneltrack.registry import get_learner
from kerneltrack.trackers import OKFEBSpec, RowsSpec
from kerneltrack.trackers.common.spec import SubspaceSpec
from tests.oracles.learner_cases import every_spec_in_turn, same_state
from tests.oracles.prequential import core_alone
from tests.parts import examples
from tests.stream.learning import (
    SECOND,
    SPEC,
    Element,
    FeatureTable,
    Late,
    Outcome,
    label_chunk,
    make_features,
    train,
    train_stream,
)
from tests.stream.running import make_rows, shuffled
from transforms.chunks import Chunk, matrix_column
from transforms.learn.late_labels import LateLabels
from transforms.learn.predictions import SLICE_ROWS
from transforms.read.label_values import check_label_type
from transforms.track.order import Order
from transforms.track.transform import FEATURES, TrackSubspace
from transforms.train import METRICS, PREDICTIONS, SNAPSHOTS, TrainLinear

REGRESSION = RidgeSpec(task="regression")


def last_state(outcome: Outcome, key: str = "m") -> codec.LearnerSnapshot:
    return codec.decode_learner(outcome.snapshots[key][-1])


@every_spec_in_turn(0)
def test_every_learner_says_what_its_core_says(spec: LearnerSpec) -> None:
    table = make_features(200, seed=1, spec=spec)
    outcome = train([("m", chunk) for chunk in table.cut([64])], spec)
    state, expected = core_alone(spec, table)
    assert outcome.predictions == {"m": expected}
    found = last_state(outcome)
    same_state(found.state, state)
    about = {"model_id": "m", "rows": 200, "time": int(table.time[-1]), "final": True}  # type: ignore[index]
    assert (found.spec, found.header["about"]) == (spec, about)
    counters = get_learner(spec.learner).counters(state)
    carried = (name for name in counters if name.startswith(CARRIED))
    counted = ("scored", "correct", "learned", "unusable", *carried)
    wanted = {name: counters[name] for name in counted if counters.get(name)}
    assert outcome.counters == {"predicted": 200, **wanted}


@settings(max_examples=examples(8))
@given(
    st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=20), min_size=1, max_size=5),
    st.sampled_from([SPEC, REGRESSION]),
    st.integers(0, 2**32),
)
def test_no_cut_and_no_arrival_order_matters(
    cuts: list[list[int]], spec: LearnerSpec, seed: int
) -> None:
    table = make_features(150, seed=3, spec=spec)
    options: dict[str, Any] = {"window": 7.0, "snapshot_every": 11.0}
    elements = [
        (f"cut{number}", chunk) for number, sizes in enumerate(cuts) for chunk in table.cut(sizes)
    ]
    outcome = train(shuffled(elements, seed), spec, **options)
    whole = train([("cut0", table.chunk(table.kind))], spec, **options)
    assert whole.predictions["cut0"] == core_alone(spec, table)[1]
    for key in (f"cut{number}" for number in range(len(cuts))):
        assert outcome.predictions[key] == whole.predictions["cut0"]
        assert outcome.metrics[key] == whole.metrics["cut0"]
        same = [data.replace(b"cut0", key.encode()) for data in whole.snapshots["cut0"]]
        assert sorted(outcome.snapshots[key]) == sorted(same)
    assert outcome.failures == []


@settings(max_examples=examples(8))
@given(st.lists(st.integers(3, 40), min_size=1), st.integers(0, 2**32))
def test_a_live_stream_gives_what_the_file_gives(sizes: list[int], seed: int) -> None:
    """Chunks come in any order, some twice: each row is taken once, in its turn."""
    table = make_features(120, seed=4)
    chunks = [("m", chunk) for chunk in table.cut(sizes)]
    twice = chunks + [chunks[i] for i in range(0, len(chunks), 3)]
    options: dict[str, Any] = {"window": 7.0, "snapshot_every": 11.0}
    live = train_stream([[element] for element in shuffled(twice, seed)], **options)
    file = train([("m", table.chunk())], **options)
    assert live.predictions == file.predictions
    assert live.metrics == file.metrics
    assert live.snapshots == file.snapshots
    again = train(shuffled(twice, seed), **options)
    assert again.predictions == file.predictions
    assert again.counters["rows_again"] == sum(len(chunk) for _, chunk in twice) - len(table)


@pytest.mark.parametrize(
    ("runner", "flags"),
    [
        (FnApiRunner, []),
        (FnApiRunner, ["--direct_num_workers=2", "--direct_running_mode=multi_threading"]),
        (FnApiRunner, ["--max_cache_memory_usage_mb=100"]),
        (BundleBasedDirectRunner, []),
    ],
)
def test_models_do_not_touch_each_other_on_any_runner(runner: Any, flags: list[str]) -> None:
    tables = {f"m{seed}": make_features(90, seed=seed) for seed in range(4)}
    elements = [(key, chunk) for key in tables for chunk in tables[key].cut([20, 1, 35])]
    outcome = train(shuffled(elements, 0), runner=runner(), flags=flags)
    assert sorted(outcome.predictions) == sorted(tables)
    for key, table in tables.items():
        state, expected = core_alone(SPEC, table)
        assert outcome.predictions[key] == expected
        same_state(last_state(outcome, key).state, state)


def test_chunks_that_overlap_are_taken_once() -> None:
    table = make_features(60)
    parts = [(0, 20), (10, 30), (5, 12), (25, 60), (0, 60)]
    elements = [("m", table.part(*part).chunk()) for part in parts]
    joined = Chunk.concat([table.part(0, 3).chunk(), table.part(2, 60).chunk()])
    for given_elements in (elements, elements[::-1], [("m", joined)]):
        outcome = train(given_elements)
        assert outcome.predictions["m"] == core_alone(SPEC, table)[1]


def test_a_chunk_may_have_gaps_that_others_fill() -> None:
    table = make_features(50)
    whole = table.chunk()
    odd, even = np.arange(1, 50, 2), np.arange(0, 50, 2)
    outcome = train([("m", whole.take(odd)), ("m", whole.take(even))])
    assert outcome.predictions["m"] == core_alone(SPEC, table)[1]


def test_rows_that_never_come_are_an_error() -> None:
    table = make_features(50)
    message = r"features of model 'm': rows 20 to 29 never came, row 30 did"
    for late in (None, LateLabels(None, 10)):
        elements = [("m", table.part(0, 20).chunk()), ("m", table.part(30, 50).chunk())]
        with pytest.raises(Exception, match=message):
            train(elements, late=late)


def test_a_model_longer_than_a_slice() -> None:
    table = make_features(SLICE_ROWS + 100, missing=0.0)
    _, expected = core_alone(SPEC, table)
    whole = train([("m", table.chunk())])
    assert whole.predictions["m"] == expected
    assert sorted(whole.sizes) == [1, 100, SLICE_ROWS]


def test_rows_without_times() -> None:
    table = dataclasses.replace(make_features(40), time=None)
    outcome = train([("m", chunk) for chunk in table.cut([9])])
    assert outcome.predictions["m"] == core_alone(SPEC, table)[1]
    assert "time" not in outcome.predictions["m"][0]
    assert last_state(outcome).header["about"]["time"] is None
    assert [line["start"] for line in outcome.metrics["m"]] == [None]


@pytest.mark.parametrize("spec", [SPEC, REGRESSION])
def test_rows_without_labels_are_predicted_only(spec: LearnerSpec) -> None:
    table = make_features(30, spec=spec, missing=1.0)
    whole = table.chunk()
    bare = Chunk(whole.batch.drop_columns(["label"]))
    nothing = dataclasses.replace(table, label=[None] * 30)
    null = Chunk(bare.batch.append_column("label", pa.nulls(30)))
    for chunk in (bare, null):
        outcome = train([("m", chunk)], spec)
        assert outcome.predictions["m"] == core_alone(spec, nothing)[1]
        assert all(entry["prediction"] is None for entry in outcome.predictions["m"])
        (line,) = outcome.metrics["m"]
        assert (line["rows"], line["scored"]) == (30, 0)
        assert outcome.counters == {"predicted": 30}


def test_rows_that_a_learner_refuses_come_out_without_a_prediction() -> None:
    table = make_features(60, missing=0.0)
    table.z[[20, 21, 40]] = [[np.nan] * 3, [np.inf, 0, 0], [0, 0, -1e101]]
    outcome = train([("m", chunk) for chunk in table.cut([16])])
    state, expected = core_alone(SPEC, table)
    assert outcome.predictions["m"] == expected
    refused = [outcome.predictions["m"][row] for row in (20, 21, 40)]
    assert [entry["prediction"] for entry in refused] == [None] * 3
    assert [entry["label"] for entry in refused] == [table.label[row] for row in (20, 21, 40)]
    same_state(last_state(outcome).state, state)


@pytest.mark.parametrize(
    ("values", "kind", "classes"),
    [
        ([3, None, -1, 3], pa.int64(), ["3", None, "-1", "3"]),
        ([3.0, None, 0.25, float("nan")], pa.float64(), ["3", None, "0.25", None]),
        (["x", None, "", "y"], pa.dictionary(pa.int32(), pa.string()), ["x", None, "", "y"]),
        (["x", None, "", "y"], pa.large_string(), ["x", None, "", "y"]),
        ([True, None, False, True], pa.bool_(), ["true", None, "false", "true"]),
    ],
)
def test_labels_of_all_kinds_are_classes(
    values: list[Any], kind: pa.DataType, classes: list[Any]
) -> None:
    table = dataclasses.replace(make_features(4), label=values)
    check_label_type(SPEC, kind)
    outcome = train([("m", table.chunk(kind))])
    expected = core_alone(SPEC, dataclasses.replace(table, label=classes))[1]
    assert outcome.predictions["m"] == expected


@pytest.mark.parametrize("kind", [pa.int64(), pa.float32(), pa.float64()])
def test_targets_of_all_kinds(kind: pa.DataType) -> None:
    table = dataclasses.replace(make_features(4), label=[3, None, -1, 2**20])
    outcome = train([("m", table.chunk(kind))], REGRESSION)
    expected = core_alone(REGRESSION, table)[1]
    assert outcome.predictions["m"] == expected


@pytest.mark.parametrize(
    ("spec", "kind"),
    [(REGRESSION, pa.string()), (SPEC, pa.binary()), (SPEC, pa.list_(pa.int64()))],
)
def test_labels_that_cannot_be_learned_are_refused(spec: LearnerSpec, kind: pa.DataType) -> None:
    with pytest.raises(ConfigError) as caught:
        check_label_type(spec, kind)
    assert caught.value.field == "label"
    table = make_features(5)
    batch = table.chunk().batch.drop_columns(["label"])
    chunk = Chunk(batch.append_column("label", pa.nulls(5, kind)))
    with pytest.raises(Exception, match=r"label = .*: must be"):
        train([("m", chunk)], spec)


def test_projection_coefficients_serve_where_there_is_no_z() -> None:
    table = make_features(40)
    whole = table.chunk().batch
    names = ["q" if name == "z" else name for name in whole.schema.names]
    q_alone = Chunk(whole.rename_columns(names))
    other = matrix_column(np.zeros((40, 7)))
    both = Chunk(whole.append_column("q", other))
    for chunk in (q_alone, both):
        outcome = train([("m", chunk)])
        assert outcome.predictions["m"] == core_alone(SPEC, table)[1]


def test_snapshots_at_boundaries_hold_the_state_before_them() -> None:
    times = np.array([1, 2, 9, 10, 11, 19, 45, 46, 59, 60]) * SECOND
    table = make_features(10, times=times, missing=0.0)
    outcome = train([("m", chunk) for chunk in table.cut([4])], snapshot_every=10.0)
    found = [codec.decode_learner(data) for data in outcome.snapshots["m"]]
    abouts = sorted((s.header["about"] for s in found), key=lambda a: (a["rows"], a["final"]))
    ends = [(3, 9), (6, 19), (8, 46), (9, 59)]
    expected = [*((*end, False) for end in ends), (10, 60, True)]
    assert abouts == [
        {"model_id": "m", "rows": rows, "time": time * SECOND, "final": final}
        for rows, time, final in expected
    ]
    for snapshot in found:
        rows = snapshot.header["about"]["rows"]
        same_state(snapshot.state, core_alone(SPEC, table.part(0, rows))[0])


def test_boundaries_before_1970_and_times_that_go_back() -> None:
    """Rows that came in order of arrival count as of the newest time so far."""
    times = np.array([-25, -15, -19, -5, -11, 5, -30, 12]) * SECOND
    table = make_features(8, times=times, missing=0.0)
    for sizes in ([1], [3], [8]):
        outcome = train(
            [("m", chunk) for chunk in table.cut(sizes)], snapshot_every=10.0, window=10.0
        )
        rows = sorted(
            codec.decode_learner(data).header["about"]["rows"] for data in outcome.snapshots["m"]
        )
        assert rows == [1, 3, 5, 7, 8]
        lines = [(line["start"], line["rows"]) for line in outcome.metrics["m"]]
        starts = [-30, -20, -10, 0, 10]
        counts = [1, 2, 2, 2, 1]
        expected = [(s * SECOND, n) for s, n in zip(starts, counts, strict=True)]
        assert lines == [*expected, (None, 8)]
        assert [r["time"] for r in outcome.predictions["m"]] == times.tolist()


@pytest.mark.parametrize("late", [None, LateLabels(None, 1)])
@pytest.mark.parametrize("order", [Order(), Order(max_disorder=2.0), Order(max_disorder=0)])
@pytest.mark.parametrize(
    ("tracked_by", "spec"),
    [
        (OKFEBSpec(rank=3, budget=5, warmup=20, novelty_window=100), SPEC),
        (RowsSpec(rank=3, warmup=20), POLKSpec(warmup=30, batch=3, budget=10)),
    ],
    ids=["okfeb-ridge", "rows-polk"],
)
def test_features_of_a_tracker_in_the_same_pipeline(
    tracked_by: SubspaceSpec, spec: LearnerSpec, order: Order, late: LateLabels | None
) -> None:
    """From rows to predictions: the cores one after the other, the end of the input told once."""
    rows = make_rows(160, seed=2)
    labels = [None if i % 7 == 3 else "ab"[int(x[0] > 1)] for i, x in enumerate(rows.x)]
    _, features = run_all(tracked_by, rows.x)
    assert features.z is not None
    table = FeatureTable(np.asarray(rows.time), features.z, labels)
    state, expected = core_alone(spec, table)
    if late is None:
        rows = dataclasses.replace(rows, label=np.array(labels))
    apart = [Late(label, index=row, row=row) for row, label in enumerate(labels) if label]
    _TRACKED.append([])
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        chunks = [("m", chunk) for chunk in rows.cut([13])]
        source = pipeline | "Rows" >> beam.Create(chunks).with_output_types(Element)
        tracked = source | TrackSubspace(tracked_by, order)
        inputs: Any = tracked[FEATURES]
        if late is not None:
            come = [("m", label_chunk([label])) for label in apart]
            named = pipeline | "Labels" >> beam.Create(come).with_output_types(Element)
            inputs = {"features": inputs, "labels": named}
        for name, output in (inputs | TrainLinear(spec, late=late)).items():
            _ = output | f"Keep {name}" >> beam.Map(_keep_tracked, name)
    kept = _TRACKED.pop()
    found = [row for name, pair in kept if name == PREDICTIONS for row in pair[1].batch.to_pylist()]
    assert sorted(found, key=lambda row: row["index"]) == expected
    (snapshot,) = [pair[1] for name, pair in kept if name == SNAPSHOTS]
    if late is None:
        same_state(codec.decode_learner(snapshot).state, state)
    (line,) = [row for name, pair in kept if name == METRICS for row in pair[1].batch.to_pylist()]
    assert line["rows"] == 160


_TRACKED: list[list[Any]] = []


def _keep_tracked(element: Any, name: str) -> None:
    _TRACKED[-1].append((name, element))


def test_what_travels_is_not_pickled(caplog: pytest.LogCaptureFixture) -> None:
    """Beam warns of keys whose coder it had to guess; values then go by pickle."""
    with caplog.at_level(logging.WARNING):
        for late in (None, LateLabels(None, 3)):
            train([("m", make_features(5).chunk())], late=late)
    assert "may not be deterministic" not in caplog.text


def test_no_input_gives_no_output() -> None:
    outcome = train([])
    assert (outcome.predictions, outcome.metrics, outcome.snapshots) == ({}, {}, {})


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: TrainLinear(SPEC, window=0), "window"),
        (lambda: TrainLinear(SPEC, window=float("nan")), "window"),
        (lambda: TrainLinear(SPEC, snapshot_every=-1), "snapshot_every"),
        (lambda: TrainLinear(SPEC, snapshot_every=1e9), "snapshot_every"),
        (lambda: LateLabels(-1.0, 5), "wait"),
        (lambda: LateLabels(float("inf"), 5), "wait"),
        (lambda: LateLabels(1.0, 0), "most_rows"),
        (lambda: LateLabels(1.0, 2.5), "most_rows"),  # type: ignore[arg-type]
    ],
)
def test_wrong_settings_are_refused_at_once(make: Any, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"window": 5.0}, "window"),
        ({"snapshot_every": 5.0}, "snapshot_every"),
        ({"late": LateLabels(2.0, 5)}, "wait"),
    ],
)
def test_settings_of_time_need_rows_with_times(options: dict[str, Any], field: str) -> None:
    table = dataclasses.replace(make_features(5), time=None)
    with pytest.raises(Exception, match=f"{field} = .*: must be None: the rows have no times"):
        train([("m", table.chunk())], **options)


@pytest.mark.parametrize(("late", "count"), [(None, 2), (LateLabels(None, 3), 1)])
def test_the_wrong_number_of_inputs_is_refused(late: LateLabels | None, count: int) -> None:
    pipeline = beam.Pipeline(runner=FnApiRunner())
    parts = [pipeline | f"{n}" >> beam.Create([]).with_output_types(Element) for n in range(count)]
    with pytest.raises(ConfigError, match="inputs"):
        _ = tuple(parts) | TrainLinear(SPEC, late=late)
