"""Snapshots of many models in few files: Parquet, a row a state, a column an array of the states.

A file a model costs more than what is in it once there are many of them. Packed, the states of a
run lie in `part-SSSSS-of-NNNNN.parquet`, sorted by model. Which of the files a model is in says its
slot, a hash of its id (`slot_of`); which row group, the statistics of the column `model_id`.

A row is one state: `model_id`, `kind` ("tracker" or "learner"), `rows`, `time`, `final`; `header`,
the state's header as the safetensors format would hold it; a column `KIND.NAME` for each of its
arrays; and `extras`, the arrays of what works along with it, as safetensors. A state whose arrays
have other shapes than the file's columns has all of them in `extras`, and `whole` is true. So the
bytes that a file of its own would hold can be made again, one by one the same, and whatever is read
goes through the same checks as those.
"""

from __future__ import annotations

import itertools
import json
import math
import zlib
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from kerneltrack import codec
from kerneltrack.errors import DataError, KerneltrackError
from kerneltrack.paths import join, whole
from kerneltrack.snapshots.columns import beside_each, decode_columns
from kerneltrack.snapshots.files import MOST_BYTES, opened
from kerneltrack.snapshots.header import PackedState

PACKED_VERSION = 1
GROUP_ROWS = 128
"""States of a row group: what is read to take one out."""
_GROUPS_AT_HAND = 8
_ASKED_SINGLY = 8
"""States of a row group that are decoded one by one: to decode all costs about as much."""
_META = b"kerneltrack"
_KINDS = (codec.TRACKER, codec.LEARNER)
_REALS: dict[str, Any] = {"d": pa.float64(), "f": pa.float32(), "l": pa.int64()}
_PLAIN = {
    "model_id": pa.string(),
    "kind": pa.string(),
    "rows": pa.int64(),
    "time": pa.int64(),
    "final": pa.bool_(),
    "header": pa.string(),
    "whole": pa.bool_(),
    "beside": pa.large_binary(),
}

Arrays = Mapping[str, npt.NDArray[Any]]
Layout = dict[str, tuple[str, tuple[int, ...]]]
"""Letter of the type and shape of each array that has a column, by the column's name."""


def slot_of(model_id: str, slots: int) -> int:
    """Return the slot, of so many, that a model is in.

    Example:
        >>> slot_of("robot/7", 256)
        101
    """
    return zlib.crc32(model_id.encode("utf-8", "surrogatepass")) % slots


