"""The trackers beside OK-FEB in pipelines: the core's bytes, live, out of order and in files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms.window import FixedWindows

from kerneltrack import codec
from kerneltrack.errors import ConfigError
from kerneltrack.in_memory import run_all
from kerneltrack.trackers import DSKPCASpec, DSPairSpec, OANASpec
from kerneltrack.trackers.common.spec import SubspaceSpec
from tests.e2e.jobs import (
    COLUMNS,
    array_of,
    features_of,
    matrix,
    models_of,
    sensor_table,
    write,
)
from tests.e2e.jobs import track as track_files
from tests.stream.running import SECOND, assert_same, core_alone, make_rows, track, track_stream
from tests.stream.test_order import arrival, bundles_of
from transforms.track.order import Order
from transforms.track.transform import TrackSubspace
from transforms.track.windows import MeasureMismatch

WITHOUT_ROWS: dict[str, SubspaceSpec] = {
    "dskpca": DSKPCASpec(rank=3, budget=24, feature_batch=8, row_batch=7, warmup=20),
    "dspair": DSPairSpec(rank=3, budget=24, feature_batch=8, row_batch=7, warmup=20),
}
SPECS = WITHOUT_ROWS | {"oana": OANASpec(rank=3, budget=8, threshold=0.5, warmup=20)}


@pytest.mark.parametrize("name", SPECS)
def test_a_live_stream_out_of_order_gives_the_cores_features(name: str) -> None:
    spec, rng = SPECS[name], np.random.default_rng(4)
    times = np.arange(150) * (SECOND // 50)
    rows = make_rows(150, seed=7, times=times)
    arriving = rows.take(arrival(times, 0.5, rng))
    assert (np.diff(arriving.row) < 0).any()
    chunks = arriving.cut(rng.integers(1, 12, size=150).tolist())
    # One row more, far too late.
    old = make_rows(1, seed=1, times=np.array([-100 * SECOND])).cut([1])
    live = track_stream(
        [*bundles_of(chunks, [1, 3]), [("m", old[0])]],
        order=Order(max_disorder=0.5),
        spec=spec,
        extras=("q",),
    )
    assert_same(live.table("m"), core_alone(rows, spec, ("q",)))
    assert len(live.late) == 1 and live.failures == []
    bounded = track([("m", chunk) for chunk in rows.cut([40])], spec=spec, extras=("q",))
    assert_same(bounded.table("m"), core_alone(rows, spec, ("q",)))
    assert live.snapshots == bounded.snapshots


@pytest.mark.parametrize("name", SPECS)
def test_a_file_job_gives_the_cores_features_and_states(name: str, tmp_path: Path) -> None:
    spec, table = SPECS[name], sensor_table(300)
    source, out = write(tmp_path / "in.parquet", table), tmp_path / "out"
    values = spec.to_dict() | {"clip": "none"}
    flags = [
        text
        for field in ("rank", "budget", "feature_batch", "row_batch", "threshold", "warmup")
        if field in values
        for text in ("--" + field.replace("_", "-"), str(values[field]))
    ]
    track_files(source, *COLUMNS, "--tracker", name, *flags, "--output", str(out))
    features = features_of(out)
    for model, rows in models_of(table).items():
        state, said = run_all(spec, matrix(rows))
        mine = features.filter(pa.compute.equal(features["model_id"], model))
        assert array_of(mine, "z").tobytes() == np.asarray(said.z).tobytes()
        assert array_of(mine, "loss").tobytes() == said.loss.tobytes()
        (path,) = (out / "snapshots").glob(f"*{model[-1]}.safetensors")
        kept = codec.decode(path.read_bytes())
        assert kept.spec == spec
        assert all(np.array_equal(a, b) for a, b in zip(kept.state, state, strict=True))


@pytest.mark.parametrize("name", WITHOUT_ROWS)
def test_there_is_no_kernel_mismatch_without_stored_rows(name: str) -> None:
    with pytest.raises(ConfigError, match="measure"):
        TrackSubspace(WITHOUT_ROWS[name], measure=MeasureMismatch(FixedWindows(60)))
