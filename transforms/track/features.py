"""Features as chunks: what a tracker said of rows, beside where they came from."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerneltrack.trackers.common.features import Features
from transforms.chunks import Chunk, matrix_column
from transforms.track.segments import Alert

EXTRAS = ("q", "s")


def join_features(parts: Sequence[Features]) -> Features:
    """Join the features of rows that went through in several calls."""
    if len(parts) == 1:
        return parts[0]
    columns: dict[str, Any] = {}
    for field in dataclasses.fields(Features):
        values = [getattr(part, field.name) for part in parts]
        columns[field.name] = None if values[0] is None else np.concatenate(values)
    return Features(**columns)


def alert_chunk(alerts: Sequence[Alert]) -> Chunk:
    """Put alerts into a chunk: index, time (null without times), before, after."""
    index, times, before, after = zip(*alerts, strict=True)
    columns = {
        "index": pa.array(index, pa.int64()),
        "time": pa.array(times, pa.int64()),
        "before": pa.array(before, pa.float64()),
        "after": pa.array(after, pa.float64()),
    }
    return Chunk(pa.RecordBatch.from_pydict(columns))


def feature_chunk(rows: Chunk, features: Features, good: npt.NDArray[np.int64]) -> Chunk:
    """Put the features of a chunk's valid rows beside where the rows came from."""
    whole = len(good) == len(rows)
    source = rows if whole else rows.take(good)

    def part(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return values if whole else values[good]

    evicted = part(features.evicted)
    columns: dict[str, Any] = {"index": pa.array(part(features.index))}
    for name in ("time", "source", "row"):
        if source.has(name):
            columns[name] = source.batch.column(name)
    columns["loss"] = pa.array(part(features.loss))
    columns["novelty"] = pa.array(part(features.novelty))
    columns["informative"] = pa.array(part(features.informative))
    columns["evicted"] = pa.array(evicted, mask=evicted < 0)
    columns["initial"] = pa.array(part(features.initial))
    for name in ("z", *EXTRAS):
        values = getattr(features, name)
        if values is not None:
            columns[name] = matrix_column(part(values))
    if source.has("label"):
        columns["label"] = source.batch.column("label")
    return Chunk(pa.RecordBatch.from_pydict(columns))
