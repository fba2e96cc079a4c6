"""What a fleet keeps beside its snapshots: names of columns, settings, and rows that wait."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.errors import DataError, KerneltrackError
from kerneltrack.frames.reading import FrameReading
from kerneltrack.frames.table import LIBRARIES, FrameColumns
from kerneltrack.jump_limits import JUMP_ROWS, MOST_JUMP_ROWS
from kerneltrack.limits import TIME_LIMIT
from kerneltrack.monitor.clocks import is_zone
from kerneltrack.number_texts import NumberTexts

COLUMNS = "columns.json"
"""The file, in the folder of the snapshots."""
COLUMNS_VERSION = 5
"""4 said neither whether times have a zone, nor of which library the frames were."""
MAX_JUMP = 1e8
"""Seconds, about three years: a step that no device makes whose clock is right."""


class WaitingRows(NamedTuple):
    """Rows of a model that has not begun."""

    x: FloatArray
    time: IntArray | None
    label: Sequence[Any] | None

    def take(self, places: IntArray) -> WaitingRows:
        """Return the rows at these places."""
        label = None if self.label is None else [self.label[at] for at in places.tolist()]
        return WaitingRows(self.x[places], None if self.time is None else self.time[places], label)


class Ahead(NamedTuple):
    """What is kept of a model's rows that are further ahead than `max_jump`.

    Attributes:
        reach: Longest step, ns, that the model's own rows have shown to be no jump.
        rows: Those that wait for others to agree, in order; None if there are none.
    """

    reach: int
    rows: WaitingRows | None

    @property
    def times(self) -> tuple[int, ...]:
        """Their times, ns."""
        if self.rows is None or self.rows.time is None:
            return ()
        return tuple(self.rows.time.tolist())

    def of_targets(self) -> Ahead:
        """Return the same with NaN for labels that are missing, as targets have it."""
        if self.rows is None or self.rows.label is None:
            return self
        labels = [math.nan if label is None else float(label) for label in self.rows.label]
        return self._replace(rows=self.rows._replace(label=labels))


class KeptFleet(NamedTuple):
    """What a fleet or a job left beside its snapshots.

    Attributes:
        reading: How frames are read.
        max_jump: Seconds that a row may be ahead.
        jump_rows: Rows that confirm a jump.
        ahead: Rows that wait ahead, by model.
        library: Of the frames; empty: there were none.
        frame_zone: Zone of the last frame's times; None: they had none.
    """

    reading: FrameReading
    max_jump: float = MAX_JUMP
    jump_rows: int = JUMP_ROWS
    ahead: Mapping[str, Ahead] = {}
    library: str = ""
    frame_zone: str | None = None

    def encode(self) -> bytes:
        """Write it as a fleet's file."""
        own = self.reading
        text = {
            "version": COLUMNS_VERSION,
            **({} if own.columns is None else own.columns._asdict()),
            "time_unit": own.unit,
            "time_zone": own.zone,
            "wait": own.wait,
            "words": {name: list(pair) for name, pair in own.texts.words.items()},
            "units": dict(own.texts.units),
            "thousands": own.texts.thousands,
            "decimal": own.texts.decimal,
            "max_jump": None if self.max_jump == math.inf else self.max_jump,
            "jump_rows": self.jump_rows,
            "zoned": own.zoned,
            "library": self.library,
            "frame_zone": self.frame_zone,
            "ahead": {key: _ahead_as_json(each) for key, each in self.ahead.items()},
        }
        return json.dumps(text, allow_nan=False).encode()


def read_columns(folder: Path) -> KeptFleet | None:
    """Return what a fleet or a job left by snapshots: columns, unit and zone of times.

    Args:
        folder: Of snapshots.

    Raises:
        DataError: for a file that neither has written.
    """
    for path, read in ((folder / COLUMNS, _of_fleet), (folder.parent / "run.json", _of_job)):
        if path.is_file():
            try:
                return read(json.loads(path.read_bytes()))
            except (
                *(AttributeError, LookupError, TypeError, ValueError, OverflowError),
                KerneltrackError,
            ) as error:
                reason = f"not what a fleet or a job wrote: {error}"
                raise DataError(str(path), reason) from error
    return None


