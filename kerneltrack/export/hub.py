"""A fleet as a folder for the Hugging Face Hub: snapshots, and a card that says what they hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

import kerneltrack
from kerneltrack.errors import printable
from kerneltrack.frames.fleet import Fleet
from kerneltrack.snapshots.files import write_whole

CARD = "README.md"
MOST_NAMED = 20
"""Models, channels and classes that the card names."""


def write_hub(fleet: Fleet, folder: str) -> None:
    """Write a fleet's snapshots with a model card.

    `kt.Fleet.load` takes what `huggingface_hub.snapshot_download` brings back.

    Args:
        fleet: What waits to begin does so.
        folder: Where to: empty, or not there.

    Raises:
        ConfigError: for a folder that holds something.
        OSError: if a file cannot be written.
    """
    fleet.save(folder)
    write_whole(str(Path(folder) / CARD), card_of(fleet).encode())


def card_of(fleet: Fleet) -> str:
    """Return the model card: metadata in YAML, then what is in the folder in words."""
    learner = fleet.learner
    tags = ["kerneltrack", "time-series", "anomaly-detection", "online-learning", "kernel-methods"]
    about: dict[str, Any] = {"library_name": "kerneltrack", "tags": tags}
    if learner is not None:
        task = "classification" if learner.classifies else "regression"
        about["pipeline_tag"] = f"tabular-{task}"
    head: str = yaml.safe_dump(about, sort_keys=False)
    return f"---\n{head}---\n\n" + "\n".join(_text(fleet))


def _text(fleet: Fleet) -> list[str]:
    count, stored = len(fleet), fleet.stored_rows
    lines = [
        f"# {count:,} kerneltrack models",
        "",
        "> **This folder holds rows of the data.** Each model keeps some of its rows as they were "
        "(standardised; the means and deviations that undo it are there too): "
        f"{stored:,} rows in all, plus those of its reference. It names devices and classes. "
        "Publish it only if you may publish these.",
        "",
        "Made by `kerneltrack export --to huggingface`, "
        f"version {kerneltrack.__version__}: one small model a device, each learned from that "
        "device's rows in the order of their times.",
        "",
        "| | |",
        "|---|---|",
        _settings("tracker", fleet.tracker.to_dict()),
    ]
    if fleet.learner is not None:
        lines.append(_settings("learner", fleet.learner.to_dict()))
    if fleet.reference is not None:
        lines.append(_settings("reference", fleet.reference.to_dict()))
    lines.append(f"| models | {_named(list(fleet))} |")
    columns = fleet.columns
    if columns is not None:
        lines.append(f"| channels | {_named(columns.features)} |")
        others = [name for name in (columns.model_id, columns.time) if name is not None]
        if others:
            lines.append(f"| id, time | {_named(others)} |")
    if fleet.accuracy is not None and fleet.learner is not None:
        kind = "right" if fleet.learner.classifies else "root of the mean squared error"
        text = "as rows came, each predicted before it was learned from; not on rows kept apart"
        lines.append(f"| {kind} | {fleet.accuracy:.4g}, {text} |")
    return [
        *lines,
        "",
        "## Use",
        "",
        "```python",
        "import kerneltrack as kt",
        "",
        'fleet = kt.Fleet.load("FOLDER")  # as `huggingface_hub.snapshot_download` gives it',
        "fleet.score(rows)  # a data frame with the columns above; nothing is learned",
        "fleet.update(rows)  # the same, and the models go on learning",
        "```",
        "",
        "## Limits",
        "",
        "A model describes the device from whose rows it was learned, and no other. Rows unlike "
        "all earlier rows are odd; a class without any label is never predicted. The files are "
        "safetensors with a JSON header, without pickle.",
        "",
    ]


def _settings(role: str, values: dict[str, Any]) -> str:
    """Return a line of the table: what plays a role, and its settings that are not None."""
    rest = ", ".join(
        f"{name} {value}" for name, value in values.items() if name != role and value is not None
    )
    name = "" if values[role] == role else f"{values[role]}: "
    return f"| {role} | {_cell(name + rest)} |"


def _named(names: Any) -> str:
    shown = ", ".join(_cell(name) for name in list(names)[:MOST_NAMED])
    return shown if len(names) <= MOST_NAMED else f"{shown} and {len(names) - MOST_NAMED:,} more"


def _cell(text: Any) -> str:
    """Return a text for a table's cell: names come from data."""
    shown = printable(str(text)).replace("\\", "\\\\")
    for mark in "|`*_[]<>":
        shown = shown.replace(mark, "\\" + mark)
    return shown
