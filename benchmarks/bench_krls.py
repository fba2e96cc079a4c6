"""Regressors against KRLS-T and ALD-KRLS, on sets in their own order and shuffled.

    python -m benchmarks.bench_krls [--sets cadata ...] [--held-out] [--rows 8000] [--orders 3]
                                    [--budget 120] [--peers KRLS-T ALD-KRLS]

Each row is predicted from the row itself, standardised by the first ones, then learned. `auto`, a
recursive ridge on rows, and KRLS-T and ALD-KRLS with as many stored rows as `auto` has landmarks.
KRLS-T's width, noise and memory are those of 27 settings with the least error on the first 1,000
rows, ALD-KRLS's width and ν those of 16 (ours are the defaults). The figure is the RMSE over the
standard deviation of the target, on the rows behind these 1,000; µs a row of the two are NumPy's.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from benchmarks.bench_sets import inputs_of
from benchmarks.defaults_sets import ORDERS, OWN, ordered
from benchmarks.krls_ald import tuned_squares
from benchmarks.krls_tracker import CHOSEN_BY, tuned_tracker
from benchmarks.prequential_sets import Stream
from benchmarks.record import TIMES, Table
from benchmarks.target_sets import HELD_OUT, SETS
from kerneltrack.arrays import FloatArray
from kerneltrack.in_memory import learn_all
from kerneltrack.learners import AutoSpec, LearnerSpec, RidgeSpec

OURS: dict[str, LearnerSpec] = {
    "auto": AutoSpec(task="regression"),
    "ridge": RidgeSpec(task="regression"),
}
PEERS: dict[str, Callable[[FloatArray, FloatArray, int], tuple[FloatArray, object]]] = {
    "KRLS-T": tuned_tracker,
    "ALD-KRLS": tuned_squares,
}


def errors_of(
    stream: Stream, budget: int, peers: Sequence[str]
) -> Iterator[tuple[str, float, float, str]]:
    """Yield method, relative RMSE, µs a row and the setting chosen, of ours and of some peers."""
    given, targets = inputs_of(stream), np.asarray(stream.labels, np.float64)
    truth = targets[CHOSEN_BY:]

    def relative(predictions: FloatArray) -> float:
        return float(np.sqrt(np.mean((predictions[CHOSEN_BY:] - truth) ** 2)) / targets.std())

    for name, spec in OURS.items():
        begin = time.process_time()
        predictions = learn_all(spec, given, targets, None)[1]
        micros = (time.process_time() - begin) / len(given) * 1e6
        if predictions.value is None:
            raise ValueError("no targets")
        yield name, relative(predictions.value), micros, ""
    for name in peers:
        begin = time.process_time()
        predicted, setting = PEERS[name](given, targets, budget)
        micros = (time.process_time() - begin) / len(given) * 1e6
        yield name, relative(predicted), micros, str(setting)


def main() -> int:
    """Print a line for each set and order; 1 if `auto` is not ahead everywhere."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--sets", nargs="+", choices=[*SETS, *HELD_OUT])
    parser.add_argument("--held-out", action="store_true", help="Those that were never looked at.")
    parser.add_argument("--rows", type=int, default=8_000)
    parser.add_argument("--orders", type=int, default=3, help="Shuffled orders.")
    parser.add_argument("--budget", type=int, default=120)
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=[*PEERS])
    args = parser.parse_args()
    sets = args.sets or [*(HELD_OUT if args.held_out else SETS)]
    methods = (*OURS, *args.peers)
    table = Table("auto", "krls_held_out" if args.held_out else "krls", ["", *methods])
    spent: dict[str, list[float]] = {method: [] for method in methods}
    behind = 0
    for name in sets:
        rows = {**SETS, **HELD_OUT}[name]()
        for order in ORDERS:
            found: dict[str, list[float]] = {method: [] for method in methods}
            for seed in range(1 if order == OWN else args.orders):
                stream = ordered(rows, order, seed, args.rows)
                for method, error, micros, setting in errors_of(stream, args.budget, args.peers):
                    found[method].append(error)
                    spent[method].append(micros)
                    print(f"{method}: {error:.4f} {setting}", file=sys.stderr, flush=True)
            means = {method: float(np.mean(errors)) for method, errors in found.items()}
            behind += means["auto"] > min(means.values())
            table.add(f"{name}, {order}", *(f"{mean:.4f}" for mean in means.values()))
    table = Table("auto", "krls_times", ["", *methods], tolerance=TIMES)
    table.add("µs a row, median", *(f"{np.median(each):.0f}" for each in spent.values()))
    print(f"auto is behind on {behind} of {len(sets) * len(ORDERS)} streams")
    return int(behind > 0)


if __name__ == "__main__":
    raise SystemExit(main())
