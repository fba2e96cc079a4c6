"""Judge the episodes of a job on a made site, and pool what several sites came to.

An episode counts by its first line (when it was noticed, since when) and by the channel that its
last line names first. One that was noticed before its machine's fault is false; so is any on a
whole machine, but one within five days of an exchange of a sensor. Those noticed on a holiday or
the day after stand apart. A fault is found by an episode that was noticed after it began, with a
start no earlier than a day before it: one that is open when the fault comes does not find it. What
was noticed before a given day counts for nothing, but what stays open does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc
import pyarrow.dataset as ds
from scipy.stats import chi2

from benchmarks.site_truth import DAY, Fault, Site

TOGETHER = 3 * 3600
"""Seconds within which false episodes of several machines count once as common."""
_AFTER_CHANGE = 5 * DAY
_COLUMNS = ("model_id", "episode", "index", "start", "detected", "last", "state", "shares")


class Episode(NamedTuple):
    """An episode: since when, when it was noticed and ended (seconds), its first channel."""

    start: float
    noticed: float
    end: float
    channel: int


@dataclass
class Verdict:
    """What one site, or several, came to.

    Attributes:
        machines, armed: Machines, and those with p by the first day that counts.
        days, open_days: Of whole machines, and of these within an episode.
        alarms: False episodes.
        common: The same, counted once where machines share their hours.
        falsely: Machines with a false episode.
        on_holiday: Machines with an episode noticed on a holiday or the day after.
        delays: By kind, days from the first row that shows a fault until it was noticed; infinite
            where it was not.
        started, named: Of sudden faults that were found whether the start is within a day; of all
            found whether the right channel comes first.
    """

    machines: int = 0
    armed: int = 0
    days: float = 0.0
    open_days: float = 0.0
    alarms: int = 0
    common: int = 0
    falsely: int = 0
    on_holiday: int = 0
    delays: dict[str, list[float]] = field(default_factory=dict)
    started: list[bool] = field(default_factory=list)
    named: list[bool] = field(default_factory=list)

    def add(self, other: Verdict) -> None:
        """Pool another site's."""
        for name in ("machines", "armed", "alarms", "common", "falsely", "on_holiday"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.days += other.days
        self.open_days += other.open_days
        for kind, delays in other.delays.items():
            self.delays.setdefault(kind, []).extend(delays)
        self.started += other.started
        self.named += other.named

    @property
    def found(self) -> int:
        """Faults that were noticed."""
        return sum(bool(np.isfinite(delay)) for delays in self.delays.values() for delay in delays)

    @property
    def faults(self) -> int:
        """Faults that there were."""
        return sum(map(len, self.delays.values()))


def interval(count: int, level: float = 0.95) -> tuple[float, float]:
    """Return the exact interval of a Poisson mean (Garwood, Biometrika, 1936)."""
    tail = (1 - level) / 2
    low = float(chi2.ppf(tail, 2 * count)) / 2 if count else 0.0
    return low, float(chi2.ppf(1 - tail, 2 * count + 2)) / 2


def episodes_of(output: Path, last: float) -> dict[str, list[Episode]]:
    """Read a job's episodes by machine, in the order in which they were noticed.

    Args:
        output: The job's folder.
        last: The time of the last row, where an open episode ends.
    """
    table = ds.dataset(output / "episodes", format="parquet").to_table(columns=list(_COLUMNS))
    lines: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for line in table.sort_by([("index", "ascending")]).to_pylist():
        lines.setdefault((line["model_id"], line["episode"]), []).append(line)
    found: dict[str, list[Episode]] = {}
    for (machine, _), (first, *more) in lines.items():
        final = more[-1] if more else first
        end = last if final["state"] == "open" else final["last"].timestamp()
        episode = Episode(
            start=first["start"].timestamp(),
            noticed=first["detected"].timestamp(),
            end=end,
            channel=int(np.argmax(final["shares"])),
        )
        found.setdefault(machine, []).append(episode)
    for episodes in found.values():
        episodes.sort(key=lambda episode: episode.noticed)
    return found


def differences_of(
    output: Path, last: float, channels: tuple[str, ...]
) -> dict[str, list[Episode]]:
    """Read what differs by period (`--periods`) as episodes; arguments as of `episodes_of`."""
    lines = ds.dataset(output / "differences", format="parquet").to_table().to_pylist()
    found: dict[str, list[Episode]] = {}
    for line in sorted(lines, key=lambda line: line["noticed"]):
        if line["model_id"] is not None:
            start, noticed, end = (line[name].timestamp() for name in ("start", "noticed", "last"))
            end = last if line["state"] == "open" else end
            episode = Episode(start, noticed, end, channels.index(line["channel"]))
            found.setdefault(line["model_id"], []).append(episode)
    return found


def compared_at(output: Path, first: int) -> dict[str, float]:
    """Return when a device's periods are first compared: after its first days."""
    table = ds.dataset(output / "periods", format="parquet").to_table()
    table = table.group_by("model_id").aggregate([("start", "min")])
    names, times = table["model_id"].to_pylist(), table["start_min"].cast("int64").to_pylist()
    return {name: time / 1e9 + first * DAY for name, time in zip(names, times, strict=True)}


def armed_at(output: Path) -> dict[str, float]:
    """Return the time of each machine's first row with p."""
    rows = ds.dataset(output / "features", format="parquet")
    table = rows.to_table(columns=["model_id", "time"], filter=pc.field("p").is_valid())
    first = table.group_by("model_id").aggregate([("time", "min")])
    names, times = first["model_id"].to_pylist(), first["time_min"].to_pylist()
    return {name: when.timestamp() for name, when in zip(names, times, strict=True)}


class _Judged:
    """The verdict on one site in the making."""

    def __init__(self, site: Site, from_day: float, armed: dict[str, float]) -> None:
        times = site.rows["time"]
        self.site, self.armed = site, armed
        self.first = pc.min(times).as_py().timestamp() + from_day * DAY
        self.last = pc.max(times).as_py().timestamp()
        self.verdict = Verdict()
        self.noticed: list[float] = []

    def machine(self, name: str, episodes: Iterable[Episode]) -> None:
        """Judge the episodes of a machine."""
        fault, change = self.site.faults.get(name), self.site.changes.get(name)
        until = self.last if fault is None else fault.since
        armed = self.armed.get(name, np.inf)
        self.verdict.machines += 1
        self.verdict.armed += armed <= self.first
        self.verdict.days += max(0.0, until - max(self.first, armed)) / DAY
        delay = np.inf
        false = on_holiday = 0
        for episode in self._counted(episodes, change, until):
            if episode.noticed >= until:
                if fault is not None and delay == np.inf and episode.start >= until - DAY:
                    delay = (episode.noticed - fault.visible_since) / DAY
                    self._hit(fault, episode)
            elif self._on_holiday(episode):
                on_holiday = 1
            elif change is not None and 0 <= episode.noticed - change <= _AFTER_CHANGE:
                change = None
            else:
                false += 1
                self.noticed.append(episode.noticed)
        self.verdict.alarms += false
        self.verdict.falsely += false > 0
        self.verdict.on_holiday += on_holiday
        if fault is not None:
            self.verdict.delays.setdefault(fault.kind, []).append(delay)

    def _counted(
        self, episodes: Iterable[Episode], change: int | None, until: float
    ) -> Iterator[Episode]:
        """Yield the episodes that count, and add up how long a whole machine is in one."""
        for episode in episodes:
            meets = change is not None and (
                episode.start <= change + _AFTER_CHANGE and episode.end > change
            )
            if not meets:
                inside = min(episode.end, until) - max(episode.start, self.first)
                self.verdict.open_days += max(0.0, inside) / DAY
            if episode.noticed >= self.first:
                yield episode

    def _hit(self, fault: Fault, episode: Episode) -> None:
        # Behind the site's channels comes the outside temperature, which shows no fault.
        blamed = self.site.channels[episode.channel : episode.channel + 1]
        self.verdict.named.append(any(channel in fault.channels for channel in blamed))
        if fault.sudden:
            self.verdict.started.append(abs(episode.start - fault.visible_since) <= DAY)

    def _on_holiday(self, episode: Episode) -> bool:
        return any(begin <= episode.noticed < end + DAY for begin, end in self.site.holidays)

    def end(self) -> Verdict:
        """Return the verdict, false episodes counted as common, too."""
        before = -np.inf
        for noticed in sorted(self.noticed):
            self.verdict.common += noticed - before > TOGETHER
            before = noticed
        return self.verdict


def judge(site: Site, output: Path, from_day: float = 14, first: int | None = None) -> Verdict:
    """Judge a job on a site, from a day on.

    Args:
        site: What is true of it.
        output: The job's folder.
        from_day: The first day that counts.
        first: None: its episodes. Else what differs by period, compared after so many days.
    """
    last = pc.max(site.rows["time"]).as_py().timestamp()
    if first is None:
        return judge_episodes(site, episodes_of(output, last), armed_at(output), from_day)
    differences = differences_of(output, last, site.channels)
    return judge_episodes(site, differences, compared_at(output, first), from_day)


def judge_episodes(
    site: Site, episodes: dict[str, list[Episode]], armed: dict[str, float], from_day: float = 14
) -> Verdict:
    """Judge episodes of any detector, from a day on.

    Args:
        site: What is true of the machines.
        episodes: By machine, in the order in which they were noticed.
        armed: The time of each machine's first row that was judged, seconds.
        from_day: The first day that counts.
    """
    judged = _Judged(site, from_day, armed)
    for name in site.rows["machine"].unique().to_pylist():
        judged.machine(name, episodes.get(name, ()))
    return judged.end()
