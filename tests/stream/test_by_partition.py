"""`TrackByPartition`: what the stateful steps give, bit for bit, after one GroupByKey."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import FixedWindows, SlidingWindows

from kerneltrack.errors import ConfigError
from kerneltrack.learners import RidgeSpec
from kerneltrack.monitor.drift import DriftSpec
from kerneltrack.monitor.reference import ReferenceSpec
from kerneltrack.snapshots.packed import slot_of
from kerneltrack.trackers import CovarianceSpec
from tests.stream.running import SECOND, SPEC, Element, make_rows
from transforms import (
    LateLabels,
    LearnLabels,
    MeasureMismatch,
    Order,
    TrackByPartition,
    TrackSubspace,
)
from transforms import TrainLinear as Train
from transforms.chunks import Chunk
from transforms.partition.grouped import PARTITIONS

COUNT = 300
LABELS = np.array(["still", "moving"])
REFERENCE = ReferenceSpec(rows=256, lags=3, rank=3, budget=6, false_alarms=1e-3, per=1)


def models() -> list[Element]:
    """Chunks of a few models in no order; some rows that are refused, one model of these alone."""
    rng, elements = np.random.default_rng(5), []
    for number, key in enumerate(["a", "b", "é", "", "one row", "no row", "d/1"]):
        count = {"one row": 1, "no row": 3}.get(key, COUNT)
        rows = make_rows(count, seed=number)
        object.__setattr__(rows, "label", LABELS[(rows.x[:, 0] > 0).astype(int)])
        if key == "no row":
            rows.x[:] = np.nan
        elif key == "a":
            rows.x[-20:] += 50.0  # An episode.
        elif key == "b":
            rows.x[17] = np.inf
            rows.x[50, 1] = 1e300
        rows = rows.take(np.argsort(np.arange(count) + rng.integers(0, 4, count), kind="stable"))
        elements += [(key, chunk) for chunk in rows.cut([40, 7, 90])]
    return [elements[place] for place in rng.permutation(len(elements))]


ELEMENTS = models()
_KEPT: dict[int, dict[str, dict[Any, list[Any]]]] = {}
_NUMBERS = itertools.count()


def _keep(element: Any, name: str, number: int) -> None:
    """Workers of in-process runners share this module with the test."""
    key, value = element if isinstance(element, tuple) else (None, element)
    _KEPT[number].setdefault(name, {}).setdefault(key, []).append(value)


class _Steps(beam.PTransform[Any, Any]):
    """The stateful steps, their outputs named as those of `TrackByPartition`."""

    def __init__(self, track: TrackSubspace, learn: Train | None = None) -> None:
        super().__init__()
        self._track, self._learn = track, learn

    def expand(self, inputs: Any) -> dict[str, Any]:
        rows, *labels = inputs if isinstance(inputs, tuple) else (inputs,)
        alone = self._track.plan is None
        tracked = (rows if alone or not labels else (rows, *labels)) | self._track
        outputs = {name: [part] for name, part in tracked.items()}
        if not alone:
            outputs["failures"] += outputs.pop("lost_labels")
        if self._learn is not None:
            features = tracked["features"]
            learned = ((features, *labels) if labels else features) | self._learn
            for name, part in learned.items():
                outputs.setdefault(name, []).append(part)
        return {name: parts | f"All {name}" >> beam.Flatten() for name, parts in outputs.items()}


def collected(
    transform: Any, labels: Sequence[Element] | None = None
) -> dict[str, dict[Any, list[Any]]]:
    """Run a pipeline; return what came out by output and model, each output in one order."""
    number = next(_NUMBERS)
    _KEPT[number] = {}
    pipeline = beam.Pipeline(runner=FnApiRunner())
    inputs: Any = pipeline | "R" >> beam.Create(ELEMENTS).with_output_types(Element)
    if labels is not None:
        named = pipeline | "L" >> beam.Create(list(labels)).with_output_types(Element)
        inputs = (inputs, named)
    for name, output in (inputs | "It" >> transform).items():
        _ = output | f"Keep {name}" >> beam.Map(_keep, name, number)
    pipeline.run().wait_until_finish()
    found: dict[str, dict[Any, list[Any]]] = {}
    for name, by_key in _KEPT.pop(number).items():
        for key, values in by_key.items():
            if name == "snapshots":
                found.setdefault(name, {})[key] = sorted(values)
                continue
            # As bytes: -0.0 is not 0.0.
            whole = Chunk.concat([Chunk(value.batch) for value in values]).batch
            found.setdefault(name, {})[key] = sorted(
                repr([(field, _exact(part)) for field, part in line.items()])
                for line in whole.to_pylist()
            )
    return found


def _exact(value: Any) -> Any:
    if isinstance(value, float):
        return value.hex()
    return [_exact(part) for part in value] if isinstance(value, list) else value


JUMPY = DriftSpec(settle=10, block=1, delta=0.1, threshold=1.0, clip=5.0)
"""A detector that alerts often."""
CASES: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
    "plain": ({}, None),
    "learner": ({"own": True}, {}),
    "extras": ({"extras": ("q", "s")}, None),
    "all": (
        {
            "measure": MeasureMismatch(FixedWindows(20)),
            "drift": DriftSpec(settle=20, block=5),
            "reference": REFERENCE,
            "snapshot_every": 30.0,
            "own": True,
        },
        {"window": 20.0, "snapshot_every": 30.0},
    ),
    "reference": ({"reference": REFERENCE}, None),
    "windows": ({"measure": MeasureMismatch(FixedWindows(20)), "own": True}, {"window": 20.0}),
    "sliding": ({"measure": MeasureMismatch(SlidingWindows(20, 7)), "drift": JUMPY}, None),
    "few rows of windows": ({"measure": MeasureMismatch(FixedWindows(50), most_rows=30)}, None),
    "drift": ({"drift": JUMPY, "own": True}, {}),
    "drift and reference": ({"drift": JUMPY, "reference": REFERENCE}, None),
    "reference and learner": ({"reference": REFERENCE, "own": True}, {}),
    "covariance": ({"spec": CovarianceSpec(rank=3, budget=6, warmup=20)}, None),
    "duplicates": ({"order": Order(duplicates="drop")}, None),
    "merge": ({"order": Order(duplicates="merge")}, None),
    "hold": ({"order": Order(hold_for=5.0)}, None),
}


PARTS_OF_ALL = (
    *("extras", "reference", "windows", "few rows of windows", "drift", "drift and reference"),
    *("reference and learner", "covariance", "learner", "sliding"),
)
"""Each night: with each change all of them run at once."""


@pytest.mark.parametrize(
    ("name", "partitions"),
    [
        *(("all", 1), ("all", 5), ("plain", 5)),
        *(("duplicates", 5), ("merge", 5), ("hold", 5)),
        pytest.param("all", PARTITIONS, marks=pytest.mark.nightly),
        *(pytest.param(name, 5, marks=pytest.mark.nightly) for name in PARTS_OF_ALL),
    ],
)
def test_the_results_are_those_of_the_stateful_steps(name: str, partitions: int) -> None:
    work, learns = CASES[name]
    track = TrackSubspace(**{"spec": SPEC, **work})
    learn = None if learns is None else Train(RidgeSpec(), **learns)
    whole = collected(_Steps(track, learn))
    if learns is not None:
        learner = LearnLabels(RidgeSpec(), window=learns.get("window"))
        track = TrackSubspace(**{"spec": SPEC, **work}, learner=learner)
        assert collected(_Steps(track)) == whole
    grouped = collected(TrackByPartition(track, partitions=partitions))
    assert grouped == whole
    assert {"a", "b", "é", "", "one row", "d/1"} == {*whole["features"]} == {*whole["snapshots"]}
    assert sum(len(lines) for lines in whole["failures"].values()) == 5
    if "reference" in work:
        assert whole["episodes"].keys() == {"a"}
    if work.get("drift") is JUMPY:
        assert len(whole["alerts"]) >= 2
    if name == "all":
        assert {"mismatch", "episodes", "metrics", "predictions"} <= {*whole}
        assert len(whole["snapshots"]["a"]) > 4


def test_labels_that_come_late() -> None:
    labels: list[Element] = []
    for key, count in (("a", COUNT), ("d/1", 40), ("nobody", 3)):
        columns = {
            "time": pa.array(np.arange(count) * (SECOND // 2)),
            "source": pa.array(np.full(count, 3, np.int32)),
            "row": pa.array(np.arange(count)),
            "label": pa.array([f"class {number % 3}" for number in range(count)]),
        }
        whole = Chunk(pa.RecordBatch.from_pydict(columns))
        labels += [(key, whole.slice(at, min(at + 90, count))) for at in range(0, count, 90)]
    late = LateLabels(most_rows=1000, wait=20.0)
    track, learn = TrackSubspace(SPEC, own=True), Train(RidgeSpec(), late=late)
    whole_run = collected(_Steps(track, learn), labels)
    both = TrackSubspace(SPEC, own=True, learner=LearnLabels(RidgeSpec(), late))
    assert collected(_Steps(both), labels) == whole_run
    assert collected(TrackByPartition(both), labels) == whole_run
    assert len(whole_run["predictions"]["a"]) == COUNT
    assert any("nobody" in line for lines in whole_run["failures"].values() for line in lines)


def test_rows_that_come_late_are_failures() -> None:
    """In order of source and row: not that in which chunks came."""
    track = TrackSubspace(SPEC, Order(max_disorder=1.0))
    found = collected(TrackByPartition(track))
    assert "late" not in found
    rows = sum(len(chunk) for _, chunk in ELEMENTS)
    taken = sum(len(lines) for lines in found["features"].values())
    refused = [line for lines in found["failures"].values() for line in lines]
    assert taken + len(refused) == rows
    assert collected(TrackByPartition(track, partitions=1)) == found


def test_work_is_even_on_sixteen_workers() -> None:
    """Whoever is free takes the next partition, in no order of size."""
    for size in (lambda n: 10, lambda n: 10 + n % 11):
        rows: Counter[int] = Counter()
        for number in range(100_000):
            rows[slot_of(f"device-{number}", PARTITIONS)] += size(number)
        loads = [0] * 16
        for _, amount in sorted(rows.items()):
            heapq.heappush(loads, heapq.heappop(loads) + amount)
        assert sum(loads) == sum(rows.values())
        assert max(loads) <= 1.2 * sum(loads) / 16


@pytest.mark.parametrize("partitions", [0, 65_537, 1.5, True])
def test_a_number_of_partitions_out_of_range_is_refused(partitions: Any) -> None:
    with pytest.raises(ConfigError, match=r"partitions = .*: must be an integer from 1 to 65536"):
        TrackByPartition(TrackSubspace(SPEC), partitions=partitions)


def test_unbounded_input_is_refused() -> None:
    learner = LearnLabels(RidgeSpec(), LateLabels(most_rows=100, wait=1.0), bounded=False)
    with pytest.raises(ConfigError, match="bounded = False: must be True"):
        TrackByPartition(TrackSubspace(SPEC, learner=learner))
    options = PipelineOptions([])
    options.view_as(StandardOptions).streaming = True
    pipeline = beam.Pipeline(options=options)
    rows = pipeline | TestStream().advance_watermark_to_infinity().with_output_types(Element)
    rows.is_bounded = False
    with pytest.raises(ConfigError, match="rows = 'unbounded': must be bounded"):
        _ = rows | TrackByPartition(TrackSubspace(SPEC))


def test_labels_are_needed_exactly_where_they_are_late() -> None:
    pipeline = beam.Pipeline()
    rows = pipeline | beam.Create(ELEMENTS).with_output_types(Element)
    with pytest.raises(ConfigError, match="inputs = '2 collections': must be rows alone"):
        _ = (rows, rows) | "A" >> TrackByPartition(TrackSubspace(SPEC))
    learner = LearnLabels(RidgeSpec(), LateLabels(most_rows=100, wait=1.0))
    with pytest.raises(ConfigError, match="inputs = '1 collections': must be the pair"):
        _ = rows | "B" >> TrackByPartition(TrackSubspace(SPEC, learner=learner))


def test_the_portable_graph_has_one_group_by_key_and_no_state() -> None:
    """What runners of other languages are given: they need neither state nor timers."""
    pipeline = beam.Pipeline()
    rows = pipeline | beam.Create(ELEMENTS, reshuffle=False).with_output_types(Element)
    _ = rows | TrackByPartition(TrackSubspace(SPEC, learner=LearnLabels(RidgeSpec())))
    graph = pipeline.to_runner_api()
    transforms = graph.components.transforms.values()
    groups = [each for each in transforms if each.spec.urn == "beam:transform:group_by_key:v1"]
    assert len(groups) == 1
    assert not any("stateful" in each for each in graph.requirements)
    (made,) = groups[0].inputs.values()
    coder = graph.components.coders[graph.components.pcollections[made].coder_id]
    key = graph.components.coders[coder.component_coder_ids[0]]
    assert key.spec.urn == "beam:coder:varint:v1"
