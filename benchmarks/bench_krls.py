"""Regressors against KRLS-T, on sets in their own order and shuffled.

    python -m benchmarks.bench_krls [--sets cadata ...] [--held-out] [--rows 8000] [--orders 3]
                                    [--budget 120]

Each row is predicted from the row itself, standardised by the first ones, then learned. `auto`, a
recursive ridge on rows and KRLS-T with as many stored rows as `auto` has landmarks; KRLS-T's width,
noise and memory are those of 27 settings with the least error on the first 1,000 rows (ours are the
defaults). The figure is the RMSE over the standard deviation of the target, on the rows behind
these 1,000; µs a row of KRLS-T are NumPy's.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np

from benchmarks.bench_sets import inputs_of
from benchmarks.defaults_sets import ORDERS, OWN, ordered
from benchmarks.krls_tracker import CHOSEN_BY, tuned_tracker
from benchmarks.prequential_sets import FloatArray, Stream
from benchmarks.target_sets import HELD_OUT, SETS
from kerneltrack.in_memory import learn_all
from kerneltrack.learners import AutoSpec, LearnerSpec, RidgeSpec

OURS: dict[str, LearnerSpec] = {
    "auto": AutoSpec(task="regression"),
    "ridge": RidgeSpec(task="regression"),
}
KRLS_T = "KRLS-T"
METHODS = (*OURS, KRLS_T)


def errors_of(stream: Stream, budget: int) -> Iterator[tuple[str, float, float, str]]:
    """Yield method, relative RMSE, µs a row and the setting chosen, of each method."""
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
    begin = time.process_time()
    reported, setting = tuned_tracker(given, targets, budget)
    micros = (time.process_time() - begin) / len(given) * 1e6
    yield KRLS_T, relative(reported), micros, str(setting)


def main() -> int:
    """Print a line for each set and order; 1 if `auto` is not ahead everywhere."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--sets", nargs="+", choices=[*SETS, *HELD_OUT])
    parser.add_argument("--held-out", action="store_true", help="Those that were never looked at.")
    parser.add_argument("--rows", type=int, default=8_000)
    parser.add_argument("--orders", type=int, default=3, help="Shuffled orders.")
    parser.add_argument("--budget", type=int, default=120)
    args = parser.parse_args()
    sets = args.sets or [*(HELD_OUT if args.held_out else SETS)]
    print(f"{'set':10s}{'order':10s}" + "".join(f"{name:>9s}" for name in METHODS))
    behind = 0
    for name in sets:
        rows = {**SETS, **HELD_OUT}[name]()
        for order in ORDERS:
            found: dict[str, list[float]] = {method: [] for method in METHODS}
            for seed in range(1 if order == OWN else args.orders):
                stream = ordered(rows, order, seed, args.rows)
                for method, error, micros, setting in errors_of(stream, args.budget):
                    found[method].append(error)
                    print(f"    {method}: {error:.4f}, {micros:.0f} µs a row {setting}", flush=True)
            means = {method: float(np.mean(errors)) for method, errors in found.items()}
            behind += means["auto"] > min(means.values())
            line = "".join(f"{mean:9.4f}" for mean in means.values())
            print(f"{name:10s}{order:10s}{line}", flush=True)
    print(f"auto is behind on {behind} of {len(sets) * len(ORDERS)} streams")
    return int(behind > 0)


if __name__ == "__main__":
    raise SystemExit(main())
