"""Commands in processes of their own that have imported already what they need.

A command's imports take two processor seconds, more than most of what tests have it do. Here one
process imports once and forks for each command, which has its own pid, environment, files and end
as any other: only its imports are not its own. Commands begun anew are in test_cli.py,
test_secure.py and in the tests of pages.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.e2e.jobs import ROOT, environment

IMPORTED = (
    *("pipelines.cli.main", "pipelines.live.stream", "pipelines.local.engine"),
    *("pipelines.files.pipeline", "confluent_kafka.admin", "pyarrow.parquet", "scipy.special"),
)
PREFIX = [sys.executable, "-m"]
LONGEST = 150_000
"""Bytes of a request: one packet."""


class Warm(subprocess.Popen[str]):
    """As `subprocess.Popen` of `python -m MODULE ...`, forked from the process that has imported.

    Its parent is that process, which tells how it ended.
    """

    _told: socket.socket

    def __init__(self, words: Sequence[str], **options: Any) -> None:
        assert list(words[:2]) == PREFIX
        super().__init__(words, **options)

    def _execute_child(
        self, args: list[str], executable: Any, preexec_fn: Any, close_fds: Any, pass_fds: Any,
        cwd: Path | None, env: dict[str, str] | None, *rest: Any,
    ) -> None:  # fmt: skip
        given, took, gave, wrote, tells, says = rest[3:9]
        request = {
            "module": args[2],
            "words": args[3:],
            "cwd": str(cwd or Path.cwd()),
            "env": dict(os.environ if env is None else env),
        }
        self._told = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._told.connect(_place())
        files = [own if own >= 0 else usual for usual, own in enumerate((given, wrote, says))]
        packet = json.dumps(request).encode()
        assert len(packet) < LONGEST
        socket.send_fds(self._told, [packet], files)
        self.pid = int(self._told.recv(32))
        self._child_created = True
        self._close_pipe_fds(given, took, gave, wrote, tells, says)  # type: ignore[attr-defined]

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None:
            self._try_wait(os.WNOHANG)
        return self.returncode

    def _try_wait(self, flags: int) -> tuple[int, int]:
        """Return its pid and status, as `waitpid` would."""
        self._told.settimeout(0 if flags & os.WNOHANG else None)
        try:
            status = self._told.recv(32)
        except BlockingIOError:
            return 0, 0
        assert status, "the process that forks has ended"
        self.returncode = os.waitstatus_to_exitcode(int(status))
        return self.pid, int(status)


def run_warm(words: Sequence[str], patience: float = 300) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, as `run_process` does."""
    pipe = subprocess.PIPE
    with Warm(words, env=environment(), stdout=pipe, stderr=pipe, text=True) as process:
        output, errors = process.communicate(timeout=patience)
    return subprocess.CompletedProcess(words, process.returncode, output, errors)


def _place() -> str:
    """Return the address of this session's process that forks."""
    if not _server:
        folder = tempfile.mkdtemp()
        place = f"{folder}/warm"
        words = [*PREFIX, "tests.e2e.warm", place]
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            words, cwd=ROOT, env=environment(), text=True, stdin=pipe, stdout=pipe
        )
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        # It ends as its input does.
        atexit.register(shutil.rmtree, folder)
        atexit.register(process.communicate)
        _server.append(place)
    return _server[0]


_server: list[str] = []


def serve(place: str) -> tuple[str, list[str]]:
    """Fork for each request; returns in those forked, with a module and its arguments."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(place)
    listening.listen(64)
    chosen = selectors.DefaultSelector()
    chosen.register(listening, selectors.EVENT_READ)
    chosen.register(sys.stdin, selectors.EVENT_READ)
    running: dict[int, tuple[int, socket.socket]] = {}
    print("ready", flush=True)
    while True:
        for key, _ in chosen.select():
            if key.fileobj is sys.stdin:
                os._exit(0)
            if key.fileobj is not listening:
                ended = key.fd
                chosen.unregister(ended)
                os.close(ended)
                pid, asked = running.pop(ended)
                _, status = os.waitpid(pid, 0)
                with asked:
                    tell(asked, status)
                continue
            asked, _ = listening.accept()
            packet, files, _, _ = socket.recv_fds(asked, LONGEST, 3)
            if (pid := os.fork()) == 0:
                chosen.close()
                for one in (listening, asked, *(one for _, one in running.values())):
                    one.close()
                for usual, own in enumerate(files):
                    os.dup2(own, usual)
                for own in (*files, *running):
                    os.close(own)
                request = json.loads(packet)
                os.environ.clear()
                os.environ.update(request["env"])
                os.chdir(request["cwd"])
                sys.path[0] = request["cwd"]
                return request["module"], request["words"]
            for own in files:
                os.close(own)
            tell(asked, pid)
            end = os.pidfd_open(pid)
            chosen.register(end, selectors.EVENT_READ)
            running[end] = (pid, asked)


def tell(asked: socket.socket, number: int) -> None:
    """Answer who asked, if it is still there."""
    try:
        asked.send(b"%d" % number)
    except OSError:
        return


if __name__ == "__main__":
    for imported in IMPORTED:
        importlib.import_module(imported)
    gc.collect()
    gc.freeze()
    module, words = serve(sys.argv[1])
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
