"""The rows of NOLANA's tables: cpusmall, usps and ijcnn1, shuffled by a seed.

cpusmall's channels are put in [-1, 1] by the ranges of all rows; usps (train and test joined) has
its pixels there, ijcnn1 is joined too. The folder is `KERNELTRACK_DATA`, by default
`../shared/data` beside the project.
"""

from __future__ import annotations

import bz2
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_svmlight_file

from benchmarks.places import DATA
from kerneltrack.arrays import FloatArray
from kerneltrack.kernels import median_bandwidth

FIRST = 500
"""Rows that the bandwidth comes from, and the scale of cpusmall's target."""


class Rows(NamedTuple):
    """Rows in random order with classes or targets; `median`: the median trick's bandwidth."""

    x: FloatArray
    y: npt.NDArray[Any]
    median: float

    @property
    def regression(self) -> bool:
        """Whether the labels are targets."""
        return self.y.dtype == np.float64

    @property
    def labels(self) -> Any:
        """Labels as the learners take them."""
        return self.y if self.regression else [str(label) for label in self.y]


@lru_cache(maxsize=1)
def raw_rows(name: str) -> tuple[FloatArray, npt.NDArray[Any]]:
    """Read a set."""
    if name == "cpusmall":
        table = np.loadtxt(DATA / "cpusmall.tsv.gz", skiprows=1)
        low, high = table.min(axis=0), table.max(axis=0)
        x = 2.0 * (table[:, :-1] - low[:-1]) / (high - low)[:-1] - 1.0
        return np.ascontiguousarray(x), table[:, -1].copy()
    if name == "usps":
        with np.load(DATA / "usps.npz") as data:
            x = np.vstack([data["X"], data["Xt"]]).astype(np.float64)
            return 2.0 * x - 1.0, np.concatenate([data["y"], data["yt"]]).astype(np.int64)
    parts = []
    for file in ("ijcnn1.libsvm.bz2", "ijcnn1.t.libsvm.bz2"):
        with bz2.open(DATA / file) as text:
            parts.append(load_svmlight_file(text, n_features=22))
    x = np.vstack([part[0].toarray() for part in parts])
    return x, np.concatenate([part[1] for part in parts]).astype(np.int64)


def shuffled(name: str, seed: int, most: int | None) -> Rows:
    """Return a set's rows in random order, the first `most` of them."""
    x, y = raw_rows(name)
    order = np.random.default_rng(seed).permutation(len(x))[:most]
    x = np.ascontiguousarray(x[order])
    return Rows(x, y[order], median_bandwidth("gaussian", x[:FIRST]))
