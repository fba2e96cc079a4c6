"""Labelled recordings, each with a part that is normal, and what counts as an event of one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.places import DATA
from kerneltrack.arrays import BoolArray, FloatArray, IntArray

SETS = {
    "skab": "skab_valve1",
    "tep": "tep_odd",
    "asd": "asd_given",
    "smd": "smd_given",
    "gecco": "gecco",
    "smap": "smap",
    "nab": "nab",
}
NOT_CHANNELS = {"model_id", "time", "train", "anomaly", "changepoint"}


class Recording(NamedTuple):
    """One device: rows (n, D), how many of them from the start are normal, which are odd, times."""

    name: str
    rows: FloatArray
    train: int
    odd: BoolArray
    times: IntArray


def recordings(name: str) -> Iterator[Recording]:
    """Give the recordings of a set."""
    table = pq.read_table(DATA / "anomaly" / f"{SETS[name]}.parquet")
    models = np.array(table["model_id"].to_pylist())
    channels = [column for column in table.column_names if column not in NOT_CHANNELS]
    rows = np.column_stack([table[column].to_numpy().astype(np.float64) for column in channels])
    train = table["train"].to_numpy(zero_copy_only=False).astype(bool)
    odd = table["anomaly"].to_numpy(zero_copy_only=False).astype(bool)
    times = table["time"].cast(pa.timestamp("ns")).to_numpy().astype(np.int64)
    for model in dict.fromkeys(models.tolist()):
        own = models == model
        yield Recording(model, rows[own], int(train[own].sum()), odd[own], times[own])


def events(odd: BoolArray) -> list[tuple[int, int]]:
    """First and last row of each event."""
    edges = np.diff(np.r_[False, odd, False].astype(int))
    firsts, lasts = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - 1
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))
