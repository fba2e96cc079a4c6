"""Models of OK-FEB as bytes, as a live job's state holds them and the row loop takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kerneltrack.errors import ConfigError
from kerneltrack.trackers.common.features import Features
from kerneltrack.trackers.common.loop import Pieces
from kerneltrack.trackers.common.places import Places
from kerneltrack.trackers.okfeb.okfeb import OKFEB
from kerneltrack.trackers.okfeb.spec import OKFEBSpec
from kerneltrack.trackers.okfeb.state import SubspaceState

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

TRACKER = OKFEB()


def places_of(spec: OKFEBSpec, width: int) -> Places:
    """Return where the arrays of states lie, for rows of so many channels."""
    return TRACKER.places(spec, width)


def width_of(spec: OKFEBSpec, size: int) -> int:
    """Return how many channels the rows of a block of so many bytes have.

    Raises:
        ConfigError: if there is no such block.
    """
    none, one = places_of(spec, 0).size, places_of(spec, 1).size
    width, left = divmod(size - none, one - none)
    if left or width < 1:
        raise ConfigError("state", f"{size} bytes", f"{none} and {one - none} for each channel")
    return width


def pack(state: SubspaceState) -> bytes:
    """Return a state as one block of bytes: its arrays, one after the other.

    Example:
        >>> from kerneltrack.trackers.okfeb.okfeb import OKFEB
        >>> spec = OKFEBSpec(rank=2, budget=4)
        >>> state = OKFEB().init(spec, np.random.default_rng(0).normal(size=(5, 3)))
        >>> again = unpack(spec, 3, pack(state))
        >>> all((a == b).all() for a, b in zip(state, again.values()))
        True
    """
    return b"".join([array.tobytes() for array in state])


def unpack(spec: OKFEBSpec, width: int, body: bytes) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a block that `pack` made, to be read only.

    Raises:
        ConfigError: for one of another length.
    """
    return places_of(spec, width).arrays(body)


def go_on(
    spec: OKFEBSpec,
    blocks: npt.NDArray[np.uint8],
    rows: FloatArray,
    starts: IntArray,
    stops: IntArray,
    extras: tuple[str, ...] = (),
) -> Features:
    """Run rows through models that there are already.

    Args:
        spec: The spec.
        blocks: (m, bytes) a state each, as `pack` lays it out; written to.
        rows: (n, D), finite; a model's follow one another.
        starts: (m,) place of each model's first row.
        stops: (m,) place after each model's last row.
        extras: More features per row, as of `KernelTracker.update`.

    Returns:
        The rows' features, bit for bit those of `OKFEB.update`; a row that it refuses is not valid
        here either.

    Example:
        >>> from kerneltrack.trackers.okfeb.okfeb import OKFEB
        >>> spec, tracker = OKFEBSpec(rank=2, budget=4, warmup=5), OKFEB()
        >>> rows = np.random.default_rng(0).normal(size=(30, 3))
        >>> state = tracker.init(spec, rows[:5])
        >>> blocks = np.frombuffer(pack(state), np.uint8)[np.newaxis].copy()
        >>> features = go_on(spec, blocks, rows, np.array([0]), np.array([30]))
        >>> after, alone = tracker.update(spec, state, rows)
        >>> bool((features.z == alone.z).all()), pack(after) == blocks[0].tobytes()
        (True, True)
    """
    width = np.shape(rows)[1]
    block = TRACKER.pack_table(spec, width, blocks)
    return TRACKER.run(spec, block, Pieces(rows, starts, stops), extras)
