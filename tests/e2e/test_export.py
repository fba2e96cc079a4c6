"""`kerneltrack export`: a job's models in onnxruntime, in MLflow, and as a folder for the Hub."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import kerneltrack as kt
from pipelines.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
COUNT = 400
CHANNELS = ("flow", "heat", "oil")
FLAGS = ("--model-id", "pump", "--time", "at", "--rank", "4", "--budget", "8", "--warmup", "100")


def rows_of(seed: int = 0, count: int = COUNT) -> pa.Table:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(2 * count, 3))
    return pa.table(
        {
            "pump": ["a/1"] * count + ["b"] * count,
            "at": np.tile(np.arange(count) + seed * count, 2),
            **dict(zip(CHANNELS, x.T, strict=True)),
            "load": np.where(x[:, 0] > 0, "high", "low"),
        }
    )


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a job with a linear learner and a reference leaves."""
    return made(tmp_path_factory.mktemp("job"), "--label", "load", "--learner", "ridge")


def made(folder: Path, *flags: str) -> Path:
    source, output = folder / "rows.parquet", folder / "out"
    pq.write_table(rows_of(), source)
    given = ("--reference", "first", "--reference-rows", "256")
    assert main(["track", str(source), "--output", str(output), *FLAGS, *given, *flags]) == 0
    return output


def export(job: Path, to: str, output: Path, *flags: str) -> int:
    return main(["export", str(job), "--to", to, "--output", str(output), *flags])


@pytest.mark.parametrize("inner", ["", "snapshots"])
def test_onnx_says_what_the_fleet_says(job: Path, tmp_path: Path, inner: str) -> None:
    assert export(job / inner, "onnx", tmp_path / "graphs") == 0
    assert sorted(path.name for path in (tmp_path / "graphs").iterdir()) == [
        "a%2F1.onnx",
        "b.onnx",
    ]
    session = onnxruntime.InferenceSession(str(tmp_path / "graphs" / "a%2F1.onnx"))
    about = json.loads(session.get_modelmeta().custom_metadata_map["kerneltrack"])
    assert (about["model_id"], about["rows"], about["channels"]) == ("a/1", COUNT, [*CHANNELS])
    fresh = rows_of(seed=1).slice(0, COUNT)
    wanted = kt.Fleet.load(job).score(fresh)
    x = np.stack([fresh[name].to_numpy() for name in CHANNELS], axis=1)
    names = ["features", "label", "loss", "score", "probabilities"]
    features, label, loss, score, chances = session.run(names, {"rows": x})
    z = np.stack([wanted[f"z{at}"].to_numpy() for at in range(4)], axis=1)
    np.testing.assert_allclose(features, z, rtol=0, atol=1e-12)
    np.testing.assert_allclose(loss, wanted["loss"].to_numpy(), rtol=0, atol=1e-12)
    assert label.tolist() == wanted["prediction"].to_pylist()
    np.testing.assert_allclose(score, wanted["score"].to_numpy(), rtol=0, atol=1e-12)
    classes = about["classes"]
    assert [classes[at] for at in chances.argmax(axis=1)] == label.tolist()


def test_mlflow_loads_the_folder_and_says_what_the_fleet_says(job: Path, tmp_path: Path) -> None:
    # It takes seconds to import.
    import mlflow.pyfunc  # noqa: PLC0415

    assert export(job, "mlflow", tmp_path / "model") == 0
    about = yaml.safe_load((tmp_path / "model" / "MLmodel").read_text())
    assert about["flavors"]["python_function"]["loader_module"] == "kerneltrack.mlflow"
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    names = [column.name for column in model.metadata.signature.inputs]
    assert names == ["pump", "at", *CHANNELS]
    fresh = rows_of(seed=1).drop_columns(["load"]).to_pandas()
    output_text, wanted = model.predict(fresh), kt.Fleet.load(job).score(fresh)
    assert output_text.columns.tolist() == wanted.columns.tolist()
    assert output_text.equals(wanted)
    assert set(output_text["prediction"]) == {"high", "low"}
    assert not list((tmp_path / "model").rglob("*.pkl"))


