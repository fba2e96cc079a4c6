"""How the stream tests run `TrainLinear`, on features made without a tracker."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from apache_beam import pvalue
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from kerneltrack.learners import LearnerSpec, RidgeSpec
from tests.stream.running import empty_cells, live_pipeline
from transforms.chunks import Chunk, matrix_column
from transforms.failures import Failures
from transforms.keyed.expiry import Expiry
from transforms.learn.inputs import are_labels, narrow_labels
from transforms.learn.plan import Plan
from transforms.outputs import LOST_LABELS
from transforms.track.keyed_fn import with_timers
from transforms.track.log import Cells, LearnerBytes, ModelLog
from transforms.train import (
    FAILURES,
    METRICS,
    PREDICTIONS,
    SCORED,
    SNAPSHOTS,
    TrainFn,
    TrainLinear,
    narrowed,
)

SECOND = 10**9
WIDTH = 3
SPEC = RidgeSpec(max_classes=5)
CLASSES = ("still", "walk", "run", "climb")

Element = tuple[str, Chunk]
Record = dict[str, Any]


@dataclass(frozen=True)
class FeatureTable:
    """Features of one model, n rows in the order of their index."""

    time: npt.NDArray[np.int64] | None
    z: npt.NDArray[np.float64]
    label: list[Any]
    first: int = 0

    def __len__(self) -> int:
        return len(self.z)

    def part(self, start: int, stop: int) -> FeatureTable:
        time = None if self.time is None else self.time[start:stop]
        return FeatureTable(time, self.z[start:stop], self.label[start:stop], self.first + start)

    def chunk(self, kind: pa.DataType | None = None) -> Chunk:
        columns: dict[str, Any] = {"index": pa.array(self.first + np.arange(len(self)))}
        if self.time is not None:
            columns["time"] = pa.array(self.time)
        columns["source"] = pa.array(np.zeros(len(self), np.int32))
        columns["row"] = pa.array(self.first + np.arange(len(self)))
        columns["loss"] = pa.array(np.ones(len(self)))
        columns["z"] = matrix_column(self.z)
        columns["label"] = pa.array(self.label, kind)
        return Chunk(pa.RecordBatch.from_pydict(columns))

    def cut(self, sizes: Iterable[int], kind: pa.DataType | None = None) -> list[Chunk]:
        """Cut into chunks of these sizes; the last size goes on to the end."""
        chunks, start, size = [], 0, 1
        endless = itertools.chain(sizes, itertools.repeat(None))
        while start < len(self):
            size = next(endless) or size
            chunks.append(self.part(start, min(start + size, len(self))).chunk(kind or self.kind))
            start += size
        return chunks

    @property
    def kind(self) -> pa.DataType:
        """The type of the labels; without any, the one that every task takes."""
        return pa.array(self.label).type


def make_features(
    count: int,
    *,
    seed: int = 0,
    spec: LearnerSpec = SPEC,
    times: npt.ArrayLike | None = None,
    missing: float = 0.2,
    width: int = WIDTH,
) -> FeatureTable:
    """Rows whose classes appear late and whose labels are sometimes missing; 2 rows a second."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(count, width))
    when = np.arange(count) * (SECOND // 2) if times is None else np.asarray(times)
    absent = rng.random(count) < missing
    labels: list[Any]
    if spec.classifies:
        most = 1 + np.arange(count) * len(CLASSES) // count
        shift = np.argmax(np.abs(z), axis=1)
        codes = np.minimum(shift + (z[:, 0] > 0), most - 1)
        labels = [CLASSES[code] for code in codes]
    else:
        labels = (z.sum(axis=1) + 0.1 * rng.normal(size=count)).tolist()
    known = [None if gone else label for gone, label in zip(absent, labels, strict=True)]
    return FeatureTable(when.astype(np.int64), z, known)


@dataclass(frozen=True)
class Late:
    """A label that comes late: it names rows by index or by time."""

    label: Any
    index: int | None = None
    time: int | None = None
    source: int = 7
    row: int = 0


def label_chunk(labels: Sequence[Late], kind: pa.DataType | None = None) -> Chunk:
    """Labels that all name rows in the same way."""
    name = "time" if labels[0].index is None else "index"
    columns = {
        name: pa.array([getattr(label, name) for label in labels], pa.int64()),
        "source": pa.array([label.source for label in labels], pa.int32()),
        "row": pa.array([label.row for label in labels], pa.int64()),
        "label": pa.array([label.label for label in labels], kind),
    }
    return Chunk(pa.RecordBatch.from_pydict(columns))


@dataclass
class Outcome:
    """Everything that came out of `TrainLinear`."""

    predictions: dict[str, list[Record]] = field(default_factory=dict)
    scored: dict[str, list[Record]] = field(default_factory=dict)
    metrics: dict[str, list[Record]] = field(default_factory=dict)
    snapshots: dict[str, list[bytes]] = field(default_factory=dict)
    failures: list[tuple[str | None, int, int, str]] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)


_OUTCOMES: dict[int, Outcome] = {}
_NUMBERS = itertools.count()


def _keep(element: Any, name: str, number: int) -> None:
    """Workers of in-process runners share this module with the test."""
    outcome = _OUTCOMES[number]
    if name == FAILURES:
        assert isinstance(element, Failures)
        outcome.failures += [tuple(entry.values()) for entry in element.batch.to_pylist()]
        return
    key, value = element
    kept: Any = getattr(outcome, name).setdefault(key, [])
    if name == SNAPSHOTS:
        kept.append(value)
    else:
        kept.extend(value.batch.to_pylist())
        outcome.sizes.append(len(value))


