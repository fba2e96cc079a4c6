"""The transforms in a pipeline of Beam YAML: that of docs/beam.md, run as it stands there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from apache_beam.yaml import yaml_transform

import kerneltrack as kt
from kerneltrack.errors import ConfigError
from kerneltrack.trackers.common.scaling import Scaling, apply_scaling
from transforms.beam_yaml import FACTORIES, measure_mismatch, track_subspace, train_linear

ROOT = Path(__file__).resolve().parents[2]
COUNT = 700
TRACKER = kt.OKFEBSpec(rank=5, budget=10)


def page() -> str:
    (text,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/beam.md").read_text(), re.S)
    return str(text)


def rows_of(wrong: bool = True) -> pa.Table:
    """Rows of two pumps, one of them off from row 600 on; a row of the other has no flow."""
    flow, heat = np.random.default_rng(0).normal(size=(2, 2 * COUNT))
    heat[COUNT + 600 :] += 8
    kept = flow.tolist()
    if wrong:
        kept[3] = None
    return pa.table(
        {
            "pump": ["a"] * COUNT + ["b"] * COUNT,
            "at": np.tile(np.arange(COUNT) * 60, 2),
            "flow": pa.array(kept, pa.float64()),
            "heat": heat,
            "load": np.where(flow > 0, "high", "low"),
        }
    )


def run(text: str) -> None:
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        yaml_transform.expand_pipeline(pipeline, text)


def read(name: str) -> list[dict[str, Any]]:
    paths = sorted(Path().glob(f"{name}-*"))
    assert paths, name
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the page's pipeline has run."""
    folder = tmp_path_factory.mktemp("yaml")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        pq.write_table(rows_of(), "pumps.parquet")
        run(page())
    return folder


def test_the_page_s_pipeline_finds_the_pump_that_is_off(
    done: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(done)
    off = read("episodes")
    assert {line["model_id"] for line in off} == {"b"}
    assert abs(off[-1]["start_index"] - 600) < 20
    assert off[-1]["shares"][1] > 0.9


def test_rows_without_a_value_come_out_with_the_reason(
    done: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(done)
    bad = read("bad")
    assert [line["msg"] for line in bad] == ["flow = None: missing value, or no such field"] * 2
    heat = rows_of()["heat"][3].as_py()
    for line in bad:
        assert line["element"][:3] == ["a", 180, None]
        assert line["element"][3] == pytest.approx(heat, abs=1e-9)


def test_predictions_and_windows_are_those_of_the_arrays(
    done: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(done)
    table = rows_of(wrong=False)
    ridge = kt.RidgeSpec(inputs="both")
    for pump in ("a", "b"):
        mine = table.filter(pa.compute.equal(table["pump"], pump))
        keep = np.array([pump == "b" or at != 3 for at in range(COUNT)])
        x = np.stack([mine[name].to_numpy() for name in ("flow", "heat")], axis=1)[keep]
        labels = mine["load"].filter(pa.array(keep)).to_pylist()
        state, features = kt.run_all(TRACKER, x)
        assert features.z is not None
        own = apply_scaling(Scaling(state.shift, state.scale), x, 4.0) / np.sqrt(2.0)
        _, wanted = kt.learn_all(ridge, np.hstack([own, features.z]), labels)
        output_text = sorted(
            (line for line in read("predictions") if line["model_id"] == pump),
            key=lambda line: line["index"],
        )
        assert [line["prediction"] for line in output_text] == wanted.names
        windows = [line for line in read("windows") if line["model_id"] == pump]
        assert sum(line["rows"] for line in windows) == len(x)
        assert all(0 < line["mismatch"] <= line["trace_bound"] for line in windows)


def without_errors() -> str:
    """The page's pipeline, of `TrackSubspace` alone, whose errors end the job."""
    spec = yaml.safe_load(page())
    source, track, *_ = spec["pipeline"]["transforms"]
    del track["config"]["error_handling"], track["config"]["reference"]
    sink = {"type": "WriteToJson", "input": "Track", "config": {"path": "features"}}
    spec["pipeline"]["transforms"] = [source, track, sink]
    return yaml.safe_dump(spec)


def test_without_error_handling_the_first_bad_row_ends_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(rows_of(), "pumps.parquet")
    with pytest.raises(Exception, match="flow = None: missing value"):
        run(without_errors())
    pq.write_table(rows_of(wrong=False), "pumps.parquet")
    run(without_errors())
    assert len(read("features")) == 2 * COUNT


def test_settings_that_are_wrong_are_named() -> None:
    named: dict[str, Any] = {"time": "at", "features": ["flow"]}
    cases: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
        (track_subspace, {**named, "tracker": {"rnak": 3}}, "did you mean 'rank'"),
        (track_subspace, {**named, "reference": {"rows": 3}}, "rows = 3"),
        (
            track_subspace,
            {**named, "reference": {"only_while": "flwo > 3"}},
            "character 1: there is",
        ),
        (track_subspace, {**named, "model_id": "at"}, "fields = 'at': must be named once"),
        (track_subspace, {**named, "max_disorder": -1.0}, "max_disorder = -1.0"),
        (track_subspace, {**named, "error_handling": {"name": "x"}}, "error_handling"),
        (track_subspace, {**named, "error_handling": {"output": "features"}}, "error_handling"),
        (measure_mismatch, {**named, "window": 1e-9}, "window = 1e-09"),
        (train_linear, {"learner": {"learner": "rigde"}}, "learner = 'rigde'"),
    ]
    for make, values, message in cases:
        with pytest.raises(ConfigError, match=re.escape(message)):
            make(**values)


def test_the_provider_on_the_page_names_all_transforms() -> None:
    (provider,) = yaml.safe_load(page())["providers"]
    assert provider["transforms"] == {
        name: f"{made.__module__}.{made.__name__}" for name, made in FACTORIES.items()
    }
