"""The rank of the covariance tracker chosen from the stream.

Of an admitted row two residuals are known before it enters: δ, outside the span of all stored
rows, and ℓ_j = κ(x,x) - Σ_{c<=j} q_c², outside the first j directions. Their fading sums e_B and
e_j, weighted as the rows are, tell what the budget could do and what j directions do. In use is
the smallest j with e_j <= f·e_B. It rises as soon as that is broken, to where it holds again; it
falls only to where e_j is a tenth below, so that it does not flicker.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kerneltrack.compiled import compiled
from kerneltrack.trackers.covariance.state import FULL, SCORES, WHOLE, CovarianceState, Settings
from kerneltrack.trackers.okfeb.state import DIRECTIONS, INFORMATIVE, RANK

FloatArray = npt.NDArray[np.float64]

KEPT = 0.99
"""What is left of the sums after an admitted row: the last hundred count."""
PATIENCE = 50
"""Admitted rows, from the full budget on, before the first choice."""
BELOW = 0.9
"""The rank falls to where the error is this part of what is allowed."""
EXACT = 1e-6
"""A smaller fraction of κ(x,x) counts as nothing, or rounding would choose."""


@compiled
def choose(
    settings: Settings,
    state: CovarianceState,
    q: FloatArray,
    own: float,
    rest: float,
    weight: float,
) -> None:
    """Book an admitted row, all of q and δ = `rest` known, and choose the rank. Cost O(r)."""
    counts, reals, most = state.counts, state.reals, state.factor.shape[0]
    counts[DIRECTIONS] += counts[RANK]
    beyond = counts[INFORMATIVE] + 1 - state.support.shape[0]
    if beyond < 0:
        return
    reals[FULL] = KEPT * reals[FULL] + weight * max(rest, 0.0)
    reals[WHOLE] = KEPT * reals[WHOLE] + weight * own
    for c in range(most):
        reals[SCORES + c] = KEPT * reals[SCORES + c] + weight * q[c] * q[c]
    if beyond < PATIENCE:
        return
    allowed = settings.rank_factor * max(reals[FULL], EXACT * reals[WHOLE])
    error = reals[WHOLE]
    enough = most
    fewer = most
    for c in range(most):
        error -= reals[SCORES + c]
        if error <= allowed:
            enough = min(enough, c + 1)
        if error <= BELOW * allowed:
            fewer = min(fewer, c + 1)
    if enough > counts[RANK]:
        counts[RANK] = enough
    elif fewer < counts[RANK]:
        counts[RANK] = fewer
