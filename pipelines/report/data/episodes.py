"""Episodes as the report shows them: which models are off, the worst first, since when, and why."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kerneltrack.errors import printable
from kerneltrack.monitor.feedback import faults_of_run
from kerneltrack.monitor.likeness import KnownFault, like_of, like_text, named_channels
from kerneltrack.monitor.reference.episodes import signed, worst_first
from kerneltrack.monitor.reference.spec import AUTO, LEAST_SHARE, RECOVERED
from kerneltrack.monitor.spans import parse_span
from kerneltrack.paths import join
from pipelines.report.clock import UTC_CLOCK, SiteClock, clock_of, ns_of
from pipelines.report.data.alike import alike, alike_lines, devices_alike
from pipelines.report.data.files import column_names, parquet_files, read_lines
from pipelines.report.data.lasting import LastingChanges, Line
from pipelines.report.text import MOST_NAMED, and_more, counted, counts_of, few, natural
from transforms.outputs import EPISODES

MOST_LISTED = 1_000
"""Models that the table lists, those that are off most first."""
MOST_BANDS = 100
"""Episodes that are drawn on the curves of a model, its worst."""
MOST_CHANNELS = 3
_HOUR = 3_600_000_000_000
_LEAST_HOURS, _MANY_HOURS = 1, 36
"""A reference of so many hours at least, of a model that was seen for so many, misses a part of the
day; one of seconds is not meant to show a day."""
_TOGETHER_HOURS, _LEAST_TOGETHER, _PART_TOGETHER = 3, 3, 4
"""So many models at least, and one in so many, that go off within so many hours share a cause."""
_SHOWN_IN = 4
"""Rows of a memory to one false alarm, at least: the measured rates are right from there on."""
_JUDGED = ("model_id", "episode", "index", "kind", "muted")
_UNITS = ((24 * _HOUR, "days"), (_HOUR, "hours"), (_HOUR // 60, "minutes"))
"""Of the first one that rows cover two of, so much is said."""
_LATELY_DAYS = 30
"""The end of a job counts the episodes of so many last days, where its rows are of more."""


class Worst(NamedTuple):
    """A model's worst episode: since which row and when, and its kind, as of `Off`."""

    row: int
    start: int | None
    kind: str


@dataclass(frozen=True)
class Off:
    """A model that is or was off, with one episode, the one that `kerneltrack devices` names.

    That is the one that is open; else that with which it has changed to stay; else its worst.

    Attributes:
        model: Its ID.
        kind: "spike", "ramp", "stuck" or "shift".
        open: Whether the input ended within it.
        changed: Whether the device has changed to stay, and has not come back since.
        row: Index of the row since when.
        start: Event time of that row, ns; None without times.
        last: Event time of the last surprising row.
        last_row: Index of that row.
        severity: Sum of -log₁₀ p over the episode.
        channels: Names and shares of the channels, and how far they are above what is usual ("" if
            that is not known), the largest share first; empty if none stands out.
        further: How many more channels have a share.
        of: How many channels there are.
        episodes: How many episodes the model had.
        like: Which named episode of the run's feedback it is like, in words; "": none.
        worst: Its worst episode; None: that is this one.
    """

    model: str
    kind: str
    open: bool
    changed: bool
    row: int
    start: int | None
    last: int | None
    last_row: int
    severity: float
    channels: list[tuple[str, float, str]]
    further: int
    of: int
    episodes: int
    like: str = ""
    worst: Worst | None = None

    @property
    def what(self) -> str:
        """The kind, and what it is like."""
        return f"{self.kind}, {self.like}" if self.like else self.kind

    @property
    def where(self) -> str:
        """The channels in words."""
        if not self.channels:
            return "no single channel"
        if self.of > MOST_CHANNELS and len(self.channels) + self.further == self.of:
            return f"all channels, {self.channels[0][0]} first"
        names = ", ".join(name for name, *_ in self.channels)
        return f"{names} and {self.further} more" if self.further else names


