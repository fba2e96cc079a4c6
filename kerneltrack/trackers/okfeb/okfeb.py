"""OK-FEB: online kernel-based feature extraction on a budget.

The subspace is L = Φ_S A: at most B stored rows S (support vectors, SVs) and a |S|×r factor A.
A row x gets, with k = κ(S, x) and M = AᵀK_S A,

    q = (M + λI)⁻¹Aᵀk    (eq. 11b)        ℓ = κ(x,x) - qᵀAᵀk - λ‖q‖²    (eq. 6b with 11b)

and moves A along the gradient of the regularised fitting error, by the nonparametric rule
(eq. 19, Alg. 3 and 4) or the parametric one (eq. 16, Alg. 2). Rows that fit well may be censored
(section V-A); past the budget one SV is dropped (Alg. 5).

**Low rank.** Nothing is computed from scratch in a row. With the ridge in force ρ, N = M + ρI and
one frame Q with QᵀQ = N⁻¹, the row's features are z = Qb, b = Aᵀk; q = Qᵀz and
ℓ = κ(x,x) - ‖z‖² - ρ‖q‖². With e = φ(x) - Lq, Lᵀe = ρq, the parametric step of size μ is

    L ← dL + μeqᵀ, d = 1 - μλ/n:   M ← d²M + c·qqᵀ, c = 2dμρ + μ²ℓ,
    KA ← d·KA + μ(k⁺ - KAq)qᵀ,     ρ ← d²ρ,

k⁺ being k and κ(x,x). The nonparametric one is A ← A + μwqᵀ, w = k⁺ - KAq, p = (KA)ᵀw:

    KA ← KA + μ(Kw)qᵀ,             M ← M + μ(pqᵀ + qpᵀ) + μ²(wᵀKw)qqᵀ.

A row a of A that is dropped, g = (KA)_i, gives KA ← KA - K_i aᵀ, M ← M - agᵀ - gaᵀ + κ_ii·aaᵀ; one
that enters by itself gives the same with -a and g = b. Q follows such a change X of N, of rank 1 or
2, by Q ← R(I + QXQᵀ)^{-½}Q in the plane that it acts in, with the rotation R that moves LQᵀ least
in feature space. KA and Q are computed anew every 64 rows, or B if that is more (Newton and
Schulz's Q ← Q + ½(I - QNQᵀ)Q, which keeps the orientation); then ρ is λ again. Each row that is
learned from is checked first: if Lᵀe and ρq differ by more than 1e-9 of z, both are computed anew
at once.

Cost per row: O(BD + Br + r²); of the nonparametric rule O(B²) more, of the policy "compensated"
O(B³), which inverts K.
Flops a row that enters: 3BD + 10B + 18Br + 25r² + 2B²r/64 + Br²/64 + 10r³/64, an exponential taken
for ten, of the parametric rule; a censored one has no more than 3BD + 10B + 2Br + 4r².

Reference: F. Sheikholeslami, D. Berberidis, G. B. Giannakis, "Large-scale kernel-based feature
extraction via low-rank subspace tracking on a budget", IEEE Trans. Signal Process., 2018.

Differs from the paper:
- It starts from the first r distinct rows; the paper's rank-one start (`start="rank_one"`) can
  only ever hold one direction, since every new row of A is a multiple of the first.
- The default step cannot diverge. Under every step an update that would leave A non-finite or
  too large to compute with is replaced by a normalised one and counted as mended; a row that the
  subspace cannot see at all (q = 0) enters as the first rows did.
- The feature is the r-vector z = QAᵀk: inner products are those of the regularised projection,
  zᵀz' = bᵀ(M + ρI)⁻¹b', where the paper's (Remark 4) have qᵀMq'. K - K̂ is positive semidefinite,
  as theirs is, and ‖z‖² is what ℓ is computed from.
- The default step of the parametric rule is 1/(‖q‖² + λ), not 1/(‖q‖² + λ/n), its bound (Prop. 2).
- The ridge in force fades with d² between two renewals; what the nonparametric rule shrinks,
  A ← A - (μλ/n)KA, is summed up and applied at the next one: both would be changes of full rank.
- KA and Q are computed anew every 64 rows, or B if that is more, and in the row after one that
  leaves N with a condition above 1e7: QNQᵀ - I stays within 1e-8, or within ε times the condition.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import FloatArray
from kerneltrack.errors import ConfigError
from kerneltrack.limits import ArrayForm, Limit, real, whole
from kerneltrack.trackers.common import state as places
from kerneltrack.trackers.common.base import KernelTracker
from kerneltrack.trackers.common.calls import kernel_of_spec, look_at
from kerneltrack.trackers.common.loop import Loop
from kerneltrack.trackers.common.moving_scale import moments, window_of
from kerneltrack.trackers.okfeb.spec import CENSORS, POLICIES, RULES, STEPS, GradientSpec, OKFEBSpec
from kerneltrack.trackers.okfeb.state import OkfebSettings, SubspaceState

LANES = 4
"""Doubles in a vector; rows of the state's tables are padded to it."""


def layout(spec: GradientSpec, slots: int, width: int) -> dict[str, ArrayForm]:
    """Return what the arrays of a state with so many slots for rows of D channels are like."""
    rank, columns, directions = spec.rank, padded(slots), padded(spec.rank)
    return {
        "stored": real(width, columns),
        "factor": real(rank, columns),
        "image": real(rank, columns),
        "gram": real(columns, columns),
        "frame": real(rank, directions),
        "seeds": real(rank, rank),
        "recency": real(slots),
        "born": whole(slots),
        "shift": real(width),
        "scale": real(width),
        "bandwidth": real(1),
        "recent": real(spec.novelty_window),
        "reals": real(places.REALS + 2 + moments(spec, width)),
        "counts": whole(places.COUNTS + 1),
    }


