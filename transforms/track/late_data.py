"""Rows that came too late, as failures."""

from __future__ import annotations

from transforms.chunks import Chunk
from transforms.failures import Failures

LATE = "late: further behind the model's newest row than max_disorder"


def late_as_failures(element: tuple[str, Chunk]) -> Failures:
    """Return why late rows are refused."""
    key, chunk = element
    return Failures.of(key, chunk.column("source"), chunk.column("row"), [LATE] * len(chunk))
