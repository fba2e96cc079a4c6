"""The model ids of a batch's rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from transforms.read.column_options import ONLY_MODEL
from transforms.read.columns import Columns
from transforms.read.kinds import as_bytes, codes_of, encode, is_bytes, texts_of

MAX_ID_BYTES = 1024
"""Longest model id: ids are keys, and parts of file names."""


def model_ids(batch: pa.RecordBatch, columns: Columns) -> tuple[list[str], npt.NDArray[np.int32]]:
    """Return the distinct ids, and each row's place among them; -1 for a row without a usable one.

    Args:
        batch: Rows with the column of model ids, if there is one.
        columns: What each column is.
    """
    if columns.model_id is None:
        return [ONLY_MODEL], np.zeros(batch.num_rows, dtype=np.int32)
    encoded = encode(batch.column(columns.model_id))
    ids = texts_of(_within(encoded.dictionary, MAX_ID_BYTES))
    positions: dict[str, int] = {}
    # One more code, for null. A dictionary may hold the same id twice.
    codes = np.full(len(ids) + 1, -1, dtype=np.int32)
    for i, text in enumerate(ids):
        if text:
            codes[i] = positions.setdefault(text, len(positions))
    return list(positions), codes[codes_of(encoded)]


def _within(values: pa.Array, most: int) -> pa.Array:
    """Return texts with null for those of more bytes; other values as they are."""
    values = as_bytes(values)
    if not is_bytes(values.type):
        return values
    return pc.if_else(pc.greater(pc.binary_length(values), most), None, values)
