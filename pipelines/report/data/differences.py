"""Differences by period as the report shows them: which devices, since when, and what all share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kerneltrack.errors import printable
from kerneltrack.monitor.periods.fleet import OPEN, Spell
from pipelines.report.data.files import read_lines
from pipelines.report.text import SECOND, moment, natural
from transforms.outputs import DIFFERENCES

MOST_LISTED = 100
"""Devices, and common causes, that the page lists."""
_DAY = 86_400_000_000_000
_WORDS = {
    ("level", True): "higher",
    ("level", False): "lower",
    ("movement", True): "less steady",
    ("movement", False): "steadier",
    ("repeats", True): "repeats its values",
    ("repeats", False): "repeats its values less",
}
"""What a difference is, in words."""


@dataclass(frozen=True)
class Difference:
    """A device that differs, its worst spell; or a change that many devices share.

    Attributes:
        model: Its ID; None: many devices.
        group: Of which group; None without groups.
        open: Whether it differs to the end.
        since: The first day.
        until: The last one.
        what: Channel and what of it, in words.
        score: How far, in usual deviations.
        changed: Devices that changed.
        of: Devices that there are.
        spells: How many the device had.
    """

    model: str | None
    group: str | None
    open: bool
    since: str
    until: str
    what: str
    score: float
    changed: int
    of: int
    spells: int = 1


@dataclass(frozen=True)
class Differences:
    """The devices of a run compared by period.

    Attributes:
        length: "day".
        judged: Devices that had past enough.
        total: Devices that differ.
        still: Those of them that do to the end.
        devices: The first 100, those that do to the end first, the furthest first.
        common: Changes that many share, in order of time, the first 100.
    """

    length: str
    judged: int
    total: int
    still: int
    devices: list[Difference]
    common: list[Difference]


def differences_of(output: str, run: Mapping[str, Any]) -> Differences | None:
    """Read what a run found by period; None where nothing was asked for.

    Cost: O(spells) time and memory.
    """
    record = run.get("differences")
    if not record:
        return None
    length = str(run["periods"]["length"])
    spells: dict[str, list[dict[str, Any]]] = {}
    common: list[Difference] = []
    for line in read_lines(output, DIFFERENCES):
        if line["model_id"] is None:
            common.append(_difference(line))
        else:
            spells.setdefault(line["model_id"], []).append(line)
    worst = [
        _difference(
            max(lines, key=lambda line: (line["state"] == OPEN, line["score"])),
            len(lines),
        )
        for lines in spells.values()
    ]
    worst.sort(key=lambda each: (not each.open, -each.score, natural(each.model or "")))
    still = sum(each.open for each in worst)
    return Differences(
        length, record["judged"], len(worst), still, worst[:MOST_LISTED], common[:MOST_LISTED]
    )


def lines_of_spells(spells: Iterable[Spell], channels: Sequence[str]) -> list[dict[str, Any]]:
    """Return spells as lines of `differences/`; times in ns."""
    return [
        {
            **spell._asdict(),
            "model_id": spell.model,
            "channel": channels[spell.channel],
            **{name: getattr(spell, name) * SECOND for name in ("start", "noticed", "last")},
        }
        for spell in spells
    ]


def differing_of(output: str, run: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the line of each device that differs to the end; none where nothing was asked for.

    Cost: O(spells) time, O(devices) memory.
    """
    if not run.get("differences"):
        return {}
    return {
        line["model_id"]: line
        for line in read_lines(output, DIFFERENCES)
        if line["model_id"] is not None and line["state"] == OPEN
    }


def causes_of(output: str, run: Mapping[str, Any]) -> list[str]:
    """Return a line for each common cause of the last period; none where nothing was asked for.

    Cost: O(spells) time.
    """
    return causes_now(read_lines(output, DIFFERENCES) if run.get("differences") else [])


def causes_now(lines: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a line for each common cause of the last period, of lines of `differences/`."""
    open_ones = (line for line in lines if line["model_id"] is None and line["state"] == OPEN)
    return [f"common cause: {cause_text(_difference(line))}" for line in open_ones]


def cause_text(each: Difference) -> str:
    """Return what a common cause has changed, for the end of a job and for `devices`."""
    place = f" of {printable(each.group)}" if each.group else ""
    return f"{each.changed:,} of {each.of:,} devices{place} changed on {each.since}: {each.what}"


def differing_channel(line: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the channel of a line of `differences/`, as the lines of devices name channels."""
    return [{"channel": line["channel"], "share": 1.0, "deviation": None}]


def _difference(line: Mapping[str, Any], spells: int = 1) -> Difference:
    return Difference(
        model=line["model_id"],
        group=line["group"],
        open=line["state"] == OPEN,
        since=_day(line["start"]),
        # The end of the last period is the beginning of another.
        until=_day(line["last"] - 1),
        what=f"{line['channel']} {_WORDS[line['number'], line['up']]}",
        score=line["score"],
        changed=line["changed"],
        of=line["of"],
        spells=spells,
    )


def _day(time: int) -> str:
    return moment(time - time % _DAY, to=SECOND).partition(" ")[0]
