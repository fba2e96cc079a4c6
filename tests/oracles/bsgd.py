"""BSGD written from the paper: every budget maintenance by its definition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from kerneltrack.arrays import FloatArray
from tests.oracles.learners import Said, step_size
from tests.oracles.polk import gaussian, negative_gradient, undecided

SINGULAR = 1e14
"""A condition of K with which there is no projection to hold a learner against: the run ends."""


class Settings(NamedTuple):
    """As the spec's, γ a number."""

    maintenance: str
    ridge: float
    eta: float
    decay_rows: int
    budget: int
    gamma: float


class Run(NamedTuple):
    """What came of a run; `margin`: the least by which one choice of a row beat the next."""

    output_text: Said
    rows: FloatArray
    weights: FloatArray
    margin: float
    condition: float


def without(rows: FloatArray, weights: FloatArray, j: int) -> tuple[FloatArray, FloatArray]:
    return np.delete(rows, j, axis=0), np.delete(weights, j, axis=1)


def margin_of(costs: Sequence[float]) -> float:
    first, second = sorted(costs)[:2]
    return second - first


def project(rows: FloatArray, weights: FloatArray, gamma: float) -> list[tuple[float, FloatArray]]:
    """For each row what removing it costs, and the others' weights then."""
    gram, found = gaussian(rows, rows, gamma), []
    for j in range(len(rows)):
        rest = [i for i in range(len(rows)) if i != j]
        share = np.linalg.solve(gram[np.ix_(rest, rest)], gram[rest, j])
        moved = float(weights[:, j] @ weights[:, j]) * float(1.0 - gram[j, rest] @ share)
        found.append((moved, weights[:, rest] + np.outer(weights[:, j], share)))
    return found


def merge(
    rows: FloatArray, weights: FloatArray, gamma: float
) -> tuple[FloatArray, FloatArray, float]:
    norms = (weights**2).sum(axis=0)
    m = int(np.argmin(norms))

    def merger(n: int, h: float) -> tuple[FloatArray, FloatArray, float]:
        z = h * rows[m] + (1.0 - h) * rows[n]
        to_z = gaussian(rows[[m, n]], z[None], gamma)[:, 0]
        weight = weights[:, [m, n]] @ to_z
        three = np.column_stack([weights[:, [m, n]], -weight])
        gram = gaussian(np.vstack([rows[[m, n]], z]), np.vstack([rows[[m, n]], z]), gamma)
        return z, weight, float(np.trace(three @ gram @ three.T))

    found = []
    for n in range(len(rows)):
        if n != m:
            best = minimize_scalar(
                lambda h, n=n: merger(n, h)[2], (0.0, 1.0), (0.0, 1.0), method="bounded",
                options={"xatol": 1e-9},
            )  # fmt: skip
            found.append((merger(n, float(best.x))[2], n, float(best.x)))
    moved = min(found)
    z, weight, _ = merger(moved[1], moved[2])
    rows, weights = rows.copy(), weights.copy()
    rows[moved[1]], weights[:, moved[1]] = z, weight
    margin = margin_of([each[0] for each in found]) if len(found) > 1 else math.inf
    return *without(rows, weights, m), min(margin, margin_of(norms.tolist()))


def bsgd(rows: FloatArray, labels: Sequence[float], settings: Settings) -> Run:
    """Labels are places of classes, NaN where missing."""
    kept, weights = np.zeros((0, rows.shape[1])), np.zeros((0, 0))
    output_text, learned, margin, condition = [], 0, math.inf, 1.0
    for x, label in zip(rows, labels, strict=True):
        f = weights @ gaussian(kept, x[None], settings.gamma)[:, 0]
        output_text.append(f)
        if math.isnan(label):
            continue
        if label == len(weights):
            weights, f = np.vstack([weights, np.zeros(len(kept))]), np.append(f, 0.0)
        step = step_size(settings.eta, settings.decay_rows, learned)
        learned += 1
        weights = (1.0 - step * settings.ridge) * weights
        gradient = negative_gradient("hinge", f, label)
        if undecided("hinge", f, label):
            margin = 0.0
        if not gradient.any():
            continue
        kept, weights = np.vstack([kept, x]), np.column_stack([weights, step * gradient])
        condition = max(condition, np.linalg.cond(gaussian(kept, kept, settings.gamma)))
        if settings.maintenance == "projection" and condition > SINGULAR:
            break
        if len(kept) <= settings.budget:
            continue
        if settings.maintenance == "merging":
            kept, weights, by = merge(kept, weights, settings.gamma)
        elif settings.maintenance == "removal":
            norms = (weights**2).sum(axis=0)
            by = margin_of(norms.tolist())
            kept, weights = without(kept, weights, int(np.argmin(norms)))
        else:
            found = project(kept, weights, settings.gamma)
            costs = [each[0] for each in found]
            by = margin_of(costs)
            j = int(np.argmin(costs))
            kept, weights = np.delete(kept, j, axis=0), found[j][1]
        margin = min(margin, by)
    return Run(output_text, kept, weights, margin, condition)
