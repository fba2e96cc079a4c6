"""Rows that could not be used, and why: apart from chunks, which bring Beam with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerneltrack.errors import fit

FAILURE_SCHEMA = pa.schema(
    [
        pa.field("model_id", pa.string()),
        pa.field("source", pa.int32()),
        pa.field("row", pa.int64()),
        pa.field("reason", pa.string()),
    ]
)


def unreadable(error: Exception) -> str:
    """Return why a model whose snapshot cannot be read takes no rows."""
    return f"the model's snapshot cannot be read: {error}"


def reasons_column(reasons: Sequence[str]) -> pa.Array:
    """Return reasons as a column: they quote what came from outside."""
    return pa.array([fit(reason) for reason in reasons], pa.string())


@dataclass(frozen=True, slots=True)
class Failures:
    """Rows that could not become features, with the reason (schema `FAILURE_SCHEMA`)."""

    batch: pa.RecordBatch

    @staticmethod
    def of(
        model_id: str | None,
        source: npt.ArrayLike,
        row: npt.ArrayLike,
        reason: Sequence[str],
    ) -> Failures:
        """Build failures of one model (None: unknown), one reason a row."""
        columns = [
            pa.array([model_id] * len(reason), pa.string()),
            pa.array(np.asarray(source, dtype=np.int32)),
            pa.array(np.asarray(row, dtype=np.int64)),
            reasons_column(reason),
        ]
        return Failures(pa.RecordBatch.from_arrays(columns, schema=FAILURE_SCHEMA))

    @staticmethod
    def of_model(model_id: str, reason: str) -> Failures:
        """Build the failure of a model that has no row to show it by: source and row are null."""
        line = {"model_id": model_id, "source": None, "row": None, "reason": fit(reason)}
        return Failures(pa.RecordBatch.from_pylist([line], schema=FAILURE_SCHEMA))


NO_FAILURES = Failures(pa.RecordBatch.from_pylist([], schema=FAILURE_SCHEMA))
