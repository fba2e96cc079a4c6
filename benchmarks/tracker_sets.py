"""The streams of the trackers' table: rows in their order, or in a random one that a seed draws.

`watch_ordered`: six channels of a wrist sensor, every fifth row, that is 10 Hz; recordings (one
exercise of one subject) in a random order that a seed draws, each in its own. `watch_shuffled`:
rows drawn from all of them. `motionsense_1` to `_3`: one subject at 10 Hz (the first three by
name). `elec2` and `gas_drift` in their
order. `usps` and `a9a` in random order. Labels are those that the sets come with.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.places import DATA
from benchmarks.prequential_sets import SOURCES, Stream
from kerneltrack.arrays import FloatArray

EVERY = 5


def _coded(rows: FloatArray, labels: list[str]) -> Stream:
    classes, codes = np.unique(labels, return_inverse=True)
    return Stream(rows, codes.astype(np.int64), tuple(str(name) for name in classes))


def _sensor(table: pa.Table) -> Stream:
    names = [name for name in table.column_names if name not in ("model_id", "time", "label")]
    rows = np.column_stack([table[name].to_numpy().astype(np.float64) for name in names])
    return _coded(rows, [str(label) for label in table["label"].to_pylist()])


def _watch(path: Path, seed: int, count: int, shuffled: bool) -> Stream:
    table = pq.read_table(path)
    if shuffled:
        return _sensor(table.take(np.random.default_rng(seed).permutation(table.num_rows)[:count]))
    table = table.sort_by([("model_id", "ascending"), ("time", "ascending")])
    subject, exercise = (np.array(table[name].to_pylist()) for name in ("model_id", "label"))
    changes = (subject[1:] != subject[:-1]) | (exercise[1:] != exercise[:-1])
    recordings = np.split(np.arange(table.num_rows), np.flatnonzero(changes) + 1)
    drawn = np.random.default_rng(seed).permutation(len(recordings))
    return _sensor(table.take(np.concatenate([recordings[i][::EVERY] for i in drawn])[:count]))


def _subject(path: Path, _: int, count: int, place: int) -> Stream:
    table = pq.read_table(path)
    name = sorted(pc.unique(table["model_id"]).to_pylist())[place]
    table = table.filter(pc.equal(table["model_id"], name)).sort_by("time")
    return _sensor(table.take(np.arange(0, table.num_rows, EVERY)[:count]))


def _usps(path: Path, seed: int, count: int) -> Stream:
    with np.load(path) as arrays:
        parts = dict(arrays)
    rows = next(array for array in parts.values() if array.ndim == 2)
    labels = next(a for a in parts.values() if a.ndim == 1 and len(a) == len(rows))
    order = np.random.default_rng(seed).permutation(len(rows))[:count]
    return _coded(rows[order].astype(np.float64), [str(label) for label in labels[order]])


def _known(path: Path, seed: int, count: int, name: str) -> Stream:
    return SOURCES[name].read(path, seed).first(count)


Read = Callable[[Path, int, int], Stream]
SETS: dict[str, tuple[str, Read]] = {
    "watch_ordered": ("watch.parquet", partial(_watch, shuffled=False)),
    "watch_shuffled": ("watch.parquet", partial(_watch, shuffled=True)),
    "motionsense_1": ("motionsense.parquet", partial(_subject, place=0)),
    "motionsense_2": ("motionsense.parquet", partial(_subject, place=1)),
    "motionsense_3": ("motionsense.parquet", partial(_subject, place=2)),
    "elec2": ("elec2.parquet", partial(_known, name="elec2")),
    "gas_drift": ("gas_drift.parquet", partial(_known, name="gas_drift")),
    "usps": ("usps.npz", _usps),
    "a9a": ("a9a.libsvm.gz", partial(_known, name="a9a")),
}


def make(name: str, seed: int, count: int) -> Stream:
    """Return a set's first rows, or as many drawn from it."""
    file, read = SETS[name]
    return read(DATA / file, seed, count)
