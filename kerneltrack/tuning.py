"""Settings tried on a sample of labelled rows, under the rules that a job learns by.

Every candidate is a tracker and a learner. Each model's rows go through both in their order, every
row predicted before it is learned from, so that nothing is judged on what it has seen. Candidates
meet in rounds: all of them on the first rows of the sample, the better half (of equally good ones
the cheaper) on four times as many, and so on, until one round has had all rows or the time is up
(successive halving). What is the default stays in every round, to be compared with.

Source: K. Jamieson, A. Talwalkar, "Non-stochastic best arm identification and hyperparameter
optimization", AISTATS 2016 (successive halving).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack import codec
from kerneltrack.errors import ConfigError
from kerneltrack.frames import model as steps
from kerneltrack.learners import AutoSpec, HingeSpec, LearnerSpec, LogisticSpec, PASpec, RidgeSpec
from kerneltrack.learners.common.spec import BOTH, CLASSIFICATION
from kerneltrack.trackers import OKFEBSpec, RowsSpec
from kerneltrack.trackers.common.spec import SubspaceSpec

FIRST_ROWS = 1_000
"""Rows of all models together in the first round."""
GROWTH = 4
"""How many times as many rows the next round has."""
LEAST_LEFT = 3
"""Candidates that every round has at least, if there are so many."""

Clock = Callable[[], float]


class Stretch(NamedTuple):
    """A model's labelled rows, in their order.

    Attributes:
        rows: (n, D).
        labels: n classes (objects; None: no label) or targets (float64; NaN: none).
        times: (n,) event times, ns, or None.
    """

    rows: npt.NDArray[np.float64]
    labels: npt.NDArray[Any]
    times: npt.NDArray[np.int64] | None


class Candidate(NamedTuple):
    """Settings to be tried.

    Attributes:
        name: What is different about them, in words.
        tracker: The tracker's.
        learner: The learner's.
    """

    name: str
    tracker: SubspaceSpec
    learner: LearnerSpec


class Trial(NamedTuple):
    """What a candidate did with the rows of its last round.

    Attributes:
        candidate: The settings.
        rows: Rows of the round.
        scored: Rows whose prediction met a label.
        score: Accuracy, or minus the root mean squared error.
        error: Standard error of the score.
        micros: µs of processor time a row, tracker and learner.
        state_bytes: Bytes of the states of one model, the mean over models.
    """

    candidate: Candidate
    rows: int
    scored: int
    score: float
    error: float
    micros: float
    state_bytes: int


def candidates(task: str, channels: int) -> list[Candidate]:
    """Return what is tried for a task: the default first, then what may be better or cheaper.

    Args:
        task: "classification" or "regression".
        channels: D.
    """
    small, large = OKFEBSpec(), OKFEBSpec(rank=20, budget=40)
    still, usual = RowsSpec(rank=channels), AutoSpec(task=task)

    def ridge(forgetting: float, inputs: str = BOTH) -> RidgeSpec:
        return RidgeSpec(task=task, inputs=inputs, forgetting=forgetting)

    found = [
        Candidate("auto", small, usual),
        Candidate("auto, low effort", small, AutoSpec(task=task, effort="low")),
        Candidate("auto, high effort", small, AutoSpec(task=task, effort="high")),
        Candidate("auto, wider kernel", small, AutoSpec(task=task, gamma=4.0 * usual.bandwidth)),
        Candidate("auto, features of 20 directions, too", large, AutoSpec(task=task, inputs=BOTH)),
        Candidate("ridge on rows, never forgets", still, ridge(1.0, "features")),
        Candidate("ridge on rows, last 1,000", still, ridge(0.999, "features")),
        Candidate("ridge on rows, last 100", still, ridge(0.99, "features")),
        Candidate("ridge on rows and 10 directions", small, ridge(0.999)),
        Candidate("ridge on rows and 10 directions, last 20 rows", small, ridge(0.95)),
        Candidate("ridge on rows and 20 directions", large, ridge(0.999)),
        Candidate("ridge on rows and 20 directions, last 40 rows", large, ridge(0.975)),
        Candidate("passive-aggressive on rows", still, PASpec(task=task)),
    ]
    if task == CLASSIFICATION:
        found += [
            Candidate("logistic on rows and 10 directions", small, LogisticSpec(inputs=BOTH)),
            Candidate("hinge on rows and 10 directions", small, HingeSpec(inputs=BOTH)),
        ]
    return found


def try_out(candidate: Candidate, stretches: Sequence[Stretch]) -> Trial:
    """Run a candidate over rows, each model alone, each row predicted before it is learned from.

    Args:
        candidate: The settings.
        stretches: A model each; there is a row at least.
    """
    spec = candidate.learner
    specs = steps.Specs(candidate.tracker, spec, None)
    lengths = np.array([len(stretch.rows) for stretch in stretches])
    stops = np.cumsum(lengths)
    times = [stretch.times for stretch in stretches if stretch.times is not None]
    rows = steps.ModelRows(
        np.concatenate([stretch.rows for stretch in stretches]),
        np.concatenate(times) if times else None,
        [label for stretch in stretches for label in stretch.labels.tolist()],
        stops - lengths,
        stops,
    )
    keys = [""] * len(stretches)
    begin = time.process_time()
    first = [stretch.rows[: candidate.tracker.rows_to_start] for stretch in stretches]
    models = steps.begin(specs, keys, first)
    models, results = steps.run(specs, keys, models, rows)
    took = time.process_time() - begin
    predictions: Any = results.predictions
    judged = predictions.correct if spec.classifies else np.square(predictions.error)
    scored = np.asarray(judged, np.float64)[predictions.scored]
    score, error = _score(scored, spec.classifies)
    state_bytes = sum(_bytes_of(candidate, model) for model in models)
    micros = took / len(rows.x) * 1e6
    return Trial(
        candidate, len(rows.x), len(scored), score, error, micros, state_bytes // len(models)
    )


def _bytes_of(candidate: Candidate, model: steps.DeviceModel) -> int:
    """Return the bytes of a model's states, metrics left out."""
    size = len(codec.encode(candidate.tracker, model.state))
    if model.learned is not None:
        size += len(codec.encode_learner(candidate.learner, model.learned.state))
    return size


