"""Streams with targets.

- cadata, cpusmall: as in `defaults_sets`;
- sarcos: the first torque of a robot's arm by its 21 positions, velocities and accelerations;
- gas: the concentration by the 128 features of gas sensors that drift.

And `HELD_OUT`, which nobody looked at while `auto` was made:

- friedman1 to 3 of scikit-learn, with noise; River's Friedman with local, global abrupt and global
  slow drift (lea, gra, gsg), planes2d and mv, 8,000 rows each;
- heart: the heart rate of PAMAP2 by 27 channels; elec: a price of elec2 by the other channels;
- skab, tep, gecco: one channel of a water loop, a chemical plant, drinking water, by the others;
- waterflow, trump: River's flow of a city's water by hour, weekday and minute, and an approval
  rating by polls, a thousand rows each.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy.io import loadmat
from sklearn.datasets import make_friedman1, make_friedman2, make_friedman3

from benchmarks.defaults_sets import whole
from benchmarks.places import DATA
from benchmarks.prequential_sets import Stream, channels_of, matrix_of

COUNT = 8_000
"""Rows of generated sets."""


def _sarcos() -> Stream:
    table = loadmat(DATA / "sarcos_inv_test.mat")["sarcos_inv_test"].astype(np.float64)
    return Stream(table[:, :21].copy(), table[:, 21].copy(), ())


def _gas() -> Stream:
    table = pq.read_table(DATA / "gas_drift.parquet")
    names = [f"f{place}" for place in range(1, 129)]
    return Stream(matrix_of(table, names), table["conc"].to_numpy().astype(np.float64), ())


SETS: dict[str, Callable[[], Stream]] = {
    "cadata": lambda: whole("cadata"),
    "cpusmall": lambda: whole("cpusmall"),
    "sarcos": _sarcos,
    "gas": _gas,
}


def _friedman(make: Callable[..., Any], **settings: Any) -> Stream:
    rows, targets = make(COUNT, random_state=0, **settings)
    return Stream(rows, targets, ())


def _of_river(pairs: Iterable[tuple[dict[str, Any], Any]]) -> Stream:
    """River's rows and targets; words are numbered in the order in which they come."""
    words: dict[str, int] = {}
    rows, targets = [], []
    for row, target in itertools.islice(pairs, COUNT):
        rows.append(
            [
                float(words.setdefault(value, len(words)))
                if isinstance(value, str)
                else float(value)
                for value in row.values()
            ]
        )
        targets.append(float(target))
    return Stream(np.array(rows), np.array(targets), ())


def _drifting(kind: str, *position: int) -> Stream:
    from river.datasets import synth  # noqa: PLC0415

    return _of_river(synth.FriedmanDrift(kind, position=position, transition_window=1_000, seed=1))


def _synthetic(name: str) -> Stream:
    from river.datasets import synth  # noqa: PLC0415

    return _of_river(getattr(synth, name)(seed=1))


def _waterflow() -> Stream:
    from river import datasets  # noqa: PLC0415

    pairs = list(datasets.WaterFlow())  # type: ignore[no-untyped-call]
    times = [row["Time"] for row, _ in pairs]
    rows = np.array([[time.hour, time.weekday(), time.minute] for time in times], np.float64)
    return Stream(rows, np.array([flow for _, flow in pairs], np.float64), ())


def _trump() -> Stream:
    from river import datasets  # noqa: PLC0415

    return _of_river(datasets.TrumpApproval())  # type: ignore[no-untyped-call]


def _channel(file: str, target: str, order: Sequence[str], without: Sequence[str] = ()) -> Stream:
    """One channel of a table by the others, in the order of some columns; rows with all of them."""
    table = pq.read_table(DATA / file)
    names = [
        name
        for name in channels_of(table)
        if name not in {target, "target", *order, *_MARKS, *without}
    ]
    for name in (*names, target):
        column = pc.fill_null(pc.cast(table[name], "float64"), float("nan"))
        table = table.filter(pc.is_finite(column))
    if order:
        table = table.sort_by([(name, "ascending") for name in order])
    return Stream(matrix_of(table, names), table[target].to_numpy().astype(np.float64), ())


_MARKS = ("train", "anomaly", "changepoint", "session_id", "id")
_IN_TIME = ("model_id", "time")
HELD_OUT: dict[str, Callable[[], Stream]] = {
    "friedman1": lambda: _friedman(make_friedman1, noise=1.0),
    "friedman2": lambda: _friedman(make_friedman2, noise=50.0),
    "friedman3": lambda: _friedman(make_friedman3, noise=0.1),
    "lea": lambda: _drifting("lea", 2_000, 4_000, 6_000),
    "gra": lambda: _drifting("gra", 3_000, 6_000),
    "gsg": lambda: _drifting("gsg", 3_000, 6_000),
    "planes2d": lambda: _synthetic("Planes2D"),
    "mv": lambda: _synthetic("Mv"),
    "heart": lambda: _channel("pamap2_fragment.parquet", "heartrate", ("activityID", "timestamp")),
    "elec": lambda: _channel("elec2.parquet", "feat_3", ()),
    "skab": lambda: _channel("anomaly/skab_valve1.parquet", "Thermocouple", _IN_TIME),
    "tep": lambda: _channel("anomaly/tep_odd.parquet", "x11", _IN_TIME),
    "gecco": lambda: _channel("anomaly/gecco.parquet", "Cl", _IN_TIME),
    "waterflow": _waterflow,
    "trump": _trump,
}
