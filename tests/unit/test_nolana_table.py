"""The short form of NOLANA's tables: what its tables rest on, on few rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks.paper import nolana as bench
from benchmarks.paper.nolana_sets import Rows, shuffled
from kerneltrack.kernels import gram, make_kernel


@pytest.fixture(scope="module")
def usps(data_file: Callable[[str], Path]) -> Rows:
    data_file("usps.npz")
    return shuffled("usps", seed=7, most=1500)


def test_moving_landmarks_are_worth_their_time(usps: Rows) -> None:
    found = {
        method: bench.run_method(method, "usps", usps, setting, seed=0)
        for method, setting in bench.SETTINGS["usps"].items()
    }
    accuracy = {method: each[0] for method, each in found.items()}
    assert accuracy["NOLANA"] > accuracy["NOGD"] > bench.majority(usps) + 0.4
    assert accuracy["FOGD"] > bench.majority(usps) + 0.4
    assert found["NOGD"][1] == 0
    assert 0.2 < found["NOLANA"][1] / len(usps.x) < 0.6


@pytest.mark.nightly
def test_epsilon_steers_the_moves_from_all_to_none(usps: Rows) -> None:
    setting = bench.SETTINGS["usps"]["NOLANA"]
    moved = [
        bench.measure(bench.nolana("usps", usps, setting, epsilon), usps.x, usps)[1]
        for epsilon in bench.SWEEP
    ]
    assert moved == sorted(moved, reverse=True)
    assert (moved[0], moved[-1]) == (1400, 0)


@pytest.mark.nightly
def test_moving_landmarks_come_nearer_to_the_kernel(data_file: Callable[[str], Path]) -> None:
    data_file("cpusmall.tsv.gz")
    rows = shuffled("cpusmall", seed=7, most=2000)
    gamma, sample = rows.median, rows.x[1000:]
    whole = gram(make_kernel("gaussian", gamma), sample, sample)
    errors = []
    for epsilon in (None, 0.0):
        z = bench.nystroem(rows.x, sample, gamma, 20, epsilon)
        errors.append(float(np.linalg.norm(whole - z @ z.T) / np.linalg.norm(whole)))
    assert errors[1] < 0.9 * errors[0] < 0.5
