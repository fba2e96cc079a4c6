"""What the trackers of many models came to, as counters, and how often they were called."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.fleet.results import Results
from kerneltrack.registry import get_tracker
from kerneltrack.trackers.common.spec import SubspaceSpec
from transforms.metrics import CALLS, MODELS_CALLED, count

IntArray = npt.NDArray[np.int64]


class _Counts(NamedTuple):
    """What `KernelTracker.counters` looks at in a state."""

    counts: IntArray


def count_totals(spec: SubspaceSpec, before: IntArray, after: IntArray) -> None:
    """Count what became of models of these counts, (m, ...)."""
    tracker = get_tracker(spec.tracker)
    earlier = tracker.counters(_Counts(before.sum(axis=0)))
    for name, total in tracker.counters(_Counts(after.sum(axis=0))).items():
        count(name, total - earlier[name])


def count_calls(found: Results) -> None:
    """Count the calls of the trackers that rows took, and the models in them."""
    count(CALLS, found.calls)
    count(MODELS_CALLED, found.models_called)
