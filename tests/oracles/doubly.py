"""Doubly stochastic component analysis (Xie, Liang, Song, NIPS 2015) in plain sums, and Table 1."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import gamma as gamma_function
from scipy.special import kv

Array = npt.NDArray[np.float64]


def kernel_value(name: str, x: Array, y: Array, gamma: float, degree: int, offset: float) -> float:
    """κ(x, y), closed forms."""
    gap = x - y
    distance = float(np.linalg.norm(gap))
    if name.startswith("matern"):
        nu = int(name[-2]) / 2
        far = math.sqrt(2 * nu) * distance / math.sqrt(gamma)
        return float(2 ** (1 - nu) / gamma_function(nu) * far**nu * kv(nu, far))
    if name.startswith("arccosine"):
        return arc_cosine(int(name[-1]), x, y)
    values: dict[str, Callable[[], float]] = {
        "gaussian": lambda: math.exp(-(distance**2) / gamma),
        "laplacian": lambda: math.exp(-np.abs(gap).sum() / gamma),
        "cauchy": lambda: float(np.prod(1 / (1 + gap**2 / gamma))),
        "polynomial": lambda: float((x @ y + offset) ** degree),
        "linear": lambda: float(x @ y),
        "expsemigroup": lambda: math.exp(-np.sqrt((x + y) / gamma).sum()),
        "recsemigroup": lambda: float(np.prod(gamma / (x + y + gamma))),
    }
    return values[name]()


def arc_cosine(order: int, x: Array, y: Array) -> float:
    """(1/π)‖x‖ⁿ‖y‖ⁿJ_n of the angle between x and y, n = 0, 1, 2."""
    lengths = float(np.linalg.norm(x) * np.linalg.norm(y))
    angle = math.acos(x @ y / lengths)
    sine, cosine = math.sin(angle), math.cos(angle)
    parts = {
        0: math.pi - angle,
        1: sine + (math.pi - angle) * cosine,
        2: 3 * sine * cosine + (math.pi - angle) * (1 + 2 * cosine**2),
    }
    return lengths**order * parts[order] / math.pi


def frequencies(
    name: str, seed: int, which: int, feature: int, width: int, gamma: float
) -> tuple[Array, float]:
    """ω and b of one feature of a kernel with ω in R^D, from NumPy's own generator."""
    bits = np.random.Philox(
        key=np.array([seed, which], dtype=np.uint64),
        counter=np.array([0, feature, 0, 0], dtype=np.uint64),
    )
    found = bits.random_raw(width + 16)
    lower = (found >> np.uint64(11)) / 2.0**53
    middle = ((found >> np.uint64(12)) + 0.5) / 2.0**52
    phase = 2 * math.pi * lower[0]
    u = middle[1 : width + 1]
    normals = []
    for i in range(1, width + 7, 2):
        radius = math.sqrt(-2 * math.log(middle[i]))
        angle = 2 * math.pi * lower[i + 1]
        normals += [radius * math.cos(angle), radius * math.sin(angle)]
    z, more = np.array(normals[:width]), np.array(normals[width:])
    freedom = int(name[-2]) if name.startswith("matern") else 1
    omegas = {
        "gaussian": z * math.sqrt(2 / gamma),
        "laplacian": np.tan(math.pi * (u - 0.5)) / gamma,
        "cauchy": np.sign(u - 0.5) * -np.log(1 - np.abs(2 * u - 1)) / math.sqrt(gamma),
        "expsemigroup": 1 / (2 * gamma * z**2),
        "recsemigroup": -np.log(u) / gamma,
    }
    if name.startswith("matern"):
        return z / np.sqrt(np.sum(more[:freedom] ** 2) / freedom) / math.sqrt(gamma), phase
    return omegas.get(name, z), phase


class Model(NamedTuple):
    """Coefficients α (F×k), of which the first `used` features' are not zero, and the steps so far.

    A mini-batch's features are the block after the last step's; a full pool begins again.
    """

    alpha: Array
    used: int
    steps: int


