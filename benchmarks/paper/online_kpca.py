"""Online kernel PCA by others, beside OK-FEB and the covariance tracker: the fitting error.

    python -m benchmarks.paper.online_kpca [--rows 4000] [--sets ...]

| method | stored rows | update |
|---|---|---|
| Honeine 2012 | rows that are coherent with none before, B at most | Oja's rule, deflated |
| kernel Hebbian | the first B that differ | the same, no more rows |
| incremental KPCA | all, N at most | eigenvectors of K, grown by a row (two rank-one updates) |

A row's error is κ(x, x) - ‖P φ(x)‖² under the subspace before it; means of the rows after the first
500, which set scale and bandwidth. r = 10, B = 20; the step of Oja's rule is the best of three.

References: P. Honeine, "Online kernel principal component analysis: a reduced-order model", IEEE
Trans. Pattern Analysis and Machine Intelligence 34(9), 2012; K. Kim, M. Franz, B. Schölkopf,
"Iterative kernel principal component analysis for image modeling", same, 27(9), 2005 (Hebbian);
F. Hallgren, P. Northrop, "Incremental kernel PCA and the Nyström method", 2018.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

from benchmarks.paper.printed_nolana import rank_one
from benchmarks.prequential_sets import WARMUP
from benchmarks.record import Table
from benchmarks.span import span_features
from benchmarks.tracker_sets import SETS, make
from kerneltrack.arrays import FloatArray
from kerneltrack.kernels import gram, make_kernel, median_bandwidth
from kerneltrack.registry import get_tracker
from kerneltrack.trackers import CovarianceSpec, OKFEBSpec

RANK, BUDGET, STEPS = 10, 20, (0.02, 0.1, 0.5)
WHOLE = 400
"""Rows that incremental KPCA stores."""
NEW, FLAT = 1e-6, 1e-10
TRIED: dict[str, dict[str, Any]] = {
    "defaults": {},
    "β = .98": {"forgetting": 0.98},
    "β = 1": {"forgetting": 1.0},
    "β = 1, nonparametric rule": {"forgetting": 1.0, "rule": "nonparametric"},
    "β = 1, rows that fit skipped": {"forgetting": 1.0, "censor": "moving"},
}
"""What OK-FEB could take of theirs: rows that stay, steps of a gradient, few rows that enter."""


class Oja:
    """Kernel PCA by Oja's rule on a dictionary of rows.

    A: (r, B) coefficients of the functions; y = Ak of a row, A ← A + η(yeᵀ - LT(yyᵀ)A) with e the
    row's coefficients on the dictionary.
    """

    def __init__(self, gamma: float, step: float, coherence: float) -> None:
        self.kernel, self.step, self.coherence = make_kernel("gaussian", gamma), step, coherence
        self._rows: FloatArray | None = None
        self._factor = np.zeros((RANK, 0))

    def error(self, x: FloatArray) -> float:
        """Return the squared distance of a row from the span, 1 before there is any."""
        if self._rows is None:
            return 1.0
        k = gram(self.kernel, self._rows, x[None])[:, 0]
        inner = self._factor @ gram(self.kernel, self._rows, self._rows) @ self._factor.T
        return 1.0 - _along(inner, self._factor @ k)

    def learn(self, x: FloatArray) -> None:
        """Store a row that none is like, while there is room; take a step."""
        rows = np.zeros((0, len(x))) if self._rows is None else self._rows
        k = gram(self.kernel, rows, x[None])[:, 0] if len(rows) else np.zeros(0)
        if len(rows) < BUDGET and np.max(k, initial=0.0) <= self.coherence:
            self._rows = np.vstack([rows, x])
            grown = np.zeros((RANK, len(rows) + 1))
            grown[:, :-1] = self._factor
            if len(rows) < RANK:
                grown[len(rows), -1] = 1.0
            self._factor, own = grown, np.eye(len(rows) + 1)[-1]
            k = np.append(k, 1.0)
        else:
            whole = gram(self.kernel, rows, rows) + NEW * np.eye(len(rows))
            own = np.linalg.solve(whole, k)
        y = self._factor @ k
        self._factor = self._factor + self.step * (
            np.outer(y, own) - np.tril(np.outer(y, y)) @ self._factor
        )


def _along(inner: FloatArray, y: FloatArray) -> float:
    """Return ‖Pφ‖² from the functions' products with one another and with φ."""
    lengths = np.sqrt(np.maximum(np.diag(inner), FLAT))
    values, vectors = np.linalg.eigh(inner / np.outer(lengths, lengths))
    known = values > FLAT
    parts = vectors[:, known].T @ (y / lengths)
    return float(np.sum(parts**2 / values[known]))


