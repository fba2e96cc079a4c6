"""TrackSubspace: one budgeted kernel subspace per model, updated row by row in event-time order."""

from __future__ import annotations

import math
from typing import Any

import apache_beam as beam
from apache_beam import pvalue
from apache_beam.transforms.window import GlobalWindows

from kerneltrack.errors import ConfigError
from kerneltrack.fleet.model import Work
from kerneltrack.learners.common.spec import FEATURES as LEARN_FEATURES
from kerneltrack.monitor.drift import DriftSpec
from kerneltrack.monitor.feedback import Feedback
from kerneltrack.monitor.mismatch import stores_rows
from kerneltrack.monitor.moving import ON_A_BUDGET
from kerneltrack.monitor.periods.spec import PeriodsSpec
from kerneltrack.monitor.quiet import QuietTimes
from kerneltrack.monitor.reference import ReferenceSpec
from kerneltrack.monitor.rules import Rules
from kerneltrack.registry import get_tracker
from kerneltrack.settings import Range, check_number
from kerneltrack.snapshots.folder import SnapshotFolder
from kerneltrack.snapshots.references import GivenReferences
from kerneltrack.time_units import nanoseconds
from kerneltrack.trackers import RowsSpec
from kerneltrack.trackers.common.spec import SubspaceSpec
from kerneltrack.trackers.common.start import StartSet
from kerneltrack.trackers.covariance.spec import CovarianceSpec
from transforms.arguments import check_collection, check_kind
from transforms.beam_worker.timer_names import timer_name
from transforms.chunks import Chunk
from transforms.keyed.expiry import Expiry
from transforms.keyed.silence import SilentAfter
from transforms.learn.inputs import narrow_labels
from transforms.learn.plan import LearnLabels, Plan
from transforms.outputs import (
    ALERTS,
    DEVICES,
    EPISODES,
    FAILURES,
    FEATURES,
    LATE,
    LEARNER,
    LOST_LABELS,
    METRICS,
    MISMATCH,
    PERIODS,
    PREDICTIONS,
    SCORED,
    SNAPSHOTS,
    TRACKER,
    names_of,
)
from transforms.step import run_step
from transforms.track.features import EXTRAS
from transforms.track.keyed_fn import with_timers
from transforms.track.order import Order
from transforms.track.slices import SLICE_ROWS
from transforms.track.step import TrackFn
from transforms.track.windows import MeasureMismatch

__all__ = [
    "ALERTS",
    "DEVICES",
    "EPISODES",
    "FAILURES",
    "FEATURES",
    "LATE",
    "LOST_LABELS",
    "METRICS",
    "MISMATCH",
    "PREDICTIONS",
    "SCORED",
    "SLICE_ROWS",
    "SNAPSHOTS",
    "MeasureMismatch",
    "Order",
    "TrackSubspace",
]


def _check_without_reference(**known: object) -> None:
    """Refuse what people know of devices where nothing is judged."""
    for name, value in known.items():
        if value is not None:
            raise ConfigError(name, value, "None without a reference")


def _check_periods(periods: PeriodsSpec | None, order: Order) -> None:
    """Refuse periods of rows in order of arrival, or that all wait."""
    if periods is not None and order.max_disorder in (0, math.inf):
        allowed = "None unless rows wait for others for some time, and not for the end"
        raise ConfigError("periods", periods, allowed)


def _check_condition(reference: ReferenceSpec | None) -> None:
    """Refuse a condition that names channels: rows have none here."""
    condition = None if reference is None else reference.condition
    if condition is not None and condition.columns:
        allowed = "about channels by their places, from 0: channel[3] > 200"
        raise ConfigError("only_while", condition.text, allowed)


