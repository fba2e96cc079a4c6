"""Hours that come twice, through files and messages: right by the order of rows, or refused."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import apache_beam as beam
import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.testing.util import assert_that, is_empty
from hypothesis import given
from hypothesis import strategies as st

from pipelines.files.record import counters
from tests.stream.test_read import cut
from transforms.chunks import encode_batch
from transforms.kafka.formats import MESSAGE_KEY
from transforms.kafka.gather import Gathering
from transforms.kafka.messages import Message, position
from transforms.read.column_options import ColumnOptions
from transforms.read.columns import Columns
from transforms.read.files import ReadChunks
from transforms.read.formats import base, parquet
from transforms.read.matrix import Feature

RUNNER = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"
BERLIN = "Europe/Berlin"
HOUR = 3600 * 10**9
CHANGES = {
    "oct": int(np.datetime64("2026-10-25T01:00", "ns").astype(np.int64)),
    "last": int(np.datetime64("2025-10-26T01:00", "ns").astype(np.int64)),
}
"""When clocks were put back."""

Row = tuple[str, str]
"""Model, and local time; a bare HH:MM is of 25 October 2026."""


def moment(text: str) -> np.datetime64:
    return np.datetime64(text if "-" in text else f"2026-10-25T{text}", "ns")


def table(rows: list[Row]) -> pa.Table:
    return pa.table(
        {
            "id": pa.array([model for model, _ in rows], pa.string()),
            "t": pa.array([moment(text) for _, text in rows], pa.timestamp("ns")),
            "x": np.arange(len(rows)) + 0.5,
        }
    )


def passes(path: Path) -> str:
    """What became of each row: 1 or 2 for the passes, x for refused, a point: not in doubt."""
    columns = ColumnOptions(model_id="id", time="t", time_zone=BERLIN, time_ambiguous="infer")
    reader = ReadChunks(str(path), columns)
    found: dict[int, str] = {}
    for piece in reader.input.infos[0].pieces:
        for rows in piece.read(reader.input.columns.requests):
            chunks, failures = cut(rows, 0, reader.input.columns)
            for row, reason in zip(
                failures.batch.column("row").to_pylist(),
                failures.batch.column("reason").to_pylist(),
                strict=True,
            ):
                assert reason.endswith("(the order of rows does not tell which is meant)")
                found[row] = "x"
            for _, chunk in chunks:
                for row, time in zip(chunk.column("row"), chunk.column("time"), strict=True):
                    first = [at - HOUR <= time < at for at in CHANGES.values()]
                    second = [at <= time < at + HOUR for at in CHANGES.values()]
                    found[int(row)] = "1" if any(first) else "2" if any(second) else "."
    assert sorted(found) == list(range(len(found)))
    return "".join(found[row] for row in sorted(found))


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        # Through the hour, twice.
        ("01:30 02:00 02:30 02:00 02:30 03:00", ".1122."),
        ("01:59 02:10 02:50 02:10 02:50 03:10", ".1122."),
        # The file begins, or ends, within it.
        ("02:30 02:59 02:00", "112"),
        ("02:59 02:00 02:30 03:00", "122."),
        # Equal times within a pass.
        ("02:10 02:10 02:50 02:50 02:10 02:10", "111122"),
        # It never falls back: the first pass, the second, or both.
        ("01:30 02:10 02:30 02:50 03:10", ".xxx."),
        ("02:10 02:50", "xx"),
        ("02:10", "x"),
        ("02:30 02:30", "xx"),
        ("01:00 02:00 02:00 03:00", ".xx."),
        # A fall by less than half: rows out of order, or few of them.
        ("01:59 02:10 02:09 02:50 03:00", ".xxx."),
        ("02:50 02:21", "xx"),
        ("02:50 02:20", "12"),
        # More than one fall.
        ("02:10 02:50 02:10 02:09 02:50", "xxxxx"),
        ("02:00 02:50 02:00 02:50 02:00", "xxxxx"),
        # Times of before or after between them, or on the wrong side.
        ("02:10 02:50 01:59 02:10 02:50", "xx.xx"),
        ("02:50 02:10 03:00 02:59", "xx.x"),
        ("03:10 02:50 02:10", ".xx"),
        ("02:50 02:10 01:50", "xx."),
        # An hour of each year by itself, in whichever the order is lost.
        ("2025-10-26T02:50 2025-10-26T02:10 02:50 02:10", "1212"),
        ("2025-10-26T02:50 2025-10-26T02:10 02:50 02:51", "12xx"),
        ("02:50 02:10 2025-10-26T02:50 2025-10-26T02:10", "xxxx"),
    ],
)
def test_what_the_order_tells(times: str, expected: str, tmp_path: Path) -> None:
    rows = [("m", text) for text in times.split()]
    pq.write_table(table(rows), tmp_path / "in.parquet")
    assert passes(tmp_path / "in.parquet") == expected


def test_lord_howe_falls_back_by_half_an_hour(tmp_path: Path) -> None:
    texts = [f"2026-04-05 {clock}" for clock in ("01:15", "01:30", "01:45", "01:30", "01:45")]
    (tmp_path / "in.csv").write_text("t,x\n" + "".join(f"{text},1\n" for text in texts))
    columns = ColumnOptions(time="t", time_zone="Australia/Lord_Howe", time_ambiguous="infer")
    reader = ReadChunks(str(tmp_path / "in.csv"), columns)
    (rows,) = reader.input.infos[0].pieces[0].read(reader.input.columns.requests)
    ((_, chunk),), failures = cut(rows, 0, reader.input.columns)
    assert failures.batch.num_rows == 0
    quarters = np.diff(chunk.column("time")) // (15 * 60 * 10**9)
    assert (chunk.column("row").tolist(), quarters.tolist()) == ([0, 1, 2, 3, 4], [1, 1, 1, 1])


def oracle(rows: list[Row]) -> str:
    """The rule, written as it stands in the description of `local_times`, row by row."""
    found = ["."] * len(rows)
    for model in {name for name, _ in rows}:
        at = [i for i, (name, _) in enumerate(rows) if name == model]
        clocks = [rows[i][1] for i in at]
        inside = [k for k, clock in enumerate(clocks) if "02:00" <= clock < "03:00"]
        if not inside:
            continue
        for k in inside:
            found[at[k]] = "x"
        first, last = inside[0], inside[-1]
        if inside != list(range(first, last + 1)):
            continue
        if first and clocks[first - 1] >= "02:00":
            continue
        if last + 1 < len(clocks) and clocks[last + 1] < "03:00":
            continue
        minutes = [int(clocks[k][3:]) for k in inside]
        falls = [k for k in range(1, len(minutes)) if minutes[k] < minutes[k - 1]]
        if len(falls) == 1 and minutes[falls[0] - 1] - minutes[falls[0]] >= 30:
            for k in range(len(minutes)):
                found[at[inside[k]]] = "1" if k < falls[0] else "2"
    return "".join(found)


CLOCKS = ("01:50", "02:00", "02:15", "02:30", "02:45", "02:59", "03:05")
ORDERED = "01:50 02:00 02:15 02:45 02:00 02:30 02:59 03:05".split()


@st.composite
def logs(draw: st.DrawFn) -> list[Row]:
    """Rows of several models, interleaved; some in order, some in none."""
    queues = []
    for model in draw(st.lists(st.sampled_from("abc"), min_size=1, unique=True)):
        times = draw(
            st.one_of(
                st.lists(st.sampled_from(CLOCKS), max_size=8),
                st.lists(st.booleans(), min_size=8, max_size=8).map(
                    lambda kept: [t for t, keep in zip(ORDERED, kept, strict=True) if keep]
                ),
            )
        )
        queues.append([(model, text) for text in times])
    rows = []
    while queues := [queue for queue in queues if queue]:
        rows.append(draw(st.sampled_from(queues)).pop(0))
    return rows


@given(logs(), st.integers(1, 5), st.integers(1, 5), st.integers(1, 9))
def test_however_a_file_is_cut(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row], group: int, batch: int, piece: int
) -> None:
    path = tmp_path_factory.mktemp("cut") / "in.parquet"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "BATCH_ROWS", batch)
        patch.setattr(parquet, "PIECE_ROWS", piece)
        pq.write_table(table(rows), path, row_group_size=group)
        assert passes(path) == oracle(rows)


def test_each_file_and_model_by_itself(tmp_path: Path) -> None:
    """The passes of one model in two files, and of a model that never falls back beside it."""
    first = [("a", "02:10"), ("b", "02:20"), ("a", "02:50"), ("b", "02:30"), ("a", "02:10")]
    second = [("a", "02:40"), ("b", "02:20")]
    for name, rows in (("1", first), ("2", second)):
        pq.write_table(table(rows), tmp_path / f"{name}.parquet")
    columns = ColumnOptions(model_id="id", time="t", time_zone=BERLIN, time_ambiguous="infer")
    reader = ReadChunks(str(tmp_path / "*.parquet"), columns, first_source=5, counted_as="labels")
    at = CHANGES["oct"]
    assert reader.input.columns.passages == {(5, "a", at): 4}

    pipeline = beam.Pipeline(runner=RUNNER)
    outputs = pipeline | reader
    times = outputs["rows"] | beam.FlatMap(
        lambda element: [
            (element[0], row["source"], row["row"], (row["time"] - at) // 60_000_000_000)
            for row in element[1].batch.select(["source", "row", "time"]).to_pylist()
        ]
    )
    expected = [("a", 5, 0, -50), ("a", 5, 2, -10), ("a", 5, 4, 10)]

    def check(found: Any) -> None:
        assert sorted(found) == expected

    assert_that(times, check, label="rows")
    failed = outputs["failures"] | beam.FlatMap(
        lambda failures: [
            (row["model_id"], row["source"], row["row"]) for row in failures.batch.to_pylist()
        ]
    )

    def check_failed(found: Any) -> None:
        assert sorted(found) == [("a", 6, 0), ("b", 5, 1), ("b", 5, 3), ("b", 6, 1)]

    assert_that(failed, check_failed, label="failures")
    result = pipeline.run()
    result.wait_until_finish()
    assert counters(result) == {
        "labels_read": 7,
        "labels_failed": 4,
        "labels_ambiguous": 7,
        "labels_ambiguous_failed": 4,
    }


@pytest.mark.parametrize(
    "columns",
    [
        ColumnOptions(time="t", time_zone=BERLIN, time_ambiguous="latest"),
        ColumnOptions(time="t", time_ambiguous="infer"),
        ColumnOptions(time="x", time_zone=BERLIN, time_ambiguous="infer", features=()),
    ],
)
def test_only_where_times_are_local_files_are_looked_through(
    columns: ColumnOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(table([("m", "02:50"), ("m", "02:10")]), tmp_path / "in.parquet")

    def read(*_: Any) -> None:
        raise AssertionError("read")

    monkeypatch.setattr(parquet.ParquetPiece, "read", read)
    assert ReadChunks(str(tmp_path / "in.parquet"), columns).input.columns.passages == {}


# Messages ----------------------------------------------------------------------------------------

AUTUMN = ["2026-10-25T01:30", "2026-10-25T02:30", "2026-10-25T03:30"]
SPRING = ["2026-03-29T01:30", "2026-03-29T02:30", "2026-03-29T03:30"]


def written(form: str, texts: list[str]) -> bytes:
    if form == "json":
        return json.dumps([{"t": text, "x": 1.0} for text in texts]).encode()
    values = [moment(text) for text in texts]
    if form == "arrow":
        times = pa.array(values, pa.timestamp("ns"))
        return encode_batch(pa.RecordBatch.from_pydict({"t": times, "x": np.ones(len(texts))}))
    local = {"type": "long", "logicalType": "local-timestamp-millis"}
    fields = [{"name": "t", "type": local}, {"name": "x", "type": "double"}]
    rows = [{"t": int(value.astype("int64")) // 10**6, "x": 1.0} for value in values]
    handle = io.BytesIO()
    fastavro.writer(handle, {"type": "record", "name": "r", "fields": fields}, rows)
    return handle.getvalue()


def message_columns(**options: Any) -> Columns:
    return Columns(
        model_id=MESSAGE_KEY,
        time="t",
        sequence=None,
        label=None,
        label_type=None,
        features=(Feature("x"),),
        dtype="float64",
        requests={},
        options=ColumnOptions(time="t", time_zone=BERLIN, **options),
    )


def gathered(form: str, texts: list[str], **options: Any) -> tuple[list[str], list[str], list[Any]]:
    """The good rows' times in their order, the places of refused rows, and their reasons."""
    gathering = Gathering(message_columns(**options), form)
    gathering.add(Message("rows", 0, 7, 0, b"m", written(form, texts)))
    times, places = [], []
    for _, chunk in gathering.chunks():
        times += [str(np.datetime64(int(t), "ns"))[:16] for t in chunk.column("time")]
        places += chunk.column("row").tolist()
    assert places == sorted(places)
    letters = [dict(headers) for _, _, headers in gathering.dead_letters()]
    reasons = [reason for letter in letters for reason in json.loads(letter["rows"])]
    refused = [position(7, place) for place, _ in reasons]
    assert sorted([*places, *refused]) == position(7, np.arange(len(texts))).tolist()
    return times, [text for _, text in reasons], [place for place, _ in reasons]


