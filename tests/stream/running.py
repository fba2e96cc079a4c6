"""How the stream tests run `TrackSubspace`, and the core alone that they hold it against."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from apache_beam import pvalue
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.testing.test_stream import TestStream
from apache_beam.utils.timestamp import MIN_TIMESTAMP

from kerneltrack import codec
from kerneltrack.in_memory import run_all
from kerneltrack.trackers import OKFEBSpec
from kerneltrack.trackers.common.spec import SubspaceSpec
from transforms.chunks import Chunk, matrix_column
from transforms.failures import Failures
from transforms.track.keyed_fn import with_timers
from transforms.track.log import BAGS, Cells, ModelLog
from transforms.track.step import TrackFn
from transforms.track.transform import (
    ALERTS,
    DEVICES,
    EPISODES,
    FEATURES,
    LATE,
    LOST_LABELS,
    METRICS,
    MISMATCH,
    PREDICTIONS,
    SCORED,
    SNAPSHOTS,
    Order,
    TrackSubspace,
)

SECOND = 10**9
SPEC = OKFEBSpec(rank=3, budget=5, warmup=20, novelty_window=100)

Element = tuple[str, Chunk]
Table = dict[str, npt.NDArray[Any]]
Line = dict[str, Any]
_T = TypeVar("_T")

REALS = (
    *("loss", "novelty", "z", "q", "s"),
    *("ref_loss", "ref_distance", "ref_score", "ref_settled", "p"),
)


@dataclass(frozen=True)
class Rows:
    """A model's rows, n of them, in the order in which they arrive."""

    time: npt.NDArray[np.int64] | None
    x: npt.NDArray[Any]
    source: npt.NDArray[np.int32]
    row: npt.NDArray[np.int64]
    sequence: npt.NDArray[np.int64] | None = None
    label: npt.NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.row)

    def take(self, places: npt.ArrayLike) -> Rows:
        at = np.asarray(places, dtype=np.int64)

        def of(values: Any) -> Any:
            return None if values is None else values[at]

        return Rows(
            of(self.time), self.x[at], self.source[at], self.row[at], of(self.sequence),
            of(self.label),
        )  # fmt: skip

    def in_order(self) -> Rows:
        """Sort by (time, sequence, source, row) with Python's own tuples: slow and obvious."""

        def key(at: int) -> tuple[int, ...]:
            columns = (self.time, self.sequence, self.source, self.row)
            return tuple(int(column[at]) for column in columns if column is not None)

        return self.take(sorted(range(len(self)), key=key))

    def chunk(self) -> Chunk:
        columns: dict[str, Any] = {}
        if self.time is not None:
            columns["time"] = pa.array(self.time)
        if self.sequence is not None:
            columns["sequence"] = pa.array(self.sequence)
        columns["source"] = pa.array(self.source)
        columns["row"] = pa.array(self.row)
        columns["x"] = matrix_column(self.x)
        if self.label is not None:
            columns["label"] = pa.array(self.label.tolist(), pa.string())
        return Chunk(pa.RecordBatch.from_pydict(columns))

    def cut(self, sizes: Iterable[int]) -> list[Chunk]:
        """Cut into chunks of these sizes; the last size goes on to the end."""
        chunks, start, size = [], 0, 1
        endless = itertools.chain(sizes, itertools.repeat(None))
        while start < len(self):
            size = next(endless) or size
            chunks.append(self.take(np.arange(start, min(start + size, len(self)))).chunk())
            start += size
        return chunks


