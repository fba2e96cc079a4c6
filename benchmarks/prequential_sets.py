"""The labelled streams of the prequential benchmark, and how a prediction on them is scored.

Rows in random order (`shuffled`; a seed draws the order): `watch`, 10,000 of its rows, the
exercise; `a9a` and `ijcnn1`, the training files; `cadata` and `cpusmall`, regression.

Rows in their own order (`ordered`; one run): `elec2`, the price's direction; `gas_drift`, the gas,
batch after batch; `motionsense`, the activity, the first six subjects (sorted by name) one after
another, every tenth row of each, that is 5 Hz.

Both (`drifting`): `motionsense_mixed`, the same six subjects one after another, 1,500 rows of each
in random order: the rows' distribution changes five times and stands still in between, and the
label of the row before says nothing.
"""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from sklearn.datasets import load_svmlight_file

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.trackers.common.scaling import apply_scaling, standard_scaling

WARMUP = 500
"""First rows that all methods may look at before they begin, without the labels: for centre and
scale of the rows, bandwidth, and Nyström landmarks. In regression for the targets' scale too."""
CHUNK = 100
"""Rows that scikit-learn's learners take at a time. They cannot predict the first chunk, so it is
scored for nobody."""
SUBJECTS, ROWS_OF_SUBJECT, EVERY = 6, 1_500, 10

SHUFFLED, ORDERED, DRIFTING = "shuffled", "ordered", "drifting"


@dataclass(frozen=True)
class Stream:
    """Labelled rows in the order in which they come.

    Attributes:
        rows: Shape (n, D).
        target: Shape (n,): places in `classes`, or the targets as they are.
        classes: Sorted; empty in regression.
    """

    rows: FloatArray
    target: IntArray | FloatArray
    classes: tuple[str, ...]

    @property
    def labels(self) -> list[str] | FloatArray:
        """What learners are told: names of classes, or targets by the first rows' mean and std."""
        if self.classes:
            return [self.classes[code] for code in self.target]
        centre, unit = self.unit
        return (self.target.astype(np.float64) - centre) / unit

    @property
    def unit(self) -> tuple[float, float]:
        """Mean and standard deviation of the first targets."""
        first = self.target[:WARMUP]
        return float(first.mean()), float(first.std())

    @property
    def scaled(self) -> FloatArray:
        """The rows by the first rows' mean and standard deviation, as the tracker scales them."""
        return apply_scaling(standard_scaling(self.rows[:WARMUP], np.inf), self.rows, np.inf)

    def first(self, count: int) -> Stream:
        """Return the stream's first rows."""
        return Stream(self.rows[:count], self.target[:count], self.classes)


class Scores(NamedTuple):
    """How well a stream was predicted, from row `CHUNK` on; NaN where it does not apply.

    Attributes:
        accuracy: Share of rows predicted rightly.
        balanced: Mean over the classes of that share.
        kappa: (accuracy - p)/(1 - p), p the accuracy of "same label as the row before".
        rmse: In the target's own unit.
        relative: The same in standard deviations of the target.
    """

    accuracy: float
    balanced: float
    kappa: float
    rmse: float
    relative: float

    @property
    def merit(self) -> float:
        """The larger, the better: accuracy, or minus the relative RMSE."""
        return -self.relative if np.isnan(self.accuracy) else self.accuracy


def score(stream: Stream, predicted: IntArray | FloatArray) -> Scores:
    """Score predictions: places in `classes` (-1 where there was none), or targets."""
    truth, predictions = stream.target[CHUNK:], predicted[CHUNK:]
    nan = float("nan")
    if not stream.classes:
        rmse = float(np.sqrt(np.mean(np.square(predictions - truth))))
        return Scores(nan, nan, nan, rmse, rmse / float(stream.target.std()))
    right = predictions == truth
    accuracy = float(right.mean())
    recalls = [right[truth == code].mean() for code in np.unique(truth)]
    last = float(np.mean(truth == stream.target[CHUNK - 1 : -1]))
    # Where every row has the label of the one before, there is nothing to be better than.
    kappa = (accuracy - last) / (1 - last) if last < 1 else nan
    return Scores(accuracy, float(np.mean(recalls)), kappa, nan, nan)


def coded_stream(rows: FloatArray, labels: list[str]) -> Stream:
    """Return rows whose labels are names of classes."""
    classes, codes = np.unique(labels, return_inverse=True)
    return Stream(rows, codes.astype(np.int64), tuple(str(name) for name in classes))


