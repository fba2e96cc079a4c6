"""BSGD: stochastic gradient steps on the multi-class hinge loss, on a fixed budget of rows.

C functions f_c(x) = Σ_j w_cj κ(d_j, x) share the stored rows. A labelled row whose margin is
violated, 1 + f_r(x) - f_y(x) > 0 with the rival r = argmax_{c≠y} f_c(x), is stored with weight η
for its class and -η for the rival, after f_c ← (1 - ηλ)f_c. If there are then more than B rows,
one goes:

| maintenance | the row that goes |
|---|---|
| removal | of the least Σ_c w_cj², with all that it knew |
| projection | whose removal moves the functions least, its share given to the others |
| merging | of the least Σ_c w_cm², into one with another (Gaussian kernel) |

The share is that of least squares (see `dictionary_steps`). Merging, the rows m and n become
z = h·d_m + (1 - h)d_n with the weights w_cz = w_cm κ(d_m, z) + w_cn κ(d_n, z). h maximises
Σ_c w_cz², so that the functions move least, by a golden section search of `SEARCH` steps; n is the
best of all.

Flops a labelled row that is stored: 6MD + 410M + 82CM, by merging an exponential taken for ten, two
in each of 20 steps; 3MD + 10M + 3CM by removal, 10M² more by projection.

Reference: Z. Wang, K. Crammer, S. Vucetic, "Breaking the curse of kernelization: budgeted
stochastic gradient descent for large-scale SVM training", JMLR 13, 2012.

Differs from the paper: the step is η/√(1 + t/d) instead of 1/(λt), as the authors of POLK ran it;
projection looks for the row among all, by its exact error.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kerneltrack.compiled import compiled, inlined
from kerneltrack.kernels import Kernel
from kerneltrack.learners.common.base import LEARNED, FloatArray
from kerneltrack.learners.common.labels import Coded
from kerneltrack.learners.common.row_steps import (
    Mode,
    Outputs,
    decayed_step,
    is_learnable,
    report,
    rival_of,
)
from kerneltrack.learners.common.spec import LearnerSpec
from kerneltrack.learners.kernel.common import EARLY, keep_waiting
from kerneltrack.learners.kernel.dictionary import DictionaryLearner
from kerneltrack.learners.kernel.dictionary_steps import (
    STORED,
    Dictionary,
    Work,
    cheapest,
    evaluate,
    make_work,
    move_row,
    remove,
    renew_root,
    shrink,
    store,
    take_back,
)
from kerneltrack.learners.kernel.spec import MAINTENANCE, BSGDSpec
from kerneltrack.sums import squared_distance

REMOVAL, PROJECTION, MERGING = range(3)
SEARCH = 20
"""Steps of the golden section search: h to 1e-4."""
GOLDEN = 0.6180339887498949


class _Settings(NamedTuple):
    ridge: float
    step_size: float
    decay_rows: float
    maintenance: int
    budget: int
    warmup: int


@inlined
def _lightest(state: Dictionary, work: Work) -> int:
    """Return the row of the least Σ_c w_cj², ties to the first; fill the costs."""
    size, costs = state.counts[STORED], work.costs
    for j in range(size):
        costs[j] = 0.0
    for c in range(state.weights.shape[0]):
        for j in range(size):
            costs[j] += state.weights[c, j] * state.weights[c, j]
    best = 0
    for j in range(1, size):
        if costs[j] < costs[best]:
            best = j
    return best


@inlined
def _merged(state: Dictionary, m: int, n: int, distance: float, h: float) -> float:
    """Return Σ_c w_cz² of the two rows' merger at h; their distance is ‖d_m - d_n‖²/γ."""
    left = np.exp(-(1.0 - h) * (1.0 - h) * distance)
    right = np.exp(-h * h * distance)
    total = 0.0
    for c in range(state.weights.shape[0]):
        weight = left * state.weights[c, m] + right * state.weights[c, n]
        total += weight * weight
    return total


@inlined
def _best_merger(state: Dictionary, m: int, n: int, distance: float) -> float:
    """Return the h that maximises it."""
    low, high = 0.0, 1.0
    first, second = 1.0 - GOLDEN, GOLDEN
    at_first = _merged(state, m, n, distance, first)
    at_second = _merged(state, m, n, distance, second)
    for _ in range(SEARCH):
        if at_first >= at_second:
            high, second, at_second = second, first, at_first
            first = high - GOLDEN * (high - low)
            at_first = _merged(state, m, n, distance, first)
        else:
            low, first, at_first = first, second, at_second
            second = low + GOLDEN * (high - low)
            at_second = _merged(state, m, n, distance, second)
    return 0.5 * (low + high)


