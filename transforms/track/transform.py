"""TrackSubspace: one budgeted kernel subspace per model, updated row by row in event-time order."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
from apache_beam import pvalue
from apache_beam.transforms.window import GlobalWindows

from kerneltrack.errors import ConfigError
from kerneltrack.fleet.model import Work
from kerneltrack.monitor.drift import DriftSpec
from kerneltrack.monitor.mismatch import stores_rows
from kerneltrack.monitor.moving import ON_A_BUDGET
from kerneltrack.monitor.reference import ReferenceSpec
from kerneltrack.registry import get_tracker
from kerneltrack.settings import Range, check_number
from kerneltrack.snapshots.folder import SnapshotFolder
from kerneltrack.snapshots.references import GivenReferences
from kerneltrack.trackers import RowsSpec
from kerneltrack.trackers.common.spec import SubspaceSpec
from kerneltrack.trackers.common.start import StartSet
from kerneltrack.trackers.covariance.spec import CovarianceSpec
from transforms.arguments import check_collection, check_kind
from transforms.chunks import Chunk
from transforms.keyed.expiry import Expiry
from transforms.keyed.timers import timer_name
from transforms.outputs import (
    ALERTS,
    DEVICES,
    EPISODES,
    FAILURES,
    FEATURES,
    LATE,
    MISMATCH,
    SNAPSHOTS,
    TRACKER,
    names_of,
)
from transforms.step import run_step
from transforms.track.clock import nanoseconds
from transforms.track.features import EXTRAS
from transforms.track.live_step import live_track_fn
from transforms.track.order import Order
from transforms.track.step import SLICE_ROWS, TrackFn, track_fn
from transforms.track.windows import MeasureMismatch

__all__ = [
    "ALERTS",
    "DEVICES",
    "EPISODES",
    "FAILURES",
    "FEATURES",
    "LATE",
    "MISMATCH",
    "SLICE_ROWS",
    "SNAPSHOTS",
    "MeasureMismatch",
    "Order",
    "TrackSubspace",
]


class TrackSubspace(
    beam.PTransform[pvalue.PCollection[tuple[str, Chunk]], dict[str, pvalue.PCollection[Any]]]
):
    """Track one kernel subspace per model ID.

    Input: `tuple[str, Chunk]`, rows keyed by model ID, in any order, in the global window (other
    windowing is replaced by it). Order: rows are learned from in order of (time, sequence,
    source, row), whatever order they arrive in, as long as that is less than `max_disorder` from
    the order of time; results then depend on the rows and the spec alone, not on chunks, bundles
    or runner. Each model keeps its own clock, the newest time it has shown: no watermark is
    trusted but the end of the input, which releases what still waits; with `idle_flush` so does a
    silence of the model, measured by the worker's own clock.

    Output, a dict of PCollections:
      features: `tuple[str, Chunk]` with index (number among the model's valid rows), time,
        source, row, loss, novelty, informative, evicted (null: none), initial, z (or q), the
        extras, label.
      mismatch: `tuple[str, Chunk]`, one line a window that was measured (`mismatch_chunk`). A
        window closes once the model's clock less `max_disorder` has reached its end; those that
        have not ended when the input does are marked incomplete, and go on in a later job.
      alerts: `tuple[str, Chunk]` with index, time, before, after: rows at which the level of the
        loss was found to have changed, and its means before and since.
      episodes: `tuple[str, Chunk]`, columns as in `transforms.write.schemas.episodes_schema`: rows
        that do not look like the model's reference, a line when they begin and when they end.
      devices, if asked for: `tuple[str, Chunk]`, columns as in
        `transforms.write.schemas.devices_schema`: what is known of a device, a line whenever that
        changes, in the order in which it does.
      snapshots: `tuple[str, bytes]`, the state of each model at the end of its input and at the
        boundaries (`codec`).
      late: `tuple[str, Chunk]`, rows older than the model's clock less `max_disorder`, as they
        came.
      failures: `Failures`, rows refused with the reason.

    Duplicates are rows like others unless `order` drops them. Each other row comes out exactly
    once, in features, late or failures. State per model: the tracker's state (see its module),
    what the windows need (`OpenWindows`, `WindowState`), the rows that wait, and a few numbers.

    Args:
        spec: The tracker's spec.
        order: How rows are put in order.
        extras: More features per row: "q" (projection coefficients), "s" (the |S|-vector).
        own: Whether features come with `x`, the row itself as learners take it
            (`kerneltrack.learners.common.inputs`): `TrainLinear` needs it where the learner's
            `inputs` are not "features".
        measure: Windows whose kernel mismatch is measured; rows without time are in no
            event-time window.
        drift: How changes of the loss are detected; None: not at all.
        reference: What rows are held against to find episodes; None: nothing.
        given: Where models take their references from; None: of their own first rows. A model
            that finds none there is tracked without.
        snapshot_every: Seconds of event time between the boundaries at which snapshots are
            written: multiples of it since 1970, where a row passes one.
        warm: Snapshots of an earlier job to begin from: rows of a time that a model had learned
            from before are refused (see `drop_overlap`). Or landmarks that all models begin with
            (`trackers.start`): nothing waits for a warm-up then.
        expiry: When models that are silent leave the runner's state (see `expiry`); None: never.
            Nothing in the results tells of it but the devices' lines.
        devices: Whether it is told what is known of each device; needs a reference.
        drop_overlap: Whether rows that the snapshots of `warm` have learned from, up to the time of
            their newest row and with it, are left out and counted (`rows_learned_before`): for
            input that begins before the earlier job's ended.
        channels: Names of the channels, for the reasons of rows that lack some.

    Raises:
        ConfigError: for an argument that is out of range or does not fit the others.
    """

    def __init__(  # noqa: PLR0913 - one for each thing that is done beside tracking
        self,
        spec: SubspaceSpec,
        order: Order | None = None,
        extras: tuple[str, ...] = (),
        *,
        own: bool = False,
        measure: MeasureMismatch | None = None,
        drift: DriftSpec | None = None,
        reference: ReferenceSpec | None = None,
        given: GivenReferences | None = None,
        snapshot_every: float | None = None,
        warm: SnapshotFolder | StartSet | None = None,
        expiry: Expiry | None = None,
        devices: bool = False,
        drop_overlap: bool = False,
        channels: tuple[str, ...] = (),
    ) -> None:
        """Check the arguments; see the class."""
        super().__init__()
        check_kind("spec", spec, SubspaceSpec, "OKFEBSpec(rank=10)")
        check_kind("order", order, Order, "Order(max_disorder=2.0)")
        check_kind("reference", reference, ReferenceSpec, 'ReferenceSpec(learning="first")')
        check_kind("drift", drift, DriftSpec, "DriftSpec()")
        for name in extras:
            if name not in EXTRAS:
                raise ConfigError("extras", name, f"of {', '.join(EXTRAS)}")
        if "s" in extras and isinstance(spec, RowsSpec):
            raise ConfigError("extras", "s", f"left out for {spec.tracker}, which stores none")
        if measure is not None and measure.moving and not isinstance(spec, ON_A_BUDGET):
            raise ConfigError("moving", measure.moving, f"None for the tracker {spec.tracker}")
        chooses = isinstance(spec, CovarianceSpec) and spec.chooses_halflife
        if measure is not None and measure.moving and chooses:
            raise ConfigError("moving", measure.moving, "None with the half-life auto")
        if measure is not None and not stores_rows(get_tracker(spec.tracker)):
            raise ConfigError("measure", measure, f"None for the tracker {spec.tracker}")
        if snapshot_every is not None:
            check_number("snapshot_every", snapshot_every, Range(1e-3, 1e9))
        if drop_overlap and not isinstance(warm, SnapshotFolder):
            raise ConfigError("drop_overlap", drop_overlap, "False without snapshots to begin from")
        if devices and reference is None:
            raise ConfigError("devices", devices, "False without a reference")
        if given is not None and reference != given.spec:
            raise ConfigError("reference", reference, f"that of {given.place}: {given.spec}")
        if warm is not None:
            warm.check(spec)
        self._order = order or Order()
        hold = self._order.hold_for
        self._work = Work(
            spec=spec,
            extras=extras,
            own=own,
            hold=None if hold is None else nanoseconds(hold),
            measure=None if measure is None else measure.in_ns(),
            drift=drift,
            reference=reference,
            given=given,
            every=None if snapshot_every is None else nanoseconds(snapshot_every),
            start=warm if isinstance(warm, StartSet) else None,
            devices=devices,
            drop_overlap=drop_overlap,
            channels=channels,
        )
        self._warm = None if isinstance(warm, StartSet) else warm
        self._expiry = expiry
        if expiry is not None:
            expiry.check_longer(self._order.idle_flush)

    @property
    def order(self) -> Order:
        """How rows are put in order."""
        return self._order

    def step(self) -> TrackFn:
        """Return the step itself, for drivers that hold the models' rows in memory."""
        return TrackFn(self._work, self._order, self._warm, self._expiry)

    def expand(
        self, rows: pvalue.PCollection[tuple[str, Chunk]]
    ) -> dict[str, pvalue.PCollection[Any]]:
        """Apply the transform."""
        check_collection("rows", rows)
        name, work = timer_name(rows.pipeline), (self._work, self._order, self._warm)
        silent = self._order.idle_flush is not None or self._expiry is not None
        if self._order.waits_for_end or not silent:
            step: Any = track_fn(name)(*work)
        else:
            step = live_track_fn(name)(*work, self._expiry)
        names = names_of(TRACKER, (DEVICES,) if self._work.devices else ())
        rows = rows | "GlobalWindow" >> beam.WindowInto(GlobalWindows())
        return run_step(rows, "Track", step, FEATURES, names)