@pytest.mark.parametrize("form", ["json", "arrow", "avro"])
@pytest.mark.parametrize(
    ("texts", "options", "meant"),
    [
        (AUTUMN, {}, None),
        (AUTUMN, {"time_ambiguous": "earliest"}, "2026-10-25T00:30"),
        (AUTUMN, {"time_ambiguous": "latest"}, "2026-10-25T01:30"),
        (SPRING, {}, None),
        (SPRING, {"time_nonexistent": "shift"}, "2026-03-29T01:00"),
    ],
)
def test_messages_in_local_time(
    form: str, texts: list[str], options: dict[str, str], meant: str | None
) -> None:
    ends = ["2026-10-24T23:30", "2026-10-25T02:30"]
    why = "local time that comes twice in Europe/Berlin (--time-ambiguous says which is meant)"
    if texts == SPRING:
        ends = ["2026-03-29T00:30", "2026-03-29T01:30"]
        why = "local time that does not exist in Europe/Berlin (--time-nonexistent shift takes it)"
    times, reasons, places = gathered(form, texts, **options)
    if meant is None:
        assert (times, places) == (ends, [1])
        (reason,) = reasons
        assert reason.startswith(f"t = '{texts[1][:10]}")
        assert reason.endswith(f": {why}")
    else:
        assert (times, places) == ([ends[0], meant, ends[1]], [])


def test_message_rows_in_doubt_are_counted() -> None:
    def gather(value: bytes) -> Any:
        gathering = Gathering(message_columns(time_nonexistent="shift"), "json")
        gathering.add(Message("rows", 0, 7, 0, b"m", value))
        return [element for element in gathering.chunks() if not len(element[1])]

    pipeline = beam.Pipeline(runner=RUNNER)
    empty = pipeline | beam.Create([written("json", [*AUTUMN, SPRING[1]])]) | beam.FlatMap(gather)
    assert_that(empty, is_empty())
    result = pipeline.run()
    result.wait_until_finish()
    assert counters(result) == {
        "messages_read": 1,
        "rows_read": 4,
        "rows_failed": 1,
        "rows_ambiguous": 1,
        "rows_ambiguous_failed": 1,
        "rows_nonexistent": 1,
    }
