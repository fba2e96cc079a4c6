"""`kerneltrack export`: models for other runtimes, out of a folder of snapshots."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from kerneltrack import codec
from kerneltrack.errors import ConfigError, printable
from kerneltrack.export.frozen import FrozenMap, LinearHead, freeze, freeze_head
from kerneltrack.export.hub import write_hub
from kerneltrack.export.mlflow_folder import write_mlflow
from kerneltrack.frames.fleet import Fleet
from kerneltrack.frames.kept import read_columns
from kerneltrack.paths import is_local, join
from kerneltrack.snapshots.files import escaped, write_whole
from kerneltrack.snapshots.folder import SnapshotFolder, snapshots_in
from kerneltrack.snapshots.header import read_about
from pipelines.cli.command_line import folder_name, path_name

ONNX, MLFLOW, HUB = "onnx", "mlflow", "huggingface"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags to a parser."""
    parser.usage = f"kerneltrack export SNAPSHOTS --to {ONNX}|{MLFLOW}|{HUB} --output DIR [flags]"
    parser.add_argument(
        "snapshots",
        type=path_name,
        metavar="SNAPSHOTS",
        help="Folder of snapshots, or the output of a job or fleet that has one.",
    )
    parser.add_argument(
        "--to",
        required=True,
        choices=(ONNX, MLFLOW, HUB),
        help=f"Format to write. {ONNX}: a file per device, with features and the predictions of a "
        f"linear learner. {MLFLOW}: a Python function, without pickle. {HUB}: snapshots with a "
        "model card.",
    )
    parser.add_argument(
        "--output",
        required=True,
        type=folder_name,
        metavar="DIR",
        help="Write to this folder, which must be empty or missing.",
    )
    parser.add_argument(
        "--model",
        action="append",
        metavar="ID",
        help="Write only this device; repeat for several. [default: all]",
    )
    parser.add_argument(
        "--no-learner",
        action="store_true",
        help=f"With --to {ONNX}: write features only, whatever the learner.",
    )


def run(args: argparse.Namespace) -> int:
    """Write models in another form; the exit code is 0.

    Raises:
        ConfigError: for a model, tracker or learner that cannot be written in this form.
        DataError: if there are no snapshots, or they are damaged.
    """
    if args.no_learner and args.to != ONNX:
        raise ConfigError("--no-learner", True, f"given with --to {ONNX} only")
    if not is_local(args.output):
        raise ConfigError("--output", args.output, "a folder of this machine")
    if os.path.exists(args.output) and (not os.path.isdir(args.output) or os.listdir(args.output)):
        raise ConfigError("--output", args.output, "a folder that is empty, or not there")
    if args.to == ONNX:
        count = _write_onnx(args)
    else:
        fleet = Fleet.load(args.snapshots, args.model)
        (write_mlflow if args.to == MLFLOW else write_hub)(fleet, args.output)
        count = len(fleet)
    models = "1 model" if count == 1 else f"{count:,} models"
    text = printable(f"{models} for {args.to} in {args.output}: with rows of the data in them")
    sys.stdout.write(text + "\n")
    return 0


def _write_onnx(args: argparse.Namespace) -> int:
    """Write a file for each model; how many."""
    # It comes with the extra `export`.
    from kerneltrack.export.onnx import to_onnx  # noqa: PLC0415

    place = snapshots_in(args.snapshots)
    found = SnapshotFolder(place, learner=not args.no_learner)
    wanted = list(dict.fromkeys(found.models if args.model is None else args.model))
    # All are looked at before one is written.
    for model_id in wanted:
        _freeze(found, model_id)
    channels = _channels(place)
    for model_id in wanted:
        frozen, head, about = _freeze(found, model_id)
        data = to_onnx(frozen, head, {**about, "channels": channels})
        write_whole(join(args.output, f"{escaped(model_id)}.onnx"), data)
    return len(wanted)


def _freeze(
    found: SnapshotFolder, model_id: str
) -> tuple[FrozenMap, LinearHead | None, dict[str, Any]]:
    """Return a model's map, its head if it has a learner, and what they are of.

    Raises:
        ConfigError: naming what cannot be written as a graph, and what can be done instead.
    """
    data, place = found.state(model_id, codec.TRACKER), found.place(model_id, codec.TRACKER)
    if data is None or place is None:
        raise ConfigError("--model", model_id, f"one that has a snapshot in {found.folder}")
    snapshot = codec.decode(data, place)
    spec, state = snapshot.spec, snapshot.state
    about = {
        "model_id": model_id,
        "rows": read_about(snapshot.header, place).rows,
        "tracker": spec.to_dict(),
    }
    try:
        frozen = freeze(spec, state)
        learned = found.state(model_id, codec.LEARNER)
        if learned is None:
            return frozen, None, about
        learner = codec.decode_learner(learned, f"learner of model {model_id!r}")
        head = freeze_head(learner.spec, learner.state, spec, len(state.scale))
    except ConfigError as error:
        allowed = f"{error.allowed} (model {model_id!r}; {_INSTEAD[error.field]})"
        raise ConfigError(error.field, error.value, allowed) from error
    classes = list(head.classes)
    return frozen, head, {**about, "learner": learner.spec.to_dict(), "classes": classes}


_INSTEAD = {
    "tracker": f"--to {MLFLOW} takes any",
    "learner": f"--no-learner leaves it out, --to {MLFLOW} takes any",
    "labels": "--no-learner leaves the learner out",
    "stored rows": "--model names others",
}
"""What can be done instead, by the field of an error."""


def _channels(place: str) -> list[str] | None:
    """Return the channels' names; None where they are not known, or the folder is elsewhere."""
    known = read_columns(Path(place)) if is_local(place) else None
    columns = None if known is None else known.reading.columns
    return None if columns is None else list(columns.features)
