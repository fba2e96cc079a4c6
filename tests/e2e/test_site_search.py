"""The site's search, asked questions of users, has the right page among the first three."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.parts import program

ROOT = Path(__file__).resolve().parents[2]
QUESTIONS = {
    "why are all my machines broken at noon": ("detection", "alarms"),
    "too many false alarms": ("alarms",),
    "csv with semicolons and decimal comma": ("tracking", "recipes", "questions"),
    "timestamps are in milliseconds": ("tracking",),
    "export from influxdb": ("recipes",),
    "home assistant history": ("recipes",),
    "the sensor is replaced, how do I tell it": ("alarms",),
    "which channel caused the alarm": ("detection", "alarms"),
    "send alarms to kafka": ("stream", "messages", "tutorials/live"),
    "resume after crash": ("stream", "operate"),
    "rows arrive late": ("stream",),
    "missing values": ("tracking",),
    "read parquet from pandas": ("python", "tutorials/notebook"),
    "classify rows with labels that come later": ("tracking", "stream"),
    "which algorithm should I choose": ("choosing",),
    "use in scikit-learn pipeline": ("sklearn",),
    "how much memory per device": ("state",),
    "onnx export": ("export",),
    "ignore outside temperature": ("detection", "alarms", "questions"),
    "upgrade without losing state": ("stability", "deploy/upgrade"),
    "read csv with semicolon delimiter": ("tracking", "recipes", "tutorials/report"),
    "load multiple parquet files from folder": ("tracking",),
    "wide format one column per sensor": ("tracking", "recipes", "tutorials/report", "questions"),
    "timestamp column not recognized": ("tracking", "troubleshooting", "questions"),
    "set timezone for naive timestamps": ("tracking",),
    "daylight saving time duplicate hour": ("tracking",),
    "how are missing values handled": ("tracking",),
    "sensor stopped sending data": ("off", "questions"),
    "change alert threshold sensitivity": ("alarms", "detection", "questions"),
    "weekly seasonality": ("detection", "alarms"),
    "day night temperature pattern": ("detection", "alarms"),
    "ignore planned maintenance window": ("off",),
    "reset model after repair": ("operate", "alarms"),
    "which sensor caused the anomaly": ("detection", "off", "alarms", "tutorials/report"),
    "root cause explanation per channel": ("detection", "off", "alarms", "tutorials/report"),
    "when did the fault start": ("detection", "off", "tutorials/report", "questions"),
    "compare machines with each other in a fleet": ("fleet",),
    "consume from kafka topic": ("stream", "tutorials/live", "messages"),
    "kafka SASL SSL authentication": ("operate",),
    "run on Flink cluster": ("stream", "cluster", "deploy/index"),
    "resume after crash without losing state": ("operate", "stream"),
    "exactly once or duplicate alerts": ("stream", "notify"),
    "late and out of order events": ("stream",),
    "upgrade to new version keep saved models": ("stability", "deploy/upgrade"),
    "is it safe to load a model file pickle": ("state", "security", "export"),
    "out of memory with many devices": ("state", "operate", "troubleshooting"),
    "how many rows per second throughput": (
        "benchmarks",
        "results/speed",
        "results/live",
        "operate",
        "questions",
    ),
    "train with labeled failures": ("tracking", "choosing", "questions"),
    "predict remaining useful life regression": ("tracking", "recipes", "choosing", "questions"),
    "use in Jupyter notebook with pandas dataframe": ("tutorials/notebook", "python"),
    "export results to csv": ("tracking", "export", "python", "recipes"),
    "custom PTransform in my own Beam pipeline": ("beam",),
    "fit predict like scikit-learn": ("sklearn",),
    "use a River model": ("python",),
    "send alerts to Slack webhook": ("notify",),
    "home assistant history export": ("recipes",),
    "prometheus metrics for monitoring consumer lag": ("operate", "deploy/index"),
    "error could not convert string to float": ("troubleshooting", "tracking"),
    "pump flagged right after planned maintenance": ("off",),
    "silence alerts for one machine": ("off", "questions"),
    "which sensor caused the alert": ("alarms", "questions"),
    "use timestamps in local time zone": ("tracking", "questions"),
    "add a new device to running fleet": ("questions",),
    "devices sample at different rates": ("questions", "tracking"),
    "move trained model to another server": ("questions", "export", "operate"),
    "pass a dataframe instead of csv": ("python", "questions"),
    "late events after watermark": ("stream",),
    "use as a PTransform in my own pipeline": ("beam",),
    "slack webhook url environment variable": ("notify", "questions"),
    "same alert sent twice after restart": ("notify", "questions"),
    "does it work on a raspberry pi": ("questions",),
    "compare predictions with true labels arriving later": ("tracking", "questions"),
    "exit code for cron job": ("tracking", "questions"),
    "slow drift over several weeks": ("detection", "alarms"),
    "email report to my manager offline": ("tutorials/report", "questions"),
    "all machines shift together with outside temperature": ("alarms", "questions", "fleet"),
}
LEAST, PLACES = 0.9, 3

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_questions_find_their_pages(site: Path) -> None:
    asked = subprocess.run(
        [program("node", "nodejs"), str(ROOT / "tests" / "e2e" / "site_search.js"), str(site)],
        input=json.dumps(list(QUESTIONS)),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    # A question that the search cannot read has no page, and a line here.
    assert asked.stderr == ""
    found = json.loads(asked.stdout)
    missed = {
        question: found[question][:PLACES]
        for question, pages in QUESTIONS.items()
        if not {f"{page}.html" for page in pages} & set(found[question][:PLACES])
    }
    assert len(missed) <= (1 - LEAST) * len(QUESTIONS), missed


@pytest.mark.browser
def test_a_site_opened_from_files_has_a_search(site: Path) -> None:
    shown = subprocess.run(
        [
            program("chromium", "chromium"),
            *("--headless", "--no-sandbox", "--virtual-time-budget=20000", "--dump-dom"),
            f"file://{site}/tutorials/report.html?q=false+alarms",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout
    assert re.search(r"\d+ matching documents", shown)
    assert 'href="../alarms.html' in shown
