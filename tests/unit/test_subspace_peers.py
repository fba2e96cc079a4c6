"""The peers that `benchmarks/bench_subspaces.py` compares with, against their textbook formulas."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import rbf_kernel

from benchmarks import subspace_peers as peers
from benchmarks.subspace_peers import LENGTH, Stream
from kerneltrack.arrays import FloatArray

RANKS = (2, 5)
GAMMA = 2.0
SEED = 3
STRIDES = pytest.mark.parametrize("stride", [1, LENGTH])


def stream(stride: int) -> Stream:
    """No whole number of windows one after another: the last 70 rows are in none at stride N."""
    rows = np.random.default_rng(0).normal(size=(2 * LENGTH + 70, 3))
    return peers.make_stream(rows, GAMMA, stride)


def brute(given: Stream, approximate: FloatArray) -> float:
    """The measure by its definition, of K̂ of all rows."""
    exact = rbf_kernel(given.rows, gamma=1 / GAMMA)
    values = []
    for first in range(0, len(exact) - LENGTH + 1, given.stride):
        window = slice(first, first + LENGTH)
        values.append(np.linalg.norm((exact - approximate)[window, window]) / LENGTH)
    return float(np.mean(values))


def best_rank(matrix: FloatArray, rank: int) -> FloatArray:
    """The symmetric matrix nearest to a positive semidefinite one among those of this rank."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors[:, -rank:] * values[-rank:]) @ vectors[:, -rank:].T)


@STRIDES
def test_kpca_is_the_best_approximation_of_all_rows(stride: int) -> None:
    given = stream(stride)
    exact = rbf_kernel(given.rows, gamma=1 / GAMMA)
    expected = [brute(given, best_rank(exact, rank)) for rank in RANKS]
    assert peers.kpca(given, RANKS, SEED) == pytest.approx(expected, rel=1e-8)


@STRIDES
def test_centred_kpca_is_given_the_mean(stride: int) -> None:
    given = stream(stride)
    exact = rbf_kernel(given.rows, gamma=1 / GAMMA)
    centring = np.eye(len(exact)) - 1 / len(exact)
    centred = centring @ exact @ centring
    expected = [brute(given, exact - centred + best_rank(centred, rank)) for rank in RANKS]
    assert peers.centred_kpca(given, RANKS, SEED) == pytest.approx(expected, rel=1e-8)


def test_a_long_stream_is_sampled_for_kpca(monkeypatch: pytest.MonkeyPatch) -> None:
    given = stream(1)
    whole = peers.kpca(given, RANKS, SEED)
    monkeypatch.setattr(peers, "KPCA_ROWS", 150)
    sampled = peers.kpca(given, RANKS, SEED)
    assert all(a < b for a, b in zip(whole, sampled, strict=True))
    assert sampled == peers.kpca(given, RANKS, SEED) != peers.kpca(given, RANKS, SEED + 1)


def uniform(rows: FloatArray, count: int) -> FloatArray:
    return np.asarray(Nystroem(n_components=count, random_state=SEED).fit(rows).components_)


def centres(rows: FloatArray, count: int) -> FloatArray:
    return np.asarray(KMeans(count, random_state=SEED).fit(rows).cluster_centers_)


@STRIDES
@pytest.mark.parametrize("ratio", [1, 2])
@pytest.mark.parametrize(
    ("peer", "landmarks"), [(peers.nystroem, uniform), (peers.kmeans_nystroem, centres)]
)
def test_nystroem_projects_on_its_landmarks(
    peer: Callable[..., list[float]],
    landmarks: Callable[[FloatArray, int], FloatArray],
    ratio: int,
    stride: int,
) -> None:
    """C W⁺ Cᵀ, with more than r landmarks its best approximation of rank r."""
    given = stream(stride)
    expected = []
    for rank in RANKS:
        stored = landmarks(given.rows, ratio * rank)
        across = rbf_kernel(given.rows, stored, gamma=1 / GAMMA)
        inverse = np.linalg.inv(rbf_kernel(stored, gamma=1 / GAMMA))
        expected.append(brute(given, best_rank(across @ inverse @ across.T, rank)))
    assert peer(given, RANKS, SEED, ratio) == pytest.approx(expected, rel=1e-8)


@STRIDES
@pytest.mark.parametrize("ratio", [1, 2])
def test_the_newest_rows_are_the_windows_last(ratio: int, stride: int) -> None:
    given = stream(stride)
    expected = []
    for rank in RANKS:
        values = []
        for first in range(0, len(given.rows) - LENGTH + 1, stride):
            rows = given.rows[first : first + LENGTH]
            stored = rows[LENGTH - ratio * rank :]
            across = rbf_kernel(rows, stored, gamma=1 / GAMMA)
            inverse = np.linalg.pinv(best_rank(rbf_kernel(stored, gamma=1 / GAMMA), rank))
            exact = rbf_kernel(rows, gamma=1 / GAMMA)
            values.append(np.linalg.norm(exact - across @ inverse @ across.T) / LENGTH)
        expected.append(float(np.mean(values)))
    assert peers.newest(given, RANKS, SEED, ratio) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(("stride", "count"), [(50, 300), (1, LENGTH - 1)])
def test_what_cannot_be_measured_is_refused(stride: int, count: int) -> None:
    with pytest.raises(ValueError, match="1 or 100 of 100 or more"):
        peers.make_stream(np.zeros((count, 3)), GAMMA, stride)
