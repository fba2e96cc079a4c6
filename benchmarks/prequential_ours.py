"""Our side of the prequential benchmark: features, learners, and how their settings are chosen.

The rule looks at no label and at no result; it asks only what the user knows: do the rows come in
their own order, each much like the one before?

- If they do (`ORDERED`): features that follow the stream, and a ridge that remembers about as many
  rows as there are features, ρ = 1 - 1/B.
- If not (`SHUFFLED`): features that stand still, by the paper's step for static data (∝ 1/n²), and
  a ridge that never forgets; ρ = .998 where the distribution is known to change (`DRIFTING`).

λ of the ridge is .01 everywhere, for tracked, fixed and raw features alike; the other learners
have their defaults. With r = B every subspace is the span of all B stored rows, so what settings
decide is which rows are stored and how fast they change.

Beside the chosen setting, at the smaller budget, run the other one, a compromise (`either`), the
tracker's defaults, and r features of a subspace with twice as many stored rows (`TWICE`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from benchmarks.prequential_peers import Run
from benchmarks.prequential_sets import DRIFTING, ORDERED, SHUFFLED, WARMUP, Stream
from kerneltrack.arrays import FloatArray
from kerneltrack.in_memory import learn_all, run_all
from kerneltrack.learners import (
    HingeSpec,
    LearnerSpec,
    LMSSpec,
    LogisticSpec,
    PegasosSpec,
    RidgeSpec,
)
from kerneltrack.trackers import OKFEB, Features, OKFEBSpec

# Where hardly anything changes, most updates can be left out: of this rule they cost O(B²).
TRACKERS: dict[str, dict[str, Any]] = {
    "still": {
        "rule": "nonparametric",
        "step": "inverse_n2",
        "forgetting": 1.0,
        "ridge": 1e-5,
        "censor": "rate",
        "censor_rate": 0.99,
    },
    "following": {"step": "inverse_norm", "forgetting": 0.99, "censor": "moving"},
    "either": {
        "rule": "nonparametric",
        "step": "inverse_norm",
        "policy": "compensated",
        "censor": "rate",
        "censor_rate": 0.9,
    },
    "default": {},
}
TWICE: dict[str, dict[str, Any]] = {
    "still": {
        "rule": "nonparametric",
        "policy": "compensated",
        "ridge": 1e-5,
        "censor": "rate",
        "censor_rate": 0.9,
    },
    "following": TRACKERS["following"],
}
"""With B = 2r the subspace has to be learned: the step must not vanish."""
CHOICE = {SHUFFLED: "still", ORDERED: "following", DRIFTING: "still"}
LARGEST_FOR_ALL = 40
"""Past this budget only the chosen setting is run."""

RIDGE_LAMBDA = 0.01
LONG_MEMORY = 0.998
OTHER_MEMORIES = (0.95, LONG_MEMORY)
"""Tried too where the rows are in their own order."""

TRACKED = "ridge, tracked"
FIXED, FIXED_DRAWN = "ridge, fixed map", "ridge, fixed map of the first 500"
LINEAR, STACKED = "ridge, raw rows", "ridge, raw rows and tracked"


class Mapped(NamedTuple):
    """Features of a stream and the processor time they took, in µs a row."""

    z: FloatArray
    micros: float


def memory(kind: str, budget: int) -> float:
    """Return the ridge's forgetting factor ρ."""
    return {SHUFFLED: 1.0, ORDERED: 1.0 - 1.0 / budget, DRIFTING: LONG_MEMORY}[kind]


def bandwidth(stream: Stream) -> float:
    """Return the tracker's γ, the median trick on the first rows."""
    state = OKFEB().init(OKFEBSpec(rank=1, budget=1), stream.rows[:WARMUP])
    return float(state.bandwidth[0])


def track(stream: Stream, spec: OKFEBSpec) -> Mapped:
    """Return the features under the moving subspaces."""
    begin = time.process_time()
    _, features = run_all(spec, stream.rows)
    return _mapped(features, begin)


def fixed_map(stream: Stream, budget: int, seed: int | None = None) -> Mapped:
    """Return features by Nyström's map on B landmarks, which stay.

    They are the first B distinct rows; or with a seed, B drawn from the first `WARMUP`.
    """
    first = stream.rows[:WARMUP]
    places = np.sort(np.unique(first, axis=0, return_index=True)[1])
    if seed is not None:
        places = np.random.default_rng(seed).permutation(places)
    # Unregularised, so that the features are the projection on the landmarks' whole span.
    spec, tracker = OKFEBSpec(rank=budget, budget=budget, ridge=1e-6), OKFEB()
    begin = time.process_time()
    state, _ = tracker.update(spec, tracker.init(spec, first), first[places[:budget]])
    return _mapped(tracker.project(spec, state, stream.rows), begin)


