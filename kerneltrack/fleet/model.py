"""One model: the tracker's state and what goes along with it, and what is done with its rows."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kerneltrack.arrays import IntArray
from kerneltrack.fleet.companions import COMPANIONS, NO_ROWS, Companion
from kerneltrack.fleet.forward_fill import LastValues
from kerneltrack.fleet.windows import MeasuredWindows, OpenWindows
from kerneltrack.monitor.drift import DriftSpec
from kerneltrack.monitor.feedback import Feedback
from kerneltrack.monitor.moving import MovingWindow, WindowState
from kerneltrack.monitor.periods.spec import PeriodsSpec
from kerneltrack.monitor.quiet import QuietTimes
from kerneltrack.monitor.reference import Episode, ReferenceSpec, ReferenceState
from kerneltrack.monitor.reference.run import NOTHING_SAID
from kerneltrack.monitor.rules import Rules
from kerneltrack.snapshots.header import AboutWriter
from kerneltrack.snapshots.references import GivenReferences
from kerneltrack.trackers.common.spec import SubspaceSpec
from kerneltrack.trackers.common.start import StartSet

NEVER = int(np.iinfo(np.int64).max)
"""A time, ns, that does not come."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Work:
    """What is done with every model's rows.

    Attributes:
        spec: The tracker's spec.
        extras: More features per row.
        own: Whether features come with the row itself as learners take it.
        hold: Longest time, ns, that a channel's last value stands in for a missing one.
        measure: Mismatch of windows, if asked for.
        drift: Alerts when the loss changes regime, if asked for.
        reference: What rows are compared with to find episodes, if asked for.
        periods: What a device's periods are compared with as they end, if asked for.
        given: Where models take their references from; None: they make their own.
        quiet: Times at which models' rows pass their references by.
        rules: Which episodes count; None: all do.
        feedback: What people said of episodes, of models with times; None: nothing.
        every: Distance of the boundaries at which snapshots are due, ns of event time.
        start: Landmarks that new models begin from, if they do.
        frozen: Whether nothing is learned: rows are projected on the models as they are.
        devices: Whether it is told what is known of a device, whenever that changes.
        drop_overlap: Whether rows that a snapshot has learned from are left out, not refused; those
            of its newest row's own time are among them.
        channels: Names of the channels, for reasons; empty: they are not known.
    """

    spec: SubspaceSpec
    extras: tuple[str, ...] = ()
    own: bool = False
    hold: int | None = None
    measure: MeasuredWindows | None = None
    drift: DriftSpec | None = None
    reference: ReferenceSpec | None = None
    periods: PeriodsSpec | None = None
    given: GivenReferences | None = None
    quiet: QuietTimes | None = None
    rules: Rules | None = None
    feedback: Feedback | None = None
    every: int | None = None
    start: StartSet | None = None
    frozen: bool = False
    devices: bool = False
    drop_overlap: bool = False
    channels: tuple[str, ...] = ()

    @cached_property
    def asked(self) -> tuple[str, ...]:
        """What the tracker says more of rows: the extras, and "x" for learners of moving scales."""
        return (*self.extras, "x") if self.own and self.spec.scale_moves else self.extras

    @property
    def mutes(self) -> bool:
        """Whether episodes may be muted."""
        return self.rules is not None or self.feedback is not None

    def judged(self, key: str, episode: Episode) -> Episode:
        """Return a model's episode with why it is muted as it is now: by rules, or by feedback."""
        why = None if self.rules is None else self.rules.why_muted(key, episode)
        if why is None and self.feedback is not None:
            why = self.feedback.why_muted(key, episode)
        return episode._replace(muted=why)

    def said_of(self, key: str) -> IntArray:
        """Return what people said of a model's episodes, as of `reference.update`."""
        return NOTHING_SAID if self.feedback is None else self.feedback.said_of(key)

    @property
    def rows_to_start(self) -> int:
        """Usable rows that must be there before a model can begin."""
        return self.spec.rows_to_start if self.start is None else 1

    @cached_property
    def writer(self) -> AboutWriter:
        """Writes what the headers of its models say."""
        return AboutWriter(self.settings)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Settings of what goes along with the trackers, as headers of snapshots have them."""
        named = {each.settings for each in self.companions if each.settings}
        return {name: getattr(self, name).to_dict() for name in named}

    @cached_property
    def companions(self) -> tuple[Companion, ...]:
        """What goes along with the trackers."""
        return tuple(c for c in COMPANIONS if getattr(self, c.asked_by) is not None)

    @property
    def windows(self) -> MeasuredWindows | None:
        """Windows of event time, if asked for."""
        return self.measure if self.measure and self.measure.size is not None else None

    @cached_property
    def window(self) -> MovingWindow | None:
        """The moving window, if asked for."""
        asked = self.measure and self.measure.moving
        return MovingWindow(asked) if asked else None


class Model(NamedTuple):
    """A model's working state.

    Attributes:
        state: The tracker's state.
        time: Time of the newest row, ns; None without times.
        until: All rows before this time, ns, have been learned from: that of the newest row, or
            the boundary after it once a snapshot was written there. None without times.
        last_values: What each channel showed last, if that is held.
        open: Windows that are open, if windows are measured.
        moving: The moving window, if asked for.
        moving_times: Times of the last N - 1 rows or fewer, ns, the newest last.
        drift: State of the drift detector, if asked for.
        reference: What rows are held against, if asked for and there.
        origin: Which of the given references that is (`Given`); "" for the model's own.
        before: Rows of this model ID before the tracker's first: indexes go on from there. Less
            than 0 if the tracker comes from a snapshot that had seen more.
        projected: Rows since then that a frozen tracker has not learned.
    """

    state: Any
    time: int | None = None
    until: int | None = None
    last_values: LastValues | None = None
    open: OpenWindows | None = None
    moving: WindowState | None = None
    moving_times: IntArray = NO_ROWS
    drift: Any = None
    reference: ReferenceState | None = None
    origin: str = ""
    before: int = 0
    projected: int = 0

    @property
    def seen(self) -> int:
        """The tracker's index of the next row."""
        return int(self.state.n) + self.projected

    @property
    def rows(self) -> int:
        """Index of the next row."""
        return self.before + self.seen
