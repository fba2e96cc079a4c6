"""Budgeted kernel covariance: a subspace tracker without a step size.

It keeps the covariance operator itself, on at most B stored rows S, and projects on its r largest
eigenvectors. With the weights w_n of the rows (1 for every row; below for leverage) and the fading
ρ = 2^(-1/half-life) of a row (2^(-s/half-life) over s seconds of event time, where the half-life is
one), what is followed is

    C_n = ρC_{n-1} + w_nφ_nφ_nᵀ,   kept as   C = Φ_S Γ Φ_Sᵀ,   K = κ(S, S),   Γ (|S|, |S|) PSD.

**A row comes.** Γ ← ρΓ (for all that passed since the last admitted one), S gains the row
and Γ the diagonal entry w: exact. With t = K⁻¹k the row is Φ_S t but for a rest of squared length
δ = κ(x,x) - kᵀt; is δ no more than 1e-6 κ(x,x) (a repeated row, a small feature space), the row is
not stored but folded: Γ ← Γ + w ttᵀ.

**A row goes.** Past the budget one stored row i is projected on the others, P the projection on
their span. φ_i = Φ_rest t + a rest of squared length δ_i = 1/[K⁻¹]_ii, t_j = -[K⁻¹]_ji/[K⁻¹]_ii; so
with T = [I, t] it is Γ ← TΓTᵀ, which is PCP. As TᵀK_rest T = K - δ_i e_ie_iᵀ,

    ‖C - PCP‖²_HS = tr(KΓKΓ) - tr((K - δeeᵀ)Γ(K - δeeᵀ)Γ) = 2δ_i(ΓKΓ)_ii - δ_i²Γ_ii²,

and the row with the smallest value goes, the newest included. tr C falls by δ_iΓ_ii.

**What evictions lose.** Let C* be the covariance with every row kept. A later fading shrinks the
error of an eviction as it shrinks C, and errors add by the triangle's inequality:

    ‖C*_n - C_n‖_HS <= Σ_j ρ^(n-j) √(cost of the j-th eviction) =: `reals[LOST]`,

which the state keeps (a fold costs w√(δ(2κ - δ))). By Weyl's inequality no eigenvalue is off by
more, and by Davis and Kahan's the sine of the angle to the exact subspace is at most this bound
over the gap between C*'s r-th and C's (r+1)-th eigenvalue. With n rows of ℓ = 0 nothing is lost.

**Where it is kept.** W with WᵀW = K⁻¹: a row added gives W the row [-tᵀ, 1]/√δ; a row dropped takes
its column out after a reflection has sent that column to the last axis. Errors are of the size of
W's rounding, the root of K⁻¹'s, so that adding a row close to S and dropping it again harms
nothing. ΓKΓ gains the row w[Γk, wκ(x,x)], and an eviction makes it T(ΓKΓ - δ_iγ_iγ_iᵀ)Tᵀ with
γ_i = Γe_i. W and ΓKΓ are computed anew every 64 admitted rows, or B if that is more, and W at once
if max|Kt - k|/√κκ is above 1e-10 (counted as mended). A stored row that a new one brings within
1e-6 of the others' span goes first: the condition of K stays bounded.

**The subspace.** Basis Φ_S E, EᵀKE = I. Beside E stand its image G = KE, F = ΓKE, what C makes of
it, and M = EᵀKΓKE = GᵀF, C's energy in it. All four follow C by changes of low rank. A row with
q = Eᵀk gives M ← M + wqqᵀ, and F the row wqᵀ (folded: F ← F + wtqᵀ). A row i that goes, a = E_i its
part in the basis, leaves G on the rows that stay (KTE = (KE)_rest), and as TᵀK_rest T = K - δeeᵀ

    E ← TE,  F ← T(F - δγ_iaᵀ),  M ← M - δ(aF_iᵀ + F_iaᵀ) + δ²Γ_ii·aaᵀ,  EᵀKE = I - δaaᵀ;

E(I + βaaᵀ), β = δ/(√g(1 + √g)), g = 1 - δ‖a‖², is the orthonormal basis that is nearest (where
g < 1e-3: Gram and Schmidt, all anew). Then the new row is let in: d, what E does not see of it,
orthonormal, V = [E, d], and of VᵀCV, M and a row more, the Ritz vector u = (s, h) of the least
value is dropped: E ← E - (Es/(1 + h) + d)sᵀ, the smallest rotation of V that sends u to its last
axis (h >= 0). u is found nearly, by two steps of inverse iteration from what the last two
directions have least of, and two more with a shift below its value. A direction without energy
gives its place to d before any other.

Every 3 admitted rows, every 2 where not every row is admitted, and on each of the first B, one step
of orthogonal iteration with C + 1e-7 tr(M) I is made from E's Ritz vectors, the largest values
first: E ← orth(F + 1e-7 tr(M) E), and G, F and M anew; so rounding does not add up. It brings back
what the dropped directions had, which C still knows; the shift keeps directions without energy from
being made of rounding errors. When it comes is counted in the state, so that results are a function
of the rows alone.

**Features.** q = Eᵀk (kernel-PCA scores, by falling variance once settled), loss ℓ = κ(x,x) - ‖q‖²
without any ridge, z = Tq. Between two steps of the iteration T stays, as E moves no more than it
must; a step takes the rotation T that moves the stored rows' features least (orthogonal
Procrustes). s = K^½Eq. Rows count as `initial` until the subspace has r directions.

**The rank** is `rank`, or chosen from the stream, `rank` at most (as much as the budget can hold if
that is "auto"). Of an admitted row two residuals are known before it enters: δ, outside the span of
all stored rows, and ℓ_j = κ(x,x) - Σ_{c<=j} q_c², outside the first j directions. Their fading sums
e_B and e_j over about a hundred rows, weighted as the rows are, tell what the budget could do and
what j directions do. In use is the smallest j with e_j <= f·e_B, f the `rank_factor`. It rises as
soon as that is broken, to where it holds again; it falls only to where e_j is a tenth below, so
that it does not flicker. The first choice comes 50 admitted rows after the budget is full. All r
directions are followed; of those not in use q is 0, so that z keeps its width and moves no more
than it must.

**Admission.** All rows enter until B have; then by novelty as in OK-FEB (section V-A, VII-D there),
or by leverage: row n enters with probability p = min(1, cℓ), at least half the target rate, if the
number that a hash draws from seed, model ID and n is below p, and with the weight w = 1/p. The mean
of w[enters] is 1 given all rows before, so E C_n = C*_n for as long as nothing was evicted (ℓ is
the row's leverage on the directions that are not tracked yet). ln c moves by
0.02(1 - p/rate) a row. A refused row costs what OK-FEB's censored one does.

Cost per row: O(BD + Br + r²) refused, O(B² + Br + r³) more admitted, O(B²r + Br² + r³) every 3
admitted rows, O(B³) every max(64, B). All sums have one order: the same bits however rows are cut
into calls.
Flops a row that is admitted: 3BD + 10B + 28B² + 39Br + 31r² + 2r³/3 + 4B²r/3 + 13Br²/3 + 26r³/3 +
4B³/64.

References: F. Sheikholeslami, D. Berberidis, G. B. Giannakis, "Large-scale kernel-based feature
extraction via low-rank subspace tracking on a budget", IEEE Trans. Signal Process., 2018, for the
setting, censoring and the stored rows: S, B, r, K, k, q, ℓ are theirs, ΦE is their L = ΦA with
AᵀKA = I. For weights by leverage: M. Cohen, C. Musco, J. Pachocki, "Online row sampling", APPROX
2016. For the iteration: G. Golub, C. Van Loan, "Matrix Computations", section 8.2.

Differs from them: the update of S and Γ, its eviction cost and bound, and the controlled rate are
this project's.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kerneltrack.limits import ArrayForm, Limit, real, whole
from kerneltrack.trackers.common import state as places
from kerneltrack.trackers.common.base import KernelTracker
from kerneltrack.trackers.common.calls import kernel_of_spec, look_at
from kerneltrack.trackers.common.loop import Loop
from kerneltrack.trackers.common.moving_scale import moments, window_of
from kerneltrack.trackers.covariance import memories
from kerneltrack.trackers.covariance import state as covstate
from kerneltrack.trackers.covariance.spec import ADMISSIONS, CovarianceSpec
from kerneltrack.trackers.covariance.state import CovarianceState


def key_of(seed: int, key: str) -> int:
    """Return what a model's coins are drawn from, 64 bits of a hash of seed and model ID."""
    digest = hashlib.blake2b(f"{seed}:{key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def settings_of(spec: CovarianceSpec, learn: bool) -> covstate.CovarianceSettings:
    """Return the spec as the compiled loop takes it."""
    return covstate.CovarianceSettings(
        learn=learn,
        aligned=spec.emit == "z",
        admission=ADMISSIONS.index(spec.admission),
        threshold=float(spec.threshold),
        admitted=float(spec.admission_rate),
        fading=_fading(spec),
        timed=spec.needs_times,
        rank_factor=float(spec.rank_factor or 0.0),
        period=covstate.EVERY_THIRD if spec.admission == "every" else covstate.EVERY_SECOND,
        clip=math.inf if spec.clip is None else float(spec.clip),
        scale_window=window_of(spec),
    )


def _fading(spec: CovarianceSpec) -> float:
    """Return ln 2 over the half-life, in rows or in ns; 0 without one."""
    if spec.halflife_seconds is not None:
        return math.log(2.0) / (spec.halflife_seconds * 1e9)
    life = spec.halflife
    # The loop has those of the memories from the state.
    return 0.0 if life is None or isinstance(life, str) else math.log(2.0) / life


class CovarianceTracker(KernelTracker[CovarianceSpec, CovarianceState]):
    """The covariance tracker (see the module).

    Example:
        >>> spec = CovarianceSpec(rank=2, budget=4, standardise=False, gamma=2.0)
        >>> tracker = CovarianceTracker()
        >>> rows = np.random.default_rng(0).normal(size=(50, 3))
        >>> state, features = tracker.update(spec, tracker.init(spec, rows[:1]), rows)
        >>> features.z.shape, state.size
        ((50, 2), 4)
    """

    name = "covariance"
    spec_type = CovarianceSpec
    state_type = CovarianceState

    def init(
        self, spec: CovarianceSpec, first_rows: npt.ArrayLike, key: str = ""
    ) -> CovarianceState:
        """Make the state from the first rows (m, D); see `KernelTracker.init`."""
        state = self.first_state(spec, look_at(spec, first_rows))
        state.key[covstate.COIN] = key_of(spec.seed, key)
        if spec.rank_factor is not None:
            state.counts[places.RANK] = spec.rank
        return memories.initial(spec, state._replace(frame=np.eye(spec.rank)))

    def put_keys(
        self, spec: CovarianceSpec, columns: dict[str, npt.NDArray[Any]], keys: Sequence[str]
    ) -> None:
        """Write what each model's coins are drawn from."""
        drawn = np.array([key_of(spec.seed, key) for key in keys], np.int64)
        columns["key"][:, covstate.COIN] = drawn
        memories.put_keys(spec, columns)

    def loop(self, spec: CovarianceSpec, learn: bool) -> Loop:
        """Return the row loop (native/covariance.c)."""
        settings = settings_of(spec, learn)
        return Loop("covariance_run", settings, (kernel_of_spec(spec),), timed=True)

    def stored(self, spec: CovarianceSpec) -> int:
        """Return how many numbers the features s of a row are."""
        return spec.budget

    def layout(self, spec: CovarianceSpec, width: int) -> dict[str, ArrayForm]:
        """Return what the arrays of a state are like."""
        rank, slots = spec.rank, spec.budget + 1
        reals, counts = covstate.REALS, covstate.COUNTS
        if spec.rank_factor is not None:
            reals, counts = covstate.SCORES + rank, places.DIRECTIONS + 1
        own = {
            "support": real(slots, width),
            "factor": real(rank, slots),
            "gram": real(slots, slots),
            "image": real(rank, slots),
            "through": real(rank, slots),
            "energy": real(rank, rank),
            "weights": real(slots, slots),
            "square": real(slots, slots),
            "whitener": real(slots, slots),
            "frame": real(rank, rank),
            "born": whole(slots),
            "shift": real(width),
            "scale": real(width),
            "bandwidth": real(1),
            "recent": real(spec.novelty_window),
            "key": whole(1 + spec.needs_times),
            "reals": real(reals + moments(spec, width)),
            "counts": whole(counts),
        }
        return own | memories.rivals_like(spec, own)

    def limits(self, spec: CovarianceSpec) -> tuple[Limit, ...]:
        """Return the ranges of stored rows, of those of the start and of the rank in use."""
        chosen = spec.rank_factor is not None
        return (
            Limit("stored rows", places.SIZE, spec.budget),
            Limit("rows of the start", places.STARTED, spec.rank),
            *((Limit("rank in use", places.RANK, spec.rank, 1),) if chosen else ()),
        )

    def sound(self, spec: CovarianceSpec, state: CovarianceState) -> CovarianceState:
        """Return a state that was read, after a look at its values."""
        memories.check_last("state.counts", state.counts)
        memories.check(spec, state, self.limits(spec))
        return state
