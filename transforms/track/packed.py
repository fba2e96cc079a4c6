"""A model as blocks of bytes: as a live job's state holds it, and the rounds take it.

What writing and reading names, shapes and a header costs each time, a bundle of single rows would
pay for each row. A state of fixed shape, a tracker's, a drift detector's, is a row of a table.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack import codec
from kerneltrack.errors import ConfigError, DataError
from kerneltrack.fleet.clock import NO_TIME
from kerneltrack.fleet.forward_fill import LastValues
from kerneltrack.fleet.model import Model, Work
from kerneltrack.fleet.models import Models
from kerneltrack.fleet.restore import with_beside
from kerneltrack.fleet.windows import OpenWindows
from kerneltrack.monitor import moving
from kerneltrack.monitor.drift import block as detectors
from kerneltrack.monitor.moving import WindowState
from kerneltrack.monitor.reference import paces as references
from kerneltrack.monitor.reference.block import BlockParts
from kerneltrack.registry import get_tracker
from kerneltrack.trackers.common.block import FixedBlock
from kerneltrack.trackers.common.places import Places, side_by_side

Arrays = dict[str, npt.NDArray[Any]]
Blocks = npt.NDArray[np.uint8]

_PARTS = ("body", "moving", "drift", "last_values", "open", "window")
_HEAD = struct.Struct("<qqq??qq6q")
"""Index of the tracker's first row, channels, up to when rows have run, which of its times there
are, both, bytes of each part."""
_OPEN = struct.Struct("<qq")
"""Windows that are open, and rows that they need."""


class Packed(NamedTuple):
    """A model as bytes.

    Attributes:
        before: As of `Model`; so are both times.
        time: Time of the newest row, ns.
        until: All rows before this time, ns, have been learned from.
        width: Channels of the rows.
        body: The tracker's arrays; of one that grows, as `codec` writes them.
        moving: Those of the reference that every row changes; empty without a reference.
        drift: The drift detector's; empty without one.
        last_values: What each channel showed last; empty if nothing is held yet.
        open: Windows that are open; empty if none are measured.
        window: The moving window, and the times of its rows; empty without one.
        origin: Where the reference was given, as of `Model`.
        kept: Those that only the end of a block of rows changes. They lie in a cell of their own.
        ran: Of rows that lie before it in the log those before this time, ns, have run.
        known: Whether the arrays have been held against what the row loops take; those that come
            from the runner have not.
    """

    before: int
    time: int | None
    until: int | None
    width: int
    body: bytes
    moving: bytes = b""
    drift: bytes = b""
    last_values: bytes = b""
    open: bytes = b""
    window: bytes = b""
    origin: str = ""
    kept: bytes = b""
    ran: int = NO_TIME
    known: bool = False

    @property
    def size(self) -> int:
        """How many bytes all but what is kept takes, about."""
        return (
            len(self.body)
            + len(self.moving)
            + len(self.drift)
            + len(self.last_values)
            + len(self.open)
            + len(self.window)
        )

    def encode(self) -> bytes:
        """Write all but what is kept as bytes."""
        times = (self.time is not None, self.until is not None, self.time or 0, self.until or 0)
        parts = [getattr(self, part) for part in _PARTS]
        head = _HEAD.pack(self.before, self.width, self.ran, *times, *map(len, parts))
        return b"".join((head, *parts, self.origin.encode()))

    @classmethod
    def decode(cls, data: bytes) -> Packed:
        """Read it back.

        Raises:
            DataError: for bytes that are none.
        """
        if len(data) < _HEAD.size:
            raise DataError("log", f"damaged: a model of {len(data)} bytes")
        before, width, ran, timed, ended, time, until, *lengths = _HEAD.unpack_from(data)
        ends = [*itertools.accumulate(lengths, initial=_HEAD.size)]
        if min(lengths) < 0 or ends[-1] > len(data):
            raise DataError("log", f"damaged: a model of {len(data)} bytes")
        origin = data[ends[-1] :].decode(errors="replace")
        times = time if timed else None, until if ended else None
        parts = [data[start:stop] for start, stop in itertools.pairwise(ends)]
        body, reference, drift, last_values, windows, window = parts
        numbers = before, *times, width
        return cls(*numbers, body, reference, drift, last_values, windows, window, origin, ran=ran)


def pack(work: Work, model: Model) -> Packed:
    """Return a model as bytes."""
    width, kept = len(model.state.shift), BlockParts(b"", b"")
    if work.reference is not None and model.reference is not None:
        kept = references.pack(work.reference, model.reference)
    return Packed(
        model.before,
        model.time,
        model.until,
        width,
        _body(work, model.state),
        kept.moving,
        b"" if work.drift is None else detectors.pack(model.drift),
        _joined(model.last_values),
        _open_bytes(model.open),
        b"" if model.moving is None else _joined((*model.moving, model.moving_times)),
        model.origin,
        kept.kept,
        known=True,
    )


def unpack(work: Work, packed: Packed, name: str) -> Model:
    """Return the model, after a look at its values.

    Raises:
        DataError: if it is damaged; `name` says what it is of.
    """
    spec: Any = work.spec
    model = Model(None, packed.time, packed.until, before=packed.before, origin=packed.origin)
    try:
        if packed.width < 1:
            raise ConfigError("state, channels", packed.width, "at least 1")
        model = model._replace(state=_state(spec, packed))
        if work.reference is not None and packed.moving:
            parts = BlockParts(packed.moving, packed.kept)
            watched = references.unpack(work.reference, packed.width, parts)
            model = model._replace(reference=watched)
        if work.drift is not None:
            model = model._replace(drift=detectors.unpack(work.drift, packed.drift))
        return with_beside(work, [model], [_rows_before(work, packed)], given=False)[0]
    except (ConfigError, ValueError) as error:
        raise DataError(name, f"damaged state: {error}") from error


def fit_each(work: Work, models: Sequence[Packed | None], width: int) -> list[bool]:
    """Check which models' parts are as long as those of rows with so many channels; None's are.

    Those of the same lengths fit alike: each is looked at once.
    """
    known: dict[tuple[int, ...], bool] = {}
    found = []
    for packed in models:
        if packed is None:
            found.append(True)
            continue
        lengths = (
            packed.width,
            len(packed.body),
            len(packed.drift),
            len(packed.moving),
            len(packed.kept),
        )
        if lengths not in known:
            known[lengths] = _fits(work, packed, width)
        found.append(known[lengths])
    return found


def _fits(work: Work, packed: Packed, width: int) -> bool:
    """Check whether the parts of a model are as long as those of rows with so many channels."""
    tracker: Any = get_tracker(work.spec.tracker)
    if packed.width != width:
        return False
    if not tracker.grows and len(packed.body) != tracker.places(work.spec, width).size:
        return False
    if work.drift is not None and len(packed.drift) != detectors.places_of(work.drift).size:
        return False
    if work.reference is None or not packed.moving:
        return not packed.kept
    size: int = references.sizes_of(work.reference, width).kept
    return len(packed.kept) == size


def checked(work: Work, names: Sequence[str], models: Sequence[Packed], width: int) -> list[Packed]:
    """Return packed models after a look at their values, all at once if that is possible.

    Args:
        work: What is done with their rows.
        names: What each is of, for errors.
        models: The models, each of which `fits`.
        width: How many channels the rows have.

    Raises:
        DataError: if one is damaged.
    """
    tracker: Any = get_tracker(work.spec.tracker)
    if models and not (tracker.grows or work.hold is not None or work.measure is not None):
        try:
            bodies = _checked_together(work, models, width)
        except (ConfigError, ValueError):
            pass  # One of them is damaged: it says so below.
        else:
            pairs = zip(models, bodies, strict=True)
            return [packed._replace(body=body, known=True) for packed, body in pairs]
    each = zip(names, models, strict=True)
    return [pack(work, unpack(work, own, name))._replace(ran=own.ran) for name, own in each]


def _checked_together(work: Work, models: Sequence[Packed], width: int) -> list[bytes]:
    """Return the trackers' arrays of models, at least one, after a look at all values.

    Raises:
        ConfigError: if one is damaged.
    """
    spec: Any = work.spec
    places = get_tracker(spec.tracker).places(spec, width)
    blocks = side_by_side([packed.body for packed in models], places.size)
    columns = places.columns(blocks)
    states = get_tracker(spec.tracker).from_arrays(spec, columns, (len(models),))
    for column, array in zip(columns.values(), states, strict=True):
        column[...] = array
    folded = [BlockParts(packed.moving, packed.kept) for packed in models if packed.moving]
    if work.reference is not None and folded:
        references.check_each(work.reference, width, folded)
    if work.drift is not None:
        detectors.check_each(work.drift, [packed.drift for packed in models])
    return [block.tobytes() for block in blocks]


class PackedBundle:
    """Packed models side by side, as the rounds take them, and as bytes again after their rows.

    Args:
        work: What is done with their rows.
        keys: Their IDs.
        heads: The models before their rows: `checked`.
        width: Channels of the rows.

    Attributes:
        models: The models.
    """

    def __init__(self, work: Work, keys: list[str], heads: list[Packed], width: int) -> None:
        spec: Any = work.spec
        tracker: Any = get_tracker(spec.tracker)
        self._work, self._heads = work, heads
        self._table: Blocks | None = None
        self._window: Blocks | None = None
        if tracker.grows:
            block = tracker.pack(spec, [_state(spec, head) for head in heads])
        else:
            size = tracker.places(spec, width).size
            self._table = side_by_side([head.body for head in heads], size)
            block = tracker.pack_table(spec, width, self._table)
        drift = None
        if work.drift is not None:
            size = detectors.places_of(work.drift).size
            drift = side_by_side([head.drift for head in heads], size)
        referred = np.array([bool(head.moving) for head in heads])
        windowed = work.measure is not None and work.measure.size is not None
        columns = [head.time for head in heads], [head.until for head in heads]
        time, until = (
            np.array([NO_TIME if t is None else t for t in own], np.int64) for own in columns
        )
        before = np.array([head.before for head in heads], np.int64)
        last_values, filled = _last_values_of(work, heads, width)
        self.models = Models(
            work,
            keys,
            block,
            time,
            until,
            before,
            np.zeros(len(keys), np.int64),
            last_values,
            filled,
            [_open_windows(head.open, width) for head in heads] if windowed else None,
            self._moving(width),
            [_window_parts(work, head)[1] for head in heads] if work.window is not None else [],
            drift,
            _references(work, heads, referred, width),
            referred,
            [head.origin for head in heads],
        )
        self._turns = self._turned()

    def _moving(self, width: int) -> FixedBlock[WindowState] | None:
        """Return the moving windows, each a row of a table."""
        if self._work.window is None:
            return None
        places = _window_places(self._work, width)
        bodies = [_window_parts(self._work, head)[0] for head in self._heads]
        self._window = side_by_side(bodies, places.size)
        return FixedBlock(WindowState, places, self._window, width)

    def _turned(self) -> npt.NDArray[np.int64]:
        """Return how many blocks of rows each reference has ended, (m,)."""
        spec, models = self._work.reference, self.models
        if spec is None or models.reference is None:
            return np.zeros(len(models), np.int64)
        return references.blocks_ended(spec, models.width, models.reference)

    def after(self, ran: Sequence[int]) -> list[tuple[Packed, bool]]:
        """Return the models as bytes after their rows, and whether what is kept has changed.

        Args:
            ran: (m,) as of `Packed`.
        """
        work, models = self._work, self.models
        folded: list[bytes] = []
        if work.reference is not None and models.reference is not None:
            folded = references.fold(work.reference, models.width, models.reference.moving)
        turned = (self._turned() != self._turns).tolist()
        times = _times_of(models.time), _times_of(models.until)
        lines = zip(self._heads, ran, self._bodies(), *times, strict=True)
        found = []
        for place, (head, until, body, time, learned) in enumerate(lines):
            last_values, windows, window = head.last_values, head.open, head.window
            if models.last_values is not None and models.filled[place]:
                last_values = _joined([part[place] for part in models.last_values])
            if models.open is not None:
                windows = _open_bytes(models.open[place])
            if self._window is not None:
                window = _joined((self._window[place], models.moving_times[place]))
            moving, kept, changed = head.moving, head.kept, False
            if folded and models.referred[place]:
                moving = folded[place]
                kept, changed = self._kept(place, turned[place])
            after = Packed(
                head.before,
                time,
                learned,
                head.width,
                body,
                moving,
                head.drift if models.drift is None else models.drift[place].tobytes(),
                last_values,
                windows,
                window,
                head.origin,
                kept,
                max(until, NO_TIME),
                head.known,
            )
            found.append((after, changed))
        return found

    def _bodies(self) -> list[bytes]:
        """Return the trackers' arrays of each model."""
        if self._table is None:
            block = self.models.block
            return [_body(self._work, block.state(place)) for place in range(len(self._heads))]
        count, size = self._table.shape
        # Each is copied once.
        found: list[bytes] = self._table.view(f"V{size}").reshape(count).tolist()
        return found

    def _kept(self, place: int, turned: bool) -> tuple[bytes, bool]:
        """Return what few rows change of a reference, and whether these have changed it."""
        spec, blocks, known = self._work.reference, self.models.reference, self._heads[place].kept
        # A new normal, or the end of a stretch by its time, may come within a block of rows.
        any_row = spec is not None and (spec.accept_after or spec.until is not None)
        if blocks is None or not (turned or any_row):
            return known, False
        kept = blocks.kept[place].tobytes()
        return kept, kept != known


