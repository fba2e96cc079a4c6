"""`rank: auto` of the covariance tracker: one spec, however it is asked for."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from kerneltrack.errors import ConfigError
from kerneltrack.in_memory import run_all
from kerneltrack.registry import get_tracker, parse_spec
from kerneltrack.sklearn import SubspaceTracker
from kerneltrack.trackers import CovarianceSpec
from kerneltrack.trackers.common.spec import SubspaceSpec
from pipelines.cli import spec_options
from tests.oracles.streams import state_bytes, walk


def from_flags(*flags: str) -> SubspaceSpec:
    parser = argparse.ArgumentParser()
    spec_options.add_spec_flags(parser)
    return spec_options.tracker_from_flags(parser.parse_args(flags), None)


def auto(**others: Any) -> SubspaceSpec:
    return parse_spec({"tracker": "covariance", "rank": "auto", **others})


def test_it_is_the_budget_and_a_factor() -> None:
    assert auto(budget=15) == CovarianceSpec(rank=15, budget=15, rank_factor=1.5)
    assert auto(rank_factor=2) == CovarianceSpec(rank=20, budget=20, rank_factor=2.0)
    assert auto(budget=10_000) == CovarianceSpec(rank=1000, budget=10_000, rank_factor=1.5)
    assert parse_spec(auto().to_dict()) == auto()


def test_flags_and_files_say_it_too(tmp_path: Path) -> None:
    expected = CovarianceSpec(rank=15, budget=15, rank_factor=1.5)
    assert from_flags("--tracker", "covariance", "--rank", "auto", "--budget", "15") == expected
    path = tmp_path / "spec.yaml"
    path.write_text("tracker: covariance\nrank: auto\nbudget: 15\n")
    assert from_flags("--spec", str(path)) == expected
    assert from_flags("--spec", str(path), "--rank", "9") == CovarianceSpec(rank=9, budget=15)
    model = SubspaceTracker(tracker="covariance", rank="auto", budget=15).fit(walk(1, 40, 3))
    assert (model.spec_, model.transform(walk(1, 5, 3)).shape) == (expected, (5, 15))


@pytest.mark.parametrize("name", ["okfeb", "okfe", "oana", "dskpca", "rows"])
def test_other_trackers_refuse_it(name: str) -> None:
    with pytest.raises(ConfigError, match="rank = 'auto': must be an integer from 1 to 1000"):
        from_flags("--tracker", name, "--rank", "auto")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("--budget auto", "budget = 'auto': must be an integer from 1"),
        ("--halflife-seconds auto", "--halflife-seconds = 'auto': must be a number > 0"),
        ("--rank many", "--rank = 'many': must be an integer"),
        ("--rank auto --rank-factor 1", "rank_factor = 1.0: must be a number > 1"),
    ],
)
def test_others_are_no_words(flags: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        from_flags("--tracker", "covariance", *flags.split())


def test_fewer_directions_are_used_where_fewer_will_do() -> None:
    # Three channels, two of which hardly move: of nine stored rows a few directions say it all.
    rows = walk(4, 600, 3) * [1.0, 1e-3, 1e-3]
    spec = auto(budget=9, halflife=50.0, standardise=False, gamma=20.0)
    state, features = run_all(spec, rows, ("q",))
    assert features.q is not None
    assert features.q.shape[1] == 9
    assert (features.q[300:] != 0).sum(axis=1).max() < 9
    cut = get_tracker("covariance")
    half, _ = cut.update(spec, cut.init(spec, rows[:1]), rows[:77])
    assert state_bytes(cut.update(spec, half, rows[77:])[0]) == state_bytes(state)
