"""Every tracker and learner at equal budgets: µs a row, bytes of state, time per flop.

    python benchmarks/bench_speed.py [--rounds 9] [--quick]

D = 12 channels, C = 5 classes, labels at random, so that next to every row is one that is learned
from; budgets full. Rank and budget (10, 20) and (50, 100). Trackers take in every row; the linear
learners learn from z (p = r + 1), the kernel learners, with B rows, from the rows. The doubly
stochastic trackers have as many random features as OK-FEB's state has bytes for. OK-FE is timed as
it stores its B-th row. Beside them, at the same B: scikit-learn's SGDClassifier on Nystroem
features, in chunks of 100, and River's softmax regression and passive-aggressive learner on random
Fourier features (RBFSampler), row by row, predicted, then learned.

The flops are those that the modules' docstrings print (`flops`); ns per flop are also given in
OK-FEB's. Then POLK's row against the rows M that it stores, and the slope.

All of it is processor time, every round times all in turn; reported are medians over the rounds,
ratios those of each round. All values go to build/benchmarks/speed.csv.
"""

from __future__ import annotations

import argparse
import csv
import pickle
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from river import feature_extraction, linear_model, multiclass
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import SGDClassifier

from benchmarks.flops import flops_of
from benchmarks.places import BUILD
from benchmarks.record import TIMES, Table
from kerneltrack.arrays import FloatArray
from kerneltrack.in_memory import run_all
from kerneltrack.learners import AutoSpec, LearnerSpec
from kerneltrack.registry import (
    LEARNERS,
    TRACKERS,
    get_learner,
    get_tracker,
    parse_learner_spec,
    parse_spec,
)
from kerneltrack.trackers.common.spec import SubspaceSpec

OUT = BUILD / "speed"
WIDTH, CLASSES, GAMMA, CHUNK = 12, 5, 24.0, 100
SIZES = ((10, 20), (50, 100))
GROWTH = (100, 200, 400, 800)
FEATURES = {20: 128, 100: 512}
BATCH = 32
FIRST, SECONDS = 1_000, 0.05
REFERENCE = "okfeb"
NAMES = ("still", "walk", "run", "sit", "jump")


class Timed(NamedTuple):
    """Something to time.

    Attributes:
        name: Its name.
        kind: "tracker", "learner" or "peer".
        size: Bytes of state.
        flops: Of a row; NaN where nothing says.
        run: Processes as many rows.
        step: The rows are a multiple of this.
        most: And at most so many.
    """

    name: str
    kind: str
    size: int
    flops: float
    run: Callable[[int], Any]
    step: int = 1
    most: int = 4_000


def stream(count: int) -> FloatArray:
    """A random walk, folded: neighbours are alike, as in sensor data."""
    steps = np.random.default_rng(0).normal(scale=0.3, size=(count, WIDTH))
    return np.asarray(np.sin(np.cumsum(steps, axis=0)))


