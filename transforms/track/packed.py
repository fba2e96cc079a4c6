"""A model as blocks of bytes: as a live job's state holds it, and the row loops take it.

What writing and reading names, shapes and a header costs each time, a bundle of single rows would
pay for each row. A tracker's state can be packed, with a reference and a drift detector beside it.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kerneltrack.errors import ConfigError, DataError
from kerneltrack.fleet.model import Model, Work
from kerneltrack.monitor.drift import block as detectors
from kerneltrack.monitor.reference import block as references
from kerneltrack.monitor.reference.block import Parts
from kerneltrack.registry import get_tracker
from kerneltrack.trackers.common.places import side_by_side
from kerneltrack.trackers.okfeb import block

TRACKERS = ("okfeb",)
"""Those whose states go through their loops as blocks."""

_HEAD = struct.Struct("<q??qqqqq")
"""Index of the tracker's first row, which of its times there are, both, bytes of three parts."""


class Packed(NamedTuple):
    """A model as bytes.

    Attributes:
        before: As of `Model`; so are both times.
        time: Time of the newest row, ns.
        until: All rows before this time, ns, have been learned from.
        body: The tracker's arrays.
        moving: Those of the reference that every row changes; empty without a reference.
        drift: The drift detector's; empty without one.
        origin: Where the reference was given, as of `Model`.
        kept: Those that only the end of a block of rows changes. They lie in a cell of their own.
        known: Whether the arrays have been held against what the row loops take; those that come
            from the runner have not.
    """

    before: int
    time: int | None
    until: int | None
    body: bytes
    moving: bytes = b""
    drift: bytes = b""
    origin: str = ""
    kept: bytes = b""
    known: bool = False

    @property
    def size(self) -> int:
        """How many bytes all but what is kept takes, about."""
        return len(self.body) + len(self.moving) + len(self.drift)

    def encode(self) -> bytes:
        """Write all but what is kept as bytes."""
        times = (self.time is not None, self.until is not None, self.time or 0, self.until or 0)
        parts = self.body, self.moving, self.drift
        head = _HEAD.pack(self.before, *times, *map(len, parts))
        return b"".join((head, *parts, self.origin.encode()))

    @classmethod
    def decode(cls, data: bytes) -> Packed:
        """Read it back.

        Raises:
            DataError: for bytes that are none.
        """
        if len(data) < _HEAD.size:
            raise DataError("log", f"damaged: a model of {len(data)} bytes")
        before, timed, ended, time, until, *lengths = _HEAD.unpack_from(data)
        ends = [*itertools.accumulate(lengths, initial=_HEAD.size)]
        if min(lengths) < 0 or ends[-1] > len(data):
            raise DataError("log", f"damaged: a model of {len(data)} bytes")
        body, moving, drift = (data[start:stop] for start, stop in itertools.pairwise(ends))
        origin = data[ends[-1] :].decode(errors="replace")
        times = time if timed else None, until if ended else None
        return cls(before, *times, body, moving, drift, origin)


def pack(work: Work, model: Model) -> Packed:
    """Return a model, of a tracker, a reference and a drift detector at most, as bytes."""
    packed = Packed(model.before, model.time, model.until, block.pack(model.state), known=True)
    if work.drift is not None:
        packed = packed._replace(drift=detectors.pack(model.drift))
    if work.reference is None or model.reference is None:
        return packed
    held = references.pack(work.reference, model.reference)
    return packed._replace(moving=held.moving, origin=model.origin, kept=held.kept)


def checked(work: Work, models: Sequence[Packed], width: int) -> list[Packed | None]:
    """Return packed models after a look at their values, all at once.

    Args:
        work: What is done with their rows.
        models: The models, of parts as long as those of rows with so many channels.
        width: How many.

    Returns:
        The models, None in place of those that `unpack` would refuse.
    """
    if not models:
        return []
    spec: Any = work.spec
    places = block.places_of(spec, width)
    blocks = side_by_side([packed.body for packed in models], places.size)
    columns = {name: places.column(blocks, name) for name in places.likes}
    states = get_tracker(spec.tracker).from_columns(spec, columns)
    sound = np.ones(len(models), np.bool_)
    if work.reference is not None:
        moving, sized = references.unfold(work.reference, width, [each.moving for each in models])
        size = references.parts_of(work.reference, width).kept.size
        held = Parts(moving, side_by_side([packed.kept for packed in models], size))
        sound &= sized & references.sound_of_each(work.reference, width, held)
    if work.drift is not None:
        size = detectors.places_of(work.drift).size
        detected = side_by_side([packed.drift for packed in models], size)
        sound &= detectors.sound_of_each(work.drift, detected)
    return [
        packed._replace(body=block.pack(state), known=True) if state and well else None
        for packed, state, well in zip(models, states, sound.tolist(), strict=True)
    ]


def unpack(work: Work, packed: Packed, name: str) -> Model:
    """Return the model, after a look at its values.

    Raises:
        DataError: if it is damaged; `name` says what it is of.
    """
    spec: Any = work.spec
    model = Model(None, packed.time, packed.until, before=packed.before, origin=packed.origin)
    try:
        width = block.width_of(spec, len(packed.body))
        arrays = block.unpack(spec, width, packed.body)
        model = model._replace(state=get_tracker(spec.tracker).from_arrays(spec, arrays))
        if work.reference is not None and packed.moving:
            parts = Parts(packed.moving, packed.kept)
            held = references.unpack(work.reference, width, parts)
            model = model._replace(reference=held)
        if work.drift is not None:
            model = model._replace(drift=detectors.unpack(work.drift, packed.drift))
    except (ConfigError, ValueError) as error:
        raise DataError(name, f"damaged state: {error}") from error
    return model
