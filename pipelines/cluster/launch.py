"""Become a part of the cluster: leave the terminal, write oneself down, then run the command.

So a process is on record before it does anything, whatever becomes of the one that started it.
Arguments: folder of records, name, restarts so far, file for the output, command.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pipelines.cluster import records


def spawn(
    record_folder: Path,
    name: str,
    output: Path,
    command: Sequence[str],
    env: dict[str, str],
    restarts: int = 0,
) -> int:
    """Start a command in a session of its own and return its id.

    Args:
        record_folder: Where it is written down, as `name`.
        name: What it is.
        output: File that takes what it prints, emptied first unless it takes a dead one's place:
            what that one said last may be why it died.
        command: Program and arguments.
        env: Its environment.
        restarts: How often it was started again by itself.
    """
    arguments = [str(record_folder), name, str(restarts), str(output), *command]
    return os.posix_spawn(
        sys.executable, [sys.executable, "-m", "pipelines.cluster.launch", *arguments], env
    )


def main(arguments: Sequence[str]) -> None:
    """Do it."""
    folder, name, restarts, output, *command = arguments
    os.setsid()
    begin = os.O_APPEND if int(restarts) else os.O_APPEND | os.O_TRUNC
    for target, path, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, output, os.O_WRONLY | os.O_CREAT | begin),
    ):
        handle = os.open(path, flags, 0o644)
        os.dup2(handle, target)
        os.close(handle)
    os.dup2(1, 2)
    # A pipe that came down from the caller's caller would keep that one waiting for its end.
    for number in [int(name) for name in os.listdir("/dev/fd") if int(name) > 2]:
        with suppress(OSError):
            os.close(number)
    os.chdir(folder)
    records.write_own(Path(folder), name, int(restarts))
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
