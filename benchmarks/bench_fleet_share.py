"""The list of a stated false share, on fleets of made pumps of which some are broken.

    python -m benchmarks.bench_fleet_share [--seeds 1 2 3 4] [--rates 1e-6 1e-4] [--pool 10000]

Each seed makes a pool of well pumps and one of broken ones (`samples/fleet.py`), and runs the
reference `first` on each. A device's episodes depend on its own rows alone, so fleets are put
together from the pools: as many fleets of 100 as the pool of well pumps has, each with other ones,
and one of 10,000, with 0, 4 and 40 broken pumps. Of each fleet the list is made with shares of .05
and .2.

- off: devices that were off, on average, and how many of these are well;
- listed: devices on the list, on average;
- false share: the mean share of well devices on the list (0 of an empty one), with its interval;
- found: broken pumps on the list, of all, with the interval of that share.

Intervals are of the mean over fleets by Student's t, 95 %, within 0 and 1. `stated` is how many
devices the rate lets be off by chance.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student

from benchmarks.record import Table
from kerneltrack.monitor import reference
from kerneltrack.monitor.false_share import Watched, least_e_value
from kerneltrack.monitor.reference import ReferenceSpec
from samples.fleet import pumps

SIZES, BROKEN, SHARES = (100, 10_000), (0, 4, 40), (0.05, 0.2)
ROWS = 1_200
MOST_BROKEN = 400
"""Broken pumps of a seed, of which each fleet has some."""


class Outcome(NamedTuple):
    """What became of a fleet: devices off, well ones of these, listed, false share, found."""

    off: int
    well_off: int
    listed: int
    false: float
    found: float


def watched(spec: ReferenceSpec, count: int, seed: int, broken: int, name: str) -> list[Watched]:
    """Return what is watched of made pumps."""
    found = []
    for number, pump in enumerate(pumps(count, seed, ROWS, many=broken)):
        state = reference.init(spec, pump.rows[: spec.rows])
        _, scores, reported = reference.update(spec, state, pump.rows)
        episodes = len({episode.number for episode in reported})
        expected = float(np.isfinite(scores.p).sum()) * (spec.rate or 0.0)
        found.append(Watched(f"{name}-{number}", episodes, expected))
    return found


def outcome(well: Sequence[Watched], broken: Sequence[Watched], share: float) -> Outcome:
    """Return what becomes of a fleet."""
    least = least_e_value([*well, *broken], share)
    false, found = (sum(each.e_value >= least for each in part) for part in (well, broken))
    well_off, broken_off = (sum(each.episodes > 0 for each in part) for part in (well, broken))
    return Outcome(
        well_off + broken_off,
        well_off,
        false + found,
        false / max(false + found, 1),
        found / max(len(broken), 1),
    )


def interval(values: Sequence[float]) -> str:
    """Return a mean with its interval."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return f"{mean:.3f}"
    wide = student.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / len(values) ** 0.5
    return f"{mean:.3f} ({max(mean - wide, 0.0):.3f} to {min(mean + wide, 1.0):.3f})"


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--rates", type=float, nargs="+", default=[1e-6, 1e-4])
    parser.add_argument("--pool", type=int, default=max(SIZES), help="well pumps of a seed")
    args = parser.parse_args()
    heads = ("devices, broken", "rate", "share", "fleets", "stated", "off", "of these well")
    table = Table("reference", "false_share", (*heads, "listed", "false share", "found"))
    for rate in args.rates:
        spec = ReferenceSpec(false_alarms=rate * 1e6)
        pools = [
            (
                watched(spec, args.pool, seed, 0, "well"),
                watched(spec, MOST_BROKEN, 1_000 + seed, MOST_BROKEN, "broken"),
            )
            for seed in args.seeds
        ]
        for size in SIZES:
            for many in BROKEN:
                fleets = []
                for (well, broken), seed in zip(pools, args.seeds, strict=True):
                    rng = np.random.default_rng(seed)
                    for begin in range(0, len(well) - size + 1, size):
                        chosen = rng.choice(MOST_BROKEN, many, replace=False)
                        own = well[begin : begin + size - many], [broken[k] for k in chosen]
                        fleets.append(own)
                for share in SHARES:
                    told = [outcome(*fleet, share) for fleet in fleets]
                    if told:
                        add(table, (size, many, rate, share), fleets[0], told)


def add(
    table: Table,
    about: tuple[int, int, float, float],
    fleet: tuple[Sequence[Watched], Sequence[Watched]],
    told: Sequence[Outcome],
) -> None:
    """Add a line of what became of some fleets of one kind."""
    size, many, rate, share = about
    stated = sum(each.expected for part in fleet for each in part)
    off, well_off, listed = (np.mean(column) for column in list(zip(*told, strict=True))[:3])
    table.add(
        f"{size:,}, {many}",
        f"{rate:g}",
        f"{share:g}",
        len(told),
        f"{stated:.3g}",
        f"{off:.2f}",
        f"{well_off:.2f}",
        f"{listed:.2f}",
        interval([each.false for each in told]),
        interval([each.found for each in told]) if many else "",
    )


if __name__ == "__main__":
    main()