@dataclass(frozen=True)
class Band:
    """An episode on the curves of its model: rows and times from its start to its last odd row.

    Attributes:
        kind: As of `Off`.
        state: "open", "closed", "steady" or "accepted".
        rows: Indices of the first and the last row.
        times: Event times, ns, of these; None without times.
        severity: As of `Off`.
        shares: The blame of each channel, 1 in all or 0 where none stands out.
    """

    kind: str
    state: str
    rows: tuple[int, int]
    times: tuple[int, int] | None
    severity: float
    shares: tuple[float, ...]


@dataclass(frozen=True)
class Episodes:
    """The models that are or were off.

    Attributes:
        models: How many.
        still: How many of them the input ended within an episode of.
        total: Episodes of all of them.
        worst: The first 100: those that are off, those that have changed to stay, the others; each
            in the order of `worst_first`, but what many have changed alike comes after the rest.
        together: The most models that went off within three hours of each other.
        together_at: Event time at which the first of these did, ns; None without times.
        pace: Event time from row to row, ns, in the longest episode; None without times.
        rows: Index of the newest row that an episode tells of.
        lately: Episodes that were noticed in the last 30 days of the run, and their models; None
            where its rows are of no more days.
        changed: How many of the models have changed to stay, and have not come back since.
        recovered: Models that came back to what was normal before a change that lasted, in the
            order of their names: that is no episode here.
        muted: Episodes that do not count, by the rule that mutes them: no episodes here.
        alike: Lines on models that are off, or have changed, in the same way.
    """

    models: int
    still: int
    total: int
    worst: list[Off]
    together: int = 0
    together_at: int | None = None
    pace: float | None = None
    rows: int = 0
    lately: tuple[int, int] | None = None
    recovered: tuple[str, ...] = ()
    changed: int = 0
    muted: Mapping[str, int] = field(default_factory=dict)
    alike: Sequence[str] = ()


def episodes_of(output: str, run: Mapping[str, Any]) -> Episodes | None:
    """Read the episodes of a run; None where rows were held against no reference.

    Cost: O(episodes) time, O(models that are off) memory.

    Args:
        output: The run's folder.
        run: Its `run.json`.
    """
    if not run.get("reference"):
        return None
    channels = list((run.get("columns") or {}).get("features") or [])
    back, muted = _not_off(output)
    worst: dict[str, Line] = {}
    newest: dict[str, Line] = {}
    seen: dict[str, set[int]] = {}
    noticed: list[tuple[int, str]] = []
    longest, pace, rows = 0, None, 0
    lasting = LastingChanges()
    for line in read_lines(output, EPISODES):
        lasting.add(line)
        model = line["model_id"]
        if (model, line["episode"]) in back or (model, line["episode"]) in muted:
            continue
        numbers = seen.setdefault(model, set())
        if line.get("detected") is not None and line["episode"] not in numbers:
            noticed.append((line["detected"], model))
        numbers.add(line["episode"])
        rows, length = max(rows, line["index"]), line["index"] - line["start_index"]
        if line.get("time") is not None and length > longest:
            longest, pace = length, (line["time"] - line["start"]) / length
        newest[model] = max(newest.get(model, line), line, key=_place)
        known = worst.get(model)
        if known is not None and known["episode"] == line["episode"]:
            later = line["index"] > known["index"]
        else:
            later = known is None or line["severity"] > known["severity"]
        if later:
            worst[model] = line
    changes, faults = lasting.now(), faults_of_run(run)
    found = []
    episodes: dict[str, KnownFault] = {}
    for model, numbers in seen.items():
        named = _named(newest[model], changes.get(model), worst[model], numbers)
        off = _off(named, channels, len(numbers), model in changes, worst[model])
        parts = named_channels(named["shares"], named["deviations"], channels)
        like = like_text(like_of(named["kind"], parts, faults))
        found.append(dataclasses.replace(off, like=like))
        episodes[model] = KnownFault("", model, named["kind"], parts)
    found.sort(key=lambda off: (*worst_first(off.kind, off.severity), natural(off.model)))
    groups = alike(episodes[off.model] for off in found if off.open or off.changed)
    many = devices_alike(groups)
    found.sort(key=lambda off: _rank(off, many))
    still = sum(off.open for off in found)
    total = sum(map(len, seen.values()))
    together, at = _together(sorted(noticed))
    lately = _lately(noticed, run.get("time_span"))
    recovered = tuple(sorted({model for model, _ in back}, key=natural))
    rules = dict(Counter(muted.values()).most_common())
    changed = len(changes.keys() - {off.model for off in found if off.open})
    about = (together, at, pace, rows, lately, recovered, changed, rules)
    return Episodes(len(found), still, total, found[:MOST_LISTED], *about, alike_lines(groups))


