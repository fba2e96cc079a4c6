"""BKFE (Alg. 1) by its equations, and OK-FE (Alg. 2, 3) drawing near it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kerneltrack.batch.bkfe import fit_bkfe
from kerneltrack.errors import ConfigError
from kerneltrack.in_memory import run_all
from kerneltrack.kernels import Kernel, gram, make_kernel
from kerneltrack.specs import KERNELS
from kerneltrack.trackers import OKFE, OKFEBSpec, OKFESpec
from tests.oracles import okfeb as oracle
from tests.oracles.streams import walk

Array = npt.NDArray[np.float64]
ROWS = walk(0, 120, 4)
RANK = 4


def kernel_of(name: str) -> Kernel:
    return make_kernel(name, 8.0, 2, 1.0)


def cost(full: Array, factor: Array, q: Array, ridge: float) -> float:
    """Eq. 5 times N."""
    fit = np.diag(full) - 2 * np.sum((full @ factor) * q, axis=1)
    fit = fit + np.einsum("nr,rs,ns->n", q, factor.T @ full @ factor, q)
    penalty = np.trace(factor.T @ full @ factor) + (q**2).sum()
    return float(0.5 * fit.sum() + 0.5 * ridge * penalty)


@pytest.mark.parametrize("name", KERNELS)
def test_the_cost_never_rises(name: str) -> None:
    full = gram(kernel_of(name), ROWS, ROWS)
    costs = []
    for iterations in range(1, 25):
        fit = fit_bkfe(
            kernel_of(name), ROWS, RANK, 1e-2, tolerance=1e-15, max_iterations=iterations
        )
        costs.append(cost(full, fit.factor, fit.q, 1e-2))
    # q solves its own half of the problem, so each pair of updates can only lower the cost.
    assert (np.diff(costs) <= 1e-10 * costs[0]).all()
    assert costs[-1] < 0.99 * costs[0]


@pytest.mark.parametrize("name", KERNELS)
def test_the_fixed_point_satisfies_both_updates(name: str) -> None:
    ridge = 1e-1
    fit = fit_bkfe(kernel_of(name), ROWS, RANK, ridge, tolerance=1e-13, max_iterations=200_000)
    full = gram(kernel_of(name), ROWS, ROWS)
    image = full @ fit.factor
    inner = fit.factor.T @ image
    q = np.linalg.solve(inner + ridge * np.eye(RANK), image.T)
    factor = np.linalg.solve(q @ q.T + ridge * np.eye(RANK), q).T
    assert fit.q.T == pytest.approx(q, rel=1e-9, abs=1e-9 * np.abs(q).max())
    moved = full @ (factor - fit.factor)
    assert np.abs(moved).max() <= 1e-4 * np.abs(image).max()
    assert fit.iterations < 200_000


@pytest.mark.parametrize("name", KERNELS)
def test_losses_reach_kernel_pcas_residual(name: str) -> None:
    """λ → 0: the best rank-r subspace, whose mean residual is the rest of the spectrum."""
    ridge = 1e-6
    fit = fit_bkfe(kernel_of(name), ROWS, RANK, ridge, tolerance=1e-12, max_iterations=5000)
    full = gram(kernel_of(name), ROWS, ROWS)
    values = np.linalg.eigvalsh(full)
    residual = max(values[:-RANK].sum(), 0.0) / len(ROWS)
    own = np.trace(full) / len(ROWS)
    assert fit.losses.mean() >= residual - 1e-9 * own
    assert fit.losses.mean() <= 1.01 * residual + 1e-4 * own
    assert (fit.losses >= 0).all()


def test_losses_are_those_of_the_rows() -> None:
    fit = fit_bkfe(kernel_of("polynomial"), ROWS, RANK, 1e-2)
    full = gram(kernel_of("polynomial"), ROWS, ROWS)
    for n in (0, 50, 119):
        q, image = fit.q[n], full @ fit.factor
        expected = full[n, n] - 2 * image[n] @ q + q @ fit.factor.T @ image @ q
        assert fit.losses[n] == pytest.approx(expected, abs=1e-9 * full[n, n])


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"rank": 0}, "rank"),
        ({"rank": 121}, "rank"),
        ({"rank": 2, "ridge": 0.0}, "ridge"),
        ({"rank": 2, "max_iterations": 0}, "max_iterations"),
        ({"rank": 2, "rows": np.full((3, 2), np.nan)}, "rows"),
        ({"rank": 2, "rows": np.ones(3)}, "rows"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], field: str) -> None:
    given: dict[str, Any] = {"kernel": kernel_of("linear"), "rows": ROWS} | arguments
    with pytest.raises(ConfigError) as caught:
        fit_bkfe(**given)
    assert caught.value.field == field


@pytest.mark.parametrize("rule", ["parametric", "nonparametric"])
@pytest.mark.parametrize("step", ["normalised", "majorised", "inverse_norm"])
def test_okfe_is_the_oracle_without_a_budget(rule: str, step: str) -> None:
    """The same algorithm as OK-FEB with room for all; 40 rows, before rounding carries far."""
    spec = OKFESpec(rank=3, gamma=4.0, standardise=False, rule=rule, step=step)
    rows = walk(1, 40, 3)
    roomy = oracle.start(_with_budget(spec), 4.0, 3)
    outcomes = [roomy.update(x) for x in rows]
    _, features = run_all(spec, rows)
    assert features.loss == pytest.approx([o.loss for o in outcomes], abs=1e-8)
    assert features.informative.all() and (features.evicted == -1).all()


def _with_budget(spec: OKFESpec) -> Any:
    fields = {k: v for k, v in spec.to_dict().items() if k not in ("tracker", "max_rows")}
    return OKFEBSpec(**fields, budget=1000)


@pytest.mark.parametrize("rule", ["parametric", "nonparametric"])
def test_okfe_approaches_the_batch_solution(rule: str) -> None:
    """Figure 1(a): on 300 rows of one distribution the last rows' loss is near the batch's."""
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(300, 3)) * [2.0, 1.0, 0.2]
    spec = OKFESpec(rank=5, gamma=20.0, standardise=False, rule=rule, emit="q")
    state, _ = run_all(spec, rows)
    batch = fit_bkfe(make_kernel("gaussian", 20.0), rows, 5, 1e-3)
    final = OKFE().project(spec, state, rows).loss.mean()
    start, _ = run_all(spec, rows[:5])
    first = OKFE().project(spec, start, rows).loss.mean()
    assert batch.losses.mean() <= final
    # What is left to the batch solution is a fraction of what the start left.
    assert final - batch.losses.mean() <= 0.35 * (first - batch.losses.mean())


def test_rows_past_the_limit_are_refused_with_a_reason() -> None:
    spec = OKFESpec(rank=2, gamma=2.0, standardise=False, max_rows=10)
    rows = walk(3, 15, 2)
    state, features = run_all(spec, rows)
    assert features.valid.tolist() == [True] * 10 + [False] * 5
    assert state.size == 10
    assert "max_rows = 10" in OKFE().why_refused(spec, state, rows[12])
    # The model still serves rows; it only stores no more.
    assert OKFE().project(spec, state, rows[10:]).valid.all()
