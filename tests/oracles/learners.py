"""Slow, obvious learners written from the papers' equations: one row at a time, no shortcuts.

Rows come with the constant 1 of the bias already appended. Labels are places of classes in the
order of first appearance, -1 where missing. Every function returns, for each row, the decision
values of the classes known before it, and at the end the weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kerneltrack.arrays import FloatArray

Said = list[FloatArray]


def pegasos_binary(rows: FloatArray, signs: Sequence[int], ridge: float, project: bool) -> Said:
    """w_1 .. w_{T+1} of Shalev-Shwartz et al. (2011), Fig. 1, for y = ±1; 0: no label."""
    w = np.zeros(rows.shape[1])
    steps = [w]
    t = 0
    for x, y in zip(rows, signs, strict=True):
        if y != 0:
            t += 1
            eta = 1.0 / (ridge * t)
            if y * (w @ x) < 1.0:
                w = (1.0 - eta * ridge) * w + eta * y * x
            else:
                w = (1.0 - eta * ridge) * w
            if project:
                norm = math.sqrt(w @ w)
                w = min(1.0, (1.0 / math.sqrt(ridge)) / norm) * w if norm > 0 else w
        steps.append(w)
    return steps


def pegasos(
    rows: FloatArray, labels: Sequence[int], ridge: float, project: bool
) -> tuple[Said, FloatArray]:
    """One binary run a class, each over the whole stream."""
    count = max(labels, default=-1) + 1
    runs = [
        pegasos_binary(rows, [0 if y < 0 else 1 if y == c else -1 for y in labels], ridge, project)
        for c in range(count)
    ]
    output_text, known = [], 0
    for n, (x, y) in enumerate(zip(rows, labels, strict=True)):
        output_text.append(np.array([runs[c][n] @ x for c in range(known)]))
        known = max(known, y + 1)
    return output_text, np.array([run[-1] for run in runs]).reshape(count, rows.shape[1])


def step_size(eta: float, decay_rows: int, learned: int) -> float:
    return eta / math.sqrt(1.0 + learned / decay_rows) if decay_rows else eta


def hinge(
    rows: FloatArray, labels: Sequence[int], ridge: float, eta: float, decay_rows: int
) -> tuple[Said, FloatArray]:
    """Crammer and Singer (2001): the true class against the best of the others."""
    w = np.zeros((0, rows.shape[1]))
    output_text, learned = [], 0
    for x, y in zip(rows, labels, strict=True):
        output_text.append(w @ x)
        if y < 0:
            continue
        if y == len(w):
            w = np.vstack([w, np.zeros(rows.shape[1])])
        step = step_size(eta, decay_rows, learned)
        learned += 1
        scores = w @ x
        others = [c for c in range(len(w)) if c != y]
        w = (1.0 - step * ridge) * w
        if others:
            rival = max(others, key=lambda c: scores[c])
            if max(0.0, 1.0 + scores[rival] - scores[y]) > 0.0:
                w[y] += step * x
                w[rival] -= step * x
    return output_text, w


def softmax(scores: FloatArray) -> FloatArray:
    if len(scores) == 0:
        return scores
    weights = np.exp(scores - scores.max())
    probable: FloatArray = weights / weights.sum()
    return probable


def logistic(
    rows: FloatArray, labels: Sequence[int], ridge: float, eta: float, decay_rows: int
) -> tuple[Said, FloatArray]:
    """Bishop (2006), eq. 4.104 and 4.109, one row a step; says probabilities."""
    w = np.zeros((0, rows.shape[1]))
    output_text, learned = [], 0
    for x, y in zip(rows, labels, strict=True):
        output_text.append(softmax(w @ x))
        if y < 0:
            continue
        if y == len(w):
            w = np.vstack([w, np.zeros(rows.shape[1])])
        step = step_size(eta, decay_rows, learned)
        learned += 1
        wanted = np.eye(len(w))[y]
        gradient = np.outer(softmax(w @ x) - wanted, x) + ridge * w
        w = w - step * gradient
    return output_text, w


def passive_aggressive(variant: str, loss: float, norm2: float, cost: float) -> float:
    """τ of Crammer et al. (2006), Fig. 1."""
    if norm2 == 0.0:
        return 0.0
    steps = {"pa": loss / norm2, "pa1": min(cost, loss / norm2)}
    steps["pa2"] = loss / (norm2 + 1.0 / (2.0 * cost))
    return steps[variant]


def pa_classes(
    rows: FloatArray, labels: Sequence[int], variant: str, cost: float
) -> tuple[Said, FloatArray]:
    """Section 8 with costs of 0 and 1: the true class against the best of the others."""
    w = np.zeros((0, rows.shape[1]))
    output_text = []
    for x, y in zip(rows, labels, strict=True):
        output_text.append(w @ x)
        if y == len(w):
            w = np.vstack([w, np.zeros(rows.shape[1])])
        scores = w @ x
        others = [c for c in range(len(w)) if c != y]
        if y < 0 or not others:
            continue
        rival = max(others, key=lambda c: scores[c])
        loss = max(0.0, 1.0 - (scores[y] - scores[rival]))
        step = passive_aggressive(variant, loss, 2.0 * float(x @ x), cost)
        w[y] += step * x
        w[rival] -= step * x
    return output_text, w


def pa_targets(
    rows: FloatArray, targets: FloatArray, variant: str, cost: float, insensitivity: float
) -> tuple[Said, FloatArray]:
    """Section 5."""
    w = np.zeros(rows.shape[1])
    output_text = []
    for x, y in zip(rows, targets, strict=True):
        output_text.append(np.array([w @ x]))
        if not math.isnan(y):
            loss = max(0.0, abs(y - w @ x) - insensitivity)
            step = passive_aggressive(variant, loss, float(x @ x), cost)
            w = w + np.sign(y - w @ x) * step * x
    return output_text, w[None]


def one_hot(labels: Sequence[int]) -> FloatArray:
    """Targets (n, C) of one class against the rest; rows without a label are NaN."""
    count = max(labels, default=-1) + 1
    targets = np.array([[float(y == c) for c in range(count)] for y in labels])
    targets = targets.reshape(len(labels), count)
    targets[np.array(labels, dtype=int) < 0] = np.nan
    return targets


def lms(
    rows: FloatArray,
    targets: FloatArray,
    ridge: float,
    eta: float,
    decay_rows: int,
    normalised: bool,
) -> tuple[Said, FloatArray]:
    """Leaky LMS or ε-NLMS (Sayed, 2003) on targets (n, C); all C from the start."""
    w = np.zeros((targets.shape[1], rows.shape[1]))
    output_text, learned = [], 0
    for x, y in zip(rows, targets, strict=True):
        output_text.append(w @ x)
        if np.isnan(y).any():
            continue
        step = leak = step_size(eta, decay_rows, learned)
        learned += 1
        if normalised:
            step = step / (1e-3 + x @ x)
        else:
            step = leak = min(step, 1.0 / (x @ x)) if x @ x > 0 else step
        w = (1.0 - leak * ridge) * w + step * np.outer(y - w @ x, x)
    return output_text, w


def ridge_penalty(learned: int, size: int, ridge: float, forgetting: float) -> FloatArray:
    """Diagonal of D_n: λ of coordinate j has decayed since its last turn, row j, j + p, ..."""
    diagonal = np.full(size, ridge)
    for row in range(learned):
        diagonal *= forgetting
        diagonal[row % size] = ridge
    return diagonal


def ridge_solution(
    rows: FloatArray, targets: FloatArray, ridge: float, forgetting: float, free: int = 0
) -> FloatArray:
    """argmin Σ ρ^{n-i}‖y_i - Wx_i‖² + tr(W D_n Wᵀ) by the normal equations; all rows labelled.

    The last `free` coordinates have no penalty.
    """
    if free and not len(rows):
        return np.zeros((targets.shape[1], rows.shape[1]))
    age = np.array([forgetting**n for n in range(len(rows) - 1, -1, -1)])
    penalty = ridge_penalty(len(rows), rows.shape[1], ridge, forgetting)
    penalty[rows.shape[1] - free :] = 0.0
    normal = rows.T @ (age[:, None] * rows) + np.diag(penalty)
    solution = np.linalg.solve(normal, rows.T @ (age[:, None] * targets))
    return np.asarray(solution.T, dtype=np.float64)


def recursive_ridge(
    rows: FloatArray, targets: FloatArray, ridge: float, forgetting: float, free: int = 0
) -> tuple[Said, FloatArray]:
    """The closed form anew before every row."""
    labelled = np.array([not np.isnan(row).any() for row in targets])
    output_text = []
    for n, x in enumerate(rows):
        past = np.flatnonzero(labelled[:n])
        output_text.append(ridge_solution(rows[past], targets[past], ridge, forgetting, free) @ x)
    past = np.flatnonzero(labelled)
    return output_text, ridge_solution(rows[past], targets[past], ridge, forgetting, free)
