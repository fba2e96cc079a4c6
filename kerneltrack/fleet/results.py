"""What rows that went through their models gave."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import FloatArray
from kerneltrack.fleet.devices import Device
from kerneltrack.fleet.windows import Measured
from kerneltrack.monitor.reference import Episode, Scores
from kerneltrack.trackers.common.features import Features


class Alert(NamedTuple):
    """A change of the loss's regime; see `kerneltrack.monitor.drift`."""

    row: int
    time: int | None
    before: float
    after: float


def _lists() -> defaultdict[int, list[Any]]:
    return defaultdict(list)


@dataclasses.dataclass
class Results:
    """What n rows of m models gave; what few models have is by the model's place, in order.

    Attributes:
        features: Of all rows; indexes as the models count.
        rows: (n, D) the rows, missing values filled.
        scores: What references say of the rows, NaN where a row was refused, or has none; None
            where nothing is held against references.
        measured: Windows that were measured.
        alerts: Changes of the loss.
        episodes: Those that were opened or closed, or are open at the end of the input.
        devices: What is known of a device, a line for each change.
        snapshots: The models' bytes at the boundaries that were passed.
        without_mode: Rows of modes that references have no room for.
        false_learned: False episodes whose rows references have learned.
        idle: Rows that do not meet the condition while which rows are judged.
        calls: Rounds with rows: calls of the trackers.
        models_called: Models with rows in these, added up.
    """

    features: Features
    rows: FloatArray
    scores: Scores | None
    measured: dict[int, list[Measured]] = dataclasses.field(default_factory=_lists)
    alerts: dict[int, list[Alert]] = dataclasses.field(default_factory=_lists)
    episodes: dict[int, list[Episode]] = dataclasses.field(default_factory=_lists)
    devices: dict[int, list[Device]] = dataclasses.field(default_factory=_lists)
    snapshots: dict[int, list[bytes]] = dataclasses.field(default_factory=_lists)
    without_mode: int = 0
    false_learned: int = 0
    idle: int = 0
    calls: int = 0
    models_called: int = 0

    def scores_at(self, places: npt.NDArray[np.int64]) -> Scores | None:
        """Return what references say of some rows; None where there are none."""
        return None if self.scores is None else self.scores.at(places)
