"""Kafka's messages: what they hold, and how their bytes become rows.

A message is one row, or several: JSON (an object, or a list of objects), an Arrow IPC stream, or
an Avro object container file. Its place in its partition is the row's source position.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import fastavro
import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerneltrack.errors import DataError, one_line
from transforms.kafka.formats import REGISTERED

ROW_BITS = 20
MOST_ROWS = 1 << ROW_BITS
"""Rows of one message at most: a row's position is its message's offset and place in one number."""


class Message(NamedTuple):
    """One message, as it lies in Kafka.

    Attributes:
        topic: Its topic.
        partition: Its partition.
        offset: Its place there.
        timestamp: Kafka's own, ms since 1970; negative: none.
        key: None without one.
        value: None for a tombstone.
        headers: Names and values.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]] = ()


class BadMessageError(Exception):
    """A message's bytes are not rows; the text says why."""


def position(offset: npt.ArrayLike, place: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return the number of a row: it grows with offset and place in the message.

    Example:
        >>> position(3, [0, 1]).tolist()
        [3145728, 3145729]
    """
    offsets = np.asarray(offset, dtype=np.int64)
    return cast("npt.NDArray[np.int64]", (offsets << ROW_BITS) + np.asarray(place, np.int64))


def offset_and_place(
    row: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Take `position` apart."""
    return row >> ROW_BITS, row & (MOST_ROWS - 1)


def refused_rows(batch: pa.RecordBatch) -> Iterator[tuple[int, int, int, str]]:
    """Yield partition, offset and place of rows that `parse` refused, and why."""
    offsets, places = offset_and_place(batch.column("row").to_numpy())
    columns = batch.column("source").to_pylist(), offsets.tolist(), places.tolist()
    return zip(*columns, batch.column("reason").to_pylist(), strict=True)


def records_of(
    value: bytes | None, form: str, registered: Callable[[bytes], Any] | None = None
) -> list[Any]:
    """Read a message that is none of Arrow's.

    Args:
        value: Its bytes.
        form: How it is written.
        registered: Reads one by the schema that a registry has.

    Returns:
        Its rows; whether each is an object is not checked.

    Raises:
        BadMessageError: if it cannot be read, or holds no row or too many.
        DataError: if the registry cannot be asked.
    """
    if value is None:
        raise BadMessageError("a tombstone: no value")
    try:
        if form == "json":
            found = _json_of(value)
        elif registered is not None:
            found = registered(value)
        else:
            found = _bounded(fastavro.reader(io.BytesIO(value)))
    except (BadMessageError, DataError):
        raise
    # Parsers of foreign bytes raise whatever they meet (EOFError, KeyError, RecursionError ...).
    except Exception as error:
        raise BadMessageError(f"not {_NAMES[form]}: {one_line(error)}") from error
    rows = found if isinstance(found, list) else [found]
    _check_count(len(rows))
    return rows


read_json = msgspec.json.Decoder().decode
"""Reads JSON as `json.loads` does, several times as fast, or raises: it knows no NaN, no reals
beyond a double's and no half characters."""


def _json_of(value: bytes) -> Any:
    """Read JSON, as `json.loads` does; what is none is refused in its words."""
    try:
        return read_json(value)
    # Its own errors, Unicode's, recursion's.
    except Exception:
        return json.loads(value.decode("utf-8"))


def batch_of(value: bytes | None) -> pa.RecordBatch:
    """Read an Arrow message.

    Raises:
        BadMessageError: if it cannot be read, or holds no row or too many.
    """
    if value is None:
        raise BadMessageError("a tombstone: no value")
    try:
        with pa.ipc.open_stream(value) as reader:
            batches = list(reader)
        for batch in batches:
            # Damaged offsets would be followed out of the buffers.
            batch.validate(full=True)
        _check_count(sum(batch.num_rows for batch in batches))
        whole = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    except BadMessageError:
        raise
    except Exception as error:
        raise BadMessageError(f"not an Arrow IPC stream: {one_line(error)}") from error
    return whole


_NAMES = {
    "json": "JSON",
    "avro": "an Avro container",
    **dict.fromkeys(REGISTERED, "what its schema says"),
}


def _bounded(reader: Any) -> list[Any]:
    rows = []
    for row in reader:
        rows.append(row)
        _check_count(len(rows))
    return rows


def _check_count(count: int) -> None:
    if not 1 <= count <= MOST_ROWS:
        raise BadMessageError(f"{count} rows in a message: 1 to {MOST_ROWS} can be taken")
