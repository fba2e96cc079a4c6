"""The compiled row loop against the oracle: one step from the same state, and whole runs.

Tolerances come from `tests.oracles.rounding`: first-order error bounds of the very step, with the
condition of M + λI in them. Whole runs are compared where a run of the oracle on rows moved by
one part in 10¹³ shows how far rounding can carry.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.in_memory import run_all
from kerneltrack.specs import KERNELS
from kerneltrack.trackers import OKFEB, OKFEBSpec
from kerneltrack.trackers.okfeb.spec import POLICIES, RULES, STEPS
from tests.oracles import okfeb as oracle
from tests.oracles.rounding import bounds, compensation_bound, cost_bound
from tests.oracles.streams import walk
from tests.parts import examples, lanes

Array = npt.NDArray[np.float64]
TRACKER = OKFEB()
MENDED, SINCE = 6, 9
FADED, SHRINK = 4, 5


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    """Sizes, numbers and the last row's kind; the stream itself comes from a seed."""
    rank = draw(st.integers(1, 5))
    return {
        "rank": rank,
        "budget": rank + draw(st.integers(0, 5)),
        "width": draw(st.integers(1, 5)),
        "count": draw(st.integers(rank, 60)),
        "ridge": 10.0 ** draw(st.integers(-4, 0)),
        "gamma": draw(st.sampled_from([0.5, 2.0, 10.0])),
        "forgetting": draw(st.sampled_from([1.0, 0.9, 0.3])),
        "start": draw(st.sampled_from(["rows", "rank_one"])),
        "seed": draw(st.integers(0, 2**20)),
        "last": draw(st.sampled_from(["next", "far", "near"])),
    }


def reached(case: dict[str, Any], **choices: str) -> tuple[OKFEBSpec, Any, Array]:
    """A spec, a state that its stream leads to, and the row that comes next."""
    names = ("rank", "budget", "ridge", "gamma", "forgetting", "start", "seed")
    spec = OKFEBSpec(standardise=False, **{k: case[k] for k in names}, **choices)  # type: ignore[arg-type]
    rows = walk(case["seed"], case["count"] + 1, case["width"])
    state = TRACKER.init(spec, rows[:1])
    state, _ = TRACKER.update(spec, state, rows[:-1])
    last = rows[-1]
    if case["last"] == "far":
        last = last + 4.0
    elif case["last"] == "near" and state.size:
        last = state.support[state.size - 1] + 1e-3
    return spec, state, last


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=examples(8))
@given(case=cases())
def test_one_step_from_the_same_state(
    rule: str, step: str, policy: str, kernel: str, case: dict[str, Any]
) -> None:
    spec, state, x = reached(case, rule=rule, step=step, policy=policy, kernel=kernel)
    after, features = TRACKER.update(spec, state, x[None], ("q", "s"))
    if after.counts[MENDED] != state.counts[MENDED]:
        # A diverged update is answered by another step: see test_divergence.
        assert step != "normalised"
        return
    reference = oracle.from_state(spec, state)
    before = copy.deepcopy(reference)
    outcome = reference.update(x)
    before.n = reference.n
    assert bool(features.initial[0]) == outcome.initial
    assert bool(features.informative[0]) == outcome.informative
    moved = not outcome.initial and outcome.informative and outcome.q @ outcome.q > 0
    size = None
    if moved:
        grown = np.vstack([before.stored, x])
        size = copy.deepcopy(before).step(outcome.q, before.kernel(grown, grown))
    seen = reference if outcome.initial else before
    # What a renewal leaves exact every row since has moved by its own rounding.
    allowed = bounds(seen, x, size).times(1 + int(state.counts[SINCE]))
    assert features.q is not None and features.s is not None and features.z is not None
    assert np.linalg.norm(features.q[0] - outcome.q) <= allowed.q
    own = float(seen.kernel(x[None], x[None])[0, 0])
    assert abs(features.loss[0] - min(max(outcome.loss, 0.0), own)) <= allowed.loss
    _check_features(seen, x, features, outcome, allowed)
    if moved:
        _check_factor(after, reference, outcome, allowed.factor)


def _check_features(seen: Any, x: Array, features: Any, outcome: Any, allowed: Any) -> None:
    """‖z‖² = qᵀ(M + ρI)q, ‖s‖² = qᵀMq, and s itself where K_S has a root that sqrtm can find."""
    length = np.sqrt(max(outcome.q @ seen.inner @ outcome.q, 0.0))
    regularised = np.sqrt(length**2 + seen.ridge * outcome.q @ outcome.q)
    assert abs(np.linalg.norm(features.z[0]) - regularised) <= allowed.z
    assert abs(np.linalg.norm(features.s[0]) - length) <= allowed.z + allowed.s
    stored = seen.kernel(seen.stored, seen.stored)
    assert not features.s[0, len(stored) :].any()
    if np.linalg.cond(stored) < 1e12:
        expected = seen.paper_features(x)
        assert np.linalg.norm(features.s[0, : len(stored)] - expected) <= allowed.s


