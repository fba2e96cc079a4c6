"""How a row loop of C is called: what it takes of a spec, of models, and of their rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.errors import ConfigError
from kerneltrack.native.binding import call, laid_out
from kerneltrack.trackers.common.block import Block
from kerneltrack.trackers.common.state import Outputs

NO_TIMES: IntArray = np.zeros(0, np.int64)
"""Times where no loop goes by them."""
FIRST: IntArray = np.zeros(1, np.int64)
"""Where the rows of the only model begin."""


class Pieces(NamedTuple):
    """Rows of models in one table, and whose they are.

    Attributes:
        rows: (n, D), in order of time within a model.
        starts: (k,) place of each piece's first row.
        stops: (k,) place after its last one. Pieces may leave rows out; they may overlap only
            where nothing is learned and all are one model's.
        times: (n,) event time of each row, ns. Only specs with `needs_times` read them.
        models: (k,) whose rows each piece holds, places in a block. A model may come more than
            once: its pieces run in their order. None: piece i is model i's.
    """

    rows: FloatArray
    starts: IntArray
    stops: IntArray
    times: IntArray | None = None
    models: IntArray | None = None


def sound_pieces(pieces: Pieces, width: int, models: int) -> Pieces:
    """Return pieces of the rows of so many models as the loops take them, but for the times.

    Raises:
        ConfigError: for rows of another width, and places that are not there.
    """
    rows = matrix_of(pieces.rows, width)
    count, of = models, None
    if pieces.models is not None:
        of = np.ascontiguousarray(pieces.models, dtype=np.int64)
        if of.ndim != 1 or (len(of) and not 0 <= of.min() <= of.max() < models):
            raise ConfigError("models", "places", f"of shape (k,), from 0 to {models - 1}")
        count = len(of)
    starts, stops = spans_of(pieces.starts, pieces.stops, count, len(rows))
    return Pieces(rows, starts, stops, pieces.times, of)


def all_rows(rows: FloatArray, times: IntArray = NO_TIMES) -> Pieces:
    """Return rows, as of `matrix_of`, of the one model there is."""
    return Pieces(rows, FIRST, np.array((len(rows),), np.int64), times)


def matrix_of(rows: npt.ArrayLike, width: int) -> FloatArray:
    """Return rows as the loops take them.

    Raises:
        ConfigError: for rows of another width.
    """
    matrix = np.ascontiguousarray(rows, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[1] != width:
        raise ConfigError("rows", matrix.shape, f"of shape (n, {width})")
    return matrix


def spans_of(
    starts: npt.ArrayLike, stops: npt.ArrayLike, pieces: int, rows: int
) -> tuple[IntArray, IntArray]:
    """Return where pieces of rows begin and end, as the loops take it.

    Args:
        starts: (k,) place of each piece's first row.
        stops: (k,) place after its last.
        pieces: k.
        rows: How many there are in all.

    Raises:
        ConfigError: for others than so many, or places that are none of the rows.
    """
    begins = np.ascontiguousarray(starts, dtype=np.int64)
    ends = np.ascontiguousarray(stops, dtype=np.int64)
    for name, places in (("starts", begins), ("stops", ends)):
        if places.shape != (pieces,):
            raise ConfigError(name, places.shape, f"of shape ({pieces},)")
    if pieces and not ((begins >= 0) & (begins <= ends) & (ends <= rows)).all():
        raise ConfigError("starts, stops", "places", f"0 <= start <= stop <= {rows}")
    return begins, ends


class Loop(NamedTuple):
    """A tracker's loop and what it takes that is the same for all models of a spec.

    Attributes:
        name: The function, `kt_` left out.
        settings: The spec as it takes it.
        compares: What rows are compared by, where there is such a thing: a kernel or random
            features, of bandwidth 1 (each model has its own).
        timed: Whether it takes event times.
        more: What else it takes, last.
        kept: What `laid_out` gave the addresses of.
    """

    name: str
    settings: Any
    compares: tuple[Any, ...] = ()
    timed: bool = False
    more: tuple[Any, ...] = ()
    kept: tuple[Any, ...] = ()

    def laid_out(self) -> Loop:
        """Return the loop with the bytes of what it takes, as they go to C."""
        settings = laid_out(self.settings)
        compares, more = (tuple(map(laid_out, part)) for part in (self.compares, self.more))
        return self._replace(settings=settings, compares=compares, more=more, kept=self[1:5])


def arguments_of(loop: Loop, words: IntArray, pieces: Pieces, out: Outputs) -> list[Any]:
    """Return what a loop is called with.

    Args:
        loop: The loop.
        words: (k, words) the pieces' models, as of `Block.words`.
        pieces: The rows; their times are there, or are none where the loop does not go by them.
        out: Room for the results of all n rows.
    """
    spans = words, pieces.starts, pieces.stops
    given = [loop.settings, *loop.compares, spans, pieces.rows, out]
    return [*given, pieces.times, *loop.more] if loop.timed else [*given, *loop.more]


def call_loop(loop: Loop, block: Block[Any], pieces: Pieces, out: Outputs, *more: Any) -> None:
    """Run rows of models; arguments as of `arguments_of`, `more` comes last of all."""
    words = block.words(pieces.models)
    call(loop.name, *arguments_of(loop, words, pieces, out), *more)
