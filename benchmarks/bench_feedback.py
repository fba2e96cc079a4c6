"""What feedback mutes on made sites: how many false episodes are told again, which faults are lost.

    python -m benchmarks.bench_feedback --seeds 4 5 6
    python -m benchmarks.bench_feedback --seeds 1 2 3 --likeness .5 .6 .7 .8 .9

Each site (60 machines, 60 days) has 24 that break. With `--habits` each machine has one of its own
from day 20 on, such as being cleaned, which is no fault: one or two channels leave what is usual
for 2 to 6 hours, every 3 to 6 days, by about as much each time. As soon as a false episode that was
told of is over, somebody says so (`kerneltrack feedback ... false`); nobody says anything of
others. An episode is false if it was noticed before its machine's fault, or its machine never
breaks: one of a holiday or of an exchanged sensor is, too. It is told of unless each of its lines
is muted. A fault is found by an episode that was noticed within ten days of it, and is told of
within them with a line that names one of the fault's channels first.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.bench_site import MAKERS, OUTSIDE, track
from benchmarks.record import Table
from benchmarks.site_truth import DAY, Site
from kerneltrack.monitor import feedback
from kerneltrack.monitor.feedback import FALSE, Feedback, Said
from kerneltrack.monitor.likeness import named_channels
from kerneltrack.monitor.reference.episodes import Episode
from pipelines.report.data.files import read_lines, read_run

STEP, MACHINES, DAYS, BROKEN = 300, 60, 60, 24
WITHIN = 10 * DAY
HABITS_FROM = 20
"""Day."""
WAYS = {
    "auto": [*OUTSIDE["cause"], "--reference", "auto"],
    "auto, without outside": [*OUTSIDE["without"], "--reference", "auto"],
    "first": [*OUTSIDE["without"], "--reference", "first"],
}
"""Flags of the jobs, by name; `outside` is what all machines share."""
NEVER_MUTES = ("--least-deviation", "{}=1e-300")
"""With rules an episode has lines while it is open, too."""
COLUMNS = ("site, job, likeness", "false", "told with feedback", "faults found", "with feedback")
Lines = list[Mapping[str, Any]]


class Ran(NamedTuple):
    """A job on a site: its channels, and the lines of each machine's episodes, in order."""

    site: Site
    channels: tuple[str, ...]
    machines: dict[str, list[Lines]]


def with_habits(site: Site, seed: int) -> Site:
    """Return the site with a habit of each machine, and its rows changed by it."""
    rng = np.random.default_rng(seed)
    names = np.array(site.rows["machine"].to_pylist())
    times = site.rows["time"].cast("int64").to_numpy() // 1000
    columns = {name: site.rows[name].to_numpy().copy() for name in site.channels}
    for machine in dict.fromkeys(names.tolist()):
        own = np.flatnonzero(names == machine)
        which = rng.choice(len(site.channels), int(rng.integers(1, 3)), replace=False)
        sizes = rng.choice([-1.0, 1.0], len(which)) * rng.uniform(1.5, 3.0, len(which))
        at = times[0] + HABITS_FROM * DAY + rng.uniform(0, 6) * DAY
        while at < times[-1]:
            lasts = rng.uniform(2, 6) * 3600
            rows = own[(times[own] >= at) & (times[own] < at + lasts)]
            for place, size in zip(which.tolist(), sizes.tolist(), strict=True):
                column = columns[site.channels[place]]
                column[rows] += size * rng.uniform(0.8, 1.2) * column[own].std()
            at += rng.uniform(3, 6) * DAY
    rows = site.rows
    for name, column in columns.items():
        rows = rows.set_column(rows.column_names.index(name), name, pa.array(column))
    return site._replace(rows=rows)


def run(site: Site, way: str) -> Ran:
    """Run a job on a site."""
    machines: dict[str, dict[int, Lines]] = defaultdict(lambda: defaultdict(list))
    with tempfile.TemporaryDirectory() as folder:
        place, output = Path(folder, "rows.parquet"), Path(folder, "out")
        pq.write_table(site.rows, place)
        rule = (NEVER_MUTES[0], NEVER_MUTES[1].format(site.channels[0]))
        track(place, output, [*WAYS[way], *rule])
        channels = read_run(str(output))["columns"]["features"]
        lines = read_lines(str(output), "episodes")
        for line in sorted(lines, key=lambda line: line["index"]):
            machines[line["model_id"]][line["episode"]].append(line)
    return Ran(site, tuple(channels), {name: [*own.values()] for name, own in machines.items()})


