"""The defaults against everything else, on labelled sets in their own order and shuffled.

    python benchmarks/bench_defaults.py [--sets watch ...] [--rows 10000] [--orders 5] [--no-forest]
                                        [--forest-orders N] [--quick]

Each row is predicted, then learned; the first 100 are scored for nobody. `defaults_sets` says what
the streams are, `defaults_peers` the peers (their predictions are kept under build/benchmarks, by
content), `OURS` below our other settings. The default is what a job does without a word: OK-FEB's
features, and the learner `auto` that is told of the row alone.

A stream's merit is accuracy, or minus the RMSE in standard deviations of the target. A method's
lead over the default is the mean difference over the orders that both were run on, less two
standard errors where goals are judged; the default's regret is the largest lead of all methods.
CapyMOA's stand in the table where `bench_anchors` has run them. Printed beside: the
mixture's loss against its best expert's, with the bound of `kerneltrack.learners.auto`, and how
sure every classifier was beside how often it was right.

Exits with 1 if a goal is missed that `NOT_REACHED` does not list: never below the ridge on the
rows, the commonest or the last label by more than .003; mean regret at most .01, the largest .03;
ahead of River's forest on two thirds of the streams at a tenth of its time, and of CapyMOA's
streaming random patches (`bench_anchors`, where a stream has been run) at a hundredth. All values
go to build/benchmarks/defaults.csv. `--quick` takes the first 1,000 rows, one order, no forest,
and judges nothing.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from benchmarks import defaults_peers as peers
from benchmarks import record
from benchmarks.bench_anchors import ARF, KNN, SRP, anchors_of
from benchmarks.defaults_sets import CHOSEN_ON, ORDERS, OWN, SETS, ordered, whole
from benchmarks.places import BUILD
from benchmarks.prequential_ours import fixed_map
from benchmarks.prequential_peers import COMMONEST, LAST, Run
from benchmarks.prequential_sets import CHUNK, Stream, score
from kerneltrack.arrays import FloatArray
from kerneltrack.in_memory import learn_all, run_all
from kerneltrack.learners import (
    AutoSpec,
    HingeSpec,
    LearnerSpec,
    LMSSpec,
    LogisticSpec,
    PASpec,
    Predictions,
    RidgeSpec,
)
from kerneltrack.learners.auto.learner import EXPERTS, LOSS, AutoState
from kerneltrack.learners.common.board import losses_of_chances
from kerneltrack.learners.common.inputs import own_inputs
from kerneltrack.learners.common.spec import BOTH, FEATURES, ROWS
from kerneltrack.trackers import OKFEBSpec

OUT = BUILD / "defaults.csv"
DEFAULT, ROWS_ALONE = "default", "ridge, rows"
MAP = "ridge, map fixed on the first 100 rows"
LANDMARKS = 100
OURS: dict[str, tuple[type[LearnerSpec], str]] = {
    ROWS_ALONE: (RidgeSpec, ROWS),
    "ridge, features": (RidgeSpec, FEATURES),
    "ridge, both": (RidgeSpec, BOTH),
    "logistic, both": (LogisticSpec, BOTH),
    "hinge, both": (HingeSpec, BOTH),
    "NLMS, both": (LMSSpec, BOTH),
    "passive-aggressive, rows": (PASpec, ROWS),
    "passive-aggressive, both": (PASpec, BOTH),
}
"""Our other settings, learner and inputs; those that do not know the task are left out."""
BASELINES = (ROWS_ALONE, COMMONEST, LAST)
SLACK, MEAN_REGRET, LARGEST_REGRET, AHEAD = 0.003, 0.01, 0.03, 2 / 3
TIME_SHARES = {peers.FOREST: 0.1, SRP: 0.01}
NOT_REACHED: dict[str, str] = {}
"""Goal to why it is known to be missed."""


class Result(NamedTuple):
    """One method on one stream in one order."""

    name: str
    order: str
    seed: int
    rows: int
    method: str
    merit: float
    micros: float


class Sure(NamedTuple):
    """How good the probabilities of one method were on one stream.

    Attributes:
        gap: Expected calibration error: over twenty equal steps of probability the mean distance
            of how sure predictions were and how often they were right, weighed by rows.
        log_loss: Of the probability of the prediction being right, nats.
        brier: Its squared error.
    """

    name: str
    order: str
    seed: int
    method: str
    gap: float
    log_loss: float
    brier: float


class Margin(NamedTuple):
    """The mixture's loss over its best expert's, and what it may be at most."""

    name: str
    order: str
    seed: int
    best: str
    loss: float
    bound: float


def _learn(
    method: str, spec: LearnerSpec, stream: Stream, features: FloatArray, own: FloatArray | None
) -> tuple[Run, AutoState | None, Predictions]:
    begin = time.process_time()
    state, predictions = learn_all(spec, features, stream.labels, own)
    micros = (time.process_time() - begin) / len(features) * 1e6
    after = state if isinstance(state, AutoState) else None
    if predictions.code is not None:
        place = {name: code for code, name in enumerate(stream.classes)}
        codes = np.array([*(place[name] for name in predictions.classes), -1], dtype=np.int64)
        return Run(method, codes[predictions.code], micros), after, predictions
    centre, unit = stream.unit
    value = (
        np.zeros(len(features)) if predictions.value is None else np.nan_to_num(predictions.value)
    )
    return Run(method, value * unit + centre, micros), after, predictions


def run_ours(stream: Stream) -> Iterator[tuple[Run, AutoState | None, Predictions]]:
    """Yield what the default and our other settings said of a stream."""
    task = "classification" if stream.classes else "regression"
    tracker = OKFEBSpec()
    begin = time.process_time()
    tracked, features = run_all(tracker, stream.rows)
    own = own_inputs(tracker, tracked, stream.rows)
    micros = (time.process_time() - begin) / len(own) * 1e6
    if features.z is None:
        raise ValueError("the default emits z")
    # As a job does, which tells the learner of the row alone.
    run, state, predictions = _learn(DEFAULT, AutoSpec(task=task), stream, own, None)
    yield run._replace(micros=run.micros + micros), state, predictions
    for method, (kind, inputs) in OURS.items():
        if task not in kind.tasks:
            continue
        both = inputs == BOTH
        given = own if inputs == ROWS else features.z
        run, _, predictions = _learn(method, kind(task=task), stream, given, own if both else None)
        more = 0.0 if inputs == ROWS else micros
        yield run._replace(micros=run.micros + more), None, predictions
    still = fixed_map(stream, LANDMARKS)
    ridge = RidgeSpec(task=task, ridge=0.01, forgetting=1.0)
    run, _, predictions = _learn(MAP, ridge, stream, still.z, own)
    yield run._replace(micros=run.micros + still.micros), None, predictions


def measure(
    name: str, most: int, orders: int, forests: int
) -> Iterator[tuple[Result, Margin | Sure | None]]:
    """Yield the result of every method on a set, in every order; River's forest in some."""
    rows = whole(name)
    for order in ORDERS:
        for seed in range(1 if order == OWN else orders):
            stream = ordered(rows, order, seed, most)
            here = name, order, seed
            for run, state, predictions in run_ours(stream):
                merit = score(stream, run.predicted).merit
                margin = None if state is None else margin_of(here, AutoSpec(), state, stream)
                result = Result(*here, len(stream.rows), run.method, merit, run.micros)
                yield result, margin
                yield result, sure_of(here, run.method, predictions)
            for run in peers.run_peers(stream, seed, seed < forests):
                merit = score(stream, run.predicted).merit
                yield Result(*here, len(stream.rows), run.method, merit, run.micros), None
            for method, merit, micros in anchors_of(stream):
                yield Result(*here, len(stream.rows), method, merit, micros), None


