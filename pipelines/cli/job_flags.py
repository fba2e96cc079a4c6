"""Flags of what a job does with rows, which `track` and `stream` share.

Each is declared once, here or in the settings that it gives; what holds without it may differ
between the two.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from kerneltrack.monitor.window_settings import WindowSettings
from pipelines.cli import spec_options
from pipelines.cli.command_line import refuse
from pipelines.cli.setting_flags import FlagsOf
from transforms.learn.late_labels import LateLabels
from transforms.track.order import Order

HOLD_FOR = 1.0
MOST_WAITING = 10_000
"""Rows of a model that wait for their labels, unless told otherwise."""
ORDER = FlagsOf(
    Order,
    metavars=dict.fromkeys(("max_disorder", "max_jump", "hold_for", "idle_flush"), "SECONDS"),
)
WINDOWS = FlagsOf(
    WindowSettings,
    {"moving": "--moving-window", "most_rows": "--window-rows"},
    {"moving": "ROWS", "confidence": "P"},
)
LATE_LABELS = FlagsOf(
    LateLabels, {"wait": "--label-wait", "most_rows": "--label-rows"}, {"wait": "SECONDS"}
)
FLAGS = {
    **WINDOWS.names,
    "period": "--window-period",
    "window": "--metrics-window",
    "snapshot_every": "--snapshot-every",
    "wait": "--label-wait",
}
"""Flags of what transforms call otherwise."""

COMMON = (
    *("-h", "--help", "--help-all", "--model-id", "--model-id-from"),
    *("--time", "--label", "--features", "--exclude"),
    *("--missing", "--spec", "--tracker", "--rank", "--budget", "--learner", "--learner-task"),
    *(
        "--window",
        "--reference",
        "--reference-false-alarms",
        "--drift",
        "--snapshot-every",
        "--warm-start",
        "--start-from",
    ),
)
"""Flags that `--help` shows."""
SECONDS: dict[str, Any] = {"type": float, "default": None, "metavar": "SECONDS"}


def add_job_flags(
    parser: argparse.ArgumentParser, without: Mapping[str, str], late: str, labels: str
) -> Any:
    """Add the flags.

    Args:
        parser: Where to.
        without: What holds without `--max-disorder` and `--max-jump`, and what `--metrics-window`
            gives besides.
        late: Where late data go.
        labels: The flag that delayed labels come from, with "from".

    Returns:
        The group of snapshots, for flags of one kind of job.
    """
    parser.add_argument(
        "--extras",
        nargs="+",
        action="extend",
        choices=("q", "s"),
        default=[],
        help='Also write other features of each row. "q": the projection coefficients. "s": one '
        "feature per stored row.",
    )
    _add_order_flags(parser, without, late)
    spec_options.add_spec_flags(parser)
    _add_label_flags(parser, without, labels)
    add_window_flags(parser)
    return _add_snapshot_flags(parser)


def _add_order_flags(
    parser: argparse.ArgumentParser, without: Mapping[str, str], late: str
) -> None:
    group = parser.add_argument_group("order")
    abouts = {
        "max_disorder": "Wait this long for late rows of a device. Rows further behind its "
        f"newest row are late data and go to the {late}. [default: {without['max_disorder']}]",
        "max_jump": "Let rows further ahead of the device's newest row than this wait until "
        "--jump-rows of them agree. Fewer are refused. "
        f"[default: {without['max_jump']}]",
        "hold_for": "With --missing hold: repeat a channel's last value for this long. "
        f"[default {HOLD_FOR:g}]",
    }
    ORDER.add(group, abouts, "idle_flush")


def add_window_flags(parser: argparse.ArgumentParser, moving: bool = True) -> None:
    """Add the flags of windows; `moving`: also that of the moving window."""
    group = parser.add_argument_group(
        "kernel mismatch", "How badly the subspace fits the rows of a window."
    )
    group.add_argument(
        "--window",
        **SECONDS,
        help="Measure, in windows of this length, how badly each model fits its rows. The length "
        "is in event time; the measure is the kernel mismatch.",
    )
    group.add_argument(
        "--window-period",
        **SECONDS,
        help="Time from the start of a window to the start of the next. [default: the length]",
    )
    group.add_argument(
        "--window-offset", **SECONDS, help="Time at which one of the windows starts. [default 0]"
    )
    if not moving:
        parser.set_defaults(moving_window=None)
    WINDOWS.add(group, {}, *([] if moving else ["moving"]))


def _add_label_flags(
    parser: argparse.ArgumentParser, without: Mapping[str, str], labels: str
) -> None:
    group = parser.add_argument_group(
        "labels",
        f"The learner uses the --label column. Delayed labels, {labels}, are matched by device "
        "and row index or time.",
    )
    group.add_argument(
        "--label-index",
        metavar="COLUMN",
        help="Match delayed labels by the row index in this column. [default: by --time]",
    )
    group.add_argument(
        "--label-column",
        metavar="COLUMN",
        help="Column of the label among delayed labels. [default: --label, or label]",
    )
    abouts = {
        "wait": "Let rows wait this long, in event time, for their labels; then learn them in "
        "order. [default: no wait, labels come with the rows]",
        "most_rows": "Let at most this many rows of a device wait for labels; the oldest stop "
        f"waiting first. [default {MOST_WAITING} with --label-wait]",
    }
    LATE_LABELS.add(group, abouts)
    group.add_argument(
        "--metrics-window",
        **SECONDS,
        help="Write the learner's metrics for windows of this length. "
        f"[default: {without['metrics_window']}]",
    )


def _add_snapshot_flags(parser: argparse.ArgumentParser) -> Any:
    group = parser.add_argument_group("snapshots")
    group.add_argument(
        "--snapshot-every",
        **SECONDS,
        help="Also write snapshots at this interval. It is in event time; without it, only at "
        "the end.",
    )
    group.add_argument(
        "--warm-start",
        metavar="FOLDER",
        help="Continue from another run's snapshots. They are in DIR/snapshots.",
    )
    group.add_argument(
        "--start-from",
        metavar="FILE",
        help="Start models from these landmarks. `kerneltrack landmarks` writes them.",
    )
    group.add_argument(
        "--float32",
        action="store_true",
        help="Write the trackers' snapshots in single precision, at half the size.",
    )
    return group


def refuse_without(args: argparse.Namespace, flag: str, others: Sequence[str]) -> None:
    """Refuse a flag, given by its attribute, that says nothing without one of others.

    Raises:
        ConfigError: if it was given.
    """
    named = " or ".join("--" + other.replace("_", "-") for other in others)
    refuse(args, [flag], f"left out without {named}")
