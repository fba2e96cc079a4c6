"""The periods of devices in a live job: each is said once a row of a later one has run.

See `kerneltrack.monitor.periods.running`; the rows are those that `SummarisePeriods` counts in a
job on files, in the same order. What is kept of them is an entry of the device's log, and the days
that are over a bag of their own: it is read, and written anew, when one more is over.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from apache_beam import pvalue

from kerneltrack.arrays import FloatArray
from kerneltrack.errors import ConfigError, DataError
from kerneltrack.fleet.forward_fill import LastValues, hold_last
from kerneltrack.monitor.periods.device import NUMBERS, DeviceNumbers
from kerneltrack.monitor.periods.running import RunningPeriods, Said
from kerneltrack.monitor.periods.spec import DAY, PeriodsSpec
from kerneltrack.monitor.periods.sums import SECOND
from kerneltrack.settings import check_int
from kerneltrack.time_units import nanoseconds
from kerneltrack.trackers.common.places import Places
from transforms.chunks import Chunk
from transforms.outputs import PERIODS
from transforms.track.log import ModelLog
from transforms.track.order import Order
from transforms.write.schemas import TIME

MOST_CHANNELS = 64
"""A period's sums are 72 D² bytes, 300 kB of so many; the work of a day grows with D³."""


def tell_periods(
    spec: PeriodsSpec, order: Order, key: str, log: ModelLog, rows: Chunk, last: bool = False
) -> Iterator[pvalue.TaggedOutput[str, tuple[str, Chunk]]]:
    """Count a device's rows, and yield what is said of the periods that end with them.

    Args:
        spec: What periods are compared with.
        order: How rows are put in order.
        key: The device's ID.
        log: What is kept of it; written to.
        rows: In order, those of one time merged or dropped; with times, if there are any.
        last: Whether no more rows come: the period that goes on is told, too.

    Raises:
        ConfigError: for rows without times, or with too many channels.
        DataError: for what is kept that is damaged.
    """
    if len(rows) and not rows.has("time"):
        raise ConfigError("time", None, "the event time of each row: periods need them")
    width = rows.column("x").shape[1]
    check_live_periods(order, width)
    own = _held(width).size if order.hold_for is not None else 0
    state = log.periods
    try:
        held = LastValues(**_held(width).arrays(state[:own])) if own and state else None
        running = RunningPeriods(spec, width, state[own:], log.days)
        if len(rows):
            x, held = filled(order, rows, held)
            running.add(rows.column("time"), x)
        for said in [*running.over(), *(running.last() if last else ())]:
            yield pvalue.TaggedOutput(PERIODS, (key, Chunk(_lines(said))))
    except ConfigError as error:
        raise DataError(f"periods of model {key!r}", f"damaged: {error}") from error
    before = b"" if held is None else b"".join(part.tobytes() for part in held)
    log.put_periods(before + running.encode(), running.past)


def filled(
    order: Order, rows: Chunk, last_values: LastValues | None
) -> tuple[FloatArray, LastValues | None]:
    """Return rows with missing values held, if that is asked for, and what is held after them."""
    x = rows.column("x").astype(np.float64)
    if order.hold_for is None:
        return x, None
    return hold_last(x, rows.column("time"), last_values, nanoseconds(order.hold_for))


def lines_of(numbers: DeviceNumbers) -> pa.RecordBatch:
    """Return the lines of a device's periods, but for its id: `periods_schema`."""
    start = numbers.period * DAY * SECOND
    width = numbers.values.shape[2]
    columns: dict[str, Any] = {
        "start": pa.array(start).cast(TIME),
        "end": pa.array(start + DAY * SECOND).cast(TIME),
        "rows": pa.array(numbers.rows),
    }
    for place, name in enumerate(NUMBERS):
        values = pa.array(np.ascontiguousarray(numbers.values[:, place]).ravel())
        columns[name] = pa.FixedSizeListArray.from_arrays(values, width)
    return pa.RecordBatch.from_pydict(columns)


def check_live_periods(order: Order, width: int) -> None:
    """Refuse what periods of rows that still come cannot be made of.

    Raises:
        ConfigError: for rows in order of arrival, or more channels than `MOST_CHANNELS`.
    """
    if order.max_disorder == 0:
        allowed = "above 0 with periods: rows are put in order of time"
        raise ConfigError("max_disorder", order.max_disorder, allowed)
    check_int("number of features", width, 1, MOST_CHANNELS)


@lru_cache(maxsize=8)
def _held(width: int) -> Places:
    return Places.of(LastValues.layout(width))


def _lines(said: Said) -> pa.RecordBatch:
    return lines_of(said.numbers).append_column("version", pa.array(said.version, pa.int64()))