def sure_of(here: tuple[str, str, int], method: str, predictions: Predictions) -> Sure | None:
    """Return how good a classifier's probabilities were; None in regression."""
    if predictions.score is None or predictions.correct is None:
        return None
    scored = np.flatnonzero(predictions.scored)[CHUNK:]
    score, right = predictions.score[scored], predictions.correct[scored]
    place = np.minimum((score * 20).astype(np.int64), 19)
    gap = np.abs(np.bincount(place, score - right)).sum() / len(scored)
    log_loss, brier = losses_of_chances(score, right).mean(axis=0).tolist()
    return Sure(*here, method, float(gap), log_loss, brier)


def margin_of(
    here: tuple[str, str, int], spec: AutoSpec, state: AutoState, stream: Stream
) -> Margin | None:
    """Return the mixture's log loss against its best expert's; None in regression."""
    if not stream.classes:
        return None
    losses = state.tally[:, LOSS]
    best = int(np.argmin(losses[:-1]))
    bound = math.log(len(EXPERTS)) + (len(stream.rows) - 1) * -math.log1p(-spec.share)
    return Margin(*here, EXPERTS[best], float(losses[-1] - losses[best]), bound)


class Lead(NamedTuple):
    """By how much a method is ahead of the default on one set in one kind of order.

    Attributes:
        mean: Over the orders that both were run on.
        error: Standard error of the mean, 0 of one order.
        merit: Mean merit of the method.
    """

    mean: float
    error: float
    merit: float

    @property
    def sure(self) -> float:
        """The mean less two standard errors."""
        return self.mean - 2.0 * self.error


