"""OK-FEB line by line from the paper, slow and obvious: what the compiled row loop is held against.

F. Sheikholeslami, D. Berberidis, G. B. Giannakis, "Large-scale kernel-based feature extraction via
low-rank subspace tracking on a budget", IEEE Trans. Signal Process., 2018: Algorithms 2 to 5,
equations 11b, 6b, 16, 19, 24 to 26. Kernels, kernel matrices and inverses are computed anew in
every row, as the paper prints them; nothing here is shared with the package.

What the paper leaves open is written down as the package's specs say it: the start, the row that
the subspace cannot see (q = 0), the five steps and the three thresholds. So are the two places
where the package lets something wait for a renewal, which comes every 64 rows or sooner: the ridge
in force fades with M, and what the nonparametric rule shrinks is taken from A in one piece.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg

Array = npt.NDArray[np.float64]

PAST = 100
GAIN, MEMORY = 0.02, 0.01
JITTER = 1e-10
LEAST_RIDGE = 1e-12
RENEWAL, LEAST_FADED, MOST_SHRINK = 64, 0.9, 0.05


def kernel_matrix(spec: Any, gamma: float, rows: Array, columns: Array) -> Array:
    """κ(rows, columns), (n, m)."""
    if spec.kernel == "gaussian":
        gaps = ((rows[:, None, :] - columns[None, :, :]) ** 2).sum(axis=2)
        return np.asarray(np.exp(-gaps / gamma))
    if spec.kernel == "laplacian":
        gaps = np.abs(rows[:, None, :] - columns[None, :, :]).sum(axis=2)
        return np.asarray(np.exp(-gaps / gamma))
    inner = rows @ columns.T
    if spec.kernel == "polynomial":
        return np.asarray((inner + spec.offset) ** spec.degree)
    return inner


@dataclasses.dataclass
class Outcome:
    """What a row got. `candidate` is the model before the budget module ran, if it did."""

    q: Array
    loss: float
    informative: bool = False
    evicted: int = -1
    initial: bool = False
    candidate: Oracle | None = None


@dataclasses.dataclass
class Oracle:
    """A spec and the state of one model; `stored` is S, `factor` A with one row for each SV."""

    spec: Any
    gamma: float
    seeds: Array
    stored: Array
    factor: Array
    recency: Array
    born: list[int]
    n: int = 0
    started: int = 0
    step_sum: float = 0.0
    ridge_in_force: float = 0.0
    faded: float = 1.0
    shrink: float = 0.0
    since: int = 0
    epsilon: float = 0.0
    mean_loss: float = 0.0
    losses: list[float] = dataclasses.field(default_factory=list)

    def kernel(self, rows: Array, columns: Array) -> Array:
        return kernel_matrix(self.spec, self.gamma, rows, columns)

    @property
    def inner(self) -> Array:
        """M = AᵀK_S A."""
        return self.factor.T @ self.kernel(self.stored, self.stored) @ self.factor

    @property
    def ridge(self) -> float:
        """λ, and never below rounding of M: what the state holds, until the next update."""
        return self.ridge_in_force or self.ridge_for(self.inner)

    def ridge_for(self, inner: Array) -> float:
        return float(max(self.spec.ridge, LEAST_RIDGE * np.trace(inner)))

    def project(self, x: Array) -> tuple[Array, float]:
        """Return q (eq. 11b) and ℓ (Alg. 4; eq. 6b without its ½)."""
        own = float(self.kernel(x[None], x[None])[0, 0])
        k = self.kernel(self.stored, x[None])[:, 0]
        inner = self.inner
        ridge = self.ridge_in_force or self.ridge_for(inner)
        q = np.linalg.solve(inner + ridge * np.eye(len(inner)), self.factor.T @ k)
        loss = own - 2 * k @ self.factor @ q + q @ inner @ q
        return np.asarray(q, dtype=np.float64), float(loss)

    def paper_features(self, x: Array) -> Array:
        """K_S^{1/2}Aq (Remark 4)."""
        root = np.real(scipy.linalg.sqrtm(self.kernel(self.stored, self.stored)))
        return np.asarray(root @ self.factor @ self.project(x)[0])

    def update(self, x: Array) -> Outcome:
        """Run one row through Algorithm 4."""
        self.n += 1
        own = float(self.kernel(x[None], x[None])[0, 0])
        start_rows = self.spec.rank if self.spec.start == "rows" else 1
        if self.started < start_rows and own > 0 and not (self.stored == x).all(axis=1).any():
            self._enter(x, own, self.started)
            self.renew()
            self.started += 1
            return Outcome(*self.project(x), informative=True, initial=True)
        q, loss = self.project(x)
        loss = min(max(loss, 0.0), own)
        outcome = Outcome(q, loss)
        full = len(self.stored) == self.spec.budget
        takes = self.started >= start_rows and own > 0
        if full:
            takes = takes and loss >= self.threshold()
        if takes:
            outcome.informative = True
            self._learn(x, own, q, outcome)
        self._remember(loss, takes)
        return outcome

    def threshold(self) -> float:
        """ε: a constant, the mean of the last 100 losses, or the controller's."""
        if self.spec.censor == "fixed":
            return float(self.spec.threshold)
        if self.spec.censor == "moving":
            return float(np.mean(self.losses[-PAST:])) if self.losses else 0.0
        return self.epsilon if self.spec.censor == "rate" else -math.inf

    def _remember(self, loss: float, informative: bool) -> None:
        self.losses.append(loss)
        self.mean_loss += max(MEMORY, 1 / len(self.losses)) * (loss - self.mean_loss)
        if self.spec.censor == "rate" and len(self.stored) == self.spec.budget:
            excess = informative - (1 - self.spec.censor_rate)
            self.epsilon = max(0.0, self.epsilon + GAIN * self.mean_loss * excess)

    def _enter(self, x: Array, own: float, seed: int) -> None:
        """Store x with a random row of A, scaled as ‖φ‖^{-1/2}."""
        self.stored = np.vstack([self.stored, x])
        self.factor = np.vstack([self.factor, self.seeds[seed] / own**0.25])
        self.recency = np.append(self.recency, 1.0)
        self.born.append(self.n - 1)

    def step(self, q: Array, grown: Array) -> float:
        """μ_n; `grown` is K_{S+}."""
        norm2 = float(q @ q)
        if self.spec.step == "inverse_norm":
            return 1 / math.sqrt(norm2)
        if self.spec.step == "inverse_n":
            return float(self.spec.step_size) / self.n
        if self.spec.step == "inverse_n2":
            return float(self.spec.step_size) / self.n**2
        nonparametric = self.spec.rule == "nonparametric"
        if self.spec.step == "majorised":
            bound = float(np.trace(grown)) if nonparametric else 1.0
            self.step_sum += bound * (norm2 + self.spec.ridge / self.n)
            return 1 / self.step_sum
        bound = float(np.abs(grown).sum(axis=1).max()) if nonparametric else 1.0
        return 1 / (bound * (norm2 + float(self.spec.ridge)))

    def _learn(self, x: Array, own: float, q: Array, outcome: Outcome) -> None:
        overflows = len(self.stored) == self.spec.budget
        if overflows:
            self.recency = self.spec.forgetting * self.recency
        if q @ q > 0:
            stored = np.vstack([self.stored, x])
            grown = self.kernel(stored, stored)
            step = self.step(q, grown)
            self.factor = self.moved(q, grown, step)
            self._fade(step)
            self.stored = stored
            self.recency = np.append(self.recency, 1.0)
            self.born.append(self.n - 1)
        else:
            self._enter(x, own, self.n % self.spec.rank)
        if overflows:
            self._drop(outcome)
        self.settle()

    def _fade(self, step: float) -> None:
        """Let the ridge in force fade with M, or note what is still to be shrunk."""
        part = step * self.spec.ridge / self.n
        if self.spec.rule == "parametric":
            self.ridge_in_force = self.ridge * (1 - part) ** 2
            self.faded *= (1 - part) ** 2
        else:
            self.shrink += part

    def settle(self, renewed: bool = False) -> None:
        """Count an informative row, and renew when that is due."""
        self.since += 1
        grown = self.kernel(self.stored, self.stored)
        overdue = self.since >= max(RENEWAL, len(self.stored)) or self.faded < LEAST_FADED
        if renewed or overdue or self.shrink * np.trace(grown) > MOST_SHRINK:
            self.renew()

    def renew(self) -> None:
        """A ← A - (Σμλ/n)KA; the ridge is what it was set to."""
        self.factor = (
            self.factor - self.shrink * self.kernel(self.stored, self.stored) @ self.factor
        )
        self.ridge_in_force = self.ridge_for(self.inner)
        self.faded, self.shrink, self.since = 1.0, 0.0, 0

    def moved(self, q: Array, grown: Array, step: float) -> Array:
        """The updated A: eq. 16 (Alg. 2) or eq. 19 (Alg. 3 and 4) but for its ridge's part."""
        ridge = self.spec.ridge / self.n
        if self.spec.rule == "parametric":
            shrunk = self.factor - step * self.factor @ (np.outer(q, q) + ridge * np.eye(len(q)))
            return np.vstack([shrunk, step * q])
        padded = np.vstack([self.factor, np.zeros(len(q))])
        gradient = grown @ padded @ np.outer(q, q) - np.outer(grown[:, -1], q)
        return np.asarray(padded - step * gradient)

    def _drop(self, outcome: Outcome) -> None:
        """Algorithm 5 with the policy in force."""
        outcome.candidate = dataclasses.replace(self)
        gone = int(np.argmin(self.costs()))
        outcome.evicted = self.born[gone]
        self.drop(gone)

    def drop(self, gone: int) -> None:
        """Remove an SV; the last one takes its place, since ties go to the lowest place."""
        if self.spec.policy == "compensated":
            self.factor = self.compensated(gone)
        kept = [i for i in range(len(self.stored)) if i != gone]
        if gone != len(self.stored) - 1:
            kept = [*kept[:gone], kept[-1], *kept[gone:-1]]
        self.stored, self.factor = self.stored[kept], self.factor[kept]
        self.recency, self.born = self.recency[kept], [self.born[i] for i in kept]

    def costs(self) -> Array:
        """What dropping each SV costs; the smallest goes."""
        if self.spec.policy == "norm":
            return np.asarray(self.recency * np.linalg.norm(self.factor, axis=1))
        if self.spec.policy == "fifo":
            return np.asarray(self.born, dtype=np.float64)
        every = range(len(self.stored))
        if self.spec.policy == "distortion":
            return np.array([self.distortion(self.without(i)) for i in every])
        return np.array([self.distortion(self.compensated(i)) for i in every])

    def without(self, gone: int) -> Array:
        """A with row `gone` zero: the same subspace as A_{\\i} over S\\i."""
        factor = self.factor.copy()
        factor[gone] = 0
        return factor

    def compensated(self, gone: int) -> Array:
        """A after φ_gone is projected on the other SVs: A_j += [K_rest⁻¹k]_j a_goneᵀ."""
        factor = self.without(gone)
        rest = [i for i in range(len(self.stored)) if i != gone]
        factor[rest] += np.outer(self.share(gone), self.factor[gone])
        return factor

    def share(self, gone: int) -> Array:
        """K_rest⁻¹k: φ_gone's coordinates on the other SVs."""
        grown = self.lifted()
        rest = [i for i in range(len(self.stored)) if i != gone]
        return np.asarray(np.linalg.solve(grown[np.ix_(rest, rest)], grown[rest, gone]))

    def lifted(self) -> Array:
        """K_S; its diagonal lifted where the policy must invert it."""
        grown = self.kernel(self.stored, self.stored)
        if self.spec.policy == "compensated":
            grown += JITTER * np.diag(grown).max() * np.eye(len(grown))
        return grown

    def distortion(self, other: Array) -> float:
        """‖Φ_S A - Φ_S A'‖²_HS (eq. 24), all of it."""
        grown = self.lifted()
        cross = np.trace(other.T @ grown @ self.factor)
        own = np.trace(self.factor.T @ grown @ self.factor)
        return float(own - 2 * cross + np.trace(other.T @ grown @ other))


