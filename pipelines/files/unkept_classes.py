"""Classes that a model's learner had no room for, named at the end of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow.compute as pc

from kerneltrack.learners import LearnerSpec
from pipelines.report.data.files import read_tables
from pipelines.report.text import few
from transforms.learn.metrics import OTHER
from transforms.outputs import METRICS, PREDICTIONS

UNKEPT = "unkept_classes"
MOST_NAMED = 20
_MOST_SAID, _LONGEST = 5, 40


def unkept_classes(
    output: str, learner: LearnerSpec | None, totals: Mapping[str, int]
) -> dict[str, Any]:
    """Return what the record says of labels that no learner had room for, if there are any.

    A model keeps the `max_classes` classes that are most frequent so far. Rows of others are
    predicted and scored as wrong, not learned from.

    Args:
        output: The run's folder.
        learner: The learner's spec, if there was one.
        totals: What the pipeline counted.
    """
    labels = totals.get("unusable", 0)
    if learner is None or not learner.classifies or not labels:
        return {}
    kept, found = _kept(output), Counter[str]()
    for table in read_tables(output, PREDICTIONS, ["model_id", "label", "correct"]):
        wrong = table.filter(pc.equal(table["correct"], False))
        grouped = wrong.group_by(["model_id", "label"]).aggregate([("label", "count")])
        for line in grouped.to_pylist():
            if line["model_id"] in kept and line["label"] not in kept[line["model_id"]]:
                found[line["label"]] += line["label_count"]
    names = sorted(found, key=lambda name: (-found[name], name))
    named = {name: found[name] for name in names[:MOST_NAMED]}
    about = {"labels": labels, "classes": len(names), "rows": named}
    return {UNKEPT: {"max_classes": learner.max_classes, **about}}


def _kept(output: str) -> dict[str, set[str]]:
    """Return the classes of the models that met more than they had room for."""
    kept = {}
    for table in read_tables(output, METRICS, ["model_id", "start", "confusion"]):
        for line in table.filter(pc.is_null(table["start"])).to_pylist():
            names = {cell[part] for cell in line["confusion"] for part in ("label", "prediction")}
            if OTHER in names:
                kept[line["model_id"]] = names
    return kept


def unkept_lines(record: Mapping[str, Any]) -> list[str]:
    """Return a warning of such labels, if there are any."""
    about = record.get(UNKEPT)
    if about is None:
        return []
    names = [name if len(name) <= _LONGEST else f"{name[:_LONGEST]}..." for name in about["rows"]]
    listed = few(names, _MOST_SAID, about["classes"])
    return [
        f"warning:  {about['labels']:,} labels are of classes that their model had no room for, "
        f"and count as wrong: it keeps the {about['max_classes']:,} most frequent so far "
        f"(--learner-max-classes){f': {listed}' if listed else ''}"
    ]
