"""Learning on tracked features, prequentially, against peers at the same budget in the same run.

    python benchmarks/bench_prequential.py [--sets watch ...] [--seeds 5] [--quick]

Each row is predicted, then learned. `prequential_sets` says what the streams are and how they are
scored, `prequential_ours` our settings and the rule that chooses them, `prequential_peers` the
peers, `prequential_goals` the goals. All methods see the rows by the mean and standard deviation
of the first 500, and the learners' first 100 rows are scored for nobody. r = B is the number of
features of the tracked subspace, of the fixed Nyström maps and of scikit-learn's `Nystroem`;
River's models and the linear ridge have the rows themselves.

µs are of processor time a row, features and learner together, everything in one thread. Where rows
are in random order, figures are means of the seeds, ± their standard deviation.

Exits with 1 if a goal is missed that `prequential_goals.NOT_REACHED` does not list. All values go
to build/benchmarks/prequential.csv. `--quick` takes one seed, the first 3,000 rows and the smaller
budget, and judges nothing.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from benchmarks import prequential_ours as ours
from benchmarks import prequential_peers as peers
from benchmarks.places import BUILD, DATA
from benchmarks.prequential_goals import judge
from benchmarks.prequential_sets import SOURCES, Scores, Source, Stream, score
from benchmarks.record import Table

OUT = BUILD / "prequential.csv"
ROWS_IF_QUICK = 3_000


class Result(NamedTuple):
    """One method on one stream; `budget` is 0 where it has none."""

    source: str
    budget: int
    method: str
    seed: int
    rows: int
    scores: Scores
    micros: float


def runs_on_budget(stream: Stream, kind: str, budget: int, seed: int) -> Iterator[peers.Run]:
    """Run every method that depends on the budget."""
    yield from ours.on_features(stream, kind, budget, seed)
    yield from peers.nystroem_sgd(stream, budget, ours.bandwidth(stream), seed)


def runs_on_rows(stream: Stream, kind: str, budget: int) -> Iterator[peers.Run]:
    """Run those that do not; the linear ridge remembers rows as the one on `budget` features."""
    yield from ours.on_raw_rows(stream, kind, budget)
    yield from peers.river(stream)
    yield from peers.without_learning(stream)


def measure(name: str, seeds: int, quick: bool) -> Iterator[Result]:
    """Give every method's result on a set, for every seed and budget."""
    source = SOURCES[name]
    for seed in range(seeds if source.seeded else 1):
        stream = source.read(DATA / source.file, seed)
        if quick:
            stream = stream.first(ROWS_IF_QUICK)
        runs = [(0, run) for run in runs_on_rows(stream, source.kind, source.budgets[0])]
        for budget in source.budgets[: 1 if quick else None]:
            runs += [(budget, run) for run in runs_on_budget(stream, source.kind, budget, seed)]
        for budget, run in runs:
            scores = score(stream, run.predicted)
            yield Result(name, budget, run.method, seed, len(stream.rows), scores, run.micros)


def _cell(values: list[float], digits: int) -> str:
    mean, spread = np.mean(values), np.std(values)
    if np.isnan(mean):
        return "-"
    return f"{mean:.{digits}f}" + (f" ±{spread:.{digits}f}" if len(values) > 1 else "")


def show(name: str, results: list[Result], seconds: float) -> None:
    """Print a set's tables, one per budget, the methods without one last."""
    source, rows = SOURCES[name], results[0].rows
    classifies = not np.isnan(results[0].scores.accuracy)
    head = ("accuracy", "balanced", "kappa to last") if classifies else ("RMSE", "RMSE/deviation")
    print(
        f"\n{name}: {rows:,} rows, {source.kind}, tracked with {ours.CHOICE[source.kind]!r}, "
        f"{len({result.seed for result in results})} seed(s), {seconds:.0f} s"
    )
    for budget in sorted({result.budget for result in results}, key=lambda size: (size == 0, size)):
        title = f"r = B = {budget}" if budget else "without a budget"
        table = Table("features", f"{name}_{budget}", [title, *head, "µs a row"])
        chosen = [result for result in results if result.budget == budget]
        for method in dict.fromkeys(result.method for result in chosen):
            of = [result for result in chosen if result.method == method]
            columns = (
                (
                    _cell([result.scores.accuracy for result in of], 4),
                    _cell([result.scores.balanced for result in of], 4),
                    _cell([result.scores.kappa for result in of], 3),
                )
                if classifies
                else (
                    f"{np.mean([result.scores.rmse for result in of]):.5g}",
                    _cell([result.scores.relative for result in of], 4),
                )
            )
            micros = _cell([float(np.mean([result.micros for result in of]))], 1)
            table.add(method, *columns, micros)


def save(results: list[Result]) -> None:
    """Write all values, one line per method and seed."""
    OUT.parent.mkdir(parents=True, exist_ok=True)
    with OUT.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["set", "budget", "method", "seed", "rows", *Scores._fields, "micros"])
        for result in results:
            table.writerow([*result[:5], *result.scores, result.micros])
    print(f"\nAll values: {OUT}")


def merits_of(results: list[Result]) -> dict[tuple[str, str], float]:
    """Return (set, method) to the mean merit at the set's largest budget, or without one."""
    merits: dict[tuple[str, str], list[float]] = {}
    for result in results:
        if result.budget in (0, SOURCES[result.source].budgets[-1]):
            merits.setdefault((result.source, result.method), []).append(result.scores.merit)
    return {key: float(np.mean(values)) for key, values in merits.items()}


def show_goals(merits: Mapping[tuple[str, str], float]) -> bool:
    """Print how the goals came out and who is ahead; tell whether one fails."""
    print("\nGoals of ridge on tracked features at the largest r = B; gains are in accuracy, or in")
    print("standard deviations of the target:")
    verdicts = list(judge(merits))
    for verdict in verdicts:
        print(verdict)
    print("\nAhead of it, or level:")
    for name in dict.fromkeys(source for source, _ in merits):
        own = merits[name, ours.TRACKED]
        lead = {
            method: merit - own
            for (source, method), merit in merits.items()
            if source == name and method != ours.TRACKED and merit >= own
        }
        best = sorted(lead.items(), key=lambda item: -item[1])
        print(f"{name:17s}", "; ".join(f"{method} {gain:+.4f}" for method, gain in best) or "none")
    return any(verdict.fails for verdict in verdicts)


def _there(name: str, source: Source) -> bool:
    if (DATA / source.file).exists():
        return True
    print(f"No {source.file} in {DATA}: {name} left out")
    return False


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=SOURCES, default=list(SOURCES))
    parser.add_argument("--seeds", type=int, default=5, help="orders of the rows")
    parser.add_argument("--quick", action="store_true", help="one seed, 3,000 rows, one budget")
    options = parser.parse_args()
    results: list[Result] = []
    begin = time.perf_counter()
    with threadpool_limits(1):
        for name in options.sets:
            if _there(name, SOURCES[name]):
                start = time.perf_counter()
                of = list(measure(name, 1 if options.quick else options.seeds, options.quick))
                show(name, of, time.perf_counter() - start)
                results += of
    save(results)
    fails = not options.quick and show_goals(merits_of(results))
    print(f"\n{time.perf_counter() - begin:.0f} s in all")
    return 1 if fails else 0


if __name__ == "__main__":
    sys.exit(main())