def make_rows(
    count: int,
    *,
    seed: int = 0,
    width: int = 3,
    times: npt.ArrayLike | None = None,
    dtype: npt.DTypeLike = np.float64,
) -> Rows:
    """Make rows of a stream that changes half-way; times are 0, 0.5, 1 ... seconds."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, width))
    x[count // 2 :] = x[count // 2 :] @ rng.normal(size=(width, width)) + 3
    when = np.arange(count) * (SECOND // 2) if times is None else np.asarray(times)
    return Rows(
        time=when.astype(np.int64),
        x=x.astype(dtype),
        source=np.zeros(count, dtype=np.int32),
        row=np.arange(count, dtype=np.int64),
    )


@dataclass
class Outcome:
    """Everything that came out of `TrackSubspace`."""

    features: dict[str, list[Chunk]] = field(default_factory=dict)
    snapshots: list[tuple[str, bytes]] = field(default_factory=list)
    late: list[tuple[str, int, int]] = field(default_factory=list)
    failures: list[tuple[str | None, int, int, str]] = field(default_factory=list)
    mismatch: dict[str, list[Line]] = field(default_factory=dict)
    alerts: dict[str, list[Line]] = field(default_factory=dict)
    episodes: dict[str, list[Line]] = field(default_factory=dict)
    devices: dict[str, list[Line]] = field(default_factory=dict)
    predictions: dict[str, list[Line]] = field(default_factory=dict)
    scored: dict[str, list[Line]] = field(default_factory=dict)
    metrics: dict[str, list[Line]] = field(default_factory=dict)
    lost: list[tuple[str | None, int, int, str]] = field(default_factory=list)

    def keep(self, name: str, element: Any) -> None:
        """Take in an element of the output of this name."""
        if name == FEATURES:
            self.features.setdefault(element[0], []).append(element[1])
        elif name in {MISMATCH, ALERTS, EPISODES, DEVICES, PREDICTIONS, SCORED, METRICS}:
            kept: dict[str, list[Line]] = getattr(self, name)
            kept.setdefault(element[0], []).extend(element[1].batch.to_pylist())
        elif name == SNAPSHOTS:
            self.snapshots.append(element)
        elif name == LATE:
            key, chunk = element
            places = zip(chunk.column("source").tolist(), chunk.column("row").tolist(), strict=True)
            self.late += [(key, source, row) for source, row in places]
        else:
            assert isinstance(element, Failures)
            kept_in = self.lost if name == LOST_LABELS else self.failures
            kept_in += [tuple(entry.values()) for entry in element.batch.to_pylist()]

    def in_order(self) -> Outcome:
        """Put what came out of several models, in whatever order, into one order."""
        self.snapshots.sort()
        self.late.sort()
        self.failures.sort(key=lambda entry: (str(entry[0]), *entry[1:]))
        return self

    def table(self, model_id: str) -> Table:
        """A model's features by column, in index order."""
        whole = Chunk.concat(self.features[model_id])
        order = np.argsort(whole.column("index"), kind="stable")
        return {name: column[order] for name, column in _columns(whole).items()}


_OUTCOMES: dict[int, Outcome] = {}
_NUMBERS = itertools.count()


def _columns(chunk: Chunk) -> Table:
    columns = {}
    for name in chunk.batch.schema.names:
        if name == "evicted":
            evicted = chunk.batch.column("evicted").fill_null(-1)
            columns[name] = evicted.to_numpy(zero_copy_only=False)
        else:
            columns[name] = chunk.column(name)
    return columns


def _keep(element: Any, name: str, number: int) -> None:
    """Workers of in-process runners share this module with the test."""
    _OUTCOMES[number].keep(name, element)


def _apply(pipeline: beam.Pipeline, source: Any, transform: TrackSubspace) -> Outcome:
    number = next(_NUMBERS)
    outcome = _OUTCOMES[number] = Outcome()
    rows = pipeline | "Rows" >> source.with_output_types(Element)
    outputs = rows | "TrackSubspace" >> transform
    for name, output in outputs.items():
        _ = output | f"Keep {name}" >> beam.Map(_keep, name, number)
    try:
        pipeline.run().wait_until_finish()
    finally:
        del _OUTCOMES[number]
    return outcome.in_order()


def track(
    elements: Sequence[Element],
    *,
    spec: SubspaceSpec = SPEC,
    order: Order | None = None,
    extras: tuple[str, ...] = (),
    runner: Any = None,
    flags: Sequence[str] = (),
    **work: Any,
) -> Outcome:
    """Run a bounded pipeline over the elements; `work` goes to `TrackSubspace`."""
    pipeline = beam.Pipeline(runner=runner or FnApiRunner(), options=PipelineOptions(list(flags)))
    transform = TrackSubspace(spec, order, extras, **work)
    return _apply(pipeline, beam.Create(list(elements)), transform)


def track_stream(
    bundles: Sequence[Sequence[Element]],
    *,
    order: Order,
    spec: SubspaceSpec = SPEC,
    extras: tuple[str, ...] = (),
    **work: Any,
) -> Outcome:
    """Run a live pipeline to which the elements arrive bundle by bundle, in this order."""
    return _apply(*live_pipeline(bundles), TrackSubspace(spec, order, extras, **work))


def live_pipeline(bundles: Sequence[Sequence[Element]]) -> tuple[beam.Pipeline, TestStream]:
    """Return a pipeline whose elements arrive bundle by bundle, in this order, and their source."""
    stream = TestStream()
    for bundle in bundles:
        stream = stream.add_elements(list(bundle))
    options = PipelineOptions([])
    options.view_as(StandardOptions).streaming = True
    pipeline = beam.Pipeline(runner=BundleBasedDirectRunner(), options=options)
    return pipeline, stream.advance_watermark_to_infinity()


def taking_turns(chunks: Mapping[str, Sequence[_T]]) -> list[tuple[str, _T]]:
    """Let models take turns, each model's chunks in their order."""
    longest = max(map(len, chunks.values()))
    return [(k, chunks[k][i]) for i in range(longest) for k in chunks if i < len(chunks[k])]


def shuffled(elements: Sequence[_T], seed: int) -> list[_T]:
    """Elements in an order of the seed."""
    order = np.random.default_rng(seed).permutation(len(elements))
    return [elements[i] for i in order.tolist()]


def about(snapshot: bytes) -> dict[str, Any]:
    """What a snapshot says of itself."""
    found: dict[str, Any] = codec.read_header(snapshot)["about"]
    return found


