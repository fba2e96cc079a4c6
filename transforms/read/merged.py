"""What became of rows that are one row with others of their time."""

from __future__ import annotations

from typing import NamedTuple

from transforms.metrics import count


class Merged(NamedTuple):
    """Counts of rows that were merged.

    Attributes:
        rows: Rows that are part of the row before them.
        replaced: Values that a later row of the same time and channel took the place of.
        unnamed: Rows of metrics that are no channels.
    """

    rows: int = 0
    replaced: int = 0
    unnamed: int = 0

    def add_to_counters(self, counted_as: str = "rows") -> None:
        """Add to the job's counters; from within a DoFn, or a task that counts."""
        count(f"{counted_as}_merged", self.rows)
        count(f"{counted_as}_unnamed", self.unnamed)
        count("values_replaced", self.replaced)


NOTHING_MERGED = Merged()
