"""The same rows by other ways: late ones among them, in Avro, and files on Flink in batches.

`benchmarks/bench_same_bytes.py` is the long form of this.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.cluster.beam_flags import beam_flags
from pipelines.cluster.folder import Folder, load
from tests.e2e.arrivals import MAX_DISORDER, arrive, from_files, from_topics
from tests.e2e.clusters import LocalCluster
from tests.e2e.jobs import COLUMNS, assert_same_features, features_of, track
from tests.e2e.live import SPECS, Live, assert_same_bits
from tests.e2e.test_stream import FEATURES

ROWS = 500
LATE = 12


def test_late_rows_are_those_that_come_late(
    cluster: LocalCluster, sample: Path, tmp_path: Path
) -> None:
    """By the file's order of rows and by the topic's, whatever was gathered in one bundle."""
    arrivals = arrive(sample, ROWS, LATE, tmp_path / "rows")
    arrived, output = tmp_path / "arrived.parquet", tmp_path / "out"
    arrivals.write(arrived)
    disorder = ("--max-disorder", str(MAX_DISORDER))
    track(str(arrived), *COLUMNS, *SPECS, *disorder, "--output", str(output))
    features, late = from_files(output, arrived)
    assert late == arrivals.late
    assert len(late) == LATE * len(arrivals.models)
    live = Live(cluster, "late", "avro")
    live.make_topic(6)
    # All of a model in one message, and in one bundle.
    arrivals.send(live, 1000)
    with live.running("--parallelism=2", *disorder):
        found, late = from_topics(live, arrivals.rows, len(arrivals.late))
    assert late == arrivals.late
    settled = ROWS - LATE
    kept = features.filter(pa.compute.less(features.column("index"), settled))
    assert_same_bits(found, kept, FEATURES)


def test_a_file_job_on_flink_gives_the_features_of_one_in_this_process(
    cluster: LocalCluster, sample: Path, tmp_path: Path
) -> None:
    table = pq.read_table(sample)
    rows = pa.compute.less(pa.array(range(table.num_rows)), 4000)
    source = tmp_path / "rows.parquet"
    pq.write_table(table.filter(rows), source)
    found = load(Folder(cluster.folder))
    assert found is not None
    here, there = tmp_path / "here", tmp_path / "there"
    track(str(source), *COLUMNS, *SPECS, "--output", str(here))
    track(str(source), *COLUMNS, *SPECS, "--output", str(there), *beam_flags(found))
    assert_same_features(features_of(there), features_of(here))