def _of_fleet(text: Mapping[str, Any]) -> KeptFleet:
    if text["version"] != COLUMNS_VERSION:
        raise ValueError(f"version {text['version']!r}: this code reads {COLUMNS_VERSION}")
    own = {**text, "features": tuple(text["features"])}
    named = FrameColumns(*(own[name] for name in FrameColumns._fields))
    jump, rows = text["max_jump"], text["jump_rows"]
    if type(rows) is not int or not 1 <= rows <= MOST_JUMP_ROWS:
        raise ValueError(f"jump_rows = {rows!r}")
    if jump is not None and not (type(jump) in (int, float) and 0 <= jump < math.inf):
        raise ValueError(f"max_jump = {jump!r}")
    zoned, zone, library = text["zoned"], text["frame_zone"], text["library"]
    if zoned not in (None, True, False):
        raise ValueError(f"zoned = {zoned!r}")
    if library not in ("", *LIBRARIES):
        raise ValueError(f"library = {library!r}")
    if zone is not None and not is_zone(zone):
        raise ValueError(f"frame_zone = {zone!r}")
    texts = NumberTexts(_pairs(text["words"]), text["units"], text["thousands"], text["decimal"])
    unit, own_zone, wait = text["time_unit"], text["time_zone"], bool(text["wait"])
    return KeptFleet(
        FrameReading(named, unit, own_zone, zoned, texts, wait),
        math.inf if jump is None else float(jump),
        rows,
        {
            key: _ahead_of_json(each, len(named.features), rows)
            for key, each in text["ahead"].items()
        },
        library,
        zone,
    )


def _of_job(text: Mapping[str, Any]) -> KeptFleet:
    columns = text["columns"]
    label = columns["label"] if text["learner"] else None
    long = columns.get("metric"), columns.get("value")
    features = tuple(columns["features"])
    named = FrameColumns(columns["model_id"], columns["time"], label, features, *long)
    times = text.get("times") or {}
    # Numbers that a format reads, such as 20260301, count in no unit.
    unit = times.get("unit") if times.get("format") is None else None
    texts = NumberTexts(_pairs(columns.get("words", {})), columns.get("units", {}))
    zone = times.get("zone")
    reading = FrameReading(named, unit, zone or "UTC", texts=texts, of_job=True)
    return KeptFleet(reading, frame_zone=zone)


def _pairs(words: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(pair) for name, pair in words.items()}


def _ahead_as_json(ahead: Ahead) -> dict[str, Any]:
    rows = ahead.rows
    if rows is None or rows.time is None:
        return {"reach": ahead.reach, "rows": None}
    labels = None
    if rows.label is not None:
        labels = [None if label != label else label for label in rows.label]  # noqa: PLR0124
    kept = {"time": rows.time.tolist(), "x": rows.x.tolist(), "label": labels}
    return {"reach": ahead.reach, "rows": kept}


def _ahead_of_json(text: Mapping[str, Any], width: int, jump_rows: int) -> Ahead:
    reach, kept = text["reach"], text["rows"]
    if type(reach) is not int or not 0 <= reach <= 2 * TIME_LIMIT:
        raise ValueError(f"reach = {reach!r}")
    if kept is None:
        return Ahead(reach, None)
    time = np.array(kept["time"])
    x, labels = np.array(kept["x"], np.float64), kept["label"]
    many = 0 < len(time) and time.dtype == np.int64 and (np.abs(time) <= TIME_LIMIT).all()
    if not many or (np.diff(time) < 0).any() or x.shape != (len(time), width):
        raise ValueError("rows that wait have no times in order, or other channels")
    if not np.isfinite(x).all() or (labels is not None and len(labels) != len(time)):
        raise ValueError("rows that wait have a value or label missing")
    return Ahead(reach, WaitingRows(x, time, labels))
