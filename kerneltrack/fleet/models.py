"""m models side by side, as the rounds run them: what each of them is, a column each.

States of fixed shape lie in one table, so that a model costs no Python of its own where its rows
run. `Models.model` gives one as a value of its own, as snapshots are written of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import BoolArray, IntArray
from kerneltrack.fleet.clock import NO_TIME
from kerneltrack.fleet.companions import FirstRows
from kerneltrack.fleet.forward_fill import LastValues
from kerneltrack.fleet.model import Model, Work
from kerneltrack.fleet.windows import OpenWindows
from kerneltrack.monitor.moving import WindowState
from kerneltrack.monitor.reference import ReferenceState
from kerneltrack.monitor.reference import paces as references
from kerneltrack.monitor.reference.block import BlockParts
from kerneltrack.registry import get_tracker
from kerneltrack.trackers.common.block import Block, FixedBlock
from kerneltrack.trackers.common.state import N

NONE: BoolArray = np.zeros(0, np.bool_)


@dataclasses.dataclass
class Models:
    """m models of one job.

    Attributes:
        work: What is done with their rows.
        keys: Their IDs.
        block: The trackers' states.
        time: (m,) times of the newest rows, ns, as of `Model`; `NO_TIME` for none.
        until: (m,) likewise.
        before: (m,) as of `Model`.
        projected: (m,) likewise.
        last_values: What each channel showed last, (m, D) each; None if that is not held.
        filled: (m,) whether anything has been held yet.
        open: Windows that are open, of each; None if none are measured.
        moving: The moving window of each; None if none is measured.
        moving_times: Times of its rows, as of `Model`; empty if there is none.
        drift: The drift detectors, (m, bytes); None without.
        reference: The references, (m, bytes) of each part; None without.
        referred: (m,) which models have a reference.
        origin: Where each one's reference was given, as of `Model`.
    """

    work: Work
    keys: list[str]
    block: Block[Any]
    time: IntArray
    until: IntArray
    before: IntArray
    projected: IntArray
    last_values: LastValues | None = None
    filled: BoolArray = dataclasses.field(default_factory=lambda: NONE)
    open: list[OpenWindows] | None = None
    moving: FixedBlock[WindowState] | None = None
    moving_times: list[IntArray] = dataclasses.field(default_factory=list)
    drift: npt.NDArray[np.uint8] | None = None
    reference: BlockParts | None = None
    referred: BoolArray = dataclasses.field(default_factory=lambda: NONE)
    origin: list[str] = dataclasses.field(default_factory=list)

    @classmethod
    def of(cls, work: Work, keys: Sequence[str], models: Sequence[Model]) -> Models:
        """Return copies of models, at least one, side by side."""
        block = get_tracker(work.spec.tracker).pack(work.spec, [model.state for model in models])
        times = [model.time for model in models], [model.until for model in models]
        known = [[NO_TIME if time is None else time for time in column] for column in times]
        counts = [model.before for model in models], [model.projected for model in models]
        columns = np.array([*known, *counts], np.int64)
        fields: dict[str, Any] = {}
        for each in work.companions:
            fields |= each.join(work, block.width, models)
        return cls(work, list(keys), block, *columns, **fields)

    @classmethod
    def begin(cls, work: Work, first: FirstRows) -> Models:
        """Return models that begin."""
        none = np.zeros(len(first.keys), np.int64)
        columns = none + NO_TIME, none + NO_TIME, none, none.copy()
        fields: dict[str, Any] = {}
        for each in work.companions:
            fields |= each.begin(work, first)
        return cls(work, list(first.keys), first.block, *columns, **fields)

    def __len__(self) -> int:
        """Return m."""
        return len(self.keys)

    @property
    def width(self) -> int:
        """Channels D of the models' rows."""
        return self.block.width

    @property
    def seen(self) -> IntArray:
        """Each tracker's index of its next row, (m,)."""
        seen: IntArray = self.block.column("counts")[:, N] + self.projected
        return seen

    def model(self, place: int) -> Model:
        """Return one model; its arrays are those of the columns."""
        fields: dict[str, Any] = {}
        for each in self.work.companions:
            fields |= each.one(self, place)
        return Model(
            self.block.state(place),
            time_of(self.time[place]),
            time_of(self.until[place]),
            before=int(self.before[place]),
            projected=int(self.projected[place]),
            **fields,
        )

    def reference_of(self, place: int) -> ReferenceState | None:
        """Return a model's reference, in place; None if it has none."""
        spec = self.work.reference
        if spec is None or self.reference is None or not self.referred[place]:
            return None
        return references.state_at(spec, self.width, self.reference, place)

    def put_reference(self, place: int, state: ReferenceState) -> None:
        """Let a model go on with this reference."""
        if self.work.reference is not None and self.reference is not None:
            references.put_state(self.work.reference, self.width, self.reference, place, state)


def time_of(time: np.int64) -> int | None:
    """Return a time of a column, ns; None if there is none."""
    return None if time == NO_TIME else int(time)
