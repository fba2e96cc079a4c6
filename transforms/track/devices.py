"""What is known of a device, as an output of the step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from apache_beam import pvalue

from kerneltrack.fleet.devices import Device, new_device
from kerneltrack.fleet.model import Model, Work
from transforms.chunks import Chunk, known_matrix_column, matrix_column
from transforms.outputs import DEVICES, SILENT


def tell(
    work: Work, key: str, model: Model, devices: Sequence[Device]
) -> Iterator[pvalue.TaggedOutput[str, Any]]:
    """Say what is known of a device, if that is asked for."""
    if work.devices and devices:
        chunk = device_chunk(devices, len(model.state.shift))
        yield pvalue.TaggedOutput(DEVICES, (key, chunk))


def tell_new(
    work: Work, key: str, model: Model, rows: Chunk
) -> Iterator[pvalue.TaggedOutput[str, Any]]:
    """Say that a model begins with the first of these rows."""
    if work.devices:
        time = int(rows.column("time")[0]) if rows.has("time") else None
        yield from tell(work, key, model, [new_device(work, key, model, time)])


def device_chunk(devices: Sequence[Device], width: int) -> Chunk:
    """Put lines into a chunk, columns as in `transforms.write.schemas.devices_schema`.

    Args:
        devices: The lines.
        width: Number of channels D.
    """
    episodes = [each.episode for each in devices]
    timed = [each.time is not None for each in devices]

    def of(name: str) -> list[object]:
        return [None if episode is None else getattr(episode, name) for episode in episodes]

    def times(place: int) -> list[int | None]:
        return [
            episode.times[place] if episode is not None and known else None
            for episode, known in zip(episodes, timed, strict=True)
        ]

    columns = {
        "state": pa.array([each.state for each in devices]),
        "rows": pa.array([each.rows for each in devices], pa.int64()),
        "time": pa.array([each.time for each in devices], pa.int64()),
        "since_index": pa.array([each.since for each in devices], pa.int64()),
        "since": pa.array([each.since_time for each in devices], pa.int64()),
        "episodes": pa.array([each.episodes for each in devices], pa.int64()),
        "episode": pa.array(of("number"), pa.int64()),
        "kind": pa.array(
            [
                SILENT if each.silent else kind
                for each, kind in zip(devices, of("kind"), strict=True)
            ],
            pa.string(),
        ),
        "severity": pa.array(of("severity"), pa.float64()),
        "p": pa.array(of("peak"), pa.float64()),
        "start_index": pa.array(of("start"), pa.int64()),
        "start": pa.array(times(0), pa.int64()),
        "detected_index": pa.array(of("opened"), pa.int64()),
        "detected": pa.array(times(1), pa.int64()),
        "last_index": pa.array(of("last"), pa.int64()),
        "last": pa.array(times(3), pa.int64()),
        "muted": pa.array(of("muted"), pa.string()),
        "shares": matrix_column(
            np.stack([np.zeros(width) if each is None else each.shares for each in episodes])
        ),
        "deviations": known_matrix_column(
            np.stack([np.full(width, np.nan) if e is None else e.deviations for e in episodes])
        ),
    }
    return Chunk(pa.RecordBatch.from_pydict(columns))
