"""Frozen models in onnxruntime say what the tracker and the learner say; what cannot be frozen."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import kerneltrack as kt
from kerneltrack.errors import ConfigError
from kerneltrack.export.frozen import freeze, freeze_head
from kerneltrack.export.onnx import to_onnx
from kerneltrack.learners.common.inputs import inputs_of

WIDTH = 4
CLOSE = 1e-12
KERNELS = ("gaussian", "laplacian", "polynomial", "linear")
SPECS = [
    *({"tracker": "okfeb", "kernel": kernel, "rank": 5, "budget": 12} for kernel in KERNELS),
    *({"tracker": "covariance", "kernel": kernel, "rank": 5, "budget": 12} for kernel in KERNELS),
    {"tracker": "oana", "rank": 5, "budget": 12},
    {"tracker": "okfe", "rank": 5},
    {"tracker": "rows", "rank": WIDTH, "clip": 2.0},
    {"tracker": "okfeb", "rank": 5, "budget": 12, "rule": "nonparametric", "emit": "q"},
    {"tracker": "okfeb", "rank": 5, "budget": 12, "clip": 1.5},
    {"tracker": "okfeb", "rank": 5, "budget": 12, "standardise": False, "gamma": 9.0},
    {"tracker": "covariance", "rank": 8, "rank_factor": 1.5, "budget": 20},
    {"tracker": "covariance", "rank": 5, "budget": 12, "emit": "q"},
]
LEARNERS = ("ridge", "logistic", "hinge", "pegasos", "lms", "pa")


def rows_of(count: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Rows whose channels differ in scale, the second one made of the first."""
    rows = np.random.default_rng(seed).normal(size=(count, WIDTH))
    rows[:, 1] += rows[:, 0] ** 2
    return rows * [1.0, 40.0, 0.01, 3.0] + [0.0, 100.0, 5.0, -1.0]


def z_of(features: kt.Features) -> np.ndarray[Any, Any]:
    assert features.z is not None
    return features.z


def labels_of(rows: np.ndarray[Any, Any]) -> list[str]:
    return [("low", "high")[int(row[0] > 0)] if row[3] < 2 else "ä" for row in rows]


def answers(data: bytes, rows: np.ndarray[Any, Any]) -> dict[str, Any]:
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"rows": rows}), strict=True))


@pytest.mark.parametrize("values", SPECS, ids=lambda values: "-".join(map(str, values.values())))
def test_features_and_loss_are_those_of_the_tracker(values: dict[str, Any]) -> None:
    spec = kt.parse_spec({"warmup": 100, **values})
    state, _ = kt.run_all(spec, rows_of(600))
    fresh = rows_of(200, seed=1)
    wanted = kt.get_tracker(spec.tracker).project(spec, state, fresh)
    output_text = answers(to_onnx(freeze(spec, state)), fresh)
    assert output_text.keys() == {"valid", "features", "loss"}
    assert output_text["valid"].all()
    features = wanted.z if spec.emit == "z" else wanted.q
    assert features is not None
    size = max(1.0, float(np.abs(features).max()))
    np.testing.assert_allclose(output_text["features"], features, rtol=0, atol=CLOSE * size)
    size = max(1.0, float(np.square(fresh / state.scale - state.shift).sum(axis=1).max()) ** 2)
    size = size if spec.kernel == "polynomial" else max(1.0, float(wanted.loss.max()))
    np.testing.assert_allclose(output_text["loss"], wanted.loss, rtol=0, atol=CLOSE * size)


@pytest.mark.parametrize("inputs", ["features", "rows", "both"])
@pytest.mark.parametrize("name", LEARNERS)
def test_predictions_are_those_of_the_learner(name: str, inputs: str) -> None:
    spec = kt.OKFEBSpec(rank=5, budget=12, warmup=100)
    known = rows_of(600)
    state, features = kt.run_all(spec, known)
    learner_spec = kt.parse_learner_spec({"learner": name, "inputs": inputs})
    reported, _ = inputs_of(learner_spec, z_of(features), spec, state, known)
    learned, _ = kt.learn_all(learner_spec, reported, labels_of(known))
    fresh = rows_of(200, seed=1)
    # Far out, where what a learner is told of the row is clipped.
    fresh[:20] *= 30.0
    tracker, learner = kt.get_tracker(spec.tracker), kt.get_learner(name)
    z = z_of(tracker.project(spec, state, fresh))
    reported, _ = inputs_of(learner_spec, z, spec, state, fresh)
    wanted = learner.predict(learner_spec, learned, reported)
    head = freeze_head(learner_spec, learned, spec, WIDTH)
    output_text = answers(to_onnx(freeze(spec, state), head), fresh)
    assert wanted.score is not None
    assert output_text["label"].tolist() == wanted.names
    assert {"low", "high", "ä"} == set(wanted.names)
    size = max(1.0, float(np.abs(output_text["values"]).max()))
    np.testing.assert_allclose(output_text["score"], wanted.score, rtol=0, atol=CLOSE * size)
    values = learner.values(learner_spec, learned, reported)
    np.testing.assert_allclose(output_text["values"], values, rtol=0, atol=CLOSE * size)
    chances = learner.probabilities(learner_spec, learned, reported)
    np.testing.assert_allclose(output_text["probabilities"], chances, rtol=0, atol=CLOSE * size)


