"""The streams of the benchmark of the defaults: labelled sets, in two kinds of order.

The nine of `prequential_sets`, usps and mnist; segments, phishing and bananas, which River brings
along, and scikit-learn's digits; and seven of V. Losing's collection for moving streams, from

    git clone https://github.com/vlosing/driftDatasets build/benchmarks/driftDatasets

Each in its own order, that of its file (`watch`: recording after recording; `motionsense_mixed` is
the one stream that has a seed in its own order), and shuffled, an order a seed. Every stream ends
after `most` rows: in its own order those are its first, shuffled ones of the whole file.

Constants are chosen on `CHOSEN_ON`; what they are worth is what they do on the others.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from sklearn.datasets import load_digits

from benchmarks.places import BUILD, DATA
from benchmarks.prequential_sets import (
    SOURCES,
    Stream,
    channels_of,
    coded_stream,
    libsvm_rows,
    matrix_of,
    table_rows,
)

OWN, SHUFFLED = "own", "shuffled"
ORDERS = (OWN, SHUFFLED)


def _watch(path: Path) -> Stream:
    table = pq.read_table(path)
    table = table.sort_by([("model_id", "ascending"), ("time", "ascending")])
    return coded_stream(matrix_of(table, channels_of(table)), table["label"].to_pylist())


def _libsvm(path: Path) -> Stream:
    rows, labels = libsvm_rows(path)
    return coded_stream(rows, labels)


def _regression(path: Path) -> Stream:
    table = table_rows(path)
    return Stream(table[:, :-1].copy(), table[:, -1].copy(), ())


def _images(path: Path) -> Stream:
    with np.load(path) as arrays:
        rows, digits = arrays["X"], arrays["y"]
    flat = rows.reshape(len(rows), -1).astype(np.float64)
    return coded_stream(flat, [str(digit) for digit in digits.tolist()])


def _of_river(name: str) -> Stream:
    from river import datasets  # noqa: PLC0415

    pairs = list(getattr(datasets, name)())
    rows = np.array([[float(value) for value in row.values()] for row, _ in pairs])
    return coded_stream(rows, [str(label) for _, label in pairs])


def _digits() -> Stream:
    digits = load_digits()
    return coded_stream(digits.data.astype(np.float64), [str(digit) for digit in digits.target])


def _drifting(data: str, labels: str) -> Stream:
    comma = "," if data.endswith(".csv") else None
    rows = np.loadtxt(DRIFTING / data, delimiter=comma)
    return coded_stream(rows, [str(label) for label in np.loadtxt(DRIFTING / labels, dtype=int)])


DRIFTING = BUILD / "driftDatasets"
BUNDLED: dict[str, Callable[[], Stream]] = {
    "segments": lambda: _of_river("ImageSegments"),
    "phishing": lambda: _of_river("Phishing"),
    "bananas": lambda: _of_river("Bananas"),
    "digits": _digits,
}
COLLECTED = {
    "outdoor": ("realWorld/outdoor/outdoorStream.data", "realWorld/outdoor/outdoorStream.labels"),
    "weather": ("realWorld/weather/NEweather_data.csv", "realWorld/weather/NEweather_class.csv"),
    "keystroke": ("artificial/souza/keystroke.data", "artificial/souza/keystroke.labels"),
    "sea": ("artificial/sea/SEA_training_data.csv", "artificial/sea/SEA_training_class.csv"),
    "moving_squares": (
        "artificial/movingSquares/movingSquares.data",
        "artificial/movingSquares/movingSquares.labels",
    ),
    "interchanging": (
        "artificial/rbf/interchangingRBF.data",
        "artificial/rbf/interchangingRBF.labels",
    ),
    "chess": (
        "artificial/chess/transientChessboard.data",
        "artificial/chess/transientChessboard.labels",
    ),
}
READERS: dict[str, tuple[str, Callable[[Path], Stream]]] = {
    "watch": ("watch.parquet", _watch),
    "a9a": ("a9a.libsvm.gz", _libsvm),
    "ijcnn1": ("ijcnn1.libsvm.bz2", _libsvm),
    "cadata": ("cadata.tsv.gz", _regression),
    "cpusmall": ("cpusmall.tsv.gz", _regression),
    "usps": ("usps.npz", _images),
    "mnist": ("mnist.npz", _images),
}
"""Sets whose reader in `prequential_sets` shuffles."""
DATA_SETS = (*SOURCES, "usps", "mnist")
"""Those of the data folder."""
SETS = (*DATA_SETS, *BUNDLED, *COLLECTED)
CHOSEN_ON = (
    "watch",
    "a9a",
    "cadata",
    "gas_drift",
    "motionsense",
    "segments",
    "bananas",
    "keystroke",
    "sea",
    "moving_squares",
)


def whole(name: str) -> Stream:
    """Return a set in its own order."""
    if name in BUNDLED:
        return BUNDLED[name]()
    if name in COLLECTED:
        return _drifting(*COLLECTED[name])
    if name in READERS:
        file, read = READERS[name]
        return read(DATA / file)
    source = SOURCES[name]
    return source.read(DATA / source.file, 0)


def ordered(stream: Stream, order: str, seed: int, most: int) -> Stream:
    """Return at most so many rows of a set, in its own order or in that of a seed."""
    count = len(stream.rows)
    places = np.arange(count) if order == OWN else np.random.default_rng(seed).permutation(count)
    places = places[:most]
    return Stream(stream.rows[places], stream.target[places], stream.classes)
