"""The commands of `benchmarks/bench_data_sets.py`, the two long sets cut short."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.bench_data_sets import DATA_SETS, GOAL, fit_of_run, read_rows
from tests.e2e.jobs import array_of, features_of, record_of, track
from tests.parts import lanes

CUT = {"motionsense": 120_000, "watch": 60_000}


@pytest.mark.parametrize("name", lanes(*DATA_SETS))
def test_every_row_comes_out_and_fits_like_batch_kpca(
    name: str, data_file: Callable[[str], Path], tmp_path: Path
) -> None:
    data_set = DATA_SETS[name]
    source, wanted = data_file(data_set.file), data_set.counts
    if name in CUT:
        # The first models, whole: what a model learns does not depend on the others.
        table = pq.read_table(source)
        models = sorted(table.column("model_id").unique().to_pylist())
        model = table.column("model_id").to_numpy(zero_copy_only=False)
        counts = np.cumsum([(model == of).sum() for of in models])
        few = models[: int(np.searchsorted(counts, CUT[name]))]
        table = table.filter(pa.array(np.isin(model, few)))
        source, wanted = tmp_path / data_set.file, (table.num_rows, 0)
        pq.write_table(table, source)
    output = tmp_path / "out"
    track(str(source), *data_set.flags, "--output", str(output))
    counts = record_of(output)["counts"]
    assert (counts["rows_out"], counts["rows_failed"]) == wanted
    assert counts["rows_in"] == sum(wanted)
    features = features_of(output)
    assert features.num_rows == wanted[0]
    assert np.isfinite(array_of(features, "z")).all()
    fit = fit_of_run(output, read_rows([str(source)], data_set))
    assert 0 <= fit.tracked <= GOAL * fit.batch
    # A subspace that saw nothing would fit as well as a batch one that saw nothing.
    assert fit.tracked < 0.97


def test_the_27_channels_of_pamap2_and_its_missing_rows(
    data_file: Callable[[str], Path], tmp_path: Path
) -> None:
    data_set = DATA_SETS["pamap2_fragment"]
    source = data_file(data_set.file)
    track(str(source), *data_set.flags, "--output", str(tmp_path))
    record = record_of(tmp_path)
    assert len(record["columns"]["features"]) == 27
    assert not {"activityID", "timestamp", "heartrate"} & set(record["columns"]["features"])
    table = pq.read_table(source)
    channels = [table.column(name).to_numpy() for name in record["columns"]["features"]]
    complete = np.flatnonzero(~np.isnan(np.stack(channels)).any(axis=0))
    features = features_of(tmp_path)
    assert sorted(array_of(features, "row").tolist()) == complete.tolist()
    assert all("missing value" in reason for reason in record["failures"])
    assert sum(record["failures"].values()) == 122
