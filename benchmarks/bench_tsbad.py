"""Files of TSB-AD: VUS-PR of one setting, at once and settled, beside each published figure.

    python -m benchmarks.bench_tsbad

A file `NNN_SET_id_K_Domain_tr_T_1st_F.csv` has channels and `Label`. The reference is made from
rows [0, T), at its defaults and with a view of windows besides, and all rows are scored; those that
it learned unseen count as usual.
Two files of SMD are parts of recordings that are here in full. VUS-PR goes over buffers of up to a
period: the highest local maximum of the first channel's autocorrelation, lags 3 to 300 of its
first 20,000 rows, else 125 (Q. Liu, J. Paparrizos, "The elephant in the room: towards a reliable
time-series anomaly detection benchmark", NeurIPS 2024, and the authors' code). Only methods that
were published for all of the files that are compared have a mean.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.signal import argrelextrema

from benchmarks.bench_detection import of_middle_rows, volume_under_pr
from benchmarks.detection_sets import recordings
from benchmarks.places import DATA
from benchmarks.record import Table
from kerneltrack.arrays import BoolArray, FloatArray
from kerneltrack.monitor import reference
from kerneltrack.monitor.reference import ReferenceSpec

FOLDER = DATA / "tsbad"
OF_SMD = {
    "machine-1-2": ("057_SMD_id_1_Facility_tr_4529_1st_4629.csv", 4529),
    "machine-2-1": ("063_SMD_id_7_Facility_tr_5923_1st_6506.csv", 5923),
}
"""Files that are the test parts of these machines."""
WINDOWS = {"": None, "windows, ": "auto"}
"""References by their heads in the table, and the windows that they have."""
SHORTEST, LONGEST, MOST_LAGS, NO_PERIOD, MOST_ROWS = 3, 300, 400, 125, 20_000


class File(NamedTuple):
    """Rows (n, D), how many of them may be fitted to, and which are odd."""

    name: str
    rows: FloatArray
    train: int
    odd: BoolArray


def files() -> Iterator[File]:
    """Give the files that are here."""
    for path in sorted(FOLDER.glob("*_tr_*.csv")):
        table = np.genfromtxt(path, delimiter=",", skip_header=1)
        found = re.search(r"_tr_(\d+)_", path.name)
        if found is None:
            raise ValueError(f"{path.name}: no rows to fit to in the name")
        yield File(path.name, table[:, :-1], int(found[1]), table[:, -1] > 0)
    for recording in recordings("smd"):
        if recording.name in OF_SMD:
            name, train = OF_SMD[recording.name]
            rest = slice(recording.train, None)
            yield File(name, recording.rows[rest], train, recording.odd[rest])


def period(series: FloatArray) -> int:
    """Return the lag at which a series is most like itself."""
    series = series[:MOST_ROWS] - series[:MOST_ROWS].mean()
    spectrum = np.fft.rfft(series, 2 * len(series))
    like = np.fft.irfft(np.abs(spectrum) ** 2)[SHORTEST : MOST_LAGS + 1]
    peaks = argrelextrema(like, np.greater)[0]
    at = int(peaks[like[peaks].argmax()]) if len(peaks) else 0
    return at + SHORTEST if SHORTEST <= at <= LONGEST else NO_PERIOD


def published() -> dict[str, dict[str, float]]:
    """Return the published VUS-PR by file and method."""
    found: dict[str, dict[str, float]] = {}
    with (FOLDER / "published.csv").open(encoding="utf-8") as lines:
        for line in csv.DictReader(lines):
            found.setdefault(line["file"], {})[line["method"]] = float(line["VUS-PR"])
    return found


def ours(file: File) -> list[float]:
    """Return the VUS-PR of the scores of each reference, at once and settled."""
    most, found = period(file.rows[:, 0]), []
    for window in WINDOWS.values():
        spec = ReferenceSpec(rows=file.train, window=window)
        state = reference.init(spec, file.rows[: file.train])
        _, scores, _ = reference.update(spec, state, file.rows)
        for values in (scores.score, of_middle_rows(scores.settled)):
            # Rows without a score are those that it was made from.
            found.append(volume_under_pr(file.odd, np.nan_to_num(values, nan=1.0), most))
    return found


def main() -> int:
    """Print and write the table."""
    known, own = published(), []
    columns = ["file", *(f"{name}{kind}" for name in WINDOWS for kind in ("at once", "settled"))]
    columns += ["best published", "KMeansAD", "PCA, sub-PCA"]
    table = Table("reference", "tsbad", columns)
    compared = []
    for file in files():
        found, others = ours(file), known[file.name]
        own.append(found)
        compared.append(others)
        best = max(others, key=lambda method: others[method])
        pca = others.get("PCA", others.get("Sub-PCA", float("nan")))
        cells = [f"{value:.3f}" for value in found]
        cells += [f"{others[best]:.3f} ({best})", f"{others['KMeansAD']:.3f}", f"{pca:.3f}"]
        table.add(file.name.split("_tr_")[0], *cells)
    common = set.intersection(*(set(others) for others in compared))
    means = {name: float(np.mean([others[name] for others in compared])) for name in common}
    best = max(means, key=lambda method: means[method])
    figures = [f"{mean:.3f}" for mean in np.mean(own, axis=0)]
    table.add("mean", *figures, f"{means[best]:.3f} ({best})", "", "")
    return 0


if __name__ == "__main__":
    sys.exit(main())
