"""The streams of the benchmark of the defaults: eleven labelled sets, in two kinds of order.

The nine of `prequential_sets`, usps and mnist. Each in its own order, that of its file (`watch`:
recording after recording; `motionsense_mixed` is the one stream that has a seed in its own order),
and shuffled, an order a seed. Every stream ends after `most` rows: in its own order those are its
first, shuffled ones of the whole file.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from benchmarks.places import DATA
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
SETS = (*SOURCES, "usps", "mnist")


def whole(name: str) -> Stream:
    """Return a set in its own order."""
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
