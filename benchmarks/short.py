"""Short forms of all benchmarks, in at most 20 minutes on two cores, and what moved since.

    make bench                   # run them, and print what moved; exit code 1 if a figure did
    make bench BENCH=--keep      # take over what came out
    python -m benchmarks.short --only bench_drift bench_stream

Figures that rows decide run two at a time, then those of times one by one. Each cell is held
against the one that is kept (`benchmarks/results/short/`), with its table's tolerance. Times are
those of tables whose tolerance is `TIMES`, and of columns and rows whose name has a unit of time:
on a busy machine they are three times as long, so they never decide. Those that are more than
`SLOWER` times as long or as short, on a machine of the same name, are listed. Nothing is concluded
from short forms themselves: the pages have the figures of whole runs. What is printed by a run lies
in `build/benchmarks/short/`.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from benchmarks.places import BUILD, DATA, ROOT
from benchmarks.record import KEPT, TIMES, Kept, read, write

FRESH = BUILD / "short"
STORED = KEPT / "short"
SLOWER = 3.0
"""By what factor a time must differ to be listed."""
LONGEST = 900.0
"""Seconds after which a benchmark is stopped, and counts as failed."""


class Short(NamedTuple):
    """A short form.

    Attributes:
        module: Below `benchmarks`.
        flags: Of the short form.
        times: Whether it measures time, and so runs alone.
        needs: A program that it needs; where there is none it is left out, which is printed.
    """

    module: str
    flags: str = ""
    times: bool = False
    needs: str = ""

    @property
    def title(self) -> str:
        """The command without Python."""
        return f"{self.module} {self.flags}".strip()


SHORT = (
    # Two at a time: the longest first.
    Short("paper", "polk --quick"),
    Short("paper", "nolana --quick"),
    Short("bench_subspaces", "--quick --seeds 1 --workers 1"),
    Short("paper", "doubly --quick"),
    Short("bench_detection", "--quick --sets skab --fleet 60 --broken 2"),
    Short("paper", "okfeb --quick"),
    Short("paper.online_kpca", "--sets elec2 usps --rows 1000"),
    Short("paper", "bcd --quick"),
    Short("bench_data_sets", "pamap2_fragment cadata"),
    Short("bench_trackers", "--quick"),
    Short("bench_memories", "--sets elec2 cadata --rows 2000"),
    Short("bench_drift", "--seeds 0 1 --no-motionsense"),
    Short("bench_discrepancy", "--sets spheroids"),
    Short("bench_rates", "--devices 2 --rows 20000 --kinds independent lognormal"),
    Short("bench_site", "--machines 6 --length 40 --seeds 1 --makers pumps --broken 4"),
    Short("bench_episodes", "--sets skab"),
    Short("bench_tsbad"),
    Short("bench_series"),
    Short("bench_neighbours", "--devices 30 --seeds 1 --scale 1000"),
    Short("bench_prequential", "--quick --sets elec2 cpusmall"),
    Short("bench_defaults", "--quick --sets elec2 cpusmall"),
    Short("bench_balance", "--rows 1500 --sets a9a ijcnn1"),
    Short("bench_krls", "--rows 2500 --orders 1 --sets cpusmall --budget 40"),
    Short("bench_classes", "--seeds 2 --times 1.2"),
    Short("bench_sets", "--rows 1500 --shares 0.9 --sets ijcnn1 cadata"),
    Short("bench_moving_scale", "--rows 2000 --windows 1000 --sets elec2 cadata"),
    Short("bench_core", "--rounds 5", times=True),
    Short("bench_covariance", "--quick", times=True),
    Short("bench_speed", "--quick", times=True),
    Short("bench_learners", "--rank 10", times=True),
    Short("bench_row_by_row", times=True),
    Short("bench_reference", "--rounds 3", times=True),
    Short("bench_together", times=True),
    Short("bench_rounds", "--calls", times=True),
    Short("bench_mismatch", "10000", times=True),
    Short("bench_job", "--runs 1", times=True),
    Short("bench_memory", "1", times=True),
    Short("bench_backlog", "3000", times=True),
    Short("bench_partition", "--models 1000 --runs 1 --runner no", times=True),
    Short("bench_partition", "--snapshots 2000", times=True),
    Short("bench_partition", "--memory 500 --rows 1000", times=True),
    Short("bench_long", "--devices 40", times=True),
    Short("bench_report", "--devices 240", times=True, needs="chromium"),
    Short("bench_stream", "--quick", times=True, needs="java"),
    Short("bench_hostile", "300", times=True, needs="java"),
)
LEFT_OUT = {
    "bench_against": "needs another checkout",
    "bench_anchors": "CapyMOA wants an environment of its own",
    "bench_expire": "waits until models are silent; tests/e2e has the same in small",
    "bench_feedback": "bench_site has the same jobs, tests/e2e mute false episodes in small",
    "bench_faults": "bench_site has the same jobs, tests of devices name faults in small",
    "bench_fleet_share": "bench_detection has such fleets, tests of the list its error",
    "bench_forest": "forests take minutes a site, and need jars from Maven",
    "bench_incidents": "bench_site has the same jobs, tests/e2e incidents in small",
    "bench_kills": "tests/e2e has the same in small",
    "bench_live_learner": "bench_stream has the same way with the tracker alone",
    "bench_same_bytes": "tests/e2e has the same in small",
    "bench_soak": "its answer is in the minutes",
}
"""Benchmarks without a short form, and why."""


class Ran(NamedTuple):
    """A run: its short form, seconds, and what went wrong, if anything did."""

    short: Short
    seconds: float
    fault: str


def run(short: Short) -> Ran:
    """Run a short form; its exit code says whether goals are met, which is not asked here."""
    command = [sys.executable, "-m", f"benchmarks.{short.module}", *shlex.split(short.flags)]
    results = {"KERNELTRACK_RESULTS": str(FRESH), "OPENBLAS_NUM_THREADS": "1"}
    log = FRESH / f"{re.sub('[^a-z0-9_.]+', '-', short.title)}.txt"
    begin = time.monotonic()
    with log.open("w", encoding="utf-8") as out:
        try:
            subprocess.run(
                command,
                cwd=ROOT,
                env={**os.environ, **results},
                stdout=out,
                stderr=subprocess.STDOUT,
                timeout=LONGEST,
                check=False,
            )
            last = log.read_text(encoding="utf-8").strip().splitlines()[-1:]
            failed = "Traceback (most recent call last)" in log.read_text(encoding="utf-8")
            fault = f"failed: {last[0]}" if failed else ""
        except subprocess.TimeoutExpired:
            fault = f"not done after {LONGEST:.0f} s"
    ran = Ran(short, time.monotonic() - begin, fault)
    print(
        f"{ran.seconds:5.0f} s  {short.title}" + (f": {fault} ({log})" if fault else ""), flush=True
    )
    return ran


def missing(short: Short) -> bool:
    """Check whether a program is not there that a short form needs."""
    return bool(short.needs) and shutil.which(short.needs) is None


def run_all(chosen: Sequence[Short]) -> list[Ran]:
    """Run short forms: figures two at a time, then times one by one."""
    there = [short for short in chosen if not missing(short)]
    for short in chosen:
        if missing(short):
            print(f"left out: {short.title}: no {short.needs} on the path")
    with ThreadPoolExecutor(2) as pool:
        ran = list(pool.map(run, (short for short in there if not short.times)))
    return ran + [run(short) for short in there if short.times]


_NUMBER = re.compile(r"[-−]?(?:\d[\d,]*\.?\d*|\.\d+)(?:e[+-]?\d+)?", re.I)


def numbers(cell: str) -> list[tuple[float, float]]:
    """Return the numbers of a cell, each with the unit of its last digit.

    Example:
        >>> numbers("1.22 (1.19 to 1.3)")
        [(1.22, 0.01), (1.19, 0.01), (1.3, 0.1)]
        >>> numbers("926,603 + 0")
        [(926603.0, 1.0), (0.0, 1.0)]
    """
    found = []
    for text in _NUMBER.findall(cell):
        plain = text.replace(",", "").replace("−", "-")
        mantissa, _, exponent = plain.lower().partition("e")
        digits = len(mantissa.partition(".")[2])
        found.append((float(plain), 10.0 ** (int(exponent or 0) - digits)))
    return found


_TIMED = re.compile(r"(?:^|[\s,(/])(?:µs|ms|s|seconds|time)(?=$|[\s,)])")


class Move(NamedTuple):
    """What is not as it is kept, and whether it is a time."""

    text: str
    time: bool = False


def moved(name: str, before: Kept, now: Kept) -> Iterator[Move]:
    """Yield what differs between two runs of a table by more than its tolerance."""
    if before.columns != now.columns:
        yield Move(f"{name}: other columns; {', '.join(now.columns)}")
        return
    # Rows may share a name: they count in their order.
    if len(before.rows) != len(now.rows):
        yield Move(f"{name}: {len(before.rows)} -> {len(now.rows)} rows")
        return
    for old, new in zip(before.rows, now.rows, strict=True):
        if old[0] != new[0]:
            yield Move(f"{name}: {old[0]} -> {new[0]}")
            continue
        for column, was, came in zip(now.columns[1:], old[1:], new[1:], strict=True):
            timed = before.tolerance >= TIMES or bool(_TIMED.search(f"{column},{new[0]}"))
            if timed and before.machine != now.machine:
                continue
            if differs(was, came, 1.0 - 1.0 / SLOWER if timed else before.tolerance):
                yield Move(f"{name}: {new[0]}, {column}: {was} -> {came}", timed)


def differs(was: str, came: str, tolerance: float) -> bool:
    """Check whether two cells are further apart than a share of the larger and a last digit.

    Example:
        >>> differs(".500", ".508", 0.02), differs(".500", ".512", 0.02), differs("a", "b", 0.5)
        (False, True, True)
    """
    old, new = numbers(was), numbers(came)
    if _NUMBER.sub("", was) != _NUMBER.sub("", came):
        return True
    return any(
        abs(a - b) > tolerance * max(abs(a), abs(b)) + max(unit, other)
        for (a, unit), (b, other) in zip(old, new, strict=True)
    )


def compare(pages: Mapping[str, Mapping[str, Kept]]) -> list[Move]:
    """Return what moved against what is kept, by page and table."""
    found: list[Move] = []
    for page, tables in pages.items():
        before = read(STORED / f"{page}.json")
        for name, table in tables.items():
            if name in before:
                found += moved(f"{page}/{name}", before[name], table)
            else:
                found.append(Move(f"{page}/{name}: not kept yet"))
    return found


def fresh_tables() -> dict[str, dict[str, Kept]]:
    """Return the tables of the runs, by page."""
    return {path.stem: read(path) for path in sorted(FRESH.glob("*.json"))}


def keep(pages: Mapping[str, Mapping[str, Kept]]) -> None:
    """Take over the tables of the runs."""
    for page, tables in pages.items():
        path = STORED / f"{page}.json"
        write(path, {**read(path), **tables})


def main() -> int:
    """Run, compare, print; 1 if a figure moved or a benchmark failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=sorted({short.module for short in SHORT}))
    parser.add_argument("--keep", action="store_true", help="take over what came out")
    options = parser.parse_args()
    if not DATA.is_dir():
        parser.error(f"there are no data sets in {DATA}: set KERNELTRACK_DATA to their folder")
    begin = time.monotonic()
    shutil.rmtree(FRESH, ignore_errors=True)
    FRESH.mkdir(parents=True)
    ran = run_all([each for each in SHORT if options.only is None or each.module in options.only])
    pages = fresh_tables()
    found = compare(pages)
    figures, times = ([each.text for each in found if each.time is time] for time in (False, True))
    faults = [each for each in ran if each.fault]
    cells = sum(
        len(table.rows) * len(table.columns) for one in pages.values() for table in one.values()
    )
    print(
        f"\n{len(ran)} benchmarks, {cells:,} cells, {(time.monotonic() - begin) / 60:.1f} minutes"
    )
    print("\n".join([f"{len(figures)} moved:", *figures] if figures else ["nothing moved"]))
    if times:
        apart = f"more than {SLOWER:g} times as long or short, which load may do:"
        print("\n".join([f"\n{len(times)} times {apart}", *times]))
    if options.keep:
        keep(pages)
        print(f"kept in {Path(os.path.relpath(STORED))}")
    return 1 if faults or (figures and not options.keep) else 0


if __name__ == "__main__":
    sys.exit(main())
