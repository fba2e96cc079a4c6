"""A folder of snapshots: what a job leaves of its models, for one that goes on from there.

`index.json` lists, per model, the boundaries at which states were written: after how many rows,
up to which time, and the file of the tracker's and of the learner's state. Of a run with many
models the states are packed, and it lists the files that they are in (see `packed`).
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kerneltrack import codec
from kerneltrack.errors import ConfigError, DataError, KerneltrackError
from kerneltrack.learners import LearnerSpec
from kerneltrack.monitor.reference import ReferenceSpec
from kerneltrack.paths import exists, join, whole
from kerneltrack.registry import parse_learner_spec, parse_spec
from kerneltrack.snapshots.files import read_whole, snapshot_name, write_whole
from kerneltrack.snapshots.header import PackedState, read_about
from kerneltrack.snapshots.index import (
    INDEX,
    INDEX_VERSION,
    LISTED,
    REFERENCE,
    is_packed,
    lines_of,
    models_of,
    names_of_slots,
    read_index,
)
from kerneltrack.specs import spec_from_dict
from kerneltrack.trackers.common.spec import SubspaceSpec

if TYPE_CHECKING:
    from kerneltrack.snapshots.packed import PackedFiles


class SnapshotFolder:
    """Snapshots to begin from, one boundary per model: the newest that all wanted states have.

    A model without a boundary that both the tracker and the learner have begins at the tracker's
    newest, with a new learner. Picklable; the index is read where it is first needed.

    Args:
        folder: The `snapshots` folder of a run.
        learner: Whether a learner's state is wanted too.

    Raises:
        DataError: if the folder has no index or one of another version.
    """

    def __init__(self, folder: str, learner: bool = False) -> None:
        self.folder = folder
        self._wants_learner = learner
        index = read_index(folder)
        self._index: dict[str, Any] | None = index
        self._packed: PackedModels | None = None
        if is_packed(index):
            # Arrow is not needed for single files.
            from kerneltrack.snapshots.packed import PackedFiles  # noqa: PLC0415

            files = PackedFiles(folder, index["slots"], names_of_slots(index))
            self._packed = PackedModels(files, sum(file["models"] for file in index["files"]))
        path = join(folder, INDEX)
        try:
            self.spec: SubspaceSpec = parse_spec(index["tracker"])
            self.learner_spec: LearnerSpec | None = (
                parse_learner_spec(index["learner"]) if index["learner"] else None
            )
            self.reference_spec: ReferenceSpec | None = (
                spec_from_dict(ReferenceSpec, index[REFERENCE]) if REFERENCE in index else None
            )
        except (KerneltrackError, KeyError, TypeError, ValueError) as error:
            raise DataError(path, f"not an index of snapshots: {error}") from error
        if learner and self.learner_spec is None:
            self._wants_learner = False

    def __getstate__(self) -> dict[str, Any]:
        """Leave the index out: workers read it themselves, it may be large.

        One that was made of the files goes along: other jobs may write more of them. So does one
        of packed files: it is small. They look for the folder from where they are, which need not
        be here.
        """
        kept = self._packed is not None or (self._index is not None and self._index[LISTED])
        there = {**self.__dict__, "folder": whole(self.folder)}
        return there if kept else {**there, "_index": None}

    @property
    def models(self) -> Mapping[str, Any]:
        """Boundaries by model id."""
        if self._packed is not None:
            return self._packed
        models: dict[str, Any] = self._read()["models"]
        return models

    def _read(self) -> dict[str, Any]:
        if self._index is None:
            self._index = read_index(self.folder)
        return self._index

    def digest(self) -> str:
        """Return a hash of the settings and boundaries of all models."""
        text = json.dumps(self._read(), sort_keys=True)
        hashed = hashlib.sha256(text.encode())
        if self._packed is not None:
            for boundary in self._packed.boundaries():
                hashed.update(json.dumps(boundary).encode())
        return hashed.hexdigest()[:32]

    def with_learner(self) -> SnapshotFolder:
        """Return the folder for a job that has a learner: it begins where both were written."""
        return SnapshotFolder(self.folder, learner=True)

    def check(self, spec: SubspaceSpec | LearnerSpec) -> None:
        """Refuse to go on from snapshots that were made with other settings.

        Raises:
            ConfigError: naming the first field that differs and its value in the snapshots.
        """
        kept = self.learner_spec if isinstance(spec, LearnerSpec) else self.spec
        before, now = {} if kept is None else kept.to_dict(), spec.to_dict()
        for name in {**before, **now} if kept is not None else ():
            if before.get(name) != now.get(name):
                allowed = f"{before.get(name)!r}, as in the snapshots of {self.folder}"
                raise ConfigError(name, now.get(name), allowed)

    def check_width(self, width: int) -> None:
        """Refuse rows of other channels than the models have, as far as their number tells.

        Raises:
            ConfigError: naming both numbers.
        """
        for model_id in self.models:
            for found in self.trackers([model_id]):
                # One that cannot be read costs its model alone.
                if found is None or isinstance(found[1], DataError):
                    continue
                known = len(found[1].state.shift)
                if known != width:
                    allowed = f"{known}, as in the snapshots of {self.folder}"
                    raise ConfigError("number of features", width, allowed)
                return

    def in_order(self, model_ids: Iterable[str]) -> list[str]:
        """Return models in the order in which it costs least to read their states."""
        return list(model_ids) if self._packed is None else self._packed.files.in_order(model_ids)

    def boundary(self, model_id: str) -> dict[str, Any] | None:
        """Return the index's entry that this model begins from, None for a new model."""
        entries = self.models.get(model_id)
        if not entries:
            return None
        if self._wants_learner:
            both = [entry for entry in entries if "learner" in entry and "tracker" in entry]
            if both:
                return dict(both[-1])
        return next((dict(entry) for entry in reversed(entries) if "tracker" in entry), None)

    def rows(self, model_id: str) -> int:
        """Return how many rows the model has learned from, 0 for a new model."""
        entry = self.boundary(model_id)
        return int(entry["rows"]) if entry else 0

    def place(self, model_id: str, kind: str) -> str | None:
        """Return where the model's "tracker" or "learner" lies, None if there is none.

        The path of its file; of a packed one with what tells it apart there.
        """
        entry = self._entry(model_id, kind)
        return None if entry is None else self._place_of(entry, kind)

    def _place_of(self, entry: Mapping[str, Any], kind: str) -> str:
        if self._packed is not None:
            return self._packed.files.name_of(entry[kind])
        path: str = join(self.folder, entry[kind])
        return path

    def _entry(self, model_id: str, kind: str) -> dict[str, Any] | None:
        if kind == codec.LEARNER and not self._wants_learner:
            return None
        entry = self.boundary(model_id)
        return entry if entry is not None and kind in entry else None

    def state(self, model_id: str, kind: str) -> bytes | None:
        """Return the bytes of the model's "tracker" or "learner", None if there are none.

        Raises:
            DataError: if the file cannot be read.
        """
        entry = self._entry(model_id, kind)
        return None if entry is None else self.read(entry, kind)

    def found(self, model_id: str, kind: str) -> tuple[str, bytes] | None:
        """Return place and bytes of the model's "tracker" or "learner", None if there is none.

        Raises:
            DataError: if the file cannot be read.
        """
        entry = self._entry(model_id, kind)
        return None if entry is None else (self._place_of(entry, kind), self.read(entry, kind))

    def tracker(self, model_id: str, own: bool = False) -> tuple[str, codec.Snapshot] | None:
        """Return place and decoded state of the model's tracker, None if there is none.

        Quick where models are asked for `in_order`: packed states are decoded many at a time. Its
        arrays are to be read only.

        Args:
            model_id: The model.
            own: Whether the job itself wrote it; see `codec.decode`.

        Raises:
            DataError: if the file cannot be read, or as `codec.decode`.
        """
        entry = self._entry(model_id, codec.TRACKER)
        if entry is None:
            return None
        path = self._place_of(entry, codec.TRACKER)
        if self._packed is not None:
            return path, self._packed.files.snapshot(entry[codec.TRACKER], own)
        return path, codec.decode(self.read(entry, codec.TRACKER), path, own)

    def trackers(
        self, model_ids: Iterable[str]
    ) -> list[tuple[str, codec.Snapshot | DataError] | None]:
        """Return `tracker` of models, and of one that cannot be read why."""
        found: list[tuple[str, codec.Snapshot | DataError] | None] = []
        for model_id in model_ids:
            try:
                found.append(self.tracker(model_id))
            except DataError as error:
                found.append((error.path, error))
        return found

    def read(self, entry: Mapping[str, Any], kind: str) -> bytes:
        """Return the bytes of the "tracker" or "learner" of one of the boundaries in `models`.

        Raises:
            DataError: if the file cannot be read.
        """
        if self._packed is not None:
            return self._packed.files.state(entry[kind]).data
        return read_whole(join(self.folder, entry[kind]))

    def checked(self, model_id: str, kind: str) -> bytes | None:
        """Return the bytes of `state`, decoded once to see that they are what the index says.

        Raises:
            DataError: if the file cannot be read, is no state of this kind, or one of another
                model, other settings or another boundary.
        """
        there = self.found(model_id, kind)
        if there is None:
            return None
        path, data = there
        learns = kind == codec.LEARNER
        found = codec.decode_learner(data, path) if learns else codec.decode(data, path)
        about, spec = read_about(found.header, path), self.learner_spec if learns else self.spec
        if (about.model_id, about.rows) != (model_id, self.rows(model_id)):
            raise DataError(path, f"a {kind} of another model or boundary than the index says")
        if found.spec != spec:
            raise DataError(path, f"a {kind} of other settings than the index says")
        return data


