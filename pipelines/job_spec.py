"""What a job does with the rows that it reads: the same for files and for live streams.

The two differ at their ends: where rows and delayed labels come from, and where results go.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms.window import FixedWindows, SlidingWindows

from kerneltrack.errors import ConfigError
from kerneltrack.learners import LearnerSpec
from kerneltrack.monitor.drift import DriftSpec
from kerneltrack.monitor.entries import Entry
from kerneltrack.monitor.false_share import check_share
from kerneltrack.monitor.feedback import Feedback
from kerneltrack.monitor.periods.spec import PeriodsSpec
from kerneltrack.monitor.quiet import QuietTimes, RecurringTime
from kerneltrack.monitor.reference import ReferenceSpec
from kerneltrack.monitor.rules import Rules
from kerneltrack.monitor.silences import allowed_time
from kerneltrack.monitor.spans import parse_moment
from kerneltrack.settings import Range, check_number
from kerneltrack.snapshots.folder import SnapshotFolder
from kerneltrack.snapshots.references import GivenReferences
from kerneltrack.state_size import check_state_size
from kerneltrack.trackers import SubspaceSpec
from kerneltrack.trackers.common.start import StartSet
from pipelines import landmark_file
from pipelines.cli import spec_options
from pipelines.cli.command_line import flags_named
from pipelines.cli.feedback_file import FLAG as FEEDBACK_FLAG
from pipelines.cli.feedback_file import check_feedback, feedback_from_flags
from pipelines.cli.job_flags import (
    FLAGS,
    HOLD_FOR,
    LATE_LABELS,
    MOST_WAITING,
    ORDER,
    WINDOWS,
    refuse_without,
)
from pipelines.cli.quiet_file import FLAG as QUIET_FLAG
from pipelines.cli.quiet_file import read_quiet
from pipelines.cli.rule_flags import FLAG as RULES_FLAG
from pipelines.cli.rule_flags import check_rules, rules_from_flags
from pipelines.cli.setting_flags import FlagsOf
from transforms import outputs
from transforms.failures import Failures
from transforms.keyed.expiry import Expiry
from transforms.keyed.silence import SilentAfter
from transforms.learn.late_labels import LateLabels
from transforms.learn.plan import LearnLabels
from transforms.outputs import Asked, schemas
from transforms.periods import SummarisePeriods
from transforms.read.columns import Columns
from transforms.read.label_values import check_label_type
from transforms.track.order import DROP, MERGE, Order
from transforms.track.refusals import late_as_failures
from transforms.track.transform import MeasureMismatch, TrackSubspace

MICRO = 1e-6


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """What is done with rows.

    Attributes:
        columns: What each field of a row is.
        spec: The tracker's spec.
        order: How rows are put in order.
        extras: More features per row.
        measure: Windows whose kernel mismatch is measured.
        drift: How changes of the loss are detected.
        reference: What rows are compared with to find episodes.
        periods: How devices are compared with their past and with each other, by period; None: they
            are not.
        silent_after: Time without a row after which a device is silent, or "auto"; None: none is.
        fleet_false_share: Share of the list's devices that are false, at most; None: no list.
        given: Where models take their references from; None: of their own first rows.
        quiet: Times at which rows are not compared with references.
        rules: Which episodes count.
        feedback: What people said of episodes.
        learner: The learner's spec, if labels are to be learned.
        late: How long rows wait for delayed labels; None: there are none.
        metrics_window: Seconds of the windows of the learner's metrics.
        snapshot_every: Seconds between snapshots.
        before: Snapshots to begin from.
        start: Landmarks that models begin from.
        float32: Snapshots of trackers in single precision.
        devices: Whether it is told what is known of each device; no result depends on it.
        drop_overlap: Whether rows that the snapshots have learned from are left out, not refused.
    """

    columns: Columns
    spec: SubspaceSpec
    order: Order
    extras: tuple[str, ...] = ()
    measure: MeasureMismatch | None = None
    drift: DriftSpec | None = None
    reference: ReferenceSpec | None = None
    periods: PeriodsSpec | None = None
    silent_after: str | None = None
    fleet_false_share: float | None = None
    given: GivenReferences | None = None
    quiet: QuietTimes | None = None
    rules: Rules | None = None
    feedback: Feedback | None = None
    learner: LearnerSpec | None = None
    late: LateLabels | None = None
    metrics_window: float | None = None
    snapshot_every: float | None = None
    before: SnapshotFolder | None = None
    start: StartSet | None = None
    float32: bool = False
    devices: bool = False
    drop_overlap: bool = False

    @property
    def known_by_flag(self) -> dict[str, Sequence[Entry]]:
        """What people know of devices or groups, by the flag that says it."""
        return {
            RULES_FLAG: () if self.rules is None else self.rules.rules,
            QUIET_FLAG: () if self.quiet is None else self.quiet.times,
            FEEDBACK_FLAG: () if self.feedback is None else self.feedback.said,
        }

    @property
    def live_quiet(self) -> QuietTimes | None:
        """The quiet times of a live job, which may be told of others; None: it can have none."""
        if self.reference is None or self.columns.time is None:
            return None
        known = self.quiet or QuietTimes((), zone=self.columns.options.time_zone)
        until = self.reference.until
        least = None if until is None else parse_moment("--reference-until", until)
        return dataclasses.replace(known, least=least)

    def in_groups(self, groups: Mapping[str, str]) -> Job:
        """Return the job in which what is known of a group is known of each of its devices.

        Args:
            groups: Each device's group.
        """
        return dataclasses.replace(
            self,
            quiet=self.quiet and dataclasses.replace(self.quiet, groups=groups),
            rules=self.rules and dataclasses.replace(self.rules, groups=groups),
            feedback=self.feedback and dataclasses.replace(self.feedback, groups=groups),
        )

    def _text_settings(self) -> dict[str, Any]:
        """Return how texts and marks of missing values are read, where there are some."""
        columns = self.columns
        found = {
            "words": {name: list(words) for name, words in columns.words.items()},
            "units": columns.units,
            "null_values": [*columns.nulls, *columns.null_texts],
            "counters": list(columns.counters),
            "conditions": dict(columns.options.conditions),
        }
        return {name: value for name, value in found.items() if value}

    def _long_settings(self) -> dict[str, str]:
        table = self.columns.long
        return {} if table is None else {"metric": table.metric, "value": table.value}

    def asked(self, bounded: bool = True) -> Asked:
        """Return what the outputs depend on; `bounded`: whether the input ends."""
        return Asked(
            spec=self.spec,
            has_time=self.columns.time is not None,
            width=self.columns.width,
            label=self.columns.label_type,
            extras=self.extras,
            measure=self.measure is not None,
            drift=self.drift is not None,
            reference=self.reference is not None,
            mutes=self.rules is not None or self.feedback is not None,
            devices=self.devices,
            periods=self.periods is not None,
            silent=self.silent_after is not None,
            listed=self.fleet_false_share is not None,
            learner=self.learner,
            late=self.late is not None,
            metrics_window=self.metrics_window is not None,
            bounded=bounded,
        )

    def settings(self) -> dict[str, Any]:
        """Return all that results depend on, beside the rows."""
        return {
            "tracker": self.spec.to_dict(),
            "learner": self.learner and self.learner.to_dict(),
            "drift": self.drift and self.drift.to_dict(),
            "reference": self.reference and self.reference.to_dict(),
            **({} if self.periods is None else {"periods": self.periods.to_dict()}),
            **({} if self.given is None else {"reference_from": self.given.digest()}),
            **({"overlap": DROP} if self.drop_overlap else {}),
            "measure": self.measure and self.measure.in_ns().to_dict(),
            "order": dataclasses.asdict(self.order),
            "late": self.late and dataclasses.asdict(self.late),
            "metrics_window": self.metrics_window,
            "snapshot_every": self.snapshot_every,
            "start_from": self.start and self.start.digest(),
            "extras": list(self.extras),
            "times": self.columns.options.how_times(),
            "columns": {
                "model_id": self.columns.model_id,
                "time": " ".join(self.columns.times) or None,
                "sequence": self.columns.sequence,
                "label": self.columns.label,
                "features": list(self.columns.channels),
                **self._long_settings(),
                **self._text_settings(),
            },
        }


def job_from_flags(
    args: argparse.Namespace, columns: Columns, order: dict[str, Any], labels: str
) -> Job:
    """Build the job of a command line.

    Args:
        args: The parsed flags.
        columns: What each field of a row is.
        order: What holds of `Order` where no flag says it, if not its own defaults.
        labels: The flag that says where delayed labels come from.

    Raises:
        ConfigError: for a bad flag or spec, or flags that do not go together.
        DataError: for snapshots, landmarks or a spec that cannot be read.
    """
    has_time = columns.time is not None
    start = _start_from_flags(args, columns.width)
    before = None if args.warm_start is None else SnapshotFolder(args.warm_start)
    spec = spec_options.tracker_from_flags(args, before.spec if before else None)
    delayed = bool(getattr(args, labels.removeprefix("--").replace("-", "_")))
    learner = spec_options.learner_from_flags(
        args, before.learner_spec if before else None, spec, delayed
    )
    place = spec_options.reference_place(args)
    given = None if place is None else GivenReferences(place)
    if not has_time:
        refuse_without(args, "snapshot_every", ["time"])
    with spec_options.TRACKER.named():
        # What the messages of a live job hold is seen when they come.
        check_state_size(spec, max(columns.width, 1))
    reference = spec_options.reference_from_flags(args, given.spec if given else None, columns)
    job = Job(
        columns=columns,
        spec=spec,
        order=_order_from_flags(args, order, columns),
        extras=tuple(args.extras),
        measure=measure_from_flags(args, has_time),
        drift=spec_options.drift_from_flags(args),
        reference=_judged_as_before(args, reference, before),
        periods=spec_options.periods_from_flags(args),
        silent_after=getattr(args, "silent_after", None),
        fleet_false_share=getattr(args, "fleet_false_share", None),
        quiet=_quiet_of(args, columns.options.time_zone),
        rules=rules_from_flags(args, columns.channels),
        feedback=feedback_from_flags(args, columns),
        given=given,
        learner=learner,
        late=_late_from_flags(args, columns, learner, labels),
        metrics_window=args.metrics_window,
        snapshot_every=args.snapshot_every,
        before=before if before is None or learner is None else before.with_learner(),
        start=start,
        float32=args.float32,
    )
    if learner is None:
        refuse_without(args, "metrics_window", ["learner"])
    elif not has_time:
        refuse_without(args, "metrics_window", ["time"])
    if learner is not None and job.late is None and columns.label is None:
        raise ConfigError("--learner", learner.learner, f"none without --label or {labels}")
    if spec.needs_times and not has_time:
        raise ConfigError("--time", None, "the column of event times: the half-life is in seconds")
    if job.reference is not None and job.reference.needs_times and not has_time:
        allowed = "the column of event times: the reference's stretch, span or rate is in time"
        raise ConfigError("--time", None, allowed)
    if job.silent_after is not None:
        allowed_time("--silent-after", job.silent_after)
        if not has_time:
            allowed = "the column of event times: --silent-after needs them"
            raise ConfigError("--time", None, allowed)
    if job.fleet_false_share is not None:
        check_share("--fleet-false-share", job.fleet_false_share)
        if job.reference is None:
            refuse_without(args, "fleet_false_share", ["reference"])
    if columns.unseen and (job.reference is None or job.reference.condition is None):
        allowed = f"a condition, as the run before had one: {', '.join(columns.unseen)} is not seen"
        raise ConfigError("--only-while", None, allowed)
    _check_known(job)
    if job.before is not None:
        _check_before(job, job.before)
    if given is not None and job.reference is not None:
        with spec_options.REFERENCE.named():
            given.check(job.reference)
        given.check_width(columns.width)
    if learner is not None and columns.label is not None:
        check_label_type(learner, columns.label_type)
    return job


def _judged_as_before(
    args: argparse.Namespace, reference: ReferenceSpec | None, before: SnapshotFolder | None
) -> ReferenceSpec | None:
    """Return a reference that judges the rows that the run before judged, unless flags say more."""
    was = None if before is None else before.reference_spec
    if reference is None or was is None or not reference.moves:
        return reference
    if spec_options.says_what_is_judged(args):
        return reference
    return dataclasses.replace(reference, also_every=was.also_every)


def _quiet_of(args: argparse.Namespace, zone: str) -> QuietTimes | None:
    """Return the quiet times of `--quiet`, without the groups of devices; None without.

    `zone` is that of times which name no offset.
    """
    path = getattr(args, "quiet", None)
    return None if path is None else QuietTimes(read_quiet(path, zone), zone=zone)


def _check_known(job: Job) -> None:
    """Refuse what people know of devices where nothing is judged, or rows lack what it needs."""
    if job.quiet is not None:
        _check_quiet(job, job.quiet)
    check_rules(job.rules, job.reference)
    check_feedback(job.feedback, job.reference)


def _check_quiet(job: Job, quiet: QuietTimes) -> None:
    """Refuse quiet times where nothing is judged, or while a stretch ends at a time."""
    if job.reference is None:
        raise ConfigError("--quiet", len(quiet.times), "left out without --reference")
    if job.columns.time is None:
        raise ConfigError("--time", None, "the column of event times: --quiet needs them")
    if job.reference.until is None:
        return
    until = parse_moment("--reference-until", job.reference.until)
    if any(isinstance(each, RecurringTime) or each.start < until for each in quiet.times):
        allowed = "a time before all those of --quiet, or left out"
        raise ConfigError("--reference-until", job.reference.until, allowed)


def refuse_periods(job: Job, check: Callable[[Order, int], None]) -> None:
    """Refuse periods, if they are asked for, of rows without times, or that `check` refuses.

    Args:
        job: The job.
        check: As of `check_periods`.

    Raises:
        ConfigError: naming the flag.
    """
    if job.periods is None:
        return
    if job.columns.time is None:
        raise ConfigError("--time", None, "the column of event times: --periods needs them")
    with flags_named({name: ORDER.flag(name) for name in ("max_disorder", "max_jump")}):
        check(job.order, job.columns.width)


def _check_before(job: Job, before: SnapshotFolder) -> None:
    """Refuse to go on from snapshots of other settings or of other rows."""
    with spec_options.TRACKER.named():
        before.check(job.spec)
    if job.learner is not None:
        with spec_options.LEARNER.named():
            before.check(job.learner)
    before.check_width(job.columns.width)


def _order_from_flags(
    args: argparse.Namespace, defaults: dict[str, Any], columns: Columns
) -> Order:
    if columns.long is not None:
        given = args.duplicates
        if given not in (None, MERGE):
            raise ConfigError("--duplicates", given, f"{MERGE} or left out with --metric")
        if args.max_disorder is not None and float(args.max_disorder) == 0:
            allowed = "over 0 with --metric: rows of one time wait for each other"
            raise ConfigError("--max-disorder", args.max_disorder, allowed)
        defaults = {**defaults, "duplicates": MERGE}
    order = ORDER.read(args, **defaults)
    if order.duplicates == MERGE and columns.time is None:
        raise ConfigError("--duplicates", MERGE, "left out without --time")
    if args.missing != "hold":
        return dataclasses.replace(order, hold_for=None)
    return dataclasses.replace(
        order, hold_for=HOLD_FOR if order.hold_for is None else order.hold_for
    )


def measure_from_flags(args: argparse.Namespace, has_time: bool) -> MeasureMismatch | None:
    """Return the windows that were asked for, if any.

    Raises:
        ConfigError: for a length out of range, or flags that say nothing without others.
    """
    windows: Any = None
    needed: dict[str, tuple[str, ...]] = {
        "window_period": ("window",),
        "window_offset": ("window",),
        "window_rows": ("window", "moving_window"),
        "confidence": ("window", "moving_window"),
    }
    for flag, others in needed.items():
        if all(getattr(args, other) is None for other in others):
            refuse_without(args, flag, others)
    if args.window is not None:
        if not has_time:
            raise ConfigError("--window", args.window, "left out without --time")
        length = _length("--window", args.window)
        offset = 0.0 if args.window_offset is None else args.window_offset
        check_number("--window-offset", offset, Range(-1 / MICRO, 1 / MICRO))
        if args.window_period is None:
            windows = FixedWindows(length, offset)
        else:
            windows = SlidingWindows(length, _length("--window-period", args.window_period), offset)
    if windows is None and args.moving_window is None:
        return None
    with flags_named(FLAGS):
        return FlagsOf(MeasureMismatch, WINDOWS.names).read(args, windows=windows)


def _length(flag: str, value: float) -> float:
    if not MICRO <= value <= 1 / MICRO:
        raise ConfigError(flag, value, "seconds from 0.000001 to 1000000")
    return value


def _start_from_flags(args: argparse.Namespace, width: int) -> StartSet | None:
    """Return the landmarks that models of so many features begin from, if there are any."""
    if args.start_from is None:
        return None
    if args.warm_start is not None:
        raise ConfigError("--start-from", args.start_from, "left out with --warm-start")
    start = landmark_file.read_start(args.start_from)
    if start.rows.shape[1] != width:
        raise ConfigError("number of features", width, f"that of landmarks: {len(start.scale)}")
    return start


def _late_from_flags(
    args: argparse.Namespace, columns: Columns, learner: LearnerSpec | None, flag: str
) -> LateLabels | None:
    """Return how long rows wait for delayed labels, None if there are none."""
    place = flag.removeprefix("--").replace("-", "_")
    given = getattr(args, place)
    if not given:
        for other in ("label_index", "label_column", "label_wait", "label_rows"):
            refuse_without(args, other, [place])
        return None
    shown = given if isinstance(given, str) else given[0]
    if learner is None:
        raise ConfigError(flag, shown, "left out without --learner")
    if columns.time is None:
        refuse_without(args, "label_wait", ["time"])
        if args.label_index is None:
            raise ConfigError(flag, shown, "left out without --label-index or --time")
    return LATE_LABELS.read(
        args, wait=None, most_rows=1 if args.label_wait is None else MOST_WAITING
    )


class JobResults(NamedTuple):
    """What comes out of a job's steps.

    Attributes:
        chunks: By name of the output, `tuple[str, Chunk]` and their schema.
        failures: Rows that were refused.
        lost_labels: Delayed labels that no row takes.
        snapshots: Of trackers and learners.
    """

    chunks: dict[str, tuple[Any, pa.Schema]]
    failures: list[Any]
    lost_labels: list[Any]
    snapshots: Any


def transform_of(job: Job, *, bounded: bool = True, expiry: Expiry | None = None) -> TrackSubspace:
    """Return a job's transform: its tracker, and its learner if it has one.

    Raises:
        ConfigError: for a setting out of range, or those that do not go together.
    """
    with flags_named(FLAGS):
        learner = None
        if job.learner is not None:
            learner = LearnLabels(job.learner, job.late, job.metrics_window, bounded)
        silent_after = None
        if job.silent_after is not None and not bounded:
            silent_after = SilentAfter.of(job.silent_after)
        return TrackSubspace(
            job.spec,
            job.order,
            job.extras,
            learner=learner,
            measure=job.measure,
            drift=job.drift,
            reference=job.reference,
            periods=None if bounded else job.periods,
            given=job.given,
            quiet=job.quiet if bounded else job.live_quiet,
            rules=job.rules,
            feedback=job.feedback,
            silent_after=silent_after,
            snapshot_every=job.snapshot_every,
            warm=job.start or job.before,
            expiry=expiry,
            devices=job.devices,
            drop_overlap=job.drop_overlap,
            channels=job.columns.channels,
        )


def apply_job(
    job: Job, rows: Any, labels: Any = None, *, bounded: bool = True, expiry: Expiry | None = None
) -> JobResults:
    """Put a job's steps behind its rows.

    Args:
        job: What is done with them.
        rows: `tuple[str, Chunk]`.
        labels: Delayed labels, if the job has any.
        bounded: Whether the input ends.
        expiry: When models that are silent leave the runner's state; None: never.
    """
    asked = job.asked(bounded)
    with flags_named(FLAGS):
        track = transform_of(job, bounded=bounded, expiry=expiry)
        tracked = (rows if labels is None else (rows, labels)) | "TrackSubspace" >> track
    late = tracked[outputs.LATE] | "LateAsFailures" >> beam.Map(late_as_failures).with_output_types(
        Failures
    )
    found = JobResults({}, [tracked[outputs.FAILURES], late], [], tracked[outputs.SNAPSHOTS])
    for name, schema in schemas(asked, outputs.TRACKER, outputs.LEARNER).items():
        found.chunks[name] = (tracked[name], schema)
    if job.learner is not None:
        found.lost_labels.append(tracked[outputs.LOST_LABELS])
    for name, schema in schemas(asked, outputs.PERIOD).items():
        if bounded and job.periods is not None:
            summarise = SummarisePeriods(job.periods, job.order, job.columns.width)
            found.chunks[name] = (rows | "Periods" >> summarise, schema)
        else:
            found.chunks[name] = (tracked[name], schema)
    return found
