"""Which devices of a run differ, by period, from their own past and from the fleet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerneltrack.errors import printable
from kerneltrack.monitor.periods.device import NUMBERS, DeviceNumbers
from kerneltrack.monitor.periods.fleet import verdict
from kerneltrack.monitor.periods.spec import DAY, PeriodsSpec
from kerneltrack.paths import join
from pipelines.report.data.differences import (
    Difference,
    cause_text,
    differences_of,
    lines_of_spells,
)
from pipelines.report.data.files import read_tables, write_table
from pipelines.report.text import MOST_NAMED, and_more, counted
from transforms.outputs import DIFFERENCES, PERIODS
from transforms.write.schemas import DIFFERENCES_SCHEMA

SECOND = 1_000_000_000


def find_differences(
    output: str, spec: PeriodsSpec, channels: tuple[str, ...], groups: Mapping[str, str] | None
) -> dict[str, Any]:
    """Compare the devices of a run by their periods, and write `output/differences/*.parquet`.

    Args:
        output: The run's folder, with `periods/`.
        spec: The spec that these were made with.
        channels: Names of the channels.
        groups: Of each device, or of some; None: all are one.

    Returns:
        What the record says of it.

    Cost: as of `verdict`, with memory for all numbers: 24 bytes a channel, device and period.
    """
    devices = [
        (name, None if groups is None else groups.get(name, ""), numbers)
        for name, numbers in _read(output, len(channels))
    ]
    spells = verdict(spec, devices)
    write_table(output, DIFFERENCES, lines_of_spells(spells, channels), DIFFERENCES_SCHEMA)
    differ = {spell.model for spell in spells if spell.model is not None}
    judged = [name for name, _, each in devices if np.isfinite(each.values).any()]
    return {
        DIFFERENCES: {
            "devices": len(devices),
            "judged": len(judged),
            "differ": len(differ),
            "spells": sum(spell.model is not None for spell in spells),
            "common": sum(spell.model is None for spell in spells),
            "groups": None if groups is None else len({group for _, group, _ in devices}),
        }
    }


def _read(output: str, width: int) -> Iterator[tuple[str, DeviceNumbers]]:
    """Yield each device with the numbers of its periods: its lines lie together."""
    for table in read_tables(output, PERIODS):
        coded = table["model_id"].combine_chunks().dictionary_encode()
        codes, names = coded.indices.to_numpy(), coded.dictionary.to_pylist()
        start = table["start"].cast(pa.int64()).to_numpy() // SECOND // DAY
        rows = table["rows"].to_numpy()
        values = np.stack([_matrix(table[name], width) for name in NUMBERS], axis=1)
        edges = np.flatnonzero(np.diff(codes, prepend=-1)).tolist()
        for begin, end in zip(edges, [*edges[1:], len(codes)], strict=True):
            part = slice(begin, end)
            yield names[codes[begin]], DeviceNumbers(start[part], rows[part], values[part])


def _matrix(column: pa.ChunkedArray, width: int) -> npt.NDArray[np.float64]:
    return np.asarray(column.combine_chunks().flatten().to_numpy().reshape(-1, width))


def difference_lines(output: str, run: Mapping[str, Any]) -> list[str]:
    """Return what the end of a job says of the devices that differ, and of common causes."""
    found = differences_of(output, run)
    if found is None:
        return []
    if not found.judged:
        first = run["periods"]["first"]
        return [f"by {found.length}: no device has {first} days to be compared with"]
    lines = [_head(found.length, found.total, found.still, found.judged)]
    lines += [
        f"  {printable(each.model or '')}: {_when(each)}" for each in found.devices[:MOST_NAMED]
    ]
    lines += and_more(found.total, join(output, DIFFERENCES))
    lines += [f"common cause: {cause_text(each)}" for each in found.common[:MOST_NAMED]]
    return lines + and_more(len(found.common), join(output, DIFFERENCES))


def _head(length: str, total: int, still: int, judged: int) -> str:
    devices = counted(judged, "device")
    if not total:
        return f"by {length}: none of {devices} differs from its own past and the fleet"
    end = f", {still:,} to the end" if still else ""
    differ = "differs from its" if total == 1 else "differ from their"
    return f"by {length}: {total:,} of {devices} {differ} own past and the fleet{end}:"


def _when(each: Difference) -> str:
    until = "" if each.open else f" until {each.until}"
    return f"since {each.since}{until}, {each.what}"
