"""The list of devices of which at most a stated share is false, as it is shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kerneltrack.errors import printable
from pipelines.report.data.files import read_lines
from pipelines.report.text import MOST_NAMED, counted, few, figure, natural
from transforms.outputs import LISTED


def listed_of(output: str, run: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the devices on the list of a run; None where no share was stated.

    Cost: O(devices that were off) time and memory.
    """
    if not run.get(LISTED):
        return None
    return frozenset(line["model_id"] for line in read_lines(output, LISTED) if line["listed"])


def listed_lines(output: str, run: Mapping[str, Any]) -> list[str]:
    """Return the list in words, with its first names; nothing where no share was stated."""
    names = listed_of(output, run)
    if names is None:
        return []
    told = f"listed: {listed_text(run[LISTED])}"
    shown = few([printable(name) for name in sorted(names, key=natural)], MOST_NAMED)
    return [f"{told}: {shown}" if names else told]


def listed_text(about: Mapping[str, Any]) -> str:
    """Return what is on the list, in words.

    Args:
        about: What the record says of it.

    Example:
        >>> about = {"share": 0.2, "devices": 100, "off": 3, "listed": 2, "by_chance": 0.07}
        >>> listed_text(about).partition("; ")[0]
        '2 of 3 devices that were off'
    """
    share, off = f"{100 * about['share']:.3g}%", counted(about["off"], "device")
    chance = f"by chance {figure(about['by_chance'])} of {counted(about['devices'], 'device')}"
    if not about["off"]:
        return "none, since no device was off"
    were = "was" if about["off"] == 1 else "were"
    if not about["listed"]:
        return (
            f"none of {off} that {were} off; {chance} would be, so more than {share} of a list "
            "could be false (a rarer rate, --reference-false-alarms, tells more)"
        )
    return (
        f"{about['listed']:,} of {off} that {were} off; at most {share} of a list are false on "
        f"average ({chance} would be off)"
    )
