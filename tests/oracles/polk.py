"""POLK written from the paper's equations: a least-squares fit for every removal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kerneltrack.arrays import FloatArray
from tests.oracles.learners import Said, softmax, step_size

IN_SPAN = 1e-6
"""A row is projected at once if its squared distance from the others' span is at most this."""


CLOSE = 1e-9
"""Decision values that differ by less, but differ, may come out in any order."""


class Settings(NamedTuple):
    """As the spec's, γ a number."""

    loss: str
    ridge: float
    eta: float
    decay_rows: int
    parsimony: float
    batch: int
    budget: int
    gamma: float


class Run(NamedTuple):
    """What came of a run.

    `tied`: two removals cost the same, or one as much as is allowed; or decision values that choose
    a gradient are as good as equal. `condition`: the largest of K.
    """

    output_text: Said
    rows: FloatArray
    weights: FloatArray
    tied: bool
    condition: float


def gaussian(left: FloatArray, right: FloatArray, gamma: float) -> FloatArray:
    gaps = left[:, None, :] - right[None, :, :]
    gram: FloatArray = np.exp(-(gaps**2).sum(axis=2) / gamma)
    return gram


def negative_gradient(loss: str, f: FloatArray, label: float) -> FloatArray:
    if loss == "squared":
        return label - f
    wanted = np.eye(len(f))[int(label)]
    if loss == "logistic":
        return np.asarray(wanted - softmax(f), dtype=np.float64)
    others = [c for c in range(len(f)) if c != label]
    if not others:
        return np.zeros(1)
    rival = max(others, key=lambda c: f[c])
    violated = max(0.0, 1.0 + f[rival] - f[int(label)]) > 0.0
    return np.asarray(violated * (wanted - np.eye(len(f))[rival]), dtype=np.float64)


def undecided(loss: str, f: FloatArray, label: float) -> bool:
    """Whether rounding may choose the rival, or whether there is a gradient."""
    if loss != "hinge" or len(f) < 2:
        return False
    rivals: FloatArray = np.sort(np.delete(f, int(label)))
    gaps = [1.0 + rivals[-1] - f[int(label)], *np.diff(rivals[-2:])]
    return any(0.0 < abs(gap) < CLOSE for gap in gaps)


def komp(
    rows: FloatArray, weights: FloatArray, epsilon: float, settings: Settings, moved: float
) -> tuple[FloatArray, FloatArray, bool]:
    """Algorithm 1; weights (C, M). Errors are those from the first f̃, in the norm of H^C.

    `moved` is the squared error of rows that were projected before, at a right angle to the rest.
    """
    budget = settings.budget
    gram = gaussian(rows, rows, settings.gamma)
    kept = list(range(len(rows)))
    fitted, tied = weights, False
    while kept:
        found = []
        for j in kept:
            rest = [i for i in kept if i != j]
            w = np.asarray(np.linalg.solve(gram[np.ix_(rest, rest)], gram[rest] @ weights.T)).T
            gap = weights.copy()
            gap[:, rest] -= w
            square = moved + float(np.trace(gap @ gram @ gap.T))
            found.append((math.sqrt(max(0.0, square)), j, rest, w))
        found.sort(key=lambda each: each[0])
        error, _, rest, w = found[0]
        scale = 1e-7 * max(1.0, error, epsilon)
        tied |= abs(error - epsilon) < scale and len(kept) <= budget
        if error > epsilon and len(kept) <= budget:
            break
        tied |= len(found) > 1 and found[1][0] - error < scale
        kept, fitted = rest, w
    return rows[kept], fitted, tied


def polk(rows: FloatArray, labels: Sequence[float], settings: Settings) -> Run:
    """Algorithm 2. Labels are places of classes or targets, NaN where missing."""
    classifies = settings.loss != "squared"
    kept = np.zeros((0, rows.shape[1]))
    weights = np.zeros((0 if classifies else 1, 0))
    output_text, pending, learned, tied, step, condition = [], [], 0, False, 0.0, 1.0
    for x, label in zip(rows, labels, strict=True):
        f: FloatArray = weights @ gaussian(kept, x[None], settings.gamma)[:, 0]
        output_text.append(softmax(f) if settings.loss == "logistic" else f)
        if math.isnan(label):
            continue
        if classifies and label == len(weights):
            weights, f = np.vstack([weights, np.zeros(len(kept))]), np.append(f, 0.0)
        if learned % settings.batch == 0:
            step = step_size(settings.eta, settings.decay_rows, learned)
        learned += 1
        pending.append((x, negative_gradient(settings.loss, f, label)))
        tied |= undecided(settings.loss, f, label)
        if learned % settings.batch:
            continue
        share = (min(step, 1.0) if not classifies else step) / settings.batch
        weights = (1.0 - step * settings.ridge) * weights
        if not any(gradient.any() for _, gradient in pending):
            pending = []
            continue
        moved = 0.0
        for point, gradient in pending:
            if not gradient.any():
                continue
            column = np.zeros(len(weights))
            column[: len(gradient)] = share * gradient
            k = gaussian(kept, point[None], settings.gamma)[:, 0]
            along = np.linalg.solve(gaussian(kept, kept, settings.gamma), k)
            distance = 1.0 - float(k @ along)
            tied |= abs(distance - IN_SPAN) < 1e-2 * IN_SPAN
            if distance <= IN_SPAN:
                weights = weights + np.outer(column, along)
                moved += max(distance, 0.0) * float(column @ column)
            else:
                kept, weights = np.vstack([kept, point]), np.column_stack([weights, column])
        pending = []
        if len(kept):
            condition = max(condition, np.linalg.cond(gaussian(kept, kept, settings.gamma)))
        epsilon = settings.parsimony * step**1.5
        kept, weights, again = komp(kept, weights, epsilon, settings, moved)
        tied |= again
    return Run(output_text, kept, weights, tied, condition)
