"""Metrics of a model's predictions as columns; what they come to is `learners.common.board`'s."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerneltrack.arrays import IntArray
from kerneltrack.learners import LearnerSpec, LearnerState
from kerneltrack.learners.auto.learner import EXPERTS as AUTO_EXPERTS
from kerneltrack.learners.auto.learner import AutoState, course
from kerneltrack.learners.common.board import SUMS, Line, wide_sums
from kerneltrack.learners.common.kept_classes import names_of
from transforms.chunks import Chunk
from transforms.write.schemas import EXPERTS, guess_columns

LEAST_WEIGHT = 0.005
OTHER = "(other)"
"""Stands, in the confusion, for all labels whose classes the learner has no room for."""


def metrics_chunk(
    spec: LearnerSpec, closed: Sequence[tuple[LearnerState, Sequence[Line]]]
) -> Chunk:
    """Put lines into a chunk, columns as in `transforms.write.schemas.metrics_schema`.

    Args:
        spec: The learners'.
        closed: Of each learner what it has come to, and its lines.
    """
    lines = [line for _, own in closed for line in own]
    counts = np.array([line.tally.counts for line in lines])
    columns: dict[str, Any] = {
        "start": pa.array([line.start for line in lines], pa.int64()),
        "end": pa.array([line.end for line in lines], pa.int64()),
        "rows": pa.array(counts[:, 0]),
        "scored": pa.array(counts[:, 1]),
    }
    running = np.array([line.counts for line in lines])
    sums = np.array([wide_sums(spec, line.tally.sums) for line in lines])
    if spec.classifies:
        columns["correct"] = pa.array(counts[:, 2])
        columns["accuracy"] = _mean(counts[:, 2], counts[:, 1])
        columns["running_accuracy"] = _mean(running[:, 2], running[:, 1])
        columns["macro_f1"], columns["kappa"] = _agreement([line.tally.pairs for line in lines])
        columns["log_loss"] = _mean(sums[:, 0], counts[:, 1])
        columns["brier"] = _mean(sums[:, 1], counts[:, 1])
        columns["confusion"] = _confusion(closed)
    else:
        total = np.array([line.sums[:SUMS] for line in lines])
        columns["rmse"] = _mean(sums[:, 0], counts[:, 1], root=True)
        columns["mae"] = _mean(sums[:, 1], counts[:, 1])
        columns["running_rmse"] = _mean(total[:, 0], running[:, 1], root=True)
    for place, name in enumerate(spec.interval_metrics, SUMS):
        columns[name] = _mean(sums[:, place], counts[:, 1])
    for place, name in enumerate(guess_columns(spec), 2):
        columns[name] = _mean(sums[:, place], counts[:, 1], root=not spec.classifies)
    if closed and isinstance(closed[0][0], AutoState):
        columns["experts"] = pa.array(_courses(closed), EXPERTS)
    return Chunk(pa.RecordBatch.from_pydict(columns))


def _courses(closed: Sequence[tuple[Any, Sequence[Line]]]) -> list[list[dict[str, Any]] | None]:
    """Return the weights of the experts in the spans of their course, in lines of all rows."""
    cells: list[list[dict[str, Any]] | None] = []
    for state, lines in closed:
        whole = any(line.start is None for line in lines)
        course_ = _course(state) if whole else None
        cells += [course_ if line.start is None else None for line in lines]
    return cells


def _course(state: AutoState) -> list[dict[str, Any]]:
    """Return the weights of the experts in the spans of their course; small ones are left out."""
    return [
        {"rows": rows, "expert": expert, "weight": weight}
        for rows, weights in zip(*(part.tolist() for part in course(state)), strict=True)
        for expert, weight in zip(AUTO_EXPERTS, weights, strict=True)
        if weight >= LEAST_WEIGHT
    ]


def _mean(sums: npt.NDArray[Any], counts: IntArray, root: bool = False) -> pa.Array:
    """Return sums over counts, null where nothing was counted."""
    none = (counts == 0) | np.isnan(sums)
    means = sums / np.where(none, 1, counts)
    return pa.array(np.sqrt(means) if root else means, mask=none)


def _agreement(pairs: Sequence[IntArray]) -> tuple[pa.Array, pa.Array]:
    """Return macro-F1 and Cohen's kappa of lines by their counts of label and prediction.

    F1 is 2·hits/(rows of the label + rows predicted so), its mean over all classes that are a label
    or a prediction in the line (a label without room is one of them); kappa is (p - e)/(1 - e) with
    p the accuracy, e that of the same predictions in random order. Null where they are not defined.

    Reference: J. Cohen, "A coefficient of agreement for nominal scales", Educational and
    Psychological Measurement 20, 1960.
    """
    lines, whole = len(pairs), np.concatenate([np.zeros((0, 3), np.int64), *pairs])
    owner = np.repeat(np.arange(lines), [len(part) for part in pairs])
    width = int(whole[:, :2].max(initial=0)) + 1
    cells, places = np.unique(
        np.concatenate([owner * width + whole[:, 0], owner * width + whole[:, 1]]),
        return_inverse=True,
    )
    label, predicted = places[: len(whole)], places[len(whole) :]
    of_label, of_said, hits = (
        np.bincount(at, weights, len(cells))
        for at, weights in (
            (label, whole[:, 2]),
            (predicted, whole[:, 2]),
            (label, np.where(label == predicted, whole[:, 2], 0)),
        )
    )
    line = cells // width
    scored, right, chance, f1, classes = (
        np.bincount(line, weights, lines)
        for weights in (
            of_label,
            hits,
            of_label * of_said,
            2.0 * hits / (of_label + of_said),
            np.ones(len(cells)),
        )
    )
    none = scored == 0
    rows = np.where(none, 1.0, scored)
    expected = chance / (rows * rows)
    same = none | (expected >= 1.0)
    kappa = (right / rows - expected) / np.where(same, 1.0, 1.0 - expected)
    return pa.array(f1 / np.where(none, 1.0, classes), mask=none), pa.array(kappa, mask=same)


def _confusion(closed: Sequence[tuple[LearnerState, Sequence[Line]]]) -> pa.Array:
    """Return the lines' confusions; each learner's classes are named in one table of all."""
    pairs = [line.tally.pairs for _, lines in closed for line in lines]
    known = [names_of(state) for state, _ in closed]
    sizes = np.array([len(own) for own in known])
    owner = np.repeat(
        np.arange(len(closed)),
        [sum(len(line.tally.pairs) for line in lines) for _, lines in closed],
    )
    # Behind a learner's classes stands what is none of them.
    first = np.cumsum(sizes + 1) - sizes - 1
    names = pa.array([name for own in known for name in (*own, OTHER)], pa.string())
    whole = np.concatenate(pairs)
    cells = pa.StructArray.from_arrays(
        [
            names.take(pa.array(first[owner] + np.minimum(whole[:, 0], sizes[owner]))),
            names.take(pa.array(first[owner] + whole[:, 1])),
            pa.array(whole[:, 2]),
        ],
        names=["label", "prediction", "count"],
    )
    ends = np.cumsum([0, *(len(part) for part in pairs)])
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), cells)
