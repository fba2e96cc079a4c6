"""`kerneltrack inspect`: what a snapshot holds, in words or as JSON."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from kerneltrack import codec
from kerneltrack.errors import printable
from kerneltrack.registry import get_learner, get_tracker
from transforms.snapshots.files import read_whole


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags to a parser."""
    parser.add_argument("file", metavar="FILE", help="a .safetensors file of a run")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Print what a snapshot holds; the exit code is 0.

    Raises:
        DataError: if it cannot be read or is no snapshot.
    """
    sys.stdout.write(describe(args.file, as_json=args.json) + "\n")
    return 0


def describe(path: str, as_json: bool = False) -> str:
    """Return what a snapshot of a tracker or of a learner holds.

    Args:
        path: A file that a job wrote.
        as_json: As JSON instead of text.

    Raises:
        DataError: if it cannot be read or is no snapshot.
    """
    data = read_whole(path)
    kind = codec.kind_of(codec.read_header(data, path))
    facts = _of_learner(data, path) if kind == codec.LEARNER else _of_tracker(data, path)
    facts = {"kind": kind, "bytes": len(data), **facts}
    return json.dumps(facts, indent=1, ensure_ascii=True) if as_json else _text(path, facts)


def _of_tracker(data: bytes, path: str) -> dict[str, Any]:
    snapshot = codec.decode(data, path)
    tracker = get_tracker(snapshot.spec.tracker)
    return {
        **_shared(snapshot),
        "totals": tracker.counters(snapshot.state),
        **_arrays(tracker.arrays(snapshot.state), snapshot.beside),
    }


def _of_learner(data: bytes, path: str) -> dict[str, Any]:
    snapshot = codec.decode_learner(data, path)
    learner = get_learner(snapshot.spec.learner)
    classes = {"classes": list(snapshot.state.classes)} if snapshot.spec.classifies else {}
    return {
        **_shared(snapshot),
        "totals": learner.counters(snapshot.state),
        **classes,
        **_arrays(learner.arrays(snapshot.state), snapshot.beside),
    }


def _shared(snapshot: codec.Snapshot | codec.LearnerSnapshot) -> dict[str, Any]:
    header = snapshot.header
    return {"version": header["version"], "about": header["about"], "spec": snapshot.spec.to_dict()}


def _arrays(own: codec.Arrays, beside: codec.Arrays) -> dict[str, Any]:
    """Return the shapes of a state's arrays, and of those that are kept beside it."""
    parts = {"arrays": own, "beside": dict(sorted(beside.items()))}
    return {
        part: {
            name: {
                "shape": list(array.shape),
                "type": str(array.dtype),
                "largest": _largest(array),
            }
            for name, array in arrays.items()
        }
        for part, arrays in parts.items()
    }


def _largest(array: npt.NDArray[Any]) -> float:
    """Return the largest finite |value|, 0 if there is none."""
    reals = np.abs(array.astype(np.float64))
    return float(reals.max(where=np.isfinite(reals), initial=0.0))


def _text(path: str, facts: dict[str, Any]) -> str:
    name = facts["spec"][facts["kind"]]
    lines = [
        f"{path}: format version {facts['version']}, {facts['bytes']:,} bytes, "
        f"{facts['kind']} {name}"
    ]
    for section in ("about", "spec", "totals"):
        lines.append(f"{section}:")
        lines += [f"  {name}: {value}" for name, value in facts[section].items()]
    if "classes" in facts:
        lines.append("classes:")
        lines += [f"  {code}: {name}" for code, name in enumerate(facts["classes"])]
    for section in ("arrays", "beside"):
        if facts[section]:
            lines.append(f"{section}:")
        for name, about in facts[section].items():
            shape = " x ".join(map(str, about["shape"]))
            largest = f"largest |value| {about['largest']:.6g}"
            lines.append(f"  {name}: {shape} {about['type']}, {largest}")
    # Names of models and classes come from data.
    return "\n".join(printable(line) for line in lines)
