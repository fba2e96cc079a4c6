"""Whole arrays through a tracker or a learner, in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import IntArray
from kerneltrack.errors import ConfigError
from kerneltrack.learners.common.base import Labels, Predictions
from kerneltrack.learners.common.spec import LearnerSpec
from kerneltrack.registry import get_learner, get_tracker
from kerneltrack.trackers.common.features import Features
from kerneltrack.trackers.common.spec import SubspaceSpec


def run_all(
    spec: SubspaceSpec, rows: Any, extras: tuple[str, ...] = (), times: IntArray | None = None
) -> tuple[Any, Features]:
    """Track a whole array in memory: `init` with the first rows, then `update` with all.

    Args:
        spec: The spec; it names the tracker.
        rows: Shape (n, D), n >= 1, finite in the first `spec.rows_to_start` rows.
        extras: "q" and "s" ask for those features too.
        times: (n,) event time of each row, ns, if the spec needs them.

    Returns:
        The last state and the features of all rows.

    Example:
        >>> import numpy as np
        >>> from kerneltrack import OKFEBSpec
        >>> rows = np.random.default_rng(0).normal(size=(100, 3))
        >>> _, features = run_all(OKFEBSpec(rank=2, budget=3, warmup=50), rows)
        >>> bool(features.valid.all())
        True
    """
    tracker = get_tracker(spec.tracker)
    state = tracker.init(spec, rows[: spec.rows_to_start])
    return tracker.update(spec, state, rows, extras, times)


def learn_all(
    spec: LearnerSpec, features: npt.ArrayLike, labels: Labels, own: npt.ArrayLike | None = None
) -> tuple[Any, Predictions]:
    """Learn a whole array in memory, prequentially: `init`, then `update` with all rows.

    Args:
        spec: The spec; it names the learner.
        features: Shape (n, r).
        labels: n classes or targets.
        own: The rows as `own_inputs` returns them, shape (n, D), in addition to the features.

    Returns:
        The last state and the predictions of all rows.

    Example:
        >>> from kerneltrack import RidgeSpec
        >>> state, found = learn_all(RidgeSpec(), [[0.0], [1.0], [0.1], [0.9]], list("abab"))
        >>> found.names, found.correct.tolist()
        ([None, 'a', 'a', 'b'], [False, False, True, True])
    """
    learner = get_learner(spec.learner)
    rows = np.asarray(features, dtype=np.float64)
    if rows.ndim != 2:
        raise ConfigError("features", rows.shape, "of shape (n, r)")
    if own is None:
        return learner.update(spec, learner.init(spec, rows.shape[1]), rows, labels)
    channels = np.asarray(own, dtype=np.float64)
    inputs = np.hstack([channels, rows])
    state = learner.begin(spec, inputs.shape[1], channels.shape[1])
    return learner.update(spec, state, inputs, labels)
