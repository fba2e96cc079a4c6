"""The list of a run's devices of which at most a stated share is false: made at its end."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.monitor.false_share import Watched, least_e_value
from kerneltrack.monitor.reference import ReferenceSpec
from kerneltrack.monitor.reference.spec import RECOVERED
from pipelines.files.incidents import ends_of_episodes
from pipelines.report.data.columns import array_of, model_numbers, times_of
from pipelines.report.data.files import parquet_files, read_batches, write_table
from transforms.outputs import FEATURES, LISTED
from transforms.write.schemas import LISTED_SCHEMA

_NEVER = np.iinfo(np.int64).max


class _Rows:
    """How much of each device was compared with its reference: rows, first and last time, ns."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.first_index, self.rows = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self.first, self.last = np.zeros(0, np.int64), np.zeros(0, np.int64)

    def add(self, models: IntArray, index: IntArray, compared: IntArray, times: IntArray) -> None:
        """Add rows of these models; `compared`: places of those that were; their `times`."""
        more = len(self.names) - len(self.rows)
        self.first_index = np.append(self.first_index, np.full(more, _NEVER))
        self.rows = np.append(self.rows, np.zeros(more, np.int64))
        self.first = np.append(self.first, np.full(more, _NEVER))
        self.last = np.append(self.last, np.full(more, -_NEVER))
        np.minimum.at(self.first_index, models, index)
        own = models[compared]
        self.rows += np.bincount(own, minlength=len(self.rows))
        np.minimum.at(self.first, own, times)
        np.maximum.at(self.last, own, times)


def find_listed(
    output: str, reference: ReferenceSpec | None, share: float | None
) -> dict[str, Any]:
    """Make the list of a run's devices, and write `output/listed/*.parquet`.

    Episodes count that opened in this run, without returns to what was normal before and those
    that rules mute.

    Args:
        output: The run's folder.
        reference: With what rows were compared.
        share: Of devices on the list that are false, at most, on average; None: nothing is asked.

    Returns:
        What the record says of it.

    Cost: O(rows) time, O(devices) memory.
    """
    if share is None or reference is None:
        return {}
    rows = _compared(output, timed=reference.span.rows is None)
    expected = _expected(rows, reference)
    episodes: Counter[str] = Counter()
    first, last = ends_of_episodes(output)
    for (name, number), line in first.items():
        is_new = line["detected_index"] >= rows.first_index[rows.names[name]]
        ended = last[name, number]
        if is_new and ended["kind"] != RECOVERED and ended.get("muted") is None:
            episodes[name] += 1
    watched = [
        Watched(name, episodes[name], float(expected[rows.names[name]]))
        for name in sorted(rows.names)
        if expected[rows.names[name]] > 0.0
    ]
    least = least_e_value(watched, share)
    lines = [
        {
            "model_id": each.device,
            "episodes": each.episodes,
            "expected": each.expected,
            "e_value": each.e_value,
            "listed": each.e_value >= least,
        }
        for each in watched
        if each.episodes
    ]
    write_table(output, LISTED, lines, LISTED_SCHEMA)
    about = {
        "share": share,
        "devices": len(watched),
        "off": len(lines),
        "listed": sum(each.e_value >= least for each in watched),
        "by_chance": float(sum(each.expected for each in watched)),
    }
    return {LISTED: about}


def _compared(output: str, timed: bool) -> _Rows:
    found = _Rows()
    names = ["model_id", "index", "p", *(["time"] if timed else [])]
    for batch in read_batches(parquet_files(output, FEATURES), names):
        models = model_numbers(batch, found.names)
        compared = np.flatnonzero(np.isfinite(array_of(batch, "p")))
        times = times_of(batch.column("time"))[compared] if timed else np.zeros_like(compared)
        found.add(models, array_of(batch, "index"), compared, times)
    return found


def _expected(rows: _Rows, reference: ReferenceSpec) -> FloatArray:
    """Return how many episodes each device has on average at most while it is well."""
    if reference.rate is not None:
        return np.asarray(rows.rows * reference.rate, np.float64)
    passed = np.where(rows.rows > 0, rows.last - rows.first, 0)
    return np.asarray(passed * (reference.false_alarms / (reference.span.time or 1)), np.float64)
