"""What the folder of a run says of each of its devices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerneltrack.errors import ConfigError
from kerneltrack.fleet.devices import (
    CHANGED,
    LEARNING,
    NORMAL,
    OFF,
    QUIET,
    UNWATCHED,
)
from kerneltrack.monitor.likeness import named_channels
from kerneltrack.monitor.quiet import QuietTimes
from kerneltrack.monitor.reference.spec import AUTO, LEAST_MEMORY, OWN_MEMORY, RECOVERED
from kerneltrack.monitor.spans import parse_span
from pipelines.report.clock import iso
from pipelines.report.data.columns import array_of, model_numbers, times_of
from pipelines.report.data.differences import differing_channel, differing_of
from pipelines.report.data.episodes import goes_on, span_judged
from pipelines.report.data.files import (
    column_names,
    parquet_files,
    read_batches,
    read_lines,
)
from pipelines.report.data.lasting import LastingChanges
from pipelines.report.data.listed import listed_of
from pipelines.report.data.silent import silent_of
from transforms.outputs import EPISODES, FEATURES, SILENT

Line = dict[str, Any]
"""What is known of a device, as a message of a live job's devices topic has it."""

_TIMES = ("start", "detected", "last")
_OF_EPISODE = ("episode", "kind", "severity", "p")
_NO_EPISODE: Line = dict.fromkeys((*_OF_EPISODE, *(f"{name}_index" for name in _TIMES), *_TIMES))
_NO_TIME, _FAR = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_MUTED = "muted"
"""Field of lines where the run has rules or feedback."""
_GIVEN = "reference_from"


def lines_of_run(output: str, run: Mapping[str, Any]) -> list[Line]:
    """Return what is known of each device that has features, after its last row.

    The fields are those of the devices topic. `since` of a device without episodes is null. With
    a list of a stated false share there is `listed`, too: whether the device is on it.

    Args:
        output: The run's folder.
        run: Its record.

    Raises:
        DataError: if a file cannot be read.
        ConfigError: for a folder without features, such as that of `kerneltrack score`.

    Cost: O(rows) time, O(devices) memory.
    """
    paths = parquet_files(output, FEATURES)
    names = column_names(paths)
    if "index" not in names:
        raise ConfigError("DIR", output, "the folder of a `kerneltrack track`, with features")
    every = span_judged(run.get("reference") or {})
    newest = _NewestLine("time" in names, "p" in names, every)
    for batch in read_batches(paths, newest.columns):
        newest.add(batch)
    episodes, changed = newest_episodes(output)
    silent, by_day = silent_of(output, run), differing_of(output, run)
    still = {each.model for each in silent.devices if each.until is None} if silent else set()
    lines = []
    for row in newest.rows():
        name = row["model_id"]
        line = _line(run, row, episodes.get(name), changed.get(name))
        if name in by_day and line["state"] not in (OFF, CHANGED):
            line = differs_by(line, by_day[name], run["periods"]["length"])
        lines.append(line)
    _mark_quiet(run, newest.rows(), lines)
    lines = [_silent(line) if line["model_id"] in still else line for line in lines]
    listed = listed_of(output, run)
    if listed is None:
        return lines
    return [{**line, "listed": line["model_id"] in listed} for line in lines]


def _mark_quiet(run: Mapping[str, Any], rows: Iterator[Line], lines: Sequence[Line]) -> None:
    """Give devices that are not off the state of those whose last row is not judged.

    It is of a quiet time, or does not meet the condition.
    """
    quiet = QuietTimes.from_dict(run["quiet"]) if run.get("quiet") else None
    has_condition = (run.get("reference") or {}).get("only_while") is not None
    for row, line in zip(rows, lines, strict=True):
        is_quiet = has_condition and row["idle"]
        if quiet is not None and not is_quiet:
            is_quiet = bool(quiet.is_quiet(row["model_id"], np.array([row["time"]]))[0])
        if is_quiet and line["state"] != OFF:
            line["state"] = QUIET


def differs_by(line: Line, differs: Line, length: str) -> Line:
    """Return the line of a device that differs by period to the end: it has changed, at least.

    Args:
        line: What is known of it; it is neither off nor changed.
        differs: Its line of `differences/`.
        length: "day".
    """
    return {
        **_without_episode(line),
        "state": CHANGED,
        "since_index": None,
        "since": iso(differs["start"]),
        "kind": f"by {length}",
        "channels": differing_channel(differs),
    }


def _silent(line: Line) -> Line:
    """Return the line of a device that is silent: off since its last row, if it was not before."""
    if line["state"] == OFF:
        return line
    return {
        **_without_episode(line),
        "state": OFF,
        "since_index": line["rows"] - 1,
        "since": line["time"],
        "kind": SILENT,
        "channels": [],
    }


def _without_episode(line: Line) -> Line:
    return {**line, **_NO_EPISODE, **({_MUTED: None} if _MUTED in line else {})}


def calibrated_from(run: Mapping[str, Any]) -> str | None:
    """Return until when the devices of a run calibrate: a time or a row; None if it varies."""
    reference = run.get("reference")
    if not reference or reference.get("learning") == AUTO:
        return None
    until = reference.get("until")
    return str(until) if until is not None else f"row {reference['rows']:,}"


