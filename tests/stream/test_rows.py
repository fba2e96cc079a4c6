"""Rows of other pipelines: in as chunks, out with a schema."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.utils.timestamp import Timestamp

from kerneltrack import OKFEBSpec, RidgeSpec, run_all
from kerneltrack.errors import ConfigError
from transforms import (
    Chunk,
    ChunksToRows,
    RowsToChunks,
    TrackSubspace,
    TrainLinear,
    features_schema,
    predictions_schema,
)

SPEC = OKFEBSpec(rank=3, budget=6, warmup=30)
FIELDS: dict[str, Any] = {"model_id": "pump", "time": "at", "features": ["flow", "heat"]}
COUNT = 120
X = np.random.default_rng(5).normal(size=(2, COUNT, 2))
MODE = np.where(X[..., 0] > 0, "high", "low")


class Reading(NamedTuple):
    pump: str
    at: float
    flow: float
    heat: float
    mode: str | None


def readings() -> list[Reading]:
    return [
        Reading(
            f"p{pump}", float(at), float(X[pump, at, 0]), float(X[pump, at, 1]), str(MODE[pump, at])
        )
        for at in range(COUNT)
        for pump in range(2)
    ]


FORMS: dict[str, Any] = {
    "named tuples": lambda rows: rows,
    "dicts": lambda rows: [row._asdict() for row in rows],
    "beam rows": lambda rows: [beam.Row(**row._asdict()) for row in rows],
    "shuffled": lambda rows: random.Random(3).sample(rows, len(rows)),
}


@pytest.mark.parametrize("form", FORMS)
def test_features_are_those_of_the_rows(form: str) -> None:
    expected = []
    for pump in range(2):
        _, features = run_all(SPEC, X[pump])
        assert features.z is not None
        for at in range(COUNT):
            z = tuple(features.z[at].tolist())
            expected.append((f"p{pump}", at, Timestamp(at), features.loss[at].item(), z))
    with beam.Pipeline() as pipeline:
        chunks = pipeline | beam.Create(FORMS[form](readings())) | RowsToChunks(**FIELDS)
        tracked = chunks["rows"] | TrackSubspace(SPEC)
        rows = tracked["features"] | ChunksToRows(features_schema(SPEC, None, True))
        found = rows | beam.Map(lambda r: (r.model_id, r.index, r.time, r.loss, tuple(r.z)))
        assert_that(found, equal_to(expected))
        assert_that(chunks["failures"], equal_to([]), label="failures")


def test_labels_are_learned_and_rows_have_a_schema() -> None:
    schema = predictions_schema(RidgeSpec(), has_time=True)
    with beam.Pipeline() as pipeline:
        made = pipeline | beam.Create(readings())
        chunks = made | RowsToChunks(**FIELDS, label="mode")
        learned = chunks["rows"] | TrackSubspace(SPEC)
        predicted = learned["features"] | TrainLinear(RidgeSpec())
        rows = predicted["predictions"] | ChunksToRows(schema)
        names = [name for name, _ in rows.element_type._fields]
        assert names == [
            *("model_id", "index", "time", "prediction", "score", "margin", "label", "correct")
        ]
        labels = rows | beam.Map(lambda r: (r.model_id, r.index, r.label))
        said = [(f"p{p}", at, str(MODE[p, at])) for p in range(2) for at in range(COUNT)]
        assert_that(labels, equal_to(said))
        right = (
            rows
            | beam.Select("model_id", right=lambda row: float(bool(row.correct)))
            | beam.GroupBy("model_id").aggregate_field("right", sum, "right")
            | beam.Map(lambda row: row.right > COUNT / 2)
        )
        assert_that(right, equal_to([True, True]), label="right")


BEGIN = datetime(2026, 3, 1, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("at", "unit", "expected"),
    [
        (BEGIN, "s", BEGIN.timestamp() * 1e9),
        (BEGIN.replace(tzinfo=None), "s", BEGIN.timestamp() * 1e9),
        (BEGIN.astimezone(timezone(timedelta(hours=5))), "s", BEGIN.timestamp() * 1e9),
        (Timestamp(7.5), "s", 7_500_000_000),
        (7, "ms", 7_000_000),
        (np.int64(7), "us", 7_000),
        (7.25, "s", 7_250_000_000),
        (-0.25, "s", -250_000_000),
    ],
)
def test_times(at: Any, unit: str, expected: float) -> None:
    with beam.Pipeline() as pipeline:
        made = pipeline | beam.Create([{"pump": 7, "at": at, "flow": 1, "heat": True}])
        chunks = made | RowsToChunks(**FIELDS, time_unit=unit)
        found = chunks["rows"] | beam.Map(
            lambda part: (part[0], part[1].column("time").tolist(), part[1].column("x").tolist())
        )
        assert_that(found, equal_to([("7", [int(expected)], [[1.0, 1.0]])]))


BAD: Sequence[tuple[dict[str, Any], str]] = [
    ({"pump": None}, "model id = None: not a text or a whole number"),
    ({"at": "soon"}, "at = 'soon': not a time"),
    ({"at": 1e30}, "at = 1e+30: too far from 1970"),
    ({"flow": "wet"}, "flow = 'wet': not a number"),
    ({"heat": float("nan")}, "heat = nan: not finite"),
    ({"mode": [1]}, "mode = [1]: not a text or a number"),
    ({"step": 1.5}, "step = 1.5: not a whole number"),
]


@pytest.mark.parametrize(("wrong", "reason"), BAD)
def test_rows_that_cannot_be_used(wrong: dict[str, Any], reason: str) -> None:
    good = {"pump": "a", "at": 1, "flow": 0.5, "heat": 2, "mode": "high", "step": 3}
    with beam.Pipeline() as pipeline:
        made = pipeline | beam.Create([good, {**good, **wrong}])
        chunks = made | RowsToChunks(**FIELDS, label="mode", sequence="step")
        count = chunks["rows"] | beam.Map(lambda part: (part[0], len(part[1])))
        assert_that(count, equal_to([("a", 1)]))
        reasons = chunks["failures"] | beam.Map(lambda part: part.batch["reason"].to_pylist())
        assert_that(reasons, equal_to([[reason]]), label="reasons")


@pytest.mark.parametrize("order", [(3, 1, 2), (2, 3, 1), (1, 2, 3)])
@pytest.mark.parametrize(("sequence", "expected"), [("step", [3, 2, 1]), (None, [1, 3, 2])])
def test_equal_times_go_by_sequence_else_by_contents(
    order: Sequence[int], sequence: str | None, expected: list[int]
) -> None:
    rows = [{"pump": "a", "at": 1, "flow": v, "heat": 0, "step": 9 - v} for v in order]
    with beam.Pipeline() as pipeline:
        chunks = pipeline | beam.Create(rows) | RowsToChunks(**FIELDS, sequence=sequence)
        found = (
            chunks["rows"]
            | beam.GroupByKey()
            | beam.MapTuple(lambda _, parts: Chunk.concat(list(parts)).in_order())
            | beam.Map(lambda chunk: chunk.column("x")[:, 0].tolist())
        )
        assert_that(found, equal_to([expected]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time": None}, "time = None"),
        ({"features": []}, "features"),
        ({"features": "flow"}, "features = 'flow'"),
        ({"features": ["flow", "at"]}, "fields = 'at'"),
        ({"time_unit": "h"}, "time_unit = 'h'"),
    ],
)
def test_arguments_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        RowsToChunks(**{**FIELDS, **options})


def test_a_schema_that_rows_cannot_have_is_refused() -> None:
    with pytest.raises(ConfigError, match="schema = 'binary'"), beam.Pipeline() as pipeline:
        made = pipeline | beam.Create([("a", Chunk(pa.RecordBatch.from_pydict({"x": [b""]})))])
        made | ChunksToRows(pa.schema([pa.field("x", pa.binary())]))
