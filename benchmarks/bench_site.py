"""A site for weeks: how often the job cries wolf, and which faults it finds how soon.

    python -m benchmarks.bench_site          # two seeds of each maker, some eight minutes
    python -m benchmarks.bench_site --all    # ten seeds and all there is, a night
    python -m benchmarks.bench_site --days 14 28 --flags="--reference gated"
    python -m benchmarks.bench_site --steps 60 --thin 300 --flags="--reference auto"
    python -m benchmarks.bench_site --judge differences --flags="--periods day"

Sites of five makers (`site_machines`, `site_pumps`, `site_turbines`, `site_heat_pumps`,
`site_presses`), 40 machines for 60 days, with eight broken and with none; the command is
`kerneltrack track` as anybody types it, with `outside`, the cause that all machines share, left
out, as a channel or as a cause, and the reference of the default or of the first days. Judged from
day 14 on (`site_judge`), pooled over the seeds; counts of false episodes with their 95 % Poisson
intervals. `common` counts those once that several machines share. With `--judge differences` it is
not the episodes that are judged but what differs by period.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import site_heat_pumps, site_machines, site_presses, site_pumps, site_turbines
from benchmarks.places import ROOT
from benchmarks.record import Table
from benchmarks.site_judge import Verdict, interval, judge
from benchmarks.site_truth import Site
from kerneltrack.monitor.periods.spec import PeriodsSpec


class Maker(NamedTuple):
    """Who makes sites: the function, and the day on which they begin (seconds)."""

    make: Callable[[int, int, int, int, int], Site]
    begin: int


MAKERS = {
    "machines": Maker(site_machines.make, site_machines.BEGIN),
    "pumps": Maker(site_pumps.make, site_pumps.BEGIN),
    "turbines": Maker(site_turbines.make, site_turbines.BEGIN),
    "heat_pumps": Maker(site_heat_pumps.make, site_heat_pumps.BEGIN),
    "presses": Maker(site_presses.make, site_presses.BEGIN),
}
OUTSIDE = {
    "without": ("--exclude", "outside", "state"),
    "channel": ("--exclude", "state"),
    "cause": ("--exclude", "state", "--causes", "outside"),
    "without, by mode": ("--exclude", "outside", "--mode", "state"),
    "cause, by mode": ("--causes", "outside", "--mode", "state"),
}
"""What becomes of the cause that all machines share; whether their state is a mode."""
DEFAULT = 0.0
"""Days of the reference: as the command has it."""


class Way(NamedTuple):
    """How a job is run on a site: whose, seconds a row, `outside`, days of reference."""

    maker: str
    step: int
    outside: str
    days: float

    @property
    def name(self) -> str:
        """What the tables call it."""
        days = "default" if self.days == DEFAULT else f"{self.days:g} days"
        return f"{self.maker}, {self.step} s, outside {self.outside}, {days}"

    def flags(self, reference: str) -> list[str]:
        """Return the flags of the job."""
        flags = [*OUTSIDE[self.outside], *shlex.split(reference)]
        if self.days != DEFAULT:
            begin = datetime.fromtimestamp(MAKERS[self.maker].begin, timezone.utc)
            until = begin + timedelta(days=self.days)
            flags += ["--reference-until", until.isoformat()]
        return flags


def track(site: Path, output: Path, flags: list[str]) -> None:
    """Run the job.

    Raises:
        SystemExit: with what it printed, if it fails.
    """
    columns = ["--model-id", "machine", "--time", "time", "--neighbours", "0"]
    command = ["track", str(site), *columns, *flags, "--output", str(output)]
    done = subprocess.run(
        [sys.executable, "-m", "pipelines.cli", *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)


def thinned(site: Site, seconds: int) -> Site:
    """Keep the last row of each machine in every so many seconds."""
    times = site.rows["time"].cast(pa.timestamp("s", "UTC"), safe=False).cast("int64").to_numpy()
    machines = site.rows["machine"].to_numpy(zero_copy_only=False)
    spans = times // seconds
    last = np.append((machines[1:] != machines[:-1]) | (spans[1:] != spans[:-1]), True)
    return site._replace(rows=site.rows.filter(pa.array(last)))


def run(way: Way, seeds: list[int], args: argparse.Namespace) -> tuple[Verdict, float]:
    """Run a way on the sites of all seeds, with faults and without; pool, and count seconds."""
    pooled, seconds = Verdict(), 0.0
    for seed in seeds:
        for broken in args.broken:
            site = MAKERS[way.maker].make(seed, args.machines, args.length, way.step, broken)
            if args.thin:
                site = thinned(site, args.thin)
            with tempfile.TemporaryDirectory() as place:
                rows, output = Path(place, "rows.parquet"), Path(place, "out")
                pq.write_table(site.rows, rows)
                begin = time.perf_counter()
                track(rows, output, way.flags(args.flags))
                seconds += time.perf_counter() - begin
                first = None if args.judge == "episodes" else PeriodsSpec.first
                verdict = judge(site, output, args.from_day, first)
            print(f"  {way.name}; seed {seed}, {broken} broken: {line(verdict)}", flush=True)
            pooled.add(verdict)
    return pooled, seconds


HEAD = (
    "site",
    "false in 1,000 machine days",
    "common",
    "machines",
    "open",
    "armed",
    "on the holiday",
    "found",
    "start",
    "channel",
)


def cells(verdict: Verdict) -> list[str]:
    """Return what a verdict comes to, as the table has it."""
    per = 1000 / max(verdict.days, 1)
    rates = [
        f"{per * count:.2f} ({per * low:.2f} to {per * high:.2f})"
        for count in (verdict.alarms, verdict.common)
        for low, high in [interval(count)]
    ]
    return [
        *rates,
        f"{verdict.falsely} of {verdict.machines}",
        f"{verdict.open_days / max(verdict.days, 1):.3f}",
        f"{verdict.armed} of {verdict.machines}",
        str(verdict.on_holiday),
        f"{verdict.found} of {verdict.faults}",
        f"{sum(verdict.started)} of {len(verdict.started)}",
        f"{sum(verdict.named)} of {len(verdict.named)}",
    ]


def line(verdict: Verdict) -> str:
    """Return a verdict in a line."""
    names = ("false", "common", "machines", "open", "armed", "holiday", "found")
    return ", ".join(f"{name} {cell}" for name, cell in zip(names, cells(verdict), strict=False))


def delay_of(delays: list[float]) -> str:
    """Return how many faults of a kind were found, and the median delay of these in days."""
    found = [delay for delay in delays if np.isfinite(delay)]
    median = f", {np.median(found):.1f} d" if found else ""
    return f"{len(found)} of {len(delays)}{median}"


def name_of(args: argparse.Namespace) -> str:
    """Return the table's name: what is judged, and against what."""
    if args.judge == "differences":
        return "site_by_day"
    if "auto" in args.flags:
        return "site_auto"
    return "site" if args.days == [DEFAULT] else "site_days"


