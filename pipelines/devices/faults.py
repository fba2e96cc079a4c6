"""The file of `devices --faults`: episodes that people know the cause of, and names for others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kerneltrack.errors import ConfigError, printable
from kerneltrack.fleet.devices import CHANGED, OFF
from kerneltrack.monitor import feedback
from kerneltrack.monitor.likeness import KnownFault, like_of, named_channels
from pipelines.cli.entries_file import MOST_BYTES, named_by, read_entries
from pipelines.report.data.files import read_lines, read_run
from transforms.outputs import EPISODES

Line = dict[str, Any]
_Episode = tuple[str, int]
"""A device, and the number of its episode."""

_NEEDED = ("name", "device", "episode")
FIELDS = (*_NEEDED, "run")
_VERDICT = "verdict"
"""Field of feedback alone."""
_FIELDS_OF_BOTH = tuple(dict.fromkeys((*FIELDS, *feedback.FIELDS)))
_COLUMNS = ("model_id", "episode", "index", "kind", "shares", "deviations")
_EXAMPLE = "{name: bearing, device: pump-7, episode: 1}"


def read_faults(path: str, folder: str | None) -> list[KnownFault]:
    """Return the known faults of a file, with what their runs say of them.

    Args:
        path: A CSV file (.csv) with the columns name, device, episode and, for an episode of
            another run, run: its folder; or a YAML file with a list of them. Or feedback, of which
            the real ones with a name count.
        folder: The run of the lines that name none; None: each must name one.

    Raises:
        DataError: if it cannot be read, or a line says something else or names an episode that its
            run does not have: by its line or entry.
    """
    with named_by(path):
        entries = read_entries(path, MOST_BYTES, _FIELDS_OF_BOTH, _NEEDED[:2], _EXAMPLE)
        if not entries:
            raise ConfigError("entries", 0, "one at least")
        if any(_VERDICT in entry for _, entry in entries if isinstance(entry, Mapping)):
            return feedback.named_faults(feedback.checked_feedback(entries))
        named = [(where, _checked(where, entry, folder)) for where, entry in entries]
        asked: dict[str, set[_Episode]] = {}
        for _, entry in named:
            asked.setdefault(entry["run"], set()).add((entry["device"], entry["episode"]))
        episodes = {run: _episodes_of(run, own) for run, own in asked.items()}
        return [_fault(where, entry, episodes[entry["run"]]) for where, entry in named]


def with_names(lines: Sequence[Line], faults: Sequence[KnownFault]) -> list[Line]:
    """Return the lines of devices, each with the fault that its episode is most like, or null."""
    return [{**line, "like": _like(line, faults)} for line in lines]


def _like(line: Line, faults: Sequence[KnownFault]) -> Line | None:
    if line["state"] not in (OFF, CHANGED) or not line["channels"]:
        return None
    return like_of(line["kind"], line["channels"], faults)


def _checked(where: str, entry: Any, folder: str | None) -> dict[str, Any]:
    if not isinstance(entry, Mapping) or not {*_NEEDED} <= {*entry} <= {*FIELDS}:
        raise ConfigError(where, entry, f"a mapping with {', '.join(_NEEDED)}, and perhaps run")
    texts = {name: str(entry[name] or "").strip() for name in entry}
    for name in ("name", "device"):
        if not texts[name]:
            raise ConfigError(f"{where}, {name}", entry[name], "a text")
    if not texts["episode"].isdecimal():
        raise ConfigError(f"{where}, episode", entry["episode"], "the number of an episode, from 1")
    run = texts.get("run") or folder
    if run is None:
        raise ConfigError(f"{where}, run", None, "the folder of the run that has the episode")
    return {**texts, "episode": int(texts["episode"]), "run": run}


def _episodes_of(run: str, asked: Collection[_Episode]) -> dict[_Episode, Line]:
    """Return the newest line of each of some episodes of a run, with its channels by name."""
    channels = (read_run(run).get("columns") or {}).get("features") or []
    found: dict[_Episode, Line] = {}
    for line in read_lines(run, EPISODES, _COLUMNS):
        key = line["model_id"], line["episode"]
        if key in asked and (key not in found or line["index"] >= found[key]["index"]):
            parts = line["shares"], line["deviations"]
            found[key] = {**line, "channels": named_channels(*parts, channels)}
    return found


def _fault(where: str, entry: Mapping[str, Any], found: Mapping[_Episode, Line]) -> KnownFault:
    device, number = entry["device"], entry["episode"]
    line = found.get((device, number))
    if line is None:
        allowed = f"one of {printable(device)} in {printable(entry['run'])}"
        raise ConfigError(f"{where}, episode", number, allowed)
    return KnownFault(entry["name"], device, line["kind"], line["channels"])
