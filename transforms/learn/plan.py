"""What learners do with every model's rows, and how `TrackSubspace` is asked for it."""

from __future__ import annotations

import dataclasses

from kerneltrack.learners import LearnerSpec
from kerneltrack.settings import Range, check_number
from kerneltrack.time_units import NANOSECONDS, nanoseconds
from transforms.arguments import check_kind
from transforms.learn.late_labels import LateLabels
from transforms.learn.predictions import SLICE_ROWS

MAX_SPAN = 1e8
"""Longest window and distance of snapshots, s: any time plus it is still an int64 of ns."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What is done with every model's rows.

    Attributes:
        spec: The learner's spec.
        late: How long rows wait for labels; None: labels come with the rows.
        window: Length of the metrics' windows, ns; None: only the total.
        every: Distance of the boundaries at which snapshots are due, ns; None: only at the end.
        bounded: Whether the input ends.
    """

    spec: LearnerSpec
    late: LateLabels | None = None
    window: int | None = None
    every: int | None = None
    bounded: bool = True

    @property
    def waits_for_end(self) -> bool:
        """Whether rows and labels wait for the end of the input: no label is too late then."""
        return self.bounded and self.late is not None

    @property
    def at_once(self) -> bool:
        """Whether rows are predicted at once, and scored when their labels are known."""
        return self.late is not None and not self.bounded

    @property
    def rows_at_once(self) -> int:
        """Rows of a model that run in one go at the end: all that wait are copied for each."""
        return SLICE_ROWS if self.late is None else max(SLICE_ROWS, self.late.most_rows)

    @property
    def timed_by(self) -> dict[str, float]:
        """Settings that need the rows' times, in seconds."""
        spans = {"window": self.window, "snapshot_every": self.every}
        second = NANOSECONDS["s"]
        found = {name: span / second for name, span in spans.items() if span is not None}
        if self.late is not None and self.late.wait is not None:
            found["wait"] = self.late.wait
        return found


@dataclasses.dataclass(frozen=True)
class LearnLabels:
    """Asks `TrackSubspace` for a learner that predicts each row's label, then learns from it.

    Without `late` each row is predicted, scored and learned from at once; one without a label is
    predicted only. With `late` every row is settled, that is scored and learned from with the
    features it was predicted from, when the model's rows pass its deadline (`LateLabels`); its
    label is then, of those that came with it or name it, its own or the first in order of
    (source, row). As long as labels come before the deadlines of their rows, nothing depends on
    when they come. A bounded job holds rows and labels until the end of the input: no label
    comes too late there.

    Attributes:
        spec: The learner's spec.
        late: How long rows wait for labels; None: labels come with the rows.
        window: Length of the metrics' windows, seconds of event time; None: only the total.
        bounded: Whether the input ends. Only `late` makes a difference of it.

    Raises:
        ConfigError: for a window that is out of range, or what is no learner's spec.
    """

    spec: LearnerSpec
    late: LateLabels | None = None
    window: float | None = None
    bounded: bool = True

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_kind("spec", self.spec, LearnerSpec, "RidgeSpec()")
        if self.window is not None:
            check_number("window", self.window, Range(1e-3, MAX_SPAN))

    def plan(self, snapshot_every: float | None) -> Plan:
        """Return what is done with rows, snapshots due at multiples of these seconds."""
        if snapshot_every is not None:
            check_number("snapshot_every", snapshot_every, Range(1e-3, MAX_SPAN))
        return Plan(
            spec=self.spec,
            late=self.late,
            window=None if self.window is None else nanoseconds(self.window),
            every=None if snapshot_every is None else nanoseconds(snapshot_every),
            bounded=self.bounded,
        )
