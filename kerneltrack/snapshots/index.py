"""The index of a folder of snapshots: which boundaries there are of each model."""

from __future__ import annotations

import json
from collections.abc import Iterable
from types import NoneType
from typing import Any

from kerneltrack import codec
from kerneltrack.errors import DataError
from kerneltrack.limits import MOST_GIVEN, TIME_LIMIT
from kerneltrack.paths import exists, join
from kerneltrack.snapshots.files import ENDING, files_in, is_part, opened, read_whole, snapshot_name
from kerneltrack.snapshots.header import read_about

INDEX = "index.json"
INDEX_VERSION = 2
"""Of an index that lists single files."""
PACKED_INDEX_VERSION = 3
"""Of an index that lists packed files; see `packed`."""
MOST_SLOTS = 1 << 16
REFERENCE = "reference"
"""Settings of the models' references; left out where they have none."""
LISTED = "listed"
"""Whether an index was made of the files themselves."""
MOST_INDEX = 256 << 20
"""Most bytes of an index: a million boundaries of a tracker and a learner take 230 MB."""
MOST_HEADER = 100_000_000
"""Most bytes of a snapshot's header, the safetensors format's own limit."""
_SHOWN = 60

Lines = dict[str, dict[int, dict[str, Any]]]
"""Lines of an index by model and rows."""


def read_index(folder: str) -> dict[str, Any]:
    """Return the index of a folder: that of its file, or, without one, made of the snapshots.

    Live jobs write none: several workers and jobs may write into one folder. Each entry names
    the files that a job would have written for it, so none lies outside of the folder.

    Raises:
        DataError: if there is neither, the index is one of another version, or no index at all.
    """
    path = join(folder, INDEX)
    if not _is_there(path):
        listed = _list(folder)
        if listed is not None:
            return listed
    try:
        index = json.loads(read_whole(path, MOST_INDEX))
        version = index["version"]
    except (ValueError, KeyError, TypeError, RecursionError, MemoryError) as error:
        raise DataError(path, "not an index of snapshots") from error
    if type(version) is not int or version not in (INDEX_VERSION, PACKED_INDEX_VERSION):
        reads = f"{INDEX_VERSION} and {PACKED_INDEX_VERSION}"
        raise DataError(path, f"index version {version!r}: this code reads {reads}")
    packed = version == PACKED_INDEX_VERSION
    trouble = _trouble_of_specs(index)
    if trouble is None:
        trouble = _trouble_of_files(index) if packed else _trouble_of_models(index)
    if trouble is not None:
        raise DataError(path, f"not an index of snapshots: {trouble}")
    return {**index, LISTED: False}


def _is_there(path: str) -> bool:
    try:
        there: bool = exists(path)
    except ValueError as error:  # a file system that Beam does not know
        raise DataError(path, f"cannot be read: {error}") from error
    return there


def is_packed(index: dict[str, Any]) -> bool:
    """Check whether an index lists packed files."""
    return bool(index["version"] == PACKED_INDEX_VERSION)


def count_models(folder: str) -> int:
    """Return how many models a folder's index knows.

    Raises:
        DataError: as `read_index`.
    """
    index = read_index(folder)
    if is_packed(index):
        return sum(file["models"] for file in index["files"])
    return len(index["models"])


def names_of_slots(index: dict[str, Any]) -> list[str | None]:
    """Return the file of each slot by an index of packed files, None where no model is."""
    names: list[str | None] = [None] * index["slots"]
    for file in index["files"]:
        for slot in file["slots"]:
            names[slot] = file["name"]
    return names


def _trouble_of_files(index: dict[str, Any]) -> str | None:
    """Return what keeps an index of packed files from being one, None if nothing does."""
    slots, files = index.get("slots"), index.get("files")
    if type(slots) is not int or not 1 <= slots <= MOST_SLOTS:
        return f"slots = {str(slots)[:_SHOWN]}: a number from 1 to {MOST_SLOTS}"
    if not isinstance(files, list):
        return "no files"
    taken: set[int] = set()
    names: set[str] = set()
    for number, file in enumerate(files):
        trouble = _trouble_of_file(file, slots)
        if trouble is not None:
            return f"file {number}: {trouble}"
        if taken & {*file["slots"]} or file["name"] in names:
            return f"file {number}: its name or one of its slots is another's too"
        taken |= {*file["slots"]}
        names.add(file["name"])
    return None


