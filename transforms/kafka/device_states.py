"""What is known of each device as messages for a compacted topic: the last one of a key counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import apache_beam as beam
import msgspec
import pyarrow as pa

from kerneltrack.fleet.devices import GONE
from kerneltrack.monitor.likeness import named_channels
from transforms.chunks import Chunk
from transforms.kafka.encode import rows_of, to_json
from transforms.kafka.gather import Outgoing
from transforms.outputs import SILENT

_ENCODER = msgspec.json.Encoder()


class DeviceStatesFn(beam.DoFn):
    """Turn lines of `devices_schema` into messages: each a JSON object under the device's id.

    A device that is gone is a message without a value, which takes what was said of it out of a
    compacted topic. In place of the shares and deviations of all channels stand those of at
    most ten, by name, the largest shares first. Messages leave in the order of the lines. No state.

    Args:
        schema: `devices_schema`.
        channels: Names of the D channels.
    """

    def __init__(self, schema: pa.Schema, channels: Sequence[str]) -> None:
        self._schema = schema
        self._channels = tuple(channels)

    def process(self, element: tuple[str, Chunk]) -> Iterator[Outgoing]:
        """Yield a message for each line."""
        key, chunk = element
        encoded = key.encode("utf-8")
        if chunk.batch.column("state").to_pylist() == [GONE]:
            yield encoded, None, []
            return
        for line in msgspec.json.decode(to_json(rows_of([element], self._schema))):
            yield encoded, _ENCODER.encode(self._named(line)), []

    def _named(self, line: dict[str, Any]) -> dict[str, Any]:
        shares, deviations = line.pop("shares"), line.pop("deviations")
        if line["episode"] is None:
            return {**line, "channels": [] if line["kind"] == SILENT else None}
        return {**line, "channels": named_channels(shares, deviations, self._channels)}
