"""Single series: the reference beside sub-PCA and sub-kNN, detectors of windows of a period.

    python -m benchmarks.bench_series

NAB, and the files of UCR that are among those of TSB-AD. All are fitted to the normal part, with
one setting for all series, and score the rest; ROC-AUC and AP of rows, means over the series.
Windows are as long as the period, which is found in the normal part; sub-kNN is the distance from
the tenth nearest window of that part. Both at once, smoothed by .1 (`~`), and as the score of the
row in the middle of the window, which is known half a window later; the reference at once and
settled, which is known 20 rows later. `auto` has a memory as long as the normal part.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.neighbors import NearestNeighbors

from benchmarks.bench_detection import (
    lagged,
    of_middle_rows,
    pca,
    smoothed,
    standardised,
)
from benchmarks.bench_episodes import WINDOWED_COLUMNS, period
from benchmarks.bench_tsbad import files
from benchmarks.detection_sets import Recording, recordings
from benchmarks.record import Table
from kerneltrack.arrays import FloatArray
from kerneltrack.monitor import reference
from kerneltrack.monitor.reference import ReferenceSpec
from kerneltrack.monitor.reference.spec import LEAST_MEMORY

NEIGHBOURS = 10


def series(name: str) -> Iterator[Recording]:
    """Give the series of a set that have odd rows and usual ones after the normal part."""
    every = recordings("nab") if name == "NAB" else _of_ucr()
    for recording in every:
        if 0 < recording.odd[recording.train :].mean() < 1:
            yield recording


def _of_ucr() -> Iterator[Recording]:
    for file in files():
        if "_UCR_" in file.name:
            yield Recording(file.name, file.rows, file.train, file.odd, np.arange(len(file.rows)))


def nearest(rows: FloatArray, train: int) -> FloatArray:
    """Distance from the tenth nearest row of the normal part."""
    known = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(rows[:train])
    return np.asarray(known.kneighbors(rows)[0][:, -1])


PEERS: dict[str, Callable[[FloatArray, int], FloatArray]] = {"sub-PCA": pca, "sub-kNN": nearest}


def of_middles(scores: FloatArray, length: int) -> FloatArray:
    """Give the row in the middle of each window its score; the last rows that of the last one."""
    late = length // 2
    return np.asarray(np.r_[scores[late:], np.repeat(scores[-1], late)])


def ours_of(train: int) -> dict[str, ReferenceSpec]:
    """Return the references that score a series."""
    first = ReferenceSpec(rows=train)
    auto = ReferenceSpec(learning="auto", memory=f"{max(train, LEAST_MEMORY)} rows")
    return {
        "reference": first,
        "reference, windows": dataclasses.replace(first, window="auto"),
        "auto": auto,
        "auto, windows": dataclasses.replace(auto, window="auto"),
    }


def found(recording: Recording) -> dict[str, FloatArray]:
    """Return the scores of a series' rows by detector."""
    train = recording.train
    scores = {}
    for name, spec in ours_of(train).items():
        state = reference.init(spec, recording.rows[: min(spec.rows, train)])
        _, ours, _ = reference.update(spec, state, recording.rows, recording.times)
        scores[name] = ours.score
        scores[f"{name}, settled"] = of_middle_rows(ours.settled)
    plain = standardised(recording.rows, train)
    length = min(period(plain, train), WINDOWED_COLUMNS, train // 4)
    windows = lagged(plain, length)
    for name, peer in PEERS.items():
        each = peer(windows, train)
        scores[name] = each
        scores[f"{name} ~"] = np.r_[np.zeros(train), smoothed(each[train:])]
        scores[f"{name}, middle"] = of_middles(each, length)
    return scores


def judged(recording: Recording, scores: FloatArray) -> tuple[float, float]:
    """ROC-AUC and AP of scores on what is not the normal part."""
    odd, rest = recording.odd[recording.train :], np.nan_to_num(scores[recording.train :])
    return float(roc_auc_score(odd, rest)), float(average_precision_score(odd, rest))


def main() -> int:
    """Print and write the table."""
    heads, cells = [""], dict[str, list[str]]()
    for name in ("NAB", "UCR"):
        every = list(series(name))
        figures: dict[str, list[tuple[float, float]]] = {}
        for recording in every:
            for key, scores in found(recording).items():
                figures.setdefault(key, []).append(judged(recording, scores))
        heads += [f"{name}, {len(every)}: ROC-AUC", "AP"]
        for key, each in figures.items():
            cells.setdefault(key, []).extend(f"{mean:.3f}" for mean in np.mean(each, axis=0))
    table = Table("reference", "series", heads)
    for key, row in cells.items():
        table.add(key, *row)
    return 0


if __name__ == "__main__":
    sys.exit(main())