class PackedWriter:
    """A file of packed states being written; add them sorted by model.

    Args:
        handle: Where to, open for writing bytes; it is not closed.
        float32: Store the trackers' reals in single precision.
    """

    def __init__(self, handle: Any, float32: bool = False) -> None:
        self._handle = handle
        self._float32 = float32
        self._layout: Layout | None = None
        self._writer: pq.ParquetWriter | None = None
        self._gathered: list[tuple[PackedState, str, dict[str, Any], dict[str, Any]]] = []
        self._last = ""
        self.models = 0
        self.states = 0

    def add(self, state: PackedState) -> None:
        """Add a state.

        Raises:
            ValueError: if its model belongs before the one that was added last.
        """
        text, arrays = codec.parts_of(state.data, f"state of model {state.model_id!r}")
        own = {name: array for name, array in arrays.items() if not _is_more(name)}
        extras = {name: array for name, array in arrays.items() if _is_more(name)}
        self.add_parts(state, text, own, extras)

    def add_parts(
        self,
        state: PackedState,
        text: str,
        own: dict[str, Any],
        extras: dict[str, Any] | None = None,
    ) -> None:
        """Add a state by its parts.

        Args:
            state: What is known of it; its bytes are not read.
            text: What its header holds.
            own: Its arrays; they must not change afterwards.
            extras: Those beside it.

        Raises:
            ValueError: as `add`.
        """
        if self.states and state.model_id < self._last:
            raise ValueError(f"{state.model_id!r} comes after {self._last!r}")
        if not self.states or state.model_id != self._last:
            self.models += 1
        self._last = state.model_id
        self.states += 1
        if self._float32 and state.kind == codec.TRACKER:
            own = {name: _halved(array) for name, array in own.items()}
        self._gathered.append((state, text, own, extras or {}))
        if len(self._gathered) >= GROUP_ROWS:
            self._flush()

    def add_columns(
        self,
        kind: str,
        names: Sequence[str],
        rows: Sequence[int],
        times: Sequence[int | None],
        headers: Sequence[str],
        columns: Arrays,
        extras: Sequence[Arrays] = (),
    ) -> None:
        """Add final states of several models, each one's only state.

        Args:
            kind: "tracker" or "learner".
            names: The models, sorted.
            rows: Index of each one's next row.
            times: Time of each one's newest row.
            headers: What their headers hold.
            columns: Their arrays by name, (m, ...).
            extras: Of each those beside it; none if empty.

        Raises:
            ValueError: if a model belongs before the one that was added last.
        """
        if self.states and names and names[0] <= self._last:
            raise ValueError(f"{names[0]!r} comes after {self._last!r}")
        if self._float32 and kind == codec.TRACKER:
            columns = {name: _halved(column) for name, column in columns.items()}
        self._flush()
        more: Sequence[Arrays] = extras or [{}] * len(names)
        one = _at(columns, 0) if names else {}
        layout = _columns_of(kind, one)
        if self._layout is None and names:
            self._begin(layout)
        if self._layout is None or _of_kind(self._layout, kind) != layout:
            for place, name in enumerate(names):
                state = PackedState(name, kind, rows[place], times[place], True, b"")
                self.add_parts(state, headers[place], _at(columns, place), dict(more[place]))
            return
        self.models += len(names)
        self.states += len(names)
        self._last = names[-1]
        for start in range(0, len(names), GROUP_ROWS):
            part = slice(start, start + GROUP_ROWS)
            count = len(names[part])
            plain = {
                "model_id": names[part],
                "kind": [kind] * count,
                "rows": rows[part],
                "time": times[part],
                "final": [True] * count,
                "header": headers[part],
                "whole": [False] * count,
                "beside": [codec.to_bytes(own, "{}") if own else None for own in more[part]],
            }
            arrays = {f"{kind}.{name}": column[part] for name, column in columns.items()}
            self._write(plain, arrays, count)

    def close(self) -> None:
        """Write what is left."""
        self._flush()
        if self._writer is None:
            self._begin({})
        if self._writer is not None:
            self._writer.close()

    def _begin(self, layout: Layout) -> None:
        self._layout = layout
        full = {name: shape for name, (_, shape) in layout.items() if math.prod(shape)}
        about = {
            "version": PACKED_VERSION,
            "arrays": {name: list(shape) for name, shape in full.items()},
            # Arrow has no lists of no numbers.
            "empty": {n: [letter, list(s)] for n, (letter, s) in layout.items() if n not in full},
        }
        fields = [pa.field(name, kind) for name, kind in _PLAIN.items()]
        for name, shape in full.items():
            fields.append(pa.field(name, pa.list_(_REALS[layout[name][0]], math.prod(shape))))
        schema = pa.schema(fields, metadata={_META: json.dumps(about).encode()})
        self._writer = pq.ParquetWriter(
            self._handle,
            schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=False,
            write_statistics=["model_id"],
        )

    def _flush(self) -> None:
        if not self._gathered:
            return
        if self._layout is None:
            # The file's columns are those of the first state of each kind.
            first: Layout = {}
            for kind in _KINDS:
                found = next((own for state, _, own, _ in self._gathered if state.kind == kind), {})
                first |= _columns_of(kind, found)
            self._begin(first)
        layout = self._layout or {}
        whole, besides = [], []
        for state, _, own, extras in self._gathered:
            fits = _columns_of(state.kind, own).items() == _of_kind(layout, state.kind).items()
            kept = extras if fits else {**own, **extras}
            whole.append(not fits)
            besides.append(codec.to_bytes(kept, "{}") if kept else None)
        states = [state for state, _, _, _ in self._gathered]
        columns: dict[str, Any] = {
            name: [getattr(state, name) for state in states]
            for name in ("model_id", "kind", "rows", "time", "final")
        }
        columns["header"] = [text for _, text, _, _ in self._gathered]
        columns |= {"whole": whole, "beside": besides}
        arrays = {
            name: self._column(name, letter, shape, whole)
            for name, (letter, shape) in layout.items()
        }
        self._write(columns, arrays, len(states))
        self._gathered = []

    def _write(self, plain: Mapping[str, Any], arrays: Arrays, count: int) -> None:
        """Write a row group; zeros where a column has no array."""
        layout, writer = self._layout, self._writer
        if layout is None or writer is None:
            raise ValueError("the file has no columns yet")
        made = {name: pa.array(plain[name], kind) for name, kind in _PLAIN.items()}
        for name, (letter, shape) in layout.items():
            size = math.prod(shape)
            if not size:
                continue
            values = arrays.get(name)
            flat = np.zeros(count * size, np.dtype(letter)) if values is None else values
            flat = np.ascontiguousarray(flat).reshape(-1)
            made[name] = pa.FixedSizeListArray.from_arrays(pa.array(flat), size)
        schema = writer.schema
        batch = pa.RecordBatch.from_arrays([made[n] for n in schema.names], schema=schema)
        writer.write_batch(batch, row_group_size=GROUP_ROWS)

    def _column(
        self, name: str, letter: str, shape: tuple[int, ...], whole: Sequence[bool]
    ) -> npt.NDArray[Any]:
        """Return an array's column; zeros where a state is of another kind or shape."""
        kind, _, field = name.partition(".")
        values = np.zeros((len(self._gathered), math.prod(shape)), np.dtype(letter))
        for place, (state, _, own, _) in enumerate(self._gathered):
            if state.kind == kind and not whole[place]:
                values[place] = own[field].reshape(-1)
        return values