def step(model: Model, phi: Array, block: int, form: str, theta: tuple[float, float]) -> Model:
    """One mini-batch; phi holds φ_i(x) of its rows (T×F), all features of the pool."""
    count, pool = phi.shape
    h = [evaluate(model, phi[b]) for b in range(count)]
    eta = theta[0] / (1 + theta[1] * model.steps)
    moment = sum(np.outer(row, row) for row in h) / count
    trace = np.trace(moment)
    eta = min(eta, 1 / trace) if trace > 0 else eta
    # Row i of α times S, by eq. 16 the part of S on and above the diagonal.
    taken = np.triu(moment) if form == "gha" else moment
    alpha = model.alpha.copy()
    for i in range(model.used):
        alpha[i] = model.alpha[i] - eta * model.alpha[i] @ taken
    first = (model.steps + 1) % (pool // block) * block
    for i in range(first, first + block):
        for b in range(count):
            alpha[i] += eta * phi[b, i] * h[b] / (count * block)
    return Model(alpha, min(max(model.used, first + block), pool), model.steps + 1)


def evaluate(model: Model, phi: Array) -> Array:
    """Algorithm 2: h = Σ φ_i(x) α_i."""
    total = np.zeros(model.alpha.shape[1])
    for i in range(model.used):
        total += phi[i] * model.alpha[i]
    return total


def projection(model: Model, phi: Array, ridge: float) -> dict[str, Any]:
    """q, ℓ and z of a row: a ridge regression of its features φ/√F' on the functions."""
    psi = phi[: model.used] / math.sqrt(model.used)
    basis = math.sqrt(model.used) * model.alpha[: model.used]
    inner = basis.T @ basis
    q = np.linalg.solve(inner + ridge * np.eye(len(inner)), basis.T @ psi)
    values, vectors = np.linalg.eigh(inner)
    root = vectors @ np.diag(np.sqrt(np.maximum(values, 0))) @ vectors.T
    # ‖ψ - Lq‖² counts the fit alone: the trackers' ℓ is κ - 2hᵀq + qᵀMq.
    return {"q": q, "loss": float(np.sum((psi - basis @ q) ** 2)), "z": root @ q}


class PairModel(NamedTuple):
    """Coefficients α and β (F×k) of two views; see `Model`."""

    alpha: Array
    beta: Array
    used: int
    steps: int


def pair_step(
    model: PairModel, phi: tuple[Array, Array], block: int, form: str, theta: tuple[float, float]
) -> PairModel:
    """One mini-batch of Algorithm 3 or 4; phi holds φ_i(x) and φ_i(y) of its rows (T×F).

    "kcca-newton" takes the step of Algorithm 4 times B, left-multiplied by (G + μI)⁻¹.
    """
    (count, pool), rank = phi[0].shape, model.alpha.shape[1]
    one, two = Model(model.alpha, model.used, 0), Model(model.beta, model.used, 0)
    u = [evaluate(one, phi[0][b]) for b in range(count)]
    v = [evaluate(two, phi[1][b]) for b in range(count)]
    w, both = np.zeros((rank, rank)), np.zeros((rank, rank))
    for b in range(count):
        w += (np.outer(u[b], v[b]) + np.outer(v[b], u[b])) / count
        both += (np.outer(u[b], u[b]) + np.outer(v[b], v[b])) / count
    energy = min(np.trace(both), np.abs(both).sum(axis=1).max())
    eta = min(theta[0] / (1 + theta[1] * model.steps), 1 / energy)
    alpha, beta = model.alpha.copy(), model.beta.copy()
    if form == "ksvd":
        for i in range(model.used):
            alpha[i] = model.alpha[i] - eta * w @ model.alpha[i]
            beta[i] = model.beta[i] - eta * w @ model.beta[i]
    first = (model.steps + 1) % (pool // block) * block
    for i in range(first, first + block):
        for b in range(count):
            forward = v[b] if form == "ksvd" else v[b] - w @ u[b]
            back = u[b] if form == "ksvd" else u[b] - w @ v[b]
            alpha[i] += eta * phi[0][b, i] * forward / (count * block)
            beta[i] += eta * phi[1][b, i] * back / (count * block)
    if form == "kcca-newton":
        moved = slice(first, first + block)
        for part, before, features in ((alpha, model.alpha, phi[0]), (beta, model.beta, phi[1])):
            gram = sum(np.outer(row, row) for row in features[:, moved]) / count
            gram = gram + 0.3 * np.trace(gram) / block * np.eye(block)
            change = block * (part[moved] - before[moved])
            part[moved] = before[moved] + np.linalg.lstsq(gram, change)[0]
    return PairModel(alpha, beta, min(max(model.used, first + block), pool), model.steps + 1)
