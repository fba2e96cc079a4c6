"""Landmarks on ijcnn1: kernel mismatch and run time against the rank, BCD beside Nyström and SVD.

    python benchmarks/bench_landmarks.py [--rows 2000] [--seeds 2]

Rows drawn from ijcnn1 (train and test joined, 141,691 rows), standardised; γ by the median trick.
For r = 25, 50, 100, 200: r landmarks by each method and the mismatch (1/N)‖K - K̂‖_F of the
projection on their span, a descent's factor having r columns; and the best rank r that there is
(truncated SVD of K). The paper's figure for ijcnn1 is of K of all rows and of the descents' own
subspace of rank r (here: of the span of r rows), without numbers in its text or the penalty that
was used, so that there is nothing to put beside these values.

The table goes to build/benchmarks/landmarks.md, all values to landmarks.csv, a plot of mismatch
and time to landmarks.png.

Reference: F. Sheikholeslami, G. B. Giannakis, "Scalable kernel-based learning via low-rank
approximation of lifted data", Allerton Conf., 2017.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from benchmarks.places import BUILD, DATA
from kerneltrack.batch.landmark_spec import METHODS, LandmarkSpec
from kerneltrack.batch.landmarks import choose_landmarks
from kerneltrack.kernels import gram, make_kernel
from transforms.read.columns import ColumnOptions, resolve
from transforms.read.formats import FormatOptions
from transforms.read.look import look_at_files
from transforms.read.sample import sample_rows

FloatArray = npt.NDArray[np.float64]

OUT = BUILD / "landmarks"
RANKS = (25, 50, 100, 200)
SVD = "truncated SVD"


def main() -> int:
    """Run, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=2)
    args = parser.parse_args()
    names = ("ijcnn1.libsvm.bz2", "ijcnn1.t.libsvm.bz2")
    infos = look_at_files([str(DATA / name) for name in names], None, FormatOptions(width=22)).infos
    columns = resolve(infos, ColumnOptions())
    found: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for seed in range(args.seeds):
        rows = sample_rows(infos, columns, args.rows, seed).rows
        for rank in RANKS:
            for method in METHODS:
                spec = LandmarkSpec(method=method, count=rank, rank=rank, seed=seed)
                begin = time.perf_counter()
                chosen = choose_landmarks(spec, rows)
                seconds = time.perf_counter() - begin
                found.setdefault((method, rank), []).append((chosen.mismatch, seconds))
        scaled = rows / chosen.scale - chosen.shift
        begin = time.perf_counter()
        values = np.linalg.eigvalsh(gram(make_kernel("gaussian", chosen.gamma), scaled, scaled))
        seconds = time.perf_counter() - begin
        for rank in RANKS:
            rest = float(np.linalg.norm(values[:-rank])) / len(rows)
            found.setdefault((SVD, rank), []).append((rest, seconds))
    lines = [
        f"ijcnn1, {args.rows} rows, means of {args.seeds} seeds: mismatch (seconds)",
        "",
        "| method | " + " | ".join(f"r = {rank}" for rank in RANKS) + " |",
        "|---" * (len(RANKS) + 1) + "|",
    ]
    for method in (*METHODS, SVD):
        cells = [np.mean(found[method, rank], axis=0) for rank in RANKS]
        lines.append(f"| {method} | " + " | ".join(f"{m:.4f} ({s:.1f})" for m, s in cells) + " |")
    text = "\n".join(lines) + "\n"
    sys.stdout.write(text)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.with_suffix(".md").write_text(text, encoding="utf-8")
    with OUT.with_suffix(".csv").open("w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle)
        writer.writerow(["method", "rank", "seed", "mismatch", "seconds"])
        for (method, rank), values_of in found.items():
            writer.writerows([method, rank, seed, *pair] for seed, pair in enumerate(values_of))
    _plot(found)
    return 0


def _plot(found: dict[tuple[str, int], list[tuple[float, float]]]) -> None:
    """Draw mismatch and run time against the rank."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    axes = figure.subplots(1, 2)
    for method in (*METHODS, SVD):
        means = np.array([np.mean(found[method, rank], axis=0) for rank in RANKS])
        for place, panel in enumerate(axes):
            panel.loglog(RANKS, means[:, place], marker="o", label=method)
    for panel, label in zip(axes, ("kernel mismatch", "seconds"), strict=True):
        panel.set_xlabel("rank r")
        panel.set_ylabel(label)
    axes[0].legend()
    figure.savefig(OUT.with_suffix(".png"), dpi=120)


if __name__ == "__main__":
    sys.exit(main())
