"""Many models of OK-FEB at once: their states as columns, their rows one after the other.

What Python and NumPy cost for each call is paid once a block, not once a model: states are made
as columns, first rows are looked at together, and where the arrays of each model lie is worked out
for all of them. The row loop is the same, and so are the bits; a block of one is `init` and
`update`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from kerneltrack.errors import ConfigError
from kerneltrack.kernels import make_kernel
from kerneltrack.trackers.common.calls import features_of
from kerneltrack.trackers.common.features import Features
from kerneltrack.trackers.common.loop import Pieces
from kerneltrack.trackers.common.places import Places
from kerneltrack.trackers.okfeb.okfeb import OKFEB
from kerneltrack.trackers.okfeb.spec import OKFEBSpec
from kerneltrack.trackers.okfeb.state import SubspaceState

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

TRACKER = OKFEB()


class Begun:
    """Models of a block that have begun, on their way through their rows.

    Args:
        spec: The spec.
        rows: (n, D), finite; a model's follow one another.
        starts: (m,) place of each model's first row.
        stops: (m,) place after each model's last row.
        first: Rows that a model's scaling and bandwidth are taken from, at most.

    States and features are bit for bit those of `OKFEB.init` and `update`.

    Attributes:
        columns: By name of a state's array, (m, ...): the states after the rows so far.
        kernels: (m, 4) each model's kernel as the loops take it.

    Example:
        >>> spec = OKFEBSpec(rank=2, budget=4, warmup=5)
        >>> rows = np.random.default_rng(0).normal(size=(30, 3))
        >>> starts, stops = np.array([0, 20]), np.array([20, 30])
        >>> models = Begun(spec, rows, starts, stops, 5)
        >>> models.run(np.arange(2), starts, stops)
        >>> models.columns["counts"][:, 0].tolist()
        [20, 10]
    """

    def __init__(
        self, spec: OKFEBSpec, rows: npt.ArrayLike, starts: IntArray, stops: IntArray, first: int
    ) -> None:
        """Let them begin; see the class."""
        self._spec = spec
        self._matrix = np.ascontiguousarray(rows, dtype=np.float64)
        until = np.minimum(stops, starts + first)
        self._block = TRACKER.init_each(spec, self._matrix, starts, until)
        names = SubspaceState._fields
        self.columns: dict[str, Any] = {name: self._block.column(name) for name in names}
        self.kernels = _kernel_words(spec, self.columns["bandwidth"][:, 0])
        self._out = TRACKER.room(spec, len(self._matrix))

    def run(self, models: IntArray, starts: IntArray, stops: IntArray) -> None:
        """Run further rows of some of the models.

        Args:
            models: (k,) which.
            starts: (k,) place of each one's next row.
            stops: (k,) place after the last one to run.
        """
        pieces = Pieces(self._matrix, starts, stops, models=models)
        TRACKER.run(self._spec, self._block, pieces, out=self._out)

    def project(self, models: IntArray, starts: IntArray, stops: IntArray) -> FloatArray:
        """Return the features of rows under models as they are, z one after the other, (k rows, r).

        Arguments as of `run`.
        """
        told = self._spec if self._spec.emit == "z" else dataclasses.replace(self._spec, emit="z")
        many = stops - starts
        ends = np.cumsum(many)
        begins = ends - many
        rows = self._matrix[np.arange(int(ends[-1])) + np.repeat(starts - begins, many)]
        pieces = Pieces(rows, begins, ends, models=models)
        said = TRACKER.run(told, self._block, pieces, learn=False)
        z: Any = said.z
        return z  # type: ignore[no-any-return]

    @property
    def features(self) -> Features:
        """What was said of the rows that were run."""
        return features_of(self._out)


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


def _kernel_words(spec: OKFEBSpec, bandwidths: FloatArray) -> IntArray:
    """Return the kernel of each model as the loop takes it, (m, 4)."""
    kind, _, degree, offset = make_kernel(spec.kernel, 1.0, spec.degree, spec.offset)
    words = np.empty((len(bandwidths), 4), np.int64)
    words[:, 0], words[:, 2] = kind, degree
    words[:, 1] = (1.0 / bandwidths).view(np.int64)
    words[:, 3] = np.array([offset], np.float64).view(np.int64)
    return words
