"""The file job end to end: its output is the core's, whatever the files look like."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from kerneltrack import codec
from kerneltrack.in_memory import run_all
from kerneltrack.trackers import OKFEBSpec
from tests.e2e.jobs import (
    COLUMNS,
    PLACES,
    RESULTS,
    SMALL,
    array_of,
    assert_same_features,
    failures_of,
    features_of,
    files_under,
    record_of,
    run_process,
    sensor_table,
    track,
    write,
)

SPEC = OKFEBSpec(rank=4, budget=7, warmup=50)
CHANNELS = ["x0", "x1", "x2"]


def matrix(table: pa.Table, names: list[str]) -> npt.NDArray[np.float64]:
    return np.stack([table.column(name).to_numpy() for name in names], axis=1).astype(np.float64)


def assert_is_the_cores(
    features: pa.Table, table: pa.Table, spec: OKFEBSpec, channels: list[str]
) -> None:
    """Hold a job's features against the core, run on each model's rows in memory."""
    at = np.arange(table.num_rows)
    models = table.column("model_id").to_numpy(zero_copy_only=False)
    done = features.column("model_id").to_numpy(zero_copy_only=False)
    assert sorted(set(done)) == sorted(set(models))
    for model in sorted(set(models)):
        rows = table.take(pa.array(at[models == model]))
        _, expected = run_all(spec, matrix(rows, channels))
        of_model = features.filter(pa.array(done == model))
        assert array_of(of_model, "index").tolist() == list(range(rows.num_rows))
        assert array_of(of_model, "row").tolist() == at[models == model].tolist()
        assert of_model.column("label").to_pylist() == rows.column("label").to_pylist()
        times = of_model.column("time").cast(pa.timestamp("ms", "UTC"))
        assert times.to_pylist() == rows.column("time").to_pylist()
        for name in RESULTS:
            actual, wanted = array_of(of_model, name), getattr(expected, name)
            if wanted.dtype == np.float64:
                actual, wanted = actual.view(np.int64), np.ascontiguousarray(wanted).view(np.int64)
            assert (actual == wanted).all(), (model, name)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return sensor_table(3000)


@pytest.fixture(scope="module")
def reference(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over one Parquet file."""
    folder = tmp_path_factory.mktemp("reference")
    track(write(folder / "in.parquet", table), *COLUMNS, *SMALL, "--output", str(folder / "out"))
    return folder / "out"


def test_the_features_are_the_cores(reference: Path, table: pa.Table) -> None:
    features = features_of(reference)
    assert_is_the_cores(features, table, SPEC, CHANNELS)
    assert features.column("source").unique().to_pylist() == [str(reference.parent / "in.parquet")]
    assert failures_of(reference) == []


def test_the_folder_of_a_run(reference: Path) -> None:
    assert files_under(reference) == [
        "failures/part-00000-of-00001.parquet",
        "features/part-00000-of-00001.parquet",
        "neighbours/part-00000-of-00001.parquet",
        "report.html",
        "run.json",
        *(f"snapshots/{name}" for name in ("index.json", *(f"m%2F{i}.safetensors" for i in "012"))),
    ]


def test_the_snapshots_are_the_cores_last_states(reference: Path, table: pa.Table) -> None:
    index = json.loads((reference / "snapshots" / "index.json").read_text(encoding="utf-8"))
    models = table.column("model_id").to_numpy(zero_copy_only=False)
    assert list(index["models"]) == ["m/0", "m/1", "m/2"]
    assert (index["version"], index["tracker"], index["learner"]) == (2, SPEC.to_dict(), None)
    for model, (entry,) in index["models"].items():
        rows = table.filter(pa.array(models == model))
        state, _ = run_all(SPEC, matrix(rows, CHANNELS))
        last = rows.column("time").cast(pa.int64())[-1].as_py() * 1_000_000
        about = {"model_id": model, "rows": 1000, "time": last, "until": last, "final": True}
        data = (reference / "snapshots" / entry["tracker"]).read_bytes()
        assert data == codec.encode(SPEC, state, about)
        assert (entry["rows"], entry["time"]) == (1000, last)
        assert entry["tracker_bytes"] == len(data)


def test_the_record_of_a_run(reference: Path) -> None:
    record = record_of(reference)
    features = features_of(reference)
    evicted, index = array_of(features, "evicted"), array_of(features, "index")
    assert record["counts"] == {
        "rows_in": 3000,
        "rows_out": 3000,
        "rows_failed": 0,
        "rows_late": 0,
        "models": 3,
        "informative": int(array_of(features, "informative").sum()),
        "evicted": int((evicted >= 0).sum()),
        "dropped_at_once": int((evicted == index).sum()),
        "mended": 0,
        "unseen": 0,
    }
    assert record["inputs"] == [{"path": str(reference.parent / "in.parquet"), "rows": 3000}]
    assert record["columns"] == {
        "model_id": "model_id",
        "time": "time",
        "sequence": None,
        "label": "label",
        "features": CHANNELS,
    }
    assert record["tracker"] == "okfeb"
    assert record["spec"] == {**SPEC.to_dict(), "digest": SPEC.digest()}
    assert record["runner"] == "processes"
    assert record["failures"] == {}
    assert record["command"].startswith("kerneltrack track ")
    assert set(record["seconds"]) == {"prepare", "track", "report", "total"}


