"""Codes for labels, whatever their type, over a stream of batches."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kerneltrack.arrays import FloatArray, IntArray
from pipelines.report.data.columns import numbered

NO_LABEL = -1
"""Code of a row whose label is null, NaN or beyond the limit."""

MOST_CLASSES_OF_TEXT = 5_000
"""Distinct texts that have a code; later ones are coded as no label."""

_MOST_CLASSES_OF_NUMBERS = 24


class LabelCodes:
    """Number the distinct labels 0, 1, ... in the order in which they first appear.

    Numbers with more than 24 distinct values are a regression target and not classes: then
    `is_target` turns true and codes mean nothing. Text beyond 5,000 distinct values (an id taken
    for a label) is coded as no label, so that memory stays bounded, and `is_cut` turns true.
    """

    def __init__(self) -> None:
        self._codes: dict[object, int] = {}
        self.is_numeric = False
        self.is_target = False
        self.is_cut = False

    def encode(self, column: pa.Array) -> IntArray:
        """Return the rows' codes, shape (n,), `NO_LABEL` where there is none."""
        column = _plain(column)
        if not pa.types.is_dictionary(column.type):
            self.is_numeric = True
            if self.is_target:
                return np.full(len(column), NO_LABEL)
        return numbered(column, self._code)

    def names(self) -> list[str]:
        """Return the labels as text, in the order of their codes."""
        return [_text(value) for value in self._codes]

    def _code(self, value: object) -> int:
        code = self._codes.get(value)
        if code is not None:
            return code
        if self.is_numeric and len(self._codes) >= _MOST_CLASSES_OF_NUMBERS:
            self.is_target = True
        elif self.is_numeric or len(self._codes) < MOST_CLASSES_OF_TEXT:
            return self._codes.setdefault(value, len(self._codes))
        else:
            self.is_cut = True
        return NO_LABEL


def label_values(column: pa.Array) -> FloatArray:
    """Return numeric labels as float64, NaN where there is none."""
    column = _plain(column).cast(pa.float64(), safe=False)
    return cast(FloatArray, column.to_numpy(zero_copy_only=False))


def _plain(column: pa.Array) -> pa.Array:
    """Return dictionary-encoded text, or numbers with null in place of NaN."""
    kind: Any = column.type
    if pa.types.is_dictionary(kind):
        return column
    if pa.types.is_floating(kind):
        return pc.if_else(pc.is_finite(column), column, pa.scalar(None, kind))
    if pa.types.is_integer(kind):
        return column
    return column.cast(pa.string()).dictionary_encode()


def _text(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
