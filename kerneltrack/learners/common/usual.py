"""What a learner is told of a row where nothing says it."""

from __future__ import annotations

import dataclasses

from kerneltrack.learners.common.spec import BOTH, FEATURES, LearnerSpec
from kerneltrack.learners.linear.spec import LinearSpec
from kerneltrack.trackers.common.spec import SubspaceSpec
from kerneltrack.trackers.rows.spec import RowsSpec


def usual_inputs(kind: type[LearnerSpec], tracker: SubspaceSpec) -> str:
    """Return what learners of a kind are told where nothing says it: linear ones of both.

    Args:
        kind: The class of the learner's spec.
        tracker: The tracker's; features of the tracker `rows` are the rows.
    """
    if issubclass(kind, LinearSpec) and tracker.tracker != RowsSpec.tracker:
        return BOTH
    return kind.inputs or FEATURES


def with_inputs(spec: LearnerSpec, tracker: SubspaceSpec) -> LearnerSpec:
    """Return a learner's spec that says what the learner is given, as `usual_inputs` chooses it."""
    if spec.inputs is not None:
        return spec
    return dataclasses.replace(spec, inputs=usual_inputs(type(spec), tracker))
