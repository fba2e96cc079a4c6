"""Online learners on features, one a file, and their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from kerneltrack.errors import ConfigError
from kerneltrack.learners.common.base import (
    TASKS,
    GradientSpec,
    Labels,
    Learner,
    LearnerSpec,
    LearnerState,
    LinearSpec,
    Predictions,
)
from kerneltrack.learners.kernel.bsgd import BSGD, BSGDSpec
from kerneltrack.learners.kernel.nolana import NOLANA, NOLANASpec
from kerneltrack.learners.kernel.polk import POLK, POLKSpec
from kerneltrack.learners.linear.hinge import Hinge, HingeSpec
from kerneltrack.learners.linear.lms import LMS, LMSSpec
from kerneltrack.learners.linear.logistic import Logistic, LogisticSpec
from kerneltrack.learners.linear.pa import PA, PASpec
from kerneltrack.learners.linear.pegasos import Pegasos, PegasosSpec
from kerneltrack.learners.linear.ridge import Ridge, RidgeSpec
from kerneltrack.specs import spec_from_dict

__all__ = [
    "BSGD",
    "LEARNERS",
    "LMS",
    "NOLANA",
    "PA",
    "POLK",
    "TASKS",
    "BSGDSpec",
    "GradientSpec",
    "Hinge",
    "HingeSpec",
    "LMSSpec",
    "Labels",
    "Learner",
    "LearnerSpec",
    "LearnerState",
    "LinearSpec",
    "Logistic",
    "LogisticSpec",
    "NOLANASpec",
    "PASpec",
    "POLKSpec",
    "Pegasos",
    "PegasosSpec",
    "Predictions",
    "Ridge",
    "RidgeSpec",
    "get_learner",
    "learn_all",
    "parse_learner_spec",
]

_ALL: tuple[Learner, ...] = (
    Ridge(),
    Logistic(),
    Hinge(),
    Pegasos(),
    LMS(),
    PA(),
    POLK(),
    BSGD(),
    NOLANA(),
)
LEARNERS: dict[str, Learner] = {learner.name: learner for learner in _ALL}
DEFAULT_LEARNER = "ridge"


def get_learner(name: str) -> Learner:
    """Return the learner of this name.

    Raises:
        ConfigError: for an unknown name.
    """
    if name not in LEARNERS:
        raise ConfigError("learner", name, f"one of {', '.join(LEARNERS)}")
    return LEARNERS[name]


def parse_learner_spec(values: Mapping[str, Any]) -> LearnerSpec:
    """Build a spec from plain values; "learner" names its kind (default recursive ridge).

    Args:
        values: Field names to values (a YAML file, a snapshot's header).

    Returns:
        The spec, fields that are not named at their defaults.

    Raises:
        ConfigError: for an unknown learner or field, or a value out of range.

    Example:
        >>> parse_learner_spec({"learner": "ridge", "ridge": "1e-2"}).ridge
        0.01
    """
    name = values.get("learner", DEFAULT_LEARNER)
    if not isinstance(name, str):
        raise ConfigError("learner", name, f"one of {', '.join(LEARNERS)}")
    return spec_from_dict(get_learner(name).spec_type, values, "learner")


def learn_all(
    spec: LearnerSpec, features: npt.ArrayLike, labels: Labels
) -> tuple[Any, Predictions]:
    """Learn a whole array in memory, prequentially: `init`, then `update` with all rows.

    Args:
        spec: The spec; it names the learner.
        features: Shape (n, r).
        labels: n classes or targets.

    Returns:
        The last state and the predictions of all rows.

    Example:
        >>> state, said = learn_all(RidgeSpec(), [[0.0], [1.0], [0.1], [0.9]], list("abab"))
        >>> said.names, said.correct.tolist()
        ([None, 'a', 'a', 'b'], [False, False, True, True])
    """
    learner = get_learner(spec.learner)
    rows = np.asarray(features, dtype=np.float64)
    if rows.ndim != 2:
        raise ConfigError("features", rows.shape, "of shape (n, r)")
    return learner.update(spec, learner.init(spec, rows.shape[1]), rows, labels)
