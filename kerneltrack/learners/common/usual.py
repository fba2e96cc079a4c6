"""What a learner is told of a row where nothing says it."""

from __future__ import annotations

from kerneltrack.learners.common.spec import BOTH, LearnerSpec
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
    return kind.inputs
