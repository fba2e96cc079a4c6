"""Rows of a model as records of one size: how a row or a few travel, and wait.

An Arrow batch costs tens of microseconds to write and to read, whatever is in it, and each step
lets go of Python's lock: where a fleet's devices send single rows, that is most of what a row
costs. Here the rows of all models of a bundle are laid out at once, each model takes a piece of
the bytes, and what reads them looks at many models' pieces as one array.

A piece: what its columns are, how many rows there are, the records, then their texts.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Buffer: TypeAlias = bytes | memoryview
Offsets: TypeAlias = npt.NDArray[np.int32]
Places: TypeAlias = npt.NDArray[np.integer[Any]]

MAGIC = b"rows"
"""How a piece begins: an IPC stream of Arrow's does with four bytes of 255."""

_HEAD = struct.Struct("<4sH")
_COUNT = struct.Struct("<I")
_PLAIN = {
    "time": pa.int64(),
    "sequence": pa.int64(),
    "source": pa.int32(),
    "row": pa.int64(),
}
_REALS = {"f4": pa.float32(), "f8": pa.float64()}
_LABELS = {"text": pa.string(), "i8": pa.int64(), "f8": pa.float64()}
_KNOWN = "known"
"""Field of a record: whether its row has a label."""
_LENGTH = "length"
"""Field of a record: bytes of its label, -1 if it has none."""
_MOST_FORMS = 16


class Form(NamedTuple):
    """What columns rows have, and how they lie in a record.

    Attributes:
        schema: The columns.
        head: The first bytes of each piece.
        record: A record.
        times: Reads the times of records; None if they have none.
        names: Names of the columns.
        label: How labels are written, one of `_LABELS`; None without labels.
    """

    schema: pa.Schema
    head: bytes
    record: np.dtype[Any]
    times: struct.Struct | None
    names: frozenset[str]
    label: str | None


_forms: tuple[Form, ...] = ()
"""Those met last; replaced as a whole, since bundles run side by side."""


def form_of(schema: pa.Schema) -> Form | None:
    """Return the form of rows with these columns; None if they are none of a model's rows."""
    for form in _forms:
        if form.schema is schema:
            return form
    for form in _forms:
        if form.schema.equals(schema, check_metadata=True):
            return form
    texts = []
    for field in schema:
        text = _written(field)
        if text is None:
            return None
        texts.append(text)
    form = _read_form(",".join(texts))
    if not form.schema.equals(schema, check_metadata=True):
        return None
    return _remember(form)


def _written(field: pa.Field) -> str | None:
    """Return how a column is written in a head."""
    if field.type == _PLAIN.get(field.name):
        return str(field.name)
    if field.name == "x" and pa.types.is_fixed_size_list(field.type):
        for kind, arrow in _REALS.items():
            if field.type.value_type == arrow:
                return f"x:{kind}:{field.type.list_size}"
    if field.name == "label":
        for kind, arrow in _LABELS.items():
            if field.type == arrow:
                return f"label:{kind}"
    return None


def _read_form(text: str) -> Form:
    fields: list[pa.Field] = []
    record: list[Any] = []
    label = None
    for column in text.split(","):
        name, *rest = column.split(":")
        if name in _PLAIN:
            fields.append(pa.field(name, _PLAIN[name]))
            record.append((name, "<i4" if name == "source" else "<i8"))
        elif name == "x":
            kind, width = rest
            fields.append(pa.field(name, pa.list_(_REALS[kind], int(width))))
            record.append((name, f"<{kind}", (int(width),)))
        else:
            (label,) = rest
            fields.append(pa.field(name, _LABELS[label]))
            record += (
                [(_LENGTH, "<i4")] if label == "text" else [(name, f"<{label}"), (_KNOWN, "?")]
            )
    schema, encoded = pa.schema(fields), text.encode()
    head, layout, times = _HEAD.pack(MAGIC, len(encoded)) + encoded, np.dtype(record), None
    if layout.fields is not None and "time" in layout.fields:
        before = layout.fields["time"][1]
        times = struct.Struct(f"<{before}xq{layout.itemsize - before - 8}x")
    return Form(schema, head, layout, times, frozenset(schema.names), label)


def _remember(form: Form) -> Form:
    global _forms  # noqa: PLW0603 - replaced as a whole
    _forms = (form, *_forms)[:_MOST_FORMS]
    return form


class Records:
    """A piece: the rows of one model."""

    __slots__ = ("_begin", "data", "form", "rows")

    def __init__(self, data: bytes) -> None:
        """Take the bytes of a piece."""
        for form in _forms:
            if data.startswith(form.head):
                break
        else:
            end = _HEAD.size + _HEAD.unpack_from(data)[1]
            form = _remember(_read_form(data[_HEAD.size : end].decode()))
        self.form = form
        self.data = data
        end = len(form.head)
        self.rows: int = _COUNT.unpack_from(data, end)[0]
        self._begin = end + _COUNT.size

    def array(self) -> npt.NDArray[Any]:
        """Return the records, (n,)."""
        return np.frombuffer(self.data, self.form.record, self.rows, self._begin)

    def times(self) -> list[int]:
        """Return the records' times, which they have: for a few much faster than by `array`."""
        form = self.form
        if form.times is None:
            raise KeyError("time")
        end = self._begin + self.rows * form.times.size
        return [time for (time,) in form.times.iter_unpack(self.data[self._begin : end])]

    def split(self) -> tuple[memoryview, memoryview]:
        """Return the bytes of the records, and their texts."""
        end, view = self._begin + self.rows * self.form.record.itemsize, memoryview(self.data)
        return view[self._begin : end], view[end:]

    def take(self, rows: npt.NDArray[np.int64]) -> Records:
        """Return the rows at these positions, in this order."""
        lines, texts = self.split()
        # Rows that follow one another are copied together.
        edges = np.flatnonzero(np.diff(rows) != 1) + 1
        starts = np.concatenate([rows[:1], rows[edges]])
        stops = np.concatenate([rows[edges - 1], rows[-1:]]) + 1
        size, offsets = self.form.record.itemsize, _offsets(self.form, self.array())
        return Records(
            _piece(
                self.form,
                len(rows),
                _spans(lines, starts * size, stops * size),
                _spans(texts, offsets[starts], offsets[stops]) if len(texts) else (),
            )
        )

    def cut(self, ends: Sequence[int]) -> list[bytes]:
        """Cut the rows into pieces, as `pieces_of` does."""
        lines, texts = self.split()
        return _cut(self.form, lines, texts, _offsets(self.form, self.array()), ends)


