"""NOLANA as Algorithms 1 and 2 print it, in NumPy, with the choices that Fig. 1 and 2 compare.

| solver of the landmarks' kernel matrix | |
|---|---|
| scratch | all eigenvectors, the first r kept |
| rank-2 | the eigenvectors of before, two updates of rank one (secular equation) |
| warm start | two steps of subspace iteration from the eigenvectors of before (eq. 10) |

The product's own (`kerneltrack.learners.kernel.nolana`) is compiled and takes the warm start.

Reference: S. Si, S. Kumar, Y. Li, "Nonlinear online learning with adaptive Nyström approximation",
2018, section 4.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import FloatArray
from kerneltrack.kernels import gram, make_kernel

SOLVERS = ("scratch", "rank-2", "warm start")
STEPS, FLAT, BISECTIONS = 2, 1e-10, 50


class PrintedNolana:
    """Landmarks, their kernel matrix and its eigenvectors, and C functions on the features.

    Attributes:
        weights: (C, r).
        moves: Rows that moved a landmark.
        jumps: ‖w - w̄‖² of each change of the weights that a move brought.
    """

    def __init__(
        self,
        first: FloatArray,
        classes: int,
        *,
        rank: int,
        gamma: float,
        threshold: float,
        solver: str = "warm start",
        refits: bool = True,
    ) -> None:
        """Take the landmarks, (m, D)."""
        self.landmarks, self.rank = first.copy(), rank
        self._kernel = make_kernel("gaussian", gamma)
        self.threshold, self.solver, self.refits = threshold, solver, refits
        self.members = np.ones(len(first))
        self.weights: FloatArray = np.zeros((classes, rank))
        self.moves = 0
        self.jumps: list[float] = []
        self._matrix = self.kernel(first, first)
        self._values, self._vectors = np.linalg.eigh(self._matrix)

    def kernel(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """Return κ of rows, (n, m)."""
        return gram(self._kernel, left, right)

    @property
    def factor(self) -> FloatArray:
        """(m, r) U_r S_r^-½ of the map, the largest eigenvalue last."""
        values = np.maximum(self._values[-self.rank :], FLAT)
        return np.asarray(self._vectors[:, -self.rank :] / np.sqrt(values))

    def features(self, rows: FloatArray) -> FloatArray:
        """Return the features of rows, (n, r)."""
        return np.asarray(self.kernel(rows, self.landmarks) @ self.factor)

    def descend(self, q: FloatArray, label: int, step: float) -> None:
        """Take a step on the multi-class hinge loss (eq. 11)."""
        values = self.weights @ q
        rest = np.delete(values, label).argmax()
        other = int(rest + (rest >= label))
        if values[label] - values[other] < 1.0:
            self.weights[label] += step * q
            self.weights[other] -= step * q

    def move(self, x: FloatArray) -> bool:
        """Move the landmark of a row, update the map, fit the weights anew (eq. 12)."""
        gaps = ((self.landmarks - x) ** 2).sum(axis=1)
        place = int(gaps.argmin())
        if gaps[place] < self.threshold:
            return False
        predictions = self._matrix @ self.factor @ self.weights.T if self.refits else None
        count = self.members[place]
        self.landmarks[place] = (count * self.landmarks[place] + x) / (count + 1.0)
        self.members[place] += 1.0
        row = self.kernel(self.landmarks[place : place + 1], self.landmarks)[0]
        change = row - self._matrix[place]
        change[place] = (1.0 - self._matrix[place, place]) / 2.0
        self._matrix[place], self._matrix[:, place] = row, row
        self._matrix[place, place] = 1.0
        self._solve(place, change)
        self.moves += 1
        if predictions is not None:
            self._refit(predictions)
        return True

    def _refit(self, predictions: FloatArray) -> None:
        after = self._matrix @ self.factor
        inner = after.T @ after + 1e-6 * np.eye(self.rank)
        fitted = np.asarray(np.linalg.solve(inner, after.T @ predictions).T, np.float64)
        self.jumps.append(float(((fitted - self.weights) ** 2).sum()))
        self.weights = fitted

    def _solve(self, place: int, change: FloatArray) -> None:
        """Update the eigenvectors: the matrix has changed by e·cᵀ + c·eᵀ."""
        if self.solver == "scratch":
            self._values, self._vectors = np.linalg.eigh(self._matrix)
        elif self.solver == "warm start":
            basis: npt.NDArray[Any] = self._vectors[:, -self.rank :]
            for _ in range(STEPS):
                basis = np.linalg.qr(self._matrix @ basis)[0]
            self._values, turn = np.linalg.eigh(basis.T @ self._matrix @ basis)
            found = basis @ turn
            # An eigenvector's sign is free: that of before is kept.
            signs = np.sign(np.einsum("mr,mr->r", found, self._vectors[:, -self.rank :]))
            self._vectors = found * np.where(signs == 0.0, 1.0, signs)
        else:
            unit = np.zeros(len(change))
            unit[place] = 1.0
            length = float(np.linalg.norm(change))
            if length == 0.0:
                return
            # e·cᵀ + c·eᵀ = ½‖c‖[(e + c/‖c‖)(...)ᵀ - (e - c/‖c‖)(...)ᵀ]
            for sign in (1.0, -1.0):
                along = self._vectors.T @ (unit + sign * change / length)
                self._values, turn = rank_one(self._values, along, sign * length / 2.0)
                self._vectors = self._vectors @ turn


def rank_one(values: FloatArray, along: FloatArray, weight: float) -> tuple[FloatArray, FloatArray]:
    """Return eigenvalues and eigenvectors of diag(d) + ρzzᵀ, d rising, by the secular equation.

    1 + ρ Σ z_i²/(d_i - λ) = 0 has one root between neighbours of d; found by bisection, all at
    once. The vectors are those of the z that has these roots exactly (Gu, Eisenstat 1994).
    """
    if weight < 0:
        found, vectors = rank_one(-values[::-1], along[::-1], -weight)
        return -found[::-1], vectors[::-1, ::-1]
    d = values + np.arange(len(values)) * 1e-14 * max(abs(values[0]), abs(values[-1]), 1.0)
    gaps = np.diff(np.append(d, d[-1] + weight * float(along @ along) + 1e-300))
    low, high = np.zeros(len(d)), np.ones(len(d))
    apart = d[:, None] - d[None, :]
    squares = along**2
    for _ in range(BISECTIONS):
        middle = (low + high) / 2.0
        with np.errstate(divide="ignore", invalid="ignore"):
            sums = 1.0 + weight * (squares[:, None] / (apart - middle * gaps)).sum(axis=0)
        above = np.nan_to_num(sums) > 0
        high, low = np.where(above, middle, high), np.where(above, low, middle)
    shifts = (low + high) / 2.0 * gaps
    away = apart - shifts
    away[away == 0.0] = 1e-300
    exact = np.exp(
        0.5 * (np.log(np.abs(away)).sum(axis=1) - _log_products(apart) - math.log(weight))
    )
    vectors = np.copysign(exact, along)[:, None] / away
    return d + shifts, vectors / np.linalg.norm(vectors, axis=0)


def _log_products(apart: FloatArray) -> FloatArray:
    """Return log ∏_{j≠i} |d_j - d_i| of each i."""
    filled = np.abs(apart) + np.eye(len(apart))
    return np.asarray(np.log(np.maximum(filled, 1e-300)).sum(axis=1))
