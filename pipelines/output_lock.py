"""One output, one job: a lock that is held from before anything is cleared until the job ends.

The system itself lets go of the lock (flock) when the process ends, however it ends: a file that a
killed job leaves is no lock. Folders of this machine's file systems are locked; object stores know
no such locks.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import socket
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timezone

from kerneltrack.errors import ConfigError, DataError
from kerneltrack.paths import is_local
from pipelines.job import say

LOCK = ".kerneltrack.lock"
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MOST = 4096
_SHOWN = 120
_LOOKS = 20
_PAUSE = 0.05

_handles: set[int] = set()


def _let_go_in_child() -> None:
    """Close what a forked process has inherited: it must not keep a dead job's lock."""
    while _handles:
        with suppress(OSError):
            os.close(_handles.pop())


os.register_at_fork(after_in_child=_let_go_in_child)


@contextmanager
def locked_folder(
    output: str, flag: str, command: Sequence[str], make: bool = True
) -> Iterator[None]:
    """Hold a folder against other jobs.

    Args:
        output: The folder; where it is not local nothing is held.
        flag: What named it.
        command: The command line, for whoever comes second.
        make: Whether to make the folder if it is not there.

    Raises:
        ConfigError: if another process holds it, saying which.
        DataError: if the folder cannot be written.
    """
    if is_local(output):
        with _writing(output):
            if make:
                os.makedirs(output, exist_ok=True)
    with _locked(output, os.path.join(output, LOCK), flag, command):
        yield


@contextmanager
def locked_file(output: str, flag: str, command: Sequence[str]) -> Iterator[None]:
    """Hold a file that is to be written, by a lock beside it; see `locked_folder`."""
    folder, name = os.path.split(output)
    if is_local(output):
        with _writing(output):
            os.makedirs(folder or ".", exist_ok=True)
    with _locked(output, os.path.join(folder, f".{name}.lock"), flag, command):
        yield


@contextmanager
def _locked(output: str, path: str, flag: str, command: Sequence[str]) -> Iterator[None]:
    if not is_local(output):
        yield
        return
    with _writing(output):
        handle = _take(output, path, flag)
    _handles.add(handle)
    try:
        with suppress(OSError):  # A full disk keeps nobody from holding it, but from saying who.
            os.ftruncate(handle, 0)
            os.pwrite(handle, _about(command), 0)
        yield
    finally:
        if handle in _handles:  # and not in a process that was forked
            _handles.discard(handle)
            # Still held: who has opened it meanwhile sees that it is gone, and looks again.
            with suppress(OSError):
                os.unlink(path)
            os.close(handle)


@contextmanager
def _writing(output: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(output, f"cannot be written: {error.strerror or error}") from error


def _take(output: str, path: str, flag: str) -> int:
    """Return a handle of the lock's file, held.

    Raises:
        ConfigError: if another process holds it.
        OSError: if there can be no such file.
    """
    who = ""
    for _ in range(_LOOKS):
        handle = os.open(path, _FLAGS, 0o666)
        locked = False
        try:
            if _is_locked(handle, output):
                locked = _is_at(path, handle)
            else:
                who = _holder(handle)
        finally:
            if not locked:
                os.close(handle)
        if locked:
            return handle
        if who:
            break
        # It has just been let go, or who has just taken it is about to write who that is.
        time.sleep(_PAUSE)
    raise ConfigError(flag, output, f"one that no other job writes: {who or 'another'} does")


def _is_locked(handle: int, output: str) -> bool:
    """Lock a file; False if another process has done so."""
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        raise OSError(f"its lock {LOCK} is not a regular file")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        say(f"lock:     none ({error.strerror}); let no other job write into {output}")
    return True


def _is_at(path: str, handle: int) -> bool:
    """Check whether a file still bears its name: who let go of it has removed it."""
    try:
        there = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(handle))


def _about(command: Sequence[str]) -> bytes:
    """Return what the lock's file says of its holder."""
    now = datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")
    line = shlex.join(command)[:_SHOWN]
    about = {"pid": os.getpid(), "host": socket.gethostname(), "since": now, "command": line}
    return json.dumps(about).encode()


def _holder(handle: int) -> str:
    """Return who holds a lock, "" while its file does not."""
    try:
        about = json.loads(os.pread(handle, _MOST, 0))
        known = [about[name] for name in ("pid", "host", "since", "command")]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    # Whatever the file holds, it is shown as plain text.
    pid, host, since, line = (ascii(str(value))[1:-1][:_SHOWN] for value in known)
    return f"process {pid} on {host}, since {since} ({line}),"