def _times_of(column: npt.NDArray[np.int64]) -> list[int | None]:
    """Return the times of a column, ns; None where there is none."""
    return [None if time == NO_TIME else time for time in column.tolist()]


def _state(spec: Any, packed: Packed) -> Any:
    """Return a tracker's state, after a look at its values."""
    tracker: Any = get_tracker(spec.tracker)
    if tracker.grows:
        return codec.decode(packed.body, "body", own=True).state
    return tracker.from_arrays(spec, tracker.places(spec, packed.width).arrays(packed.body))


def _body(work: Work, state: Any) -> bytes:
    """Return a tracker's state as bytes."""
    tracker: Any = get_tracker(work.spec.tracker)
    if tracker.grows:
        return codec.encode(work.spec, state)
    body: bytes = tracker.state_bytes(state)
    return body


def _joined(arrays: Sequence[npt.NDArray[Any]] | None) -> bytes:
    """Return the bytes of arrays, one after the other; none without."""
    return b"".join(array.tobytes() for array in arrays or ())


def _rows_before(work: Work, packed: Packed) -> dict[str, Arrays]:
    """Return the arrays of what is held and of windows, by the codec's names."""
    width, found = packed.width, dict[str, Arrays]()
    if work.hold is not None and packed.last_values:
        found["held"] = Places.of(LastValues.layout(width)).arrays(packed.last_values)
    if work.measure is not None and work.measure.size is not None:
        found["open"] = _open_windows(packed.open, width)._asdict()
    if work.window is not None:
        body, times = _window_parts(work, packed)
        found["moving"] = {**_window_places(work, width).arrays(body), "times": times}
    return found