class PackedModels(Mapping[str, Any]):
    """Boundaries by model id, of packed files: read where they are asked for.

    Args:
        files: The files.
        count: Models in them.
    """

    def __init__(self, files: PackedFiles, count: int) -> None:
        self.files = files
        self._count = count

    def __getitem__(self, model_id: str) -> list[dict[str, Any]]:
        """Return the boundaries of a model."""
        entries: list[tuple[bool, dict[str, Any]]] = []
        for place in self.files.places(model_id):
            kind, rows, time, final = self.files.about(place)
            entries.append((final, {"rows": rows, "time": time, kind: place}))
        # As in an index of single files: a final state in place of a boundary's of as many rows,
        # and the tracker's time before the learner's.
        entries.sort(key=lambda found: (found[1]["rows"], found[0], codec.TRACKER in found[1]))
        lines: dict[int, dict[str, Any]] = {}
        for _, entry in entries:
            lines.setdefault(entry["rows"], {}).update(entry)
        found = [lines[rows] for rows in sorted(lines) if codec.TRACKER in lines[rows]]
        if not found:
            raise KeyError(model_id)
        return found

    def __iter__(self) -> Iterator[str]:
        """Return the models, file by file."""
        for file in self.files.all():
            last = None
            for name in file.names():
                if name != last:
                    yield name
                last = name

    def __len__(self) -> int:
        """Return how many models there are."""
        return self._count

    def boundaries(self) -> Iterator[tuple[Any, ...]]:
        """Return model, kind, rows, time and `final` of all states."""
        for file in self.files.all():
            yield from file.boundaries()


