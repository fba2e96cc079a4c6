"""A run's folder: made, cleared of an earlier run, and left without half files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems

from kerneltrack.errors import ConfigError, DataError
from pipelines.record import RUN

FEATURES, FAILURES, SNAPSHOTS = "features", "failures", "snapshots"
MISMATCH, PREDICTIONS, METRICS, ALERTS = "mismatch", "predictions", "metrics", "alerts"
SCORES = "scores"
PARTS = (FEATURES, FAILURES, SNAPSHOTS, MISMATCH, PREDICTIONS, METRICS, ALERTS, SCORES)
REPORT = "report.html"


def clear(output: str, parts: Sequence[str], overwrite: bool, inputs: Sequence[str]) -> None:
    """Make the output folder; refuse or remove what an earlier run left in it.

    Args:
        output: The folder.
        parts: Those of `PARTS` that this run writes.
        overwrite: Whether an earlier run's results may go.
        inputs: Files and folders that the run reads.

    Raises:
        ConfigError: if results are there already, or an input lies among them.
        DataError: if the folder cannot be written.
    """
    folders = [os.path.join(os.path.abspath(output), name, "") for name in PARTS]
    for path in inputs:
        if os.path.join(os.path.abspath(path), "").startswith(tuple(folders)):
            raise ConfigError("--output", output, f"another folder than that of the input {path}")
    names = [*PARTS, RUN, REPORT]
    found = [name for name in names if FileSystems.exists(FileSystems.join(output, name))]
    if found and not overwrite:
        raise ConfigError(
            "--output", output, f"a folder without {', '.join(found)}, or pass --overwrite"
        )
    try:
        # The record first: without it what is left is plainly unfinished.
        for name in sorted(found, key=lambda name: name != RUN):
            FileSystems.delete([FileSystems.join(output, name)])
        for name in parts:
            FileSystems.mkdirs(FileSystems.join(output, name))
    except (OSError, beam.io.filesystem.BeamIOError) as error:
        raise DataError(output, f"cannot be written: {error}") from error


def remove_unfinished(output: str) -> None:
    """Remove what Beam's and our writers leave under temporary names when a job breaks off."""
    for folder in [output, *(FileSystems.join(output, name) for name in PARTS)]:
        found = FileSystems.match([FileSystems.join(folder, "*.unfinished")])[0].metadata_list
        if found:
            FileSystems.delete([entry.path for entry in found])
        if FileSystems.get_scheme(folder) is None:
            for path in Path(folder).glob("beam-temp-*"):
                shutil.rmtree(path, ignore_errors=True)
        else:
            pattern = FileSystems.join(folder, "beam-temp-*/*")
            found = FileSystems.match([pattern])[0].metadata_list
            if found:
                FileSystems.delete([entry.path for entry in found])
