"""`kerneltrack landmarks`: from files of any kind to a file of landmarks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
import safetensors
from safetensors.numpy import load_file

from kerneltrack.batch.landmark_spec import METHODS, LandmarkSpec
from kerneltrack.batch.landmarks import choose_landmarks
from kerneltrack.registry import get_tracker, parse_spec
from kerneltrack.trackers.common.start import start_from
from pipelines.cli.main import main
from pipelines.landmark_file import KEY, decode
from tests.e2e.jobs import CHANNELS, COLUMNS, sensor_table
from transforms.read.columns import ColumnOptions, resolve
from transforms.read.look import look_at_files
from transforms.read.sample import sample_rows

TABLE = sensor_table(400)
ROWS = np.column_stack([TABLE[name].to_numpy() for name in CHANNELS])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    pq.write_table(TABLE, tmp_path / "in.parquet")
    return tmp_path / "in.parquet"


@pytest.mark.parametrize("method", METHODS)
def test_the_file_holds_what_the_core_chooses(source: Path, tmp_path: Path, method: str) -> None:
    out = tmp_path / "marks.safetensors"
    flags = ("--method", method, "--count", "9", "--rank", "4", "--seed", "3")
    assert main(["landmarks", str(source), *COLUMNS, *flags, "--output", str(out)]) == 0
    arrays = load_file(out)
    spec = LandmarkSpec(method=method, count=9, rank=4, seed=3)
    expected = choose_landmarks(spec, ROWS)
    np.testing.assert_array_equal(arrays["row"], expected.indices)
    np.testing.assert_array_equal(arrays["rows"], ROWS[expected.indices])
    np.testing.assert_array_equal(arrays["objective"], expected.objective)
    with safetensors.safe_open(out, "np") as handle:
        header = json.loads(handle.metadata()[KEY])
    assert header["spec"] == spec.to_dict()
    assert (header["read"], header["failed"], header["sample"]) == (400, 0, 400)
    assert (header["residual"], header["mismatch"]) == (expected.residual, expected.mismatch)
    # The same command again gives the same bytes.
    before = out.read_bytes()
    command = ["landmarks", str(source), *COLUMNS, *flags, "--output", str(out)]
    assert main(command) == 2
    assert main([*command, "--overwrite"]) == 0
    assert out.read_bytes() == before


def test_json_from_csv_with_bad_rows(tmp_path: Path) -> None:
    pc.write_csv(TABLE.select(CHANNELS), tmp_path / "in.csv")
    with (tmp_path / "in.csv").open("a") as handle:
        handle.write("nan,1,2\n")
    out = tmp_path / "marks.json"
    flags = ("--method", "uniform", "--count", "5", "--sample", "50")
    assert main(["landmarks", str(tmp_path / "in.csv"), *flags, "--output", str(out)]) == 0
    found = json.loads(out.read_text())
    assert (found["read"], found["failed"], found["sample"]) == (400, 1, 50)
    np.testing.assert_allclose(found["rows"], ROWS[found["row"]], rtol=1e-15)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--method", "svd"), "--method = 'svd'"),
        (("--count", "5", "--rank", "6"), "--rank = 6"),
        (("--sample", "0"), "--sample = 0"),
        (("--missing", "hold"), "--missing = 'hold'"),
        (("--features", "nothing"), "nothing"),
    ],
)
def test_bad_flags(
    source: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    flags: tuple[str, ...],
    says: str,
) -> None:
    out = str(tmp_path / "marks.json")
    assert main(["landmarks", str(source), *COLUMNS, *flags, "--output", out]) == 2
    assert says in capsys.readouterr().err
    assert not Path(out).exists()


def test_the_input_is_never_replaced(source: Path) -> None:
    before = source.read_bytes()
    command = ["landmarks", str(source), *COLUMNS, "--output", str(source), "--overwrite"]
    assert main(command) == 2
    assert source.read_bytes() == before


def test_every_row_is_as_likely_to_be_drawn(source: Path) -> None:
    infos = look_at_files(str(source)).infos
    columns = resolve(infos, ColumnOptions(features=tuple(CHANNELS)))
    drawn = np.zeros(400)
    for seed in range(300):
        sample = sample_rows(infos, columns, 40, seed)
        assert (np.diff(sample.row) > 0).all() and len(sample.row) == 40
        np.testing.assert_array_equal(sample.rows, ROWS[sample.row])
        drawn[sample.row] += 1
    # Binomial(300, 1/10): mean 30, deviation 5.2; quarters of the input have deviation 52.
    assert np.abs(drawn - 30).max() < 6 * 5.2
    assert np.abs(drawn.reshape(4, 100).sum(axis=1) - 3000).max() < 5 * 52


SIZES = ("--rank", "4", "--budget", "9")


@pytest.mark.parametrize(
    ("tracker", "name"), [("okfeb", "m.json"), ("covariance", "m.safetensors"), ("oana", "m.json")]
)
def test_a_job_starts_from_them(source: Path, tmp_path: Path, tracker: str, name: str) -> None:
    marks, out = tmp_path / name, tmp_path / "out"
    choice = ("--method", "bcd-pg", "--count", "9", "--rank", "4")
    assert main(["landmarks", str(source), *COLUMNS, *choice, "--output", str(marks)]) == 0
    flags = ("--tracker", tracker, *SIZES, "--start-from", str(marks))
    assert main(["track", str(source), *COLUMNS, *flags, "--output", str(out)]) == 0
    run = json.loads((out / "run.json").read_text())
    assert run["start_from"] == str(marks)
    # Every model's features are those of the core alone, bit for bit.
    spec = parse_spec({"tracker": tracker, "rank": 4, "budget": 9})
    start = decode(marks.read_bytes(), str(marks))
    reported = pq.read_table(out / "features").sort_by(
        [("model_id", "ascending"), ("row", "ascending")]
    )
    for model_id in set(TABLE["model_id"].to_pylist()):
        of_model = np.array(TABLE["model_id"].to_pylist()) == model_id
        begun = start_from(spec, start, model_id)
        _, features = get_tracker(tracker).update(spec, begun, ROWS[of_model])
        lines = reported.filter(np.array(reported["model_id"].to_pylist()) == model_id)
        assert lines["loss"].to_numpy().tobytes() == features.loss.tobytes()
        assert lines["index"].to_pylist() == features.index.tolist()


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--budget", "8", "--rank", "4"), "budget = 8: must be at least 9"),
        (("--rank", "4", "--tracker", "okfe"), "tracker = 'okfe': must be okfeb or"),
        ((*SIZES, "--kernel", "laplacian"), "kernel = 'laplacian'"),
        ((*SIZES, "--features", CHANNELS[0]), "number of features = 1"),
        ((*SIZES, "--warm-start", "x"), "left out with --warm-start"),
    ],
)
def test_a_job_that_cannot_start_from_them(
    source: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    flags: tuple[str, ...],
    says: str,
) -> None:
    marks = tmp_path / "marks.json"
    choice = ("--method", "uniform", "--count", "9")
    assert main(["landmarks", str(source), *COLUMNS, *choice, "--output", str(marks)]) == 0
    out = str(tmp_path / "out")
    given = ("--start-from", str(marks), "--output", out)
    assert main(["track", str(source), *COLUMNS, *flags, *given]) == 2
    assert says in capsys.readouterr().err
    assert not Path(out).exists()


@pytest.mark.parametrize("name", ["m.json", "m.safetensors"])
def test_another_file_is_refused(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / name).write_bytes(b'{"version": 1, "rows": [[1]]}')
    given = ("--start-from", str(tmp_path / name), "--output", str(tmp_path / "out"))
    assert main(["track", str(source), *COLUMNS, *given]) == 2
    assert f"{name}: not a file of landmarks" in capsys.readouterr().err