def _mapped(features: Features, begin: float) -> Mapped:
    micros = (time.process_time() - begin) / len(features.valid) * 1e6
    if features.z is None or not features.valid.all():
        raise ValueError("the data sets have no rows that a tracker refuses")
    return Mapped(features.z, micros)


def learn(method: str, spec: LearnerSpec, stream: Stream, mapped: Mapped) -> Run:
    """Run a learner over features: each row is predicted, then learned."""
    labels = stream.labels
    begin = time.process_time()
    _, predictions = learn_all(spec, mapped.z, labels)
    micros = mapped.micros + (time.process_time() - begin) / len(mapped.z) * 1e6
    if predictions.code is not None:
        place = {name: code for code, name in enumerate(stream.classes)}
        # The last entry is for -1, before the first label.
        codes = np.array([*(place[name] for name in predictions.classes), -1], dtype=np.int64)
        return Run(method, codes[predictions.code], micros)
    centre, unit = stream.unit
    value = (
        np.zeros(len(mapped.z)) if predictions.value is None else np.nan_to_num(predictions.value)
    )
    return Run(method, value * unit + centre, micros)


def _ridge(stream: Stream, forgetting: float) -> RidgeSpec:
    task = "classification" if stream.classes else "regression"
    return RidgeSpec(task=task, ridge=RIDGE_LAMBDA, forgetting=forgetting)


def _others(stream: Stream) -> dict[str, LearnerSpec]:
    if not stream.classes:
        return {"NLMS, tracked": LMSSpec(task="regression")}
    return {
        "logistic, tracked": LogisticSpec(),
        "hinge, tracked": HingeSpec(),
        "Pegasos, tracked": PegasosSpec(),
        "NLMS, tracked": LMSSpec(),
    }


def on_raw_rows(stream: Stream, kind: str, budget: int) -> Iterator[Run]:
    """Run the ridge on the scaled rows themselves."""
    yield from _with_memories(LINEAR, stream, kind, budget, Mapped(stream.scaled, 0.0))


def _with_memories(
    method: str, stream: Stream, kind: str, budget: int, mapped: Mapped
) -> Iterator[Run]:
    """Run the ridge with the chosen memory; on ordered rows with others too."""
    yield learn(method, _ridge(stream, memory(kind, budget)), stream, mapped)
    for forgetting in OTHER_MEMORIES if kind == ORDERED else ():
        name = f"{method}, ρ = {forgetting}"
        yield learn(name, _ridge(stream, forgetting), stream, mapped)


def on_features(stream: Stream, kind: str, budget: int, seed: int) -> Iterator[Run]:
    """Run our learners on tracked features, and the ridge on those that stay."""
    ridge, choice = _ridge(stream, memory(kind, budget)), CHOICE[kind]
    spec = OKFEBSpec(rank=budget, budget=budget, seed=seed, **TRACKERS[choice])
    tracked = track(stream, spec)
    yield from _with_memories(TRACKED, stream, kind, budget, tracked)
    yield from _with_memories(FIXED, stream, kind, budget, fixed_map(stream, budget))
    yield learn(FIXED_DRAWN, ridge, stream, fixed_map(stream, budget, seed))
    for method, learner in _others(stream).items():
        yield learn(method, learner, stream, tracked)
    # Scaled rows have squared length D on average, features at most 1.
    raw = stream.scaled / np.sqrt(stream.rows.shape[1])
    both = Mapped(np.hstack([raw, tracked.z]), tracked.micros)
    yield learn(STACKED, ridge, stream, both)
    if budget > LARGEST_FOR_ALL:
        return
    for setting, options in TRACKERS.items():
        # The defaults update with every row; on rows in random order one seed shows it.
        if setting != choice and (setting != "default" or seed == 0):
            spec = OKFEBSpec(rank=budget, budget=budget, seed=seed, **options)
            yield learn(f"{TRACKED} ({setting})", ridge, stream, track(stream, spec))
    spec = OKFEBSpec(rank=budget, budget=2 * budget, seed=seed, **TWICE[choice])
    yield learn(f"{TRACKED}, B = 2r", ridge, stream, track(stream, spec))