def snapshots_in(folder: str) -> str:
    """Return where the snapshots of a folder are: in it, or in that of a job's output.

    Example:
        >>> snapshots_in("no such folder")
        'no such folder'
    """
    inner = join(folder, SNAPSHOTS)
    return inner if not exists(join(folder, INDEX)) and exists(inner) else folder


SNAPSHOTS = "snapshots"
"""Name of the folder in a job's output."""


def specs_of(
    spec: SubspaceSpec, learner: LearnerSpec | None, reference: ReferenceSpec | None
) -> dict[str, Any]:
    """Return what an index says of the settings."""
    return {
        codec.TRACKER: spec.to_dict(),
        codec.LEARNER: None if learner is None else learner.to_dict(),
        **({} if reference is None else {REFERENCE: reference.to_dict()}),
    }


def write_singly(folder: str, specs: dict[str, Any], states: Iterable[PackedState]) -> None:
    """Write states as a file each, and an index of them.

    Args:
        folder: Where to.
        specs: From `specs_of`.
        states: Of trackers and learners.

    Raises:
        OSError: if a file cannot be written.
    """
    entries = []
    for state in states:
        name = snapshot_name(state.model_id, None if state.final else state.rows, state.kind)
        write_whole(join(folder, name), state.data)
        entry = {"rows": state.rows, "time": state.time}
        more = {state.kind: name, f"{state.kind}_bytes": len(state.data)}
        entries.append((state.model_id, {**entry, **more}))
    write_index(entries, folder, specs, None)


def write_index(
    entries: list[tuple[str, dict[str, Any]]],
    folder: str,
    specs: dict[str, Any],
    before: SnapshotFolder | None,
) -> None:
    """Write an index of single files, and take over what `before` has of other models.

    Args:
        entries: Model and line of each file.
        folder: Where to.
        specs: From `specs_of`.
        before: Snapshots that the job began from.
    """
    found = lines_of(entries)
    if before is not None:
        _take_over(before, folder, found)
    models = models_of(found)
    text = json.dumps({"version": INDEX_VERSION, **specs, "models": models}, indent=1)
    write_whole(join(folder, INDEX), text.encode("utf-8"))


def _take_over(
    before: SnapshotFolder, folder: str, found: dict[str, dict[int, dict[str, Any]]]
) -> None:
    """Copy the states of models that have not moved since the snapshots that the job began from.

    Of a model all of whose rows were refused the tracker's state is there, and not the learner's.
    """
    for model_id in before.models:
        kept = before.boundary(model_id)
        lines = found.get(model_id, {})
        if kept is None or (lines and max(lines) > kept["rows"]):
            continue
        there = lines.get(kept["rows"], {})
        try:
            states = {
                kind: data
                for kind in (codec.TRACKER, codec.LEARNER)
                if kind not in there and (data := before.checked(model_id, kind)) is not None
            }
        except DataError as error:
            # It costs its model alone, which says why where rows of it came.
            warnings.warn(f"model {model_id!r} is left out: {error}", stacklevel=2)
            continue
        line = found.setdefault(model_id, {}).setdefault(kept["rows"], {})
        for name in ("rows", "time"):
            line.setdefault(name, kept[name])
        for kind, data in states.items():
            name = kept[kind] if isinstance(kept[kind], str) else _name_of(data, model_id)
            write_whole(join(folder, name), data)
            line |= {kind: name, f"{kind}_bytes": len(data)}


def _name_of(data: bytes, model_id: str) -> str:
    """Return the name of the file that a state belongs in."""
    header = codec.read_header(data, f"state of model {model_id!r}")
    about = header["about"]
    return snapshot_name(model_id, None if about["final"] else about["rows"], codec.kind_of(header))