def _check_factor(after: Any, reference: Any, outcome: Any, allowed: float) -> None:
    """The SV that left costs least, as far as rounding lets one tell; A is the same."""
    kept = [int(born) for born in after.born[: after.size]]
    renewed = after.reals[FADED] == 1.0 and after.reals[SHRINK] == 0.0
    expected = reference
    candidate = outcome.candidate
    if candidate is not None:
        costs, doubt = candidate.costs(), cost_bound(candidate, allowed)
        (gone,) = (i for i, born in enumerate(candidate.born) if born not in kept)
        assert costs[gone] - doubt[gone] <= (costs + doubt).min()
        clear = np.delete(costs - doubt, np.argmin(costs)).min() > (costs + doubt).min()
        assert candidate.born[gone] == outcome.evicted or not clear
        expected = copy.copy(candidate)
        expected.drop(gone)
        expected.settle(renewed)
        if candidate.spec.policy == "compensated":
            share = float(np.linalg.norm(candidate.share(gone)))
            leaving = float(np.linalg.norm(candidate.factor[gone]))
            allowed = (1 + share) * allowed + compensation_bound(candidate) * share * leaving
    elif renewed and reference.since:
        # No rank-one change of the frame was exact enough: what waited for a renewal is in A.
        expected = copy.copy(reference)
        expected.renew()
    assert kept == expected.born
    assert np.linalg.norm(after.factor[:, : after.size].T - expected.factor) <= allowed
    assert np.array_equal(after.recency[: after.size], expected.recency)
    assert np.array_equal(after.support[: after.size], expected.stored)


NEAREST = 1e-13
STABLE: dict[str, dict[str, Any]] = {
    "nonparametric, kept still": {"rule": "nonparametric", "forgetting": 1.0},
    "nonparametric, 1/n2": {"rule": "nonparametric", "step": "inverse_n2", "forgetting": 1.0},
    "nonparametric, majorised": {"rule": "nonparametric", "step": "majorised", "forgetting": 1.0},
    "parametric": {},
    "parametric, fifo": {"policy": "fifo"},
    "parametric, distortion": {"policy": "distortion", "kernel": "polynomial"},
    "parametric, compensated": {"policy": "compensated"},
    "parametric, 1/n": {"step": "inverse_n", "forgetting": 1.0},
    "laplacian": {"kernel": "laplacian", "rule": "nonparametric", "forgetting": 1.0},
    "fixed": {"censor": "fixed", "threshold": 0.3},
    "moving": {"censor": "moving"},
    "rate": {"censor": "rate", "censor_rate": 0.7},
}


def play(spec: OKFEBSpec, rows: Array) -> tuple[Array, Array, list[Any]]:
    """Run the oracle from the start: losses, ‖z‖² and outcomes of the rows."""
    model = oracle.start(spec, spec.gamma if isinstance(spec.gamma, float) else 1.0, rows.shape[1])
    losses, lengths, outcomes = [], [], []
    for x in rows:
        inner, ridge = model.inner, model.ridge
        outcome = model.update(x)
        if outcome.initial:
            inner, ridge = model.inner, model.ridge
        losses.append(outcome.loss)
        lengths.append(outcome.q @ inner @ outcome.q + ridge * outcome.q @ outcome.q)
        outcomes.append(outcome)
    return np.array(losses), np.array(lengths), outcomes


@pytest.mark.parametrize("name", STABLE)
@pytest.mark.parametrize("seed", lanes(0, 1))
def test_whole_runs_while_rounding_stays_small(name: str, seed: int) -> None:
    spec = OKFEBSpec(rank=3, budget=6, gamma=4.0, standardise=False, seed=seed, **STABLE[name])
    rows = walk(seed, 250, 3)
    losses, lengths, outcomes = play(spec, rows)
    disturbed = [play(spec, rows * (1 + sign * NEAREST)) for sign in (1, -1)]
    _, features = run_all(spec, rows)
    assert features.z is not None
    # Rows moved by 1e-13, either way, are a far larger disturbance than rounding. Where runs of the
    # oracle part, another implementation may part as well; before that, none may.
    spread = np.max(
        [
            np.maximum(np.abs(moved - losses), np.abs(moved_lengths - lengths))
            for moved, moved_lengths, _ in disturbed
        ],
        axis=0,
    )
    spread = np.maximum.accumulate(spread) + 1e-11
    alike = [
        all((a.evicted, a.informative) == (b.evicted, b.informative) for b in others)
        for a, *others in zip(outcomes, *(run[2] for run in disturbed), strict=True)
    ]
    until = min([i for i, same in enumerate(alike) if not same] + [len(rows)])
    until = min(until, int(np.searchsorted(spread, 1e-6)))
    assert until >= 150
    assert [bool(v) for v in features.informative[:until]] == [
        o.informative for o in outcomes[:until]
    ]
    assert features.evicted[:until].tolist() == [o.evicted for o in outcomes[:until]]
    assert features.initial[:until].tolist() == [o.initial for o in outcomes[:until]]
    assert (np.abs(features.loss - losses)[:until] <= 10 * spread[:until]).all()
    length = (features.z**2).sum(axis=1)
    assert (np.abs(length - lengths)[:until] <= 10 * spread[:until]).all()
