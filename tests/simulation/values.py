"""What simulated rows hold, and how entries travel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tests.simulation.history import EMPTY, GAP, LONG, WILD, Label, Row, Setup
from tests.unit.test_rounds import WIDTH
from transforms.chunks import Chunk, matrix_column

NAMES = ("still", "walk", "run")
EPISODES, LATER = (290, 350, 410), (1300, 1420, 1540)
"""Rows with which a device is off for a while, once its reference is made; in a `LONG` life."""
MOST = 4096
"""Rows of a device that have values of their own."""


@cache
def _table(seed: int, key: str, episodes: tuple[int, ...]) -> npt.NDArray[np.float64]:
    rng = np.random.default_rng([seed, *key.encode()])
    rows = rng.normal(size=(MOST, WIDTH)) + 3 * rng.normal(size=WIDTH)
    rows[150:] += rng.choice([0.0, 4.0])
    for start in episodes:
        rows[start : start + 30, 2] += 8.0
    return rows


def values(setup: Setup, row: Row) -> npt.NDArray[np.float64]:
    """Return a row's values, (D,)."""
    episodes = LATER if setup.companion == LONG else EPISODES
    found: npt.NDArray[np.float64] = _table(setup.seed, row.key, episodes)[row.row % MOST].copy()
    if row.kind == GAP:
        found[row.row % WIDTH] = np.nan
    elif row.kind == EMPTY:
        found[:] = np.nan
    elif row.kind == WILD:
        found[0] = 1e200
    return found


def chunk_of(setup: Setup, rows: Sequence[Row], labelled: bool) -> Chunk:
    """Return rows of one device as they travel; if they are labelled, one in five has no label."""
    x = np.array([values(setup, row) for row in rows])
    columns = {"time": pa.array([row.time for row in rows], pa.int64())}
    if setup.sequenced:
        columns["sequence"] = pa.array([row.sequence for row in rows], pa.int64())
    columns["source"] = pa.array([row.source for row in rows], pa.int32())
    columns["row"] = pa.array([row.row for row in rows], pa.int64())
    columns["x"] = matrix_column(x)
    if labelled:
        columns["label"] = pa.array(
            [None if row.row % 5 == 2 else NAMES[row.row * row.row % 3] for row in rows],
            pa.string(),
        )
    return Chunk(pa.RecordBatch.from_pydict(columns))


def labels_of(labels: Sequence[Label]) -> Iterator[Chunk]:
    """Return delayed labels as they travel: those that name rows in one way in a chunk."""
    for name in ("index", "time"):
        own = [label for label in labels if getattr(label, f"at_{name}") is not None]
        if own:
            columns = {
                name: pa.array([getattr(label, f"at_{name}") for label in own], pa.int64()),
                "source": pa.array([7] * len(own), pa.int32()),
                "row": pa.array([label.row for label in own], pa.int64()),
                "label": pa.array([NAMES[label.name] for label in own], pa.string()),
            }
            yield Chunk(pa.RecordBatch.from_pydict(columns))
