"""Features of drawn models in two dimensions: a sample on the coordinates that vary most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa

from kerneltrack.arrays import BoolArray, FloatArray, IntArray
from pipelines.report.data.episodes import Band
from pipelines.report.data.labels import NO_LABEL
from pipelines.report.data.picked import picked_rows
from pipelines.report.data.totals import Totals

MOST_EVEN = 300
"""Rows of a model's sample that are spread evenly over it."""
MOST_WITHIN = 100
"""Rows of its episodes that are added, from the first of each."""
_EACH = 25
_LEAST = 3


@dataclass(frozen=True)
class Plane:
    """A sample of a model's features.

    Attributes:
        name: Of the features, "z" or "q".
        axes: Which two coordinates, from 0, that which varies most first.
        x, y: Their values, shape (n,), by the model's rows.
        row: Index of each row.
        within: Whether it lies within an episode.
        label: Code of each row's label, `NO_LABEL` where there is none.
        shares: Which share of the sample's variance lies along each axis.
    """

    name: str
    axes: tuple[int, int]
    x: FloatArray
    y: FloatArray
    row: IntArray
    within: BoolArray
    label: IntArray
    shares: tuple[float, float]


def planes_of(
    paths: Sequence[str],
    fields: pa.Schema,
    totals: Totals,
    lengths: Mapping[str, int],
    bands: Mapping[str, Sequence[Band]],
) -> dict[str, Plane]:
    """Sample the features of some models.

    Args:
        paths: The files of the features.
        fields: Their schema.
        totals: What the first pass found.
        lengths: The models, and the index after the last row of each.
        bands: Their episodes.

    Returns:
        The planes by model; a model whose features vary along one coordinate at most has none.

    Cost: O(rows) time, O(models) memory.
    """
    name = next((name for name in ("z", "q") if name in fields.names), None)
    if name is None or not lengths:
        return {}
    width = fields.field(name).type.list_size
    labelled = "label" in fields.names and not totals.labels.is_target
    wanted = {model: _sample(n, bands.get(model, ())) for model, n in lengths.items()}
    columns = [name, *(["label"] if labelled else [])]
    found = picked_rows(paths, columns, wanted, width)
    planes = {
        model: _plane(name, table, bands.get(model, ()), totals if labelled else None)
        for model, table in found.items()
    }
    return {model: plane for model, plane in planes.items() if plane is not None}


def _sample(length: int, bands: Sequence[Band]) -> IntArray:
    """Return the indices of a model's sample, in order."""
    even = np.arange(0, length, -(-length // MOST_EVEN) or 1)
    within = [np.arange(b.rows[0], min(b.rows[1] + 1, b.rows[0] + _EACH)) for b in bands]
    some = np.concatenate([np.zeros(0, np.int64), *within])[:MOST_WITHIN]
    return cast(IntArray, np.union1d(even, some))


def _plane(
    name: str, table: pa.Table, bands: Sequence[Band], totals: Totals | None
) -> Plane | None:
    column = table.column(name).combine_chunks()
    z = column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), -1)
    index = table.column("index").to_numpy()
    kept = np.isfinite(z).all(axis=1)
    z, index = z[kept], index[kept]
    if len(z) < _LEAST or z.shape[1] < 2:
        return None
    # Features are scaled by their largest first: the square of a large one may overflow.
    top = np.abs(z).max()
    spread = (z / (top or 1.0)).var(axis=0)
    first, second = (int(axis) for axis in np.argsort(-spread, kind="stable")[:2])
    if spread[second] == 0:
        return None
    label = np.full(len(z), NO_LABEL)
    if totals is not None:
        label = totals.labels.encode(table.column("label").combine_chunks())[kept]
    within = np.zeros(len(z), dtype=bool)
    for band in bands:
        within |= (band.rows[0] <= index) & (index <= band.rows[1])
    shares = spread[[first, second]] / spread.sum()
    return Plane(
        name,
        (first, second),
        z[:, first],
        z[:, second],
        index,
        within,
        label,
        (float(shares[0]), float(shares[1])),
    )