class TrackSubspace(beam.PTransform[Any, dict[str, pvalue.PCollection[Any]]]):
    """Track one kernel subspace per model ID, and let a learner learn labels from its features.

    Input: `tuple[str, Chunk]`, rows keyed by model ID, in any order, in the global window (other
    windowing is replaced by it). Order: rows are learned from in order of (time, sequence,
    source, row), whatever order they arrive in, as long as that is less than `max_disorder` from
    the order of time; results then depend on the rows and the spec alone, not on chunks, bundles
    or runner. Each model keeps its own clock, the newest time it has shown: no watermark is
    trusted but the end of the input, which releases what still waits; with `idle_flush` so does a
    silence of the model, measured by the worker's own clock.

    With delayed labels the input is the pair (rows, labels), or a dict of the two. Labels are
    `tuple[str, Chunk]` with index (int64) or time (int64, ns), label, source, row: each names one
    row, or all rows of one time.

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
      periods, if asked for: `tuple[str, Chunk]`, columns as in
        `transforms.write.schemas.periods_schema`: each day of a device once a row of a later one
        has run, and at the end of the input; in its first days those before again.
      snapshots: `tuple[str, bytes]`, the state of each model, and of its learner, at the end of
        its input and at the boundaries (`codec`). Rows that wait for labels are part of a
        learner's, with the labels that name them; they are settled by the job that goes on from it
        (and, for the outputs below, by the job that ends).
      late: `tuple[str, Chunk]`, rows older than the model's clock less `max_disorder`, as they
        came.
      failures: `Failures`, rows refused with the reason.

    With a learner also:
      predictions: `tuple[str, Chunk]`, columns as in
        `transforms.write.schemas.predictions_schema`: one row for each row of features, when it is
        settled; in unbounded jobs with delayed labels at once, without label.
      scored: unbounded jobs with delayed labels only: the predictions again, when they are settled.
      metrics: `tuple[str, Chunk]`, columns as in `transforms.write.schemas.metrics_schema`:
        one line a window of event time that holds rows, once all of these are settled and a row at
        or after its end has come; at the end of the input, and where the model starts over, one
        for the window that is open and, start and end null, one for all rows. A row counts where
        it was predicted. Rows of a model that was taken up from snapshots count on from there.
      lost_labels: `Failures`, delayed labels that no row takes: too late, without row or model, a
        further label of the same row, too far ahead.

    Duplicates are rows like others unless `order` drops them. Each other row comes out exactly
    once, in features, late or failures. State per model: the tracker's state (see its module),
    what the windows need (`OpenWindows`, `WindowState`), the rows that wait, and a few numbers; the
    learner's, the rows and labels that wait for each other, the confusion, at most `max_classes`²
    counts.

    Args:
        spec: The tracker's spec.
        order: How rows are put in order.
        extras: More features per row: "q" (projection coefficients), "s" (the |S|-vector).
        own: Whether features come with `x`, the row itself as learners take it
            (`kerneltrack.learners.common.inputs`): `TrainLinear` needs it where the learner's
            `inputs` are not "features". With such a learner here they do.
        learner: What learns labels from the features; None: nothing.
        measure: Windows whose kernel mismatch is measured; rows without time are in no
            event-time window.
        drift: How changes of the loss are detected; None: not at all.
        reference: What rows are compared with to find episodes; None: nothing.
        periods: What a device's days are compared with, as they end, in a job whose rows do not
            wait for the end of the input, and have times; None: with nothing. Nothing else depends
            on it. `SummarisePeriods` does it where rows wait.
        given: Where models take their references from; None: of their own first rows. A model
            that finds none there is tracked without.
        quiet: Times at which rows of models are not compared with their references, nor learned
            by these; needs a reference.
        rules: Which episodes count, by the channels that explain them, which `muted` of their lines
            says; needs a reference. Nothing else depends on them.
        feedback: Answers of people to episodes: later ones like those marked as false are muted.
            Needs a reference, and rows with times.
        snapshot_every: Seconds of event time between the boundaries at which snapshots are
            written: multiples of it since 1970, where a row passes one.
        warm: Snapshots of an earlier job to begin from: rows of a time that a model had learned
            from before are refused (see `drop_overlap`). Without a learner's state in them that
            one begins at the row where the tracker goes on. Or landmarks that all models begin with
            (`trackers.start`): nothing waits for a warm-up then.
        expiry: When models that are silent leave the runner's state (see `expiry`); None: never.
            The results do not show it, except the devices' lines.
        silent_after: When a device that sends nothing is silent, by the worker's own clock, which
            episodes and devices then say; nothing else depends on it. For inputs that do not end;
            needs a reference. None: none is.
        devices: Whether to output the state of each device; needs a reference.
        drop_overlap: Whether rows that the snapshots of `warm` have learned from, up to the time of
            their newest row and with it, are left out and counted (`rows_learned_before`): for
            input that begins before the earlier job's ended.
        channels: Names of the channels, for the reasons of rows that lack some.

    Raises:
        ConfigError: for an argument that is out of range or does not fit the others; in the job
            itself, for labels of a type that cannot be learned, or rows without times where times
            are needed.
    """

    def __init__(  # noqa: PLR0913 - one for each thing that is done beside tracking
        self,
        spec: SubspaceSpec,
        order: Order | None = None,
        extras: tuple[str, ...] = (),
        *,
        own: bool = False,
        learner: LearnLabels | None = None,
        measure: MeasureMismatch | None = None,
        drift: DriftSpec | None = None,
        reference: ReferenceSpec | None = None,
        periods: PeriodsSpec | None = None,
        given: GivenReferences | None = None,
        quiet: QuietTimes | None = None,
        rules: Rules | None = None,
        feedback: Feedback | None = None,
        snapshot_every: float | None = None,
        warm: SnapshotFolder | StartSet | None = None,
        expiry: Expiry | None = None,
        silent_after: SilentAfter | None = None,
        devices: bool = False,
        drop_overlap: bool = False,
        channels: tuple[str, ...] = (),
    ) -> None:
        super().__init__()
        check_kind("spec", spec, SubspaceSpec, "OKFEBSpec(rank=10)")
        check_kind("order", order, Order, "Order(max_disorder=2.0)")
        check_kind("reference", reference, ReferenceSpec, 'ReferenceSpec(learning="first")')
        check_kind("drift", drift, DriftSpec, "DriftSpec()")
        check_kind("learner", learner, LearnLabels, "LearnLabels(RidgeSpec())")
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
        if silent_after is not None and (reference is None or self._waits(order)):
            allowed = "None without a reference, or if rows wait for the end of the input"
            raise ConfigError("silent_after", silent_after, allowed)
        _check_periods(periods, order or Order())
        _check_condition(reference)
        if reference is None:
            _check_without_reference(quiet=quiet, rules=rules, feedback=feedback)
        if given is not None and reference != given.spec:
            raise ConfigError("reference", reference, f"that of {given.place}: {given.spec}")
        if warm is not None:
            warm.check(spec)
        self._order = order or Order()
        hold = self._order.hold_for
        self._work = Work(
            spec=spec,
            extras=extras,
            own=own or (learner is not None and learner.spec.input_kind != LEARN_FEATURES),
            hold=None if hold is None else nanoseconds(hold),
            measure=None if measure is None else measure.in_ns(),
            drift=drift,
            reference=reference,
            periods=periods,
            given=given,
            quiet=quiet,
            rules=rules,
            feedback=feedback,
            every=None if snapshot_every is None else nanoseconds(snapshot_every),
            start=warm if isinstance(warm, StartSet) else None,
            devices=devices,
            drop_overlap=drop_overlap,
            channels=channels,
        )
        self._warm = None if isinstance(warm, StartSet) else warm
        self._expiry = expiry
        self._silent_after = silent_after
        self._plan = None if learner is None else learner.plan(snapshot_every)
        if isinstance(warm, SnapshotFolder) and learner is not None:
            warm.check(learner.spec)
        if expiry is not None:
            expiry.check_longer(self._order.idle_flush)
        if silent_after is not None:
            silent_after.check_longer(self._order.idle_flush)

    @staticmethod
    def _waits(order: Order | None) -> bool:
        return (order or Order()).waits_for_end

    @property
    def order(self) -> Order:
        """How rows are put in order."""
        return self._order

    @property
    def plan(self) -> Plan | None:
        """What learners do with the models' features; None: there are none."""
        return self._plan

    def step(self) -> TrackFn:
        """Return the step itself, for drivers that hold the models' rows in memory."""
        return TrackFn(
            *(self._work, self._order, self._warm, self._expiry, self._plan, self._silent_after)
        )

    def expand(self, inputs: Any) -> dict[str, pvalue.PCollection[Any]]:
        """Apply the transform."""
        plan = self._plan
        rows = rows_and_labels(inputs, "rows", plan)
        silent = self._order.idle_flush is not None or self._expiry is not None
        live = silent and not self._order.waits_for_end
        listens = self._silent_after is not None
        step = with_timers(TrackFn, timer_name(rows.pipeline), live, listens)
        expiry = self._expiry if live else None
        fn = step(self._work, self._order, self._warm, expiry, plan, self._silent_after)
        names = names_of(TRACKER, (DEVICES,) if self._work.devices else ())
        if self._work.periods is not None:
            names += (PERIODS,)
        if plan is not None:
            names += names_of(LEARNER, (SCORED,) if plan.at_once else ())
        return run_step(rows, "Track", fn, FEATURES, dict.fromkeys(names))


