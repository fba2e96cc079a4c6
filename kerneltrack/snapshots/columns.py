"""Trackers' states decoded many at a time: what `codec.decode` checks, of whole columns at once.

Where anything is wrong with one of them all are left out: who decodes them one by one learns which
it is, and why. The headers differ in what they say of their model; the rest is read once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack import codec
from kerneltrack.errors import DataError
from kerneltrack.registry import get_tracker
from kerneltrack.trackers.common.spec import SubspaceSpec

_BEGIN = '{"about": '
_about = json.JSONDecoder().raw_decode


class _Rest(NamedTuple):
    """What headers say but for `about`: the settings, and all that stands there."""

    spec: SubspaceSpec
    header: Mapping[str, Any]


def decode_columns(
    texts: Sequence[str], columns: dict[str, npt.NDArray[Any]], own: bool = False
) -> list[codec.Snapshot | None]:
    """Decode states of trackers, nothing beside them.

    Args:
        texts: Their headers, m of them.
        columns: Their arrays by name, (m, ...).
        own: Whether the job itself wrote them; see `codec.decode`.

    Returns:
        A snapshot each, as `codec.decode` gives it, but that its arrays are parts of larger ones;
        None of those among which `codec.decode` may refuse one.
    """
    found: list[codec.Snapshot | None] = [None] * len(texts)
    abouts: list[Any] = [None] * len(texts)
    alike: dict[str, list[int]] = {}
    for place, text in enumerate(texts):
        try:
            if text.startswith(_BEGIN):
                abouts[place], end = _about(text, len(_BEGIN))
                if isinstance(abouts[place], dict):
                    alike.setdefault(text[end:], []).append(place)
        except (ValueError, RecursionError):
            continue
    for rest, places in alike.items():
        known = _rest_of(rest)
        if known is None:
            continue
        whole = len(places) == len(texts)
        own_columns = columns if whole else {name: part[places] for name, part in columns.items()}
        states = _states(known.spec, own_columns, own)
        for place, state in zip(places, states, strict=True):
            if state is not None:
                header = {"about": abouts[place], **known.header}
                found[place] = codec.Snapshot(known.spec, state, header, {})
    return found


def beside_each(stored: Sequence[bytes]) -> list[dict[str, npt.NDArray[Any]] | None]:
    """Decode what lies beside m states, safetensors each: those of the same layout at once.

    Returns:
        Arrays by name, parts of larger ones; None of those that `codec.parts_of` may refuse.
    """
    found: list[dict[str, npt.NDArray[Any]] | None] = [None] * len(stored)
    alike: dict[tuple[bytes, int], list[int]] = {}
    for place, data in enumerate(stored):
        head = data[: 8 + int.from_bytes(data[:8], "little")]
        alike.setdefault((head, len(data)), []).append(place)
    for (head, size), places in alike.items():
        try:
            first = codec.parts_of(stored[places[0]], headed=False)[1]
        except DataError:
            continue
        if not all(name.startswith(codec.EXTRA) for name in first):
            continue
        ends, layout = len(head), json.loads(head[8:])
        whole = np.frombuffer(b"".join([stored[place] for place in places]), np.uint8)
        whole = whole.reshape(len(places), size)
        columns = {}
        for name, one in first.items():
            begin, end = layout[name]["data_offsets"]
            column = whole[:, ends + begin : ends + end].view(one.dtype)
            # Where one is of single precision, its neighbours need not begin at a multiple of 8.
            column = np.require(column, requirements="A").reshape(len(places), *one.shape)
            columns[name[len(codec.EXTRA) :]] = column
        for at, place in enumerate(places):
            found[place] = {name: column[at] for name, column in columns.items()}
    return found


def _states(
    spec: SubspaceSpec, columns: dict[str, npt.NDArray[Any]], own: bool
) -> Sequence[Any | None]:
    """Return m states, parts of their columns; None of all where one of them may be damaged."""
    count = len(next(iter(columns.values()), ()))
    try:
        whole = get_tracker(spec.tracker).from_arrays(spec, columns, (count,))
        codec.check_room(whole, own)
    except codec.DAMAGES:
        return [None] * count
    return [*map(type(whole)._make, zip(*whole, strict=True))]


@lru_cache(maxsize=64)
def _rest_of(text: str) -> _Rest | None:
    """Return what a tracker's header says after `about`; None if anything about it is odd."""
    name = "header"
    try:
        header = codec.header_of(codec.TRACKER, f"{_BEGIN}{{}}{text}", name)
        if header.pop("about"):
            return None  # It stands there twice: the last one counts.
        return _Rest(codec.tracker_spec(header), header)
    except DataError:
        return None