def _apply(pipeline: beam.Pipeline, source: Any, spec: LearnerSpec, options: Any) -> Outcome:
    number = next(_NUMBERS)
    outcome = _OUTCOMES[number] = Outcome()
    elements = pipeline | "Elements" >> source.with_output_types(Element)
    inputs: Any = elements
    if options.get("late") is not None:
        inputs = tuple(
            elements
            | f"Only {name}" >> beam.Filter(lambda pair, wanted: pair[1].has("z") == wanted, wanted)
            for name, wanted in (("features", True), ("labels", False))
        )
    outputs = inputs | "TrainLinear" >> TrainLinear(spec, **options)
    assert set(outputs) - {SCORED} == {PREDICTIONS, METRICS, SNAPSHOTS, FAILURES}
    for name, output in outputs.items():
        _ = output | f"Keep {name}" >> beam.Map(_keep, name, number)
    try:
        result = pipeline.run()
        result.wait_until_finish()
    finally:
        del _OUTCOMES[number]
    for counter in result.metrics().query()["counters"]:
        outcome.counters[counter.key.metric.name] = counter.committed
    outcome.failures.sort(key=lambda entry: (str(entry[0]), *entry[1:]))
    for rows in (*outcome.predictions.values(), *outcome.scored.values()):
        rows.sort(key=lambda entry: entry["index"])
    for lines in outcome.metrics.values():
        lines.sort(key=lambda line: (line["start"] is None, line["start"]))
    return outcome


def train(
    elements: Sequence[Element],
    spec: LearnerSpec = SPEC,
    runner: Any = None,
    flags: Sequence[str] = (),
    **options: Any,
) -> Outcome:
    """Run a bounded pipeline over features (and labels) in this order."""
    pipeline = beam.Pipeline(runner=runner or FnApiRunner(), options=PipelineOptions(list(flags)))
    return _apply(pipeline, beam.Create(list(elements)), spec, options)


def train_stream(
    bundles: Sequence[Sequence[Element]], spec: LearnerSpec = SPEC, **options: Any
) -> Outcome:
    """Run a live pipeline to which the elements arrive bundle by bundle, in this order."""
    return _apply(*live_pipeline(bundles), spec, {"bounded": False, **options})


class _Timer:
    def set(self, when: Any) -> None:
        """Fires by hand in these tests."""

    def clear(self) -> None:
        """As `set`."""


class Step:
    """The stateful step itself, bundle by bundle, for what a whole pipeline does not show."""

    def __init__(
        self,
        spec: LearnerSpec,
        *,
        bounded: bool = False,
        expiry: Expiry | None = None,
        **plan: Any,
    ) -> None:
        self._cells: dict[str, dict[str, Any]] = {}
        self._plan = Plan(spec=spec, bounded=bounded, **plan)
        step = with_timers(TrainFn, "end", expiry is not None)
        self._step: Any = step(self._plan, None, expiry)
        names = ["end"] if expiry is None else ["end", "idle", "silent"]
        self._timers = {name: _Timer() for name in names}

    def kept(self, key: str = "m") -> bytes | None:
        """What is kept of a model's learner."""
        return ModelLog(Cells(**self.cells(key))).learner

    def put(self, data: bytes, key: str = "m") -> None:
        """Let this be kept of a model's learner."""
        self.cells(key)["log"].add(LearnerBytes(data))

    def cells(self, key: str = "m") -> dict[str, Any]:
        """The cells of a model."""
        return self._cells.setdefault(key, empty_cells())

    def take(self, chunk: Chunk) -> list[tuple[str, Any]]:
        """What comes out as a chunk of features or labels comes in: output and element."""
        return [output for element in self._narrowed("m", chunk) for output in self._run([element])]

    def push(self, bundle: Sequence[Element]) -> list[tuple[str, Any]]:
        """What comes out as a bundle comes in: output and element."""
        return self._run([part for pair in bundle for part in self._narrowed(*pair)])

    def _narrowed(self, key: str, chunk: Chunk) -> list[Element]:
        if are_labels(chunk):
            return [narrow_labels((key, chunk), self._plan.spec)]
        return list(narrowed((key, chunk), self._plan))

    def _run(self, bundle: Sequence[Element]) -> list[tuple[str, Any]]:
        self._step.start_bundle()
        outputs: list[Any] = []
        for element in bundle:
            given = {**self.cells(element[0]), **self._timers}
            outputs += self._step.process(element, **given, timestamp=Timestamp(0))
        outputs += self._step.finish_bundle()
        return [_named(output) for output in outputs]

    def expire(self) -> list[tuple[str, Any]]:
        """What comes out as the model has been silent for long."""
        timers = {name: self._timers[name] for name in ("end", "silent")}
        due = time.time() + 60
        with patch("time.time", lambda: due):
            outputs = [*self._step.at_silence("m", **self.cells(), **timers, due=due)]
        return [_named(output) for output in outputs]

    def end(self, key: str = "m") -> list[tuple[str, Any]]:
        return [_named(output) for output in self._step.at_end(key, **self.cells(key))]


def _named(output: Any) -> tuple[str, Any]:
    assert isinstance(output, pvalue.TaggedOutput)
    tag, value = FAILURES if output.tag == LOST_LABELS else str(output.tag), output.value
    # What `finish_bundle` gives says where it belongs.
    return tag, value.value if isinstance(value, WindowedValue) else value
