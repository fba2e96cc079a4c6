"""What OK-FEB's moving subspace is compared with, of scikit-learn's parts, and the measure.

A peer represents row i of the stream by z_i, and K̂_w is made of the rows of window w:
K̂_ij = z_iᵀz_j. All but the newest rows are batch methods: they see *all* rows of the stream, the
later ones too, and hold one subspace for all windows.

| peer | subspace |
|---|---|
| KPCA | top r eigenvectors of K, not centred (`TruncatedSVD`): best rank r for all of K |
| KPCA, centred | `KernelPCA`, r directions around the mean; the mean itself comes on top, free |
| Nyström, r landmarks | `Nystroem`: r rows drawn uniformly, K̂ = CW⁺Cᵀ |
| Nyström, 2r landmarks | top r directions of all rows' `Nystroem` features (`TruncatedSVD`) |
| k-means Nyström | the same two with the centres of `KMeans` over all rows as landmarks |
| SS-Nyström | r rows drawn uniformly, K̂ = C(C⁺KC⁺ᵀ)Cᵀ with what is left on average off their span |
| MEKA | k-means blocks, r directions of each by Nyström, links between them by a sample |
| newest r, 2r rows | top r eigenvectors of K of the window's last r, 2r rows: no batch method |

2r landmarks or rows are as much memory as OK-FEB with B = 2r has. K of all rows is too large for
a long stream: both KPCA then are of `KPCA_ROWS` rows, drawn uniformly.

References: C. Williams, M. Seeger, "Using the Nyström method to speed up kernel machines", NIPS
2001; K. Zhang, I. Tsang, J. Kwok, "Improved Nyström low-rank approximation and error analysis",
ICML 2008 (k-means); S. Wang, C. Zhang, H. Qian, Z. Zhang, "Improving the modified Nyström method
using spectral shifting", KDD 2014 (SS-Nyström); S. Si, C.-J. Hsieh, I. Dhillon, "Memory efficient
kernel approximation", ICML 2014 (MEKA).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh
from sklearn.cluster import KMeans
from sklearn.decomposition import KernelPCA, TruncatedSVD
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import rbf_kernel

from kerneltrack.arrays import FloatArray

LENGTH = 100
"""Rows of a window, the paper's N_wind."""
KPCA_ROWS = 2_000
FLAT = 1e-12
"""Eigenvalues of K are taken to be no smaller, as in `Nystroem`."""
BLOCKS = 5
"""Blocks of MEKA."""
LINK_TOLERANCE = 1e-6
"""Directions of a block that a sample shows less of, relative to its largest, are left out."""


class Stream(NamedTuple):
    """Rows, their kernel and the windows over them.

    Attributes:
        rows: (N, D), as all methods take them.
        gamma: Bandwidth: κ(x, y) = exp(-‖x-y‖²/γ).
        stride: Rows from one window's start to the next one's: 1 or `LENGTH`.
        kernels: (pieces, P, P) K of pieces of the rows that hold all windows: of the whole stream
            at stride 1, of single windows else.
    """

    rows: FloatArray
    gamma: float
    stride: int
    kernels: FloatArray


Peer = Callable[[Stream, Sequence[int], int], list[float]]
"""Gives the average mismatch for every rank, seeded."""