def _window_places(work: Work, width: int) -> Places:
    length = 0 if work.window is None else work.window.length
    return moving.places_of(work.spec, width, length)


def _window_parts(work: Work, packed: Packed) -> tuple[bytes, npt.NDArray[np.int64]]:
    """Return a moving window's bytes, and the times of its rows."""
    size = _window_places(work, packed.width).size
    if len(packed.window) < size or (len(packed.window) - size) % 8:
        raise ConfigError("moving", f"{len(packed.window)} bytes", f"{size}, and 8 for each time")
    return packed.window[:size], np.frombuffer(packed.window, np.int64, offset=size)


def _open_bytes(known: OpenWindows | None) -> bytes:
    """Return windows that are open as bytes."""
    if known is None:
        return b""
    return _OPEN.pack(len(known.windows), len(known.numbers)) + _joined(known)


def _open_windows(data: bytes, width: int) -> OpenWindows:
    """Return windows that `_open_bytes` wrote.

    Raises:
        ConfigError: for bytes of another length.
    """
    windows, rows = _OPEN.unpack_from(data) if len(data) >= _OPEN.size else (-1, -1)
    lengths = 3 * windows, rows * width, rows, 1
    if min(windows, rows) < 0 or len(data) != _OPEN.size + 8 * sum(lengths):
        raise ConfigError("open", f"{len(data)} bytes", "as many as its windows and rows take")
    ends = [*itertools.accumulate((8 * length for length in lengths), initial=_OPEN.size)]
    lines, numbers, stride = (
        np.frombuffer(data, np.int64, lengths[part], ends[part]) for part in (0, 2, 3)
    )
    kept = np.frombuffer(data, np.float64, lengths[1], ends[1])
    return OpenWindows(lines.reshape(windows, 3), kept.reshape(rows, width), numbers, stride)