def _at(columns: Arrays, place: int) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of one of the states that columns are of."""
    return {name: column[place] for name, column in columns.items()}


def _halved(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return reals in single precision, whole numbers as they are."""
    return array.astype(np.float32) if array.dtype == np.float64 else array


_MOST_LENGTH = 1 << 31
_MOST_DIMENSIONS = 8


def _is_shape(shape: object) -> bool:
    """Check whether a value is the lengths of an array."""
    return (
        isinstance(shape, list)
        and len(shape) <= _MOST_DIMENSIONS
        and all(type(length) is int and 0 <= length < _MOST_LENGTH for length in shape)
    )


def _is_more(name: str) -> bool:
    return name.startswith(codec.EXTRA)


def _columns_of(kind: str, arrays: Arrays) -> Layout:
    return {
        f"{kind}.{name}": (array.dtype.char, array.shape) for name, array in sorted(arrays.items())
    }


def _of_kind(layout: Layout, kind: str) -> Layout:
    return {name: about for name, about in layout.items() if name.startswith(f"{kind}.")}


def _first_of(span: tuple[bytes, bytes] | None) -> bytes:
    return b"" if span is None else span[0]


def _last_of(span: tuple[bytes, bytes] | None) -> bytes:
    return b"" if span is None else span[1]