def _trouble_of_file(file: Any, slots: int) -> str | None:
    """Return what keeps a packed file's entry from being one, None if nothing does."""
    if not isinstance(file, dict) or not is_part(file.get("name")):
        return "another name than a job gives"
    own = file.get("slots")
    if not isinstance(own, list) or not all(
        type(slot) is int and 0 <= slot < slots for slot in own
    ):
        return f"slots that are not numbers from 0 to {slots - 1}"
    if len({*own}) != len(own):
        return "a slot twice"
    for field in ("models", "states"):
        value = file.get(field)
        if type(value) is not int or not 0 <= value <= MOST_GIVEN:
            return f"no number of {field}"
    return None


def _trouble_of_specs(index: dict[str, Any]) -> str | None:
    """Return what keeps an index's settings from being some, None if nothing does."""
    for kind, types in ((codec.TRACKER, (dict,)), (codec.LEARNER, (dict, NoneType))):
        if kind not in index or not isinstance(index[kind], types):
            return f"no {kind}'s settings"
    if not isinstance(index.get(REFERENCE, {}), dict):
        return "no reference's settings"
    return None


def _trouble_of_models(index: dict[str, Any]) -> str | None:
    """Return what keeps an index of single files from being one, None if nothing does."""
    models = index.get("models")
    if not isinstance(models, dict):
        return "no models"
    for model_id, entries in models.items():
        if not isinstance(entries, list):
            return f"model {model_id[:_SHOWN]!r} has no list of entries"
        for number, entry in enumerate(entries):
            trouble = _entry_trouble(model_id, entry)
            if trouble is None and number and entry["rows"] <= entries[number - 1]["rows"]:
                trouble = "its rows are no more than those before"
            if trouble is not None:
                return f"entry {number} of model {model_id[:_SHOWN]!r}: {trouble}"
    return None


def _entry_trouble(model_id: Any, entry: Any) -> str | None:
    """Return what keeps an entry from being one that a job would write, None if nothing does."""
    if not (isinstance(entry, dict) and isinstance(model_id, str) and _is_text(model_id)):
        return "not an entry, or not a model's id"
    rows, time = entry.get("rows"), entry.get("time")
    if type(rows) is not int or not 0 <= rows <= MOST_GIVEN:
        return "no number of rows"
    if time is not None and (type(time) is not int or not -TIME_LIMIT <= time <= TIME_LIMIT):
        return "no time"
    if codec.TRACKER not in entry and codec.LEARNER not in entry:
        return "no state"
    for kind in (codec.TRACKER, codec.LEARNER):
        names = {snapshot_name(model_id, at, kind) for at in (None, rows)}
        if kind in entry and not (isinstance(entry[kind], str) and entry[kind] in names):
            return f"another file than the {kind}'s of this model"
    return None


def _is_text(value: str) -> bool:
    """Check whether a text can be written: JSON may hold halves of characters."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _list(folder: str) -> dict[str, Any] | None:
    """Make an index of the snapshots themselves; None if there are none.

    Raises:
        DataError: if one is damaged, bears another name than it would have been given, or they
            are of models with different settings.
    """
    specs: dict[str, Any] = {codec.TRACKER: None, codec.LEARNER: None}
    entries, references = [], {}
    for name, size in files_in(folder, ENDING):
        path = join(folder, name)
        header = codec.read_header(_read_beginning(path), path)
        kind, spec, about = codec.kind_of(header), header.get("spec"), read_about(header, path)
        if specs[kind] not in (None, spec):
            raise DataError(path, "made with other settings than others of the folder")
        specs[kind] = spec
        companion = header["about"].get(REFERENCE)
        if isinstance(companion, dict):
            references[REFERENCE] = companion
        entry = {"rows": about.rows, "time": about.time, kind: name}
        trouble = _entry_trouble(about.model_id, entry)
        if trouble is not None:
            raise DataError(path, f"not the snapshot that its name says: {trouble}")
        entries.append((about.model_id, {**entry, f"{kind}_bytes": size}))
    if specs[codec.TRACKER] is None:
        return None
    models = models_of(lines_of(entries))
    return {"version": INDEX_VERSION, **specs, **references, "models": models, LISTED: True}


def _read_beginning(path: str) -> bytes:
    """Return a snapshot's header alone, as bytes."""
    with opened(path) as handle:
        length = handle.read(8)
        # Of what is no snapshot, the length may be anything.
        return length + handle.read(min(int.from_bytes(length, "little"), MOST_HEADER))


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
