"""A fleet to try things on: made pumps, a few of which break, and real recordings.

    python samples/fleet.py FOLDER [--pumps 240]

writes `rows.parquet`, rows of 240 pumps and four people's wrists, each a motion sensor with the
channels ax, ay, az, wx, wy and wz; and `labels.parquet`, what the people did, of every second row:
labels that come late, from a file of their own. The pumps are made from a seed. The wrists are
those of `watch.parquet` beside this file, every tenth row, their exercises in turns, as many rows
as a pump has.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

FloatArray = npt.NDArray[np.float64]

CHANNELS = ("ax", "ay", "az", "wx", "wy", "wz")
BROKEN = ("shift", "ramp", "spike", "stuck")
SEED, ROWS = 1, 1_000
"""Of the fleet that is written: a row a minute."""
MODES = 0.1
"""Share of the pumps that change between two modes."""
SINCE = 700
"""Row from which a broken pump is broken."""

BEGIN = np.datetime64("2026-03-01T00:00", "ms")
MINUTE = np.timedelta64(60_000, "ms")
WATCH = Path(__file__).parent / "watch.parquet"
_EVERY, _TURN, _LABELLED = 10, 36, 2


class Pump(NamedTuple):
    """A made pump: rows, and what is wrong with it: kind, channels, since which row."""

    rows: FloatArray
    kind: str | None
    channels: tuple[int, ...]
    since: int


def pumps(
    count: int, seed: int = 0, rows: int = 1_200, width: int = 6, many: int | None = None
) -> Iterator[Pump]:
    """Yield pumps: so many are broken, or one in sixty; a tenth change between two modes.

    They may change, and do so from the start.
    """
    rng = np.random.default_rng(seed)
    some = max(count // 60, 1) if many is None else many
    broken = set(rng.choice(count, some, replace=False).tolist())
    for number in range(count):
        time = np.arange(rows)[:, None]
        waves = np.hstack([np.sin(time / 23 + rng.uniform(0, 6)), np.cos(time / 7)])
        data = waves @ rng.normal(size=(2, width)) + 0.3 * rng.normal(size=(rows, width))
        if rng.uniform() < MODES:
            data += np.sign(np.sin(time / 40)) * rng.normal(size=width)
        if number not in broken:
            yield Pump(data, None, (), 0)
            continue
        kind = BROKEN[int(rng.integers(len(BROKEN)))]
        channels = tuple(sorted(rng.permutation(width)[: rng.integers(1, 4)].tolist()))
        deviation = data[:512].std(axis=0)
        for channel in channels:
            size = rng.choice([-1, 1]) * deviation[channel]
            if kind == "shift":
                data[SINCE:, channel] += 4 * size
            elif kind == "ramp":
                data[SINCE:, channel] += np.linspace(0, 12, rows - SINCE) * size
            elif kind == "spike":
                data[SINCE : SINCE + 2, channel] += 25 * size
            else:
                data[SINCE:, channel] = data[SINCE, channel]
        yield Pump(data, kind, channels, SINCE)


def wrists(path: Path = WATCH) -> Iterator[tuple[str, FloatArray, npt.NDArray[Any]]]:
    """Yield name, rows (n, 6) and labels (n,) of each person's wrist.

    A recording is one exercise on one side. They take turns of 36 rows, so that the first rows
    show all that a person does.
    """
    watch = pq.read_table(path)
    person = watch["model_id"].to_numpy(zero_copy_only=False)
    for name in dict.fromkeys(person.tolist()):
        own = watch.filter(pa.array(person == name))
        rows = np.stack([np.asarray(own[c].to_numpy(), float) for c in CHANNELS], axis=1)
        labels = own["label"].to_numpy(zero_copy_only=False)
        edges = np.flatnonzero(labels[1:] != labels[:-1]) + 1
        recordings = [part[::_EVERY] for part in np.split(np.arange(len(rows)), edges)]
        turns = max(len(part) for part in recordings) // _TURN
        order = np.concatenate(
            [
                part[turn * _TURN : (turn + 1) * _TURN]
                for turn in range(turns)
                for part in recordings
                if len(part) >= (turn + 1) * _TURN
            ]
        )
        yield name.replace("subject", "wrist"), rows[order], labels[order]


def tables(count: int = 240) -> tuple[pa.Table, pa.Table]:
    """Return the rows of a fleet with so many pumps, by time, and the labels."""
    found = [
        (f"pump-{number:03}", pump.rows) for number, pump in enumerate(pumps(count, SEED, ROWS))
    ]
    labels = []
    for name, recorded, answers in wrists():
        # As long as the pumps, so that a picture of all over time is filled.
        rows, said = recorded[:ROWS], answers[:ROWS]
        found.append((name, rows))
        at = np.arange(0, len(rows), _LABELLED)
        times = pa.array(BEGIN + at * MINUTE)
        labels.append(pa.table({"device": [name] * len(at), "time": times, "label": said[at]}))
    parts = []
    for name, rows in found:
        columns = {channel: rows[:, place] for place, channel in enumerate(CHANNELS)}
        times = pa.array(BEGIN + np.arange(len(rows)) * MINUTE)
        parts.append(pa.table({"device": [name] * len(rows), "time": times, **columns}))
    by_time = [("time", "ascending"), ("device", "ascending")]
    return pa.concat_tables(parts).sort_by(by_time), pa.concat_tables(labels).sort_by(by_time)


def main() -> None:
    """Write the two files."""
    parser = argparse.ArgumentParser(description="Write a fleet to try things on.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pumps", type=int, default=240, help="made pumps, one at the least")
    args = parser.parse_args()
    if args.pumps < 1:
        parser.error(f"--pumps = {args.pumps}: must be one at the least")
    args.folder.mkdir(parents=True, exist_ok=True)
    rows, labels = tables(args.pumps)
    pq.write_table(rows, args.folder / "rows.parquet")
    pq.write_table(labels, args.folder / "labels.parquet")


if __name__ == "__main__":
    main()
