"""Commands forked from a process that has imported are as processes begun anew."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.jobs import command, environment, run_process
from tests.e2e.warm import Warm, run_warm

PIPE = subprocess.PIPE


def test_a_command_says_and_returns_what_it_does_begun_anew() -> None:
    for words in (["--version"], ["list", "okfeb"], ["track", "nowhere.csv", "--model-id", "m"]):
        done, anew = run_warm(command(*words)), run_process(command(*words))
        assert (done.returncode, done.stdout, done.stderr) == (
            anew.returncode,
            anew.stdout,
            anew.stderr,
        )
    assert done.returncode == 2


def test_it_has_its_own_environment_place_and_files(tmp_path: Path) -> None:
    (tmp_path / "told.py").write_text(
        "import os, sys\n"
        "print(sys.argv[1:], os.environ['TOLD'], 'HOME' in os.environ, os.getcwd(), os.getpid())\n"
        "print(sys.stdin.read(), sorted(map(int, os.listdir('/proc/self/fd'))), file=sys.stderr)\n"
        "sys.path.append('here')\n"
        "raise SystemExit(7)\n"
    )
    changes = {"TOLD": "yes", "PATH": os.environ["PATH"]}
    words = [sys.executable, "-m", "told", "a", "b c"]
    for _ in range(2):
        running = Warm(
            words, cwd=tmp_path, env=changes, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True
        )
        output, errors = running.communicate("said", timeout=60)
        assert running.returncode == 7, errors
        assert output == f"['a', 'b c'] yes False {tmp_path} {running.pid}\n"
        # Its three files, and the folder that is listed.
        assert errors == "said [0, 1, 2, 3]\n"
    assert "here" not in sys.path


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
def test_a_signal_ends_it_alone(sent: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text("import time\nprint('waits', flush=True)\ntime.sleep(600)\n")
    words = [sys.executable, "-m", "waits"]
    with (
        Warm(words, cwd=tmp_path, env=environment(), stdout=PIPE, text=True) as one,
        Warm(words, cwd=tmp_path, env=environment(), stdout=PIPE, text=True) as other,
    ):
        for each in (one, other):
            assert each.stdout is not None
            assert each.stdout.readline() == "waits\n"
        one.send_signal(sent)
        assert one.wait(60) == -sent
        assert other.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(0.1)
        other.kill()
        assert other.wait() == -signal.SIGKILL
