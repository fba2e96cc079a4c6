"""The file job on real data sets: every row comes out, and the subspace fits like batch KPCA.

    python benchmarks/bench_data_sets.py [NAME ...]

Runs each set's command (`COMMANDS`) and prints rows in, out and failed, and the mean projection
residual κ(x,x) - ‖z‖² of the features over the last half of each model's rows, beside that of
batch kernel PCA of the same rank: on the same rows, in the tracker's own scaling and with its own
bandwidth, both from the model's snapshot. KPCA is fitted to at most 2,000 of those rows, at equal
spacing, and measured on them, which flatters it. The ratio should be at most 1.5.
"""

from __future__ import annotations

import json
import math
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.linalg import eigvalsh

from benchmarks.places import DATA, ROOT
from benchmarks.record import Table
from kerneltrack import codec
from kerneltrack.kernels import gram, make_kernel
from kerneltrack.trackers.common.scaling import Scaling, apply_scaling
from transforms.read.columns import ColumnOptions, resolve
from transforms.read.formats import FormatOptions
from transforms.read.look import look_at_files
from transforms.read.parse import parse

KPCA_ROWS = 2_000
GOAL = 1.5

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True)
class DataSet:
    """A data set and its command.

    Attributes:
        file: Name in the data folder.
        flags: Flags of `kerneltrack track`.
        counts: Rows out and rows failed.
        columns: The columns that the flags name.
        formats: The format that the flags describe.
    """

    file: str
    flags: tuple[str, ...]
    counts: tuple[int, int]
    columns: ColumnOptions
    formats: FormatOptions | None = None

    def command(self) -> str:
        """Return the command line for the README."""
        return shlex.join(["kerneltrack", "track", self.file, *self.flags, "--output", "OUT"])


_SENSORS = ("--model-id", "model_id", "--time", "time", "--label", "label")
_SENSOR_COLUMNS = ColumnOptions(model_id="model_id", time="time", label="label")

DATA_SETS: dict[str, DataSet] = {
    "motionsense": DataSet(
        "motionsense.parquet",
        (*_SENSORS, "--rank", "10", "--budget", "15"),
        (926_603, 0),
        _SENSOR_COLUMNS,
    ),
    "watch": DataSet(
        "watch.parquet",
        (*_SENSORS, "--rank", "10", "--budget", "15"),
        (244_102, 0),
        _SENSOR_COLUMNS,
    ),
    "pamap2_fragment": DataSet(
        "pamap2_fragment.parquet",
        (
            *("--time", "timestamp", "--label", "activityID"),
            *("--features", "hand*", "ankle*", "chest*"),
            # One model through 13 activities: its scale and bandwidth are to see them all.
            *("--rank", "10", "--budget", "15", "--warmup", "6500"),
        ),
        (6_378, 122),
        ColumnOptions(time="timestamp", label="activityID", features=("hand*", "ankle*", "chest*")),
    ),
    "a9a": DataSet(
        "a9a.libsvm.gz",
        ("--width", "123"),
        (32_561, 0),
        ColumnOptions(),
        FormatOptions(width=123),
    ),
    "ijcnn1": DataSet(
        "ijcnn1.libsvm.bz2",
        ("--width", "22"),
        (49_990, 0),
        ColumnOptions(),
        FormatOptions(width=22),
    ),
    "cadata": DataSet(
        "cadata.tsv.gz", ("--label", "target"), (20_640, 0), ColumnOptions(label="target")
    ),
}


@dataclass(frozen=True)
class Fit:
    """Mean projection residuals over the last half of all models' rows.

    Attributes:
        tracked: Of the features.
        batch: Of kernel PCA of the same rank.
        worst: Greatest ratio of one model.
    """

    tracked: float
    batch: float
    worst: float

    @property
    def ratio(self) -> float:
        """How much larger the tracker's is."""
        return self.tracked / self.batch


def read_rows(paths: Sequence[str], data_set: DataSet) -> Matrix:
    """Read all rows of one file in file order, by the project's own readers; bad ones as NaN."""
    infos = look_at_files(paths, None, data_set.formats).infos
    columns = resolve(infos, data_set.columns)
    parts, places = [], []
    for piece in infos[0].pieces:
        for rows in piece.read(columns.requests):
            parsed, _ = parse(rows, 0, columns)
            parts.append(parsed.x)
            places.append(parsed.row)
    place = np.concatenate(places)
    x = np.full((int(place.max()) + 1, columns.width), np.nan)
    x[place] = np.concatenate(parts)
    return x


