"""The site's search, asked 20 questions of users, has the right page among the first three."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.parts import program

ROOT = Path(__file__).resolve().parents[2]
QUESTIONS = {
    "why are all my machines broken at noon": ("detection", "alarms"),
    "too many false alarms": ("alarms",),
    "csv with semicolons and decimal comma": ("tracking", "recipes"),
    "timestamps are in milliseconds": ("tracking",),
    "export from influxdb": ("recipes",),
    "home assistant history": ("recipes",),
    "the sensor is replaced, how do I tell it": ("alarms",),
    "which channel caused the alarm": ("detection", "alarms"),
    "send alarms to kafka": ("stream", "tutorials/live"),
    "resume after crash": ("stream",),
    "rows arrive late": ("stream",),
    "missing values": ("tracking",),
    "read parquet from pandas": ("python", "tutorials/notebook"),
    "classify rows with labels that come later": ("tracking", "stream"),
    "which algorithm should I choose": ("choosing",),
    "use in scikit-learn pipeline": ("sklearn",),
    "how much memory per device": ("state",),
    "onnx export": ("export",),
    "ignore outside temperature": ("detection", "alarms"),
    "upgrade without losing state": ("stability", "deploy/upgrade"),
}
LEAST, PLACES = 18, 3


def test_questions_find_their_pages(tmp_path: Path) -> None:
    node = program("node", "nodejs")
    mkdocs = (sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict")
    done = subprocess.run(
        [*mkdocs, "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    asked = subprocess.run(
        [node, str(ROOT / "tests" / "e2e" / "site_search.js"), str(tmp_path / "site")],
        input=json.dumps(list(QUESTIONS)),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    found = json.loads(asked.stdout)
    missed = {
        question: found[question][:PLACES]
        for question, pages in QUESTIONS.items()
        if not {f"{page}.html" for page in pages} & set(found[question][:PLACES])
    }
    assert len(QUESTIONS) - len(missed) >= LEAST, missed
