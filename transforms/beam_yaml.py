"""The transforms for pipelines of Beam YAML: rows in, rows out, settings as plain values.

    providers:
      - type: python
        config: {}
        transforms:
          TrackSubspace: transforms.beam_yaml.track_subspace
          MeasureMismatch: transforms.beam_yaml.measure_mismatch
          TrainLinear: transforms.beam_yaml.train_linear

`docs/beam.md` has a whole pipeline. With them Beam's `AnomalyDetection` knows the detector
`KernelReference` (`transforms.anomaly`). Rows that cannot be used go to the output that
`error_handling` names, as Beam's own transforms send them there; without it they end the job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Optional

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam import pvalue
from apache_beam.transforms.window import FixedWindows, SlidingWindows
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import WindowedValue

import transforms.anomaly  # noqa: F401 - registers its detector
from kerneltrack.errors import ConfigError, DataError, fit
from kerneltrack.learners import LearnerSpec, LinearSpec
from kerneltrack.learners.common.spec import BOTH, FEATURES
from kerneltrack.monitor.reference import ReferenceSpec
from kerneltrack.registry import LEARNERS, parse_learner_spec, parse_spec
from kerneltrack.settings import Range, check_number
from kerneltrack.specs import spec_from_dict
from kerneltrack.trackers.common.spec import SubspaceSpec
from transforms.chunks import Chunk, matrix_column
from transforms.failures import Failures
from transforms.global_window import IN_GLOBAL
from transforms.outputs import EPISODES, FAILURES, LATE, MISMATCH, PREDICTIONS
from transforms.outputs import FEATURES as TRACKED
from transforms.rows import ChunksToRows, RowFields, RowsToChunks
from transforms.track.order import Order
from transforms.track.transform import TrackSubspace
from transforms.track.windows import LONGEST, MeasureMismatch
from transforms.train import TrainLinear
from transforms.write.schemas import (
    MISMATCH_SCHEMA,
    episodes_schema,
    features_schema,
    predictions_schema,
)

Outputs = dict[str, pvalue.PCollection[Any]]
ErrorHandling = Optional[Mapping[str, Any]]  # noqa: UP045 - Beam's schemas know this form alone
Text = Optional[str]  # noqa: UP045
Values = Optional[Mapping[str, Any]]  # noqa: UP045
Number = Optional[float]  # noqa: UP045

OUTPUT = "output"
"""The only key of `error_handling` that is known: the errors' name."""


def track_subspace(  # noqa: PLR0913 - the fields of rows beside the settings
    *,
    time: str,
    features: Sequence[str],
    model_id: Text = None,
    label: Text = None,
    targets: bool = False,
    sequence: Text = None,
    time_unit: str = "s",
    tracker: Values = None,
    reference: Values = None,
    max_disorder: Number = None,
    error_handling: ErrorHandling = None,
) -> beam.PTransform[Any, Any]:
    """Track a kernel subspace for each device, and say which rows are unlike its first ones.

    The outputs are `features`, a row for each row, and with `reference` also `episodes`.

    Args:
        time: Field of event times.
        features: Fields of the channels, in order.
        model_id: Field of the device that a row is of; without, all are of one.
        label: Field of the labels, for TrainLinear.
        targets: Whether labels are numbers to predict instead of classes.
        sequence: Field of whole numbers that order rows of equal time.
        time_unit: Unit of times that are numbers, which is s, ms, us or ns since 1970, or excel,
            matlab, labview and others that kerneltrack track --time-unit takes.
        tracker: Settings of the tracker, as "kerneltrack list okfeb" names them, for instance
            rank and budget; "tracker" names another one.
        reference: Settings of the reference, {} for those by default; without, there is none.
        max_disorder: Seconds that rows may be late by; without, rows wait for the input's end.
        error_handling: The output of rows that cannot be used.

    Returns:
        The transform.
    """
    spec = parse_spec(dict(tracker or {}))
    reference_spec = None if reference is None else spec_from_dict(ReferenceSpec, reference)
    if reference_spec is not None and reference_spec.names_channels:
        reference_spec = reference_spec.placed(tuple(features))
    fields = RowFields(model_id, time, tuple(features), label, sequence, time_unit, targets)
    track = TrackSubspace(
        spec, _order(max_disorder), own=label is not None, reference=reference_spec
    )
    schema = _features_schema(spec, fields, reference_spec is not None)
    shown = {TRACKED: schema}
    if reference_spec is not None:
        shown[EPISODES] = episodes_schema(True, len(fields.features))
    return _OnRows(fields, track, shown, error_handling)


