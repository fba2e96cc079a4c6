"""Examples of the rows that failed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

FAILURE_COLUMNS = ("model_id", "source", "row", "reason")
"""The columns of `failures/*.parquet` that the report reads."""

_EXAMPLES = 3
_MOST_REASONS = 20
_BATCHES_SEARCHED = 16


@dataclass(frozen=True)
class Failure:
    """A row that did not become features; `model` is None where it is not known."""

    model: str | None
    source: str
    row: int
    reason: str


def failure_examples(batches: Iterable[pa.RecordBatch]) -> list[Failure]:
    """Return up to three rows for each of the first 20 reasons met.

    Args:
        batches: Failed rows with the columns `FAILURE_COLUMNS`; the first 16 batches are searched.
    """
    seen: dict[str, list[Failure]] = {}
    for count, batch in enumerate(batches):
        if count == _BATCHES_SEARCHED:
            break
        reasons = batch.column("reason")
        if not pa.types.is_dictionary(reasons.type):
            reasons = reasons.dictionary_encode()
        codes = reasons.indices.to_numpy(zero_copy_only=False)
        for code, reason in enumerate(reasons.dictionary.to_pylist()[:_MOST_REASONS]):
            if reason not in seen and len(seen) == _MOST_REASONS:
                continue
            found = seen.setdefault(reason, [])
            rows = np.flatnonzero(codes == code)[: _EXAMPLES - len(found)]
            for row in batch.take(pa.array(rows)).to_pylist():
                found.append(Failure(row["model_id"], str(row["source"]), row["row"], reason))
    return [row for rows in seen.values() for row in rows]
