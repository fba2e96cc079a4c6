"""Which devices of a run sent nothing for longer than allowed: found at its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kerneltrack.errors import printable
from kerneltrack.monitor.silences import Silence, allowed_time, silences_of
from kerneltrack.paths import join
from pipelines.report.clock import clock_of
from pipelines.report.data.columns import model_numbers, times_of
from pipelines.report.data.files import parquet_files, read_batches, write_table
from pipelines.report.data.silent import OPEN, silent_of
from pipelines.report.text import MOST_NAMED, and_more, counted, span
from transforms.outputs import FEATURES, SILENT
from transforms.write.schemas import SILENT_SCHEMA

FLAG = "--silent-after"


def find_silent(output: str, after: str | None) -> dict[str, Any]:
    """Find the silences of a run's devices, and write `output/silent/*.parquet`.

    Args:
        output: The run's folder, with features that have times.
        after: Time without a row that is allowed, or "auto"; None: nothing is asked for.

    Returns:
        What the record says of it.

    Cost: as of `silences_of`.
    """
    if after is None:
        return {}
    names: dict[str, int] = {}
    models, times = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for batch in read_batches(parquet_files(output, FEATURES), ["model_id", "time"]):
        models.append(model_numbers(batch, names))
        times.append(times_of(batch.column("time")))
    allowed = allowed_time(FLAG, after)
    found = silences_of(np.concatenate(models), np.concatenate(times), allowed)
    _write(output, found, list(names))
    return {
        SILENT: {
            "after": after,
            "devices": len(names),
            "silent": len({each.model for each in found}),
            "still": sum(each.end is None for each in found),
            "silences": len(found),
        }
    }


def _write(output: str, found: list[Silence], names: list[str]) -> None:
    lines = [
        {
            "model_id": names[each.model],
            "kind": SILENT,
            "state": OPEN if each.end is None else "closed",
            "start": each.start,
            "end": each.end,
            "allowed": each.allowed,
        }
        for each in found
    ]
    lines.sort(key=lambda line: (line["model_id"], line["start"]))
    write_table(output, SILENT, lines, SILENT_SCHEMA)


def silent_lines(output: str, run: Mapping[str, Any]) -> list[str]:
    """Return what the end of a job says of devices that were silent."""
    found = silent_of(output, run)
    if found is None:
        return []
    still = [each for each in found.devices if each.until is None]
    was = len(found.devices) - len(still)
    before = f"; {counted(was, 'more device')} had silences that are over" if was else ""
    if not still:
        before = f"; {counted(was, 'device')} had silences that are over" if was else ""
        return [f"silent: none of {counted(found.of, 'device')} at the end{before}"]
    lines = [f"silent: {len(still):,} of {counted(found.of, 'device')} at the end{before}:"]
    clock = clock_of(run)
    lines += [
        f"  {printable(each.model)}: no row since {clock.named(each.since)} "
        f"(allowed: {span(each.allowed)})"
        for each in still[:MOST_NAMED]
    ]
    return lines + and_more(len(still), join(output, SILENT))