def _place(line: Line) -> tuple[int, int]:
    return line["episode"], line["index"]


def _named(newest: Line, change: Line | None, worst: Line, numbers: Collection[int]) -> Line:
    """Return which episode of a model is named, as its last line says; `numbers` are those of all.

    It is the one that `kerneltrack devices` names, where that names one.
    """
    if newest["state"] == "open":
        return newest
    return worst if change is None or change["episode"] not in numbers else change


def _rank(off: Off, many: Collection[str]) -> int:
    """Return where a model comes: off, changed to stay, well again; `many` have changed alike."""
    if off.open:
        return 0
    return (2 if off.model in many else 1) if off.changed else 3


def _not_off(output: str) -> tuple[set[tuple[str, int]], dict[tuple[str, int], str]]:
    """Return episodes in which devices are not off, by model, as their last lines say.

    Returns:
        Those that turned out to be a return to what was normal before, and the rule of each that is
        muted.
    """
    newest: dict[tuple[str, int], tuple[int, bool, str | None]] = {}
    names = column_names(parquet_files(output, EPISODES))
    for line in read_lines(output, EPISODES, [name for name in _JUDGED if name in names]):
        episode, index = (line["model_id"], line["episode"]), line["index"]
        known = newest.get(episode)
        if known is None or index >= known[0]:
            newest[episode] = index, line["kind"] == RECOVERED, line.get("muted")
    back = {episode for episode, (_, is_back, _) in newest.items() if is_back}
    return back, {episode: rule for episode, (*_, rule) in newest.items() if rule is not None}


def _together(noticed: Sequence[tuple[int, str]]) -> tuple[int, int | None]:
    """Return the most models that went off within three hours, and when the first of them did."""
    most, at, first = 0, None, 0
    within: Counter[str] = Counter()
    for time, model in noticed:
        within[model] += 1
        while time - noticed[first][0] > _TOGETHER_HOURS * _HOUR:
            within -= Counter([noticed[first][1]])
            first += 1
        if len(within) > most:
            most, at = len(within), noticed[first][0]
    return most, at


def _lately(
    noticed: Sequence[tuple[int, str]], span: Mapping[str, Any] | None
) -> tuple[int, int] | None:
    """Return how many episodes were noticed in the last 30 days of rows, and of how many models.

    `span` is from when to when rows are, as `run.json` has it; None where these are fewer days, or
    where rows of a wrong clock are far from the others.
    """
    if span is None or span["far"]:
        return None
    first, last = _ends(span)
    since = last - _LATELY_DAYS * 24 * _HOUR
    if since <= first:
        return None
    models = [model for time, model in noticed if time > since]
    return len(models), len(set(models))


def _ends(span: Mapping[str, Any]) -> tuple[int, int]:
    """Return from when to when rows are, ns."""
    return ns_of(span["first"]), ns_of(span["last"])


