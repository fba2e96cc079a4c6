"""A fleet's folder of snapshots: models as a job writes them, with what the fleet keeps beside."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from kerneltrack import codec
from kerneltrack.errors import ConfigError, DataError
from kerneltrack.frames import model as steps
from kerneltrack.frames.kept import COLUMNS, KeptFleet
from kerneltrack.frames.model import DeviceModel, Specs
from kerneltrack.snapshots.files import write_whole
from kerneltrack.snapshots.folder import SnapshotFolder, specs_of, write_singly
from kerneltrack.snapshots.header import PackedState, packed_state


def path_of(folder: Any) -> Path:
    """Return a folder as a path.

    Raises:
        ConfigError: for what is none.
    """
    try:
        return Path(folder)
    except TypeError as error:
        raise ConfigError("folder", folder, "a path") from error


def new_folder(folder: Any) -> Path:
    """Return a folder that is empty or not there.

    Raises:
        ConfigError: for another.
    """
    place = path_of(folder)
    if place.exists() and not (place.is_dir() and not any(place.iterdir())):
        raise ConfigError("folder", str(folder), "a folder that is empty or not there")
    return place


def write(
    place: Path, specs: Specs, models: Mapping[str, DeviceModel], kept: KeptFleet | None
) -> None:
    """Write models, and what is kept beside them, into a folder that is made if need be.

    Raises:
        OSError: if a file cannot be written.
    """
    place.mkdir(parents=True, exist_ok=True)
    write_singly(
        str(place),
        specs_of(specs.tracker, specs.learner, specs.reference),
        states_of(specs, models),
    )
    if kept is not None:
        write_whole(str(place / COLUMNS), kept.encode())


def states_of(specs: Specs, models: Mapping[str, DeviceModel]) -> Iterator[PackedState]:
    """Yield the states of models, in the order of their ids, as they are written."""
    for key in sorted(models):
        for data in steps.encode(specs, key, models[key]):
            yield packed_state(data, key)


def read_models(
    found: SnapshotFolder, specs: Specs, asked: Collection[str] | None
) -> Iterator[tuple[str, DeviceModel]]:
    """Yield the models of a folder that are asked for; None: all.

    Raises:
        ConfigError: for one that is not there.
        DataError: for one that is damaged.
    """
    if asked is not None and (isinstance(asked, str) or not isinstance(asked, Collection)):
        raise ConfigError("models", asked, "a list of ids")
    for key in found.models if asked is None else asked:
        if key not in found.models:
            raise ConfigError("model", key, f"one that has a snapshot in {found.folder}")
        has_learner = found.state(key, codec.LEARNER)
        learner = _state_of(found, key, codec.LEARNER) if has_learner else None
        yield key, steps.decode(specs, _state_of(found, key, codec.TRACKER), learner)


def _state_of(found: SnapshotFolder, key: str, kind: str) -> tuple[bytes, str]:
    data, place = found.state(key, kind), found.place(key, kind)
    if data is None or place is None:
        raise DataError(found.folder, f"no {kind} of model {key!r}")
    return data, place
