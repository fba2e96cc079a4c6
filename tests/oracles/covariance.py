"""The budgeted covariance tracker, dense and obvious: what the row loop is held against.

Every row computes kernel matrices, inverses, eigenvectors and the costs of all evictions anew, in
O(B³) and more, from the definitions that `kerneltrack.trackers.covariance` derives its updates
from. Nothing here is shared with the package.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.oracles.okfeb import kernel_matrix

Array = npt.NDArray[np.float64]

PAST = 100
GAIN, MEMORY = 0.02, 0.01
FOLD, SHIFT, DEPENDENT = 1e-6, 1e-7, 1e-10
LEAST_KERNEL = 1e-60
KEPT, PATIENCE, BELOW, EXACT = 0.99, 50, 0.9, 1e-6
SHORT, NEAR, LIFT = 1e-3, 1e-5, 1e-15
MASK = 2**64 - 1


def coin(key: int, number: int) -> float:
    """SplitMix64 with whole numbers as Python has them."""
    word = (key + (number + 1) * 0x9E3779B97F4A7C15) & MASK
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    word ^= word >> 31
    return (word >> 11) / 2**53


@dataclasses.dataclass
class Outcome:
    """What a row got; `dense_loss` is the loss under the exact eigenvectors of C.

    `used` is the rank in use when it came.
    """

    loss: float
    dense_loss: float
    informative: bool = False
    evicted: int = -1
    initial: bool = False
    used: int = 0


@dataclasses.dataclass
class Oracle:
    """A spec and the state of one model: `stored` is S, `weights` Γ, `basis` E by columns."""

    spec: Any
    gamma: float
    key: int
    stored: Array
    weights: Array
    basis: Array
    born: list[int]
    n: int = 0
    started: int = 0
    admitted: int = 0
    last: int = 0
    lost: float = 0.0
    epsilon: float = 0.0
    control: float = 0.0
    mean_loss: float = 0.0
    losses: list[float] = dataclasses.field(default_factory=list)
    time: int = 0
    used: int = 0
    near: bool = False
    outside: float = 0.0
    energy: float = 0.0
    scores: Array = dataclasses.field(default_factory=lambda: np.zeros(0))

    def kernel(self, rows: Array, columns: Array) -> Array:
        return kernel_matrix(self.spec, self.gamma, rows, columns)

    @property
    def gram(self) -> Array:
        return self.kernel(self.stored, self.stored)

    def own(self, x: Array) -> float:
        return float(self.kernel(x[None], x[None])[0, 0])

    def loss(self, x: Array, basis: Array | None = None) -> float:
        """κ(x,x) - ‖Eᵀk‖²."""
        k = self.kernel(self.stored, x[None])[:, 0]
        q = (self.basis if basis is None else basis).T[: self.used] @ k
        return min(max(self.own(x) - float(q @ q), 0.0), self.own(x))

    def dense_basis(self) -> Array:
        """The eigenvectors of K^½ΓK^½ with the r largest eigenvalues, as coefficients of S."""
        values, vectors = np.linalg.eigh(self.gram)
        values = np.maximum(values, 0.0)
        root = vectors * np.sqrt(values) @ vectors.T
        back = vectors * np.where(values > 1e-13 * values.max(initial=0), values, np.inf) ** -0.5
        spectrum, inner = np.linalg.eigh(root @ self.weights @ root)
        kept = np.argsort(spectrum)[::-1][: self.spec.rank]
        kept = kept[spectrum[kept] > 1e-12 * spectrum.max(initial=0)]
        return np.asarray(back @ vectors.T @ inner[:, kept])

    def update(self, x: Array, time: int = 0) -> Outcome:
        own, loss = self.own(x), self.loss(x)
        outcome = Outcome(loss, self.loss(x, self.dense_basis()) if len(self.stored) else own)
        outcome.used = self.used
        weight = self.weight_of(own, loss)
        self.n += 1
        if weight > 0:
            outcome.informative = True
            outcome.initial = self.started < self.spec.rank and loss > 1e-6 * own
            outcome.evicted = self.learn(x, own, weight, time)
            self.admitted += 1
        if outcome.initial:
            self.started += 1
            outcome.loss = self.loss(x)
        else:
            self.losses.append(loss)
            self.mean_loss += max(MEMORY, 1 / len(self.losses)) * (loss - self.mean_loss)
        return outcome

    def weight_of(self, own: float, loss: float) -> float:
        """What a row enters with, 0 if it does not."""
        spec = self.spec
        if own < LEAST_KERNEL:
            return 0.0
        if spec.admission == "every" or self.admitted < spec.budget:
            return 1.0
        if spec.admission == "leverage":
            rate, mean = spec.admission_rate, max(self.mean_loss, 1e-300)
            chance = min(1.0, max(self.control * loss, rate / 2))
            moved = self.control * math.exp(GAIN * (1 - chance / rate))
            self.control = min(max(moved, rate / 4 / mean), 10 / mean)
            return 1 / chance if coin(self.key, self.n) < chance else 0.0
        least = float(spec.threshold)
        if spec.admission == "moving":
            least = float(np.mean(self.losses[-PAST:])) if self.losses else 0.0
        elif spec.admission == "rate":
            least = self.epsilon
            excess = (loss >= least) - spec.admission_rate
            self.epsilon = max(0.0, self.epsilon + GAIN * self.mean_loss * excess)
        return 1.0 if loss >= least else 0.0

    def fade(self, time: int) -> None:
        """Γ by 2^(-what has passed/half-life), in rows or in seconds."""
        lives = 0.0
        if self.spec.halflife is not None:
            lives = (self.n - self.last) / self.spec.halflife
        elif self.spec.halflife_seconds is not None and self.admitted:
            lives = (time - self.time) / 1e9 / self.spec.halflife_seconds
        fading = max(0.5**lives, 1e-30)
        self.weights = fading * self.weights
        self.lost *= fading
        self.last, self.time = self.n, time

    def choose(self, q: Array, own: float, rest: float, weight: float) -> None:
        """The smallest rank whose error is at most the factor times that of all of S."""
        beyond = self.admitted - self.spec.budget
        if self.spec.rank_factor is None or beyond < 0:
            return
        self.outside = KEPT * self.outside + weight * max(rest, 0.0)
        self.energy = KEPT * self.energy + weight * own
        self.scores = KEPT * self.scores + weight * q**2
        if beyond < PATIENCE:
            return
        allowed = self.spec.rank_factor * max(self.outside, EXACT * self.energy)
        errors = self.energy - np.cumsum(self.scores)
        good = [j for j in range(1, len(q) + 1) if errors[j - 1] <= allowed]
        well = [j for j in range(1, len(q) + 1) if errors[j - 1] <= BELOW * allowed]
        self.used = max(self.used, min(good, default=len(q)))
        self.used = min(self.used, min(well, default=len(q)))

    def learn(self, x: Array, own: float, weight: float, time: int) -> int:
        """Add a row to C, drop one if there are too many, move the subspace."""
        self.fade(time)
        k = self.kernel(self.stored, x[None])[:, 0]
        share = np.linalg.solve(self.gram, k) if len(k) else np.empty(0)
        rest = own - float(k @ share)
        self.choose(self.basis.T @ k, own, rest, weight)
        if rest <= FOLD * own:
            self.weights = self.weights + weight * np.outer(share, share)
            self.lost += weight * math.sqrt(max(rest, 0.0) * (2 * own - max(rest, 0.0)))
            self.follow(np.asarray(share), own)
            return self.n - 1
        size = len(self.stored)
        self.stored = np.vstack([self.stored, x])
        self.weights = np.pad(self.weights, (0, 1))
        self.weights[size, size] = weight
        self.basis = np.vstack([self.basis, np.zeros(self.spec.rank)])
        self.born.append(self.n - 1)
        newest = np.eye(size + 1)[size]
        costs, gone = self.costs(), -1
        near = self.distances() / np.diag(self.gram)
        if near.min() <= FOLD:
            gone = int(np.argmin(near))
        elif size == self.spec.budget:
            gone = int(np.argmin(costs))
        if gone < 0:
            self.follow(newest, own)
            return -1
        self.lost += math.sqrt(max(costs[gone], 0.0))
        index = self.born[gone]
        self.follow(self.drop(gone) @ newest, own)
        return index

    def distances(self) -> Array:
        """Squared distance of every stored row from the span of the others."""
        return np.asarray(1 / np.diag(np.linalg.inv(self.gram)))

    def costs(self) -> Array:
        """‖C - PCP‖²_HS for every stored row, P the projection on the span of the others."""
        gram, weights, rest = self.gram, self.weights, self.distances()
        moved = np.diag(weights @ gram @ weights)
        return np.asarray(2 * rest * moved - (rest * np.diag(weights)) ** 2)

    def drop(self, gone: int) -> Array:
        """Project stored row `gone` on the others; the last takes its place. Return T."""
        gram, size = self.gram, len(self.stored)
        self.near = bool(self.distances()[gone] <= NEAR * gram[gone, gone])
        rest = [i for i in range(size) if i != gone]
        transform = np.zeros((size - 1, size))
        transform[:, rest] = np.eye(size - 1)
        transform[:, gone] = np.linalg.solve(gram[np.ix_(rest, rest)], gram[rest, gone])
        if gone != size - 1:
            places = [*range(gone), size - 2, *range(gone, size - 2)]
            transform = transform[places]
            rest = [rest[i] for i in places]
        self.weights = transform @ self.weights @ transform.T
        self.basis = transform @ self.basis
        self.stored = self.stored[rest]
        self.born = [self.born[i] for i in rest]
        return transform

    def follow(self, newest: Array, own: float) -> None:
        """Let the new row in for the direction of least energy; iterate where that is due."""
        gram, rank = self.gram, self.spec.rank
        covariance = gram @ self.weights @ gram
        self.basis = shortened(self.basis, gram, self.near)
        self.near = False
        rest = newest
        for _ in range(2):
            rest = rest - self.basis @ (self.basis.T @ gram @ rest)
        length = rest @ gram @ rest
        if length > DEPENDENT * own:
            block = np.column_stack([self.basis, rest / math.sqrt(length)])
            energy = block.T @ covariance @ block
            empty = np.flatnonzero(np.diag(energy)[:rank] <= 0)
            if len(empty):
                self.basis[:, empty[0]] = block[:, rank]
            else:
                self.basis = block @ turn(least(energy / np.trace(energy)))
        period = 3 if self.spec.admission == "every" else 2
        if self.admitted < self.spec.budget or self.admitted % period == 0:
            energy = self.basis.T @ covariance @ self.basis
            values, turns = np.linalg.eigh((energy + energy.T) / 2)
            turns = turns[:, np.argsort(-values, kind="stable")]
            ritz = self.basis @ (turns * np.where(np.diag(turns) < 0, -1.0, 1.0))
            moved = self.weights @ gram @ ritz + SHIFT * np.trace(energy) * ritz
            self.basis = orthonormal(moved, gram, np.diag(moved.T @ gram @ moved))


def least(energy: Array) -> Array:
    """Nearly the eigenvector of the smallest eigenvalue: four steps of inverse iteration."""
    rank = len(energy) - 1
    vector, unit = np.zeros(rank + 1), np.eye(rank + 1)
    vector[rank - 1] = math.sqrt(0.5)
    vector[rank] = math.copysign(math.sqrt(0.5), -energy[rank, rank - 1])
    shift = -LIFT
    for _ in range(2):
        if np.linalg.eigvalsh(energy)[0] <= shift:
            return vector
        for _ in range(2):
            vector = np.asarray(np.linalg.solve(energy - shift * unit, vector), np.float64)
            vector /= np.linalg.norm(vector)
        value = vector @ energy @ vector
        shift = float(value - np.linalg.norm(energy @ vector - value * vector) - LIFT)
    return vector


def turn(dropped: Array) -> Array:
    """The first columns of the smallest rotation whose last one is the vector that is dropped."""
    vector = -dropped if dropped[-1] < 0 else dropped
    last = np.eye(len(vector))[-1]
    both = vector + last
    rotation = np.eye(len(vector)) - np.outer(both, both) / (1 + vector[-1])
    rotation += 2 * np.outer(vector, last)
    return np.asarray(rotation[:, :-1])


def shortened(basis: Array, gram: Array, near: bool) -> Array:
    """The orthonormal basis nearest to one that a projection has shortened.

    Gram and Schmidt's where a direction is nearly gone, or the row was `near` the others' span.
    """
    filled = np.abs(basis).max(axis=0, initial=0) > 0
    if not filled.any():
        return basis
    values, turns = np.linalg.eigh(basis[:, filled].T @ gram @ basis[:, filled])
    if near or values[0] <= SHORT:
        return orthonormal(basis, gram, np.ones(basis.shape[1]))
    out = basis.copy()
    out[:, filled] = basis[:, filled] @ (turns / np.sqrt(values)) @ turns.T
    return out


def orthonormal(block: Array, gram: Array, whole: Array) -> Array:
    """Gram and Schmidt's columns in the inner product of K; one that has nearly gone becomes 0."""
    out = np.zeros_like(block)
    for c in range(block.shape[1]):
        column = block[:, c]
        for _ in range(3):
            column = column - out @ (out.T @ gram @ column)
        rest = column @ gram @ column
        if rest > DEPENDENT * whole[c]:
            out[:, c] = column / math.sqrt(rest)
    return out


def start(spec: Any, gamma: float, width: int, key: int) -> Oracle:
    """A model that has seen nothing; rows come scaled."""
    return Oracle(
        spec=spec,
        gamma=gamma,
        key=key,
        stored=np.empty((0, width)),
        weights=np.empty((0, 0)),
        basis=np.empty((0, spec.rank)),
        born=[],
        used=spec.rank,
        scores=np.zeros(spec.rank),
    )
