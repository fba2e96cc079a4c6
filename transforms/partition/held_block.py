"""The rows of models that begin, held against the references that they make (see `blocks`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack import codec
from kerneltrack.monitor.reference import CALIBRATED, Episode, ReferenceSpec
from kerneltrack.monitor.reference import block as references

IntArray = npt.NDArray[np.int64]


class HeldBlock(NamedTuple):
    """What the references of m models came to.

    Attributes:
        watched: What they say of the rows.
        open: Episodes that are open after them, by the place of their model.
        ready: (m,) which references are made.
        columns: Their arrays by name, as snapshots have them, (m, ...).
    """

    watched: references.Watched
    open: dict[int, Episode]
    ready: npt.NDArray[np.bool_]
    columns: dict[str, npt.NDArray[Any]]

    def told(self, model: int) -> list[Episode]:
        """Return what is told of a model's episodes: of one that is open, also at the end."""
        last = self.open.get(model)
        return self.watched.told[model] + ([] if last is None else [last])


def hold_block(
    spec: ReferenceSpec,
    rows: npt.NDArray[np.float64],
    starts: IntArray,
    stops: IntArray,
    times: IntArray,
    first: int,
) -> HeldBlock:
    """Let m models begin references, and hold their rows against these.

    Args:
        spec: The spec; it goes by rows.
        rows: (n, D), finite; a model's follow one another.
        starts: (m,) place of each model's first row.
        stops: (m,) place after its last.
        times: (n,) ns.
        first: Rows that a reference's scale is taken from, at most.
    """
    width = rows.shape[1]
    blocks = references.begin(spec, rows, starts, np.minimum(stops, starts + first))
    watched = references.go_on(spec, blocks, rows, starts, stops, times)
    columns = references.columns_of(spec, width, blocks)
    # The codec knows whole numbers and reals.
    written = {**columns, "good": columns["good"].astype(np.int64)}
    return HeldBlock(
        watched,
        references.open_episodes(spec, width, blocks),
        columns["counts"][:, CALIBRATED] > 0,
        {f"{codec.BESIDE}reference.{name}": column for name, column in written.items()},
    )