def measure_mismatch(  # noqa: PLR0913
    *,
    time: str,
    features: Sequence[str],
    window: float,
    period: Number = None,
    model_id: Text = None,
    sequence: Text = None,
    time_unit: str = "s",
    tracker: Values = None,
    max_disorder: Number = None,
    error_handling: ErrorHandling = None,
) -> beam.PTransform[Any, Any]:
    """Track a kernel subspace for each device, and measure how well it fits windows of rows.

    Args:
        time: Field of event times.
        features: Fields of the channels, in order.
        window: Length of the windows, seconds of event time.
        period: Seconds between their starts; without, they follow one another.
        model_id: Field of the device that a row is of; without, all are of one.
        sequence: Field of whole numbers that order rows of equal time.
        time_unit: Unit of times that are numbers, which is s, ms, us or ns since 1970, or excel,
            matlab, labview and others that kerneltrack track --time-unit takes.
        tracker: Settings of the tracker.
        max_disorder: Seconds that rows may be late by; without, rows wait for the input's end.
        error_handling: The output of rows that cannot be used.

    Returns:
        The transform.
    """
    for name, length in (("window", window), ("period", period)):
        if length is not None:
            check_number(name, length, Range(1e-6, LONGEST))
    windows = FixedWindows(window) if period is None else SlidingWindows(window, period)
    fields = RowFields(model_id, time, tuple(features), None, sequence, time_unit, False)
    spec = parse_spec(dict(tracker or {}))
    track = TrackSubspace(spec, _order(max_disorder), measure=MeasureMismatch(windows))
    return _OnRows(fields, track, {MISMATCH: MISMATCH_SCHEMA}, error_handling)


def train_linear(
    *, learner: Values = None, error_handling: ErrorHandling = None
) -> beam.PTransform[Any, Any]:
    """Predict each row of TrackSubspace, then learn its label.

    Args:
        learner: Settings of the learner, as "kerneltrack list ridge" names them; "learner" names
            another one than ridge. Linear ones get the row and its features, unless
            "inputs" says otherwise.
        error_handling: The output of labels that cannot be learned.

    Returns:
        The transform.
    """
    return _Train(_learner(dict(learner or {})), error_handling)


def _learner(values: dict[str, Any]) -> LearnerSpec:
    values.setdefault("learner", "ridge")
    if issubclass(LEARNERS.spec_type(values["learner"]), LinearSpec):
        values.setdefault("inputs", BOTH)
    return parse_learner_spec(values)


def _order(max_disorder: float | None) -> Order:
    return Order() if max_disorder is None else Order(max_disorder=max_disorder)


def _features_schema(spec: SubspaceSpec, fields: RowFields, reference_spec: bool) -> pa.Schema:
    if fields.label is None:
        return features_schema(spec, None, True, reference=reference_spec)
    kind = pa.float64() if fields.targets else pa.string()
    schema = features_schema(spec, kind, True, reference=reference_spec)
    return schema.append(pa.field("x", pa.list_(pa.float64(), len(fields.features))))


class _OnRows(beam.PTransform[Any, Any]):
    """Rows into chunks, through `TrackSubspace`, and rows again."""

    def __init__(
        self,
        fields: RowFields,
        track: TrackSubspace,
        shown: Mapping[str, pa.Schema],
        error_handling: ErrorHandling,
    ) -> None:
        super().__init__()
        self._chunks = RowsToChunks.of(fields)
        self._track = track
        self._shown = shown
        self._errors = _errors_output(error_handling, shown)

    def expand(self, rows: pvalue.PCollection[Any]) -> Any:
        gathered = self._chunks.gather(rows, whole=True)
        tracked = gathered["rows"] | "Track" >> self._track
        found: Outputs = {
            name: tracked[name] | f"Rows of {name}" >> ChunksToRows(schema)
            for name, schema in self._shown.items()
        }
        kind = _error_type(rows.element_type)
        refused = gathered[FAILURES] | "Refused" >> beam.Map(_refused).with_output_types(kind)
        later = (
            tracked[FAILURES] | "Failed" >> beam.FlatMap(_failed).with_output_types(kind),
            tracked[LATE] | "Late" >> beam.FlatMap(_late).with_output_types(kind),
        )
        return _with_errors(found, (refused, *later), self._errors)


