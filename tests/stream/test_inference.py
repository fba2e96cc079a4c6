"""RunInference over a folder of snapshots says what `Fleet.score` says, in any order and batch."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.ml.anomaly.detectors.offline import OfflineDetector
from apache_beam.ml.anomaly.transforms import AnomalyDetection
from apache_beam.ml.inference.base import KeyedModelHandler, RunInference
from apache_beam.testing.util import assert_that

import kerneltrack as kt
from kerneltrack.errors import ConfigError, DataError
from transforms.inference import SnapshotHandler

COUNT = 300
FIELDS: dict[str, Any] = {"features": ["flow", "heat"], "model_id": "pump"}


def table_of(seed: int, count: int = COUNT) -> pa.Table:
    x = np.random.default_rng(seed).normal(size=(2 * count, 2))
    return pa.table(
        {
            "pump": ["a"] * count + ["b"] * count,
            "flow": x[:, 0],
            "heat": x[:, 1],
            "load": np.where(x[:, 0] > 0, "high", "low"),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    fleet = kt.Fleet(rank=4, budget=8, warmup=100, learner="ridge")
    fleet.update(table_of(0), model_id="pump", label="load")
    place = tmp_path_factory.mktemp("fleet") / "snapshots"
    fleet.save(place)
    return str(place)


def examples(count: int = 40) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = table_of(1, count).to_pylist()
    return [{**line, "row": row} for row, line in enumerate(lines)]


def expected(folder: str) -> list[dict[str, Any]]:
    output_text = kt.Fleet.load(folder).score(table_of(1, 40)).to_pylist()
    return [
        {
            "features": [line[f"z{at}"] for at in range(4)],
            **{name: line[name] for name in ("loss", "novelty", "prediction", "score", "margin")},
        }
        for line in output_text
    ]


@pytest.mark.parametrize("form", ["dicts", "rows", "shuffled"])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_inferences_are_the_fleet_s(folder: str, form: str, size: int) -> None:
    wanted = expected(folder)
    given: list[Any] = examples()
    if form == "shuffled":
        random.Random(2).shuffle(given)
    order = [example["row"] for example in given]
    if form == "rows":
        given = [beam.Row(**example) for example in given]
    handler = SnapshotHandler(folder, **FIELDS, max_batch_size=size)
    keyed = [(f"key {at}", example) for at, example in enumerate(given)]

    def check(results: list[Any]) -> None:
        assert len(results) == len(wanted)
        for key, result in results:
            example = result.example._asdict() if form == "rows" else result.example
            assert example["row"] == order[int(key[4:])]
            assert result.inference == wanted[example["row"]]

    with beam.Pipeline() as pipeline:
        found = pipeline | beam.Create(keyed) | RunInference(KeyedModelHandler(handler))
        assert_that(found, check)


def test_rows_that_cannot_be_taken_have_a_reason(folder: str) -> None:
    handler = SnapshotHandler(folder, **FIELDS)
    models = handler.load_model()
    good, none, far, other = examples()[:4]
    none["heat"], far["flow"], other["pump"] = None, 1e200, "c"
    found = handler.run_inference([good, none, far, other], models)
    output_text: list[Any] = [one.inference for one in found]
    assert output_text[0] == expected(folder)[0]
    assert output_text[1:] == [
        {"reason": "channel 1 is NaN"},
        {"reason": output_text[2]["reason"]},
        {"reason": "no snapshot of model 'c'"},
    ]
    assert "too large once standardised" in output_text[2]["reason"]
    with pytest.raises(DataError, match="has no model id: the field 'pump' is missing"):
        list(handler.run_inference([{"flow": 1.0, "heat": 2.0}], models))


def test_new_snapshots_are_taken_and_single_models_need_no_id(folder: str, tmp_path: Path) -> None:
    kt.Fleet.load(folder, ["b"]).save(tmp_path / "one")
    handler = SnapshotHandler(folder, features=["flow", "heat"])
    with pytest.raises(ConfigError, match="model_id = None: must be the field that names"):
        list(handler.run_inference(examples()[:1], handler.load_model()))
    handler.update_model_path(str(tmp_path / "one"))
    (output_text,) = handler.run_inference(examples()[-1:], handler.load_model())
    assert (output_text.inference, output_text.model_id) == (
        expected(folder)[-1],
        str(tmp_path / "one"),
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": []}, "features"),
        ({"features": "flow"}, "features = 'flow': must be a list of names"),
        ({"only": "p"}, "only = 'p': must be one of features, loss"),
    ],
)
def test_bad_arguments_are_refused(folder: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SnapshotHandler(folder, **{**FIELDS, **options})


def test_other_channels_than_the_models_have_are_refused(folder: str) -> None:
    handler = SnapshotHandler(folder, features=["flow"], model_id="pump")
    with pytest.raises(ConfigError, match="features = 1: must be 2, as the models have"):
        list(handler.run_inference(examples()[:1], handler.load_model()))


def test_one_number_serves_the_offline_detector(folder: str) -> None:
    handler: Any = KeyedModelHandler(SnapshotHandler(folder, **FIELDS, only="loss"))
    scored = handler.with_postprocess_fn(OfflineDetector.score_prediction_adapter)
    detector = OfflineDetector(scored, model_id="frozen")
    given = [(line["pump"], beam.Row(**line)) for line in examples()]
    wanted = sorted(line["loss"] for line in expected(folder))

    def check(results: list[Any]) -> None:
        assert sorted(found.predictions[0].score for _, found in results) == wanted

    with beam.Pipeline() as pipeline:
        assert_that(pipeline | beam.Create(given) | AnomalyDetection(detector), check)