@pytest.mark.parametrize("bias", [True, False])
def test_targets_are_those_of_the_learner(bias: bool) -> None:
    spec = kt.OKFEBSpec(rank=5, budget=12, warmup=100)
    known, fresh = rows_of(600), rows_of(50, seed=1)
    state, features = kt.run_all(spec, known)
    learner_spec = kt.RidgeSpec(task="regression", inputs="features", bias=bias)
    learned, _ = kt.learn_all(learner_spec, z_of(features), known[:, 3])
    z = z_of(kt.get_tracker(spec.tracker).project(spec, state, fresh))
    wanted = kt.get_learner("ridge").predict(learner_spec, learned, z).value
    assert wanted is not None
    head = freeze_head(learner_spec, learned, spec, WIDTH)
    output_text = answers(to_onnx(freeze(spec, state), head), fresh)
    assert output_text.keys() == {"valid", "features", "loss", "value"}
    np.testing.assert_allclose(output_text["value"], wanted, rtol=0, atol=CLOSE * 10)


@pytest.mark.parametrize("values", [{"kernel": "gaussian"}, {"kernel": "polynomial"}, {"clip": 3}])
def test_valid_says_which_rows_the_tracker_takes(values: dict[str, Any]) -> None:
    spec = kt.parse_spec({"rank": 5, "budget": 12, "warmup": 100, **values})
    state, _ = kt.run_all(spec, rows_of(300))
    fresh = rows_of(8, seed=1)
    fresh[1, 0], fresh[2, 3], fresh[3, 1], fresh[4, 2] = np.nan, np.inf, -np.inf, 1e155
    fresh[5, 2] = 1e60
    wanted = kt.get_tracker(spec.tracker).project(spec, state, fresh).valid
    output_text = answers(to_onnx(freeze(spec, state)), fresh)
    assert output_text["valid"].tolist() == wanted.tolist()
    assert not wanted.all()


def test_bytes_are_equal_for_equal_models_and_say_what_they_hold() -> None:
    spec = kt.OKFEBSpec(rank=5, budget=12, warmup=100)
    state, _ = kt.run_all(spec, rows_of(300))
    about = {"model_id": "pump 7", "channels": ["a", "b", "c", "d"]}
    data = to_onnx(freeze(spec, state), about=about)
    assert data == to_onnx(freeze(spec, state), about=about)
    model = onnx.load_model_from_string(data)
    assert "holds rows of the data" in model.doc_string
    kept = {entry.key: json.loads(entry.value) for entry in model.metadata_props}
    assert kept == {"kerneltrack": about}
    assert [one.version for one in model.opset_import] == [17]


@pytest.mark.parametrize(
    ("values", "count", "message"),
    [
        ({"tracker": "dskpca"}, 300, "tracker = 'dskpca': must be one of okfeb, okfe, covariance"),
        ({"tracker": "okfeb", "budget": 12}, 0, "stored rows = 0: must be one at least"),
    ],
)
def test_what_is_no_graph_is_named(values: dict[str, Any], count: int, message: str) -> None:
    spec = kt.parse_spec({"rank": 5, "warmup": 100, **values})
    tracker = kt.get_tracker(spec.tracker)
    state = tracker.init(spec, rows_of(300))
    if count:
        state, _ = tracker.update(spec, state, rows_of(count))
    with pytest.raises(ConfigError, match=message):
        freeze(spec, state)


def test_learners_without_a_matrix_or_a_label_are_named() -> None:
    spec = kt.OKFEBSpec(rank=5)
    auto = kt.parse_learner_spec({"learner": "auto"})
    state = kt.get_learner("auto").begin(auto, WIDTH, WIDTH)
    with pytest.raises(ConfigError, match="learner = 'auto': must be a linear one"):
        freeze_head(auto, state, spec, WIDTH)
    for ridge in (kt.RidgeSpec(), kt.RidgeSpec(task="regression")):
        fresh = kt.get_learner("ridge").init(ridge, 5)
        with pytest.raises(ConfigError, match="labels = 0: must be one at least"):
            freeze_head(ridge, fresh, spec, WIDTH)
