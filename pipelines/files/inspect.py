"""`kerneltrack inspect`: what a snapshot holds, in words or as JSON."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from kerneltrack import codec
from kerneltrack.errors import ConfigError, printable
from kerneltrack.limits import TIME_LIMIT
from kerneltrack.monitor.reference.state import WINDOW_LENGTH
from kerneltrack.registry import get_learner, get_tracker
from kerneltrack.snapshots.files import read_whole, write_whole
from pipelines.cli.command_line import path_name, refuse
from pipelines.files import certificate


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags to a parser."""
    parser.add_argument(
        "file",
        metavar="FILE",
        help="A .safetensors file of a run or, with --model, its folder of snapshots.",
    )
    parser.add_argument(
        "--model", metavar="ID", help="Show the snapshot of this device, from a folder."
    )
    parser.add_argument(
        "--kind",
        choices=(codec.TRACKER, codec.LEARNER),
        help=f"With --model: show the tracker or the learner. [default {codec.TRACKER}]",
    )
    parser.add_argument(
        "--rows",
        type=int,
        metavar="N",
        help="With --model: show the snapshot after this many rows. [default: the newest]",
    )
    parser.add_argument(
        "--output",
        type=path_name,
        metavar="FILE",
        help="With --model: write the snapshot to this .safetensors file instead.",
    )
    parser.add_argument("--json", action="store_true", help="Print JSON.")
    certificate.add_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Print what a snapshot holds, or write it; the exit code is 0.

    Raises:
        ConfigError: for a model or boundary that is not there, or flags that say nothing.
        DataError: if it cannot be read or is no snapshot.
    """
    if args.certificate is None:
        refuse(args, certificate.FLAGS, "given with --certificate only")
    if args.model is None:
        names = ("kind", "rows", "output", "certificate")
        refuse(args, names, "given with --model only")
        if os.path.isdir(args.file):
            raise ConfigError("FILE", args.file, "a file, or with --model ID a folder of snapshots")
        text = describe(args.file, as_json=args.json)
    elif args.certificate is not None:
        text = _certificate(args)
    else:
        place, data = take_out(args.file, args.model, args.kind or codec.TRACKER, args.rows)
        if args.output is None:
            text = describe_bytes(data, place, as_json=args.json)
        else:
            write_whole(args.output, data)
            text = f"{printable(place)}: written to {printable(args.output)}"
    sys.stdout.write(text + "\n")
    return 0


def _certificate(args: argparse.Namespace) -> str:
    """Return the certificate of a device, as text."""
    refuse(args, ("kind", "rows", "output"), "given without --certificate")
    place, data = take_out(args.file, args.model, codec.TRACKER, None)
    found, again = certificate.certificate(args, codec.decode(data, place), place)
    return certificate.described(found, again, place, args.json)


def take_out(folder: str, model_id: str, kind: str, rows: int | None) -> tuple[str, bytes]:
    """Return where a model's snapshot lies in a folder, and its bytes.

    Args:
        folder: Snapshots, packed or a file each.
        model_id: The model.
        kind: "tracker" or "learner".
        rows: After how many rows; None: the newest.

    Raises:
        ConfigError: if there is none.
        DataError: if it cannot be read.
    """
    # It imports Beam, which takes longer than the rest of the command.
    from kerneltrack.snapshots.folder import SnapshotFolder  # noqa: PLC0415

    snapshots = SnapshotFolder(folder)
    found = [entry for entry in snapshots.models.get(model_id, []) if kind in entry]
    if not found:
        raise ConfigError("--model", model_id, f"one with a {kind}'s snapshot in {folder}")
    chosen = found[-1:] if rows is None else [entry for entry in found if entry["rows"] == rows]
    if not chosen:
        known = ", ".join(str(entry["rows"]) for entry in found[-_MOST_NAMED:])
        raise ConfigError("--rows", rows, f"rows of one of the {kind}'s snapshots: {known}")
    entry = chosen[0]
    return f"{folder}, {kind} of model {model_id!r} after {entry['rows']:,} rows", snapshots.read(
        entry, kind
    )


_MOST_NAMED = 10


def describe(path: str, as_json: bool = False) -> str:
    """Return what a snapshot of a tracker or of a learner holds.

    Args:
        path: A file that a job wrote.
        as_json: As JSON instead of text.

    Raises:
        DataError: if it cannot be read or is no snapshot.
    """
    return describe_bytes(read_whole(path), path, as_json)


def describe_bytes(data: bytes, path: str, as_json: bool = False) -> str:
    """Return what a snapshot's bytes hold; `path` says where they came from."""
    kind = codec.kind_of(codec.read_header(data, path))
    facts = _of_learner(data, path) if kind == codec.LEARNER else _of_tracker(data, path)
    facts = {"kind": kind, "bytes": len(data), **facts}
    return json.dumps(facts, indent=1, ensure_ascii=True) if as_json else _text(path, facts)


def _of_tracker(data: bytes, path: str) -> dict[str, Any]:
    snapshot = codec.decode(data, path)
    tracker = get_tracker(snapshot.spec.tracker)
    return {
        **_shared(snapshot),
        "totals": {**tracker.counters(snapshot.state), **_window(snapshot.extras)},
        **_arrays(tracker.arrays(snapshot.state), snapshot.extras),
    }


def _window(extras: codec.Arrays) -> dict[str, int]:
    """Return how many rows the windows of a reference with such a view have; 0: not known."""
    if "reference.shapes" not in extras:
        return {}
    return {"window_rows": int(extras["reference.counts"][WINDOW_LENGTH])}


def _of_learner(data: bytes, path: str) -> dict[str, Any]:
    snapshot = codec.decode_learner(data, path)
    learner = get_learner(snapshot.spec.learner)
    classes = {"classes": list(snapshot.state.classes)} if snapshot.spec.classifies else {}
    return {
        **_shared(snapshot),
        "totals": learner.counters(snapshot.state),
        **classes,
        **_arrays(learner.arrays(snapshot.state), snapshot.extras),
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


def _shown(name: str, value: Any) -> str:
    """Write a fact; a time, ns since 1970, with its date in UTC.

    Example:
        >>> _shown("time", 1780295399500000000)
        '1780295399500000000 (2026-06-01T06:29:59.5Z)'
    """
    if name != "time" or type(value) is not int or abs(value) > TIME_LIMIT:
        return str(value)
    date = str(np.datetime64(value, "ns")).rstrip("0").rstrip(".")
    return f"{value} ({date}Z)"


def _text(path: str, facts: dict[str, Any]) -> str:
    name = facts["spec"][facts["kind"]]
    lines = [
        f"{path}: format version {facts['version']}, {facts['bytes']:,} bytes, "
        f"{facts['kind']} {name}"
    ]
    for section in ("about", "spec", "totals"):
        lines.append(f"{section}:")
        lines += [f"  {name}: {_shown(name, value)}" for name, value in facts[section].items()]
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
