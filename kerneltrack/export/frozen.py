"""What a model says of a row once it learns no more: a few matrices, free of tracker and learner.

A tracker that stores rows S maps a row x, scaled, by k = κ(S, x) and

    b = Cᵀk,   z = Fb,   ℓ = κ(x,x) - ‖z‖² - ρ‖Fᵀz‖²    (OK-FEB, OK-FE: C = A, F = Q)
    q = Cᵀk,   z = Fq,   ℓ = κ(x,x) - ‖q‖²               (the others: C = E, F = T)

and a linear learner decides by s = W(x', z, 1), x' being the row as learners are told it; its
classes have the probabilities (1 - .001)·softmax(βs) + .001/C.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from kerneltrack.arrays import FloatArray
from kerneltrack.errors import ConfigError
from kerneltrack.kernels import Kernel
from kerneltrack.learners.common.base import BETA, TARGET_MEAN
from kerneltrack.learners.common.inputs import OWN_CLIP, width_of_inputs
from kerneltrack.learners.common.spec import LearnerSpec
from kerneltrack.learners.linear.common import LinearState
from kerneltrack.learners.linear.spec import LinearSpec
from kerneltrack.registry import get_learner
from kerneltrack.trackers.common import state as places
from kerneltrack.trackers.common.calls import kernel_of
from kerneltrack.trackers.common.spec import SubspaceSpec

REGULARISED = ("okfeb", "okfe")
ORTHONORMAL = ("covariance", "oana")
PLAIN = "rows"
"""Trackers: by their features, see the module; of the last one they are the scaled rows."""


class FrozenMap(NamedTuple):
    """How a row becomes features.

    Attributes:
        shift: (D,) centre over scale.
        scale: (D,) standard deviation.
        clip: Deviations that scaled values are clipped to; infinity leaves them.
        kernel: κ; None: features are the scaled row.
        stored: (m, D) rows S, scaled.
        coefficients: (m, r) C.
        frame: (r, r) F.
        ridge: ρ; None where the coefficients are of an orthonormal basis.
        emit: "z" or "q": which of the two the features are.
    """

    shift: FloatArray
    scale: FloatArray
    clip: float
    kernel: Kernel | None
    stored: FloatArray
    coefficients: FloatArray
    frame: FloatArray
    ridge: float | None
    emit: str


class LinearHead(NamedTuple):
    """How a linear learner decides.

    Attributes:
        weights: (C, p) of its inputs.
        bias: (C,).
        classes: Names of the C classes; none where targets are predicted (C is 1 then).
        beta: β of the probabilities.
        inputs: "rows", "features" or "both", the row first.
        own_clip: What the row's own values are clipped to, in deviations, before they are divided
            by √D; infinity leaves them.
    """

    weights: FloatArray
    bias: FloatArray
    classes: tuple[str, ...]
    beta: float
    inputs: str
    own_clip: float


def freeze(spec: SubspaceSpec, state: Any) -> FrozenMap:
    """Return a tracker's map as it is now.

    Raises:
        ConfigError: for a tracker that stores no rows, or one that has none yet.
    """
    clip = math.inf if spec.clip is None else float(spec.clip)
    name = spec.tracker
    if name == PLAIN:
        width = len(state.scale)
        none, one = np.zeros((0, width)), np.eye(width)
        return FrozenMap(
            state.shift, state.scale, clip, None, none, none, one, None, emit=spec.emit
        )
    if name not in REGULARISED + ORTHONORMAL:
        known = ", ".join((*REGULARISED, *ORTHONORMAL, PLAIN))
        raise ConfigError("tracker", name, f"one of {known}: the others draw their map row by row")
    size = state.size
    if not size:
        raise ConfigError("stored rows", 0, "one at least: the model has learned nothing yet")
    coefficients = np.ascontiguousarray(state.factor[:, :size].T)
    frame, ridge = state.frame[:, : spec.rank], None
    if name in REGULARISED:
        ridge = float(state.reals[places.RIDGE])
    else:
        coefficients[:, places.directions_used(state.counts, state.factor) :] = 0.0
    return FrozenMap(
        shift=state.shift,
        scale=state.scale,
        clip=clip,
        kernel=kernel_of(spec, state),
        stored=np.ascontiguousarray(state.support[:size]),
        coefficients=coefficients,
        frame=np.ascontiguousarray(frame),
        ridge=ridge,
        emit=spec.emit,
    )


def freeze_head(spec: LearnerSpec, state: Any, tracker: SubspaceSpec, channels: int) -> LinearHead:
    """Return a linear learner's weights as they are now.

    Args:
        spec: The learner's.
        state: The learner's.
        tracker: The spec of the tracker that its features are of.
        channels: D.

    Raises:
        ConfigError: for a learner that is not linear, predicts another class than that of the
            largest value, or has learned nothing yet.
    """
    if not isinstance(spec, LinearSpec) or not isinstance(state, LinearState):
        raise ConfigError("learner", spec.learner, "a linear one: others are no single matrix")
    for field in ("class_weight", "costs"):
        if getattr(spec, field):
            raise ConfigError(field, getattr(spec, field), "left out: the likeliest is predicted")
    if not len(state.classes) and (spec.classifies or not _has_learned(spec, state)):
        raise ConfigError("labels", 0, "one at least: the learner has learned nothing yet")
    width, _ = width_of_inputs(spec, tracker.rank, channels)
    learner = get_learner(spec.learner)
    # The learner's own values of unit vectors: in whatever scale it keeps its weights.
    bias = learner.values(spec, state, np.zeros((1, width)))[0]
    unbiased = state._replace(weights=np.array(state.weights))
    unbiased.weights[:, width:] = 0.0
    if not spec.classifies:
        # What all targets are deviations from is the bias's.
        unbiased = unbiased._replace(sums=np.array(state.sums))
        unbiased.sums[TARGET_MEAN] = 0.0
    return LinearHead(
        weights=np.ascontiguousarray(learner.values(spec, unbiased, np.eye(width)).T),
        bias=bias,
        classes=tuple(state.classes) if spec.classifies else (),
        beta=float(state.sums[BETA]),
        inputs=spec.input_kind,
        own_clip=OWN_CLIP if tracker.standardise else math.inf,
    )


def _has_learned(spec: LearnerSpec, state: LinearState) -> bool:
    return get_learner(spec.learner).counters(state)["learned"] > 0
