"""Specs: what is accepted, what is refused and how, and that a digest names a spec."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest
import yaml

from kerneltrack.errors import ConfigError
from kerneltrack.registry import TRACKERS, parse_spec
from kerneltrack.specs import spec_from_dict
from kerneltrack.trackers import CovarianceSpec, OKFEBSpec, OKFESpec
from kerneltrack.trackers.common.spec import SubspaceSpec

NOT_NUMBERS: list[Any] = [None, True, "many", math.nan, [1.0], 10**400]
BAD: dict[str, list[Any]] = {
    "rank": [0, -1, 1001, 2.0, "3", True, None],
    "kernel": ["rbf", "", 3, None, ["gaussian"]],
    "gamma": [*NOT_NUMBERS, 0.0, -1.0, math.inf, "Median"],
    "degree": [0, 21, 2.0, None],
    "offset": [*NOT_NUMBERS, -0.5, -2.0, math.inf],
    "ridge": [*NOT_NUMBERS, 0.0, -1e-3, 1e7, math.inf],
    "rule": ["both", None, 1],
    "step": ["fixed", None, 0],
    "step_size": [*NOT_NUMBERS, 0.0, -1.0, 1e7, math.inf],
    "start": ["zero", None],
    "emit": ["s", None],
    "seed": [-1, 2**63, 1.5, None, True],
    "standardise": [1, "yes", None],
    "clip": [*NOT_NUMBERS[1:], 0.0, -3.0, math.inf],
    "warmup": [1, 100_001, 2.0, None],
    "novelty_window": [99, 100_001, 256.0, None],
    "scale_window": [9, 10_000_001, 256.0, None, True],
}
BAD_OKFEB: dict[str, list[Any]] = {
    "budget": [0, 9, 10_001, 15.0, None, True],
    "policy": ["oldest", None],
    "forgetting": [*NOT_NUMBERS, 0.0, -0.1, 1.5, 1.00000005],
    "censor": ["always", None],
    "threshold": [*NOT_NUMBERS, -0.1, math.inf],
    "censor_rate": [*NOT_NUMBERS, 0.0, 1.0, -1.0],
}
BAD_OKFE: dict[str, list[Any]] = {"max_rows": [0, 9, 20_001, 50.0, None]}


def bad_values() -> list[tuple[type[SubspaceSpec], str, Any]]:
    own: dict[type[SubspaceSpec], dict[str, list[Any]]] = {
        OKFEBSpec: BAD | BAD_OKFEB,
        OKFESpec: BAD | BAD_OKFE,
    }
    return [
        (kind, field, value)
        for kind, fields in own.items()
        for field, values in fields.items()
        for value in values
    ]


@pytest.mark.parametrize(("kind", "field", "value"), bad_values())
def test_a_bad_value_is_named_with_what_is_allowed(
    kind: type[SubspaceSpec], field: str, value: Any
) -> None:
    with pytest.raises(ConfigError) as caught:
        kind(**{field: value})
    error = caught.value
    assert error.field == field
    assert error.value == value or error.value != error.value
    assert error.allowed and "\n" not in str(error)
    assert str(error).startswith(f"{field} = ") and error.allowed in str(error)


@pytest.mark.parametrize("kind", [OKFEBSpec, OKFESpec])
def test_no_field_is_left_unchecked(kind: type[SubspaceSpec]) -> None:
    checked = {field for k, field, _ in bad_values() if k is kind}
    assert {field.name for field in dataclasses.fields(kind)} == checked


GOOD: dict[str, Any] = {
    "rank": 3,
    "budget": 3,
    "gamma": "median",
    "ridge": 1e-12,
    "forgetting": 1.0,
    "threshold": 0.0,
    "clip": None,
    "warmup": 2,
    "novelty_window": 100,
    "scale_window": 10,
    "seed": 2**63 - 1,
    "offset": 0.0,
}


@pytest.mark.parametrize("field", GOOD)
def test_the_edges_of_the_ranges_are_allowed(field: str) -> None:
    fields = {"rank": 3, "budget": 3, field: GOOD[field]}
    assert getattr(OKFEBSpec(**fields), field) == GOOD[field]


def test_plain_values_as_yaml_reads_them() -> None:
    text = """
