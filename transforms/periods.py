"""The periods of devices: what their rows come to, day by day, in Beam and not.

See `kerneltrack.monitor.periods`. A device's periods depend on its rows in order of time and on
the spec alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindows

from kerneltrack.errors import ConfigError
from kerneltrack.fleet.forward_fill import LastValues
from kerneltrack.monitor.periods.device import numbers_of
from kerneltrack.monitor.periods.spec import DAY, PeriodsSpec
from kerneltrack.monitor.periods.sums import DeviceSums
from kerneltrack.settings import check_int
from transforms.chunks import Chunk
from transforms.metrics import counting
from transforms.track.clock import without_duplicates
from transforms.track.merge import spread_times
from transforms.track.order import KEEP, Order
from transforms.track.periods import MOST_CHANNELS, filled, lines_of


class PeriodRows:
    """The periods of one device in the making.

    Args:
        spec: What periods are compared with.
        order: How rows are put in order: what becomes of those of one time, how long values are
            held. It waits for the end.
        width: Channels D.
    """

    def __init__(self, spec: PeriodsSpec, order: Order, width: int) -> None:
        self._spec, self._order = spec, order
        self._sums = DeviceSums(width, DAY)
        self._last_values: LastValues | None = None
        self._waiting: Chunk | None = None

    def add(self, rows: Chunk) -> None:
        """Count rows, in order of time."""
        if self._order.duplicates == KEEP:
            self._count(rows)
            return
        # Rows of the newest time wait: more of that time may follow.
        known = rows if self._waiting is None else Chunk.concat([self._waiting, rows])
        times = known.column("time")
        last = int(np.searchsorted(times, times[-1])) if len(times) else 0
        self._count(known.slice(0, last))
        self._waiting = known.slice(last, len(known))

    def batch(self) -> pa.RecordBatch:
        """Return the lines of the device's periods, but for its id: `periods_schema`."""
        if self._waiting is not None:
            self._count(self._waiting)
            self._waiting = None
        return lines_of(numbers_of(self._spec, self._sums))

    def _count(self, rows: Chunk) -> None:
        if not len(rows):
            return
        with counting():
            # The tracker's step counts what is merged or dropped.
            if rows.has("channel"):
                rows = spread_times(rows, self._sums.width)
            else:
                rows, _ = without_duplicates(self._order, rows, np.zeros(len(rows), np.int64))
        x, self._last_values = filled(self._order, rows, self._last_values)
        self._sums.add(rows.column("time"), x)


class SummarisePeriods(beam.PTransform[Any, Any]):
    """Turn the rows of devices into their periods.

    Input: `tuple[str, Chunk]`, rows keyed by model ID, bounded, in any order, in the global window
    (other windowing is replaced by it), with times. Output: `tuple[str, Chunk]`, a chunk a device,
    of the lines of `periods_schema` without the id. Rows that are not finite are left out; those
    of one time are merged or dropped as the order says. State: none; a worker holds the rows of
    one device in memory.

    Args:
        spec: What periods are compared with.
        order: How rows are put in order; it waits for the end.
        width: Channels D, 1 to 64.

    Raises:
        ConfigError: for an order that does not wait, or too many channels.
    """

    def __init__(self, spec: PeriodsSpec, order: Order, width: int) -> None:
        super().__init__()
        check_periods(order, width)
        self._device = partial(PeriodRows, spec, order, width)

    def expand(self, rows: Any) -> Any:
        """Apply the transform."""
        return (
            rows
            | "GlobalWindow" >> beam.WindowInto(GlobalWindows())
            | "Group" >> beam.GroupByKey()
            | "Summarise"
            >> beam.Map(_summarised, self._device).with_output_types(tuple[str, Chunk])
        )


def _summarised(
    element: tuple[str, Iterable[Chunk]], begin: Callable[[], PeriodRows]
) -> tuple[str, Chunk]:
    key, chunks = element
    device = begin()
    device.add(Chunk.concat(list(chunks)).in_order())
    return key, Chunk(device.batch())


def check_periods(order: Order, width: int) -> None:
    """Refuse what periods cannot be made of.

    Raises:
        ConfigError: for an order that does not wait for the end or refuses rows by their time, or
            more channels than `MOST_CHANNELS`.
    """
    if not order.waits_for_end:
        allowed = "left out with periods: all rows of a device are put in order"
        raise ConfigError("max_disorder", order.max_disorder, allowed)
    if order.confirms:
        raise ConfigError("max_jump", order.max_jump, "left out with periods")
    check_int("number of features", width, 1, MOST_CHANNELS)