class _Train(beam.PTransform[Any, Any]):
    """Rows of features into chunks, through `TrainLinear`, and rows again."""

    def __init__(self, spec: LearnerSpec, error_handling: ErrorHandling) -> None:
        super().__init__()
        self._spec = spec
        self._train = TrainLinear(spec)
        self._errors = _errors_output(error_handling, (PREDICTIONS,))

    def expand(self, rows: pvalue.PCollection[Any]) -> Any:
        chunks = rows | "Gather" >> beam.ParDo(_FeaturesFn(self._spec)).with_output_types(
            tuple[str, Chunk]
        )
        learned = chunks | "Train" >> self._train
        schema = predictions_schema(self._spec, True)
        found = {PREDICTIONS: learned[PREDICTIONS] | "Rows" >> ChunksToRows(schema)}
        kind = _error_type(rows.element_type)
        failed = learned[FAILURES] | "Failed" >> beam.FlatMap(_failed).with_output_types(kind)
        return _with_errors(found, (failed,), self._errors)


def _errors_output(handling: ErrorHandling, others: Any) -> str | None:
    """Return the name of the output for errors, None where they end the job."""
    if not handling:
        return None
    name = handling.get(OUTPUT)
    if not isinstance(name, str) or not name or name in others or {*handling} != {OUTPUT}:
        allowed = f"{{output: NAME}}, another name than {', '.join(others)}"
        raise ConfigError("error_handling", dict(handling), allowed)
    return name


def _with_errors(found: Outputs, errors: Any, name: str | None) -> Any:
    """Return the outputs, with the errors beside them or as the end of the job."""
    joined = errors | "Errors" >> beam.Flatten()
    if name is None:
        joined | "None" >> beam.Map(_raise)
        return found if len(found) > 1 else next(iter(found.values()))
    return {**found, name: joined}


def _error_type(kind: Any) -> Any:
    element: Any = Optional[kind]  # noqa: UP045
    return RowTypeConstraint.from_fields([("element", element), ("msg", str), ("stack", str)])


def _raise(error: Any) -> None:
    raise DataError("rows", f"{error.msg}; error_handling: {{output: NAME}} sets such rows aside")


def _refused(refused: tuple[Any, str]) -> beam.Row:
    return beam.Row(element=refused[0], msg=refused[1], stack="")


def _failed(failures: Failures) -> Iterator[beam.Row]:
    for line in failures.batch.to_pylist():
        msg = fit(f"model {line['model_id']!r}: {line['reason']}")
        yield beam.Row(element=None, msg=msg, stack="")


def _late(part: tuple[str, Chunk]) -> Iterator[beam.Row]:
    for time in part[1].column("time").tolist():
        at = Timestamp(micros=time // 1000).to_rfc3339()
        msg = fit(f"model {part[0]!r}: the row of {at} came later than max_disorder allows")
        yield beam.Row(element=None, msg=msg, stack="")


class _FeaturesFn(beam.DoFn):
    """Gather the rows of a bundle, as TrackSubspace gave them, into chunks."""

    def __init__(self, spec: LearnerSpec) -> None:
        self._wants_rows = spec.input_kind != FEATURES
        self._targets = not spec.classifies

    def start_bundle(self) -> None:
        self._models: dict[str, list[Any]] = {}

    def process(self, row: Any) -> None:
        if not hasattr(row, "index") or not (hasattr(row, "z") or hasattr(row, "q")):
            raise ConfigError("input of TrainLinear", type(row).__name__, "TrackSubspace.features")
        self._models.setdefault(row.model_id, []).append(row)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for model, rows in self._models.items():
            rows.sort(key=lambda row: row.index)
            yield WindowedValue((model, Chunk(self._batch(rows))), MIN_TIMESTAMP, IN_GLOBAL)
        self._models = {}

    def _batch(self, rows: list[Any]) -> pa.RecordBatch:
        name = "z" if hasattr(rows[0], "z") else "q"
        columns: dict[str, pa.Array] = {
            "index": pa.array([int(row.index) for row in rows], pa.int64()),
            "time": pa.array([row.time.micros * 1000 for row in rows], pa.int64()),
            name: _numbers(rows, name),
        }
        if hasattr(rows[0], "x"):
            columns["x"] = _numbers(rows, "x")
        if hasattr(rows[0], "label"):
            kind = pa.float64() if self._targets else pa.string()
            columns["label"] = pa.array([row.label for row in rows], kind)
        return pa.RecordBatch.from_pydict(columns)


def _numbers(rows: list[Any], name: str) -> pa.FixedSizeListArray:
    """Return a column of lists of numbers."""
    return matrix_column(np.array([list(getattr(row, name)) for row in rows], np.float64))


FACTORIES: dict[str, Callable[..., beam.PTransform[Any, Any]]] = {
    "TrackSubspace": track_subspace,
    "MeasureMismatch": measure_mismatch,
    "TrainLinear": train_linear,
}
"""The transforms by the names that they have in YAML."""