def is_false(ran: Ran, machine: str, line: Mapping[str, Any]) -> bool:
    """Check whether an episode was noticed before its machine's fault."""
    fault = ran.site.faults.get(machine)
    return fault is None or line["detected"] / 1e9 < fault.visible_since - 3600


def episode_of(line: Mapping[str, Any]) -> Episode:
    """Return a line as the core has it."""
    deviations = [np.nan if each is None else each for each in line["deviations"]]
    return Episode(
        number=line["episode"],
        kind=line["kind"],
        start=line["start_index"],
        opened=line["detected_index"],
        row=line["index"],
        closed=line["state"] != "open",
        last=line["last_index"],
        severity=line["severity"],
        peak=line["p"],
        times=(line["start"], line["detected"], line["time"], line["last"]),
        shares=np.array(line["shares"]),
        deviations=np.array(deviations),
    )


def names_it(ran: Ran, machine: str, line: Mapping[str, Any]) -> bool:
    """Check whether a line names a channel of its fault first; that of a false one may any."""
    fault = ran.site.faults.get(machine)
    first = ran.channels[int(np.argmax(line["shares"]))]
    return fault is None or is_false(ran, machine, line) or first in fault.channels


def told_of(ran: Ran, machine: str, *, said: bool) -> list[tuple[bool, float, float]]:
    """Return of each episode of a machine whether it is false, and when it is noticed and told of.

    Times are in seconds; that of one that is not told of is infinite. `said`: with feedback.
    """
    found, known = [], list[Said]()
    for lines in ran.machines.get(machine, []):
        people, told = Feedback(tuple(known), ran.channels), np.inf
        for line in lines:
            if people.why_muted(machine, episode_of(line)) is None and names_it(ran, machine, line):
                told = line["time"] / 1e9
                break
        last, false = lines[-1], is_false(ran, machine, lines[0])
        found.append((false, lines[0]["detected"] / 1e9, told))
        if said and false and np.isfinite(told) and last["state"] != "open":
            parts = named_channels(last["shares"], last["deviations"], ran.channels)
            kind, channels = last["kind"], tuple(parts)
            known.append(
                Said(machine, last["start"], last["time"], FALSE, last["time"], kind, channels)
            )
    return found


class Came(NamedTuple):
    """What came of jobs: false episodes, those told of; faults, and days until each was told of."""

    false: int
    told: int
    delays: list[float]


def judge(jobs: Sequence[Ran], *, said: bool) -> Came:
    """Pool what came of jobs, with feedback or without."""
    false = told = 0
    delays = []
    for ran in jobs:
        for machine in {*ran.machines, *ran.site.faults}:
            found = told_of(ran, machine, said=said)
            false += sum(is_one for is_one, *_ in found)
            told += sum(is_one and np.isfinite(when) for is_one, _, when in found)
            fault = ran.site.faults.get(machine)
            if fault is not None:
                since = fault.visible_since
                late = [
                    when - since
                    for is_one, noticed, when in found
                    if not is_one and noticed - since < WITHIN and when - since < WITHIN
                ]
                delays.append(min(late, default=np.inf) / DAY)
    return Came(false, told, delays)


def found_of(delays: Sequence[float]) -> str:
    """Return how many faults were found, and their median delay."""
    found = [delay for delay in delays if np.isfinite(delay)]
    return f"{len(found)} of {len(delays)}, {np.median(found):.2f} d"


def main() -> int:
    """Run all seeds, and print what became of false episodes and of faults."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[4, 5, 6])
    parser.add_argument("--makers", nargs="+", choices=[*MAKERS], default=[*MAKERS])
    parser.add_argument("--ways", nargs="+", choices=[*WAYS], default=[*WAYS])
    parser.add_argument("--habits", action="store_true", help="of each machine")
    parser.add_argument("--likeness", type=float, nargs="+", default=[feedback.LEAST_LIKENESS])
    args = parser.parse_args()
    table = Table("reference", "feedback", COLUMNS)
    for maker in args.makers:
        for way in args.ways:
            jobs = []
            for seed in args.seeds:
                site = MAKERS[maker].make(seed, MACHINES, DAYS, STEP, BROKEN)
                jobs.append(run(with_habits(site, seed) if args.habits else site, way))
            before = judge(jobs, said=False)
            for least in args.likeness:
                feedback.LEAST_LIKENESS = least
                after = judge(jobs, said=True)
                share = f"{after.told} ({after.told / max(before.false, 1):.0%})"
                found = found_of(before.delays), found_of(after.delays)
                table.add(f"{maker}, {way}, {least:g}", before.false, share, *found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
