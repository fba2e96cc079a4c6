"""Labels as learners take them: names of classes or real targets."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kerneltrack.errors import ConfigError
from kerneltrack.learners import LearnerSpec
from transforms.read.kinds import codes_of, encode, is_number, value_type

LabelArray = npt.NDArray[Any]
"""Labels of rows: names (object array, None where missing) or targets (float64, NaN there)."""


def check_label_type(spec: LearnerSpec, kind: pa.DataType) -> None:
    """Refuse a column whose values cannot be labels for a learner.

    Classes may be strings or numbers (the number as Arrow casts it to a string: 3 and 3.0 are the
    class "3"), targets are numbers.

    Raises:
        ConfigError: naming the type.
    """
    kind = value_type(kind)
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not (is_number(kind) or pa.types.is_null(kind) or (text and spec.classifies)):
        allowed = "strings or numbers" if spec.classifies else "numbers, for regression"
        raise ConfigError("label", str(kind), allowed)


def label_column(spec: LearnerSpec, column: pa.Array) -> pa.Array:
    """Return labels as strings (classes) or float64 (targets); NaN becomes null.

    Raises:
        ConfigError: for values of a type that cannot be labels.
    """
    check_label_type(spec, column.type)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)
    return column.cast(pa.string() if spec.classifies else pa.float64(), safe=False)


def label_values(column: pa.Array) -> LabelArray:
    """Return what `label_column` gave as an array; a name is one object, however often it comes."""
    if pa.types.is_floating(column.type):
        targets: LabelArray = column.to_numpy(zero_copy_only=False)
        return targets
    encoded = encode(column)
    names = np.array([*encoded.dictionary.to_pylist(), None], dtype=object)
    classes: LabelArray = names[codes_of(encoded)]
    return classes


def no_labels(spec: LearnerSpec, count: int) -> LabelArray:
    """Return the labels of rows that have none."""
    return np.full(count, None, dtype=object) if spec.classifies else np.full(count, np.nan)


def is_missing(labels: LabelArray) -> npt.NDArray[np.bool_]:
    """Return where there is no label."""
    none: Any = None
    missing: npt.NDArray[np.bool_]
    missing = np.equal(labels, none) if labels.dtype == object else np.isnan(labels)
    return missing.astype(np.bool_)


def to_column(labels: LabelArray) -> pa.Array:
    """Return labels as a column again, null where missing."""
    if labels.dtype == object:
        return pa.array(labels, pa.string())
    return pa.array(labels, pa.float64(), mask=np.isnan(labels))
