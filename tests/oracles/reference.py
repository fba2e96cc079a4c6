"""The reference in plain NumPy: distances, calibration and evidence, row by row."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def embedded(rows: Array, lags: int) -> Array:
    """(n, D·lags): each row beside those before it, the first one in place of what is missing."""
    padded = np.vstack([np.repeat(rows[:1], lags - 1, axis=0), rows])
    last = len(padded)
    return np.hstack([padded[lags - 1 - lag : last - lag] for lag in range(lags)])


def means(rows: Array, rate: float) -> Array:
    """Means over time of scaled rows, from 0 on, moved by 10 deviations at most."""
    mean, out = np.zeros(rows.shape[1]), []
    for row in rows:
        mean = mean + rate * np.clip(row - mean, -10, 10)
        out.append(mean)
    return np.array(out)


def table(rows: Array, lags: int) -> Array:
    """e: embedded rows beside their means over time."""
    return np.hstack([embedded(rows, lags), means(rows, 0.3), means(rows, 0.02)])


def whitened(known: Array, ridge: float, learned: int) -> Array:
    """y of all rows under mean and covariance of the first ones."""
    centred = known - known[:learned].mean(axis=0)
    covariance = centred[:learned].T @ centred[:learned] / learned
    covariance += ridge * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    return np.asarray(np.linalg.solve(np.linalg.cholesky(covariance), centred.T).T)


def distances(rows: Array, lags: int, ridge: float, fit: int, ends: list[int]) -> Array:
    """d² of rows, of these without means, of newest rows alone, (3, n), learned at `ends`.

    Variances are measured from `fit` on.
    """
    known, variance, count, parts = table(rows, lags), 1.0, 10.0, []
    for before, end in zip([0, *ends], [*ends, len(rows)], strict=True):
        if before == 0:
            parts.append(np.zeros((end, known.shape[1])))
            continue
        y = whitened(known, ridge, before)[before:end] ** 2
        parts.append(y / variance)
        if before >= fit:
            variance = (np.asarray(variance) * count + y.sum(axis=0)) / (count + len(y))
            count += len(y)
    squares = np.vstack(parts)
    width = rows.shape[1]
    return np.array([squares[:, :end].sum(axis=1) for end in (None, width * lags, width)])


def angles(residual: Array) -> Array:
    """α of rows of these residuals."""
    return np.asarray(np.sqrt(-np.log(np.maximum(1 - residual, 1e-12))))


def combined(distance: Array, angle: Array) -> Array:
    """d and α, each over its mean; α counts half."""
    return np.asarray((distance + 0.5 * angle) / 1.5)


def limited(embedded: Array, newest: Array, lags: int) -> Array:
    """Surprises of embedded rows, at most 4 where no newest row among the last is surprising."""
    recent, since, out = 0.0, 0, []
    for row, (whole, alone) in enumerate(zip(embedded, newest, strict=True)):
        if alone >= recent or row - since >= lags:
            recent, since = alone, row
        out.append(min(whole, max(recent, 4.0)))
    return np.array(out)


def surprises(scores: Array, calibration: Array) -> Array:
    """-ln p of scores: ranks below the highest tenth, a Pareto tail beyond."""
    known = np.sort(calibration)
    many = len(known)
    beyond = max(int(0.1 * many), 5)
    start, excess = known[-beyond - 1], known[-beyond:] - known[-beyond - 1]
    first = excess.mean()
    second = (excess * (beyond - 1 - np.arange(beyond)) / (beyond - 1)).mean()
    rest = first - 2 * second
    shape = min(max(2 - first / rest if rest > 0 else 0.0, 0.1), 0.5)
    width = first * (1 - shape)
    ranks = (many - np.searchsorted(known, scores) + 0.5) / (many + 1)
    body = np.maximum(-np.log(ranks), 0)
    over = np.maximum(scores - start, 0) / width
    tail = math.log(many / beyond) + np.log1p(shape * over) / shape
    return np.asarray(np.where(scores > start, tail, body))


def evidence(surprise: Array, drift: float, most: float) -> Array:
    """Page's sum, held below `most`."""
    total, out = 0.0, []
    for value in surprise:
        total = min(max(total + value - drift, 0.0), most)
        out.append(total)
    return np.array(out)