def matrix_of(table: pa.Table, names: list[str]) -> FloatArray:
    """Return these columns as (n, D)."""
    return np.column_stack([table[name].to_numpy().astype(np.float64) for name in names])


def channels_of(table: pa.Table) -> list[str]:
    """Return the columns that are measured."""
    return [name for name in table.column_names if name not in ("model_id", "time", "label")]


def _watch(path: Path, seed: int) -> Stream:
    table = pq.read_table(path)
    table = table.take(np.random.default_rng(seed).permutation(table.num_rows)[:10_000])
    return coded_stream(matrix_of(table, channels_of(table)), table["label"].to_pylist())


def libsvm_rows(path: Path) -> tuple[FloatArray, list[str]]:
    """Return rows and labels of a file of LIBSVM's text, in its order."""
    with (gzip if path.suffix == ".gz" else bz2).open(path) as file:
        matrix, labels = load_svmlight_file(file)
    return matrix.toarray(), [f"{label:+.0f}" for label in labels]


def table_rows(path: Path) -> FloatArray:
    """Return a table of numbers, the target last."""
    with gzip.open(path) as file:
        table: FloatArray = np.loadtxt(file, delimiter="\t", skiprows=1)
    return table


def _libsvm(path: Path, seed: int) -> Stream:
    rows, labels = libsvm_rows(path)
    order = np.random.default_rng(seed).permutation(len(labels))
    return coded_stream(rows[order], [labels[place] for place in order])


def _regression(path: Path, seed: int) -> Stream:
    table = table_rows(path)
    np.random.default_rng(seed).shuffle(table)
    return Stream(table[:, :-1].copy(), table[:, -1].copy(), ())


def _elec2(path: Path, _: int) -> Stream:
    table = pq.read_table(path)
    names = [name for name in table.column_names if name != "target"]
    return coded_stream(
        matrix_of(table, names), [str(label) for label in table["target"].to_pylist()]
    )


def _gas_drift(path: Path, _: int) -> Stream:
    table = pq.read_table(path)
    names = [name for name in table.column_names if name not in ("batch", "gas", "conc")]
    return coded_stream(matrix_of(table, names), [str(label) for label in table["gas"].to_pylist()])


def _subjects(path: Path) -> list[pa.Table]:
    table = pq.read_table(path)
    names = sorted(pc.unique(table["model_id"]).to_pylist())[:SUBJECTS]
    return [table.filter(pc.equal(table["model_id"], name)).sort_by("time") for name in names]


def _motionsense(path: Path, _: int) -> Stream:
    parts = [table.take(np.arange(0, table.num_rows, EVERY)) for table in _subjects(path)]
    table = pa.concat_tables(parts)
    return coded_stream(matrix_of(table, channels_of(table)), table["label"].to_pylist())


def _motionsense_mixed(path: Path, seed: int) -> Stream:
    rng = np.random.default_rng(seed)
    parts = [
        table.take(rng.permutation(table.num_rows)[:ROWS_OF_SUBJECT]) for table in _subjects(path)
    ]
    table = pa.concat_tables(parts)
    return coded_stream(matrix_of(table, channels_of(table)), table["label"].to_pylist())


class Source(NamedTuple):
    """Where a stream comes from.

    Attributes:
        file: Name in the data folder.
        kind: `SHUFFLED`, `ORDERED` or `DRIFTING`.
        read: Makes the stream of the file and a seed.
        budgets: r = B that are tried; goals are judged at the last.
    """

    file: str
    kind: str
    read: Callable[[Path, int], Stream]
    budgets: tuple[int, ...]

    @property
    def seeded(self) -> bool:
        """Whether a seed changes the stream."""
        return self.kind != ORDERED


SOURCES: dict[str, Source] = {
    "watch": Source("watch.parquet", SHUFFLED, _watch, (40, 160)),
    "a9a": Source("a9a.libsvm.gz", SHUFFLED, _libsvm, (40, 160)),
    "ijcnn1": Source("ijcnn1.libsvm.bz2", SHUFFLED, _libsvm, (40, 160)),
    "cadata": Source("cadata.tsv.gz", SHUFFLED, _regression, (40, 160)),
    "cpusmall": Source("cpusmall.tsv.gz", SHUFFLED, _regression, (40, 160)),
    "elec2": Source("elec2.parquet", ORDERED, _elec2, (40,)),
    "gas_drift": Source("gas_drift.parquet", ORDERED, _gas_drift, (40,)),
    "motionsense": Source("motionsense.parquet", ORDERED, _motionsense, (40,)),
    "motionsense_mixed": Source("motionsense.parquet", DRIFTING, _motionsense_mixed, (40,)),
}
