"""TrainLinear: one linear learner per model, predicting and learning from its features in order."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
from apache_beam import pvalue
from apache_beam.transforms.window import GlobalWindows

from kerneltrack.errors import ConfigError
from kerneltrack.learners import LearnerSpec
from kerneltrack.settings import Range, check_number
from kerneltrack.snapshots.folder import SnapshotFolder
from transforms.arguments import check_kind
from transforms.chunks import Chunk
from transforms.keyed.expiry import Expiry
from transforms.keyed.timers import timer_name
from transforms.learn.late_labels import LateLabels
from transforms.learn.run import Plan
from transforms.learn.step import MAX_SPAN, LearnFn, learn_fn
from transforms.learn.turns import NarrowFn, narrow_labels
from transforms.outputs import (
    FAILURES,
    LEARNER,
    METRICS,
    PREDICTIONS,
    SCORED,
    SNAPSHOTS,
    names_of,
)
from transforms.read.label_values import check_label_type
from transforms.step import run_step
from transforms.track.clock import nanoseconds

__all__ = [
    "FAILURES",
    "METRICS",
    "PREDICTIONS",
    "SCORED",
    "SNAPSHOTS",
    "LateLabels",
    "TrainLinear",
    "check_label_type",
]


class TrainLinear(beam.PTransform[Any, dict[str, pvalue.PCollection[Any]]]):
    """Train one linear learner per model on the features of `TrackSubspace`, prequentially.

    Input: features, `tuple[str, Chunk]` with index, z (or q), x where the learner's `inputs` are
    not "features", time and label as far as there are any; with `late` the pair (features,
    labels), or a dict of the two. Labels are `tuple[str, Chunk]` with index (int64) or time
    (int64, ns), label, source, row: each names one row, or all rows of one time. Keyed by model
    ID, in the global window (other windowing is replaced).

    Order: rows are taken strictly in order of their index, which has no gaps. Chunks that come
    before their turn wait, rows that come twice are left out and counted; a gap at the end of
    the input is an error. So results depend on the rows, their labels and the spec alone.

    Without `late` each row is predicted, scored and learned from at once; one without a label is
    predicted only. With `late` every row is settled, that is scored and learned from with the
    features it was predicted from, when the model's rows pass its deadline (`LateLabels`); its
    label is then, of those that came with it or name it, its own or the first in order of
    (source, row). As long as labels come before the deadlines of their rows, nothing depends on
    when they come. A bounded job holds rows and labels until the end of the input: no label
    comes too late there.

    Output, a dict of PCollections:
      predictions: `tuple[str, Chunk]`, columns as in
        `transforms.write.schemas.predictions_schema`: one row for each row of features, when it is
        settled; in unbounded jobs with `late` at once, without label.
      scored: unbounded jobs with `late` only: the predictions again, when they are settled.
      metrics: `tuple[str, Chunk]`, columns as in `transforms.write.schemas.metrics_schema`:
        one line a window of event time that holds rows, once all of these are settled and a row at
        or after its end has come; at the end of the input one for the window that is open and,
        start and end null, one for all rows. A row counts where it was predicted. Rows of a model
        that was taken up from snapshots count on from there.
      snapshots: `tuple[str, bytes]`, `codec.encode_learner` of the state after all rows before a
        boundary, and at the end of the input. Rows that wait for labels are part of it, with the
        labels that name them; they are settled by the job that goes on from it (and, for the
        outputs above, by the job that ends).
      failures: `Failures`, labels that no row takes: too late, without row or model, a further
        label of the same row, too far ahead.

    State per model: the learner's, the rows and labels that wait, one value read and written for
    each bundle; the confusion, at most `max_classes`² counts; chunks that came before their turn.

    Args:
        spec: The learner's spec.
        late: How long rows wait for labels; None: labels come with the rows.
        window: Length of the metrics' windows, seconds of event time; None: only the total.
        snapshot_every: Seconds of event time between boundaries: multiples of it since 1970,
            where a row passes one.
        warm: Snapshots of an earlier job to begin from. Without a learner's state in them a model
            begins anew, at the row where the tracker goes on.
        bounded: Whether the input ends. Only `late` makes a difference of it.
        expiry: When learners of models that are silent leave the runner's state (see `expiry`);
            None: never. Nothing in the results tells of it.

    Raises:
        ConfigError: for an argument that is out of range or another than in the snapshots; in the
            job itself, for labels of a type that cannot be learned, or rows without times where
            times are needed.
    """

    def __init__(
        self,
        spec: LearnerSpec,
        *,
        late: LateLabels | None = None,
        window: float | None = None,
        snapshot_every: float | None = None,
        warm: SnapshotFolder | None = None,
        bounded: bool = True,
        expiry: Expiry | None = None,
    ) -> None:
        """Check the arguments; see the class."""
        super().__init__()
        check_kind("spec", spec, LearnerSpec, "RidgeSpec()")
        spans = {"window": window, "snapshot_every": snapshot_every}
        for name, seconds in spans.items():
            if seconds is not None:
                check_number(name, seconds, Range(1e-3, MAX_SPAN))
        self._plan = Plan(
            spec=spec,
            late=late,
            window=None if window is None else nanoseconds(window),
            every=None if snapshot_every is None else nanoseconds(snapshot_every),
        )
        if warm is not None:
            warm.check(spec)
        if late is not None and late.wait is not None:
            spans["wait"] = late.wait
        self._timed_by = {name: value for name, value in spans.items() if value is not None}
        self._warm = warm
        self._bounded = bounded
        self._expiry = expiry

    @property
    def late(self) -> LateLabels | None:
        """How long rows wait for labels; None: labels come with the rows."""
        return self._plan.late

    @property
    def bounded(self) -> bool:
        """Whether the input ends."""
        return self._bounded

    def steps(self) -> tuple[NarrowFn, LearnFn]:
        """Return the two steps themselves, for drivers that hold the models' rows in memory."""
        narrow = NarrowFn(self._plan.spec, self._timed_by)
        return narrow, LearnFn(self._plan, self._warm, self._bounded, self._expiry)

    def expand(self, inputs: Any) -> dict[str, pvalue.PCollection[Any]]:
        """Apply the transform."""
        spec, late = self._plan.spec, self._plan.late
        features, labels = _split(inputs, late is not None)
        rows = (
            features
            | "GlobalWindow" >> beam.WindowInto(GlobalWindows())
            | "Narrow"
            >> beam.ParDo(NarrowFn(spec, self._timed_by)).with_output_types(tuple[str, Chunk])
        )
        if labels is not None:
            named = (
                labels
                | "LabelsGlobalWindow" >> beam.WindowInto(GlobalWindows())
                | "Labels" >> beam.Map(narrow_labels, spec).with_output_types(tuple[str, Chunk])
            )
            rows = (rows, named) | "RowsAndLabels" >> beam.Flatten()
        again = late is not None and not self._bounded
        step = learn_fn(timer_name(features.pipeline), self._expiry is not None)
        learn = step(self._plan, self._warm, self._bounded, self._expiry)
        names = names_of(LEARNER, (SCORED,) if again else ())
        return run_step(rows, "Learn", learn, PREDICTIONS, names)


def _split(inputs: Any, late: bool) -> tuple[Any, Any]:
    """Return features and labels, None where none are expected."""
    if isinstance(inputs, dict):
        given = [inputs[name] for name in ("features", "labels") if name in inputs]
    else:
        given = list(inputs) if isinstance(inputs, tuple | list) else [inputs]
    if len(given) != 1 + late:
        expected = "the pair (features, labels)" if late else "features alone, without late"
        raise ConfigError("inputs", f"{len(given)} collections", expected)
    return given[0], given[1] if late else None
