"""A file for each device, in all jobs that read files: what one file of all devices gives."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.cli.main import main
from tests.e2e.jobs import (
    CHANNELS,
    SMALL,
    assert_same_features,
    failures_of,
    features_of,
    labelled_table,
    models_of,
    record_of,
    table_of,
)

ONE = ("--model-id", "device", "--time", "time", "--label", "label")
EACH = ("--model-id-from", "path", "--time", "time", "--label", "label")
PLACES = ("source", "row")


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table in one file, and its devices in a file each; labels likewise."""
    folder = tmp_path_factory.mktemp("plant")
    table = labelled_table(900, missing=0.0)
    names = pa.array([name.replace("/", "-") for name in table.column("model_id").to_pylist()])
    table = table.set_column(0, "model_id", names)
    for name in ("each", "labels"):
        (folder / name).mkdir()
    pq.write_table(
        table.rename_columns(["device", *table.column_names[1:]]), folder / "one.parquet"
    )
    for name, own in models_of(table).items():
        pq.write_table(own.drop_columns(["model_id"]), folder / "each" / f"{name}.parquet")
        labels = own.select(["time", "label"])
        pq.write_table(labels, folder / "labels" / f"{name}.parquet")
    (folder / "each" / "_SUCCESS").touch()
    return folder


def test_track_and_score(plant: Path, tmp_path: Path) -> None:
    one, each, beam = (tmp_path / name for name in ("one", "each", "beam"))
    assert main(["track", str(plant / "one.parquet"), *ONE, *SMALL, "--output", str(one)]) == 0
    assert main(["track", str(plant / "each"), *EACH, *SMALL, "--output", str(each)]) == 0
    direct = ("--output", str(beam), "--runner=DirectRunner")
    assert main(["track", str(plant / "each"), *EACH, *SMALL, *direct]) == 0
    for output in (each, beam):
        assert_same_features(features_of(one), features_of(output), PLACES)
        assert failures_of(output) == []
    inputs = record_of(each)["inputs"]
    assert [file["columns"] for file in inputs] == [{"file name": f"m-{i}"} for i in range(3)]
    assert record_of(each)["columns"]["model_id"] == "file name"
    snapshots = ("--snapshots", str(one / "snapshots"))
    for name, flags in (("one.parquet", ONE), ("each", EACH)):
        scores = ("--output", str(tmp_path / f"scored {name}"))
        assert main(["score", str(plant / name), *flags, *snapshots, *scores]) == 0
    keys = [("model_id", "ascending"), ("time", "ascending")]
    scored, alike = (
        table_of(tmp_path / f"scored {name}", "scores").drop_columns(list(PLACES)).sort_by(keys)
        for name in ("one.parquet", "each")
    )
    assert scored.equals(alike)


def test_delayed_labels_in_a_file_for_each_device(plant: Path, tmp_path: Path) -> None:
    flags = ("--learner", "ridge", "--label-wait", "1", "--features", *CHANNELS, *SMALL)
    for name, given, labels in (("one.parquet", ONE, "one.parquet"), ("each", EACH, "labels")):
        output = ("--output", str(tmp_path / name), "--labels", str(plant / labels))
        assert main(["track", str(plant / name), *given[:4], *flags, *output]) == 0
    one, each = (
        table_of(tmp_path / name, "predictions").sort_by(
            [("model_id", "ascending"), ("index", "ascending")]
        )
        for name in ("one.parquet", "each")
    )
    assert one.equals(each)
    assert record_of(tmp_path / "each")["counts"]["labels_failed"] == 0


def test_tune_and_landmarks(plant: Path, tmp_path: Path) -> None:
    folder = str(plant / "each")
    tuned = ("--output", str(tmp_path / "tuned"), "--seconds", "1", "--sample", "300")
    assert main(["tune", folder, *EACH, *tuned]) == 0
    chosen = ("--output", str(tmp_path / "chosen.json"), "--sample", "200")
    assert main(["landmarks", folder, *EACH, *chosen]) == 0


def test_texts_of_another_encoding_name_the_flag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"{name},{i},{i * i % 7}\n" for i in range(60) for name in ("pümp", "other"))
    (tmp_path / "in.csv").write_bytes(f"device,time,x\n{rows}".encode("cp1252"))
    columns = ("--model-id", "device", "--time", "time", "--rank", "1", "--budget", "3")
    output = ("--output", str(tmp_path / "out"))
    assert main(["track", str(tmp_path / "in.csv"), *columns, *output]) == 0
    hint = "60 rows: device: not UTF-8 (--encoding says how the file is written, such as cp1252)"
    assert hint in capsys.readouterr().out
    again = (*output, "--overwrite", "--encoding", "cp1252")
    assert main(["track", str(tmp_path / "in.csv"), *columns, *again]) == 0
    assert record_of(tmp_path / "out")["counts"]["rows_failed"] == 0
