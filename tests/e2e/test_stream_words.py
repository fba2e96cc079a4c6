"""Messages whose fields hold two words, numbers with units, or marks of missing values."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kerneltrack.errors import ConfigError
from kerneltrack.number_texts import name_code
from pipelines.cli.main import parser_of
from pipelines.live.columns import columns_from_flags
from transforms.kafka.gather import Gathering
from transforms.kafka.messages import Message
from transforms.read.columns import Columns

STREAM = [
    "stream",
    "--flink",
    "localhost:1",
    "--topic",
    "in",
    "--output-topic",
    "out",
]
WORDS = ["--words", "valve=off,on", "--units", "temp=°C", "--null-values", "Bad", "-200"]


def columns(*flags: str) -> Columns:
    features = [] if "--features" in flags else ["--features", "temp", "valve"]
    return columns_from_flags(parser_of("stream").parse_args([*STREAM, *features, *flags]))


def gathered(messages: list[bytes], form: str, *flags: str) -> tuple[list[Any], list[str]]:
    """The rows of messages and the reasons of the dead letters."""
    gathering = Gathering(columns(*flags), form)
    for at, value in enumerate(messages):
        gathering.add(Message("in", 0, at, 5, b"p1", value))
    rows = [row for _, chunk in gathering.chunks() for row in chunk.batch.column("x").to_pylist()]
    letters = [dict(headers)["reason"].decode() for _, _, headers in gathering.dead_letters()]
    return rows, letters


def test_words_and_units_of_json() -> None:
    records: list[dict[str, Any]] = [
        {"temp": "20.5 °C", "valve": "on"},
        {"temp": "21 °C", "valve": "off"},
        {"temp": "21 °C", "valve": "stuck"},
        {"temp": "21 K", "valve": "on"},
        {"temp": 21, "valve": "on"},
        {"temp": "-200 °C", "valve": "on"},
        {"temp": "3 °C", "valve": "Bad"},
        {"temp": "3 °C", "valve": True},
    ]
    rows, letters = gathered([json.dumps(record).encode() for record in records], "json", *WORDS)
    assert rows == [[20.5, 1.0], [21.0, 0.0]]
    assert letters == [
        "valve = 'stuck': neither 'off' nor 'on'",
        "temp = '21 K': not a number in °C",
        "temp = 21: not a text: a number in °C",
        "temp = nan: missing value",
        "valve = nan: missing value",
        "valve = True: not a text: 'off' or 'on'",
    ]


def test_words_of_arrow() -> None:
    batch = pa.record_batch({"temp": ["20 °C", "21 °C"], "valve": ["on", "ON"]})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    rows, letters = gathered([sink.getvalue()], "arrow", *WORDS)
    assert rows == [[20.0, 1.0]]
    assert letters == ["valve = 'ON': neither 'off' nor 'on'"]


def test_marks_of_missing_values_are_held() -> None:
    records = [{"temp": 1.5, "valve": 2}, {"temp": -200, "valve": "Bad"}]
    flags = ["--null-values", "Bad", "-200", "--missing", "hold"]
    rows, letters = gathered([json.dumps(record).encode() for record in records], "json", *flags)
    np.testing.assert_array_equal(rows, [[1.5, 2.0], [np.nan, np.nan]])
    assert letters == []


LONG = ["--metric", "what", "--value", "it", "--null-values", "Bad", "-200"]


def test_words_and_units_of_a_long_table_in_whatever_bundles() -> None:
    """A number is no text of two words or of a unit, whether texts are beside it or not."""
    sent: list[dict[str, Any]] = [
        {"what": "temp", "it": "20.5 °C"},
        {"what": "valve", "it": "on"},
        {"what": "valve", "it": "stuck"},
        {"what": "temp", "it": "21 K"},
        {"what": "temp", "it": 21},
        {"what": "flow", "it": 7.25},
        {"what": "flow", "it": "Bad"},
        {"what": "flow", "it": -200},
        {"what": "valve", "it": 1},
        {"what": "valve", "it": True},
        {"what": "temp", "it": "Bad"},
    ]
    flags = [*LONG, "--features", "temp", "valve", "flow"]
    flags += ["--words", "valve=off,on", "--units", "temp=°C"]
    messages = [json.dumps(record).encode() for record in sent]
    expected = [
        "valve = 'stuck': neither 'off' nor 'on'",
        "temp = '21 K': not a number in °C",
        "temp = '21': not a number in °C",
        "valve = '1': neither 'off' nor 'on'",
        "valve = 'true': neither 'off' nor 'on'",
    ]
    rows, letters = gathered(messages, "json", *flags)
    np.testing.assert_array_equal(rows, [[20.5, 1.0, 7.25]])
    assert letters == expected
    alone = [gathered([message], "json", *flags) for message in messages]
    assert [reason for _, reasons in alone for reason in reasons] == expected
    values = [value for rows, _ in alone for row in rows for value in row if not np.isnan(value)]
    assert values == [20.5, 1.0, 7.25]


def test_a_metric_whose_name_looks_like_a_list_has_words_too() -> None:
    name = "ns=2;s=Valve[1]"
    flags = [*LONG, "--features", name, "--words", f"{name}=Closed,Open"]
    message = json.dumps({"what": name, "it": "Open"}).encode()
    assert gathered([message], "json", *flags) == ([[1.0]], [])
    assert columns(*flags).words == {name: ("Closed", "Open")}
    with pytest.raises(ConfigError, match="--words = 'valve': must be one of --features"):
        columns(*flags[:-1], "valve=off,on")


def test_words_of_no_feature_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"--words = 'door': must be one of --features"):
        columns("--words", "door=shut,open")


def test_what_a_run_of_files_decided_holds_live(tmp_path: Path) -> None:
    record = {"columns": {"words": {"valve": ["off", "on"]}, "units": {"temp": "°C"}}}
    (tmp_path / "run.json").write_text(json.dumps(record))
    found = columns("--warm-start", str(tmp_path / "snapshots"))
    assert (found.words, found.units) == ({"valve": ("off", "on")}, {"temp": "°C"})


def test_what_only_a_condition_is_about_may_be_missing() -> None:
    condition = ("--only-while", "state == 'run' and load > 3 and temp < 30")
    records: list[dict[str, Any]] = [
        {"temp": 20, "valve": 1, "state": "run", "load": 4},
        {"temp": 21, "valve": 0, "state": "off", "load": None},
        {"temp": 22, "valve": 0},
        {"temp": 23, "valve": 1, "state": 3, "load": 5},
        {"valve": 1, "state": "run", "load": 4},
        {"temp": 24, "valve": 1, "state": "run", "load": "high"},
    ]
    rows, letters = gathered(
        [json.dumps(record).encode() for record in records], "json", *condition
    )
    run, off, none = name_code("run"), name_code("off"), float("nan")
    assert letters == ["temp: no such field", "load = 'high': not a number"]
    np.testing.assert_array_equal(
        rows, [[20, 1, run, 4], [21, 0, off, none], [22, 0, none, none], [23, 1, 3, 5]]
    )
    assert columns(*condition).unseen == ("state", "load")
    with pytest.raises(ConfigError, match="at character 1: there are no functions, such as abs"):
        columns("--only-while", "abs(temp) > 3")
