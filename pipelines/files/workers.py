"""How many processes a file job has, and when they begin."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kerneltrack.paths import is_local
from pipelines.cli.command_line import refuse
from transforms.partition.pool import start_server

if TYPE_CHECKING:
    from transforms.read.look import Input

MOST_ALONE_ROWS = 50_000
"""An input of so few rows, or `MOST_ALONE_BYTES` where they are not known, needs no processes."""
MOST_ALONE_BYTES = 4 << 20
_ROW_BYTES = 48
_TEXT_SIZE = 2
"""Rows of a file in memory over its bytes, about."""


def workers_of(args: argparse.Namespace) -> int | None:
    """Return how many processes may run the job; None: one of Beam's runners does.

    Raises:
        ConfigError: for flags of processes together with Beam's.
    """
    if not args.for_beam:
        return available_cores() if args.workers is None else int(args.workers)
    refuse(args, ("workers", "temp_dir"), "left out with Beam's flags")
    return None


def available_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def prepare(args: argparse.Namespace, files: Input) -> None:
    """Let the server that processes are forked from import beside this one, if any are needed.

    Raises:
        ConfigError: as `workers_of`.
    """
    workers = workers_of(args)
    if workers is not None and not single_process(workers, [files]):
        start_server()


def single_process(workers: int, inputs: Sequence[Input]) -> bool:
    """Check whether the job needs no process but this one."""
    return workers <= 1 or _are_small(inputs)


def size_of(files: Input) -> int:
    """Return about how many bytes the rows of an input take in memory."""
    if files.rows is not None:
        return files.rows * (8 * files.columns.width + _ROW_BYTES)
    stored = {piece.path for info in files.infos for piece in info.pieces}
    return _TEXT_SIZE * sum(os.path.getsize(path) for path in stored if is_local(path))


def _are_small(inputs: Sequence[Input]) -> bool:
    rows = [files.rows for files in inputs]
    if all(count is not None for count in rows):
        return sum(count or 0 for count in rows) <= MOST_ALONE_ROWS
    local = all(is_local(path) for files in inputs for path in files.paths)
    return local and sum(map(size_of, inputs)) <= _TEXT_SIZE * MOST_ALONE_BYTES