def rows_and_labels(inputs: Any, name: str, plan: Plan | None) -> pvalue.PCollection[Any]:
    """Return what a keyed step takes: rows, and delayed labels where learners have them.

    Args:
        inputs: Rows alone, or a pair, or a dict of rows by this name and of `labels`.
        name: What the rows are called.
        plan: What learners do with them.
    """
    late = plan is not None and plan.late is not None
    if isinstance(inputs, dict) and {name} <= {*inputs} <= {name, "labels"}:
        given = [inputs[part] for part in (name, "labels") if part in inputs]
    else:
        given = list(inputs) if isinstance(inputs, tuple | list) else [inputs]
    if len(given) != 1 + late:
        expected = f"the pair ({name}, labels)" if late else f"{name} alone, without late"
        raise ConfigError("inputs", f"{len(given)} collections", expected)
    check_collection(name, given[0])
    rows: pvalue.PCollection[Any] = given[0] | "GlobalWindow" >> beam.WindowInto(GlobalWindows())
    if plan is None or not late:
        return rows
    named = (
        given[1]
        | "LabelsGlobalWindow" >> beam.WindowInto(GlobalWindows())
        | "Labels" >> beam.Map(narrow_labels, plan.spec).with_output_types(tuple[str, Chunk])
    )
    both: pvalue.PCollection[Any] = (rows, named) | "RowsAndLabels" >> beam.Flatten()
    return both
