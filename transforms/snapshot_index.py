"""The index of a folder of snapshots: which boundaries there are of each model."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from apache_beam.io.filesystem import CompressionTypes, FileMetadata
from apache_beam.io.filesystems import FileSystems

from kerneltrack import codec
from kerneltrack.errors import DataError
from transforms.snapshot_files import ENDING, read_whole, snapshot_name

INDEX = "index.json"
INDEX_VERSION = 2
LISTED = "listed"
"""Whether an index was made of the files themselves."""

Lines = dict[str, dict[int, dict[str, Any]]]
"""Lines of an index by model and rows."""


def read_index(folder: str) -> dict[str, Any]:
    """Return the index of a folder: that of its file, or, without one, made of the snapshots.

    Live jobs write none: several workers and jobs may write into one folder.

    Raises:
        DataError: if there is neither, or the index is one of another version.
    """
    path = FileSystems.join(folder, INDEX)
    if not FileSystems.exists(path):
        listed = _list(folder)
        if listed is not None:
            return listed
    try:
        index: dict[str, Any] = json.loads(read_whole(path))
        version = index["version"]
        if version != INDEX_VERSION:
            raise DataError(path, f"index version {version!r}: this code reads {INDEX_VERSION}")
        good = all(_is_entry(entry) for entries in index["models"].values() for entry in entries)
    except (AttributeError, ValueError, KeyError, TypeError) as error:
        raise DataError(path, "not an index of snapshots") from error
    if not good:
        raise DataError(path, "not an index of snapshots: an entry without rows or states")
    return {**index, LISTED: False}


def _is_entry(entry: dict[str, Any]) -> bool:
    names = [entry[kind] for kind in (codec.TRACKER, codec.LEARNER) if kind in entry]
    numbers = type(entry["rows"]) is int and type(entry["time"]) in (int, type(None))
    return numbers and all(isinstance(name, str) for name in names)


def _list(folder: str) -> dict[str, Any] | None:
    """Make an index of the snapshots themselves; None if there are none.

    Raises:
        DataError: if one is damaged, or they are of models with different settings.
    """
    specs: dict[str, Any] = {codec.TRACKER: None, codec.LEARNER: None}
    entries = []
    (found,) = FileSystems.match([FileSystems.join(folder, "*" + ENDING)])
    for file in found.metadata_list:
        header = codec.read_header(_read_beginning(file), file.path)
        kind, about = codec.kind_of(header), header["about"]
        if specs[kind] not in (None, header["spec"]):
            raise DataError(file.path, "made with other settings than others of the folder")
        specs[kind] = header["spec"]
        name = FileSystems.split(file.path)[1]
        entry = {"rows": about["rows"], "time": about["time"], kind: name}
        entries.append((about["model_id"], {**entry, f"{kind}_bytes": file.size_in_bytes}))
    if specs[codec.TRACKER] is None:
        return None
    models = models_of(lines_of(entries))
    return {"version": INDEX_VERSION, **specs, "models": models, LISTED: True}


def _read_beginning(file: FileMetadata) -> bytes:
    """Return a snapshot's header alone, as bytes."""
    with FileSystems.open(file.path, compression_type=CompressionTypes.UNCOMPRESSED) as handle:
        length: bytes = handle.read(8)
        # Of what is no snapshot, the length may be anything.
        return length + bytes(
            handle.read(min(int.from_bytes(length, "little"), file.size_in_bytes))
        )


def lines_of(entries: Iterable[tuple[str, dict[str, Any]]]) -> Lines:
    """Put the entries of single files together."""
    found: Lines = {}
    for model_id, entry in sorted(entries, key=_final_last):
        found.setdefault(model_id, {}).setdefault(entry["rows"], {}).update(entry)
    return found


def models_of(found: Lines) -> dict[str, list[dict[str, Any]]]:
    """Return the boundaries of each model, in order."""
    # A learner that began at a boundary may write it again; a tracker's state is part of each.
    return {
        model_id: [_in_order(lines[rows]) for rows in sorted(lines) if codec.TRACKER in lines[rows]]
        for model_id, lines in sorted(found.items())
    }


def _in_order(line: dict[str, Any]) -> dict[str, Any]:
    """Return a line of the index, its fields in one order whichever state was written first."""
    kinds = [name for kind in (codec.TRACKER, codec.LEARNER) for name in (kind, f"{kind}_bytes")]
    return {name: line[name] for name in ("rows", "time", *kinds) if name in line}


def _final_last(element: tuple[str, dict[str, Any]]) -> tuple[str, int, bool, bool]:
    """Sort final states after boundaries of as many rows, whose time may be an earlier one.

    The tracker's come last: rows that were refused count for its time, and not for the learner's.
    """
    model_id, entry = element
    names = {entry.get(kind) for kind in (codec.TRACKER, codec.LEARNER)}
    finals = {snapshot_name(model_id, None, kind) for kind in (codec.TRACKER, codec.LEARNER)}
    return model_id, entry["rows"], bool(names & finals), codec.TRACKER in entry
