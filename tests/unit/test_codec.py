"""States as bytes: exact, halved on request, as the golden ones are, and never a crash."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from safetensors.numpy import load, save

from kerneltrack import codec
from kerneltrack.errors import DataError
from kerneltrack.in_memory import run_all
from kerneltrack.registry import get_tracker
from kerneltrack.trackers import CovarianceSpec, OANASpec, OKFEBSpec, OKFESpec
from kerneltrack.trackers.common.spec import SubspaceSpec
from tests.oracles.streams import state_bytes, walk

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
SIZES: dict[str, Any] = {"rank": 3, "warmup": 20, "novelty_window": 100}
SPECS: dict[str, SubspaceSpec] = {
    "okfeb": OKFEBSpec(**SIZES, budget=5),
    "okfe": OKFESpec(**SIZES, max_rows=60),
    "covariance": CovarianceSpec(**SIZES, budget=6, admission="leverage", halflife=50.0),
    "oana": OANASpec(**SIZES, budget=6, threshold=0.5),
}
ROWS = walk(0, 200, 4)


@pytest.fixture(params=list(SPECS.values()), ids=list(SPECS))
def spec(request: pytest.FixtureRequest) -> SubspaceSpec:
    chosen: SubspaceSpec = request.param
    return chosen


@pytest.mark.parametrize("name", ["okfeb", "okfe", "covariance", "oana"])
def test_this_version_decodes_and_continues_to_the_same_features(name: str) -> None:
    snapshot = codec.decode((GOLDEN / f"{name}_v{codec.VERSION}.safetensors").read_bytes())
    assert snapshot.spec.tracker == name
    assert snapshot.header["about"] == {"model": "golden"}
    tracker = get_tracker(name)
    with np.load(GOLDEN / f"{name}_v{codec.VERSION}.npz") as expected:
        _, features = tracker.update(snapshot.spec, snapshot.state, expected["rows"], ("q", "s"))
        for field in {*expected} - {"rows"}:
            assert getattr(features, field).tobytes() == expected[field].tobytes(), field


def parts_of(data: bytes) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    """A snapshot's own header, that of its arrays, and their bytes."""
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    return json.loads(header.pop("__metadata__")["kerneltrack"]), header, data[end:]


def test_the_golden_bytes_are_still_written() -> None:
    for path in sorted(GOLDEN.glob(f"*_v{codec.VERSION}.safetensors")):
        data = path.read_bytes()
        snapshot = codec.decode(data)
        again = codec.encode(snapshot.spec, snapshot.state, snapshot.header["about"])
        (old, *arrays), (new, *arrays_again) = parts_of(data), parts_of(again)
        # Specs have settings more since then.
        assert old.pop("spec").items() <= new.pop("spec").items()
        assert (old, arrays) == (new, arrays_again)


def test_single_precision_halves_the_reals_and_keeps_the_features(spec: SubspaceSpec) -> None:
    tracker = get_tracker(spec.tracker)
    state, _ = run_all(spec, ROWS[:100])
    full, half = codec.encode(spec, state), codec.encode(spec, state, float32=True)
    arrays = load(half)
    reals = [a for a in tracker.arrays(state).values() if a.dtype == np.float64]
    assert len(full) - len(half) == pytest.approx(4 * sum(a.size for a in reals), abs=64)
    assert {str(a.dtype) for a in arrays.values()} == {"float32", "int64"}
    snapshot = codec.decode(half)
    expected = tracker.project(spec, state, ROWS[100:], ("q", "s"))
    features = tracker.project(spec, snapshot.state, ROWS[100:], ("q", "s"))
    for field in ("z", "s", "loss"):
        found, wanted = getattr(features, field), getattr(expected, field)
        assert (found is None) == (wanted is None)
        assert found is None or np.abs(found - wanted).max() < 1e-5
    assert {a.dtype.name for a in snapshot.state._asdict().values()} == {"float64", "int64"}


def test_arrays_are_named_and_plain(spec: SubspaceSpec) -> None:
    """Any reader of safetensors gets the state; only the one header entry is the project's."""
    state, _ = run_all(spec, ROWS[:80])
    data = codec.encode(spec, state)
    arrays = load(data)
    assert set(arrays) == set(state._fields)
    for name, array in arrays.items():
        assert np.array_equal(array, getattr(state, name))
    header = codec.read_header(data)
    assert header == {
        "version": codec.VERSION,
        "tracker": spec.tracker,
        "spec": spec.to_dict(),
        "about": {},
    }


def test_a_decoded_state_is_its_own(spec: SubspaceSpec) -> None:
    state, _ = run_all(spec, ROWS[:50])
    data = codec.encode(spec, state)
    first, second = codec.decode(data), codec.decode(data)
    first.state.counts[0] = 7
    first.state.support[:] = np.nan
    assert state_bytes(second.state) == state_bytes(state)


