"""Learners with a kernel of their own, on the rows: the core's bytes in files and live."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.testing.test_stream import TestStream as Arrivals

from kerneltrack import codec
from kerneltrack.errors import ConfigError
from kerneltrack.in_memory import run_all
from kerneltrack.learners import BSGDSpec, FOGDSpec, LearnerSpec, NOLANASpec, PASpec, POLKSpec
from kerneltrack.registry import parse_learner_spec
from kerneltrack.trackers import RowsSpec
from pipelines.cli.main import main
from tests.e2e.jobs import (
    COLUMNS,
    index_of,
    labelled_table,
    learned_from,
    lines_of,
    matrix,
    models_of,
    nanoseconds,
    record_of,
    track,
    write,
)
from tests.oracles.learner_cases import same_state
from tests.oracles.prequential import core_alone
from tests.stream.learning import SECOND, Element, FeatureTable
from tests.stream.running import make_rows
from tests.stream.test_order import arrival, bundles_of
from transforms.learn.transform import PREDICTIONS, TrainLinear
from transforms.track.order import Order
from transforms.track.transform import FEATURES, LATE, TrackSubspace

ROWS = RowsSpec(rank=3, warmup=50)
FLAGS = ("--tracker", "rows", "--rank", "3", "--warmup", "50", "--learner-warmup", "60")
CASES: dict[str, tuple[str, LearnerSpec, tuple[str, ...]]] = {
    "polk": ("string", POLKSpec(warmup=60), ("--learner", "polk")),
    "polk-regression": (
        "float64",
        POLKSpec(
            task="regression", warmup=60, budget=9, batch=4, scale_targets=False, intervals=0.8
        ),
        tuple(
            "--learner polk --learner-task regression --learner-budget 9 --learner-batch 4 "
            "--no-learner-scale-targets --intervals 0.8".split()
        ),
    ),
    "nolana": (
        "string",
        NOLANASpec(warmup=60, budget=9, rank=7),
        tuple("--learner nolana --learner-budget 9 --learner-rank 7".split()),
    ),
    "fogd": (
        "string",
        FOGDSpec(warmup=60, budget=30, seed=5),
        tuple("--learner fogd --learner-budget 30 --learner-seed 5".split()),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_file_job_gives_the_cores_predictions_and_states(name: str, tmp_path: Path) -> None:
    kind, spec, flags = CASES[name]
    table, out = labelled_table(500, kind, models=2), tmp_path / "out"
    source = write(tmp_path / "in.parquet", table)
    track(source, *COLUMNS, *FLAGS, *flags, "--output", str(out))
    assert record_of(out)["learner"]["learner"] == spec.learner
    found = lines_of(out, "predictions")
    assert len(found) == 2
    for model, rows in models_of(table).items():
        state, records = core_alone(spec, learned_from(rows, ROWS))
        assert found[model] == records
        path = out / "snapshots" / index_of(out)["models"][model][0]["learner"]
        snapshot = codec.decode_learner(path.read_bytes())
        assert snapshot.spec == spec
        same_state(snapshot.state, state)


WATCH = ["ax", "ay", "az", "wx", "wy", "wz"]


@pytest.mark.parametrize(
    "spec", [POLKSpec(loss="logistic"), BSGDSpec(budget=60), PASpec(), NOLANASpec(threshold=1.0)]
)
def test_a_recording_is_classified_as_the_core_does(
    spec: LearnerSpec, sample: Path, tmp_path: Path
) -> None:
    table = pq.read_table(sample)
    table = table.take(np.arange(0, table.num_rows, 80))
    source, out = write(tmp_path / "watch.parquet", table), tmp_path / "out"
    more = {
        "polk": ("--learner-loss", "logistic"),
        "bsgd": ("--learner-budget", "60"),
        "nolana": ("--learner-threshold", "1"),
    }
    flags = ("--tracker", "rows", "--rank", "6", "--warmup", "100", *more.get(spec.learner, ()))
    track(source, *COLUMNS, *flags, "--learner", spec.learner, "--output", str(out))
    found, right = lines_of(out, "predictions"), 0
    for model, rows in models_of(table).items():
        _, features = run_all(RowsSpec(rank=6, warmup=100), matrix(rows, WATCH))
        labels = rows.column("label").to_pylist()
        z = np.asarray(features.z)
        _, records = core_alone(spec, FeatureTable(nanoseconds(rows), z, labels))
        assert found[model] == records
        right += sum(bool(record["correct"]) for record in records)
    assert right > 0.7 * table.num_rows


@pytest.mark.parametrize("learner", ["polk", "pa", "nolana"])
def test_house_prices_are_predicted_as_the_core_does(
    learner: str, data_file: Callable[[str], Path], tmp_path: Path
) -> None:
    values = np.loadtxt(data_file("cadata.tsv.gz"), max_rows=1000, skiprows=1)
    names = [*(f"x{place}" for place in range(values.shape[1] - 1)), "label"]
    values[:, -1] /= 1e5
    # In the file they go from one end of the state to the other.
    values = np.random.default_rng(0).permutation(values)
    table = pa.table(dict(zip(names, values.T, strict=True)))
    source, out = write(tmp_path / "cadata.parquet", table), tmp_path / "out"
    flags = ("--tracker", "rows", "--rank", "8", "--learner", learner, "--label", "label")
    track(source, *flags, "--learner-task", "regression", "--output", str(out))
    (found,) = lines_of(out, "predictions").values()
    _, features = run_all(RowsSpec(rank=8), values[:, :-1])
    spec = parse_learner_spec({"learner": learner, "task": "regression"})
    z = np.asarray(features.z)
    state, records = core_alone(spec, FeatureTable(None, z, values[:, -1].tolist()))
    assert found == records
    # Better than always the mean, even as it begins.
    error = float(state.sums[0]) / int(state.counts[0])
    assert error < values[:, -1].var()


_KEPT: list[list[Any]] = []


def _keep(element: Any, name: str) -> None:
    _KEPT[-1].append((name, *element))


@pytest.mark.parametrize(
    "spec",
    [
        POLKSpec(warmup=60),
        POLKSpec(loss="logistic", batch=4),
        NOLANASpec(warmup=60, budget=20, rank=15),
    ],
)
def test_a_live_stream_out_of_order_gives_the_cores_predictions(spec: LearnerSpec) -> None:
    rng = np.random.default_rng(4)
    times = np.arange(250) * (SECOND // 50)
    rows = make_rows(250, seed=7, times=times)
    labels = np.array(["in" if x @ x < 3 else "out" for x in rows.x])
    rows = dataclasses.replace(rows, label=labels)
    arriving = rows.take(arrival(times, 0.5, rng))
    assert (np.diff(arriving.row) < 0).any()
    chunks = arriving.cut(rng.integers(1, 12, size=250).tolist())
    old = make_rows(1, seed=1, times=np.array([-100 * SECOND]))
    old = dataclasses.replace(old, label=labels[:1])
    stream = Arrivals()
    for bundle in [*bundles_of(chunks, [1, 3]), [("m", old.cut([1])[0])]]:
        stream = stream.add_elements(bundle)
    options = PipelineOptions([])
    options.view_as(StandardOptions).streaming = True
    _KEPT.append([])
    with beam.Pipeline(runner=BundleBasedDirectRunner(), options=options) as pipeline:
        source = pipeline | stream.advance_watermark_to_infinity().with_output_types(Element)
        tracked = source | TrackSubspace(ROWS, Order(max_disorder=0.5))
        learned = tracked[FEATURES] | TrainLinear(spec, bounded=False)
        for name, output in ((LATE, tracked[LATE]), *learned.items()):
            _ = output | f"Keep {name}" >> beam.Map(_keep, name)
    kept = _KEPT.pop()
    _, features = run_all(ROWS, rows.x)
    assert features.z is not None
    _, records = core_alone(spec, FeatureTable(times, features.z, labels.tolist()))
    found = [row for name, _, said in kept if name == PREDICTIONS for row in said.batch.to_pylist()]
    assert sorted(found, key=lambda row: row["index"]) == records
    assert sum(len(rows) for name, _, rows in kept if name == LATE) == 1


def test_another_rank_than_the_number_of_channels_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write(tmp_path / "in.parquet", labelled_table(100, models=1))
    flags = ("--tracker", "rows", "--rank", "4", "--learner", "polk")
    assert main(["track", source, *COLUMNS, *flags, "--output", str(tmp_path / "out")]) != 0
    assert "rank = 4: must be 3, the number of channels" in capsys.readouterr().err


def test_rows_that_are_not_stored_are_no_features() -> None:
    with pytest.raises(ConfigError, match="extras"):
        TrackSubspace(ROWS, extras=("s",))