def bands_of(output: str, models: Iterable[str]) -> dict[str, list[Band]]:
    """Read the episodes of each of some models, in the order of their rows; its worst 100.

    Cost: O(episodes) time, O(models) memory.
    """
    found: dict[str, dict[int, dict[str, Any]]] = {name: {} for name in models}
    for line in read_lines(output, EPISODES):
        own = found.get(line["model_id"])
        if own is None:
            continue
        known = own.get(line["episode"])
        if known is None or line["index"] > known["index"]:
            own[line["episode"]] = line
        if len(own) > MOST_BANDS:
            del own[min(own, key=lambda number: _keeps(own[number]))]
    return {name: [_band(own[number]) for number in sorted(own)] for name, own in found.items()}


def _keeps(line: Mapping[str, Any]) -> tuple[bool, float]:
    return line["state"] == "open", line["severity"]


def _band(line: dict[str, Any]) -> Band:
    times = None if line.get("start") is None else (line["start"], line["last"])
    rows = line["start_index"], line["last_index"]
    return Band(line["kind"], line["state"], rows, times, line["severity"], tuple(line["shares"]))


def _off(line: Line, channels: list[str], episodes: int, changed: bool, worst: Line) -> Off:
    parts = zip(line["shares"], line["deviations"], channels, strict=True)
    blamed = sorted((each for each in parts if each[0] >= LEAST_SHARE), key=lambda each: -each[0])
    return Off(
        model=line["model_id"],
        kind=line["kind"],
        open=line["state"] == "open",
        changed=changed,
        row=line["start_index"],
        start=line.get("start"),
        last=line.get("last"),
        last_row=line["last_index"],
        severity=line["severity"],
        channels=[
            (name, share, "" if deviation is None else signed(deviation))
            for share, deviation, name in blamed[:MOST_CHANNELS]
        ],
        further=max(len(blamed) - MOST_CHANNELS, 0),
        of=len(channels),
        episodes=episodes,
        worst=None if line["episode"] == worst["episode"] else _worst(worst),
    )


def _worst(line: Line) -> Worst:
    return Worst(line["start_index"], line.get("start"), line["kind"])


def off_lines(output: str, run: Mapping[str, Any], why: str, *, own: bool = False) -> list[str]:
    """Return what the end of a job says of the models that are off, in a few lines.

    Args:
        output: The run's folder.
        run: Its `run.json`; `models_without_reference` are those of which nothing can be said.
        why: Why they have none.
        own: Whether each model's reference was made from the first rows of this run.
    """
    found, counts = episodes_of(output, run), run["counts"]
    if found is None:
        return []
    models, without = counts["models"], counts["models_without_reference"]
    clock, place = clock_of(run), join(output, EPISODES)
    lines = []
    if models > without or not models:
        lines = episode_lines(found, models - without, place, clock)
    lines += lately_lines(found)
    lines += day_lines(found, models - without, run["reference"], clock, own=own)
    if own and models > without:
        lines += early_lines(run) or moving_lines(run["reference"]) + rate_lines(run)
    if without:
        names = sorted(run["models_without_reference"], key=natural)
        named = few([printable(name) for name in names], MOST_NAMED, without)
        lines.append(f"without a reference: {without:,} of {models:,} devices ({why}): {named}")
    return lines


def episode_lines(
    found: Episodes, models: int, place: str, clock: SiteClock = UTC_CLOCK
) -> list[str]:
    """Return which models are off.

    Args:
        found: The models that are off.
        models: How many were compared with a reference.
        place: The folder that has all episodes.
        clock: By which times are shown.
    """
    if not found.models:
        return [f"none of {models:,} devices was off", *_others(found, place)]
    were = "was" if found.models == 1 else "were"
    lines = [f"{found.models:,} of {models:,} devices {were} off, {standing(found)}:"]
    for off in found.worst[:MOST_NAMED]:
        since, until = _since(off, clock), "" if off.open else _until(off, clock)
        lines.append(
            f"  {printable(off.model)}: since {since}{until}, {off.what}, {off.where}"
            f"{_of_several(off, clock)}"
        )
    return [*lines, *and_more(found.models, place), *found.alike, *_others(found, place)]