def oja(rows: FloatArray, gamma: float, coherence: float) -> float:
    """Return the mean error of Oja's rule, with the best of its steps."""
    means = []
    for step in STEPS:
        model, errors = Oja(gamma, step, coherence), []
        for x in rows:
            errors.append(model.error(x))
            model.learn(x)
        means.append(float(np.mean(errors[WARMUP:])))
    return min(means)


def incremental(rows: FloatArray, gamma: float) -> float:
    """Return the mean error of incremental KPCA, which stores `WHOLE` rows and then stays.

    A row grows K by [k; κ]: with K = [K 0; 0 κ/4] first, then +σ(v₁v₁ᵀ - v₂v₂ᵀ), σ = 4/κ,
    v₁ = [k; κ/2], v₂ = [k; κ/4] (Hallgren, Northrop, eq. 4).
    """
    kernel = make_kernel("gaussian", gamma)
    stored, errors = rows[:1], [1.0]
    values, vectors = np.ones(1), np.ones((1, 1))
    for place, x in enumerate(rows[1:], start=1):
        k = gram(kernel, stored, x[None])[:, 0]
        top = values[-RANK:] > FLAT
        along = vectors[:, -RANK:][:, top].T @ k
        errors.append(1.0 - float(np.sum(along**2 / values[-RANK:][top])))
        if place >= WHOLE:
            continue
        size = len(stored)
        grown = np.zeros((size + 1, size + 1))
        grown[:size, :size], grown[size, size] = vectors, 1.0
        order = np.argsort(np.append(values, 0.25), kind="stable")
        values, vectors = np.append(values, 0.25)[order], grown[:, order]
        for last, weight in ((0.5, 4.0), (0.25, -4.0)):
            values, turn = rank_one(values, vectors.T @ np.append(k, last), weight)
            vectors = vectors @ turn
        stored = np.vstack([stored, x])
    return float(np.mean(errors[WARMUP:]))


def tracked(
    rows: FloatArray, gamma: float, kind: type[OKFEBSpec | CovarianceSpec], **settings: Any
) -> float:
    """Return the mean error of one of the product's trackers under some settings."""
    spec = kind(rank=RANK, budget=BUDGET, gamma=gamma, standardise=False, **settings)
    tracker, kernel = get_tracker(spec.tracker), make_kernel("gaussian", gamma)
    state, left = tracker.init(spec, rows[: spec.rows_to_start]), []
    for place, x in enumerate(rows):
        if place >= WARMUP:
            support = np.ascontiguousarray(state.support[: state.size])
            z = span_features(state, gram(kernel, support, x[None]))
            left.append(1.0 - float((z**2).sum()))
        state, _ = tracker.update(spec, state, x[None])
    return float(np.mean(left))


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    options = parser.parse_args()
    columns = ["set", "OK-FEB", "covariance", "Honeine", "kernel Hebbian"]
    table = Table("covariance", "online_kpca", [*columns, f"incremental KPCA, {WHOLE} rows"])
    streams = {}
    for name in options.sets:
        rows = np.ascontiguousarray(make(name, 0, options.rows).scaled)
        gamma = median_bandwidth("gaussian", rows[:WARMUP])
        cells = [
            tracked(rows, gamma, OKFEBSpec),
            tracked(rows, gamma, CovarianceSpec, halflife="auto"),
            oja(rows, gamma, 0.5),
            oja(rows, gamma, 1.0 - NEW),
            incremental(rows, gamma),
        ]
        table.add(name, *(f"{each:.4f}" for each in cells))
        streams[name] = rows, gamma
    table = Table("covariance", "online_kpca_tried", ["OK-FEB", *TRIED])
    for name, (rows, gamma) in streams.items():
        cells = [tracked(rows, gamma, OKFEBSpec, **settings) for settings in TRIED.values()]
        table.add(name, *(f"{each:.4f}" for each in cells))
    return 0


if __name__ == "__main__":
    sys.exit(main())
