"""POLK: functional stochastic gradient steps, made sparse by matching pursuit.

C functions f_c(x) = Σ_j w_cj κ(d_j, x) of one RKHS share a dictionary of M rows. A mini-batch of B
labelled rows takes a step on the mean loss + λ/2·Σ‖f_c‖² (eq. 14, 18),

    f̃_c = (1 - η_tλ)f_c - (η_t/B) Σ_i ∂ℓ(f(x_i), y_i)/∂f_c · κ(x_i, ·),

which adds its rows to the dictionary; then destructive kernel orthogonal matching pursuit with
pre-fitting (Algorithm 1) drops the row whose removal, all weights re-fitted, moves f̃ least, as
long as f̃ has moved by no more than ε_t = K η_t^{3/2} in all, ‖·‖² = Σ_c ‖·‖². Past `budget` rows it
drops them whatever that costs. The losses: multi-class hinge (eq. 26), with the rival
r = argmax_{c≠y} f_c(x), multinomial logistic (eq. 27), whose `score` and `margin` are
probabilities, and (y - f(x))²/2 in regression, where ε is in units of the target.

With W, WᵀW = K⁻¹, kept up to date (see `dictionary_steps`), all removal errors come at once instead
of from M least-squares fits.
Flops a labelled row with a gradient: 3MD + 10M + 6CM + 10M². Of these 3MD + 10M + 2CM are for f(x),
an exponential taken for ten: all there is of a row that is predicted only. 4M² take it in, 4CM
look for the cheapest, and if that is not the row itself, 6M² drop one: it grows as M².

Reference: A. Koppel, G. Warnell, E. Stump, A. Ribeiro, "Parsimonious online learning with kernels
via sparse projections in function space", JMLR 20, 2019, Algorithms 1 and 2, eq. 26 and 27.

Differs from the paper: the hard cap; η_t may fall; a row in the span of the others (squared
distance below 1e-6) never stays; a row of the squared loss never moves f past its own
target, η_t <= 1. Eq. 20's printed pseudo-inverse is misplaced: w = K_DD⁻¹ K_DD̃ w̃.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kerneltrack.compiled import compiled, inlined
from kerneltrack.kernels import Kernel, kernel_row
from kerneltrack.learners.common.base import LEARNED, FloatArray
from kerneltrack.learners.common.labels import Coded
from kerneltrack.learners.common.row_steps import (
    Mode,
    Outputs,
    decayed_step,
    descent,
    is_learnable,
    report,
    softmax,
)
from kerneltrack.learners.common.spec import LearnerSpec
from kerneltrack.learners.kernel.common import EARLY, keep_waiting
from kerneltrack.learners.kernel.dictionary import DictionaryLearner
from kerneltrack.learners.kernel.dictionary_steps import (
    PENDING,
    STORED,
    Dictionary,
    Work,
    cheapest,
    evaluate,
    in_span,
    make_work,
    remove,
    renew_root,
    shrink,
    store,
    take_back,
)
from kerneltrack.learners.kernel.spec import POLKSpec


class _Settings(NamedTuple):
    ridge: float
    step_size: float
    decay_rows: float
    parsimony: float
    logistic: bool
    batch: int
    budget: int
    warmup: int


@inlined
def _add(state: Dictionary, row: FloatArray, descent: FloatArray, known: int, step: float) -> None:
    """Put a row to the mini-batch, unless it has no gradient."""
    slot = state.counts[STORED] + state.counts[PENDING]
    moves = False
    for c in range(state.weights.shape[0]):
        state.weights[c, slot] = step * descent[c] if c < known else 0.0
        moves = moves or state.weights[c, slot] != 0.0
    if moves:
        for d in range(row.shape[0]):
            state.rows[slot, d] = row[d]
        state.counts[PENDING] += 1


@compiled
def _take_step(
    settings: _Settings, kernel: Kernel, state: Dictionary, work: Work, step: float
) -> None:
    """Add the mini-batch to the functions and prune the dictionary (Algorithm 1)."""
    counts = state.counts
    begin, pending = counts[STORED], counts[PENDING]
    shrink(state, begin, step * settings.ridge)
    if pending == 0:
        return
    renew_root(kernel, state)
    moved = 0.0
    fresh = False
    for slot in range(begin, begin + pending):
        size = counts[STORED]
        if settings.batch > 1:
            kernel_row(kernel, state.rows, size, state.rows[slot], work.k)
        moved += store(state, work, slot)
        fresh = counts[STORED] > size
    counts[PENDING] = 0
    limit = settings.parsimony * step**1.5
    while counts[STORED] > 0:
        slot = cheapest(state, work)
        moved += work.costs[slot]
        must = counts[STORED] > settings.budget or in_span(state, slot)
        if moved > limit * limit and not must:
            break
        if fresh and slot == counts[STORED] - 1:
            take_back(state, work)
        else:
            remove(state, work, slot)
        fresh = False


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
    counts = state.counts
    work = make_work(state.rows.shape[0])
    values = np.zeros(state.weights.shape[0])
    probable = np.zeros(state.weights.shape[0])
    known = mode.known
    for n in range(features.shape[0]):
        if not out.valid[n]:
            continue
        evaluate(kernel, state, features[n], known, work.k, values)
        if mode.predict:
            if settings.logistic and known > 0:
                softmax(values, known, probable)
                report(mode, state, probable, known, labels, out, n)
            else:
                report(mode, state, values, known, labels, out, n)
        code = labels.codes[n]
        if not is_learnable(mode, state, code):
            continue
        target = labels.targets[n] if mode.regression else float(code)
        waits = state.bandwidth[0] == 0.0
        if code == known and not (waits and mode.regression):
            values[code] = 0.0
            known += 1
        if waits:
            keep_waiting(state, features[n], target)
            if counts[EARLY] == settings.warmup:
                return n + 1, known
            continue
        # The step of a mini-batch is that of its first row.
        learned = counts[LEARNED]
        first = learned - learned % settings.batch
        step = decayed_step(settings.step_size, settings.decay_rows, first)
        descent(mode.regression, settings.logistic, values, known, code, target)
        # Of the squared loss, a row never moves past its own target.
        share = min(step, 1.0) if mode.regression else step
        _add(state, features[n], values, known, share / settings.batch)
        counts[LEARNED] = learned + 1
        if learned + 1 == first + settings.batch:
            _take_step(settings, kernel, state, work, step)
    return features.shape[0], known


class POLK(DictionaryLearner[POLKSpec]):
    """The learner POLK (see the module).

    Example:
        >>> spec, learner = POLKSpec(gamma=1.0, step_size=1.0), POLK()
        >>> rows = np.random.default_rng(0).normal(size=(300, 2))
        >>> labels = ["in" if row @ row < 1 else "out" for row in rows]
        >>> state, said = learner.update(spec, learner.init(spec, 2), rows, labels)
        >>> learner.predict(spec, state, [[0.1, 0.0], [2.0, 1.0]]).names, state.size < 50
        (['in', 'out'], True)
    """

    name = "polk"
    spec_type: type[LearnerSpec] = POLKSpec

    def run(
        self,
        spec: POLKSpec,
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
            parsimony=float(spec.parsimony),
            logistic=spec.classifies and spec.loss == "logistic",
            batch=spec.batch,
            budget=spec.budget,
            warmup=spec.warmup,
        )
        return _run_rows(settings, kernel, mode, state, features, labels, out)
