"""NOLANA as its paper prints it, densely: Alg. 2 with eq. 11 and 12, one row at a time."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import numpy as np

from kerneltrack.arrays import FloatArray
from kerneltrack.kernels import make_kernel
from kerneltrack.learners import NOLANASpec
from kerneltrack.learners.kernel.nolana import NOLANAState
from tests.oracles.learners import step_size
from tests.oracles.oana import Oracle as Map
from tests.oracles.oana import top_directions
from tests.oracles.polk import negative_gradient


def loss_of(spec: NOLANASpec) -> str:
    return spec.loss if spec.classifies else "squared"


def descend(spec: NOLANASpec, w: FloatArray, q: FloatArray, label: float, t: int) -> FloatArray:
    """A step on eq. 11."""
    eta = step_size(spec.step_size, spec.decay_rows, t)
    gradient = negative_gradient(loss_of(spec), w @ q, label)
    share = eta if spec.classifies else min(eta, 1.0)
    return np.asarray((1.0 - eta * spec.ridge) * w + share * np.outer(gradient, q))


def fitted(before: FloatArray, after: FloatArray, w: FloatArray, theta: float) -> FloatArray:
    """Eq. 12 as one least-squares problem; before, after: the landmarks' features, (m, r)."""
    rank = after.shape[1]
    stacked = np.vstack([after, math.sqrt(theta) * np.eye(rank)])
    wanted = np.vstack([before @ w.T, np.zeros((rank, len(w)))])
    return np.asarray(np.linalg.lstsq(stacked, wanted, rcond=None)[0].T, dtype=np.float64)


@dataclass
class Oracle:
    """A map and the functions on it, from a state whose landmarks are all there."""

    spec: NOLANASpec
    map: Map
    weights: FloatArray
    learned: int

    @classmethod
    def of(cls, spec: NOLANASpec, state: NOLANAState) -> Oracle:
        size = state.size
        coefficients = state.factor[:, :size].T
        found = Map(
            make_kernel(spec.kernel, float(state.bandwidth[0])),
            np.inf if spec.threshold is None else spec.threshold,
            state.support[:size].copy(),
            state.members[:size].astype(float),
            coefficients.copy(),
            coefficients.copy(),
        )
        return cls(spec, found, state.weights.copy(), int(state.counts[2]))

    def values(self, x: FloatArray) -> FloatArray:
        """f_c(x)."""
        return np.asarray(self.weights @ self.map.features(x))

    def learn(self, x: FloatArray, label: float) -> bool:
        """Run Alg. 2's lines 5 to 14; returns whether a landmark moved."""
        stages = [self.step, self.move]
        if self.spec.stage_order == "move_first":
            stages.reverse()
        return any([stage(x, label) for stage in stages])

    def step(self, x: FloatArray, label: float) -> bool:
        """Take a step on eq. 11."""
        q = self.map.features(x)
        self.weights = descend(self.spec, self.weights, q, label, self.learned)
        self.learned += 1
        return False

    def move(self, x: FloatArray, label: float) -> bool:
        """Move a landmark, if the row moves one, and fit the weights to the new map (eq. 12)."""
        old = copy.copy(self.map)
        if not self.map.move(x):
            return False
        before = old.k(self.map.landmarks) @ old.turned
        after = self.map.k(self.map.landmarks) @ self.map.turned
        self.weights = fitted(before, after, self.weights, self.spec.refit_ridge)
        return True


def start(spec: NOLANASpec, rows: FloatArray, labels: list[float], probe: FloatArray) -> FloatArray:
    """f_c of a row once the landmarks, the first m rows, are there; all classes known by then.

    Until then the map is the projection on the first r of them.
    """
    kernel = make_kernel(spec.kernel, float(spec.gamma))
    size, rank = spec.budget, spec.rank
    map_ = Map(kernel, np.inf, rows[:size], np.ones(size), np.zeros((0, 0)), np.zeros((0, 0)))
    matrix = map_.k(rows[:size])
    inner = np.linalg.cholesky(matrix[:rank, :rank])
    features = np.linalg.solve(inner, matrix[:rank]).T
    final = matrix @ top_directions(matrix, rank)
    classes = 1 if not spec.classifies else int(max(labels)) + 1
    w = np.zeros((classes, rank))
    for n in range(size):
        known = int(max(labels[: n + 1])) + 1 if spec.classifies else 1
        last = n == size - 1
        if last:
            w = fitted(features, final, w, spec.refit_ridge)
        q = final[n] if last else features[n]
        w[:known] = descend(spec, w[:known], q, labels[n], n)
    return np.asarray(w @ (map_.k(probe[None]) @ top_directions(matrix, rank))[0])
