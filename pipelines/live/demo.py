"""`make live-demo`: a live job on a local cluster that is started for it and removed after it.

    python -m pipelines.live.demo [--speed X] [--folder DIR]

Starts Flink and Kafka, replays a smart-watch recording into a topic, tracks it, shows what comes
out, and stops all that it started, however it ends.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from pipelines.cli import main as cli
from pipelines.cli.command_line import INTERRUPTED_EXIT
from pipelines.cluster.folder import Folder, load
from pipelines.cluster.interruption import Interruption
from pipelines.job import say
from pipelines.topics.read_output import Once, OutputReader
from transforms.outputs import ALERTS, FEATURES, PREDICTIONS

DATA = "samples/watch.parquet"
CHANNELS = ("ax", "ay", "az", "wx", "wy", "wz")
SPEED = 8.0
TOPIC = "watch"
OUTPUT = "watch-features"
SHOW_EVERY = 2.0
READ = 0.2
SHOWN_Z = 3
QUIET = 8.0
"""Seconds without a row after which the demonstration ends, once all have been sent ..."""

FIRST = 120.0
"""... and some have come."""


@dataclass
class ShownModel:
    """What came out of a model so far.

    Attributes:
        features: Its newest row of features.
        prediction: Its newest prediction.
        rows: Rows of features.
        correct: Right predictions, and all that could be scored.
    """

    features: dict[str, Any] = field(default_factory=dict)
    prediction: dict[str, Any] = field(default_factory=dict)
    rows: int = 0
    correct: Counter[bool] = field(default_factory=Counter)

    def line(self, name: str) -> str:
        """Return the model's line."""
        row = self.features
        z = " ".join(f"{value:+.2f}" for value in (row.get("z") or ())[:SHOWN_Z])
        answer = f"{self.prediction.get('prediction')} ({self.prediction.get('label')})"
        scored = self.correct.total()
        right = f"{self.correct[True] / scored:.0%}" if scored else "-"
        return (
            f"  {name:<12} row {row.get('index', 0):>6,}  loss {row.get('loss', 0.0):.4f}  "
            f"z {z} ...  predicted {answer:<14} right so far {right}"
        )


def main(arguments: Sequence[str]) -> int:
    """Run the demonstration; returns its exit code."""
    parser = argparse.ArgumentParser(description="A live job on a local cluster.")
    parser.add_argument(
        "--speed",
        type=float,
        default=SPEED,
        help="Send X times as fast as recorded. [default %(default)s]",
    )
    parser.add_argument(
        "--folder", default="build/live-demo", help="Folder of the cluster. [default %(default)s]"
    )
    parser.add_argument("--rows", type=int, help="Send only the first N rows.")
    args = parser.parse_args(arguments)
    folder = str(Path(args.folder).absolute())
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    code = 1
    try:
        code = _run(folder, args)
    except KeyboardInterrupt:
        code = INTERRUPTED_EXIT
        say("interrupted")
    finally:
        with Interruption():
            if load(Folder(Path(folder))) is not None:
                down = cli.main(["cluster", "down", "--folder", folder, "--wipe"])
                code = code or down
    return code


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _run(folder: str, args: argparse.Namespace) -> int:
    code = cli.main(["cluster", "up", "--folder", folder])
    if code:
        return code
    first = [*("--cluster", folder, "--topic", TOPIC)]
    columns = ["--model-id", "model_id", "--time", "time", "--label", "label"]
    # The topic must be there before the job is.
    made = [*first, "--create-topic", "2", "--rows", "0"]
    code = cli.main(["replay", DATA, *columns, *made]) or cli.main(
        [
            *("stream", *first, "--output-topic", OUTPUT, "--create-topics", "--detach"),
            *("--features", *CHANNELS, "--time", "time", "--time-unit", "ns", "--label", "label"),
            *("--learner", "ridge", "--drift", "--rank", "10", "--budget", "15"),
            *("--idle-flush", "3"),
        ]
    )
    if code:
        return code
    some = [] if args.rows is None else ["--rows", str(args.rows)]
    # A signal while the replay is being started must not leave it behind.
    with Interruption() as interruption:
        replay = subprocess.Popen(
            [
                *(
                    sys.executable,
                    "-m",
                    "pipelines.cli",
                    "replay",
                    DATA,
                    *columns,
                    *first,
                    *some,
                ),
                *("--speed", str(args.speed), "--message-rows", "10", "--disorder", "0.5"),
            ],
            # Ctrl-C is ours to hear; the replay is ended below.
            start_new_session=True,
            stdout=subprocess.DEVNULL,
        )
        try:
            _show(folder, replay, interruption)
        finally:
            replay.terminate()
            code = replay.wait()
    return max(code, 0)


def _show(folder: str, replay: subprocess.Popen[bytes], interruption: Interruption) -> None:
    """Show what comes out until the replay has ended and nothing more comes.

    Raises:
        KeyboardInterrupt: when a signal came.
    """
    cluster = load(Folder(Path(folder)))
    client = {"bootstrap.servers": cluster.settings.address("kafka") if cluster else ""}
    readers = {
        name: OutputReader(client, topic, "json")
        for name, topic in (
            (FEATURES, OUTPUT),
            (PREDICTIONS, f"{OUTPUT}-{PREDICTIONS}"),
            (ALERTS, f"{OUTPUT}-{ALERTS}"),
        )
    }
    once = {name: Once() for name in readers}
    models: dict[str, ShownModel] = {}
    started = last = shown = time.monotonic()
    while replay.poll() is None or time.monotonic() - last < (QUIET if models else FIRST):
        for name, reader in readers.items():
            interruption.check()
            for row in reader.rows(READ):
                if once[name].is_new(row):
                    last = time.monotonic()
                    _take(name, row, models.setdefault(row["model_id"], ShownModel()))
        if last > shown and time.monotonic() - shown >= SHOW_EVERY:
            shown = time.monotonic()
            _show_models(shown - started, len(once[FEATURES]), models)
    _show_models(last - started, len(once[FEATURES]), models)
    for reader in readers.values():
        reader.close()


def _show_models(seconds: float, rows: int, models: dict[str, ShownModel]) -> None:
    say(f"{seconds:5.0f} s  {rows:,} rows of features")
    for name in sorted(models):
        say(models[name].line(name))


def _take(name: str, row: dict[str, Any], model: ShownModel) -> None:
    if name == FEATURES:
        model.features = row
        model.rows += 1
    elif name == PREDICTIONS:
        model.prediction = row
        if row["correct"] is not None:
            model.correct[row["correct"]] += 1
    else:
        say(
            f"  ! {row['model_id']}: the loss changed at row {row['index']:,}: "
            f"{row['before']:.4f} before, {row['after']:.4f} since"
        )


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main(sys.argv[1:]))
