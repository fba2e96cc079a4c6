"""Messages that no honest sender sends."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from transforms.chunks import encode_batch

Keyed = tuple[bytes | None, bytes | None]
START = 1_600_000_000 * 10**9


def good_rows(messages: int, names: Sequence[str], rows: int = 5) -> list[list[dict[str, Any]]]:
    """Rows of so many messages, in order of time."""
    rng = np.random.default_rng(5)
    found = []
    for at in range(messages):
        found.append(
            [
                {
                    "time": START + (at * rows + row) * 20_000_000,
                    **{name: float(rng.normal()) for name in names},
                    "label": "x",
                }
                for row in range(rows)
            ]
        )
    return found


def hostile_messages(
    count: int, form: str, names: Sequence[str], good: bytes, seed: int = 0
) -> list[Keyed]:
    """Keys and values, each of which is to be one dead letter.

    Args:
        count: How many.
        form: What they pretend to be.
        names: The features.
        good: A good message, to be damaged.
        seed: Of what is random.
    """
    rng = np.random.default_rng(seed)
    row = {"time": START, **dict.fromkeys(names, 0.5), "label": "x"}
    whole = {"json": _json, "arrow": _arrow, "avro": _avro}[form](row, names)
    found: list[Keyed] = []
    while len(found) < count:
        key = (b"m0", b"new", b"m1")[len(found) % 3]
        kind = len(found) % 4
        if kind == 0:
            size = int(rng.integers(1, 400))
            # No UTF-8, and no form's beginning.
            found.append((key, b"\xfe" + rng.bytes(size)))
        elif kind == 1:
            found.append((key, good[: int(rng.integers(0, len(good) * 9 // 10))]))
        elif kind == 2:
            found.append((key, whole[int(rng.integers(len(whole)))]))
        else:
            strange: list[Keyed] = [
                (key, None),
                (None, message(form, [row])),
                (b"\xff\xfe", message(form, [row])),
                (b"k" * 5000, message(form, [row])),
                (b"", message(form, [row])),
                (key, b""),
            ]
            found.append(strange[int(rng.integers(len(strange)))])
    return found


def message(form: str, rows: list[dict[str, Any]]) -> bytes:
    """A message of these rows."""
    if form == "json":
        return json.dumps(rows).encode()
    if form == "arrow":
        return encode_batch(pa.RecordBatch.from_pylist(rows))
    return _avro_file(rows)


def _json(row: dict[str, Any], names: Sequence[str]) -> list[bytes]:
    first = names[0]
    bad_values: list[Any] = [
        "one", [1, 2], {"x": 1}, None, float("nan"), float("inf"), 1e101, 10**400, "\ud800",
    ]  # fmt: skip
    bad_times: list[Any] = [
        None, "yesterday", [], {}, True, 1e300, -(10**30), 10**30, "\ud800", "9999-99-99",
    ]  # fmt: skip
    rows = [{**row, first: value} for value in bad_values]
    rows += [{**row, "time": value} for value in bad_times]
    rows += [{**row, "label": value} for value in ([1], {"a": 2}, "\udfff")]
    rows += [{name: row[name] for name in row if name != first}, {"x": 1}, {}]
    texts = [json.dumps(one).encode() for one in rows]
    deep = ["[" * 50_000, '{"time":' * 50_000, "[" * 500 + "]" * 500, '{"a":' + "[" * 300]
    others = ["null", "1", '"text"', "[]", "[[]]", "[null]", "{", "{}}", "nul", "-", "1e999", *deep]
    return texts + [text.encode() for text in others] + [b"\x00" * 64, b"9" * 100_000]


def _arrow(row: dict[str, Any], names: Sequence[str]) -> list[bytes]:
    first = names[0]
    good = message("arrow", [row])
    damaged = []
    rng = np.random.default_rng(1)
    for _ in range(20):
        # The magic of the stream's beginning is gone, and more.
        part = bytearray(good)
        part[:4] = b"\x00\x00\x00\x00"
        for at in rng.integers(4, len(part), size=20):
            part[at] ^= 0xFF
        damaged.append(bytes(part))
    rows = [
        {**row, first: "one"},
        {**row, first: None},
        {**row, first: float("nan")},
        {**row, first: [1.0]},
        {**row, "time": None},
        {**row, "time": [1]},
        {name: row[name] for name in row if name != first},
    ]
    twice = pa.RecordBatch.from_arrays([pa.array([1.0]), pa.array([2.0])], [first, first])
    empty = pa.RecordBatch.from_pylist([row]).slice(0, 0)
    return [
        *damaged,
        *(message("arrow", [one]) for one in rows),
        encode_batch(twice),
        encode_batch(empty),
    ]


def _avro(row: dict[str, Any], names: Sequence[str]) -> list[bytes]:
    first = names[0]
    rows = [
        {**row, first: "one"},
        {**row, first: float("nan")},
        {**row, "time": "never"},
        {name: row[name] for name in row if name != first},
    ]
    good = message("avro", [row])
    damaged = [good[:-16] + bytes(16), b"Obj\x01" + bytes(60), good.replace(b"null", b"nope")]
    return [*(message("avro", [one]) for one in rows), *damaged, _avro_file([])]


def _avro_file(rows: list[dict[str, Any]]) -> bytes:
    kinds = {str: "string", float: "double", int: "long"}
    like = rows[0] if rows else {"time": 1}
    fields = [{"name": name, "type": kinds[type(value)]} for name, value in like.items()]
    handle = io.BytesIO()
    fastavro.writer(handle, {"type": "record", "name": "r", "fields": fields}, rows)
    return handle.getvalue()