def tables(name: str, results: list[tuple[Way, Verdict, float]]) -> None:
    """Print the tables: false episodes and all, then by kind of fault."""
    table = Table("reference", name, HEAD)
    for way, verdict, _ in results:
        table.add(way.name, *cells(verdict))
    for maker in dict.fromkeys(way.maker for way, _, _ in results):
        mine = [(way, verdict) for way, verdict, _ in results if way.maker == maker]
        kinds = sorted({kind for _, verdict in mine for kind in verdict.delays})
        table = Table("reference", f"{name}_{maker}", ["found, median delay", *kinds])
        for way, verdict in mine:
            found = [delay_of(verdict.delays.get(kind, [])) for kind in kinds]
            table.add(way.name, *found)


def parse() -> argparse.Namespace:
    """Read the flags."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--all", action="store_true", help="ten seeds, all steps, outsides, days")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--makers", nargs="+", choices=sorted(MAKERS), default=sorted(MAKERS))
    parser.add_argument("--steps", type=int, nargs="+", default=[300], help="seconds a row")
    parser.add_argument("--thin", type=int, help="keep a machine's last row of so many seconds")
    parser.add_argument("--outside", nargs="+", choices=sorted(OUTSIDE), default=["without"])
    parser.add_argument(
        "--days", type=float, nargs="+", default=[DEFAULT], help="of reference; 0: the default"
    )
    parser.add_argument("--broken", type=int, nargs="+", default=[8, 0])
    parser.add_argument("--machines", type=int, default=40)
    parser.add_argument("--length", type=int, default=60, help="days of rows")
    parser.add_argument("--from-day", type=float, default=14)
    parser.add_argument("--judge", choices=("episodes", "differences"), default="episodes")
    parser.add_argument("--flags", default="--reference first", help="of the job, as one text")
    args = parser.parse_args()
    if args.all:
        args.seeds, args.steps = list(range(1, 11)), [300, 60]
        args.outside, args.days = list(OUTSIDE), [DEFAULT, 2.0, 7.0, 14.0, 28.0]
    return args


def main() -> int:
    """Print and write the tables."""
    args = parse()
    results = []
    for maker in args.makers:
        for step in args.steps:
            for outside in args.outside:
                for days in args.days:
                    way = Way(maker, step, outside, days)
                    results.append((way, *run(way, args.seeds, args)))
    tables(name_of(args), results)
    print(f"\n{sum(seconds for *_, seconds in results):.0f} s in jobs")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
