"""`make live-demo`: it leaves nothing behind, also when it is interrupted."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

from pipelines.cluster.resolve import Jars
from tests.e2e.clusters import PATIENCE, left_in
from tests.e2e.jobs import ROOT, environment, run_process

ROWS = 4000


def demo(folder: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "pipelines.live.demo", "--folder", str(folder)),
        *("--speed", "20", "--rows", str(ROWS)),
    ]


def test_it_shows_what_comes_out_and_leaves_nothing(jars: Jars, tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    done = run_process(demo(folder), cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    shown = re.findall(r"^ +\d+ s +([0-9,]+) rows of features$", done.stdout, re.M)
    assert shown[-1] == f"{ROWS:,}"
    last = done.stdout[done.stdout.rindex(" rows of features") :]
    line = r"^  subject-\d\d +row +[0-9,]+  loss [0-9.]+  z .* predicted \w+ \(\w+\)"
    assert len(re.findall(line, last, re.M)) == 4
    assert left_in(folder) == []
    assert not folder.exists()


def test_an_interrupted_one_leaves_nothing(jars: Jars, tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    with subprocess.Popen(
        demo(folder), cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for text in process.stdout:
            # The job runs.
            if text.startswith("job kerneltrack-"):
                process.send_signal(signal.SIGINT)
                break
        process.stdout.read()
        assert process.wait(PATIENCE) == 130
    assert left_in(folder) == []
    assert not folder.exists()