def split(table: pa.Table, parts: int, seed: int) -> list[pa.Table]:
    """Deal the rows to files at random and shuffle each file."""
    rng = np.random.default_rng(seed)
    of_part = rng.integers(0, parts, size=table.num_rows)
    return [
        table.take(pa.array(rng.permutation(np.flatnonzero(of_part == part))))
        for part in range(parts)
    ]


def write_csv(path: Path, table: pa.Table) -> None:
    with pa.CompressedOutputStream(path, "gzip") as handle:
        # Times as texts; repr of a float is exact.
        pyarrow.csv.write_csv(table, handle)


WRITERS: dict[str, Callable[[Path, pa.Table], None]] = {
    "parquet": lambda path, table: pq.write_table(table, path, row_group_size=37),
    "csv.gz": write_csv,
    "feather": lambda path, table: pyarrow.feather.write_feather(table, path),
}


@pytest.mark.parametrize("ending", WRITERS)
def test_fifty_shuffled_files_give_the_same(
    ending: str, reference: Path, table: pa.Table, tmp_path: Path
) -> None:
    for number, part in enumerate(split(table, 50, 1)):
        WRITERS[ending](tmp_path / f"part{number}.{ending}", part)
    output = tmp_path / "out"
    track(f"{tmp_path}/*.{ending}", *COLUMNS, *SMALL, "--output", str(output))
    assert_same_features(features_of(output), features_of(reference), ignore=PLACES)
    for path in (reference / "snapshots").iterdir():
        assert (output / "snapshots" / path.name).read_bytes() == path.read_bytes()
    assert record_of(output)["counts"] == record_of(reference)["counts"]


def test_a_sequence_column_orders_equal_times(tmp_path: Path) -> None:
    table = sensor_table(1200)
    whole = pc.floor_temporal(table.column("time"), unit="second")
    sequence = pa.array(np.random.default_rng(0).permutation(1200))
    table = table.set_column(1, "time", whole).append_column("n", sequence)
    for number, part in enumerate(split(table, 7, 3)):
        write(tmp_path / f"{number}.parquet", part)
    flags = (*COLUMNS, *SMALL, "--sequence", "n")
    track(write(tmp_path / "whole.pq", table), *flags, "--output", str(tmp_path / "one"))
    track(f"{tmp_path}/*.parquet", *flags, "--output", str(tmp_path / "many"))
    one = features_of(tmp_path / "one")
    assert_same_features(one, features_of(tmp_path / "many"), ignore=PLACES)
    order = [("model_id", "ascending"), ("time", "ascending"), ("n", "ascending")]
    places = table.append_column("row", pa.array(np.arange(1200))).sort_by(order)
    assert one.column("row").to_pylist() == places.column("row").to_pylist()