def make_stream(rows: FloatArray, gamma: float, stride: int) -> Stream:
    """Compute the kernel values within the windows.

    Raises:
        ValueError: for another stride, or a stream shorter than a window.
    """
    if stride not in (1, LENGTH) or len(rows) < LENGTH:
        raise ValueError(f"stride {stride} of {len(rows)} rows: 1 or {LENGTH} of {LENGTH} or more")
    size = len(rows) if stride == 1 else LENGTH
    pieces = rows[: len(rows) // size * size].reshape(-1, size, rows.shape[1])
    kernels = np.stack([rbf_kernel(piece, gamma=1 / gamma) for piece in pieces])
    return Stream(rows, gamma, stride, kernels)


def mean_mismatch(stream: Stream, z: FloatArray, offset: FloatArray | None = None) -> float:
    """Average (1/N)‖K_w - K̂_w‖_F over all windows.

    Args:
        stream: The stream.
        z: (rows, r) K̂_ij = z_iᵀz_j, or
        offset: (rows,) K̂_ij = z_iᵀz_j + offset_i + offset_j.

    Cost O(r) for each kernel value in `stream.kernels`.
    """
    pieces, size, _ = stream.kernels.shape
    parts = z[: pieces * size].reshape(pieces, size, -1)
    left = stream.kernels - parts @ parts.transpose(0, 2, 1)
    if offset is not None:
        own = offset[: pieces * size].reshape(pieces, size)
        left -= own[:, :, None] + own[:, None, :]
    return _mean_over_windows(left)


def _mean_over_windows(left: FloatArray) -> float:
    """Average (1/N)‖·‖_F over all windows of K - K̂, (pieces, P, P)."""
    pieces, size, _ = left.shape
    # Sums over rectangles from the first row on: a window's is a difference of four.
    sums = np.zeros((pieces, size + 1, size + 1))
    np.cumsum(np.cumsum(left**2, axis=1), axis=2, out=sums[:, 1:, 1:])
    first = np.arange(size - LENGTH + 1)
    last = first + LENGTH
    squares = (
        sums[:, last, last] - sums[:, first, last] - sums[:, last, first] + sums[:, first, first]
    )
    return float(np.sqrt(np.maximum(squares, 0.0)).mean()) / LENGTH


def kpca(stream: Stream, ranks: Sequence[int], seed: int) -> list[float]:
    """Kernel PCA without centring."""
    fitted = _sample(stream, seed)
    svd = TruncatedSVD(max(ranks), algorithm="arpack", random_state=seed)
    svd.fit(_kernel(stream, fitted, fitted))
    z = svd.transform(_kernel(stream, stream.rows, fitted)) / np.sqrt(svd.singular_values_)
    return [mean_mismatch(stream, z[:, :rank]) for rank in ranks]


def centred_kpca(stream: Stream, ranks: Sequence[int], seed: int) -> list[float]:
    """Kernel PCA as scikit-learn has it, of φ(x) - μ with the mean μ of the fitted rows.

    K_ij = (φ_i - μ)ᵀ(φ_j - μ) + φ_iᵀμ + φ_jᵀμ - μᵀμ, of which it approximates the first term. The
    others are given to it: they are the offset.
    """
    fitted = _sample(stream, seed)
    inner = _kernel(stream, fitted, fitted)
    across = _kernel(stream, stream.rows, fitted)
    offset = across.mean(axis=1) - inner.mean() / 2
    model = KernelPCA(max(ranks), kernel="precomputed", eigen_solver="arpack", random_state=seed)
    z = model.fit(inner).transform(across)
    return [mean_mismatch(stream, z[:, :rank], offset) for rank in ranks]


def nystroem(stream: Stream, ranks: Sequence[int], seed: int, ratio: int = 1) -> list[float]:
    """Nyström with ratio · r uniform landmarks, at rank r."""
    return [_with_landmarks(stream, stream.rows, ratio * rank, rank, seed=seed) for rank in ranks]


def kmeans_nystroem(stream: Stream, ranks: Sequence[int], seed: int, ratio: int = 1) -> list[float]:
    """Nyström with the ratio · r centres of k-means as landmarks, at rank r."""
    found = []
    for rank in ranks:
        centres = KMeans(ratio * rank, random_state=seed).fit(stream.rows).cluster_centers_
        found.append(_with_landmarks(stream, centres, len(centres), rank, seed=seed))
    return found


def shifted_nystroem(stream: Stream, ranks: Sequence[int], seed: int) -> list[float]:
    """Nyström with r uniform columns and spectral shifting, its core of all of K (KDD 2014, 4.1).

    K̂ = QQᵀKQQᵀ + δ(I - QQᵀ) with Q a basis of the columns of K - δ₀I and δ the mean of what is
    left of the diagonal off their span. K of all rows must fit: stride 1 only.
    """
    (kernel,) = stream.kernels
    count, rng = len(kernel), np.random.default_rng(seed)
    values = np.linalg.eigvalsh(kernel)[::-1]
    found = []
    for rank in ranks:
        columns = rng.choice(count, rank, replace=False)
        shifted = kernel[:, columns].copy()
        shifted[columns, np.arange(rank)] -= (np.trace(kernel) - values[:rank].sum()) / (
            count - rank
        )
        basis = np.linalg.qr(shifted)[0]
        core = basis.T @ kernel @ basis
        shift = (np.trace(kernel) - np.trace(core)) / (count - rank)
        left = kernel - basis @ (core - shift * np.eye(rank)) @ basis.T
        left[np.diag_indices(count)] -= shift
        found.append(_mean_over_windows(left[None]))
    return found


def meka(stream: Stream, ranks: Sequence[int], seed: int) -> list[float]:
    """MEKA with `BLOCKS` blocks, r directions each, links from a sample of twice as many rows."""
    pieces, size, _ = stream.kernels.shape
    rows = stream.rows[: pieces * size]
    block = KMeans(BLOCKS, n_init=3, random_state=seed).fit_predict(rows)
    members = [np.flatnonzero(block == each) for each in range(BLOCKS)]
    found = []
    for rank in ranks:
        rng = np.random.default_rng(seed)
        widths = [min(rank, len(own)) for own in members]
        edges = np.concatenate([[0], np.cumsum(widths)])
        spread = np.zeros((len(rows), int(edges[-1])))
        sampled = []
        for place, (own, width) in enumerate(zip(members, widths, strict=True)):
            landmarks = rows[rng.choice(own, width, replace=False)]
            values, vectors = eigh(_kernel(stream, landmarks, landmarks))
            root = vectors / np.sqrt(np.maximum(values, FLAT))
            spread[own, edges[place] : edges[place + 1]] = (
                _kernel(stream, rows[own], landmarks) @ root
            )
            sampled.append(rng.choice(own, min(2 * width, len(own)), replace=False))
        links = np.eye(int(edges[-1]))
        for one in range(BLOCKS):
            for other in range(one):
                cut = slice(edges[one], edges[one + 1]), slice(edges[other], edges[other + 1])
                near, far = sampled[one], sampled[other]
                between = _kernel(stream, rows[near], rows[far])
                left = np.linalg.pinv(spread[near, cut[0]], rcond=LINK_TOLERANCE)
                right = np.linalg.pinv(spread[far, cut[1]], rcond=LINK_TOLERANCE)
                links[cut] = left @ between @ right.T
                links[cut[::-1]] = links[cut].T
        parts = spread.reshape(pieces, size, -1)
        approximated = (parts @ links) @ parts.transpose(0, 2, 1)
        found.append(_mean_over_windows(stream.kernels - approximated))
    return found


def newest(stream: Stream, ranks: Sequence[int], seed: int, ratio: int = 1) -> list[float]:
    """The top r eigenvectors of each window's last ratio · r rows; nothing is drawn."""
    found = []
    for rank in ranks:
        stored, total, windows = ratio * rank, 0.0, 0
        for kernel in _windows(stream):
            inner = kernel[-stored:, -stored:]
            values, vectors = eigh(inner, subset_by_index=[stored - rank, stored - 1])
            z = kernel[:, -stored:] @ (vectors / np.sqrt(np.maximum(values, FLAT)))
            total += float(np.linalg.norm(kernel - z @ z.T)) / LENGTH
            windows += 1
        found.append(total / windows)
    return found


def _windows(stream: Stream) -> Iterator[FloatArray]:
    for piece in stream.kernels:
        for first in range(len(piece) - LENGTH + 1):
            yield piece[first : first + LENGTH, first : first + LENGTH]


def _with_landmarks(
    stream: Stream, candidates: FloatArray, count: int, rank: int, *, seed: int
) -> float:
    model = Nystroem(gamma=1 / stream.gamma, n_components=count, random_state=seed)
    z = model.fit(candidates).transform(stream.rows)
    if count > rank:
        svd = TruncatedSVD(rank, algorithm="arpack", random_state=seed)
        z = svd.fit(z).transform(z)
    return mean_mismatch(stream, z)


def _sample(stream: Stream, seed: int) -> FloatArray:
    if len(stream.rows) <= KPCA_ROWS:
        return stream.rows
    places = np.random.default_rng(seed).choice(len(stream.rows), KPCA_ROWS, replace=False)
    return stream.rows[np.sort(places)]


def _kernel(stream: Stream, left: FloatArray, right: FloatArray) -> FloatArray:
    values: FloatArray = rbf_kernel(left, right, gamma=1 / stream.gamma)
    return values