def tracker_spec(name: str, rank: int, budget: int) -> SubspaceSpec:
    """Return the spec of a tracker at this size."""
    pool = {"budget": FEATURES[budget], "feature_batch": FEATURES[budget] // 4, "row_batch": BATCH}
    own: dict[str, dict[str, Any]] = {
        "okfe": {"max_rows": budget + 40},
        "dskpca": pool,
        "dspair": {**pool, "first_view": WIDTH // 2},
        "covariance": {"budget": budget, "halflife": 2.0 * budget},
        "rows": {"rank": WIDTH},
    }
    shared = {"tracker": name, "standardise": False, "rank": rank, "gamma": GAMMA}
    return parse_spec({**shared, **own.get(name, {"budget": budget})})


def trackers(rank: int, budget: int, rows: FloatArray) -> Iterator[Timed]:
    """Give every tracker, its budget full."""
    for name, tracker in TRACKERS.items():
        spec = tracker_spec(name, rank, budget)
        grows = name == "okfe"
        first = budget if grows else FIRST
        state, _ = tracker.update(spec, tracker.init(spec, rows[:1]), rows[:first])
        pool = getattr(spec, "feature_batch", budget)
        sizes = {
            **{"r": rank, "D": WIDTH, "m": budget, "T": BATCH},
            **{"B": pool, "F": getattr(spec, "budget", budget)},
        }

        def run(
            count: int, name: str = name, spec: Any = spec, state: Any = state, first: int = first
        ) -> None:
            get_tracker(name).update(spec, state, rows[first : first + count])

        size = sum(array.nbytes for array in tracker.arrays(state).values())
        step, most = (BATCH, 4_000) if hasattr(spec, "row_batch") else (1, 20 if grows else 4_000)
        yield Timed(name, "tracker", size, flops_of(tracker, sizes), run, step, most)


def learner_spec(name: str, budget: int) -> LearnerSpec:
    """Return the spec of a learner at this size."""
    own: dict[str, Any] = {}
    if hasattr(LEARNERS[name].spec_type, "budget"):
        own = {"budget": budget, "gamma": GAMMA}
    if name == "polk":
        # It forgets, so that it is an older row that goes: else three in four new ones go at once.
        own |= {"parsimony": 0.0, "ridge": 0.1}
    if name == "nolana":
        own |= {"rank": budget * 4 // 5}
    return parse_learner_spec({"learner": name, **own})


def learners(
    names: Iterable[str], budget: int, rows: FloatArray, z: FloatArray, labels: list[str]
) -> Iterator[Timed]:
    """Give learners, on the features or, where they store rows, on the rows."""
    for name in names:
        learner = get_learner(name)
        spec: Any = learner_spec(name, budget)
        given = rows if hasattr(spec, "budget") else z
        state, _ = learner.update(
            spec, learner.init(spec, given.shape[1]), given[:FIRST], labels[:FIRST]
        )
        sizes = {"D": given.shape[1], "M": budget, "C": CLASSES, "p": given.shape[1] + 1}
        sizes |= {"m": budget, "r": getattr(spec, "rank", 0)}
        if isinstance(spec, AutoSpec):
            seen = min(spec.rows_kept(given.shape[1]), FIRST)
            sizes |= {"W": seen, "F": spec.ferns, "p": 1 + given.shape[1] + budget}

        def run(
            count: int, spec: Any = spec, state: Any = state, given: FloatArray = given
        ) -> None:
            part = slice(FIRST, FIRST + count)
            get_learner(spec.learner).update(spec, state, given[part], labels[part])

        size = sum(array.nbytes for array in learner.arrays(state).values())
        yield Timed(name, "learner", size, flops_of(learner, sizes), run)


def peers(budget: int, rows: FloatArray, labels: list[str]) -> Iterator[Timed]:
    """Give scikit-learn's and River's models at the same budget."""
    mapping = Nystroem(gamma=1.0 / GAMMA, n_components=budget, random_state=0).fit(rows[:FIRST])
    linear = SGDClassifier(random_state=0)

    def sgd(count: int) -> None:
        for start in range(FIRST, FIRST + count, CHUNK):
            chunk = slice(start, start + CHUNK)
            features = mapping.transform(rows[chunk])
            if hasattr(linear, "coef_"):
                linear.predict(features)
            linear.partial_fit(features, labels[chunk], classes=list(NAMES))

    sgd(CHUNK)
    size = len(pickle.dumps((mapping, linear)))
    yield Timed("Nystroem + SGDClassifier", "peer", size, float("nan"), sgd, CHUNK)
    dicts = [dict(enumerate(row)) for row in rows.tolist()]
    models = {
        "RBFSampler + SoftmaxRegression": linear_model.SoftmaxRegression(),
        "RBFSampler + PAClassifier": multiclass.OneVsRestClassifier(
            linear_model.PAClassifier()  # type: ignore[no-untyped-call]
        ),
    }
    for name, learner in models.items():
        model = (
            feature_extraction.RBFSampler(gamma=1.0 / GAMMA, n_components=budget, seed=0) | learner
        )

        def river(count: int, model: Any = model) -> None:
            for at in range(FIRST, FIRST + count):
                model.predict_one(dicts[at])
                model.learn_one(dicts[at], labels[at])

        river(50)
        yield Timed(name, "peer", len(pickle.dumps(model)), float("nan"), river)


def seconds(timed: Timed, count: int) -> float:
    """Return the processor time of a row."""
    begin = time.process_time()
    timed.run(count)
    return (time.process_time() - begin) / count


def measure(things: list[Timed], rounds: int) -> dict[str, list[float]]:
    """Return the seconds a row of each, one a round, all in turn."""
    counts = {}
    for each in things:
        few = min(each.most, 2 * each.step if each.step > 1 else 50)
        once = min(seconds(each, few) for _ in range(2))
        wished = int(SECONDS / max(once, 1e-8)) // each.step * each.step
        counts[each.name] = min(max(wished, few), each.most // each.step * each.step)
    found: dict[str, list[float]] = {each.name: [] for each in things}
    for _ in range(rounds):
        for each in things:
            found[each.name].append(seconds(each, counts[each.name]))
    return found


def show(name: str, things: list[Timed], found: dict[str, list[float]]) -> None:
    """Print a table."""
    (base,) = [each for each in things if each.name == REFERENCE]
    columns = ["", "µs a row", "in OK-FEB's", "bytes", "flops", "ns per flop", "in OK-FEB's"]
    table = Table("speed", name, columns, tolerance=TIMES)
    for each in things:
        pairs = list(zip(found[each.name], found[REFERENCE], strict=True))
        micros = statistics.median(found[each.name]) * 1e6
        ratio = statistics.median(own / other for own, other in pairs)
        cells = [f"{micros:.3g}", f"{ratio:.3g}", f"{each.size:,}"]
        if np.isfinite(each.flops):
            per_flop = f"{ratio * base.flops / each.flops:.2g}"
            cells += [f"{each.flops:,.0f}", f"{1e3 * micros / each.flops:.2g}", per_flop]
        else:
            cells += ["", "", ""]
        table.add(each.name, *cells)


def growth(rows: FloatArray, labels: list[str], rounds: int) -> list[list[Any]]:
    """Time POLK's row against the rows that it stores."""
    things = []
    for budget in GROWTH:
        (polk,) = learners(["polk"], budget, rows, rows, labels)
        things.append(polk._replace(name=str(budget), most=300))
    found = measure(things, rounds)
    micros = [statistics.median(found[each.name]) * 1e6 for each in things]
    slope = np.polyfit(np.log(GROWTH), np.log(micros), 1)[0]
    table = Table("speed", "polk", ["rows M", *map(str, GROWTH)], tolerance=TIMES)
    table.add("µs a row", *(f"{value:.3g}" for value in micros))
    per_flop = (1e3 * m / e.flops for m, e in zip(micros, things, strict=True))
    table.add("ns per flop", *(f"{value:.2g}" for value in per_flop))
    print(f"\nLog-log slope: {slope:.2f}")
    return [["polk", e.name, 1e6 * s] for e in things for s in found[e.name]]


def main() -> int:
    """Print and write the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="the small size and three rounds")
    args = parser.parse_args()
    rounds = 3 if args.quick else args.rounds
    rows = stream(FIRST + 4_000)
    drawn = np.random.default_rng(1).integers(0, CLASSES, size=len(rows))
    labels = [NAMES[code] for code in drawn]
    values: list[list[Any]] = []
    for rank, budget in SIZES[:1] if args.quick else SIZES:
        z = run_all(tracker_spec(REFERENCE, rank, budget), rows)[1].z
        if z is None:
            raise ValueError("no z")
        things = [
            *trackers(rank, budget, rows),
            *learners(LEARNERS, budget, rows, z, labels),
            *peers(budget, rows, labels),
        ]
        found = measure(things, rounds)
        print(f"\nr = {rank}, B = {budget}, D = {WIDTH}, C = {CLASSES}:")
        show("rows" if rank == SIZES[0][0] else f"rows_{rank}", things, found)
        values += [[e.name, budget, 1e6 * s] for e in things for s in found[e.name]]
    more = growth(rows, labels, rounds)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    with OUT.with_suffix(".csv").open("w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle)
        writer.writerow(["name", "budget", "microseconds"])
        writer.writerows([*values, *more])
    return 0


if __name__ == "__main__":
    sys.exit(main())
