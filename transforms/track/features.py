"""Features as chunks: what a tracker said of rows, beside where they came from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from apache_beam import pvalue

from kerneltrack.arrays import FloatArray
from kerneltrack.fleet.results import Alert
from kerneltrack.monitor.drift import Alerts
from kerneltrack.monitor.reference import WRITTEN, Episode, Scores
from kerneltrack.trackers.common.features import Features
from transforms.chunks import Chunk, known_matrix_column, matrix_column
from transforms.metrics import count
from transforms.outputs import ALERTS, EPISODES

EXTRAS = ("q", "s")


def episode_chunk(episodes: Sequence[Episode], has_time: bool) -> Chunk:
    """Put episodes into a chunk, columns as in `transforms.write.schemas.episodes_schema`."""
    columns: dict[str, Any] = {
        "index": pa.array([episode.row for episode in episodes], pa.int64()),
        "episode": pa.array([episode.number for episode in episodes], pa.int64()),
        "state": pa.array([e.state for e in episodes]),
        "kind": pa.array([episode.kind for episode in episodes]),
        "severity": pa.array([episode.severity for episode in episodes], pa.float64()),
        "p": pa.array([episode.peak for episode in episodes], pa.float64()),
        "muted": pa.array([episode.muted for episode in episodes], pa.string()),
    }
    for place, (name, row) in enumerate(
        (("start", "start"), ("detected", "opened"), ("time", "row"), ("last", "last"))
    ):
        if name != "time":
            indices = [getattr(episode, row) for episode in episodes]
            columns[f"{name}_index"] = pa.array(indices, pa.int64())
        stamps = [episode.times[place] if has_time else None for episode in episodes]
        columns[name] = pa.array(stamps, pa.int64())
    columns["shares"] = matrix_column(np.stack([episode.shares for episode in episodes]))
    deviations = np.stack([episode.deviations for episode in episodes])
    columns["deviations"] = known_matrix_column(deviations)
    return Chunk(pa.RecordBatch.from_pydict(columns))


def tell_episodes(
    key: str, episodes: Sequence[Episode], has_time: bool
) -> pvalue.TaggedOutput[str, tuple[str, Chunk]]:
    """Return a model's episodes as an output, those that were opened counted."""
    opened = [episode for episode in episodes if episode.row == episode.opened]
    count("episodes", len(opened))
    if muted := sum(episode.muted is not None for episode in opened):
        count("episodes_muted", muted)
    return pvalue.TaggedOutput(EPISODES, (key, episode_chunk(episodes, has_time)))


def alerts_of(raised: Alerts, first: int, times: Sequence[int | None]) -> list[Alert]:
    """Return what a drift detector of a block told of a model.

    Args:
        raised: The alerts, rows by their places among the model's in the block.
        first: Index of the first of these.
        times: Of each alert's row, ns; None without times.
    """
    index, levels = (first + raised.index).tolist(), (raised.before.tolist(), raised.after.tolist())
    return [Alert(*line) for line in zip(index, times, *levels, strict=True)]


def tell_alerts(key: str, alerts: Sequence[Alert]) -> pvalue.TaggedOutput[str, tuple[str, Chunk]]:
    """Return a model's alerts as an output, counted."""
    count("alerts", len(alerts))
    return pvalue.TaggedOutput(ALERTS, (key, alert_chunk(alerts)))


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


def reference_columns(scores: Scores | None, rows: int) -> dict[str, pa.Array]:
    """Return what a reference says of rows as columns, null where it says nothing or is none."""
    if scores is None:
        return {name: pa.nulls(rows, pa.float64()) for name in WRITTEN}
    written = scores.written
    return {name: pa.array(values, mask=np.isnan(values)) for name, values in written.items()}


def feature_chunk(
    rows: Chunk,
    features: Features,
    good: npt.NDArray[np.int64],
    has_reference: bool = False,
    scores: Scores | None = None,
    own: FloatArray | None = None,
) -> Chunk:
    """Put the features of a chunk's valid rows beside where they came from.

    Args:
        rows: The chunk.
        features: What the tracker says of its rows.
        good: Places of the valid ones.
        has_reference: Whether rows are held against references.
        scores: What the model's reference says of the valid rows; None if it has none.
        own: The valid rows as learners take them, if they are asked for.
    """
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
    if has_reference:
        columns |= reference_columns(scores, len(good))
    columns["informative"] = pa.array(part(features.informative))
    columns["evicted"] = pa.array(evicted, mask=evicted < 0)
    columns["initial"] = pa.array(part(features.initial))
    for name in ("z", *EXTRAS):
        values = getattr(features, name)
        if values is not None:
            columns[name] = matrix_column(part(values))
    if own is not None:
        columns["x"] = matrix_column(own)
    if source.has("label"):
        columns["label"] = source.batch.column("label")
    return Chunk(pa.RecordBatch.from_pydict(columns))
