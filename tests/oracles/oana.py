"""OANA as its paper prints it, densely: Alg. 1 with eq. 9 and 10, one row at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import orthogonal_procrustes

from kerneltrack.kernels import gram
from kerneltrack.trackers import OANASpec
from kerneltrack.trackers.common.calls import kernel_of

Array = npt.NDArray[np.float64]

STEPS = 2
SHIFT = 1e-7


@dataclass
class Oracle:
    """Landmarks, the rows each is the mean of, and the map, from a state that is full."""

    kernel: Any
    threshold: float
    landmarks: Array
    members: Array
    coefficients: Array
    """(m, r), of directions in feature space that need not be orthonormal."""
    turned: Array
    """(m, r), the features' coefficients in the frame that is kept still."""

    @classmethod
    def of(cls, spec: OANASpec, state: Any) -> Oracle:
        size = state.size
        factor = state.factor[:, :size].T
        return cls(
            kernel_of(spec, state),
            np.inf if spec.threshold is None else spec.threshold,
            state.support[:size].copy(),
            state.members[:size].astype(float),
            factor.copy(),
            factor @ state.frame.T,
        )

    def k(self, rows: Array) -> Array:
        """Kernel values with the landmarks, (n, m)."""
        return gram(self.kernel, rows, self.landmarks)

    def features(self, x: Array) -> Array:
        """Aligned features of a row."""
        found: Array = (self.k(x[None]) @ self.turned)[0]
        return found

    def loss(self, x: Array) -> float:
        """Squared distance of φ(x) from the span."""
        k = self.k(x[None])[0] @ self.coefficients
        inner = self.coefficients.T @ self.k(self.landmarks) @ self.coefficients
        own = float(gram(self.kernel, x[None], x[None])[0, 0])
        return own - float(k @ np.linalg.pinv(inner, rcond=1e-13, hermitian=True) @ k)

    def move(self, x: Array) -> bool:
        """Run Alg. 1's lines 4 to 9; returns whether a landmark moved."""
        distances = ((self.landmarks - x) ** 2).sum(axis=1)
        place = int(distances.argmin())
        if distances[place] < self.threshold:
            return False
        count = self.members[place]
        moved = self.landmarks.copy()
        moved[place] = (count * moved[place] + x) / (count + 1)
        self.members[place] += 1
        before = self.k(moved) @ self.turned
        self.landmarks = moved
        gram_matrix = self.k(moved)
        iterated = self.coefficients
        for _ in range(STEPS):
            iterated = gram_matrix @ iterated + SHIFT * np.trace(gram_matrix) * iterated
            iterated /= np.linalg.norm(iterated, axis=0)
            iterated, _ = np.linalg.qr(iterated)
        # An orthonormal basis in feature space, turned so that the landmarks move least.
        inner = np.linalg.cholesky(iterated.T @ gram_matrix @ iterated)
        basis = np.linalg.solve(inner, iterated.T).T
        turn, _ = orthogonal_procrustes(gram_matrix @ basis, before)
        self.coefficients, self.turned = iterated, basis @ turn
        return True


def top_directions(matrix: Array, rank: int) -> Array:
    """V_r S_r^{-1/2} of a kernel matrix, (m, r)."""
    values, vectors = np.linalg.eigh(matrix)
    found: Array = vectors[:, ::-1][:, :rank] / np.sqrt(values[::-1][:rank])
    return found