def _since(off: Off | Worst, clock: SiteClock) -> str:
    return f"row {off.row:,}" if off.start is None else clock.named(off.start)


def _of_several(off: Off, clock: SiteClock) -> str:
    """Return how many episodes a model had, and which was its worst."""
    if off.episodes == 1:
        return ""
    if off.worst is None:
        return f" (the worst of {off.episodes:,} episodes)"
    since, kind = _since(off.worst, clock), off.worst.kind
    return f" (of {off.episodes:,} episodes; the worst since {since}, {kind})"


def _others(found: Episodes, place: str) -> list[str]:
    """Return what there is beside devices that are off."""
    return [*_back_lines(found, place), *muted_lines(found.muted)]


def muted_lines(muted: Mapping[str, int]) -> list[str]:
    """Return how many episodes each rule mutes.

    Example:
        >>> muted_lines({"heat: up only": 3, "flow: by 2 or more": 1})
        ['muted: 4 episodes (heat: up only: 3, flow: by 2 or more: 1)']
    """
    if not muted:
        return []
    by_rule = [f"{printable(rule)}: {many:,}" for rule, many in muted.items()]
    many = counted(sum(muted.values()), "episode")
    return [f"muted: {many} ({few(by_rule[:MOST_NAMED], MOST_NAMED, len(muted))})"]


def _back_lines(found: Episodes, place: str) -> list[str]:
    """Return which models came back to what was normal before."""
    names = [printable(name) for name in found.recovered[:MOST_NAMED]]
    if not names:
        return []
    return [
        f"back to what was normal before a lasting change: {', '.join(names)}",
        *and_more(len(found.recovered), place),
    ]


def lately_lines(found: Episodes) -> list[str]:
    """Return how many alarms these settings would have meant of late."""
    if found.lately is None:
        return []
    many, models = found.lately
    if not many:
        return [f"the last {_LATELY_DAYS} days: no episode"]
    episodes, owners = counted(many, "episode"), counted(models, "device")
    return [f"the last {_LATELY_DAYS} days: {episodes} on {owners}"]


def day_lines(
    found: Episodes,
    models: int,
    reference: Mapping[str, Any],
    clock: SiteClock = UTC_CLOCK,
    *,
    own: bool = True,
) -> list[str]:
    """Return what the reference may not have seen of days and weeks, if there is a sign of it.

    What changes from noon to night, or at the weekend, is odd until a reference has seen it: then
    many models go off in the same hours.

    Args:
        found: The models that are off.
        models: How many were held against a reference.
        reference: The reference's settings, as `run.json` has them.
        clock: By which times are shown.
        own: Whether each model's reference was made from the first rows of this run.
    """
    if found.pace is None or found.pace * found.rows < _MANY_HOURS * _HOUR:
        return []
    lines = []
    if found.together >= _LEAST_TOGETHER and found.together * _PART_TOGETHER >= models:
        at = clock.named(found.together_at or 0)
        lines.append(
            f"{found.together:,} of {models:,} devices went off within {_TOGETHER_HOURS} hours "
            f"from {at} on: if they were healthy, what they share (the hour, the weekday, the "
            "weather) is new to the reference"
        )
    size, day = reference.get("rows"), math.ceil(24 * _HOUR / found.pace)
    hours = found.pace * (size or 0) / _HOUR
    if reference.get("learning") == AUTO:
        return lines
    if own and reference.get("until") is None and _LEAST_HOURS <= hours < 24:
        return [
            *lines,
            f"normal is what the first {size:,} rows showed, some {hours:.1f} hours: if it changes "
            f"with the time of day, give it whole days (--reference-rows {day})",
        ]
    if not lines:
        return []
    return [f"{lines[0]}: give it whole days, and weeks (--reference-rows {7 * day} is a week)"]


