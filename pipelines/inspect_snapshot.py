"""`kerneltrack inspect`: what a snapshot holds, in words or as JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems

from kerneltrack import codec
from kerneltrack.errors import DataError
from kerneltrack.trackers import get_tracker


def describe(path: str, as_json: bool = False) -> str:
    """Return what a snapshot holds.

    Args:
        path: A file that a job wrote.
        as_json: As JSON instead of text.

    Raises:
        DataError: if it cannot be read or is no snapshot.
    """
    try:
        with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as handle:
            data = handle.read()
    except (OSError, BeamIOError) as error:
        raise DataError(path, "cannot be read: " + " ".join(str(error).split())) from error
    snapshot = codec.decode(data, path)
    tracker = get_tracker(snapshot.spec.tracker)
    arrays = tracker.arrays(snapshot.state)
    facts: dict[str, Any] = {
        "version": snapshot.header["version"],
        "about": snapshot.header["about"],
        "spec": snapshot.spec.to_dict(),
        "totals": tracker.counters(snapshot.state),
        "bytes": len(data),
        "arrays": {
            name: {
                "shape": list(array.shape),
                "type": str(array.dtype),
                "largest": float(np.abs(array).max()) if array.size else 0.0,
            }
            for name, array in arrays.items()
        },
    }
    if as_json:
        return json.dumps(facts, indent=1, ensure_ascii=True)
    lines = [f"{path}: format version {facts['version']}, {facts['bytes']:,} bytes"]
    for section in ("about", "spec", "totals"):
        lines.append(f"{section}:")
        lines += [f"  {name}: {value}" for name, value in facts[section].items()]
    lines.append("arrays:")
    for name, about in facts["arrays"].items():
        shape = " x ".join(map(str, about["shape"]))
        lines.append(f"  {name}: {shape} {about['type']}, largest |value| {about['largest']:.6g}")
    return "\n".join(lines)