@pytest.mark.parametrize("runner", [(), ("--runner=FnApiRunner",)], ids=["pool", "runner"])
def test_rows_that_came_twice_are_left_out_and_counted(
    runner: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = sensor_table(400)
    write(tmp_path / "once.parquet", table)
    write(tmp_path / "twice.parquet", pa.concat_tables([table, table.slice(100, 90)]))
    flags = (*COLUMNS, *SMALL, "--duplicates", "drop", *runner)
    for name in ("once", "twice"):
        track(str(tmp_path / f"{name}.parquet"), *flags, "--output", str(tmp_path / name))
    once, twice = (features_of(tmp_path / name) for name in ("once", "twice"))
    assert_same_features(once, twice, ignore=PLACES)
    counts = json.loads((tmp_path / "twice" / "run.json").read_text())["counts"]
    wanted = {"rows_in": 490, "rows_out": 400, "rows_failed": 0, "rows_duplicate": 90}
    assert {name: counts[name] for name in wanted} == wanted
    assert "\n90 left out as duplicates\n" in capsys.readouterr().out
    report = (tmp_path / "twice" / "report.html").read_text()
    assert "of 490 read, 90 left out as duplicates" in report


@pytest.mark.parametrize(
    "flags",
    [
        ("--runner=DirectRunner",),
        ("--max_cache_memory_usage_mb=50",),
        ("--direct_num_workers=2", "--direct_running_mode=multi_threading"),
    ],
)
def test_beams_flags_change_no_feature(
    flags: tuple[str, ...], reference: Path, tmp_path: Path
) -> None:
    source = str(reference.parent / "in.parquet")
    track(source, *COLUMNS, *SMALL, *flags, "--output", str(tmp_path))
    assert_same_features(features_of(tmp_path), features_of(reference))
    for path in (reference / "snapshots").iterdir():
        assert (tmp_path / "snapshots" / path.name).read_bytes() == path.read_bytes()


def test_extras_are_more_columns(reference: Path, tmp_path: Path) -> None:
    source = str(reference.parent / "in.parquet")
    track(source, *COLUMNS, *SMALL, "--extras", "q", "s", "--output", str(tmp_path))
    features, plain = features_of(tmp_path), features_of(reference)
    assert_same_features(features.drop_columns(["q", "s"]), plain)
    assert (array_of(features, "q").shape, array_of(features, "s").shape) == ((3000, 4), (3000, 7))
    # s is the projection, z has the ridge's part of it besides: zᵀz = sᵀs + ρqᵀq, with a ridge in
    # force that fades to nine tenths before it is renewed.
    z, q, s = (np.square(array_of(features, name)).sum(axis=1) for name in ("z", "q", "s"))
    ridge = (z - s)[q > 1.0] / q[q > 1.0] / OKFEBSpec().ridge
    assert 0.89 < ridge.min() <= ridge.max() < 1.01


def test_projection_coefficients_in_place_of_z(reference: Path, tmp_path: Path) -> None:
    source = str(reference.parent / "in.parquet")
    track(source, *COLUMNS, *SMALL, "--emit", "q", "--output", str(tmp_path))
    features = features_of(tmp_path)
    assert "z" not in features.schema.names
    assert array_of(features, "q").shape == (3000, 4)
    for name in ("loss", "informative", "evicted"):
        assert (array_of(features, name) == array_of(features_of(reference), name)).all()


def test_single_precision_halves_the_snapshots(reference: Path, tmp_path: Path) -> None:
    source = str(reference.parent / "in.parquet")
    track(source, *COLUMNS, *SMALL, "--float32", "--output", str(tmp_path))
    assert_same_features(features_of(tmp_path), features_of(reference))
    for path in sorted((reference / "snapshots").glob("*.safetensors")):
        whole, half = path.read_bytes(), (tmp_path / "snapshots" / path.name).read_bytes()
        header = 8 + int.from_bytes(whole[:8], "little")
        small_header = 8 + int.from_bytes(half[:8], "little")
        # All but the few integers is reals.
        assert len(half) - small_header <= 0.52 * (len(whole) - header)
        state = codec.decode(half).state
        np.testing.assert_allclose(state.support, codec.decode(whole).state.support, rtol=1e-6)


def test_a_spec_file_and_flags_over_it(reference: Path, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text("rank: 4\nbudget: 9\nridge: 1e-2\ncensor: moving\nwarmup: 50\n")
    source = str(reference.parent / "in.parquet")
    flags = ("--spec", str(spec), "--budget", "7", "--gamma", "3.5")
    track(source, *COLUMNS, *flags, "--output", str(tmp_path / "out"))
    expected = OKFEBSpec(rank=4, budget=7, ridge=1e-2, censor="moving", warmup=50, gamma=3.5)
    record = record_of(tmp_path / "out")
    assert record["spec"] == {**expected.to_dict(), "digest": expected.digest()}
    assert_is_the_cores(features_of(tmp_path / "out"), sensor_table(3000), expected, CHANNELS)


def test_an_input_without_rows(tmp_path: Path) -> None:
    source = write(tmp_path / "in.parquet", sensor_table(10).slice(0, 0))
    track(source, *COLUMNS, *SMALL, "--output", str(tmp_path / "out"))
    counts = record_of(tmp_path / "out")["counts"]
    assert set(counts.values()) == {0}
    assert features_of(tmp_path / "out").num_rows == 0
    assert (tmp_path / "out" / "report.html").stat().st_size > 1000


def test_finite_disorder_in_a_file_job(tmp_path: Path) -> None:
    """Rows sorted by time lose nothing; a file turned round is late but for what fits."""
    table = sensor_table(600, models=1)
    forth = write(tmp_path / "forth.parquet", table)
    flags = (*COLUMNS, *SMALL, "--max-disorder", "1")
    track(forth, *flags, "--output", str(tmp_path / "one"))
    assert_is_the_cores(features_of(tmp_path / "one"), table, SPEC, CHANNELS)
    # Two files, the later half first: the earlier half is 6 s behind when it comes.
    write(tmp_path / "a.pq", table.slice(300))
    write(tmp_path / "b.pq", table.slice(0, 300))
    track(f"{tmp_path}/*.pq", *flags, "--output", str(tmp_path / "two"))
    counts = record_of(tmp_path / "two")["counts"]
    assert (counts["rows_out"], counts["rows_failed"], counts["rows_late"]) == (300, 300, 300)
    failures = failures_of(tmp_path / "two")
    reason = "late: further behind the model's newest row than max_disorder"
    assert failures == [("m/0", "b.pq", row, reason) for row in range(300)]


def test_a_copy_of_the_project_gives_the_same(reference: Path, tmp_path: Path) -> None:
    """`python -m pipelines.cli track` is `kerneltrack track`."""
    shutil.copy(reference.parent / "in.parquet", tmp_path)
    module = ("-m", "pipelines.cli", "track", "in.parquet", *COLUMNS, *SMALL, "--output", "out")
    done = run_process([sys.executable, *module], cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "report: out/report.html"
    assert_same_features(features_of(tmp_path / "out"), features_of(reference), ignore=["source"])
    assert files_under(tmp_path / "out") == files_under(reference)
