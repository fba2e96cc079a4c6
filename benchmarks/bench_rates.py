"""Episodes on rows without faults, against the rate that is stated: kinds of noise, by reference.

    python -m benchmarks.bench_rates [--devices 10] [--rows 50000] [--reference auto first]
    python -m benchmarks.bench_rates --devices 1043 --rows 100000 --rates 1e-6    # 10^8 rows a kind

Each device's rows are one kind of noise in five channels, without any fault, so each episode is a
false one. Only rows after the first one that could open an episode count; `from` is the median
device's. `episodes` stands beside how many the rate allows in the rows that count, and the
interval that holds the mean of a Poisson count with a chance of 95 %. `auto` has a memory of 4,032
rows and no hours of the day, `first` its 512 rows.

Kinds: independent normal rows; AR(a) in each channel; a load of AR(a) that all channels share,
beside own noise; lognormal; Student's t with three degrees of freedom; held, normal values that
change each 1, 10 or 60 rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.signal import lfilter
from scipy.stats import chi2

from benchmarks.record import Table
from kerneltrack.arrays import FloatArray
from kerneltrack.monitor import reference
from kerneltrack.monitor.reference import ReferenceSpec

Noise = Callable[[np.random.Generator, int], FloatArray]

CHANNELS = 5
RATES = (1e-3, 1e-4, 1e-5, 1e-6)
FIRST_ROWS = 512
"""Rows that set the scale, and that `first` is made from."""
MEMORY = "4032 rows"
HELD_FOR = (1, 10, 60, 10, 60)
"""Rows for which each channel of held values keeps one."""


class Count(NamedTuple):
    """Episodes on the devices of a kind, the rows that count, where the median device's begin."""

    episodes: int
    rows: int
    begin: float


def autoregressive(level: float, rng: np.random.Generator, rows: int) -> FloatArray:
    """Return AR(1) rows of variance 1, (rows, CHANNELS)."""
    return _autoregressive(level, rng, rows, CHANNELS)


def _autoregressive(level: float, rng: np.random.Generator, rows: int, columns: int) -> FloatArray:
    steps = rng.normal(size=(rows, columns))
    steps[1:] *= np.sqrt(1 - level**2)
    return np.asarray(lfilter([1.0], [1.0, -level], steps, axis=0))


def common_load(level: float, rng: np.random.Generator, rows: int) -> FloatArray:
    """Return rows that follow one AR(1) load, each channel by a factor of its own."""
    load = _autoregressive(level, rng, rows, 1)
    return load * rng.uniform(0.5, 3, CHANNELS) + 0.3 * rng.normal(size=(rows, CHANNELS))


def held(rng: np.random.Generator, rows: int) -> FloatArray:
    """Return normal rows whose channels keep their values for `HELD_FOR` rows."""
    fresh = rng.normal(size=(rows, CHANNELS))
    last = [np.arange(rows) // kept * kept for kept in HELD_FOR]
    return np.stack([fresh[at, channel] for channel, at in enumerate(last)], axis=1)


KINDS: dict[str, Noise] = {
    "independent": partial(autoregressive, 0.0),
    "AR(.5)": partial(autoregressive, 0.5),
    "AR(.9)": partial(autoregressive, 0.9),
    "AR(.95)": partial(autoregressive, 0.95),
    "AR(.99)": partial(autoregressive, 0.99),
    "common load, AR(.9)": partial(common_load, 0.9),
    "common load, AR(.99)": partial(common_load, 0.99),
    "lognormal": lambda rng, rows: np.exp(rng.normal(size=(rows, CHANNELS))),
    "heavy-tailed": lambda rng, rows: rng.standard_t(3, size=(rows, CHANNELS)),
    "held": held,
}


def count_episodes(spec: ReferenceSpec, noise: Noise, devices: int, rows: int) -> Count:
    """Count the episodes that a reference opens on devices of a kind of noise."""
    episodes, counted, begins = 0, 0, []
    for seed in range(devices):
        data = noise(np.random.default_rng(seed), rows)
        state = reference.init(spec, data[:FIRST_ROWS])
        _, scores, reported = reference.update(spec, state, data)
        could_open = np.isfinite(scores.evidence)
        episodes += sum(not episode.closed for episode in reported)
        counted += int(could_open.sum())
        begins.append(int(could_open.argmax()) if could_open.any() else rows)
    return Count(episodes, counted, float(np.median(begins)))


def described(count: Count, rate: float) -> str:
    """Return a count beside what is stated, with the Poisson interval of its mean."""
    low = 0.5 * chi2.ppf(0.025, 2 * count.episodes) if count.episodes else 0.0
    high = 0.5 * chi2.ppf(0.975, 2 * count.episodes + 2)
    return f"{count.episodes} ({low:.3g} to {high:.3g}) of {count.rows * rate:.3g}"


def spec_of(learning: str, rate: float) -> ReferenceSpec:
    """Return a reference's spec with a rate of false alarms a row."""
    if learning == "auto":
        return ReferenceSpec(learning="auto", memory=MEMORY, season="none", false_alarms=rate * 1e6)
    return ReferenceSpec(learning=learning, false_alarms=rate * 1e6)


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", type=int, default=10)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--reference", nargs="+", default=["auto"], choices=["auto", "first"])
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--rates", type=float, nargs="+", default=list(RATES), help="a row")
    args = parser.parse_args()
    heads = ["reference", "rows", "from", *(f"{rate:g} a row" for rate in args.rates)]
    table = Table("reference", "rates" if args.rates == list(RATES) else "rates_long", heads)
    for learning in args.reference:
        for kind in args.kinds:
            counts = [
                count_episodes(spec_of(learning, rate), KINDS[kind], args.devices, args.rows)
                for rate in args.rates
            ]
            cells = [described(count, rate) for count, rate in zip(counts, args.rates, strict=True)]
            begin = f"{counts[-1].begin:.0f}"
            table.add(learning, kind, begin, *cells)


if __name__ == "__main__":
    main()