def rewritten(data: bytes, change: Callable[[dict[str, Any]], Any]) -> bytes:
    """The snapshot with another header."""
    header = codec.read_header(data)
    change(header)
    return bytes(save(load(data), metadata={codec.KEY: json.dumps(header)}))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("version", 2, "format version 2: this code reads version 3"),
        ("version", "2", "format version '2'"),
        ("version", None, "format version None"),
        ("tracker", "pca", "damaged state: tracker"),
        ("tracker", ["okfeb"], "damaged state"),
        ("spec", 5, "damaged state"),
        ("spec", {"rank": 4}, "damaged state: state"),
        ("spec", {"rank": -4}, "damaged state: rank = -4"),
        ("spec", {"rnak": 4}, "did you mean 'rank'"),
        ("about", [], "damaged header: about is no object"),
        ("about", None, "damaged header: about is no object"),
    ],
)
def test_headers_that_do_not_fit(field: str, value: Any, message: str) -> None:
    spec = SPECS["okfeb"]
    data = codec.encode(spec, run_all(spec, ROWS[:50])[0])
    with pytest.raises(DataError, match=message) as caught:
        codec.decode(rewritten(data, lambda header: header.update({field: value})), "m.safetensors")
    assert str(caught.value).startswith("m.safetensors: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 8,
        b"PAR1" * 10,
        b"{}",
        bytes(save({"x": np.zeros(3)})),
        bytes(save({"x": np.zeros(3)}, metadata={codec.KEY: "no json"})),
        bytes(save({"x": np.zeros(3)}, metadata={codec.KEY: "[]"})),
        bytes(save({"x": np.zeros(3)}, metadata={codec.KEY: f'{{"version": {codec.VERSION}}}'})),
        b"\xff" * 100,
    ],
)
def test_bytes_that_are_no_snapshot(data: bytes) -> None:
    with pytest.raises(DataError):
        codec.decode(data)


def test_arrays_of_another_shape_missing_or_too_many(spec: SubspaceSpec) -> None:
    state, _ = run_all(spec, ROWS[:50])
    header = json.dumps(codec.read_header(codec.encode(spec, state)))
    arrays = dict(state._asdict())

    def refused(changed: dict[str, Any], message: str) -> None:
        with pytest.raises(DataError, match=message):
            codec.decode(bytes(save(changed, metadata={codec.KEY: header})))

    for name, array in arrays.items():
        refused({**arrays, name: np.zeros((*array.shape, 1))}, "damaged state")
        refused({k: v for k, v in arrays.items() if k != name}, "damaged state")
    refused({**arrays, "extra": np.zeros(1)}, "extra")
    refused({**arrays, "factor": state.factor.astype(np.float16)}, "damaged state")


def test_truncated_bytes_are_refused(spec: SubspaceSpec) -> None:
    data = codec.encode(spec, run_all(spec, ROWS[:50])[0])
    rng = np.random.default_rng(0)
    for length in [0, 1, 7, 8, 9, len(data) - 1, *rng.integers(0, len(data), 500)]:
        with pytest.raises(DataError):
            codec.decode(data[:length])


def test_flipped_bits_are_refused_or_give_a_state_that_works(spec: SubspaceSpec) -> None:
    data = codec.encode(spec, run_all(spec, ROWS[:50])[0])
    rng = np.random.default_rng(1)
    decoded = 0
    for trial in range(2000):
        damaged = bytearray(data)
        for _ in range(rng.integers(1, 4)):
            # Half of the damage is in the header, which is shorter than the arrays.
            damaged[rng.integers(0, len(data) if trial % 2 else 2500)] ^= 1 << rng.integers(0, 8)
        try:
            snapshot = codec.decode(bytes(damaged))
        except DataError:
            continue
        decoded += 1
        # Rows may be refused or nonsense, but the state cannot lead the loop out of its arrays.
        get_tracker(snapshot.spec.tracker).project(snapshot.spec, snapshot.state, np.zeros((1, 4)))
    assert 100 < decoded < 1900


@pytest.mark.parametrize("place", range(9))
@pytest.mark.parametrize("value", [-1, 2**40, -(2**63)])
def test_impossible_counts_are_refused(spec: SubspaceSpec, place: int, value: int) -> None:
    state, _ = run_all(spec, ROWS[:50])
    counts = state.counts.copy()
    counts[place] = value
    if value > 0 and place not in (1, 8):
        return
    with pytest.raises(DataError):
        codec.decode(codec.encode(spec, state._replace(counts=counts)))


@pytest.mark.parametrize(
    ("name", "array"),
    [("counts", np.zeros(0, np.int64)), ("support", np.zeros(())), ("support", np.zeros((0, 0)))],
)
def test_odd_shapes(spec: SubspaceSpec, name: str, array: npt.NDArray[Any]) -> None:
    state, _ = run_all(spec, ROWS[:50])
    header = json.dumps(codec.read_header(codec.encode(spec, state)))
    with pytest.raises(DataError):
        codec.decode(bytes(save({**state._asdict(), name: array}, metadata={codec.KEY: header})))


def test_a_number_too_large_for_a_float(spec: SubspaceSpec) -> None:
    data = codec.encode(spec, run_all(spec, ROWS[:50])[0])
    with pytest.raises(DataError):
        codec.decode(rewritten(data, lambda header: header["spec"].update(gamma=10**400)))


def _arrays(letters: str) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    kinds = {"d": np.float64, "f": np.float32, "l": np.int64}
    return {
        f"a{letter}.{number}": (10 * rng.normal(size=(number, 3))).astype(kinds[letter])
        for number, letter in enumerate(letters)
    }


@pytest.mark.parametrize("letters", ["", "d", "fld", "dlfdlf", "ffll"])
@pytest.mark.parametrize("text", ["{}", '{"about": {"model_id": "\\u00e9\\\\ \\"q\\""}}'])
def test_bytes_are_those_that_safetensors_writes(letters: str, text: str) -> None:
    arrays = _arrays(letters)
    assert codec.to_bytes(arrays, text) == save(arrays, metadata={codec.KEY: text})


def test_arrays_that_no_state_has_are_not_written() -> None:
    with pytest.raises(TypeError, match="array x is of type int32"):
        codec.to_bytes({"x": np.zeros(2, np.int32)}, "{}")
