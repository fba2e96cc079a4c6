"""Compiled steps of NOLANA: a row's features, and the weights fitted anew to a map that changed.

Symbols are those of `nolana`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kerneltrack.compiled import compiled, inlined
from kerneltrack.kernels import Kernel, kernel_row
from kerneltrack.learners.common.base import COUNTS, FloatArray, IntArray
from kerneltrack.linalg import inverse_cholesky
from kerneltrack.sums import dot, fused
from kerneltrack.trackers.oana import state as oanastate
from kerneltrack.trackers.oana.loop import project
from kerneltrack.trackers.oana.span import adopt
from kerneltrack.trackers.okfeb import state as rowstate

LANDMARKS, MOVED, _, DIRECTIONS = range(COUNTS, COUNTS + 4)
"""Places in `counts` behind those of all learners; the third is `EARLY`."""


class Arrays(NamedTuple):
    """A state's arrays, with room for the call's classes and rows."""

    weights: FloatArray
    support: FloatArray
    factor: FloatArray
    gram: FloatArray
    image: FloatArray
    members: IntArray
    early: FloatArray
    bandwidth: FloatArray
    sums: FloatArray
    counts: IntArray


class Settings(NamedTuple):
    """A spec as numbers; `chart` is the map's."""

    ridge: float
    step_size: float
    decay_rows: float
    refit_ridge: float
    logistic: bool
    warmup: int
    chart: oanastate.Settings


class Fit(NamedTuple):
    """Scratch space of the second stage: what f shall say of the landmarks, normal equations."""

    aims: FloatArray
    normal: FloatArray
    chol: FloatArray
    inverse: FloatArray
    transposed: FloatArray
    right: FloatArray
    half: FloatArray


@inlined
def chart_of(state: Arrays) -> oanastate.OANAState:
    """Return the map as the tracker's steps take it; what only the tracker needs is empty."""
    none = np.empty(0)
    places = np.zeros(rowstate.COUNTS, dtype=np.int64)
    places[rowstate.SIZE] = state.counts[LANDMARKS]
    places[rowstate.STARTED] = state.counts[DIRECTIONS]
    born = np.empty(state.support.shape[0], dtype=np.int64)
    return oanastate.OANAState(
        state.support,
        state.factor,
        state.gram,
        state.image,
        np.empty((0, 0)),
        state.members,
        born,
        none,
        none,
        state.bandwidth,
        none,
        none,
        places,
    )


@inlined
def make_fit(classes: int, slots: int, rank: int) -> Fit:
    """Make scratch space for so many functions, places for landmarks and features."""
    return Fit(
        np.empty((classes, slots)),
        np.empty((rank, rank)),
        np.empty((rank, rank)),
        np.empty((rank, rank)),
        np.empty((rank, rank)),
        np.empty(rank),
        np.empty(rank),
    )


@inlined
def say(kernel: Kernel, chart: oanastate.OANAState, work: oanastate.Work) -> None:
    """Fill k and q of the row in `work`."""
    kernel_row(kernel, chart.support, chart.counts[rowstate.SIZE], work.x, work.k)
    project(chart, work, 1.0)


@compiled
def _aim(weights: FloatArray, chart: oanastate.OANAState, known: int, fit: Fit) -> None:
    """Write down what the functions say of the landmarks under the old map."""
    size = chart.counts[rowstate.SIZE]
    for c in range(known):
        for i in range(size):
            fit.aims[c, i] = 0.0
        for j in range(weights.shape[1]):
            weight = weights[c, j]
            for i in range(size):
                fit.aims[c, i] = fused(weight, chart.image[j, i], fit.aims[c, i])


@compiled
def _refit(
    weights: FloatArray, chart: oanastate.OANAState, known: int, theta: float, fit: Fit
) -> None:
    """Give the functions the weights that say it under the new one (eq. 12)."""
    size, rank = chart.counts[rowstate.SIZE], weights.shape[1]
    for i in range(rank):
        for j in range(i + 1):
            fit.normal[i, j] = dot(chart.image[i], chart.image[j], size)
    inverse_cholesky(fit.normal, theta, fit.chol, fit.inverse, fit.transposed)
    for c in range(known):
        for j in range(rank):
            fit.right[j] = dot(chart.image[j], fit.aims[c], size)
        for j in range(rank):
            fit.half[j] = dot(fit.inverse[j], fit.right, j + 1)
        for j in range(rank):
            weights[c, j] = dot(fit.transposed[j], fit.half, rank)


@inlined
def follow(
    weights: FloatArray,
    chart: oanastate.OANAState,
    work: oanastate.Work,
    place: int,
    known: int,
    settings: Settings,
    fit: Fit,
) -> None:
    """Take the map in `work`, in which landmark `place` is new, and fit the weights to it."""
    _aim(weights, chart, known, fit)
    adopt(settings.chart, chart, work, place)
    _refit(weights, chart, known, settings.refit_ridge, fit)
