"""Row-sparse approximation of lifted data by block coordinate descent: the figures of its slides.

`cost`, `mismatch` and `classification` are of ijcnn1, of which 2,000 rows are drawn (the slides
have all 140,000), `regression` is of CADATA; slice localization is not at hand. Rows are
standardised, γ by the median trick; the penalty is the product's "auto", which the slides leave
open. Landmarks r; a method's K̂ is of the projection on their span.

| method | landmarks |
|---|---|
| BCD-Ex, BCD-PG | rows that stay in the descent |
| Nyström | drawn uniformly |
| leverage Nyström | drawn by approximate ridge leverage scores, with weights |
| improved Nyström | rows next to k-means centres |

References: F. Sheikholeslami, G. B. Giannakis, "Scalable kernel-based learning via low-rank
approximation of lifted data", Allerton Conf., 2017; C. Musco, C. Musco, "Recursive sampling for the
Nyström method", NIPS 2017 (ridge leverage scores).
"""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import Ridge
from sklearn.svm import LinearSVC

from benchmarks.paper.nolana_sets import raw_rows
from benchmarks.paper.parts import Found, Measure, curves
from benchmarks.places import DATA
from benchmarks.prequential_sets import table_rows
from kerneltrack.arrays import FloatArray
from kerneltrack.batch.landmark_spec import LandmarkSpec
from kerneltrack.batch.landmarks import choose_landmarks
from kerneltrack.batch.row_sparse import EXACT, PROXIMAL, start_descent, sweep
from kerneltrack.kernels import gram, make_kernel, median_bandwidth

ROWS, QUICK_ROWS, SEEDS = 2_000, 400, 2
RANKS = (25, 50, 100, 200)
PRODUCT = {
    "BCD-Ex": "bcd-ex",
    "BCD-PG": "bcd-pg",
    "Nyström": "uniform",
    "improved Nyström": "kmeans",
}
LEVERAGE, SVD = "leverage Nyström", "truncated SVD"
RIDGE = 1e-3
FLAT = 1e-10


@lru_cache(maxsize=4)
def ijcnn1(count: int, seed: int) -> tuple[FloatArray, npt.NDArray[Any]]:
    """Return rows drawn from ijcnn1, standardised, and their classes."""
    x, y = raw_rows("ijcnn1")
    places = np.random.default_rng(seed).choice(len(x), count, replace=False)
    rows = x[places]
    return (rows - rows.mean(axis=0)) / rows.std(axis=0), y[places]


def cost(quick: bool) -> Found:
    """Cost against processor time, exact and proximal, by r."""
    rows, _ = ijcnn1(QUICK_ROWS if quick else ROWS, 0)
    gamma = median_bandwidth("gaussian", rows)
    whole = gram(make_kernel("gaussian", gamma), rows, rows)
    lines, values = {}, {}
    for rank in (20, 50) if quick else (50, 100, 200):
        ends = {}
        for name, method in (("BCD-Ex", EXACT), ("BCD-PG", PROXIMAL)):
            rng = np.random.default_rng(0)
            factor = np.zeros((len(rows), rank))
            chosen = rng.choice(len(rows), rank, replace=False)
            factor[chosen] = rng.standard_normal((rank, rank)) / np.sqrt(rank)
            descent, begin = start_descent(whole, factor), time.process_time()
            costs, seconds = [], []
            for _ in range(10 if quick else 30):
                costs.append(sweep(descent, method, 1e-4, RIDGE)[0])
                seconds.append(time.process_time() - begin)
            lines[f"{name}, r = {rank}"] = (seconds, costs)
            ends[name] = costs[-1]
            values[f"{name}, r = {rank}, sweeps that raise the cost"] = float(
                np.sum(np.diff(costs) > 1e-12 * abs(costs[0]))
            )
        values[f"r = {rank}, cost of BCD-PG over BCD-Ex"] = ends["BCD-PG"] / ends["BCD-Ex"]
    axes = {"xscale": "log", "yscale": "log", "xlabel": "processor seconds", "ylabel": "cost"}
    return Found(values, curves(lines, **axes))


def by_leverage(whole: FloatArray, rank: int, seed: int) -> FloatArray:
    """Return features (n, r) on rows drawn by ridge leverage scores of a uniform sample.

    The ridge is the tail of the sample's spectrum over r, as in the recursive scheme.
    """
    rng, count = np.random.default_rng(seed), len(whole)
    sample = rng.choice(count, min(4 * rank, count), replace=False)
    inner = whole[np.ix_(sample, sample)]
    values = np.linalg.eigvalsh(inner)[::-1]
    ridge = max(values[rank:].sum() / rank, FLAT) * count / len(sample)
    across = whole[:, sample] * np.sqrt(count / len(sample))
    solved = np.linalg.solve(inner * count / len(sample) + ridge * np.eye(len(sample)), across.T)
    scores = np.maximum((np.diag(whole) - np.einsum("ns,sn->n", across, solved)) / ridge, FLAT)
    chosen = rng.choice(count, rank, replace=False, p=scores / scores.sum())
    return on_rows(whole, chosen)


def on_rows(whole: FloatArray, chosen: npt.NDArray[Any]) -> FloatArray:
    """Return coordinates of the projections on the span of some rows, (n, r)."""
    values, vectors = np.linalg.eigh(whole[np.ix_(chosen, chosen)])
    known = values > FLAT * values[-1]
    return np.asarray(whole[:, chosen] @ (vectors[:, known] / np.sqrt(values[known])))


