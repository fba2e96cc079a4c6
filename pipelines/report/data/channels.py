"""The channels around episodes of the drawn models, read from the inputs once more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.errors import DataError
from kerneltrack.monitor.reference.spec import LEAST_SHARE, STEADY
from pipelines.report.data.columns import times_of
from pipelines.report.data.episodes import Band
from pipelines.report.data.picked import picked_rows
from transforms.read.columns import Columns
from transforms.read.look import Input
from transforms.read.matrix import read_texts, to_matrix
from transforms.read.parse import parse

MOST_EPISODES = 3
"""Episodes of a model whose channels are shown, its worst."""
MOST_CHANNELS = 6
"""Channels of an episode that are shown: those with the largest shares of the blame."""
MOST_ROWS = 300
"""Rows of a channel that are shown; of longer stretches every k-th row."""
MOST_READ = 20_000_000
"""Rows of the inputs that are read again; episodes whose rows come later are left out."""
_MARGIN = 40
_UNBLAMED = 3


@dataclass(frozen=True)
class ChannelSpan:
    """Channels before, in and after an episode.

    Attributes:
        episode: Its number among the bands of its model.
        step: Every how many rows one is shown.
        row: Index of each row shown, shape (n,).
        time: Event times, ns, of these; None without times.
        names: The channels, those with most of the blame first.
        values: Shape (channels, n), NaN where a value is missing.
    """

    episode: int
    step: int
    row: IntArray
    time: IntArray | None
    names: list[str]
    values: FloatArray


@dataclass(frozen=True)
class Channels:
    """Stretches by model, an open episode first, and why there are none if they can't be read."""

    stretches: Mapping[str, Sequence[ChannelSpan]]
    trouble: str | None = None


@dataclass(frozen=True)
class _Wanted:
    model: str
    episode: int
    step: int
    row: IntArray
    channels: list[int]


def channels_of(
    paths: Sequence[str],
    timed: bool,
    inputs: Input,
    lengths: Mapping[str, int],
    bands: Mapping[str, Sequence[Band]],
) -> Channels:
    """Read the channels around the episodes of some models that are open, or the worst.

    The features tell which row of which file a model's row was; parts of the inputs that can be
    read by themselves and have none of the wanted rows are left alone.

    Args:
        paths: The files of the features.
        timed: Whether they have times.
        inputs: The files that the run read.
        lengths: The models, and the index after the last row of each.
        bands: Their episodes.

    Cost: O(rows) time; memory O(rows that are shown) and a batch of the inputs.
    """
    wanted = [
        _wanted(model, number, bands[model][number], length)
        for model, length in lengths.items()
        for number in _worst(bands.get(model, ()))
    ]
    if not wanted:
        return Channels({})
    rows: dict[str, IntArray] = {}
    for one in wanted:
        rows[one.model] = np.union1d(rows.get(one.model, np.zeros(0, np.int64)), one.row)
    found = picked_rows(paths, ["source", "row", *(["time"] if timed else [])], rows)
    places = _places(found, inputs)
    chosen = {
        model: sorted({c for one in wanted if one.model == model for c in one.channels})
        for model in places
    }
    try:
        if inputs.columns.partial and timed:
            values = _read_merged(inputs, found, places, chosen)
        else:
            values = _read(inputs, places, chosen)
    except DataError as error:
        return Channels({}, str(error))
    stretches: dict[str, list[ChannelSpan]] = {}
    for one in wanted:
        if one.model not in found:
            continue
        own = chosen[one.model], places[one.model]
        made = _stretch(one, found[one.model], *own, values, names_of(inputs.columns))
        if made is not None:
            stretches.setdefault(one.model, []).append(made)
    return Channels(stretches)


def names_of(columns: Columns) -> list[str]:
    """Return the channels' names, with the unit where values were read with one."""
    units = columns.units
    return [f"{name} [{units[name]}]" if name in units else name for name in columns.channels]


def _worst(bands: Sequence[Band]) -> list[int]:
    """Return the places of an open episode, of those that changed a model, and of the worst."""
    places = range(len(bands))
    order = sorted(places, key=lambda place: (_standing(bands[place]), -bands[place].severity))
    return order[:MOST_EPISODES]


def _standing(band: Band) -> int:
    return {"open": 0, STEADY: 1}.get(band.state, 2)