def start(spec: Any, gamma: float, width: int) -> Oracle:
    """A model that has seen nothing; rows come scaled."""
    seeds = np.random.default_rng(spec.seed).standard_normal((spec.rank, spec.rank))
    return Oracle(
        spec=spec,
        gamma=gamma,
        seeds=seeds / math.sqrt(spec.rank),
        stored=np.empty((0, width)),
        factor=np.empty((0, spec.rank)),
        recency=np.empty(0),
        born=[],
    )


def from_state(spec: Any, state: Any) -> Oracle:
    """The model that a `SubspaceState` describes; its losses in their order."""
    size = int(state.counts[1])
    seen, window = int(state.counts[2]), len(state.recent)
    ring = [float(state.recent[i % window]) for i in range(max(0, seen - window), seen)]
    return Oracle(
        spec=spec,
        gamma=float(state.bandwidth[0]),
        seeds=state.seeds.copy(),
        stored=state.support[:size].copy(),
        factor=state.factor[:, :size].T.copy(),
        recency=state.recency[:size].copy(),
        born=[int(i) for i in state.born[:size]],
        n=int(state.counts[0]),
        started=int(state.counts[8]),
        step_sum=float(state.reals[2]),
        ridge_in_force=float(state.reals[0]),
        faded=float(state.reals[4]),
        shrink=float(state.reals[5]),
        since=int(state.counts[9]),
        epsilon=float(state.reals[1]),
        mean_loss=float(state.reals[3]),
        losses=ring,
    )
