"""Ordinary PCA of the features is centred kernel PCA within the subspace."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA, KernelPCA

import kerneltrack as kt
from kerneltrack.kernels import gram, make_kernel


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("width", [2, 4, 6])
def test_pca_of_features_has_the_eigenvalues_of_centred_kernel_pca(seed: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(400, width)) @ rng.normal(size=(width, width))
    rows /= rows.std(axis=0)
    gamma = 2.0 * width
    whole = gram(make_kernel("gaussian", gamma), rows, rows)
    exact = KernelPCA(3, kernel="precomputed").fit(whole).eigenvalues_
    spec = kt.CovarianceSpec(
        rank=20, budget=40, gamma=gamma, standardise=False, halflife="auto", warmup=100
    )
    state, _ = kt.run_all(spec, rows)
    z = kt.get_tracker(spec.tracker).project(spec, state, rows).z
    found = PCA(3).fit(z).explained_variance_ * (len(rows) - 1)
    # The projection on a subspace can only shrink them.
    assert (found <= exact * (1 + 1e-9)).all()
    assert (found >= 0.95 * exact).all()
