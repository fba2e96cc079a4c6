"""Rows of other pipelines: in as chunks, out with a schema."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from hypothesis import given, settings
from hypothesis import strategies as st

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
from transforms.rows import RowFields, _GatherFn

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
        output_text = [(f"p{p}", at, str(MODE[p, at])) for p in range(2) for at in range(COUNT)]
        assert_that(labels, equal_to(output_text))
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
        (Decimal("7.25"), "ms", 7_250_000),
        (46_082.0, "excel", BEGIN.timestamp() * 1e9),
        (Decimal("740042.5"), "matlab", BEGIN.timestamp() * 1e9 + 43_200e9),
        (np.int64(3_855_168_000), "labview", BEGIN.timestamp() * 1e9),
        (date(2026, 3, 1), "s", BEGIN.timestamp() * 1e9),
        (np.datetime64("2026-03-01"), "s", BEGIN.timestamp() * 1e9),
        (np.datetime64("2026-03"), "s", BEGIN.timestamp() * 1e9),
        (np.datetime64(7_000_000_001, "ns"), "s", 7_000_000_001),
        (pd.Timestamp(7_000_000_001), "s", 7_000_000_001),
        (pd.Timestamp("2026-03-01", tz="Asia/Tokyo"), "s", BEGIN.timestamp() * 1e9 - 9 * 3600e9),
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
    ({"at": pd.NaT}, "at = NaT: not a time"),
    ({"at": np.datetime64("NaT", "s")}, "at = np.datetime64('NaT','s'): not a time"),
    (
        {"at": np.datetime64("1670")},
        "at = np.datetime64('1670'): too far from 1970",
    ),
    ({"at": Decimal("1e999999999")}, "at = Decimal('1E+999999999'): not a time"),
    ({"flow": "wet"}, "flow = 'wet': not a number"),
    ({"flow": "1_000"}, "flow = '1_000': not a number"),
    ({"flow": 10**400}, "flow = an integer of about 401 digits: too large"),
    ({"flow": np.complex64(1)}, "flow = np.complex64(1+0j): not a number"),
    ({"flow": np.timedelta64(5, "s")}, "flow = np.timedelta64(5,'s'): not a number"),
    ({"flow": pd.NA}, "flow = <NA>: not a number"),
    ({"mode": float("inf")}, "mode = inf: not finite"),
    ({"heat": float("nan")}, "heat = nan: not finite"),
    ({"mode": [1]}, "mode = [1]: not a text or a number"),
    ({"step": 1.5}, "step = 1.5: not a whole number"),
]


def test_rows_that_cannot_be_used() -> None:
    """One good row among them; each of the others is refused for its own reason."""
    good = {"pump": "a", "at": 1, "flow": 0.5, "heat": 2, "mode": "high", "step": 3}
    with beam.Pipeline() as pipeline:
        made = pipeline | beam.Create([good, *({**good, **wrong} for wrong, _ in BAD)])
        chunks = made | RowsToChunks(**FIELDS, label="mode", sequence="step")
        count = chunks["rows"] | beam.Map(lambda part: (part[0], len(part[1])))
        assert_that(count, equal_to([("a", 1)]))
        reasons = chunks["failures"] | beam.FlatMap(lambda part: part.batch["reason"].to_pylist())
        assert_that(reasons, equal_to([reason for _, reason in BAD]), label="reasons")


WEIRD: Sequence[Any] = [
    *(None, pd.NA, pd.NaT, float("nan"), np.float32("nan"), np.datetime64("NaT"), Decimal("sNaN")),
    *(float("inf"), np.float32("-inf"), Decimal("Infinity"), 1e300, np.longdouble("1e4000")),
    *(10**400, -(10**5000), Fraction(10**400, 3), Decimal("1e999999"), 2**63, np.uint64(2**64 - 1)),
    *("", " ", "7", "1_000", "a\ud800", "\x00", "٣", "x" * 100_000, np.str_("x"), b"7", b"\xff"),
    *(True, np.bool_(True), np.int8(3), np.float16(0.5), 3.0, -0.0, Decimal("3.0"), Fraction(1, 3)),
    *(1j, np.complex64(1j), np.array(1.0), np.array([1.0]), np.zeros((2, 2)), np.array([]), [1]),
    *({}, object(), ValueError, type, print, pd.Series([1.0]), pd.DataFrame({"a": [1]})),
    *(datetime.max, datetime.min.replace(tzinfo=timezone(timedelta(hours=14))), date.min),
    *(np.datetime64("2024-01-01"), np.datetime64(2**62, "Y"), np.datetime64(-(2**62), "as")),
    *(np.timedelta64(5, "s"), np.timedelta64("NaT"), timedelta.max, pd.Timedelta(1)),
    *(pd.Timestamp("2024-01-01"), pd.Timestamp.max, pd.Period("2024"), Timestamp(7)),
    pa.scalar(1.0),
]
GOOD = {"pump": "a", "at": 1, "flow": 0.5, "heat": 2, "mode": "high", "step": 3}


def gathered(rows: Sequence[Any], targets: bool) -> tuple[list[tuple[str, Chunk]], list[Any]]:
    """Run rows through the step as a bundle: chunks, and failures."""
    names = (FIELDS["model_id"], FIELDS["time"], tuple(FIELDS["features"]), "mode", "step")
    step = _GatherFn(RowFields(*names, targets=targets))
    step.start_bundle()
    out = [one for row in rows for one in step.process(row)]
    out += list(step.finish_bundle())
    kept = [one.value for one in out if isinstance(one, WindowedValue)]
    return kept, [one.value for one in out if isinstance(one, beam.pvalue.TaggedOutput)]


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(GOOD)), st.sampled_from(WEIRD)), st.booleans())
def test_each_weird_row_is_a_row_or_a_failure_once(wrong: dict[str, Any], targets: bool) -> None:
    good = {**GOOD, "mode": 0.5} if targets else GOOD
    chunks, failures = gathered([good, {**good, **wrong}, good], targets)
    for _, chunk in chunks:
        assert np.isfinite(chunk.column("x")).all()
        chunk.encode()
    reported = [part.batch.to_pylist()[0] for part in failures]
    assert sum(len(chunk) for _, chunk in chunks) + len(reported) == 3
    assert len(reported) <= 1
    # A failure has its device, unless that is what is wrong.
    for line in reported:
        assert (line["model_id"] is None) == line["reason"].startswith("model id")


def test_half_characters_are_failures() -> None:
    _, failures = gathered([{**GOOD, name: "a\ud800"} for name in ("pump", "mode")], targets=False)
    reported = [part.batch.to_pylist()[0] for part in failures]
    assert [(line["model_id"], line["reason"]) for line in reported] == [
        (None, r"model id = 'a\ud800': has half a character"),
        ("a", r"mode = 'a\ud800': has half a character"),
    ]


def test_weird_values_do_not_end_a_pipeline() -> None:
    # Beam itself does not carry half characters from step to step.
    values = [value for value in WEIRD if not (isinstance(value, str) and "\ud800" in value)]
    rows = [{**GOOD, name: value} for name in GOOD for value in values]
    gathered_here, failed_here = gathered(rows, targets=False)
    rows_of = sum(len(chunk) for _, chunk in gathered_here)
    assert rows_of + len(failed_here) == len(rows)
    with beam.Pipeline() as pipeline:
        made = pipeline | beam.Create([0]) | beam.FlatMap(lambda _: rows)
        chunks = made | RowsToChunks(**FIELDS, label="mode", sequence="step")
        count = chunks["rows"] | beam.Map(lambda part: len(part[1])) | beam.CombineGlobally(sum)
        assert_that(count, equal_to([rows_of]))
        failed = chunks["failures"] | beam.combiners.Count.Globally()
        assert_that(failed, equal_to([len(failed_here)]), label="failures")


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        *((value, "1") for value in (True, np.bool_(True), 1, 1.0, np.int8(1), Decimal("1.0"))),
        *((value, None) for value in (None, pd.NA, pd.NaT, float("nan"), np.float32("nan"), "")),
        (0.5, "0.5"),
        (np.str_("on"), "on"),
    ],
)
def test_equal_labels_are_one_class(label: Any, expected: str | None) -> None:
    ((_, chunk),), failures = gathered([{**GOOD, "mode": label}], targets=False)
    assert (chunk.column("label").tolist(), failures) == ([expected], [])


@pytest.mark.parametrize("pump", [5, np.int64(5), np.uint8(5), "5", np.str_("5")])
def test_equal_ids_are_one_model(pump: Any) -> None:
    ((model, _),), _ = gathered([{**GOOD, "pump": pump}], targets=False)
    assert model == "5"


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("model_id", "pmup", "model_id = 'pmup': must be a field of the rows: pump, at, flow"),
        ("time", "on", "time = 'on': must be a field of the rows"),
        ("features", ["flow", "haet"], "features = 'haet': must be a field of the rows"),
        ("label", "node", "label = 'node': must be a field of the rows"),
        ("sequence", "step", "sequence = 'step': must be a field of the rows"),
    ],
)
@pytest.mark.parametrize("form", ["named tuples", "beam rows"])
def test_a_field_that_is_not_in_the_schema_is_an_error_at_construction(
    form: str, setting: str, value: Any, message: str
) -> None:
    pipeline = beam.Pipeline()
    made = pipeline | beam.Create(FORMS[form](readings()[:1]))
    with pytest.raises(ConfigError, match=message):
        made | RowsToChunks(**{**FIELDS, setting: value})


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