def join(pieces: Sequence[Records]) -> Records:
    """Return the rows of pieces of one form as one piece."""
    lines, texts = zip(*[piece.split() for piece in pieces], strict=True)
    return Records(_piece(pieces[0].form, sum([piece.rows for piece in pieces]), lines, texts))


def _spans(data: memoryview, starts: Places, stops: Places) -> list[memoryview]:
    spans = zip(starts.tolist(), stops.tolist(), strict=True)
    return [data[start:stop] for start, stop in spans]


def _piece(form: Form, rows: int, lines: Iterable[Buffer], texts: Iterable[Buffer]) -> bytes:
    return b"".join((form.head, _COUNT.pack(rows), *lines, *texts))


def _offsets(form: Form, records: npt.NDArray[Any]) -> Offsets:
    """Return where the text of each record begins, and the end."""
    offsets = np.zeros(len(records) + 1, np.int32)
    if form.label == "text":
        np.cumsum(np.maximum(records[_LENGTH], 0), out=offsets[1:])
    return offsets


def batch_of(piece: Records) -> pa.RecordBatch:
    """Return the rows of a piece as a batch."""
    form, records = piece.form, piece.array()
    columns: list[pa.Array] = []
    for field in form.schema:
        if field.name == "label":
            columns.append(_labels(form, records, piece.split()[1]))
        elif field.name == "x":
            flat = pa.array(np.ascontiguousarray(records["x"]).reshape(-1))
            columns.append(pa.FixedSizeListArray.from_arrays(flat, field.type.list_size))
        else:
            columns.append(pa.array(np.ascontiguousarray(records[field.name])))
    return pa.RecordBatch.from_arrays(columns, schema=form.schema)


def _labels(form: Form, records: npt.NDArray[Any], texts: Buffer) -> pa.Array:
    if form.label != "text":
        return pa.array(np.ascontiguousarray(records["label"]), mask=~records[_KNOWN])
    offsets, known = _offsets(form, records), records[_LENGTH] >= 0
    bits = None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little").tobytes())
    buffers = [bits, pa.py_buffer(offsets.tobytes()), pa.py_buffer(texts)]
    return pa.Array.from_buffers(pa.string(), len(records), buffers)


def pieces_of(batch: pa.RecordBatch, ends: Sequence[int]) -> list[bytes] | None:
    """Cut rows into pieces.

    Args:
        batch: The rows.
        ends: Where each piece ends; it begins where that before it ended.

    Returns:
        The pieces; None for rows that are no records.

    Example:
        >>> rows = pa.RecordBatch.from_pydict({"row": pa.array([5, 6, 7])})
        >>> one, two = pieces_of(rows, [1, 3])
        >>> batch_of(join([Records(one), Records(two)])).equals(rows)
        True
    """
    form = form_of(batch.schema)
    if form is None:
        return None
    records = np.empty(batch.num_rows, form.record)
    texts, offsets = b"", np.zeros(batch.num_rows + 1, np.int32)
    for field, column in zip(form.schema, batch.columns, strict=True):
        if field.name == "label" and form.label == "text":
            texts, offsets = _write_texts(column, records)
        elif field.name == "label":
            records[_KNOWN] = column.is_valid().to_numpy(zero_copy_only=False)
            records["label"] = column.fill_null(0).to_numpy()
        else:
            values = column.flatten() if field.name == "x" else column
            if column.null_count or values.null_count:
                return None
            records[field.name] = values.to_numpy().reshape(records[field.name].shape)
    return _cut(form, records.tobytes(), texts, offsets, ends)


def _cut(
    form: Form,
    lines: Buffer,
    texts: Buffer,
    offsets: Offsets,
    ends: Sequence[int],
) -> list[bytes]:
    """Cut records and their texts, which begin at these offsets, into pieces."""
    size, cuts = form.record.itemsize, [0, *ends]
    begins, lines, texts = offsets[cuts].tolist(), memoryview(lines), memoryview(texts)
    head, count = form.head, _COUNT.pack
    return [
        b"".join((head, count(stop - start), lines[start * size : stop * size], texts[begin:end]))
        for (start, stop), (begin, end) in zip(pairwise(cuts), pairwise(begins), strict=True)
    ]


def _write_texts(column: pa.Array, records: npt.NDArray[Any]) -> tuple[bytes, Offsets]:
    """Write lengths of texts into records; return the texts, and where each begins."""
    if not len(column):
        return b"", np.zeros(1, np.int32)
    texts = column.fill_null("")
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1]
    records[_LENGTH] = np.diff(offsets)
    if column.null_count:
        records[_LENGTH][column.is_null().to_numpy(zero_copy_only=False)] = -1
    first, last = int(offsets[0]), int(offsets[-1])
    data = texts.buffers()[2]
    return b"" if data is None else data[first:last].to_pybytes(), offsets - first
