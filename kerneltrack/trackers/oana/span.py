"""The subspace of the adaptive Nyström tracker: the r largest eigenvectors of the landmarks' K.

Symbols: U the m landmarks, K = κ(U, U), E the coefficients of an orthonormal basis Φ_U E of the
subspace (EᵀKE = I), G = KE its image. See `oana` for the derivation.
"""

from __future__ import annotations

import numpy as np

from kerneltrack.compiled import compiled, inlined
from kerneltrack.kernels import Kernel, kernel_row, kernel_value
from kerneltrack.linalg import diagonalise, orthonormalise_row
from kerneltrack.sums import dot, fused
from kerneltrack.trackers.covariance.span import SHIFT, align, finish
from kerneltrack.trackers.oana.state import OANAState, Settings, Work
from kerneltrack.trackers.okfeb.state import SIZE, STARTED, N

STEPS = 2
"""Steps of the subspace iteration after a landmark moved (the paper: 2 or 3)."""
NEW = 1e-6
"""A direction of which less than this fraction of κ(u,u) is new is left out."""
LEAST_EIGENVALUE = 1e-10
"""Eigenvalues of K below this fraction of the largest one are rounding, and no directions."""


@inlined
def _add_direction(state: OANAState, place: int) -> None:
    """Take what is new in landmark `place` into the subspace, if anything is."""
    size, known = state.counts[SIZE], state.counts[STARTED]
    factor, image, own = state.factor, state.image, state.gram[place, place]
    for i in range(size):
        factor[known, i] = 0.0
        image[known, i] = state.gram[place, i]
    factor[known, place] = 1.0
    if orthonormalise_row(factor, image, known, size, NEW * own):
        state.counts[STARTED] = known + 1


@compiled
def begin(settings: Settings, state: OANAState, work: Work, own: float) -> None:
    """Make the row in `work` the next landmark.

    Cost O(m(D + r)), once O(m³) with the last landmark.
    """
    if enlist(state, work, own):
        adopt(settings, state, work, state.counts[SIZE] - 1)


@compiled
def enlist(state: OANAState, work: Work, own: float) -> bool:
    """Make the row in `work` the next landmark, but leave the subspace for `adopt` to change.

    Returns:
        Whether it was the last: then the new subspace is in `work`, else there is none.
    """
    size, rank = state.counts[SIZE], state.factor.shape[0]
    for d in range(work.x.shape[0]):
        state.support[size, d] = work.x[d]
    for i in range(size):
        state.gram[size, i] = work.k[i]
        state.gram[i, size] = work.k[i]
    state.gram[size, size] = own
    for c in range(rank):
        state.factor[c, size] = 0.0
        state.image[c, size] = work.q[c]
    state.members[size] = 1
    state.born[size] = state.counts[N] - 1
    state.counts[SIZE] = size + 1
    if state.counts[STARTED] < rank:
        _add_direction(state, size)
    last = bool(size + 2 == state.support.shape[0])
    if last:
        _settle(state, work)
    return last


@compiled
def _settle(state: OANAState, work: Work) -> None:
    """Write the basis of K's r largest eigenvectors, and its image, to `work`. Cost O(m³)."""
    size, rank = state.counts[SIZE], state.factor.shape[0]
    matrix = state.gram[:size, :size].copy()
    vectors = np.empty((size, size))
    diagonalise(matrix, vectors)
    values = np.empty(size)
    for i in range(size):
        values[i] = matrix[i, i]
    largest = values.max()
    for c in range(rank):
        best = 0
        for i in range(size):
            if values[i] > values[best]:
                best = i
        root = np.sqrt(values[best]) if values[best] > LEAST_EIGENVALUE * largest else 0.0
        inverse = 1.0 / root if root > 0.0 else 0.0
        for i in range(size):
            work.left[c, i] = vectors[best, i] * inverse
            work.right[c, i] = vectors[best, i] * root
        values[best] = -1.0


@compiled
def move(settings: Settings, kernel: Kernel, state: OANAState, work: Work, place: int) -> None:
    """Move a landmark to the mean of its rows and the one in `work`, the subspace with it.

    Cost O(mD + m²r + mr²).
    """
    displace(kernel, state, work, place)
    adopt(settings, state, work, place)


@compiled
def displace(kernel: Kernel, state: OANAState, work: Work, place: int) -> None:
    """Move a landmark, but leave the subspace, whose successor is in `work`, for `adopt`.

    The image is that of the old subspace and the landmarks at their new places.
    """
    size, rank = state.counts[SIZE], state.factor.shape[0]
    state.members[place] += 1
    share = 1.0 / state.members[place]
    for d in range(work.x.shape[0]):
        old = state.support[place, d]
        work.x[d] = old + share * (work.x[d] - old)
    kernel_row(kernel, state.support, size, work.x, work.k)
    # What the old map says of the landmark's new place: its features are held against that.
    for c in range(rank):
        state.image[c, place] = dot(state.factor[c], work.k, size)
    for d in range(work.x.shape[0]):
        state.support[place, d] = work.x[d]
    work.k[place] = kernel_value(kernel, work.x, work.x)
    trace = 0.0
    for i in range(size):
        state.gram[place, i] = work.k[i]
        state.gram[i, place] = work.k[i]
        trace += state.gram[i, i]
    left, right = work.left, work.right
    for c in range(rank):
        for i in range(size):
            left[c, i] = state.factor[c, i]
    for step in range(STEPS):
        for c in range(rank):
            for i in range(size):
                along = dot(state.gram[i], left[c], size) if step == 0 else right[c, i]
                work.k[i] = fused(SHIFT * trace, left[c, i], along)
            for i in range(size):
                left[c, i] = work.k[i]
        finish(state, work, size, rank)


@compiled
def adopt(settings: Settings, state: OANAState, work: Work, place: int) -> None:
    """Make the basis in work.left the state's, with its image; `place` is the landmark that is new.

    Directions that have vanished go last, and the new landmark may begin another.
    """
    size, rank = state.counts[SIZE], state.factor.shape[0]
    left, right = work.left, work.right
    known = 0
    for c in range(rank):
        if dot(left[c], right[c], size) > 0.0:
            for i in range(size):
                left[known, i] = left[c, i]
                right[known, i] = right[c, i]
            known += 1
    for c in range(known, rank):
        for i in range(size):
            left[c, i] = 0.0
            right[c, i] = 0.0
    state.counts[STARTED] = known
    if settings.aligned:
        align(state, work)
    for c in range(rank):
        for i in range(size):
            state.factor[c, i] = left[c, i]
            state.image[c, i] = right[c, i]
    if known < rank:
        _add_direction(state, place)