def features(
    name: str, rows: FloatArray, whole: FloatArray, rank: int, gamma: float, seed: int
) -> FloatArray:
    """Return the features of a method's r landmarks."""
    if name == LEVERAGE:
        return by_leverage(whole, rank, seed)
    spec = LandmarkSpec(
        method=PRODUCT[name], count=rank, rank=rank, gamma=gamma, standardise=False, seed=seed
    )
    return on_rows(whole, choose_landmarks(spec, rows).indices)


def mismatch(quick: bool) -> Found:
    """Kernel mismatch and run time against the rank."""
    ranks = RANKS[:2] if quick else RANKS
    found: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for seed in range(1 if quick else SEEDS):
        rows, _ = ijcnn1(QUICK_ROWS if quick else ROWS, seed)
        gamma = median_bandwidth("gaussian", rows)
        whole = gram(make_kernel("gaussian", gamma), rows, rows)
        spectrum = np.linalg.eigvalsh(whole)
        for rank in ranks:
            for name in (*PRODUCT, LEVERAGE):
                begin = time.process_time()
                z = features(name, rows, whole, rank, gamma, seed)
                seconds = time.process_time() - begin
                off = float(np.linalg.norm(whole - z @ z.T)) / len(rows)
                found.setdefault((name, rank), []).append((off, seconds))
            rest = float(np.linalg.norm(spectrum[:-rank])) / len(rows)
            found.setdefault((SVD, rank), []).append((rest, 0.0))
    means = {key: np.mean(each, axis=0) for key, each in found.items()}
    values = {}
    for name in ("BCD-Ex", "BCD-PG"):
        for peer in ("Nyström", LEVERAGE, "improved Nyström", SVD):
            ratios = [means[name, rank][0] / means[peer, rank][0] for rank in ranks]
            values[f"{name} over {peer}, mean over the ranks"] = float(np.mean(ratios))
    lines = {
        name: (list(ranks), [float(means[name, rank][0]) for rank in ranks])
        for name in (*PRODUCT, LEVERAGE, SVD)
    }
    note = "; ".join(
        f"{name} {', '.join(f'{means[name, rank][1]:.2f}' for rank in ranks)} s"
        for name in (*PRODUCT, LEVERAGE)
    )
    axes = {"yscale": "log", "xlabel": "r", "ylabel": "K mismatch"}
    return Found(values, curves(lines, **axes), (f"Processor seconds by r: {note}\n",))


def classification(quick: bool) -> Found:
    """Error of a linear SVM on the features of ijcnn1, by rank."""
    count = QUICK_ROWS if quick else ROWS
    rows, classes = ijcnn1(2 * count, 0)
    learned = np.arange(len(rows)) < count

    def error(z: FloatArray) -> float:
        model = LinearSVC(C=10.0, dual=False).fit(z[learned], classes[learned])
        return float((model.predict(z[~learned]) != classes[~learned]).mean())

    return _by_rank(rows, learned, error, quick)


def regression(quick: bool) -> Found:
    """Error of ridge regression on the features of CADATA, by rank."""
    table = table_rows(DATA / "cadata.tsv.gz")
    count = QUICK_ROWS if quick else ROWS
    table = table[np.random.default_rng(0).permutation(len(table))[: 2 * count]]
    table = (table - table.mean(axis=0)) / table.std(axis=0)
    rows, targets = np.ascontiguousarray(table[:, :-1]), table[:, -1]
    learned = np.arange(len(rows)) < count

    def error(z: FloatArray) -> float:
        model = Ridge(1e-2).fit(z[learned], targets[learned])
        return float(np.sqrt(np.mean((model.predict(z[~learned]) - targets[~learned]) ** 2)))

    return _by_rank(rows, learned, error, quick)


def _by_rank(rows: FloatArray, learned: npt.NDArray[np.bool_], error: Any, quick: bool) -> Found:
    """Compare errors on rows that neither landmarks nor model have seen."""
    gamma = median_bandwidth("gaussian", rows[learned])
    kernel, first = make_kernel("gaussian", gamma), np.ascontiguousarray(rows[learned])
    within, across = gram(kernel, first, first), gram(kernel, rows, first)
    ranks = RANKS[:2] if quick else RANKS
    errors: dict[str, list[float]] = {}
    for rank in ranks:
        for name in (*PRODUCT, LEVERAGE):
            z = features(name, first, within, rank, gamma, 0)
            # The same map on all rows: least squares on the learned ones is exact on their span.
            turn = np.linalg.lstsq(within, z, rcond=FLAT)[0]
            errors.setdefault(name, []).append(error(across @ turn))
    errors["the row itself"] = [error(rows)] * len(ranks)
    best = {name: each[-1] for name, each in errors.items()}
    peers = min(best["Nyström"], best[LEVERAGE])
    values = {f"{name}, error at the largest r": each for name, each in best.items()}
    values["better of the descents over better of Nyström and leverage"] = (
        min(best["BCD-Ex"], best["BCD-PG"]) / peers
    )
    lines = {name: (list(ranks), each) for name, each in errors.items()}
    return Found(values, curves(lines, xlabel="r", ylabel="test error"))


PARTS: dict[str, Measure] = {
    "cost": cost,
    "mismatch": mismatch,
    "classification": classification,
    "regression": regression,
}
