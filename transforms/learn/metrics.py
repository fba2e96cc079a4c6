"""Metrics of a model's predictions as columns; what they come to is `learners.common.board`'s."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerneltrack.learners import LearnerSpec, Predictions
from kerneltrack.learners.common.board import Line, ScoredRows
from transforms.chunks import Chunk
from transforms.read.kinds import codes_of, encode

IntArray = npt.NDArray[np.int64]

OTHER = "(other)"
"""Stands, in the confusion, for all labels whose classes the learner has no room for."""


def scored_rows(
    spec: LearnerSpec,
    classes: Sequence[str],
    clock: IntArray,
    said: Predictions,
    labels: pa.Array,
) -> ScoredRows:
    """Put side by side what the metrics need.

    Args:
        spec: The learner's.
        classes: Those that the learner knows once it has learned these rows: one that it does
            not know then has found no room.
        clock: (n,) times.
        said: Scored predictions.
        labels: Theirs, as `label_column` gives them.
    """
    if said.code is None:
        return ScoredRows(clock, said.scored, None, said.error, None)
    table = {name: code for code, name in enumerate(classes)}
    encoded = encode(labels)
    other = spec.max_classes
    known = [table.get(name, other) for name in encoded.dictionary.to_pylist()]
    codes = np.array([*known, other])[codes_of(encoded)]
    return ScoredRows(clock, said.scored, said.correct, None, np.column_stack([codes, said.code]))


def metrics_chunk(spec: LearnerSpec, classes: Sequence[str], lines: Sequence[Line]) -> Chunk:
    """Put lines into a chunk, columns as in `transforms.write.schemas.metrics_schema`."""
    counts = np.array([line.tally.counts for line in lines])
    columns: dict[str, Any] = {
        "start": pa.array([line.start for line in lines], pa.int64()),
        "end": pa.array([line.end for line in lines], pa.int64()),
        "rows": pa.array(counts[:, 0]),
        "scored": pa.array(counts[:, 1]),
    }
    running = np.array([line.total.counts for line in lines])
    if spec.classifies:
        columns["correct"] = pa.array(counts[:, 2])
        columns["accuracy"] = _mean(counts[:, 2], counts[:, 1])
        columns["running_accuracy"] = _mean(running[:, 2], running[:, 1])
        columns["confusion"] = _confusion(classes, [line.tally.pairs for line in lines])
    else:
        sums = np.array([line.tally.sums for line in lines])
        total = np.array([line.total.sums for line in lines])
        columns["rmse"] = _mean(sums[:, 0], counts[:, 1], root=True)
        columns["mae"] = _mean(sums[:, 1], counts[:, 1])
        columns["running_rmse"] = _mean(total[:, 0], running[:, 1], root=True)
    return Chunk(pa.RecordBatch.from_pydict(columns))


def _mean(sums: npt.NDArray[Any], counts: IntArray, root: bool = False) -> pa.Array:
    """Return sums over counts, null where nothing was counted."""
    none = counts == 0
    means = sums / np.where(none, 1, counts)
    return pa.array(np.sqrt(means) if root else means, mask=none)


def _confusion(classes: Sequence[str], pairs: Sequence[IntArray]) -> pa.Array:
    whole = np.concatenate(pairs)
    names = pa.array([*classes, OTHER], pa.string())
    cells = pa.StructArray.from_arrays(
        [
            names.take(pa.array(np.minimum(whole[:, 0], len(classes)))),
            names.take(pa.array(whole[:, 1])),
            pa.array(whole[:, 2]),
        ],
        names=["label", "prediction", "count"],
    )
    ends = np.cumsum([0, *(len(part) for part in pairs)])
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), cells)
