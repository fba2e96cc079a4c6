"""Learners' states as bytes: exact mid-stream, of one kind only, and never a crash."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from safetensors.numpy import load, save

from kerneltrack import codec
from kerneltrack.errors import DataError
from kerneltrack.in_memory import run_all
from kerneltrack.learners import LearnerSpec, RidgeSpec
from kerneltrack.registry import get_learner
from kerneltrack.trackers import OKFEBSpec
from tests.golden.make import LEARNERS
from tests.oracles.learner_cases import (
    SPECS,
    WIDTH,
    arrays_of,
    begun,
    every_spec,
    same_predictions,
    same_state,
    stream,
)
from tests.unit.test_codec import rewritten

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "learners"
SPEC = RidgeSpec()
ABOUT = {"model_id": "é/1", "rows": 7, "time": None}


def state_of(spec: LearnerSpec) -> Any:
    return begun(spec)[1]


@every_spec
@pytest.mark.parametrize("at", [0, 1, 17, 120])
def test_a_learner_goes_on_from_its_bytes(spec: LearnerSpec, at: int) -> None:
    learner = get_learner(spec.learner)
    rows, labels = stream(spec)
    state, first = learner.update(spec, learner.init(spec, WIDTH), rows[:at], labels[:at])
    snapshot = codec.decode_learner(codec.encode_learner(spec, state, ABOUT))
    assert (snapshot.spec, snapshot.header["about"]) == (spec, ABOUT)
    same_state(snapshot.state, state)
    after, then = learner.update(snapshot.spec, snapshot.state, rows[at:], labels[at:])
    whole, output_text = learner.update(spec, learner.init(spec, WIDTH), rows, labels)
    same_state(after, whole)
    same_predictions([first, then], output_text)


@every_spec
def test_equal_states_have_equal_bytes(spec: LearnerSpec) -> None:
    data = codec.encode_learner(spec, state_of(spec), ABOUT)
    again = codec.decode_learner(data)
    assert codec.encode_learner(again.spec, again.state, again.header["about"]) == data
    assert codec.kind_of(again.header) == "learner"
    assert codec.read_header(data)["learner"] == spec.learner


@every_spec
def test_a_decoded_state_is_its_own(spec: LearnerSpec) -> None:
    data = codec.encode_learner(spec, state_of(spec))
    first, second = codec.decode_learner(data), codec.decode_learner(data)
    for array in arrays_of(first.state).values():
        array[...] = 9
    same_state(second.state, state_of(spec))


def test_arrays_beside_a_state_are_kept() -> None:
    extras: dict[str, npt.NDArray[Any]] = {
        "waiting.z": np.arange(6.0).reshape(2, 3),
        "none": np.zeros((0, 4)),
        "codes": np.array([-(2**63), 2**63 - 1]),
        "weights": np.array([np.nan, -0.0, np.inf]),
        "strided": np.arange(12).reshape(3, 4)[:, 1],
    }
    data = codec.encode_learner(SPEC, state_of(SPEC), ABOUT, extras)
    snapshot = codec.decode_learner(data)
    same_state(snapshot.state, state_of(SPEC))
    assert snapshot.extras.keys() == extras.keys()
    for name, array in extras.items():
        found = snapshot.extras[name]
        assert (found.shape, found.dtype) == (array.shape, array.dtype)
        assert found.tobytes() == array.tobytes()
    assert codec.encode_learner(SPEC, snapshot.state, ABOUT, snapshot.extras) == data
    assert set(load(data)) == {
        *get_learner("ridge").arrays(snapshot.state),
        *(codec.EXTRA + name for name in extras),
    }


def test_the_wrong_kind_is_refused_by_name() -> None:
    tracker = OKFEBSpec(rank=2, budget=3, warmup=5)
    rows = np.random.default_rng(0).normal(size=(20, 3))
    tracked = codec.encode(tracker, run_all(tracker, rows)[0])
    learned = codec.encode_learner(SPEC, state_of(SPEC))
    with pytest.raises(DataError, match=r"^m: the state of a tracker \(okfeb\), not of a learner"):
        codec.decode_learner(tracked, "m")
    with pytest.raises(DataError, match=r"^m: the state of a learner \(ridge\), not of a tracker"):
        codec.decode(learned, "m")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("version", 2, "format version 2: this code reads version 3"),
        ("version", None, "format version None"),
        ("learner", "svm", "damaged state: learner"),
        ("learner", ["ridge"], "damaged state"),
        ("learner", "pegasos", "damaged state"),
        ("spec", 5, "damaged state"),
        ("spec", {"ridge": -1}, "damaged state: ridge = -1"),
        ("spec", {"rigde": 1}, "did you mean 'ridge'"),
        ("spec", {"task": "regression"}, "damaged state: state"),
        ("spec", {"max_classes": 2}, "damaged state: state.classes"),
        ("state", None, "damaged state"),
        ("state", {}, "damaged state: state.classes"),
        ("state", {"classes": ["a", "a", "b", "c"]}, "damaged state: state.classes"),
        ("state", {"classes": ["a"]}, "damaged state: state.weights"),
        ("state", {"classes": ["x" * 201, "a", "b", "c"]}, "damaged state: state.classes"),
    ],
)
def test_headers_that_do_not_fit(field: str, value: Any, message: str) -> None:
    data = codec.encode_learner(SPEC, state_of(SPEC))
    changed = rewritten(data, lambda header: header.update({field: value}))
    with pytest.raises(DataError, match=message) as caught:
        codec.decode_learner(changed, "m.safetensors")
    assert str(caught.value).startswith("m.safetensors: ")
    assert "\n" not in str(caught.value)


@every_spec
def test_states_of_another_version_are_refused_by_it_whatever_their_arrays(
    spec: LearnerSpec,
) -> None:
    data = codec.encode_learner(spec, state_of(spec))
    header = {**codec.read_header(data), "version": codec.VERSION - 1}
    arrays = {**load(data), "sums": np.zeros(2)}
    old = bytes(save(arrays, metadata={codec.KEY: json.dumps(header)}))
    versions = f"format version {codec.VERSION - 1}: this code reads version {codec.VERSION}"
    with pytest.raises(DataError, match=f"^m: {versions}$"):
        codec.decode_learner(old, "m")


@pytest.mark.parametrize("name", ["learner", "spec", "state", "version"])
def test_headers_with_a_part_missing(name: str) -> None:
    data = rewritten(codec.encode_learner(SPEC, state_of(SPEC)), lambda header: header.pop(name))
    with pytest.raises(DataError):
        codec.decode_learner(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 8,
        b"{}",
        b"\xff" * 100,
        bytes(save({"x": np.zeros(3)})),
        bytes(save({"x": np.zeros(3)}, metadata={codec.KEY: "[]"})),
        bytes(save({"x": np.zeros(3)}, metadata={codec.KEY: f'{{"version": {codec.VERSION}}}'})),
    ],
)
def test_bytes_that_are_no_learners_state(data: bytes) -> None:
    with pytest.raises(DataError):
        codec.decode_learner(data)


@every_spec
def test_arrays_of_another_shape_missing_or_too_many(spec: LearnerSpec) -> None:
    state = state_of(spec)
    header = json.dumps(codec.read_header(codec.encode_learner(spec, state)))
    arrays = get_learner(spec.learner).arrays(state)

    def refused(changed: dict[str, npt.NDArray[Any]]) -> None:
        with pytest.raises(DataError, match="damaged state"):
            codec.decode_learner(bytes(save(changed, metadata={codec.KEY: header})))

    for name, array in arrays.items():
        refused({**arrays, name: np.zeros((*array.shape, 1))})
        refused({**arrays, name: np.zeros(())})
        refused({**arrays, name: array.astype(np.float16)})
        refused({k: v for k, v in arrays.items() if k != name})
    refused({**arrays, "extra": np.zeros(1)})


def test_a_state_that_claims_to_be_huge_takes_no_memory() -> None:
    """A file of a hundred bytes may say that it is of thousands of features."""
    arrays = {
        "weights": np.zeros((0, 4001)),
        "memory": np.zeros((0, 4001)),
        "sums": np.zeros(2),
        "counts": np.zeros(4, np.int64),
    }
    for spec in SPECS:
        header = codec.read_header(codec.encode_learner(spec, state_of(spec)))
        header["state"] = {"classes": []}
        data = bytes(save(arrays, metadata={codec.KEY: json.dumps(header)}))
        tracemalloc.start()
        try:
            codec.decode_learner(data)
        except DataError:
            pass
        finally:
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        assert peak < 2**20


def test_truncated_bytes_are_refused() -> None:
    data = codec.encode_learner(SPEC, state_of(SPEC), extras={"z": np.zeros((3, 3))})
    for length in range(len(data)):
        with pytest.raises(DataError):
            codec.decode_learner(data[:length])


@every_spec
def test_flipped_bits_are_refused_or_give_a_state_that_works(spec: LearnerSpec) -> None:
    data = codec.encode_learner(spec, state_of(spec), extras={"z": np.zeros((3, 3))})
    rng = np.random.default_rng(1)
    rows, labels = stream(spec, count=20)
    decoded = 0
    for _ in range(600):
        damaged = bytearray(data)
        for _ in range(rng.integers(1, 4)):
            damaged[rng.integers(0, len(data))] ^= 1 << rng.integers(0, 8)
        try:
            snapshot = codec.decode_learner(bytes(damaged))
        except DataError:
            continue
        decoded += 1
        # Predictions may be nonsense, but the state cannot lead the loop out of its arrays.
        learner = get_learner(snapshot.spec.learner)
        if snapshot.spec.task == spec.task:
            learner.update(snapshot.spec, snapshot.state, rows, labels)
    assert 20 < decoded < 580


@pytest.mark.parametrize("value", [-1, -(2**63), 2**63 - 1])
@every_spec
def test_impossible_counts_are_refused(spec: LearnerSpec, value: int) -> None:
    state = state_of(spec)
    state = state._replace(counts=np.full(len(state.counts), value))
    with pytest.raises(DataError, match="counts"):
        codec.decode_learner(codec.encode_learner(spec, state))


@pytest.mark.parametrize("name", list(LEARNERS))
def test_this_version_decodes_and_continues_to_the_same_predictions(name: str) -> None:
    data = (GOLDEN / f"{name}_v{codec.VERSION}.safetensors").read_bytes()
    snapshot = codec.decode_learner(data)
    assert snapshot.spec == LEARNERS[name]
    assert snapshot.header["about"] == {"model": "golden"}
    assert snapshot.extras["waiting"].tolist() == [[0.5, -1.0]]
    about = snapshot.header["about"]
    # The bytes that this version writes are still the same.
    assert codec.encode_learner(snapshot.spec, snapshot.state, about, snapshot.extras) == data
    learner = get_learner(snapshot.spec.learner)
    with np.load(GOLDEN / f"{name}_v{codec.VERSION}.npz") as expected:
        labels = expected["labels"]
        _, output_text = learner.update(snapshot.spec, snapshot.state, expected["rows"], labels)
        assert output_text.names == expected["names"].tolist()
        for field in ("score", "margin", "value", "error"):
            if field in expected:
                assert getattr(output_text, field).tobytes() == expected[field].tobytes(), field