class _Bag:
    """One key's elements, in memory as bytes."""

    def __init__(self, coder: Any) -> None:
        self._coder = coder
        self.encoded: list[bytes] = []

    def read(self) -> list[Any]:
        return [self._coder.decode(data) for data in self.encoded]

    def add(self, value: Any) -> None:
        self.encoded.append(self._coder.encode(value))

    def clear(self) -> None:
        self.encoded = []


def empty_cells() -> dict[str, Any]:
    """The cells of a model that has not come yet, by the step's parameters."""
    return {part.name: _Bag(part.coder) for part in BAGS}


def end_of_bundle(step: Any) -> Iterator[Any]:
    """What a step gives at the end of a bundle, without times and windows."""
    for element in step.finish_bundle():
        if isinstance(element, pvalue.TaggedOutput):
            yield pvalue.TaggedOutput(element.tag, element.value.value)
        else:
            yield element.value


class _Timer:
    """The end of the input fires it."""

    def set(self, when: Any) -> None:
        """`Step.finish` looks at no time."""


class Step:
    """The keyed step itself, element by element: hundreds of streams in a second.

    What it keeps of a model goes through bytes after every element, as in a runner.
    """

    def __init__(
        self,
        *,
        spec: SubspaceSpec = SPEC,
        order: Order | None = None,
        extras: tuple[str, ...] = (),
        **work: Any,
    ) -> None:
        transform = TrackSubspace(spec, order, extras, **work)
        self.work = transform._work
        step = with_timers(TrackFn, "end", live=False)
        reported = transform._work, transform._order, transform._warm
        self._step: Any = step(*reported, plan=transform.plan)
        self._cells: dict[str, dict[str, Any]] = {}
        self.outcome = Outcome()

    def push(self, key: str, chunk: Chunk) -> Outcome:
        """Give the step an element; return what that alone brought out."""
        return self.push_all([(key, chunk)])

    def push_all(self, elements: Iterable[Element]) -> Outcome:
        """Give the step a bundle of elements; return what that alone brought out."""
        out: list[Any] = []
        for key, chunk in elements:
            cells = self._cells.setdefault(key, empty_cells())
            given = {**cells, "end": _Timer(), "timestamp": MIN_TIMESTAMP}
            out += self._step.process((key, chunk), **given)
        return self._take([*out, *end_of_bundle(self._step)])

    def finish(self) -> Outcome:
        """End the input; return all that came out since the first element."""
        for key, cells in self._cells.items():
            self._take(self._step.at_end(key, **cells))
        return self.outcome.in_order()

    def model(self, key: str) -> bytes | None:
        """What is kept of a model, None before its first rows were learned from."""
        data: bytes | None = self._step.state(key, ModelLog(Cells(**self._cells[key])))
        return data

    def _take(self, elements: Iterable[Any]) -> Outcome:
        now = Outcome()
        for element in elements:
            tagged = isinstance(element, pvalue.TaggedOutput)
            name, value = (element.tag, element.value) if tagged else (FEATURES, element)
            now.keep(name, value)
            self.outcome.keep(name, value)
        return now


def step_through(elements: Iterable[Element], **asked: Any) -> Outcome:
    """Run elements through the keyed step alone; `asked` as for `track`."""
    step = Step(**asked)
    for key, chunk in elements:
        step.push(key, chunk)
    return step.finish()


def exact(lines: Iterable[Line]) -> list[Line]:
    """Lines whose reals are equal only if they are so bit for bit."""
    return [
        {name: v.hex() if isinstance(v, float) else v for name, v in line.items()} for line in lines
    ]


def core_alone(rows: Rows, spec: SubspaceSpec = SPEC, extras: tuple[str, ...] = ()) -> Table:
    """The features of rows that are in order already, by the core without Beam."""
    _, features = run_all(spec, rows.x, extras)
    good = features.valid
    table: Table = {"index": features.index[good]}
    for name in ("time", "source", "row"):
        values = getattr(rows, name)
        if values is not None:
            table[name] = values[good]
    for name in ("loss", "novelty", "informative", "evicted", "initial", "z", "q", "s"):
        values = getattr(features, name)
        if values is not None:
            table[name] = values[good]
    if rows.label is not None:
        table["label"] = rows.label[good]
    return table


def assert_same(actual: Table, expected: Table, ignore: Iterable[str] = ()) -> None:
    """Hold features against each other bit for bit."""
    assert sorted(actual) == sorted(expected)
    for name in set(expected) - set(ignore):
        left, right = actual[name], expected[name]
        assert left.shape == right.shape, name
        if name in REALS:
            # As integers: equal bits, so that -0.0 is not 0.0.
            left, right = (np.ascontiguousarray(part).view(np.int64) for part in (left, right))
        differs = np.flatnonzero((left != right).reshape(len(left), -1).any(axis=1))
        assert not len(differs), f"{name} differs first in row {differs[0]} of {len(left)}"
