"""A fleet's episodes as they stand, and as the columns of a frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from kerneltrack.fleet.devices import channel_text
from kerneltrack.fleet.model import Work
from kerneltrack.frames.table import FrameColumns
from kerneltrack.monitor.reference import Episode
from kerneltrack.monitor.reference.episodes import worst_first
from kerneltrack.monitor.reference.spec import LEAST_SHARE

FleetEpisode: TypeAlias = tuple[str, Episode]
"""A model's id, and an episode of it."""
_MOMENTS = (("start", "start", 0), ("detected", "opened", 1), ("last", "last", 3))
_MOST_CHANNELS = 3


def latest(episodes: Mapping[tuple[str, int], Episode], work: Work) -> list[FleetEpisode]:
    """Return all episodes as they stand, the worst first, those that are open before.

    Those that are muted come last.

    Args:
        episodes: By model and number.
        work: Says which of them count.
    """
    found = [(key, work.judged(key, each)) for (key, _), each in episodes.items()]
    return sorted(
        found,
        key=lambda one: (
            one[1].muted is not None,
            one[1].closed,
            *worst_first(one[1].kind, one[1].severity),
            one[0],
            one[1].number,
        ),
    )


def columns_of(
    found: Sequence[FleetEpisode], columns: FrameColumns | None, *, timed: bool, mutes: bool
) -> dict[str, Any]:
    """Return the columns of a frame with a line for each episode.

    Args:
        found: The episodes.
        columns: Those of the fleet's frames; None: they are not known yet.
        timed: Whether rows have times.
        mutes: Whether episodes may be muted.
    """
    moments: dict[str, Any] = {}
    # With the places of their times in `Episode.times`.
    for name, field, place in _MOMENTS:
        moments[f"{name}_index"] = [getattr(episode, field) for _, episode in found]
        if timed:
            stamps = np.array([episode.times[place] for _, episode in found], np.int64)
            moments[name] = stamps.view("datetime64[ns]")
    since = "start" if timed else "start_index"
    return {
        id_name(columns): [key for key, _ in found],
        since: moments.pop(since),
        "kind": [episode.kind for _, episode in found],
        "channels": [_channels(episode, columns) for _, episode in found],
        "state": [episode.state for _, episode in found],
        **({"muted": [each.muted for _, each in found]} if mutes else {}),
        "severity": [episode.severity for _, episode in found],
        "p": [episode.peak for _, episode in found],
        "episode": [episode.number for _, episode in found],
        **moments,
    }


def id_name(columns: FrameColumns | None) -> str:
    """Return the name of the column of models' ids."""
    return "model_id" if columns is None or columns.model_id is None else columns.model_id


def channel_names(columns: FrameColumns | None, count: int) -> list[str]:
    """Return the names of so many channels."""
    if columns is not None:
        return list(columns.features)
    return [f"channel {place}" for place in range(count)]


def _channels(episode: Episode, columns: FrameColumns | None) -> str:
    """Return the channels that an episode shows in, with their shares and deviations."""
    names = channel_names(columns, len(episode.shares))
    first = np.argsort(-episode.shares, kind="stable")[:_MOST_CHANNELS].tolist()
    parts = episode.shares.tolist(), episode.deviations.tolist()
    shown = [at for at in first if parts[0][at] >= LEAST_SHARE]
    return ", ".join(channel_text(names[at], *(part[at] for part in parts)) for at in shown)