def _score(judged: npt.NDArray[np.float64], classifies: bool) -> tuple[float, float]:
    """Return accuracy, or minus the root mean squared error, and its standard error."""
    if not len(judged):
        return -math.inf, 0.0
    mean, spread = float(judged.mean()), float(judged.std()) / math.sqrt(len(judged))
    if classifies:
        return mean, spread
    root = math.sqrt(mean)
    return -root, spread / (2 * root) if root else 0.0


def first_rows(stretches: Sequence[Stretch], most: int) -> list[Stretch]:
    """Return the first rows of models, the same share of each, one of each at least.

    Args:
        stretches: A model each.
        most: About so many rows are taken of all together.
    """
    whole = sum(len(stretch.rows) for stretch in stretches)
    share = min(1.0, most / whole)
    found = []
    for stretch in stretches:
        count = max(1, math.ceil(share * len(stretch.rows)))
        times = None if stretch.times is None else stretch.times[:count]
        found.append(Stretch(stretch.rows[:count], stretch.labels[:count], times))
    return found


def tune(
    tried: Sequence[Candidate],
    stretches: Sequence[Stretch],
    seconds: float,
    clock: Clock = time.monotonic,
) -> list[Trial]:
    """Try candidates within a time.

    A trial that would end after the time, going by what the candidate took before, is not begun;
    of a first trial the others' slowest is expected. The first candidate is always tried once.

    Args:
        tried: The default first; it stays in every round.
        stretches: A model each, with a row at least.
        seconds: The time, > 0.
        clock: Seconds that pass.

    Returns:
        Each candidate's last trial, those of the longest round first, there the best first.

    Raises:
        ConfigError: for no candidate, no row or no time.
    """
    if not tried or not stretches:
        raise ConfigError("stretches" if tried else "tried", [], "one at least")
    if not seconds > 0:
        raise ConfigError("seconds", seconds, "a number > 0")
    end = clock() + seconds
    whole = sum(len(stretch.rows) for stretch in stretches)
    last: dict[str, Trial] = {}
    pace: dict[str, float] = {}
    left, most = list(tried), min(FIRST_ROWS, whole)
    while True:
        part = first_rows(stretches, most)
        rows = sum(len(stretch.rows) for stretch in part)
        met: list[Trial] = []
        for candidate in left:
            expected = rows * pace.get(candidate.name, max(pace.values(), default=0.0))
            begin = clock()
            if last and begin + expected > end:
                continue
            met.append(try_out(candidate, part))
            last[candidate.name] = met[-1]
            pace[candidate.name] = (clock() - begin) / rows
        if most >= whole or len(met) < len(left):
            break
        ranked = sorted(met, key=lambda trial: (-trial.score, trial.micros))
        kept = {trial.candidate.name for trial in ranked[: max(LEAST_LEFT, len(left) // 2)]}
        left = [one for one in left if one.name in kept or one is tried[0]]
        most = min(most * GROWTH, whole)
    return sorted(last.values(), key=lambda trial: (-trial.rows, -trial.score, trial.micros))


def chosen(trials: Sequence[Trial]) -> Trial:
    """Return the cheapest of those that no more than chance is between them and the best.

    Among the trials of the longest round: at most one standard error of the best one's score
    behind it.
    """
    longest = [trial for trial in trials if trial.rows == trials[0].rows]
    best = max(longest, key=lambda trial: trial.score)
    near = [trial for trial in longest if trial.score >= best.score - best.error]
    return min(near, key=lambda trial: (trial.micros, -trial.score))
