"""How a model starts: the first r distinct rows, or the papers' single one."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from kerneltrack.in_memory import run_all
from kerneltrack.trackers import OKFEB, OKFEBSpec, OKFESpec
from tests.oracles.streams import walk


def spec_of(**fields: object) -> OKFEBSpec:
    sizes = {"rank": 3, "budget": 6, "gamma": 2.0, "standardise": False}
    return OKFEBSpec(**(sizes | fields))  # type: ignore[arg-type]


def test_the_first_r_distinct_rows_are_the_start() -> None:
    rows = walk(0, 20, 2)
    # Rows 1, 2 repeat row 0 and row 4 repeats row 3.
    stream = rows[[0, 0, 0, 1, 1, 2, 3, 4]]
    state, features = run_all(spec_of(), stream)
    assert np.flatnonzero(features.initial).tolist() == [0, 3, 5]
    assert np.flatnonzero(features.informative).tolist() == [0, 3, 5, 6, 7]
    assert state.born[: state.size].tolist() == [0, 3, 5, 6, 7]
    assert np.array_equal(state.support[: state.size], rows[:5])
    assert features.index.tolist() == list(range(8))
    assert (features.novelty[features.initial] == 0.5).all()


@pytest.mark.parametrize("kernel", ["linear", "gaussian"])
def test_rows_without_a_direction_do_not_start(kernel: str) -> None:
    """κ(0, 0) = 0 under the linear kernel; under the Gaussian a zero row is like any other."""
    stream = np.vstack([np.zeros((2, 2)), walk(1, 6, 2)])
    _, features = run_all(spec_of(kernel=kernel, rank=2), stream)
    starts = [2, 3] if kernel == "linear" else [0, 2]
    assert np.flatnonzero(features.initial).tolist() == starts
    assert features.valid.all()
    if kernel == "linear":
        assert features.loss[:2].tolist() == [0.0, 0.0]


def test_refused_rows_do_not_start() -> None:
    stream = walk(2, 8, 2)
    stream[[0, 2]] = np.nan
    tracker, spec = OKFEB(), spec_of()
    _, features = tracker.update(spec, tracker.init(spec, np.ones((1, 2))), stream)
    assert np.flatnonzero(features.initial).tolist() == [1, 3, 4]


def test_the_rows_start_is_random_but_seeded_and_scaled() -> None:
    """A[1] ~ N(0, 1)/√r from the seed, each row times κ(x,x)^-¼: tr(M) is that of unit rows."""
    rows = walk(3, 3, 3)
    for kernel in ("gaussian", "linear"):
        state, _ = run_all(spec_of(kernel=kernel, seed=9), rows)
        drawn = np.random.default_rng(9).standard_normal((3, 3)) / np.sqrt(3)
        own = np.ones(3) if kernel == "gaussian" else (rows**2).sum(axis=1)
        assert state.factor[:, :3].T == pytest.approx(drawn / own[:, None] ** 0.25, rel=1e-14)


@pytest.mark.parametrize("rule", ["parametric", "nonparametric"])
def test_the_start_holds_all_r_directions(rule: str) -> None:
    rows = walk(4, 100, 3)
    state, _ = run_all(spec_of(rule=rule), rows)
    values = np.linalg.eigvalsh(state.factor @ state.gram @ state.factor.T)
    assert values[0] > 1e-4 * values[-1]


def test_a_started_row_is_fitted_by_what_it_started() -> None:
    _, features = run_all(spec_of(rank=1, budget=2, ridge=1e-6), walk(5, 1, 2))
    assert features.initial.tolist() == [True]
    assert 0 < features.loss[0] < 1e-3


def test_okfe_rank_one_begins_with_ones_as_printed() -> None:
    spec = OKFESpec(rank=3, kernel="gaussian", gamma=2.0, standardise=False, start="rank_one")
    state, _ = run_all(spec, walk(6, 1, 2))
    assert state.factor[:, 0].tolist() == [1.0, 1.0, 1.0]


Matrix = list[list[Fraction]]


def _dot(left: list[Fraction], right: list[Fraction]) -> Fraction:
    return sum((a * b for a, b in zip(left, right, strict=True)), Fraction(0))


def _solve(matrix: Matrix, right: list[Fraction]) -> list[Fraction]:
    """Gauss-Jordan elimination in exact arithmetic."""
    size = len(right)
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for c in range(size):
        pivot = next(i for i in range(c, size) if rows[i][c])
        rows[c], rows[pivot] = rows[pivot], rows[c]
        rows[c] = [value / rows[c][c] for value in rows[c]]
        for i in range(size):
            if i != c:
                rows[i] = [a - rows[i][c] * b for a, b in zip(rows[i], rows[c], strict=True)]
    return [row[-1] for row in rows]


def _rank(matrix: Matrix) -> int:
    rows, rank = [row[:] for row in matrix], 0
    for c in range(len(rows[0])):
        pivot = next((i for i in range(rank, len(rows)) if rows[i][c]), None)
        if pivot is None:
            continue
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        for i in range(rank + 1, len(rows)):
            share = rows[i][c] / rows[rank][c]
            rows[i] = [a - share * b for a, b in zip(rows[i], rows[rank], strict=True)]
        rank += 1
    return rank


def exact_okfe(rows: list[list[int]], factor: Matrix, rule: str) -> Matrix:
    """Algorithm 2 or 3 with κ(x, y) = (xᵀy + 1)², λ = 1/8 and μ = 1/(8n), in fractions.

    The ridge in force fades with M; what the nonparametric rule shrinks is applied in one piece.
    """
    ridge = in_force = Fraction(1, 8)
    waiting = Fraction(0)
    known = [[Fraction(v) for v in row] for row in rows[: len(factor)]]
    factor = [row[:] for row in factor]
    rank = len(factor[0])

    def kernel(x: list[Fraction], y: list[Fraction]) -> Fraction:
        return (_dot(x, y) + 1) ** 2

    for n, row in enumerate(rows[len(factor) :], start=len(factor) + 1):
        x = [Fraction(v) for v in row]
        k = [kernel(s, x) for s in known]
        image = [
            [_dot([kernel(s, t) for t in known], [f[c] for f in factor]) for c in range(rank)]
            for s in known
        ]
        inner = [
            [_dot([f[c] for f in factor], [i[e] for i in image]) for e in range(rank)]
            for c in range(rank)
        ]
        for c in range(rank):
            inner[c][c] += in_force
        q = _solve(inner, [_dot([f[c] for f in factor], k) for c in range(rank)])
        step, shrink = Fraction(1, 8 * n), ridge / n
        padded = [*factor, [Fraction(0)] * rank]
        image.append([_dot(k, [f[c] for f in factor]) for c in range(rank)])
        edge = [*k, kernel(x, x)]
        new: Matrix = []
        for i, old in enumerate(padded):
            source = image[i] if rule == "nonparametric" else old
            target = edge[i] if rule == "nonparametric" else Fraction(i == len(factor))
            along = target - _dot(source, q)
            decay = 0 if rule == "nonparametric" else shrink
            new.append([old[c] + step * (along * q[c] - decay * old[c]) for c in range(rank)])
        factor, known = new, [*known, x]
        if rule == "parametric":
            in_force *= (1 - step * shrink) ** 2
            continue
        waiting += step * shrink
        grown = [[kernel(s, t) for t in known] for s in known]
        if waiting * sum(grown[i][i] for i in range(len(known))) > Fraction(1, 20):
            images = [
                [_dot(values, [f[c] for f in factor]) for c in range(rank)] for values in grown
            ]
            factor = [
                [a - waiting * b for a, b in zip(old, image, strict=True)]
                for old, image in zip(factor, images, strict=True)
            ]
            waiting = Fraction(0)
    return factor


EXACT_ROWS = [[1, 0], [0, 2], [1, 1], [-1, 2], [2, 1], [0, -1]]


@pytest.mark.parametrize("rule", ["parametric", "nonparametric"])
def test_one_row_of_a_can_only_ever_span_one_direction(rule: str) -> None:
    """In exact arithmetic: q ∝ a_1, so every row of A stays a multiple of the first."""
    one = exact_okfe(EXACT_ROWS, [[Fraction(2), Fraction(-1), Fraction(3)]], rule)
    assert len(one) == len(EXACT_ROWS) and _rank(one) == 1
    three = exact_okfe(
        EXACT_ROWS, [[Fraction(v) for v in row] for row in ([2, -1, 3], [1, 1, 0], [0, 1, 1])], rule
    )
    assert len(three) == len(EXACT_ROWS) and _rank(three) == 3


@pytest.mark.parametrize("rule", ["parametric", "nonparametric"])
def test_the_loop_follows_exact_arithmetic(rule: str) -> None:
    """OK-FE with μ = 1/(8n) against fractions, from the state that the rows start gives."""
    spec = OKFESpec(
        rank=3,
        kernel="polynomial",
        degree=2,
        offset=1.0,
        ridge=0.125,
        rule=rule,
        step="inverse_n",
        step_size=0.125,
        standardise=False,
    )
    rows = np.array(EXACT_ROWS, dtype=np.float64)
    begun, _ = run_all(spec, rows[:3])
    start = [[Fraction(float(v)) for v in row] for row in begun.factor[:, :3].T]
    expected = exact_okfe(EXACT_ROWS, start, rule)
    state, _ = run_all(spec, rows)
    found = state.factor[:, : state.size].T
    # Three steps with (M + λI) conditioned 1e3 at most and entries of order one.
    assert found == pytest.approx(np.array(expected, dtype=np.float64), rel=1e-10, abs=1e-11)
