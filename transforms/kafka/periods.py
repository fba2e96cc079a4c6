"""Periods of devices as messages for a compacted topic: the last one of a device and period counts.

A message says all that the verdict over a fleet is made of (`kerneltrack.monitor.periods.fleet`),
so whoever reads the topic needs nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import apache_beam as beam
import msgspec
import pyarrow as pa

from kerneltrack.monitor.periods.spec import PeriodsSpec
from transforms.chunks import Chunk
from transforms.kafka.encode import rows_of, to_json
from transforms.kafka.gather import Outgoing

_ENCODER = msgspec.json.Encoder()


class PeriodsFn(beam.DoFn):
    """Turn lines of `periods_schema` into messages: each a JSON object, by device and start.

    With the line stand the names of the channels and the settings. Messages leave in the order of
    the lines. No state.

    Args:
        schema: `periods_schema`.
        channels: Names of the D channels.
        spec: What periods were compared with.
    """

    def __init__(self, schema: pa.Schema, channels: Sequence[str], spec: PeriodsSpec) -> None:
        self._schema = schema
        self._more: dict[str, Any] = {"channels": [*channels], "settings": spec.to_dict()}

    def process(self, element: tuple[str, Chunk]) -> Iterator[Outgoing]:
        """Yield a message for each line."""
        for line in msgspec.json.decode(to_json(rows_of([element], self._schema))):
            key = f"{line['model_id']} {line['start']}"
            yield key.encode("utf-8"), _ENCODER.encode({**line, **self._more}), []
