"""Three memories side by side: the half-life "auto" of the covariance tracker.

A stream in its own order wants a short memory, rows in random order a long one, and which of the
two a stream is, or when it changes, is not known beforehand. So three covariances with half-lives
of B/2, 2B and 8B rows learn every row. Of each the fading mean of its losses ℓ is kept,

    m ← .99·m + .01·ℓ,

and the one in use, whose features and losses are given out, is left for the best other one as soon
as that one's m is below .97 of its own, from the next row on. The features go on from where they
are: with the bases Φ_SE and Φ_S'E' of the two, the new frame T' is the rotation that is nearest to
T·EᵀK(S, S')E', which moves the directions of the features least.

Cost: three times a row of the tracker; a change O(B²(D + r) + Br² + r³). Running totals (rows
admitted, evicted, ...) are of the memory that is in use at each row.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from kerneltrack.errors import ConfigError
from kerneltrack.limits import ArrayForm, Limit, check_counts, check_whole, real, whole
from kerneltrack.trackers.common import state as places
from kerneltrack.trackers.covariance import state as covstate
from kerneltrack.trackers.covariance.spec import CovarianceSpec
from kerneltrack.trackers.covariance.state import CovarianceState

LIVES = (2.0, 0.5, 8.0)
"""Half-lives in budgets; the first is in use at first."""

# As in native/covariance_memories.c.
REALS = (
    "support",
    "factor",
    "gram",
    "image",
    "through",
    "energy",
    "weights",
    "square",
    "whitener",
    "frame",
    "recent",
    "reals",
)
WHOLES = ("born", "key", "counts")


def rivals_like(spec: CovarianceSpec, own: dict[str, ArrayForm]) -> dict[str, ArrayForm]:
    """Return what the arrays of the memories beside that in use are like, none without "auto".

    Args:
        spec: The spec.
        own: The arrays of the memory in use.
    """
    many = len(LIVES) - 1 if spec.chooses_halflife else 0
    numbers, counts = (
        sum(math.prod(own[name].shape) for name in names) if many else 0
        for names in (REALS, WHOLES)
    )
    return {
        "rivals": real(many, numbers),
        "rival_counts": whole(many * counts),
        "choice": real(2 * len(LIVES) if many else 0),
    }


def initial(spec: CovarianceSpec, state: CovarianceState) -> CovarianceState:
    """Return a state before its first row with the other memories, which are as it is."""
    if not spec.chooses_halflife:
        return state
    numbers = np.concatenate([getattr(state, name).ravel() for name in REALS])
    counts = np.concatenate([getattr(state, name) for name in WHOLES])
    many = len(LIVES) - 1
    return state._replace(
        rivals=np.stack([numbers] * many),
        rival_counts=np.concatenate([counts] * many),
        choice=np.concatenate([np.zeros(len(LIVES)), np.array(LIVES) * spec.budget]),
    )


def put_keys(spec: CovarianceSpec, columns: dict[str, npt.NDArray[Any]]) -> None:
    """Write the keys of new states, given as columns (m, ...), to the other memories'."""
    if not spec.chooses_halflife:
        return
    born, key = columns["born"].shape[1], columns["key"].shape[1]
    length = born + key + columns["counts"].shape[1]
    lines = columns["rival_counts"].reshape(len(columns["key"]), -1, length)
    lines[:, :, born : born + key] = columns["key"][:, np.newaxis]


def check_last(field: str, counts: npt.NDArray[np.int64]) -> None:
    """Check that the last admitted row is one of those seen; `counts`: (..., k).

    Raises:
        ConfigError: naming the count.
    """
    last = counts[..., covstate.LAST]
    check_whole(f"{field}, valid rows at the last admitted one", last, 0, counts[..., places.N])


def check(spec: CovarianceSpec, state: CovarianceState, limits: tuple[Limit, ...]) -> None:
    """Check what the row loop is led by in the memories beside that in use.

    Raises:
        ConfigError: naming what no state has.
    """
    if not spec.chooses_halflife:
        return
    field, seen = "state.rival_counts", state.counts[..., places.N]
    many = state.counts.shape[-1]
    length = state.born.shape[-1] + state.key.shape[-1] + many
    lines = state.rival_counts.reshape(*seen.shape, -1, length)
    counts = lines[..., length - many :]
    check_counts(field, counts, *limits)
    check_last(field, counts)
    # No count grows faster than by so many a row.
    check_whole(field, counts, most=(seen[..., np.newaxis, np.newaxis] + 1) * (spec.rank + 2))
    others = counts[..., places.N]
    if (others != seen[..., np.newaxis]).any():
        raise ConfigError(field, others.tolist(), f"{seen} valid rows each")
    means, lives = state.choice[..., : len(LIVES)], state.choice[..., len(LIVES) :]
    if not (np.isfinite(means).all() and (means >= 0).all()):
        raise ConfigError("state.choice", means.tolist(), "mean losses >= 0")
    wanted = [life * spec.budget for life in LIVES]
    if (np.sort(lives) != np.sort(wanted)).any():
        raise ConfigError("state.choice", lives.tolist(), f"the half-lives {wanted} in some order")