class PackedFile:
    """A file of packed states.

    Args:
        path: The file.

    Raises:
        DataError: if it cannot be read, or is no such file.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        # What stands at the end is long where there are many groups: read once.
        self._about: Any = None
        with self._reading() as found:
            schema = found.schema_arrow
            self._layout, self._empty = self._read_layout(schema)
            self._about = about = found.metadata
            place = about.schema.names.index("model_id")
            self._ranges: list[tuple[bytes, bytes] | None] = []
            for number in range(about.num_row_groups):
                group = about.row_group(number)
                if group.total_byte_size > MOST_BYTES or group.num_rows > MOST_BYTES:
                    raise DataError(path, f"row group {number} is larger than {MOST_BYTES:,} bytes")
                # What `column` finds damaged ends the process; reading a page of it is an error.
                next(found.iter_batches(1, [number], ["model_id"]), None)
                stated = group.column(place).statistics
                if stated is None or not stated.has_min_max:
                    self._ranges.append(None)
                else:
                    self._ranges.append((str(stated.min).encode(), str(stated.max).encode()))
        self._sorted = all(span is not None for span in self._ranges) and all(
            one[1] <= other[0] for one, other in itertools.pairwise(self._ranges) if one and other
        )

    def _reading(self) -> Any:
        return _Reading(self.path, self._about)

    def _read_layout(
        self, schema: pa.Schema
    ) -> tuple[dict[str, tuple[int, ...]], dict[str, npt.NDArray[Any]]]:
        """Return the shape of each array that has a column, and the arrays without numbers."""
        try:
            about = json.loads((schema.metadata or {})[_META])
            version, shapes, empty = about["version"], about["arrays"], about["empty"]
            plain = {name: schema.field(name).type for name in _PLAIN}
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise DataError(self.path, "not a file of packed snapshots") from error
        if type(version) is not int or version != PACKED_VERSION:
            reason = f"format version {version!r}: this code reads version {PACKED_VERSION}"
            raise DataError(self.path, reason)
        if plain != _PLAIN or not isinstance(shapes, dict):
            raise DataError(self.path, "not a file of packed snapshots")
        if {*schema.names} != {*_PLAIN, *shapes} or len(schema.names) != len({*schema.names}):
            raise DataError(self.path, "damaged: columns that are not described")
        for name, shape in shapes.items():
            kind = schema.field(name).type
            listed = _is_shape(shape) and pa.types.is_fixed_size_list(kind)
            if not (listed and kind.value_type in _REALS.values()):
                raise DataError(self.path, f"damaged: column {name} is no array's")
            if kind.list_size != math.prod(shape):
                raise DataError(self.path, f"damaged: column {name} is not of shape {shape}")
        without: dict[str, npt.NDArray[Any]] = {}
        for name, described in empty.items() if isinstance(empty, dict) else ():
            pair = isinstance(described, list) and len(described) == 2
            letter: Any = described[0] if pair else ""
            sizes: Any = described[1] if pair else None
            known = isinstance(letter, str) and letter in _REALS and _is_shape(sizes)
            if not known or math.prod(sizes):
                raise DataError(self.path, f"damaged: array {name} is not without numbers")
            without[name] = np.zeros(tuple(sizes), np.dtype(letter))
        return {name: tuple(shape) for name, shape in shapes.items()}, without

    def groups_of(self, model_id: str) -> list[int]:
        """Return the row groups that may hold states of a model."""
        key = model_id.encode("utf-8", "surrogatepass")
        first, last = 0, len(self._ranges)
        if self._sorted:
            first = bisect_left(self._ranges, key, key=_last_of)
            last = bisect_right(self._ranges, key, key=_first_of)
        return [
            number
            for number, span in enumerate(self._ranges[first:last], first)
            if span is None or span[0] <= key <= span[1]
        ]

    def group(self, number: int) -> PackedGroup:
        """Read a row group; learners' arrays, which may be many times as large, once asked for.

        Raises:
            DataError: if it cannot be read.
        """

        def read(kind: str) -> pa.Table:
            columns = [name for name in self._layout if name.startswith(f"{kind}.")]
            plain = [*_PLAIN] if kind == codec.TRACKER else []
            with self._reading() as found:
                return found.read_row_group(number, columns=[*plain, *columns]).combine_chunks()

        return PackedGroup(self.path, read, self._layout, self._empty)

    def names(self) -> Iterator[str]:
        """Return the models that have states in the file, in order, a name a state.

        Raises:
            DataError: if they cannot be read.
        """
        for (names,) in self._each(["model_id"]):
            yield from names

    def boundaries(self) -> Iterator[tuple[Any, ...]]:
        """Return model, kind, rows, time and `final` of each state.

        Raises:
            DataError: if they cannot be read.
        """
        named = ["model_id", "kind", "rows", "time", "final"]
        for columns in self._each(named):
            yield from zip(*columns, strict=True)

    def _each(self, columns: list[str]) -> Iterator[list[list[Any]]]:
        """Return these columns of each row group."""
        with self._reading() as found:
            for number in range(len(self._ranges)):
                table = found.read_row_group(number, columns=columns)
                yield [table.column(name).to_pylist() for name in columns]

    def states(self) -> Iterator[PackedState]:
        """Return all states, in order.

        Raises:
            DataError: if they cannot be read.
        """
        for number in range(len(self._ranges)):
            group = self.group(number)
            for place in range(len(group)):
                yield group.state(place)

    def snapshots(self, own: bool = False) -> Iterator[tuple[str, codec.Snapshot]]:
        """Return the model and the decoded state of each tracker, in order.

        Args:
            own: Whether the job itself wrote them; see `codec.decode`.

        Raises:
            DataError: if they cannot be read, or as `codec.decode`.
        """
        for number in range(len(self._ranges)):
            group = self.group(number)
            group.snapshots(own)
            for place, kind in enumerate(group.kinds):
                if kind == codec.TRACKER:
                    yield group.names[place], group.snapshot(place, number, own)
                elif kind not in _KINDS:
                    group.state(place)  # It says what is wrong.


def _place_in(path: str, group: int, place: int) -> str:
    return f"{path}, row group {group}, state {place}"


class _Reading:
    """A Parquet file that is open, its errors turned into ours."""

    def __init__(self, path: str, about: Any) -> None:
        self._path = path
        self._about = about
        self._opened = opened(path)

    def __enter__(self) -> pq.ParquetFile:
        handle = self._opened.__enter__()
        try:
            return pq.ParquetFile(handle, metadata=self._about)
        except (pa.ArrowException, OSError, ValueError) as error:
            self._opened.__exit__(None, None, None)
            raise DataError(self._path, "not a file of packed snapshots") from error

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._opened.__exit__(None, None, None)
        # Texts that are none are ValueErrors too.
        damages = pa.ArrowException | OSError | MemoryError | ValueError
        if isinstance(error, damages) and not isinstance(error, KerneltrackError):
            text = " ".join(str(error).split())
            raise DataError(self._path, f"cannot be read: {text}") from error


class PackedGroup:
    """A row group of packed states, in memory."""

    def __init__(
        self,
        path: str,
        read: Callable[[str], pa.Table],
        layout: Mapping[str, tuple[int, ...]],
        empty: Mapping[str, npt.NDArray[Any]],
    ) -> None:
        """Keep the arguments.

        Args:
            path: The file.
            read: Reads the columns of a kind's arrays; with the trackers' those of all states.
            layout: Shapes of arrays.
            empty: Arrays without numbers.
        """
        self._path = path
        self._empty = empty
        self._read = read
        self._table = read(codec.TRACKER)
        self._tables = {codec.TRACKER: self._table}
        self._layout = layout
        self.names: list[str] = self._plain("model_id")
        self.kinds: list[str] = self._plain("kind")
        self.rows: list[int] = self._plain("rows")
        self._arrays: dict[str, npt.NDArray[Any]] = {}
        self._snapshots: dict[bool, list[codec.Snapshot | None]] = {}
        self._asked = 0

    def __len__(self) -> int:
        """Return the number of states."""
        return len(self.names)

    def _plain(self, name: str) -> list[Any]:
        values: list[Any] = self._table.column(name).to_pylist()
        if None in values and name not in ("time", "beside"):
            raise DataError(self._path, f"damaged: {name} is missing")
        return values

    def _values(self, name: str) -> npt.NDArray[Any]:
        """Return an array's column, (states, numbers of one)."""
        if name not in self._arrays:
            kind = name.partition(".")[0]
            if kind not in self._tables:
                self._tables[kind] = self._read(kind)
            (chunk,) = self._tables[kind].column(name).chunks
            numbers = chunk.flatten()
            if chunk.null_count or numbers.null_count:
                raise DataError(self._path, f"damaged: {name} is missing")
            self._arrays[name] = numbers.to_numpy(zero_copy_only=True).reshape(len(self), -1)
        return self._arrays[name]

    def about(self, place: int) -> tuple[str, int, int | None, bool]:
        """Return kind, rows, time and `final` of the state at a place."""
        time, final = (self._table.column(name)[place].as_py() for name in ("time", "final"))
        return self.kinds[place], self.rows[place], time, bool(final)

    def snapshot(self, place: int, number: int, own: bool = False) -> codec.Snapshot:
        """Return the tracker's state at a place decoded: what `codec.decode` gives of its bytes.

        Once some were asked for, all are decoded together. Arrays are then parts of larger ones;
        who writes to them writes to what the next one who asks gets.

        Args:
            place: The place.
            number: The group's, for errors.
            own: Whether the job itself wrote it; see `codec.decode`.

        Raises:
            DataError: as `state` and `codec.decode`.
        """
        self._asked += 1
        if self._asked <= _ASKED_SINGLY and own not in self._snapshots:
            found = None
        else:
            found = self.snapshots(own)[place]
        if found is None:
            found = codec.decode(self.state(place).data, _place_in(self._path, number, place), own)
        return found

    def snapshots(self, own: bool = False) -> list[codec.Snapshot | None]:
        """Return all trackers' states decoded, as far as that can be done together; see `snapshot`.

        None of those that `snapshot` must look at by themselves.
        """
        if own not in self._snapshots:
            self._snapshots[own] = self._decoded(own)
        return self._snapshots[own]

    def _decoded(self, own: bool) -> list[codec.Snapshot | None]:
        """Return the states, None of one that must be looked at by itself.

        That is one of a learner, one whose arrays are not in the columns, and a damaged one.
        """
        found: list[codec.Snapshot | None] = [None] * len(self)
        try:
            plain = {name: self._table.column(name).to_pylist() for name in _PLAIN}
            complete = [
                kind == codec.TRACKER and whole is False and None not in (text, final)
                for kind, whole, text, final in zip(
                    *(plain[name] for name in ("kind", "whole", "header", "final")), strict=True
                )
            ]
            places = [place for place, good in enumerate(complete) if good]
            columns = self._own_columns(codec.TRACKER, places) if places else {}
        # A text that is none, or a column with a number missing.
        except (ValueError, DataError):
            return found
        if not places:
            return found
        texts = [plain["header"][place] for place in places]
        for place, snapshot in zip(places, decode_columns(texts, columns, own), strict=True):
            found[place] = snapshot
        more = [at for at in places if found[at] is not None and plain["beside"][at] is not None]
        beside = beside_each([plain["beside"][place] for place in more])
        for place, extras in zip(more, beside, strict=True):
            snapshot = found[place]
            if snapshot is not None:
                found[place] = None if extras is None else snapshot._replace(extras=extras)
        return found

    def _own_columns(self, kind: str, places: Sequence[int]) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays of states of a kind by name, (states, ...)."""
        count, begin = len(places), f"{kind}."
        columns: dict[str, npt.NDArray[Any]] = {
            name[len(begin) :]: np.zeros((count, *array.shape), array.dtype)
            for name, array in self._empty.items()
            if name.startswith(begin)
        }
        for name, shape in self._layout.items():
            if name.startswith(begin):
                values = self._values(name)
                some = values if count == len(self) else values[places]
                columns[name[len(begin) :]] = some.reshape(count, *shape)
        return columns

    def state(self, place: int) -> PackedState:
        """Return the state at a place.

        Raises:
            DataError: if it is damaged.
        """
        one = self._table.slice(place, 1)
        try:
            plain = {name: one.column(name)[0].as_py() for name in _PLAIN}
        except ValueError as error:
            raise DataError(self._path, f"damaged: a text of state {place} is none") from error
        kind = plain["kind"]
        if kind not in _KINDS or any(
            plain[name] is None for name in _PLAIN if name not in ("time", "beside")
        ):
            raise DataError(self._path, f"damaged: state {place} is of no kind, or not complete")
        arrays: dict[str, npt.NDArray[Any]] = {}
        if not plain["whole"]:
            for name, array in self._empty.items():
                if name.startswith(f"{kind}."):
                    arrays[name[len(kind) + 1 :]] = array
            for name, shape in self._layout.items():
                if name.startswith(f"{kind}."):
                    values = self._values(name)[place].reshape(shape)
                    arrays[name[len(kind) + 1 :]] = values
        if plain["beside"] is not None:
            more = codec.parts_of(plain["beside"], self._path, headed=False)[1]
            if not plain["whole"] and not all(map(_is_more, more)):
                raise DataError(self._path, f"damaged: state {place} has arrays twice")
            arrays |= more
        data = codec.to_bytes(arrays, plain["header"])
        at = {name: plain[name] for name in ("model_id", "kind", "rows", "time", "final")}
        return PackedState(**at, data=data)


class PackedFiles:
    """The packed files of a folder.

    Args:
        folder: Where they are.
        slots: Slots that models are hashed into.
        names: Name of the file of each slot, None where no model is.
    """

    def __init__(self, folder: str, slots: int, names: Sequence[str | None]) -> None:
        self._folder = folder
        self._slots = slots
        self._names = names
        self._files: dict[str, PackedFile] = {}
        self._groups: OrderedDict[tuple[str, int], PackedGroup] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what was read; other processes may have another working directory."""
        folder = whole(self._folder)
        return {**self.__dict__, "_folder": folder, "_files": {}, "_groups": OrderedDict()}

    def file(self, name: str) -> PackedFile:
        """Return a file of the folder."""
        if name not in self._files:
            self._files[name] = PackedFile(join(self._folder, name))
        return self._files[name]

    def all(self) -> Iterator[PackedFile]:
        """Return all files, in the order of their names."""
        for name in sorted({name for name in self._names if name is not None}):
            yield self.file(name)

    def in_order(self, model_ids: Iterable[str]) -> list[str]:
        """Return models in the order in which their states lie."""
        return sorted(
            model_ids, key=lambda name: (self._names[slot_of(name, self._slots)] or "", name)
        )

    def places(self, model_id: str) -> list[tuple[str, int, int]]:
        """Return where a model's states are: file, row group, place."""
        name = self._names[slot_of(model_id, self._slots)]
        if name is None:
            return []
        return [
            (name, number, place)
            for number in self.file(name).groups_of(model_id)
            for place, found in enumerate(self._group(name, number).names)
            if found == model_id
        ]

    def _group(self, name: str, number: int) -> PackedGroup:
        key = name, number
        if key not in self._groups:
            self._groups[key] = self.file(name).group(number)
            if len(self._groups) > _GROUPS_AT_HAND:
                self._groups.popitem(last=False)
        self._groups.move_to_end(key)
        return self._groups[key]

    def state(self, place: tuple[str, int, int]) -> PackedState:
        """Return the state at a place that `places` gave."""
        name, number, at = place
        return self._group(name, number).state(at)

    def snapshot(self, place: tuple[str, int, int], own: bool = False) -> codec.Snapshot:
        """Return the tracker's state at a place that `places` gave; see `PackedGroup.snapshot`."""
        name, number, at = place
        return self._group(name, number).snapshot(at, number, own)

    def name_of(self, place: tuple[str, int, int]) -> str:
        """Return what a place is called."""
        name, number, at = place
        return _place_in(join(self._folder, name), number, at)

    def about(self, place: tuple[str, int, int]) -> tuple[str, int, int | None, bool]:
        """Return kind, rows, time and `final` of the state at a place."""
        name, number, at = place
        return self._group(name, number).about(at)
