"""Counters: Beam's, and a tally of this process that a progress line can read while it runs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from apache_beam.metrics import Metrics

NAMESPACE = "kerneltrack"
UNREADABLE = "models_unreadable"
"""Counter of models without a row whose snapshots cannot be read."""
UNREFERENCED = "models_without_reference"
"""Counter and set of the models whose rows were held against nothing: no reference was made."""
SCORED_AGAIN = "rows_scored_again"
"""Counter of rows that are scored by a model that has learned from them; set of these models."""

CALLS = "calls"
"""Counter of calls of the trackers, each with the rows of all models that have some by then."""
MODELS_CALLED = "models_called"
"""Counter of the models with rows in these calls, added up."""

TALLY: Counter[str] = Counter()
"""Totals of this process. In-process runners report metrics only when the job has ended; the
status line reads this meanwhile. Nothing else may: no result depends on it."""


@dataclass
class Counts:
    """What a task counted that is run once, or again from its beginning.

    Attributes:
        totals: By name of the counter.
        models: By name of the set, the models in it.
    """

    totals: Counter[str] = field(default_factory=Counter)
    models: dict[str, set[str]] = field(default_factory=dict)


_COUNTING: list[Counts] = []
"""Where counts go instead of to Beam, while a task collects them."""


@contextmanager
def counting() -> Iterator[Counts]:
    """Collect what is counted within, in this thread's process, instead of telling Beam."""
    counts = Counts()
    _COUNTING.append(counts)
    try:
        yield counts
    finally:
        # Not `remove`: counts that are equal are not the same.
        _COUNTING.pop()


def count(name: str, amount: int) -> None:
    """Add to the Beam counter of this name, from within a DoFn; or to what a task collects."""
    if amount:
        TALLY[name] += amount
        if _COUNTING:
            _COUNTING[-1].totals[name] += amount
        else:
            _counter(name).inc(amount)


def _metrics() -> type[Metrics]:
    # Not for every module that counts: a first look at an input counts too, before Beam is there.
    from apache_beam.metrics import Metrics  # noqa: PLC0415

    return Metrics


@cache
def _counter(name: str) -> Metrics.DelegatingCounter:
    return _metrics().counter(NAMESPACE, name)


def name_model(name: str, model_id: str) -> None:
    """Add a model to a set of this name, from within a DoFn: what the end of a job tells of it.

    Beam stops at a million characters: the set says which, a counter how many.
    """
    if _COUNTING:
        _COUNTING[-1].models.setdefault(name, set()).add(model_id)
    else:
        _metrics().string_set(NAMESPACE, name).add(model_id)


def count_unreferenced(model_id: str) -> None:
    """Count and name a model whose rows were held against nothing."""
    count(UNREFERENCED, 1)
    name_model(UNREFERENCED, model_id)


def count_scored_again(model_id: str, rows: int) -> None:
    """Count rows that a model has learned from and that are scored again, and name the model."""
    if rows:
        count(SCORED_AGAIN, rows)
        name_model(SCORED_AGAIN, model_id)


LOSS_UNIT = 1e-6
LAG_UNIT = 1e-3
"""Seconds."""
MOST_UNITS = 1e14
"""What one call adds at most: counters are 64 bits wide."""
MOST_LAG = 86_400.0
"""Seconds that one row's lag counts at most: a replay of old times says nothing about lag."""


def count_losses(losses: npt.NDArray[np.float64]) -> None:
    """Add losses up in `loss_millionths`; over `rows_tracked` it is their mean.

    Sums are whole numbers, since Flink shows Beam's counters only: its distributions and gauges
    of fractions arrive as 0.

    Args:
        losses: (n,) of rows that were tracked.
    """
    count("loss_millionths", _units(float(losses.sum()), LOSS_UNIT))


def count_lags(times: npt.NDArray[np.int64]) -> None:
    """Add up in `lag_milliseconds` how long ago rows happened; over `rows_tracked`: the mean.

    Args:
        times: (n,) event times, ns since 1970, of rows that were tracked now.
    """
    lags = np.clip(time.time() - times / 1e9, 0.0, MOST_LAG)
    count("lag_milliseconds", _units(float(lags.sum()), LAG_UNIT))


def _units(total: float, unit: float) -> int:
    return round(min(total / unit, MOST_UNITS)) if total > 0 else 0