def goes_on(run: Mapping[str, Any]) -> bool:
    """Return whether references of a run may have seen rows before its own."""
    return "warm_start" in run or "reference_from" in run


def early_lines(run: Mapping[str, Any]) -> list[str]:
    """Return that the rows of a run are too few for a reference that moves, where they are."""
    reference, span = run.get("reference") or {}, run.get("time_span")
    if reference.get("learning") != AUTO or not span or span["far"] or goes_on(run):
        return []
    memory, (first, last) = parse_span("memory", str(reference["memory"])).time, _ends(span)
    if memory is None or last - first >= memory:
        return []
    covered = next(
        (
            f"{(last - first) * 10 // size / 10} {name}"
            for size, name in _UNITS
            if last - first >= 2 * size
        ),
        "a few minutes",
    )
    return [
        f"no device can be off yet: normal is what its last {printable(str(reference['memory']))} "
        f"showed (--reference-memory), and the rows cover {covered}; --reference first needs hours"
    ]


def moving_lines(reference: Mapping[str, Any]) -> list[str]:
    """Return what a reference that moves takes as normal, and from when on models can be off."""
    if reference.get("learning") != AUTO:
        return []
    memory = printable(str(reference["memory"]))
    return [f"normal is what a device's last {memory} showed: none can be off before that"]


def rate_lines(run: Mapping[str, Any]) -> list[str]:
    """Return that a reference that moves cannot keep so rare a rate, if it holds too few rows."""
    reference = run["reference"]
    if reference.get("learning") != AUTO:
        return []
    per, memory = (parse_span(name, str(reference[name])) for name in ("per", "memory"))
    if per.rows is None:
        return []
    rows = memory.rows
    if rows is None and memory.time is not None:
        rows = _rows_in(run, memory.time)
    each = per.rows / reference["false_alarms"]
    if rows is None or rows >= _SHOWN_IN * each:
        return []
    return [
        f"the rate of false alarms is not sure: one in {each:,.0f} rows was asked for, but the "
        f"{rows:,} rows of a device that are remembered (--reference-memory) can prove no rarer "
        f"one than one in {rows / _SHOWN_IN:,.0f}: look at those with the highest severity first, "
        "and compare with --periods day"
    ]


def span_judged(reference: Mapping[str, Any]) -> int:
    """Return the span of event time of which one row is judged, ns; 0 where all rows are."""
    every = reference.get("every")
    return 0 if every is None else parse_span("every", str(every)).time or 0


def _rows_in(run: Mapping[str, Any], time: int) -> int | None:
    """Return how many rows a device has in a time, ns; None where that is not known."""
    span, counts = run.get("time_span"), run["counts"]
    if not span or span["far"] or not counts["models"]:
        return None
    first, last = _ends(span)
    passed = max(last - first, 1)
    each: float = counts["rows_in"] / counts["models"]
    rows, every = round(each * min(time / passed, 1.0)), span_judged(run["reference"])
    return min(rows, time // every) if every else rows


def _until(off: Off, clock: SiteClock) -> str:
    if off.changed:
        return ", changed to stay"
    if off.last is None:
        return f" until row {off.last_row:,}"
    return f" until {clock.named(off.last)}"


def standing(found: Episodes) -> str:
    """Return how many of the models that were off still are, have changed, or are well again.

    Example:
        >>> standing(Episodes(15, 0, 22, [], changed=9))
        'none to the end, 9 changed to stay, 6 well again'
    """
    parts = {
        "to the end": found.still,
        "changed to stay": found.changed,
        "well again": found.models - found.still - found.changed,
    }
    for words, count in parts.items():
        if count == found.models:
            return words if count == 1 else f"all {words}"
    told = counts_of(parts)
    return ", ".join(told if found.still else ["none to the end", *told])
