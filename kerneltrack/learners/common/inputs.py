"""What a learner is told of a row: its own channels, the tracker's features, or both."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import FloatArray
from kerneltrack.learners.common.spec import BOTH, FEATURES, LearnerSpec
from kerneltrack.trackers.common.scaling import Scaling, apply_scaling
from kerneltrack.trackers.common.spec import SubspaceSpec

OWN_CLIP = 4.0
"""Standardised channels count up to this many deviations: a ridge is thrown by one wild row."""


def own_inputs(
    spec: SubspaceSpec, state: Any, rows: npt.ArrayLike, scaled: FloatArray | None = None
) -> FloatArray:
    """Return rows as learners take them: standardised, clipped at ±4 deviations, over √D.

    Their squared length is about 1 so, as that of features is at most. Rows that the tracker does
    not standardise are not clipped.

    Args:
        spec: The tracker's.
        state: The tracker's, which has the scale: `shift` and `scale` (D,), or (n, D) where rows
            are of several models.
        rows: Shape (n, D).
        scaled: The rows as the tracker scaled them, `Features.x`, where the scale moved from row
            to row; None: by the state's scale.
    """
    values = np.asarray(rows, dtype=np.float64)
    clip = OWN_CLIP if spec.standardise else math.inf
    known = (
        apply_scaling(Scaling(state.shift, state.scale), values, clip)
        if scaled is None
        else np.clip(scaled, -clip, clip)
    )
    own: FloatArray = np.ascontiguousarray(known / math.sqrt(state.scale.shape[-1]))
    return own


def inputs_of(
    spec: LearnerSpec,
    features: FloatArray,
    tracker: SubspaceSpec,
    state: Any,
    rows: npt.ArrayLike,
    scaled: FloatArray | None = None,
) -> tuple[FloatArray, int]:
    """Return a learner's inputs (n, w), and how many of them are channels.

    Args:
        spec: The learner's, which says what it is told.
        features: (n, r) of the tracker.
        tracker: The tracker's spec.
        state: The tracker's state, which has the scale.
        rows: (n, D) the rows.
        scaled: As of `own_inputs`.
    """
    if spec.input_kind == FEATURES:
        return features, features.shape[1]
    own = own_inputs(tracker, state, rows, scaled)
    if spec.input_kind == BOTH:
        return np.hstack([own, features]), own.shape[1]
    return own, own.shape[1]


def width_of_inputs(spec: LearnerSpec, rank: int, channels: int) -> tuple[int, int]:
    """Return how many inputs a learner gets, and how many of them are channels.

    Args:
        spec: The learner's.
        rank: Features of the tracker.
        channels: D.
    """
    if spec.input_kind == FEATURES:
        return rank, rank
    return (rank + channels if spec.input_kind == BOTH else channels), channels


def extras_for(learner: LearnerSpec | None, tracker: SubspaceSpec) -> tuple[str, ...]:
    """Return what a tracker is asked for so that a learner gets rows scaled as they came."""
    wanted = tracker.scale_moves and learner is not None and learner.input_kind != FEATURES
    return ("x",) if wanted else ()