tracker: okfeb
rank: 4
budget: 8
gamma: 2
ridge: 1e-3
clip: 4
forgetting: 1
standardise: false
"""
    spec = parse_spec(yaml.safe_load(text))
    expected = OKFEBSpec(
        rank=4, budget=8, gamma=2.0, ridge=1e-3, clip=4.0, forgetting=1.0, standardise=False
    )
    assert spec == expected
    assert spec.digest() == expected.digest()
    assert isinstance(spec.gamma, float)


def test_a_spec_goes_there_and_back() -> None:
    for kind in (OKFEBSpec, OKFESpec, CovarianceSpec):
        spec = kind(rank=4, kernel="polynomial", seed=3)
        assert parse_spec(json.loads(json.dumps(spec.to_dict()))) == spec
        assert next(iter(spec.to_dict())) == "tracker"


def test_the_default_tracker() -> None:
    assert parse_spec({}) == OKFEBSpec()
    assert isinstance(parse_spec({"tracker": "okfe"}), OKFESpec)
    assert len(TRACKERS) > 5
    assert [tracker.name for tracker in TRACKERS.values()] == list(TRACKERS)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"budjet": 3}, "did you mean 'budget'"),
        ({"tracker": "pca"}, "one of okfeb, okfe, covariance"),
        ({"tracker": "okfe", "budget": 3}, "a field of okfe"),
        ({"rank": 20, "budget": 10}, r"at least the rank \(20\)"),
        ({"ridge": "a lot"}, "must be a number"),
    ],
)
def test_bad_plain_values(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_spec(values)


def test_a_digest_names_a_spec() -> None:
    changes: dict[str, Any] = {
        "rank": 11,
        "kernel": "laplacian",
        "gamma": 1.0,
        "degree": 3,
        "offset": 2.0,
        "ridge": 1e-2,
        "rule": "nonparametric",
        "step": "inverse_n",
        "step_size": 2.0,
        "start": "rank_one",
        "emit": "q",
        "seed": 1,
        "standardise": False,
        "clip": 5.0,
        "warmup": 50,
        "novelty_window": 100,
        "scale_window": 1000,
        "budget": 21,
        "policy": "fifo",
        "forgetting": 1.0,
        "censor": "moving",
        "threshold": 0.1,
        "censor_rate": 0.5,
    }
    assert set(changes) == {field.name for field in dataclasses.fields(OKFEBSpec)}
    digests = {OKFEBSpec(**{name: value}).digest() for name, value in changes.items()}
    digests |= {OKFEBSpec().digest(), OKFESpec().digest()}
    assert len(digests) == len(changes) + 2
    assert all(len(digest) == 16 for digest in digests)
    # Outputs on disk carry it: it may change only with a line in the changelog.
    assert OKFEBSpec().digest() == "04e0068c199d5e71"


@pytest.mark.parametrize(
    ("fields", "rows"),
    [
        ({}, 500),
        ({"standardise": False}, 500),
        ({"standardise": False, "gamma": 2.0}, 1),
        ({"standardise": False, "kernel": "linear"}, 1),
        ({"standardise": False, "kernel": "polynomial", "warmup": 9}, 1),
        ({"kernel": "linear", "warmup": 9}, 9),
    ],
)
def test_rows_to_start(fields: dict[str, Any], rows: int) -> None:
    assert OKFEBSpec(**fields).rows_to_start == rows


def test_specs_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        OKFEBSpec().rank = 3  # type: ignore[misc]


def test_equal_specs_have_equal_digests() -> None:
    assert OKFEBSpec(gamma=2, ridge=1) == OKFEBSpec(gamma=2.0, ridge=1.0)
    assert OKFEBSpec(gamma=2, ridge=1).digest() == OKFEBSpec(gamma=2.0, ridge=1.0).digest()


@pytest.mark.parametrize(
    "values", [{"gamma": 10**400}, {5: 1}, {None: 1}, {"tracker": ["okfeb"]}, {"tracker": None}]
)
def test_odd_plain_values_are_config_errors(values: dict[Any, Any]) -> None:
    with pytest.raises(ConfigError):
        parse_spec(values)


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("forgetting", 1.5, "<= 1"),
        ("threshold", -1.0, ">= 0"),
        ("offset", -2.0, ">= 0"),
        ("ridge", 1e7, "1e-12"),
    ],
)
def test_the_range_in_the_message_is_the_documented_one(
    field: str, value: float, allowed: str
) -> None:
    with pytest.raises(ConfigError, match=allowed):
        spec_from_dict(OKFEBSpec, {field: value})


@pytest.mark.parametrize(("field", "value"), [("ridge", 1e6), ("step_size", 1e6)])
def test_documented_edges_hold(field: str, value: float) -> None:
    spec_from_dict(OKFEBSpec, {field: value})


def test_ridge_below_the_documented_range() -> None:
    with pytest.raises(ConfigError):
        OKFEBSpec(ridge=5e-13)