def fit_of_run(output: Path, x: Matrix) -> Fit:
    """Compare a run's residuals with batch KPCA's."""
    tracked, batch, ratios, weights = [], [], [], []
    for snapshot, rows, z in _models(output):
        spec: Any = snapshot.spec
        state = snapshot.state
        clip = math.inf if spec.clip is None else spec.clip
        scaling = Scaling(state.shift, state.scale)
        kernel = make_kernel(spec.kernel, float(state.bandwidth[0]), spec.degree, spec.offset)
        half = len(rows) // 2
        scaled = apply_scaling(scaling, x[rows[half:]], clip)
        # κ(x, x) = 1: the kernels of these commands are Gaussian.
        tracked.append(float(np.mean(1.0 - np.square(z[half:]).sum(axis=1))))
        places = np.linspace(0, len(scaled) - 1, min(KPCA_ROWS, len(scaled))).astype(int)
        batch.append(_kpca_residual(gram(kernel, scaled[places], scaled[places]), spec.rank))
        weights.append(len(scaled))
        ratios.append(tracked[-1] / batch[-1])
    return Fit(
        float(np.average(tracked, weights=weights)),
        float(np.average(batch, weights=weights)),
        max(ratios),
    )


def _kpca_residual(full: Matrix, rank: int) -> float:
    """Return the mean residual of the best rank-r subspace of these rows."""
    count = len(full)
    largest = eigvalsh(full, subset_by_index=[count - rank, count - 1])
    return float((np.trace(full) - largest.sum()) / count)


def _models(output: Path) -> Iterator[tuple[codec.Snapshot, npt.NDArray[Any], Matrix]]:
    """Give each model's snapshot, rows in their file and features, in index order."""
    files = sorted((output / "features").glob("*.parquet"))
    table = pa.concat_tables(
        pq.read_table(path, columns=["model_id", "index", "row", "z"]) for path in files
    )
    index = json.loads((output / "snapshots" / "index.json").read_text(encoding="utf-8"))
    model_id = table.column("model_id").to_numpy(zero_copy_only=False)
    number, row = table.column("index").to_numpy(), table.column("row").to_numpy()
    # All of z together would need as much memory again for every copy that Arrow makes.
    z = np.concatenate(
        [
            chunk.flatten().to_numpy().reshape(len(chunk), -1)
            for chunk in table.column("z").chunks
            if len(chunk)
        ]
    )
    if not np.isfinite(z).all():
        raise SystemExit(f"{output}: z is not finite everywhere")
    for model, (entry,) in index["models"].items():
        at = np.flatnonzero(model_id == model)
        at = at[np.argsort(number[at])]
        data = (output / "snapshots" / entry["tracker"]).read_bytes()
        yield codec.decode(data), row[at], z[at]


def run(name: str, folder: Path, table: Table) -> bool:
    """Run one set's job, add a row, tell whether it holds what it should."""
    data_set = DATA_SETS[name]
    source = str(DATA / data_set.file)
    output = folder / name
    command = [sys.executable, "-m", "pipelines.cli", "track", source, *data_set.flags]
    subprocess.run(
        [*command, "--output", str(output)], check=True, stdout=subprocess.DEVNULL, cwd=ROOT
    )
    counts = json.loads((output / "run.json").read_text(encoding="utf-8"))["counts"]
    found = (counts["rows_out"], counts["rows_failed"])
    fit = fit_of_run(output, read_rows([source], data_set))
    good = found == data_set.counts and fit.ratio <= GOAL
    ratio = f"{fit.ratio:.2f}" if good else f"{fit.ratio:.2f}: not within the goal"
    residuals = f"{fit.tracked:.3f}", f"{fit.batch:.3f}"
    table.add(name, f"{found[0]:,} + {found[1]:,}", *residuals, ratio, f"{fit.worst:.2f}")
    return good


def main(names: Sequence[str]) -> int:
    """Run the named sets, or all."""
    with tempfile.TemporaryDirectory() as folder:
        columns = ["input", "rows out + failed", "tracked", "batch KPCA", "ratio", "worst model"]
        table = Table("okfeb", "data_sets", columns)
        good = [run(name, Path(folder), table) for name in names or DATA_SETS]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