class _NewestLine:
    """The newest row of each model, filled batch by batch.

    It counts as scored if one of its span is, where one row of each span is judged: `every`, ns,
    0 where all rows are.
    """

    def __init__(self, has_time: bool, has_p: bool, every: int) -> None:
        self._has_time, self._has_p, self._every = has_time, has_p, every
        self._models: dict[str, int] = {}
        self._index: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self._time, self._scored = np.zeros(0, np.int64), np.zeros(0, bool)
        self._ever_scored, self._scored_time = np.zeros(0, bool), np.zeros(0, np.int64)
        self._first_time: npt.NDArray[np.int64] = np.zeros(0, np.int64)

    @property
    def columns(self) -> list[str]:
        """Columns that it reads."""
        asked = {"time": self._has_time, "p": self._has_p}
        return ["model_id", "index", *(name for name, there in asked.items() if there)]

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows, in any order."""
        model, index = model_numbers(batch, self._models), array_of(batch, "index")
        fresh = len(self._models) - len(self._index)
        if fresh:
            self._index = np.append(self._index, np.full(fresh, -1))
            self._time = np.append(self._time, np.zeros(fresh, np.int64))
            self._scored = np.append(self._scored, np.zeros(fresh, bool))
            self._ever_scored = np.append(self._ever_scored, np.zeros(fresh, bool))
            self._scored_time = np.append(self._scored_time, np.full(fresh, _NO_TIME))
            self._first_time = np.append(self._first_time, np.full(fresh, _FAR))
        order = np.lexsort((index, model))
        last = order[np.append(model[order][1:] != model[order][:-1], True)]
        last = last[index[last] > self._index[model[last]]]
        self._index[model[last]] = index[last]
        if self._has_time:
            times = times_of(batch.column("time"))
            self._time[model[last]] = times[last]
            np.minimum.at(self._first_time, model, times)
        if self._has_p:
            scored = np.isfinite(array_of(batch, "p"))
            self._scored[model[last]] = scored[last]
            self._ever_scored[model[scored]] = True
            if self._every:
                np.maximum.at(self._scored_time, model[scored], times[scored])

    def rows(self) -> Iterator[Line]:
        """Yield each model's newest row."""
        for name, place in self._models.items():
            time = int(self._time[place]) if self._has_time else None
            index, scored = int(self._index[place]), bool(self._scored[place])
            if self._every and time is not None:
                newest = int(self._scored_time[place])
                scored = scored or newest // self._every == time // self._every
            idle = bool(self._ever_scored[place]) and not scored
            row: Line = {"model_id": name, "index": index, "time": time}
            row["span"] = None if time is None else time - int(self._first_time[place])
            yield row | {"scored": scored, "idle": idle}


def newest_episodes(output: str) -> tuple[dict[str, Line], dict[str, Line]]:
    """Return the last line of the last episode of each model, and that with which it changed."""
    found: dict[str, Line] = {}
    lasting = LastingChanges()
    for line in read_lines(output, EPISODES):
        lasting.add(line)
        known = found.get(line["model_id"])
        if known is None or _place(line) > _place(known):
            found[line["model_id"]] = line
    return found, {name: dict(line) for name, line in lasting.now().items()}


def _place(line: Line) -> tuple[int, int]:
    return line["episode"], line["index"]


def _line(run: Mapping[str, Any], row: Line, newest: Line | None, changed: Line | None) -> Line:
    """Return a device's line, with its newest episode, or that with which it has changed."""
    has_time = row["time"] is not None
    state = _state(run, row, newest, changed)
    episode = changed if state == CHANGED else newest
    line: Line = {"model_id": row["model_id"], "state": state}
    line["rows"] = row["index"] + 1
    at: dict[str, tuple[int | None, int | None]] = {}
    if episode is None:
        at["since"] = None, None
    elif state in (OFF, CHANGED):
        at["since"] = episode["start_index"], episode.get("start")
    else:
        at["since"] = episode["index"], episode.get("time")
    for name in _TIMES:
        known = episode or {}
        at[name] = known.get(f"{name}_index"), known.get(name)
    if has_time:
        line["time"] = iso(row["time"])
    line |= _moments("since", at["since"], has_time)
    line["episodes"] = 0 if newest is None else newest["episode"]
    line |= {name: None if episode is None else _number(episode[name]) for name in _OF_EPISODE}
    if run.get("rules") or run.get("feedback") is not None:
        line[_MUTED] = (episode or {}).get(_MUTED)
    for name in _TIMES:
        line |= _moments(name, at[name], has_time)
    channels = (run.get("columns") or {}).get("features") or []
    line["channels"] = None
    if episode is not None:
        parts = episode["shares"], episode["deviations"]
        line["channels"] = named_channels(*parts, channels)
    return line


def _state(run: Mapping[str, Any], row: Line, episode: Line | None, changed: Line | None) -> str:
    if episode is not None and episode["state"] == "open":
        return NORMAL if episode["kind"] == RECOVERED or episode.get("muted") else OFF
    if changed is not None:
        return CHANGED
    if row["scored"] and (episode is not None or _spans_memory(run, row)):
        return NORMAL
    return LEARNING if run.get("reference") and not run.get(_GIVEN) else UNWATCHED


def _spans_memory(run: Mapping[str, Any], row: Line) -> bool:
    """Return whether a device's rows span what a reference that moves remembers.

    Before, no episode can open. Of rows that go on from earlier ones it is not known.
    """
    reference = run.get("reference") or {}
    if reference.get("learning") != AUTO or goes_on(run):
        return True
    memory = parse_span("memory", str(reference["memory"]))
    rows = memory.rows or (LEAST_MEMORY if row["span"] is not None else OWN_MEMORY)
    if span_judged(reference) == 0 and row["index"] + 1 < rows:
        return False
    return memory.time is None or row["span"] is None or bool(row["span"] >= memory.time)


def _moments(name: str, at: tuple[int | None, int | None], has_time: bool) -> Line:
    index, time = at
    moment = {name: None if time is None else iso(time)} if has_time else {}
    return {f"{name}_index": index, **moment}


def _number(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
