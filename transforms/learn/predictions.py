"""Predictions as columns of a chunk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerneltrack.learners import Predictions
from kerneltrack.learners.common.label_sets import named_flags

SLICE_ROWS = 16_384
"""Rows a chunk of predictions holds at most."""


def prediction_arrays(predictions: Predictions, label: pa.Array | None) -> dict[str, pa.Array]:
    """Return the columns of predictions: those of `transforms.write.schemas.predictions_schema`.

    Args:
        predictions: Predictions of n rows, scored as far as labels are known.
        label: The rows' labels, strings or float64; None: not known yet.
    """
    columns: dict[str, pa.Array] = {}
    count = len(predictions.valid)
    if predictions.code is None:
        columns["prediction"] = _or_null(predictions.value)
        if predictions.lower is not None:
            columns |= {"lower": _or_null(predictions.lower), "upper": _or_null(predictions.upper)}
        columns["label"] = pa.nulls(count, pa.float64()) if label is None else label
        columns["error"] = _or_null(predictions.error)
        return columns
    none = predictions.code < 0
    names = pa.array(list(predictions.classes), pa.string())
    columns["prediction"] = names.take(pa.array(predictions.code, mask=none))
    columns["score"] = pa.array(predictions.score, mask=none)
    columns["margin"] = pa.array(predictions.margin, mask=none)
    if predictions.members is not None:
        columns["set"] = _sets(predictions.members, predictions.classes, none)
    columns["label"] = pa.nulls(count, pa.string()) if label is None else label
    columns["correct"] = pa.array(predictions.correct, mask=~predictions.scored)
    return columns


def _sets(
    members: npt.NDArray[np.int64], classes: Sequence[str], none: npt.NDArray[np.bool_]
) -> pa.Array:
    """Return sets as lists of names, null where nothing was predicted."""
    flags, names = named_flags(members, classes)
    flags[none] = False
    ends = np.concatenate([[0], np.cumsum(flags.sum(axis=1))])
    chosen = pa.array(names, pa.string()).take(pa.array(np.nonzero(flags)[1]))
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), chosen, mask=pa.array(none))


def _or_null(values: npt.NDArray[np.float64] | None) -> pa.Array:
    """Return reals, NaN as null."""
    reals: Any = np.zeros(0) if values is None else values
    return pa.array(reals, mask=np.isnan(reals))
