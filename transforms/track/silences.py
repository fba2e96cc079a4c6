"""What is said of devices that send nothing, as lines of the episodes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from apache_beam import pvalue

from kerneltrack.time_units import nanoseconds
from transforms.chunks import Chunk, known_matrix_column, matrix_column
from transforms.keyed.silence import NO_TIME, Heard
from transforms.metrics import count
from transforms.outputs import EPISODES, SILENT


def silence_begins(
    key: str, heard: Heard, allowed: float, width: int
) -> pvalue.TaggedOutput[str, tuple[str, Chunk]]:
    """Return the line of a device that has been silent for so many seconds, counted.

    Args:
        key: The device's ID.
        heard: What is kept of it; it is silent.
        allowed: How long it may be.
        width: Number of channels D.
    """
    count("episodes", 1)
    noticed = None if heard.since == NO_TIME else heard.since + nanoseconds(allowed)
    return _line(key, heard, "open", heard.rows - 1, noticed, width)


def silence_ends(
    key: str, heard: Heard, first: int | None, width: int
) -> pvalue.TaggedOutput[str, tuple[str, Chunk]]:
    """Return the line of a device whose rows come again, the first of this time, ns."""
    return _line(key, heard, "closed", heard.rows, first, width)


def _line(
    key: str, heard: Heard, state: str, index: int, time: int | None, width: int
) -> pvalue.TaggedOutput[str, tuple[str, Chunk]]:
    """Return a line of `transforms.write.schemas.episodes_schema`, without number and severity."""
    since = None if heard.since == NO_TIME else heard.since
    columns = {
        "index": pa.array([index], pa.int64()),
        "time": pa.array([time], pa.int64()),
        "episode": pa.nulls(1, pa.int64()),
        "state": pa.array([state]),
        "kind": pa.array([SILENT]),
        "severity": pa.nulls(1, pa.float64()),
        "p": pa.nulls(1, pa.float64()),
        "muted": pa.nulls(1, pa.string()),
    }
    for name in ("start", "detected", "last"):
        columns[f"{name}_index"] = pa.array([heard.rows - 1], pa.int64())
        columns[name] = pa.array([since], pa.int64())
    columns["shares"] = matrix_column(np.zeros((1, width)))
    columns["deviations"] = known_matrix_column(np.full((1, width), np.nan))
    return pvalue.TaggedOutput(EPISODES, (key, Chunk(pa.RecordBatch.from_pydict(columns))))
