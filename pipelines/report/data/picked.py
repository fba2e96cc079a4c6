"""A few rows of a few models, looked up in the features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from kerneltrack.arrays import IntArray
from pipelines.report.data.columns import array_of, numbered
from pipelines.report.data.files import BATCH_ROWS, read_batches

_BATCH_NUMBERS = 1 << 22
_INDEX_BITS = 48


def picked_rows(
    paths: Sequence[str], columns: Sequence[str], wanted: Mapping[str, IntArray], width: int = 1
) -> dict[str, pa.Table]:
    """Look up rows by model and index.

    Args:
        paths: The files of the features.
        columns: Columns to return beside `index`.
        wanted: Indices by model, in order.
        width: How many numbers the columns have in a row, which bounds the batches.

    Returns:
        A table of each model of which a row was found, by index.

    Cost: O(rows log wanted) time; memory O(wanted) and a batch of about 32 MB.
    """
    slots = {name: slot for slot, name in enumerate(wanted)}
    keys = [(slot << _INDEX_BITS) + wanted[name] for name, slot in slots.items()]
    key = np.concatenate(keys) if keys else np.zeros(0, np.int64)
    if not len(key):
        return {}
    most = max(1, min(BATCH_ROWS, _BATCH_NUMBERS // width))
    found: dict[int, list[pa.RecordBatch]] = {}
    names = list(dict.fromkeys(["model_id", "index", *columns]))
    for batch in read_batches(paths, names, most):
        slot = numbered(batch.column("model_id"), lambda name: slots.get(name, -1))
        own = (slot << _INDEX_BITS) + array_of(batch, "index")
        at = np.minimum(np.searchsorted(key, own), len(key) - 1)
        kept = np.flatnonzero((slot >= 0) & (key[at] == own))
        for number in np.unique(slot[kept]).tolist():
            rows = pa.array(kept[slot[kept] == number])
            found.setdefault(number, []).append(batch.select(names[1:]).take(rows))
    ordered = list(wanted)
    return {
        ordered[slot]: pa.concat_tables([pa.Table.from_batches([part]) for part in parts])
        .unify_dictionaries()
        .sort_by("index")
        for slot, parts in found.items()
    }
