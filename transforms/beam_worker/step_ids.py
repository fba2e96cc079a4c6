"""Ids of a pipeline's steps that do not change when other steps come or go.

Flink finds an operator's state by the label of the step before it, and a timer by the id of its
own step. Beam numbers its ids in order: one step more in front, and a timer that was saved finds
no receiver.

Changes: the ids that a pipeline gives to its steps. Checked with Beam 2.76 and 2.77; where Beam has
no such map the pipeline is not built: with ids of Beam's own a savepoint's timers would be lost.
Needless once: Beam's ids are made of labels. apache/beam#9733 wanted that for Samza's stateful
steps (BEAM-8340); no issue asks for it in Python.
"""

from __future__ import annotations

from typing import Any

from apache_beam.pipeline import AppliedPTransform, ComponentIdMap, Pipeline


class _StableIds(ComponentIdMap):
    """Calls each step by its full label, of which a pipeline has no two."""

    def get_or_assign(self, obj: Any = None, obj_type: Any = None, label: Any = None) -> str:
        """Return the id of a component; all but steps are numbered as ever."""
        if isinstance(obj, AppliedPTransform) and obj.full_label:
            return str(obj.full_label)
        found: str = super().get_or_assign(obj, obj_type, label)  # type: ignore[no-untyped-call]
        return found


def use_stable_ids(pipeline: Pipeline) -> None:
    """Let a pipeline that has no steps yet give them ids that do not change."""
    pipeline.component_id_map = _StableIds()  # type: ignore[no-untyped-call]
