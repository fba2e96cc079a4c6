"""Ids of a pipeline's steps that do not change when other steps come or go.

Flink finds an operator's state by the label of the step before it, and a timer by the id of its
own step. Beam numbers its ids in order: one step more in front, and a timer that was saved finds
no receiver.
"""

from __future__ import annotations

from typing import Any

from apache_beam.pipeline import AppliedPTransform, ComponentIdMap


class StableIds(ComponentIdMap):
    """Calls each step by its full label, of which a pipeline has no two.

    Put into a pipeline as its `component_id_map` before any step is.
    """

    def get_or_assign(self, obj: Any = None, obj_type: Any = None, label: Any = None) -> str:
        """Return the id of a component; all but steps are numbered as ever."""
        if isinstance(obj, AppliedPTransform) and obj.full_label:
            return str(obj.full_label)
        found: str = super().get_or_assign(obj, obj_type, label)  # type: ignore[no-untyped-call]
        return found
