"""Models of a live job that begin anew or take another one's place, on a real Flink."""

from __future__ import annotations

from pathlib import Path

import confluent_kafka
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kerneltrack import codec
from kerneltrack.learners.common.inputs import inputs_of
from kerneltrack.registry import get_learner, get_tracker
from kerneltrack.snapshots.folder import SnapshotFolder
from pipelines.cli.main import main
from tests.e2e.clusters import LocalCluster
from tests.e2e.jobs import features_of, table_of, track
from tests.e2e.live import CHANNELS, COLUMNS, SPECS, Live, assert_same_bits, record
from tests.e2e.test_stream import FEATURES, PREDICTIONS
from transforms.keyed.commands import HEADER

ROWS = 600
HALF = ROWS // 2
IN_ORDER = ("--max-disorder", "0")


def of_model(table: pa.Table, name: str, first: int = 0) -> pa.Table:
    here = table.filter(pa.compute.equal(table.column("model_id"), name))
    return here.filter(pa.compute.greater_equal(here.column("index"), first)).sort_by("index")


def moved_on(table: pa.Table, rows: int) -> pa.Table:
    index = pa.compute.add(table.column("index"), rows)
    return table.set_column(table.schema.get_field_index("index"), "index", index)


@pytest.mark.nightly
def test_a_model_is_reset_and_another_one_replaced(
    cluster: LocalCluster, sample: Path, tmp_path: Path
) -> None:
    recording = record(sample, tmp_path / "rows", ROWS)
    snapshots = recording.output / "snapshots"
    anew, replaced, giver, other = sorted(SnapshotFolder(str(snapshots)).models)
    live = Live(cluster, "reset", "json")
    live.make_topic(2)

    def send(number: int) -> None:
        speed = ("--speed", "0", "--disorder", "0")
        assert main(live.replay(recording.portions[number], 5, *speed)) == 0

    def reset(*words: str) -> int:
        return main(["reset", *words, *live.place, "--topic", live.topic])

    send(0)
    send(1)
    assert reset(anew) == 0
    assert reset(replaced, "--snapshots", str(snapshots), "--from-model", giver) == 0
    producer = confluent_kafka.Producer(live.client)
    producer.produce(live.topic, b"text", other.encode(), headers=[(HEADER, b"forget")])
    assert producer.flush(60) == 0
    assert reset(other, "--partition", "2") == 2
    send(2)
    send(3)
    with live.running(*IN_ORDER):
        count = 4 * (ROWS + 1)
        found = live.read("", count, tmp_path)
        predicted = live.read("-predictions", count, tmp_path)
    assert sum(live.sizes(f"{live.topic}-out-dead-letters")) == 1
    whole = features_of(recording.output)
    for name, rows in ((anew, HALF), (replaced, HALF), (giver, None), (other, None)):
        here, alone = (of_model(table, name).slice(0, rows) for table in (found, whole))
        assert_same_bits(here, alone, FEATURES)
    later = tmp_path / "later"
    parts = [str(path) for path in recording.portions[2:]]
    track(*parts, *COLUMNS, *SPECS, "--output", str(later))
    wanted = moved_on(of_model(features_of(later), anew), HALF)
    assert_same_bits(of_model(found, anew, HALF), wanted, FEATURES)
    wanted = moved_on(of_model(table_of(later, "predictions"), anew), HALF)
    assert_same_bits(of_model(predicted, anew, HALF), wanted, PREDICTIONS)
    assert_goes_on_from(snapshots, giver, parts, replaced, found, predicted)


def assert_goes_on_from(
    snapshots: Path, giver: str, parts: list[str], name: str, found: pa.Table, predicted: pa.Table
) -> None:
    """Hold a model's second half against the core, from another model's snapshot on."""
    folder = SnapshotFolder(str(snapshots), learner=True)
    tracker, learner = folder.state(giver, codec.TRACKER), folder.state(giver, codec.LEARNER)
    assert tracker is not None
    assert learner is not None
    spec, state, *_ = codec.decode(tracker)
    rows = pa.concat_tables(pq.read_table(path) for path in parts)
    rows = rows.filter(pa.compute.equal(rows.column("model_id"), name))
    x = np.column_stack([rows.column(channel).to_numpy() for channel in CHANNELS])
    _, features = get_tracker(spec.tracker).update(spec, state, x)
    assert features.z is not None
    here = of_model(found, name, HALF)
    assert here.column("loss").to_pylist() == features.loss.tolist()
    assert here.column("z").to_pylist() == features.z.tolist()
    task, learned, *_ = codec.decode_learner(learner)
    labels = rows.column("label").to_pylist()
    inputs, _ = inputs_of(task, features.z, spec, state, x)
    _, output_text = get_learner(task.learner).update(task, learned, inputs, labels)
    scores = of_model(predicted, name, HALF).column("score").to_pylist()
    assert output_text.score is not None
    assert scores == output_text.score.tolist()
