"""From when to when a job's rows are, which are far from the others, and which share a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kerneltrack.arrays import IntArray
from kerneltrack.errors import fit
from kerneltrack.snapshots.files import opened
from pipelines.report.clock import clock_of, ns_of
from pipelines.report.data.columns import times_of
from pipelines.report.data.files import parquet_files
from pipelines.report.text import counted, moment

KEY = "time_span"
_BATCH = 1 << 20
_APART = 3
"""Years without a row that part the rows of a wrong clock from the others."""
_MANY = 10
"""So many rows of one model at one time are a warning: a time, or a model's name, is not whole."""
_MOST_PARTS = 3
_NAME = 80


@dataclass
class _Shared:
    """Rows of a model that come at one time, in the order of the output.

    Attributes:
        rows: Rows that are not the only ones of their model and time.
        most: Rows of one model and time at most, and which these are.
    """

    rows: int = 0
    most: tuple[int, str, int] = (1, "", 0)

    def add(self, times: IntArray, models: pa.Array) -> None:
        """Add rows of which some share their time with the row before."""
        same = pc.equal(models.slice(1), models.slice(0, len(models) - 1))
        same = same.to_numpy(zero_copy_only=False) & (times[1:] == times[:-1])
        starts = np.flatnonzero(np.concatenate([[True], ~same]))
        sizes = np.diff(np.append(starts, len(times)))
        self.rows += int(sizes[sizes > 1].sum())
        at = int(np.argmax(sizes))
        if sizes[at] > self.most[0]:
            self.most = int(sizes[at]), models[int(starts[at])].as_py(), int(times[starts[at]])


def time_span(output: str, part: str) -> dict[str, Any]:
    """Return what the record says of the times of the rows that came out; nothing without times.

    Times are read, models' names only where times come twice. Cost: O(n).

    Args:
        output: The run's folder.
        part: The folder of the rows, in which those of a model stand in their order.
    """
    years, shared = Counter[int](), _Shared()
    first, last = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    for path in parquet_files(output, part):
        with opened(path) as handle:
            file = pq.ParquetFile(handle)
            if "time" not in file.schema_arrow.names:
                return {}
            for group in range(file.num_row_groups):
                for batch in file.iter_batches(_BATCH, [group], ["time"]):
                    times = times_of(batch.column("time"))
                    first, last = min(first, int(times.min())), max(last, int(times.max()))
                    _count_years(times, years)
                if (times[1:] == times[:-1]).any():
                    named = file.read_row_group(group, ["model_id", "time"]).combine_chunks()
                    for batch in named.to_batches():
                        shared.add(times_of(batch.column("time")), batch.column("model_id"))
    if not years:
        return {}
    far = [{"first": low, "last": high, "rows": rows} for low, high, rows in _far(years)]
    span: dict[str, Any] = {"first": moment(first), "last": moment(last), "far": far}
    if shared.rows:
        most, name, time = shared.most
        span |= {"shared": shared.rows, "most": most, "model": name, "time": moment(time)}
    return {KEY: span}


def _count_years(times: IntArray, years: Counter[int]) -> None:
    low, high = _years_of(np.array([times.min(), times.max()])).tolist()
    if low == high:
        years[low] += len(times)
        return
    for year, rows in enumerate(np.bincount(_years_of(times) - low).tolist(), low):
        if rows:
            years[year] += rows


def _years_of(times: IntArray) -> IntArray:
    years: IntArray = times.astype("M8[ns]").astype("M8[Y]").astype(np.int64)
    return years + 1970


def _far(years: Counter[int]) -> list[tuple[int, int, int]]:
    """Return first year, last year and rows of what is apart from the part with most rows."""
    parts: list[tuple[int, int, int]] = []
    for year in sorted(years):
        if parts and year - parts[-1][1] <= _APART:
            parts[-1] = parts[-1][0], year, parts[-1][2] + years[year]
        else:
            parts.append((year, year, years[year]))
    parts.sort(key=lambda part: part[2], reverse=True)
    return sorted(parts[1:])


def span_lines(record: Mapping[str, Any], sequence: str | None) -> list[str]:
    """Return from when to when rows are, and how many share their model's time.

    Args:
        record: The run's, with what `time_span` found.
        sequence: Column that puts rows of one time in order.
    """
    span = record.get(KEY)
    if span is None:
        return []
    clock = clock_of(record)
    first, last = (clock.moment(ns_of(span[end])) for end in ("first", "last"))
    line = f"times:    {first} to {last} {clock.zone}"
    if "shared" in span and sequence is None and span["most"] < _MANY:
        line += f"; {span['shared']:,} rows share a time with another of their device"
    return [line]


def span_warnings(span: Mapping[str, Any], sequence: str | None) -> list[str]:
    """Return what is odd about the times; arguments as of `span_lines`, and what was found."""
    lines = []
    found = span.get(KEY, {})
    far = found.get("far", [])
    if far:
        named = [f"{counted(part['rows'], 'row')} of {_years(part)}" for part in far[:_MOST_PARTS]]
        more = f" and {len(far) - _MOST_PARTS} more stretches" if len(far) > _MOST_PARTS else ""
        lines.append(
            f"{', '.join(named)}{more}: years apart from all other rows (a wrong clock? or times "
            "of another unit or format?)"
        )
    if found.get("most", 1) >= _MANY and sequence is None:
        lines.append(
            f"{found['most']:,} rows of one device ({fit(found['model'], _NAME)}) at one time, "
            f"{found['time']} UTC; {found['shared']:,} rows in all share a time (is the time "
            "of day in another column, --time DATE TIME? are they of several devices, --model-id? "
            "--sequence COLUMN puts them in order)"
        )
    return lines


def _years(part: Mapping[str, Any]) -> str:
    return "-".join(map(str, dict.fromkeys((part["first"], part["last"]))))
