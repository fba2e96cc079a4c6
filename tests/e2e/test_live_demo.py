"""`make live-demo`: it shows what comes out, and leaves nothing behind when it is interrupted."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.cluster.resolve import Jars
from tests.e2e.clusters import PATIENCE, left_in
from tests.e2e.jobs import ROOT, environment

ROWS = 4000


def demo(folder: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "pipelines.live.demo", "--folder", str(folder)),
        *("--speed", "20", "--rows", str(ROWS)),
    ]


@pytest.mark.nightly
def test_it_shows_what_comes_out_and_interrupted_leaves_nothing(jars: Jars, tmp_path: Path) -> None:
    """It ends as it does by itself: by what it does at its end, whatever ended it."""
    folder, shown = tmp_path / "demo", ""
    with subprocess.Popen(
        demo(folder), cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for text in process.stdout:
            shown += text
            # All rows are there: the last models' lines are yet to come.
            if re.match(rf" +\d+ s +{ROWS:,} rows of features$", text):
                process.send_signal(signal.SIGINT)
                break
        shown += process.stdout.read()
        assert process.wait(PATIENCE) == 130, shown
    last = shown[shown.rindex(" rows of features") :]
    line = r"^  subject-\d\d +row +[0-9,]+  loss [0-9.]+  z .* predicted \w+ \(\w+\)"
    assert len(re.findall(line, last, re.M)) == 4
    assert left_in(folder) == []
    assert not folder.exists()
