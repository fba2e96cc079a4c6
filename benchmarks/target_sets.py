"""Streams with targets.

- cadata, cpusmall: as in `defaults_sets`;
- sarcos: the first torque of a robot's arm by its 21 positions, velocities and accelerations;
- gas: the concentration by the 128 features of gas sensors that drift.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow.parquet as pq
from scipy.io import loadmat

from benchmarks.defaults_sets import whole
from benchmarks.places import DATA
from benchmarks.prequential_sets import Stream, matrix_of


def _sarcos() -> Stream:
    table = loadmat(DATA / "sarcos_inv_test.mat")["sarcos_inv_test"].astype(np.float64)
    return Stream(table[:, :21].copy(), table[:, 21].copy(), ())


def _gas() -> Stream:
    table = pq.read_table(DATA / "gas_drift.parquet")
    names = [f"f{place}" for place in range(1, 129)]
    return Stream(matrix_of(table, names), table["conc"].to_numpy().astype(np.float64), ())


SETS: dict[str, Callable[[], Stream]] = {
    "cadata": lambda: whole("cadata"),
    "cpusmall": lambda: whole("cpusmall"),
    "sarcos": _sarcos,
    "gas": _gas,
}