def _last_values_of(
    work: Work, heads: Sequence[Packed], width: int
) -> tuple[LastValues | None, npt.NDArray[np.bool_]]:
    """Return what channels showed last, and which models hold anything."""
    filled = np.array([bool(head.last_values) for head in heads])
    if work.hold is None:
        return None, filled
    last_values, places = LastValues.none(len(heads), width), Places.of(LastValues.layout(width))
    some = np.flatnonzero(filled)
    table = side_by_side([heads[place].last_values for place in some.tolist()], places.size)
    last_values.values[some], last_values.times[some] = places.columns(table).values()
    return last_values, filled


def _references(
    work: Work, heads: Sequence[Packed], referred: npt.NDArray[np.bool_], width: int
) -> BlockParts | None:
    """Return the references, (m, bytes) of each part."""
    if work.reference is None:
        return None
    if not referred.any():
        return references.joined_states(work.reference, width, [None] * len(heads))
    unfolded, _ = references.unfold(work.reference, width, [head.moving for head in heads])
    size = references.sizes_of(work.reference, width).kept
    nothing = bytes(size)
    kept = side_by_side([head.kept or nothing for head in heads], size)
    blocks = BlockParts(unfolded, kept)
    if not referred.all():
        none = references.joined_states(work.reference, width, [None])
        blocks.moving[~referred] = none.moving[0]
    return blocks