Table = dict[tuple[str, str], dict[str, Lead]]


def leads_of(results: list[Result]) -> Table:
    """Return (set, order) to the lead of each method over the default."""
    found: dict[tuple[str, str], dict[str, dict[int, float]]] = {}
    for result in results:
        methods = found.setdefault((result.name, result.order), {})
        methods.setdefault(result.method, {})[result.seed] = result.merit
    return {
        key: {method: _lead(merits, methods[DEFAULT]) for method, merits in methods.items()}
        for key, methods in found.items()
    }


def _lead(merits: dict[int, float], default: dict[int, float]) -> Lead:
    gaps = np.array([merit - default[seed] for seed, merit in merits.items()])
    error = float(np.std(gaps, ddof=1)) / math.sqrt(len(gaps)) if len(gaps) > 1 else 0.0
    return Lead(float(gaps.mean()), error, float(np.mean(list(merits.values()))))


def regret_of(leads: dict[str, Lead]) -> tuple[float, str]:
    """Return the surest lead of all methods over the default, and whose it is; the default's: 0."""
    best = max(leads, key=lambda method: leads[method].sure)
    return leads[best].sure, best


def show(table: Table, results: list[Result]) -> None:
    """Print a line a stream, and each method's mean lead over the default and time."""
    shown = (DEFAULT, *BASELINES, peers.FOREST, SRP, ARF, KNN)
    names = ("default", "rows", "commonest", "last", "forest", "SRP", "ARF", "kNN")
    streams = record.Table("auto", "streams", ["", *names, "regret", "best of all"])
    for (name, order), leads in table.items():
        line = (f"{leads[each].merit:.4f}" if each in leads else "" for each in shown)
        regret, best = regret_of(leads)
        streams.add(f"{name}, {order}", *line, f"{regret:.4f}", best)
    methods = dict.fromkeys(result.method for result in results)
    heads = ["method", "mean lead", "largest", "µs a row", "streams"]
    means = record.Table("auto", "methods", heads)
    for method in methods:
        found = [leads[method].mean for leads in table.values() if method in leads]
        micros = [result.micros for result in results if result.method == method]
        cells = f"{np.mean(found):.4f}", f"{max(found):.4f}", f"{np.median(micros):.1f}"
        means.add(method, *cells, len(found))


def show_margins(margins: list[Margin]) -> bool:
    """Print the mixture's loss over its best expert's; tell whether the bound is broken."""
    heads = ["", "loss over the best expert's, nats", "bound", "best expert"]
    lines = record.Table("auto", "margins", heads)
    for margin in margins:
        title = f"{margin.name}, {margin.order} {margin.seed}"
        lines.add(title, f"{margin.loss:.2f}", f"{margin.bound:.2f}", margin.best)
    return any(margin.loss > margin.bound for margin in margins)


