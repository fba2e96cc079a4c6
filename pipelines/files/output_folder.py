"""A run's folder: made, cleared of an earlier run, and left without half files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from apache_beam.io.filesystems import FileSystems

from kerneltrack.errors import ConfigError, DataError
from kerneltrack.paths import is_local, join
from kerneltrack.snapshots.files import UNFINISHED, remove_file
from pipelines.job import explain
from pipelines.output_lock import locked_folder
from pipelines.run_folder import REPORT, REPORT_DEVICES, RUN, results_in
from transforms.outputs import FOLDERS

BEAM_TEMP = "beam-temp-"


@contextmanager
def locked(
    output: str,
    parts: Sequence[str],
    overwrite: bool,
    inputs: Sequence[str],
    command: Sequence[str],
) -> Iterator[None]:
    """Hold the output folder for one job, made or cleared; leave nothing half-written in it.

    Args:
        output: The folder.
        parts: Those of `FOLDERS` that this run writes.
        overwrite: Whether an earlier run's results may go.
        inputs: Files and folders that the run reads.
        command: The command line, for a second job that wants the folder.

    Raises:
        ConfigError: if another job writes there, results are there already, or an input lies
            among them.
        DataError: if the folder cannot be written.
        KerneltrackError: what became of an error within (see `explain`).
    """
    with locked_folder(output, "--output", command):
        clear(output, parts, overwrite, inputs)
        try:
            yield
        except (Exception, KeyboardInterrupt) as error:
            remove_unfinished(output)
            raise explain(error, output) from error


_FOLDERS = (*FOLDERS, REPORT_DEVICES)


def clear(output: str, parts: Sequence[str], overwrite: bool, inputs: Sequence[str]) -> None:
    """Make the output folder; refuse or remove what an earlier run left in it.

    Args:
        output: The folder.
        parts: Those of `FOLDERS` that this run writes.
        overwrite: Whether an earlier run's results may go.
        inputs: Files and folders that the run reads.

    Raises:
        ConfigError: if results are there already, or an input lies among them.
        DataError: if the folder cannot be written.
    """
    # Links do not hide that a folder is an input's, and what they lead to is not ours to remove.
    folders = [os.path.join(os.path.realpath(output), name, "") for name in _FOLDERS]
    for path in inputs:
        if os.path.join(os.path.realpath(path), "").startswith(tuple(folders)):
            raise ConfigError("--output", output, f"another folder than that of the input {path}")
    linked = [name for name in _FOLDERS if os.path.islink(os.path.join(output, name))]
    if linked:
        raise ConfigError("--output", output, f"a folder in which {linked[0]} is no link")
    found = results_in(output, overwrite)
    try:
        # The record first: without it what is left is plainly unfinished.
        for name in sorted(found, key=lambda name: name != RUN):
            _remove(join(output, name))
        remove_unfinished(output)
        for name in parts:
            FileSystems.mkdirs(join(output, name))
    except OSError as error:
        raise DataError(output, f"cannot be written: {error}") from error


def _remove(path: str) -> None:
    """Remove a file, or a folder with what is in it."""
    if not is_local(path):
        FileSystems.delete([path])
    elif os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        remove_file(path)


def remove_unfinished(output: str) -> None:
    """Remove what Beam's and our writers leave under temporary names when a job breaks off."""
    folders = [join(output, name) for name in _FOLDERS]
    if is_local(output):
        whole = [path for name in (RUN, REPORT) for path in _named(output, f"{name}.", UNFINISHED)]
        files = [path for folder in folders for path in _named(folder, "", UNFINISHED)]
        for path in [*whole, *files]:
            path.unlink(missing_ok=True)
        for path in [path for folder in folders for path in _named(folder, BEAM_TEMP, "")]:
            shutil.rmtree(path, ignore_errors=True)
        return
    patterns = [join(output, f"{name}.*{UNFINISHED}") for name in (RUN, REPORT)]
    for folder in folders:
        patterns.append(join(folder, f"*{UNFINISHED}"))
        patterns.append(join(folder, f"{BEAM_TEMP}*/*"))
    found = [entry.path for match in FileSystems.match(patterns) for entry in match.metadata_list]
    if found:
        FileSystems.delete(found)


def _named(folder: str, beginning: str, ending: str) -> list[Path]:
    """Return what lies in a local folder, if there is one, under names like this."""
    if not os.path.isdir(folder):
        return []
    names = [name for name in os.listdir(folder) if name.startswith(beginning)]
    return [Path(folder, name) for name in names if name.endswith(ending)]
