"""Drift alerts as the report shows them: a table of the first, counts, and marks in the curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.report.data.choice import Choice
from pipelines.report.data.files import column_names, parquet_files, plain_table, read_batches
from pipelines.report.text import natural
from transforms.outputs import ALERTS

COLUMNS = ("model_id", "index", "time", "before", "after")
"""The columns of `alerts/*.parquet` that the report reads; `time` may be absent."""

MOST_LISTED = 100
"""Alerts that the table lists, the earliest first."""

MOST_MARKS = 200
"""Alerts marked in the curve of a model, its first."""


@dataclass(frozen=True)
class AlertLine:
    """A change of a model's mean loss, raised at row `index`, `time` in ns if there are times."""

    model: str
    index: int
    time: int | None
    before: float
    after: float


@dataclass(frozen=True)
class AlertLines:
    """The alerts of a run.

    Attributes:
        counts: Number of alerts by model.
        first: The first 100, by time, row and model, or by row and model without times.
        marks: For each model drawn its first 200 by row.
    """

    counts: dict[str, int]
    first: list[AlertLine]
    marks: list[list[AlertLine]]

    def ranked(self) -> list[tuple[str, int]]:
        """Return how many alerts each model has, those with the most first."""
        return sorted(self.counts.items(), key=lambda item: (-item[1], natural(item[0])))


def alerts_of(output: str, choice: Choice) -> AlertLines | None:
    """Read the alerts of a run; None if there are none.

    Cost: O(alerts) time; memory O(models) and at most 200 alerts for each model drawn.
    """
    paths = parquet_files(output, ALERTS)
    names = [name for name in COLUMNS if name in column_names(paths)]
    order = [name for name in ("time", "index", "model_id") if name in names]
    counts: dict[str, int] = {}
    first: Any = None
    marks: dict[str, Any] = dict.fromkeys(choice.drawn)
    for batch in read_batches(paths, names):
        table = plain_table(batch)
        met = table["model_id"].value_counts().to_pylist()
        for name, count in ((entry["values"], entry["counts"]) for entry in met):
            counts[name] = counts.get(name, 0) + count
            if name in marks:
                own = table.filter(pc.equal(table["model_id"], name))
                marks[name] = _earliest(marks[name], own, ["index"], MOST_MARKS)
        first = _earliest(first, table, order, MOST_LISTED)
    if not counts:
        return None
    return AlertLines(counts, _alerts(first), [_alerts(marks[name]) for name in choice.drawn])


def _earliest(known: Any, table: Any, order: Sequence[str], most: int) -> Any:
    table = table if known is None else pa.concat_tables([known, table])
    return table.sort_by([(name, "ascending") for name in order]).slice(0, most)


def _alerts(table: Any) -> list[AlertLine]:
    rows = [] if table is None else table.to_pylist()
    return [
        AlertLine(
            row["model_id"],
            row["index"],
            row.get("time"),
            *(math.nan if row[name] is None else row[name] for name in ("before", "after")),
        )
        for row in rows
    ]