def test_the_hub_folder_is_a_fleet_with_a_card_that_says_what_it_holds(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert export(job, "huggingface", tmp_path / "hub") == 0
    _, head, text = (tmp_path / "hub" / "README.md").read_text().split("---\n", 2)
    about = yaml.safe_load(head)
    assert about["library_name"] == "kerneltrack"
    assert about["pipeline_tag"] == "tabular-classification"
    assert "**This folder holds rows of the data.**" in text
    assert ": 16 rows in all" in text
    assert "flow, heat, oil" in text
    (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
    names: dict[str, Any] = {"rows": rows_of(seed=1)}
    monkeypatch.chdir(tmp_path)
    exec(code.replace("FOLDER", "hub"), names)
    assert len(names["fleet"]) == 2
    before = kt.Fleet.load(job)
    assert before.update(rows_of(seed=2)).equals(
        kt.Fleet.load(tmp_path / "hub").update(rows_of(seed=2))
    )


def test_one_model_alone(job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for to in ("onnx", "mlflow", "huggingface"):
        assert export(job, to, tmp_path / to, "--model", "b", "--model", "b") == 0
        assert f"1 model for {to} in " in capsys.readouterr().out
    assert [path.name for path in (tmp_path / "onnx").iterdir()] == ["b.onnx"]
    assert list(kt.Fleet.load(tmp_path / "huggingface")) == ["b"]


def test_what_cannot_be_exported_is_one_line_and_nothing_is_written(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    auto = made(tmp_path, "--label", "load", "--learner", "auto")
    full = tmp_path / "full"
    full.mkdir()
    (full / "theirs").write_text("")
    capsys.readouterr()
    for folder, to, output, flags, output_text in [
        (job, "onnx", "new", ("--model", "c"), "--model = 'c': must be one that has a snapshot"),
        (job, "mlflow", "new", ("--model", "c"), "= 'c': must be one that has a snapshot"),
        (job, "onnx", "full", (), "--output = "),
        (job, "mlflow", "full/theirs", (), "--output = "),
        (job, "mlflow", "new", ("--no-learner",), "--no-learner = True: must be given with --to"),
        (auto, "onnx", "new", (), "'auto': must be a linear one: others are no single matrix"),
        (tmp_path / "none", "onnx", "new", (), "cannot be read"),
    ]:
        assert export(folder, to, tmp_path / output, *flags) == 2
        assert output_text in capsys.readouterr().err
        assert not (tmp_path / "new").exists()
    assert [path.name for path in full.iterdir()] == ["theirs"]
    elsewhere = ["export", str(job), "--to", "onnx", "--output", "gs://bucket/graphs"]
    assert main(elsewhere) == 2
    assert "must be a folder of this machine" in capsys.readouterr().err
    assert export(auto, "onnx", tmp_path / "new", "--no-learner") == 0
    session = onnxruntime.InferenceSession(str(tmp_path / "new" / "b.onnx"))
    assert [output.name for output in session.get_outputs()] == ["valid", "features", "loss"]


def test_it_needs_no_beam_and_says_what_onnx_comes_with(job: Path, tmp_path: Path) -> None:
    script = """
import sys
for blocked in sys.argv[1].split(","):
    sys.modules[blocked] = None
from pipelines.cli.main import main
sys.exit(main(sys.argv[2:]))
"""

    def run(blocked: str, to: str) -> subprocess.CompletedProcess[str]:
        flags = ["export", str(job), "--to", to, "--output", str(tmp_path / to)]
        command = [sys.executable, "-c", script, blocked, *flags]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    for to in ("mlflow", "huggingface", "onnx"):
        done = run("apache_beam,pyarrow,mlflow,huggingface_hub", to)
        assert (done.returncode, done.stderr) == (0, "")
    shutil.rmtree(tmp_path / "onnx")
    done = run("onnx", "onnx")
    assert done.returncode == 2
    assert "pip install '.[export]'" in done.stderr