@compiled
def _merge(kernel: Kernel, state: Dictionary, work: Work) -> None:
    """Merge the lightest row with the one where that moves the functions least."""
    size, width = state.counts[STORED], state.rows.shape[1]
    m = _lightest(state, work)
    best, least, share, apart = -1, np.inf, 0.0, 0.0
    for n in range(size):
        if n == m:
            continue
        distance = squared_distance(state.rows[m], state.rows[n], width) * kernel.inverse_gamma
        h = _best_merger(state, m, n, distance)
        cross = 0.0
        for c in range(state.weights.shape[0]):
            cross += state.weights[c, m] * state.weights[c, n]
        before = work.costs[m] + work.costs[n] + 2.0 * np.exp(-distance) * cross
        moved = before - _merged(state, m, n, distance, h)
        if moved < least:
            best, least, share, apart = n, moved, h, distance
    if best >= 0:
        left = np.exp(-(1.0 - share) * (1.0 - share) * apart)
        right = np.exp(-share * share * apart)
        for c in range(state.weights.shape[0]):
            weight = left * state.weights[c, m] + right * state.weights[c, best]
            state.weights[c, best] = weight
        for d in range(width):
            gap = state.rows[m, d] - state.rows[best, d]
            state.rows[best, d] += share * gap
    _drop(state, m)


@inlined
def _drop(state: Dictionary, slot: int) -> None:
    """Forget a row; the last one moves into its place."""
    last = state.counts[STORED] - 1
    if slot != last:
        move_row(state, last, slot)
    state.counts[STORED] = last


@compiled
def _keep_to_budget(settings: _Settings, kernel: Kernel, state: Dictionary, work: Work) -> None:
    """Take in the row behind the stored ones, and let one go if there are too many."""
    size = state.counts[STORED]
    if settings.maintenance == PROJECTION:
        renew_root(kernel, state)
        store(state, work, size)
        if state.counts[STORED] > settings.budget:
            slot = cheapest(state, work)
            if slot == size:
                take_back(state, work)
            else:
                remove(state, work, slot)
        return
    state.counts[STORED] = size + 1
    if size + 1 > settings.budget:
        if settings.maintenance == MERGING:
            _merge(kernel, state, work)
        else:
            _drop(state, _lightest(state, work))


@compiled
def _run_rows(
    settings: _Settings,
    kernel: Kernel,
    mode: Mode,
    state: Dictionary,
    features: FloatArray,
    labels: Coded,
    out: Outputs,
) -> tuple[int, int]:
    counts, weights = state.counts, state.weights
    work = make_work(state.rows.shape[0])
    values = np.zeros(weights.shape[0])
    known = mode.known
    for n in range(features.shape[0]):
        if not out.valid[n]:
            continue
        evaluate(kernel, state, features[n], known, work.k, values)
        if mode.predict:
            report(mode, state, values, known, labels, out, n)
        code = labels.codes[n]
        if not is_learnable(mode, state, code):
            continue
        if code == known:
            values[code] = 0.0
            known += 1
        if state.bandwidth[0] == 0.0:
            keep_waiting(state, features[n], float(code))
            if counts[EARLY] == settings.warmup:
                return n + 1, known
            continue
        step = decayed_step(settings.step_size, settings.decay_rows, counts[LEARNED])
        counts[LEARNED] += 1
        size = counts[STORED]
        shrink(state, size, step * settings.ridge)
        rival = rival_of(values, known, code)
        if rival >= 0 and 1.0 + values[rival] - values[code] > 0.0:
            for c in range(weights.shape[0]):
                weights[c, size] = 0.0
            weights[code, size] = step
            weights[rival, size] = -step
            for d in range(features.shape[1]):
                state.rows[size, d] = features[n, d]
            _keep_to_budget(settings, kernel, state, work)
    return features.shape[0], known


class BSGD(DictionaryLearner[BSGDSpec]):
    """The learner BSGD (see the module).

    Example:
        >>> spec, learner = BSGDSpec(gamma=1.0, budget=30), BSGD()
        >>> rows = np.random.default_rng(0).normal(size=(300, 2))
        >>> labels = ["in" if row @ row < 1 else "out" for row in rows]
        >>> state, said = learner.update(spec, learner.init(spec, 2), rows, labels)
        >>> learner.predict(spec, state, [[0.1, 0.0], [2.0, 1.0]]).names, state.size
        (['in', 'out'], 30)
    """

    name = "bsgd"
    spec_type: type[LearnerSpec] = BSGDSpec

    def projects(self, spec: BSGDSpec) -> bool:
        """Check whether the learner needs K⁻¹."""
        return spec.maintenance == "projection"

    def run(
        self,
        spec: BSGDSpec,
        kernel: Kernel,
        mode: Mode,
        state: Dictionary,
        features: FloatArray,
        labels: Coded,
        out: Outputs,
    ) -> tuple[int, int]:
        """Run rows through the compiled loop; see `KernelLearner.run`."""
        settings = _Settings(
            ridge=float(spec.ridge),
            step_size=float(spec.step_size),
            decay_rows=float(spec.decay_rows),
            maintenance=MAINTENANCE.index(spec.maintenance),
            budget=spec.budget,
            warmup=spec.warmup,
        )
        return _run_rows(settings, kernel, mode, state, features, labels, out)
