"""Rows that have come out of a live job, and those that are to come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.topics.read_output import Once, OutputReader
from tests.e2e.clusters import wait_for

SECOND = 1_000_000_000
LOOK = 0.7
"""Seconds without a row after which a topic has been read to its end for now."""

Key = tuple[str, int]


@dataclass
class Collected:
    """Rows of features, each once, also from a topic that was deleted since.

    Args:
        client: Settings of Kafka's clients.
        topic: The topic.
        form: How messages are written.
    """

    client: dict[str, Any]
    topic: str
    form: str
    once: Once = field(default_factory=Once)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def look(self) -> int:
        """Read all that is there; returns the number of rows so far."""
        reader = OutputReader(self.client, self.topic, self.form)
        while rows := reader.rows(LOOK):
            self.rows += [row for row in rows if self.once.is_new(row)]
        reader.close()
        assert self.once.conflicts == 0
        return len(self.rows)

    def until(self, wanted: set[Key]) -> None:
        """Read the topic from its beginning until all wanted rows are there."""

        def look() -> bool:
            self.look()
            return wanted <= {(row["model_id"], row["index"]) for row in self.rows}

        wait_for("the rows", look)

    @property
    def table(self) -> pa.Table:
        table = pa.Table.from_pylist(self.rows)
        return table.sort_by([("model_id", "ascending"), ("index", "ascending")])


def released(portions: Sequence[Path]) -> set[Key]:
    """The rows that come out of portions: those more than a second behind their model's newest."""
    table = pa.concat_tables([pq.read_table(path) for path in portions])
    found: set[Key] = set()
    for name in table.column("model_id").unique().to_pylist():
        of_model = table.filter(pa.compute.equal(table.column("model_id"), name))
        times = of_model.column("time").cast(pa.timestamp("ns")).cast(pa.int64()).to_numpy()
        found |= {(name, index) for index in range(int((times < times.max() - SECOND).sum()))}
    return found
