"""Which models of a run are unlike the others: found at its end, from its snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from kerneltrack.monitor.neighbours import (
    VIEWS,
    Fingerprint,
    Neighbour,
    chosen,
    compare,
    fingerprint,
)
from kerneltrack.paths import join
from kerneltrack.snapshots.folder import SnapshotFolder
from kerneltrack.snapshots.packed import GROUP_ROWS
from kerneltrack.snapshots.references import references_of
from kerneltrack.trackers.common.spec import SubspaceSpec
from pipelines.report.data.files import write_table
from transforms.outputs import NEIGHBOURS, SNAPSHOTS

FEWEST = 3
"""Models that it takes to compare any."""
_MOST_LISTED = 1_000
_MOST_KEPT = 256 << 20
"""Bytes of fingerprints that are read once and kept; others are read where they are needed."""
SCHEMA = pa.schema(
    [
        ("model_id", pa.string()),
        ("apart", pa.float64()),
        ("view", pa.string()),
        ("unlike", pa.bool_()),
        *((view, pa.float64()) for view in VIEWS),
        ("nearest", pa.list_(pa.string())),
        ("shares", pa.list_(pa.float64())),
        ("x", pa.float64()),
        ("y", pa.float64()),
    ]
)


def find_neighbours(
    output: str, spec: SubspaceSpec, most: int, models: int, threads: int
) -> dict[str, dict[str, Any]]:
    """Compare the models of a run, and write `output/neighbours/*.parquet`.

    Args:
        output: The run's folder, with its snapshots.
        spec: The tracker's spec.
        most: Models that are compared, at most.
        models: Models of the run.
        threads: How many compare.

    Returns:
        What the record says of it; nothing where there was nothing to compare.

    Raises:
        DataError: if a snapshot cannot be read.
    """
    if not most or models < FEWEST:
        return {}
    folder = SnapshotFolder(join(output, SNAPSHOTS))
    names = chosen(folder.models, most)
    kept = _read_in_order(folder, names)

    def read(model_id: str) -> Fingerprint | None:
        return kept[model_id] if model_id in kept else _read(folder, [model_id])[model_id]

    found = compare(spec, names, read, most, threads)
    if found.views:
        write_table(output, NEIGHBOURS, [_line(model) for model in found.models], SCHEMA)
    unlike = [model for model in found.models if model.unlike]
    return {
        NEIGHBOURS: {
            "compared": len(found.models) if found.views else 0,
            "of": len(folder.models),
            "landmarks": found.landmarks if found.views else 0,
            "views": list(found.views),
            "unlike": len(unlike),
            "models": [model.model for model in unlike[:_MOST_LISTED]],
        }
    }


def _read_in_order(folder: SnapshotFolder, names: Sequence[str]) -> dict[str, Fingerprint | None]:
    """Return fingerprints, read in the order in which they lie; no more than fit `_MOST_KEPT`."""
    kept: dict[str, Fingerprint | None] = {}
    size, order = 0, folder.in_order(names)
    for start in range(0, len(order), GROUP_ROWS):
        for name, found in _read(folder, order[start : start + GROUP_ROWS]).items():
            size += sum(part.nbytes for part in found or () if isinstance(part, np.ndarray))
            if size > _MOST_KEPT:
                return kept
            kept[name] = found
    return kept


def _read(folder: SnapshotFolder, model_ids: Sequence[str]) -> dict[str, Fingerprint | None]:
    found = {name: folder.tracker(name, own=True) for name in model_ids}
    known = {name: there for name, there in found.items() if there is not None}
    # A reference that was given to many models is not the model's own.
    own = {
        name: there
        for name, there in known.items()
        if not there[1].header["about"].get("reference_from")
    }
    read = references_of([each[1] for each in own.values()], [each[0] for each in own.values()])
    references = dict(zip(own, read, strict=True))
    prints = {
        name: fingerprint(snapshot.spec, snapshot.state, references.get(name))
        for name, (_, snapshot) in known.items()
    }
    return {name: prints.get(name) for name in model_ids}


def _line(model: Neighbour) -> dict[str, Any]:
    return {
        "model_id": model.model,
        "apart": None if model.view is None else model.apart,
        "view": model.view,
        "unlike": model.unlike,
        **{view: model.scores.get(view) for view in VIEWS},
        "nearest": list(model.nearest),
        "shares": None if model.shares is None else model.shares.tolist(),
        "x": model.place[0],
        "y": model.place[1],
    }