def show_sure(found: list[Sure]) -> None:
    """Print how good the probabilities of the default were, and the means of the others."""
    heads = ["of the default", "calibration error", "log loss", "Brier score"]
    streams = record.Table("auto", "calibration_streams", heads)
    for line in (line for line in found if line.method == DEFAULT):
        title = f"{line.name}, {line.order} {line.seed}"
        streams.add(title, f"{line.gap:.4f}", f"{line.log_loss:.4f}", f"{line.brier:.4f}")
    heads = ["", "calibration error", "largest", "log loss", "Brier score"]
    means = record.Table("auto", "calibration", heads)
    for method in dict.fromkeys(line.method for line in found):
        values = np.array([line[-3:] for line in found if line.method == method])
        gap, log_loss, brier = values.mean(axis=0).tolist()
        largest = values[:, 0].max()
        means.add(method, *(f"{each:.4f}" for each in (gap, largest, log_loss, brier)))


def judge(table: Table, results: list[Result]) -> Iterator[tuple[str, float, bool]]:
    """Yield each goal, what came out and whether it is reached."""
    for method in BASELINES:
        worst = max(leads[method].sure for leads in table.values())
        yield f"never below {method} by more than {SLACK}", worst, worst <= SLACK
    regrets = [regret_of(leads)[0] for leads in table.values()]
    mean = float(np.mean(regrets))
    yield f"mean regret at most {MEAN_REGRET}", mean, mean <= MEAN_REGRET
    yield f"largest regret at most {LARGEST_REGRET}", max(regrets), max(regrets) <= LARGEST_REGRET
    held_out = [regret_of(leads)[0] for key, leads in table.items() if key[0] not in CHOSEN_ON]
    if held_out:
        mean = float(np.mean(held_out))
        yield f"mean regret at most {MEAN_REGRET} on sets held out", mean, mean <= MEAN_REGRET
    for forest, most in TIME_SHARES.items():
        yield from judge_forest(table, results, forest, most)


def judge_forest(
    table: Table, results: list[Result], forest: str, most: float
) -> Iterator[tuple[str, float, bool]]:
    """Yield the goals against a forest, where it was run: its share of the time at most `most`."""
    both = [leads for leads in table.values() if forest in leads]
    if not both:
        return
    ahead = float(np.mean([leads[forest].mean < 0.0 for leads in both]))
    yield f"ahead of {forest} on two thirds", ahead, ahead >= AHEAD
    ran = {result[:3] for result in results if result.method == forest}
    micros = dict.fromkeys((DEFAULT, forest), 0.0)
    for result in results:
        if result.method in micros and result[:3] in ran:
            micros[result.method] += result.micros
    share = micros[DEFAULT] / micros[forest]
    yield f"at {most:.0%} of its time", share, share <= most


def save(results: list[Result]) -> None:
    """Write all values, one line per method, order and seed."""
    OUT.parent.mkdir(parents=True, exist_ok=True)
    with OUT.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(Result._fields)
        table.writerows(results)
    print(f"\nAll values: {OUT}")


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--rows", type=int, default=10_000, help="most rows of a stream")
    parser.add_argument("--orders", type=int, default=5, help="shuffled orders of each set")
    parser.add_argument("--no-forest", action="store_true", help="leave River's forest out")
    parser.add_argument("--forest-orders", type=int, help="orders with the forest; all without it")
    parser.add_argument("--quick", action="store_true", help="1,000 rows, one order, no forest")
    options = parser.parse_args()
    most, orders = (1_000, 1) if options.quick else (options.rows, options.orders)
    results: list[Result] = []
    margins: list[Margin] = []
    sure: list[Sure] = []
    with threadpool_limits(1):
        for name in options.sets:
            forests = 0 if options.no_forest or options.quick else orders
            if options.forest_orders is not None:
                forests = min(forests, options.forest_orders)
            for result, beside in measure(name, most, orders, forests):
                if isinstance(beside, Margin):
                    margins.append(beside)
                if isinstance(beside, Sure):
                    sure.append(beside)
                    continue
                if not results or results[-1] is not result:
                    results.append(result)
            print(f"{name} done", file=sys.stderr, flush=True)
    table = leads_of(results)
    show(table, results)
    broken = show_margins(margins)
    show_sure(sure)
    save(results)
    if options.quick:
        return 1 if broken else 0
    print()
    failed = broken
    for goal, value, reached in judge(table, results):
        reason = NOT_REACHED.get(goal)
        state = "reached" if reached else "MISSED" if reason is None else "not reached"
        failed |= not reached and reason is None
        print(f"{state:12s}{goal}: {value:.4f}" + (f" ({reason})" if reason else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
