"""Adaptive Nyström (OANA): landmarks by online k-means, features by their kernel matrix.

The first m rows that differ are the landmarks U. From then on a row x goes to its nearest landmark
u_j, and unless ‖x - u_j‖² < ε that one becomes the mean of all N_j rows that it got:

    u_j ← (N_j u_j + x)/(N_j + 1),   N_j ← N_j + 1.

With K = κ(U, U) ≈ V_r S_r V_rᵀ (the r largest eigenvalues) the features of a row are
S_r^{-1/2} V_rᵀ k, k = κ(U, x): the coordinates of φ(x)'s projection on the first r principal
directions of the landmarks.

**The subspace.** Kept as an orthonormal basis Φ_U E, EᵀKE = I, with its image G = KE. With the m-th
landmark K is diagonalised once, E = V_r S_r^{-1/2}. When landmark j moves to ū, row and column j of
K are computed anew, a change of rank 2, and two steps of subspace iteration start from the old
coefficients, E ← orth(K̄E + 1e-7 tr(K̄) E): the span is that of the paper's Q ← K̄Q, and E stays
orthonormal where K is singular to working precision (directions of which nothing is left are put
at zero, and given to the landmark that moves next). As EᵀKE = I whatever the span is, ‖q‖² is the
squared length of a projection, and ℓ = κ(x,x) - ‖q‖² is in [0, κ(x,x)].

**Features.** q = Eᵀk, z = Tq with the rotation T that moves the features of the landmarks, each at
its new place, least (orthogonal Procrustes), s = K^½Eq. A linear learner on z keeps its weights;
the paper fits them anew instead (eq. 12: the same sum over landmarks, minimised for one w and not
restricted to rotations). Until m rows have come the subspace is that of the first r landmarks, one
direction each.

With ε = "none moves" (`threshold: null`) the map stays that of the first m rows: NOGD's.

Cost per row: O(mD + mr + r²), O(m²r + mr²) more where a landmark moves, O(m³) once.
Flops a row that moves a landmark: 9mD + 20m + 6m²r + 8mr² + 8mr + 17r³ + 2r².

Reference: S. Si, S. Kumar, Y. Li, "Nonlinear online learning with adaptive Nyström approximation",
2018, Alg. 1, eq. 9, 10 (m, r, ε, K̄ are theirs; E there is K here).

Differs from it: a row that equals a landmark does not begin another; the iteration is
K-orthonormal and shifted; features are aligned.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from kerneltrack.limits import ArrayForm, Limit, check_whole, real, whole
from kerneltrack.trackers.common import state as places
from kerneltrack.trackers.common.base import KernelTracker
from kerneltrack.trackers.common.calls import kernel_of_spec, look_at
from kerneltrack.trackers.common.loop import Loop
from kerneltrack.trackers.common.moving_scale import moments, window_of
from kerneltrack.trackers.oana.spec import OANASpec
from kerneltrack.trackers.oana.state import OanaSettings, OANAState


def settings_of(spec: OANASpec, learn: bool) -> OanaSettings:
    """Return the spec as the compiled loop takes it."""
    return OanaSettings(
        learn=learn,
        aligned=spec.emit == "z",
        threshold=math.inf if spec.threshold is None else float(spec.threshold),
        clip=math.inf if spec.clip is None else float(spec.clip),
        scale_window=window_of(spec),
    )


class OANA(KernelTracker[OANASpec, OANAState]):
    """The adaptive Nyström tracker (see the module).

    Example:
        >>> spec = OANASpec(rank=2, budget=4, standardise=False, gamma=2.0)
        >>> tracker = OANA()
        >>> rows = np.random.default_rng(0).normal(size=(50, 3))
        >>> state, features = tracker.update(spec, tracker.init(spec, rows[:1]), rows)
        >>> features.z.shape, state.members[:4].sum()
        ((50, 2), np.int64(50))
    """

    name = "oana"
    spec_type = OANASpec
    state_type = OANAState

    def init(self, spec: OANASpec, first_rows: npt.ArrayLike, key: str = "") -> OANAState:
        """Make the state from the first rows (m, D); see `KernelTracker.init`."""
        state = self.first_state(spec, look_at(spec, first_rows))
        return state._replace(frame=np.eye(spec.rank))

    def loop(self, spec: OANASpec, learn: bool) -> Loop:
        """Return the row loop (native/oana.c)."""
        return Loop("oana_run", settings_of(spec, learn), (kernel_of_spec(spec),))

    def stored(self, spec: OANASpec) -> int:
        """Return how many numbers the features s of a row are."""
        return spec.budget

    def layout(self, spec: OANASpec, width: int) -> dict[str, ArrayForm]:
        """Return what the arrays of a state are like."""
        rank, slots = spec.rank, spec.budget + 1
        return {
            "support": real(slots, width),
            "factor": real(rank, slots),
            "gram": real(slots, slots),
            "image": real(rank, slots),
            "frame": real(rank, rank),
            "members": whole(slots),
            "born": whole(slots),
            "shift": real(width),
            "scale": real(width),
            "bandwidth": real(1),
            "recent": real(spec.novelty_window),
            "reals": real(places.REALS + moments(spec, width)),
            "counts": whole(places.COUNTS),
        }

    def limits(self, spec: OANASpec) -> tuple[Limit, ...]:
        """Return the ranges of landmarks and directions."""
        return (
            Limit("landmarks", places.SIZE, spec.budget),
            Limit("directions", places.STARTED, spec.rank),
        )

    def sound(self, spec: OANASpec, state: OANAState) -> OANAState:
        """Return a state that was read, after a look at its values."""
        used = np.arange(state.members.shape[-1]) < state.counts[..., [places.SIZE]]
        check_whole("state.members", np.where(used, state.members, 1), 1)
        return state
