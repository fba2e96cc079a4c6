"""Command-line flags of what a job does beside tracking: windows, labels, snapshots, starts."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from apache_beam.transforms.window import FixedWindows, SlidingWindows

from kerneltrack.errors import ConfigError
from kerneltrack.settings import Range, check_number
from kerneltrack.trackers.common.start import StartSet
from pipelines.cli.command_line import flags_named
from pipelines.files import landmarks
from transforms.track.windows import MeasureMismatch

MICRO = 1e-6
MOST_WAITING = 10_000
"""Rows of a model that wait for their labels, unless told otherwise."""
FLAGS = {
    "length": "--moving-window",
    "moving": "--moving-window",
    "period": "--window-period",
    "confidence": "--confidence",
    "window": "--metrics-window",
    "snapshot_every": "--snapshot-every",
}
"""Flags of what transforms call otherwise."""


def add_window_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of windows of event time: kernel mismatch and running metrics."""
    group = parser.add_argument_group(
        "kernel mismatch", "How far the kernel matrix of a window's rows is from the subspace's."
    )
    seconds: dict[str, Any] = {"type": float, "default": None, "metavar": "SECONDS"}
    group.add_argument("--window", **seconds, help="length of event-time windows")
    group.add_argument(
        "--window-period", **seconds, help="from start to start (default: the length)"
    )
    group.add_argument("--window-offset", **seconds, help="start of a window (default 0)")
    group.add_argument(
        "--moving-window",
        type=int,
        default=None,
        metavar="ROWS",
        help="also measure the last so many rows after every row",
    )
    group.add_argument(
        "--window-rows",
        type=int,
        default=None,
        metavar="N",
        help="rows of a model kept for its windows; one with more is measured on some of them "
        f"(default {MeasureMismatch.most_rows})",
    )
    group.add_argument(
        "--confidence",
        type=float,
        default=None,
        metavar="P",
        help=f"of the bound on future rows (default {MeasureMismatch.confidence})",
    )


def measure_from_flags(args: argparse.Namespace, has_time: bool) -> MeasureMismatch | None:
    """Return the windows that were asked for, if any.

    Raises:
        ConfigError: for a bad value, or windows of event time without a time column.
    """
    windows: Any = None
    needed: dict[str, tuple[str, ...]] = {
        "window_period": ("window",),
        "window_offset": ("window",),
        "window_rows": ("window", "moving_window"),
        "confidence": ("window", "moving_window"),
    }
    for flag, others in needed.items():
        if all(getattr(args, other) is None for other in others):
            refuse_without(args, flag, others)
    if args.window is not None:
        if not has_time:
            raise ConfigError("--window", args.window, "left out without --time")
        length = _length("--window", args.window)
        offset = 0.0 if args.window_offset is None else args.window_offset
        check_number("--window-offset", offset, Range(-1 / MICRO, 1 / MICRO))
        if args.window_period is None:
            windows = FixedWindows(length, offset)
        else:
            windows = SlidingWindows(length, _length("--window-period", args.window_period), offset)
    if windows is None and args.moving_window is None:
        return None
    with flags_named({**FLAGS, "most_rows": "--window-rows"}):
        return MeasureMismatch(
            windows,
            args.moving_window,
            MeasureMismatch.most_rows if args.window_rows is None else args.window_rows,
            MeasureMismatch.confidence if args.confidence is None else args.confidence,
        )


def refuse_without(args: argparse.Namespace, flag: str, others: Sequence[str]) -> None:
    """Refuse a flag, given by its attribute, that says nothing without one of others.

    Raises:
        ConfigError: if it was given.
    """
    value = getattr(args, flag)
    if value is not None:
        named = " or ".join("--" + other.replace("_", "-") for other in others)
        raise ConfigError("--" + flag.replace("_", "-"), value, f"left out without {named}")


def _length(flag: str, value: float) -> float:
    if not MICRO <= value <= 1 / MICRO:
        raise ConfigError(flag, value, "seconds from 0.000001 to 1000000")
    return value


def add_snapshot_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of snapshots, and of what models begin from."""
    group = parser.add_argument_group("snapshots")
    group.add_argument(
        "--snapshot-every",
        type=float,
        default=None,
        metavar="SECONDS",
        help="write snapshots at these boundaries of event time too, not only at the end",
    )
    group.add_argument(
        "--warm-start",
        default=None,
        metavar="FOLDER",
        help="begin from another run's snapshots (DIR/snapshots)",
    )
    group.add_argument(
        "--start-from",
        default=None,
        metavar="FILE",
        help="begin models from the landmarks that `kerneltrack landmarks` wrote",
    )
    group.add_argument(
        "--float32", action="store_true", help="trackers in single precision: half the size"
    )


def start_from_flags(args: argparse.Namespace, width: int) -> StartSet | None:
    """Return the landmarks that models of so many features begin from, if there are any.

    Raises:
        ConfigError: for landmarks of another width, or with --warm-start.
        DataError: for a file that holds none.
    """
    if args.start_from is None:
        return None
    if args.warm_start is not None:
        raise ConfigError("--start-from", args.start_from, "left out with --warm-start")
    start = landmarks.read_start(args.start_from)
    if start.rows.shape[1] != width:
        raise ConfigError("number of features", width, f"that of landmarks: {len(start.scale)}")
    return start


def add_label_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of running metrics and of labels that come late."""
    group = parser.add_argument_group(
        "labels",
        "The learner takes the --label column; labels from files of their own are matched by "
        "model id and row index or time.",
    )
    group.add_argument("--labels", nargs="+", default=(), metavar="FILE", help="files of labels")
    group.add_argument(
        "--label-index", default=None, metavar="COLUMN", help="row index in them (else: --time)"
    )
    group.add_argument(
        "--label-column",
        default=None,
        metavar="COLUMN",
        help="label in them (default: that of --label, or label)",
    )
    group.add_argument(
        "--label-wait",
        type=float,
        default=None,
        metavar="SECONDS",
        help="rows wait so long, in event time, for their labels, then are learned from in order "
        "(default: not at all, as with labels beside the rows)",
    )
    group.add_argument(
        "--label-rows",
        type=int,
        default=None,
        metavar="N",
        help="most rows of a model that wait for their labels; of more the oldest wait no longer "
        f"(default {MOST_WAITING} with --label-wait)",
    )
    group.add_argument(
        "--metrics-window",
        type=float,
        default=None,
        metavar="SECONDS",
        help="event-time windows of the learner's metrics (default: totals only)",
    )