def padded(count: int) -> int:
    """Return the next multiple of a vector's width (native/vec.h)."""
    return -(-count // LANES) * LANES


def make_state(spec: GradientSpec, first_rows: npt.ArrayLike, slots: int) -> SubspaceState:
    """Make a state with room for `slots` stored rows, scaled and tuned to the first rows."""
    seen = look_at(spec, first_rows)
    arrays = {name: like.zeros() for name, like in layout(spec, slots, len(seen.scale)).items()}
    state = SubspaceState(**arrays)._replace(
        **first_state(spec), shift=seen.shift, scale=seen.scale, bandwidth=seen.bandwidth
    )
    state.reals[: places.REALS + 2] = spec.ridge, 0.0, 0.0, 0.0, 1.0, 0.0
    return state


def first_state(spec: GradientSpec) -> dict[str, Any]:
    """Return the arrays that are not zero at first, but for scaling, bandwidth and `reals`."""
    rank, ones = spec.rank, spec.tracker == "okfe" and spec.start == "rank_one"
    return {
        "frame": np.eye(rank, padded(rank)) / math.sqrt(spec.ridge),
        "seeds": _seed_rows(spec.seed, rank, ones),
    }


def rows_to_begin(spec: GradientSpec) -> int:
    """Return how many distinct rows form the start."""
    return spec.rank if spec.start == "rows" else 1


@lru_cache(maxsize=64)
def _seed_values(seed: int, rank: int) -> FloatArray:
    drawn: FloatArray = np.random.default_rng(seed).standard_normal((rank, rank))
    return drawn / math.sqrt(rank)


def _seed_rows(seed: int, rank: int, ones: bool) -> FloatArray:
    """Return the rows that A starts from: N(0, 1)/√r, or all ones (Alg. 2 and 3)."""
    return np.ones((rank, rank)) if ones else _seed_values(seed, rank).copy()


def settings_of(spec: OKFEBSpec, learn: bool) -> OkfebSettings:
    """Return the spec as the compiled loops take it."""
    return OkfebSettings(
        learn=learn,
        ridge=spec.ridge,
        rule=RULES.index(spec.rule),
        step=STEPS.index(spec.step),
        step_size=spec.step_size,
        policy=POLICIES.index(spec.policy),
        forgetting=spec.forgetting,
        censor=CENSORS.index(spec.censor),
        threshold=spec.threshold,
        admitted=1.0 - spec.censor_rate,
        start_rows=rows_to_begin(spec),
        clip=math.inf if spec.clip is None else spec.clip,
        scale_window=window_of(spec),
    )


class OKFEB(KernelTracker[OKFEBSpec, SubspaceState]):
    """The tracker OK-FEB (see the module).

    Example:
        >>> spec = OKFEBSpec(rank=2, budget=4, standardise=False, gamma=2.0)
        >>> tracker = OKFEB()
        >>> rows = np.random.default_rng(0).normal(size=(50, 3))
        >>> state, features = tracker.update(spec, tracker.init(spec, rows[:1]), rows)
        >>> features.z.shape, state.size
        ((50, 2), 4)
    """

    name = "okfeb"
    spec_type = OKFEBSpec
    state_type = SubspaceState

    def init(self, spec: OKFEBSpec, first_rows: npt.ArrayLike, key: str = "") -> SubspaceState:
        """Make the state from the first rows (m, D); the key is not used."""
        return make_state(spec, first_rows, spec.budget + 1)

    def loop(self, spec: OKFEBSpec, learn: bool) -> Loop:
        """Return the row loop (native/okfeb.c)."""
        return Loop("okfeb_run", settings_of(spec, learn), (kernel_of_spec(spec),))

    def stored(self, spec: OKFEBSpec) -> int:
        """Return how many numbers the features s of a row are."""
        return spec.budget

    def layout(self, spec: OKFEBSpec, width: int) -> dict[str, ArrayForm]:
        """Return what the arrays of a state are like."""
        return layout(spec, spec.budget + 1, width)

    def limits(self, spec: OKFEBSpec) -> tuple[Limit, ...]:
        """Return the ranges of stored rows and of those of the start."""
        return limits(spec, spec.budget)

    def sound(self, spec: OKFEBSpec, state: SubspaceState) -> SubspaceState:
        """Return a state that was read, after a look at its values; see `KernelTracker.sound`."""
        return sound(spec, state)


def limits(spec: GradientSpec, budget: int) -> tuple[Limit, ...]:
    """Return the ranges of stored rows and of those of the start."""
    return (
        Limit("stored rows", places.SIZE, budget),
        Limit("rows of the start", places.STARTED, rows_to_begin(spec)),
    )


def sound(spec: GradientSpec, state: SubspaceState) -> SubspaceState:
    """Return a state, or columns of several, after a look at values; see `KernelTracker.sound`.

    What lies past the stored rows is zeroed: the loop adds it to its sums.
    """
    size, started = state.counts[..., places.SIZE], state.counts[..., places.STARTED]
    past = np.arange(state.stored.shape[-1]) >= size[..., np.newaxis]
    for table in (state.stored, state.factor, state.image, state.gram):
        np.copyto(table, 0.0, where=past[..., np.newaxis, :])
    np.copyto(state.gram, 0.0, where=past[..., np.newaxis])
    state.frame[..., spec.rank :] = 0.0
    # The start's rows are the only ones until there are enough of them: each takes a slot.
    most = rows_to_begin(spec)
    wrong = (size != started) & ((started < most) | (size < started))
    if wrong.any():
        first = int(started[wrong].flat[0])
        allowed = f"{first}, the rows of the start" + (" or more" if first == most else "")
        raise ConfigError("state.counts, stored rows", int(size[wrong].flat[0]), allowed)
    return state