def _wanted(model: str, number: int, band: Band, length: int) -> _Wanted:
    """Choose rows, half as many before and after an episode as in it, and channels."""
    first, last = band.rows
    margin = max(_MARGIN, (last + 1 - first) // 2)
    begin, stop = max(0, first - margin), min(length, last + 1 + margin)
    step = max(1, -(-(stop - begin) // MOST_ROWS))
    order = np.argsort(-np.asarray(band.shares), kind="stable").tolist()
    blamed = [channel for channel in order if band.shares[channel] >= LEAST_SHARE]
    channels = blamed[:MOST_CHANNELS] or order[:_UNBLAMED]
    return _Wanted(model, number, step, np.arange(begin, stop, step), channels)


def _places(found: Mapping[str, pa.Table], inputs: Input) -> dict[str, IntArray]:
    """Return source and number in its file of each row found, -1 of files that are none of ours."""
    sources = {path: number for number, path in enumerate(inputs.paths)}
    places = {}
    for model, table in found.items():
        source = [sources.get(path, -1) for path in table.column("source").to_pylist()]
        places[model] = np.column_stack([source, table.column("row").to_numpy()]).astype(np.int64)
    return places


def _read(
    inputs: Input, places: Mapping[str, IntArray], chosen: Mapping[str, list[int]]
) -> dict[tuple[int, int], FloatArray]:
    """Return of each row the channels that are chosen of its model, by source and number there."""
    owner = {
        (source, row): chosen[model]
        for model, own in places.items()
        for source, row in own.tolist()
    }
    every = np.array(sorted(owner), dtype=np.int64).reshape(-1, 2)
    columns = inputs.columns
    requests = {feature.name: columns.requests[feature.name] for feature in columns.features}
    values: dict[tuple[int, int], FloatArray] = {}
    read = 0
    for source, info in enumerate(inputs.infos):
        own = every[every[:, 0] == source, 1]
        for piece in info.pieces:
            stop = np.inf if piece.rows is None else piece.first_row + piece.rows
            here = own[(own >= piece.first_row) & (own < stop)]
            if not len(here) or read >= MOST_READ:
                continue
            for rows in piece.read(requests):
                read += len(rows.row)
                kept = np.flatnonzero(np.isin(rows.row, here))
                if len(kept):
                    batch, _ = read_texts(rows.batch.take(pa.array(kept)), columns.features)
                    x = to_matrix(batch, columns.features, np.float64).astype(np.float64)
                    numbers = rows.row[kept].tolist()
                    for at, row in enumerate(numbers):
                        values[source, row] = x[at, owner[source, row]]
                if read >= MOST_READ or (len(rows.row) and rows.row[-1] >= here[-1]):
                    break
    return values


def _read_merged(
    inputs: Input,
    found: Mapping[str, pa.Table],
    places: Mapping[str, IntArray],
    chosen: Mapping[str, list[int]],
) -> dict[tuple[int, int], FloatArray]:
    """Return the same where rows of one model and time were merged: these are found by both."""
    place_of: dict[tuple[str, int], tuple[int, int]] = {}
    for model, table in found.items():
        stamps = times_of(table.column("time").combine_chunks()).tolist()
        pairs = zip(stamps, places[model].tolist(), strict=True)
        place_of |= {(model, time): (source, row) for time, (source, row) in pairs}
    every = np.array([time for _, time in place_of], dtype=np.int64)
    values: dict[tuple[int, int], FloatArray] = {}
    read = 0
    for source, info in enumerate(inputs.infos):
        for rows in info.read(inputs.columns.requests):
            good, _ = parse(rows, source, inputs.columns)
            read += len(rows.row)
            times = np.zeros(0, np.int64) if good.time is None else good.time
            for at in np.flatnonzero(np.isin(times, every)).tolist():
                model = good.models[good.model[at]]
                place = place_of.get((model, int(times[at])))
                if place is not None:
                    own = good.x[at, chosen[model]].astype(np.float64)
                    values[place] = np.where(np.isnan(own), values.get(place, own), own)
            if read >= MOST_READ:
                return values
    return values


def _stretch(
    wanted: _Wanted,
    table: pa.Table,
    chosen: list[int],
    places: IntArray,
    values: Mapping[tuple[int, int], FloatArray],
    names: Sequence[str],
) -> ChannelSpan | None:
    """Put a stretch together; None if a row of it that the features have was not read."""
    index = table.column("index").to_numpy()
    own = np.flatnonzero(np.isin(index, wanted.row))
    read = [values[source, row] for source, row in places[own].tolist() if (source, row) in values]
    if not read or len(read) < len(own):
        return None
    time = None
    if "time" in table.column_names:
        time = times_of(table.column("time").combine_chunks())[own]
    return ChannelSpan(
        wanted.episode,
        wanted.step,
        index[own],
        time,
        [names[channel] for channel in wanted.channels],
        np.stack(read)[:, [chosen.index(channel) for channel in wanted.channels]].T,
    )
