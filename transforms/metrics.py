"""Counters: Beam's, and a tally of this process that a progress line can read while it runs."""

from __future__ import annotations

from collections import Counter

from apache_beam.metrics import Metrics

NAMESPACE = "kerneltrack"

TALLY: Counter[str] = Counter()
"""Totals of this process. In-process runners report metrics only when the job has ended; the
status line reads this meanwhile. Nothing else may: no result depends on it."""


def count(name: str, amount: int) -> None:
    """Add to the Beam counter of this name, from within a DoFn."""
    if amount:
        Metrics.counter(NAMESPACE, name).inc(amount)
        TALLY[name] += amount
