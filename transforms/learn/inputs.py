"""What learners take of features and of delayed labels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerneltrack.errors import ConfigError
from kerneltrack.learners import LearnerSpec
from kerneltrack.learners.common.spec import BOTH, FEATURES, ROWS
from transforms.chunks import Chunk
from transforms.learn.plan import Plan
from transforms.read.label_values import label_column


def narrow(plan: Plan, chunk: Chunk) -> Chunk:
    """Return the columns that a learner needs of features.

    Raises:
        ConfigError: for rows without the times that are needed, or labels of a wrong type.
    """
    batch, kind = chunk.batch, plan.spec.input_kind
    columns = {"index": batch.column("index")}
    if chunk.has("time"):
        columns["time"] = batch.column("time")
    elif plan.timed_by:
        name, value = next(iter(plan.timed_by.items()))
        raise ConfigError(name, value, "None: the rows have no times")
    features = batch.column("z" if chunk.has("z") else "q")
    if kind != FEATURES and not chunk.has("x"):
        allowed = f"{FEATURES!r}, or features with the rows: TrackSubspace(..., own=True)"
        raise ConfigError("inputs", kind, allowed)
    if kind == BOTH:
        columns["x"] = batch.column("x")
    columns["z"] = batch.column("x") if kind == ROWS else features
    if chunk.has("label"):
        columns["label"] = label_column(plan.spec, batch.column("label"))
    return Chunk(pa.RecordBatch.from_pydict(columns))


def inputs_of(chunk: Chunk) -> tuple[npt.NDArray[np.float64], int]:
    """Return what a learner is told of narrow rows, (n, w), and how many of it are their own."""
    z = chunk.column("z")
    if not chunk.has("x"):
        return z, z.shape[1]
    own = chunk.column("x")
    return np.hstack([own, z]), own.shape[1]


def narrow_labels(element: tuple[str, Chunk], spec: LearnerSpec) -> tuple[str, Chunk]:
    """Keep the columns that name rows, and the labels in the form of the task."""
    key, chunk = element
    batch = chunk.batch
    name = "index" if chunk.has("index") else "time"
    columns = {column: batch.column(column) for column in (name, "source", "row")}
    columns["label"] = label_column(spec, batch.column("label"))
    return key, Chunk(pa.RecordBatch.from_pydict(columns))


def are_labels(chunk: Chunk) -> bool:
    """Check whether a chunk holds delayed labels, no rows and no features."""
    return not any(map(chunk.has, ("x", "z", "q")))
