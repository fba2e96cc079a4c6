"""What feedback mutes and makes normal on made sites: false episodes told again, faults lost.

    python -m benchmarks.bench_feedback --habits --seeds 4 5 6
    python -m benchmarks.bench_feedback --habits --seeds 1 2 3 --likeness .5 .6 .7 .8 .9

Each site (60 machines, 60 days) has 24 that break. With `--habits` each machine has one of its own
from day 20 on, such as being cleaned, which is no fault: one or two channels leave what is usual
for 2 to 6 hours, every 3 to 6 days, by about as much each time. Every six hours somebody says of
the false episodes that were told of and are over since that they were false, as by `kerneltrack
feedback ... false --send`; nobody says anything of others. An episode is false if it was noticed
before its machine's fault, or its machine never breaks: one of a holiday or of an exchanged sensor
is, too. It is told of unless each of its lines is muted. A fault is found by an episode that was
noticed within ten days of it, and is told of within them with a line that names one of the fault's
channels first. `--muted-only`: rows of false episodes do not become normal.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.bench_site import MAKERS
from benchmarks.record import Table
from benchmarks.site_truth import DAY, Site
from kerneltrack.fleet.begin import begin_each
from kerneltrack.fleet.model import Work
from kerneltrack.fleet.run import run_models
from kerneltrack.monitor import feedback
from kerneltrack.monitor.feedback import FALSE, Feedback, Said, entry_of, told_with
from kerneltrack.monitor.likeness import named_channels
from kerneltrack.monitor.reference import Episode, ReferenceSpec
from kerneltrack.monitor.reference.run import NOTHING_SAID
from kerneltrack.trackers import OKFEBSpec

STEP, MACHINES, DAYS, BROKEN = 300, 60, 60, 24
SECOND = 10**9
WITHIN = 10 * DAY
HABITS_FROM = 20
"""Day."""
ANSWERS_EVERY = 6 * 3600
"""Seconds."""
OUTSIDE = "outside"
"""What all machines share."""
WAYS = {
    "auto": ReferenceSpec(learning="auto", causes=(OUTSIDE,)),
    "auto, without outside": ReferenceSpec(learning="auto"),
    "first": ReferenceSpec(),
}
"""The references, by name."""
COLUMNS = (
    "site, reference, likeness",
    *("false", "with feedback", "of these told", "faults found", "with feedback, faults found"),
)


class Ran(NamedTuple):
    """What came of a site: its channels, and the lines of each machine's episodes, in order."""

    site: Site
    channels: tuple[str, ...]
    machines: dict[str, dict[int, list[Episode]]]


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


def run(site: Site, way: str, *, answers: bool) -> Ran:
    """Run the rows of a site, with people who answer or without."""
    spec = WAYS[way]
    channels = (*site.channels, *map(str, spec.causes))
    people = Feedback((), channels)
    work = Work(spec=OKFEBSpec(), reference=spec.placed(channels), feedback=people)
    names = np.array(site.rows["machine"].to_pylist())
    times = site.rows["time"].cast(pa.timestamp("ns", "UTC")).cast("int64").to_numpy()
    rows = np.column_stack([site.rows[name].to_numpy() for name in channels])
    keys = [*dict.fromkeys(names.tolist())]
    own = [np.flatnonzero(names == key) for key in keys]
    first = np.array([[each[0], each[0] + work.rows_to_start] for each in own])
    models = begin_each(work, keys, rows, first[:, 0], first[:, 1])
    ran = Ran(site, channels, defaultdict(lambda: defaultdict(list)))
    ends = np.arange(times.min(), times.max() + 1, ANSWERS_EVERY * SECOND)[1:].tolist()
    for since, end in zip([times.min(), *ends], [*ends, times.max() + 1], strict=True):
        now = [each[(times[each] >= since) & (times[each] < end)] for each in own]
        stops = np.cumsum([len(each) for each in now])
        starts, which = np.r_[0, stops[:-1]], np.concatenate(now)
        until = [np.inf if end > times.max() else -np.inf] * len(keys)
        found = run_models(models, rows[which], times[which], starts, stops, until)
        for place, episodes in found.episodes.items():
            for each in episodes:
                ran.machines[keys[place]][each.number].append(each)
                if answers and each.closed:
                    answer(people, ran, keys[place], each)
    return ran


def answer(people: Feedback, ran: Ran, machine: str, episode: Episode) -> None:
    """Say of an episode that is over that it was false, if it was and was told of."""
    lines = ran.machines[machine][episode.number]
    if not is_false(ran, machine, episode) or all(line.muted for line in lines):
        return
    deviations = [None if np.isnan(each) else each for each in episode.deviations.tolist()]
    parts = named_channels(episode.shares.tolist(), deviations, ran.channels)
    since, _, until, _ = episode.times
    said = Said(machine, since, until, FALSE, until, episode.kind, tuple(parts))
    known = people.told.get(machine, (b"",))[0]
    people.tell(machine, told_with(known, json.dumps(entry_of(said)).encode()))


def is_false(ran: Ran, machine: str, episode: Episode) -> bool:
    """Check whether an episode was noticed before its machine's fault."""
    fault = ran.site.faults.get(machine)
    return fault is None or episode.times[1] / SECOND < fault.visible_since - 3600


def names_it(ran: Ran, machine: str, episode: Episode) -> bool:
    """Check whether a line names a channel of its fault first; that of a false one may any."""
    fault = ran.site.faults.get(machine)
    first = ran.channels[int(np.argmax(episode.shares))]
    return fault is None or is_false(ran, machine, episode) or first in fault.channels


def told_of(ran: Ran, machine: str) -> list[tuple[bool, float, float]]:
    """Return of each episode of a machine whether it is false, and when it is noticed and told of.

    Times are in seconds; that of one that is not told of is infinite.
    """
    found = []
    for lines in ran.machines.get(machine, {}).values():
        counts = [line for line in lines if not line.muted and names_it(ran, machine, line)]
        told = counts[0].times[2] / SECOND if counts else np.inf
        found.append((is_false(ran, machine, lines[0]), lines[0].times[1] / SECOND, told))
    return found


class Came(NamedTuple):
    """What came of sites: false episodes, those told of, and days until each fault was told of."""

    false: int
    told: int
    delays: list[float]


def judge(sites: Sequence[Ran]) -> Came:
    """Pool what came of sites."""
    false = told = 0
    delays = []
    for ran in sites:
        for machine in {*ran.machines, *ran.site.faults}:
            found = told_of(ran, machine)
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
    parser.add_argument("--muted-only", action="store_true", help="learn no rows")
    args = parser.parse_args()
    if args.muted_only:
        Feedback.said_of = lambda *_: NOTHING_SAID  # type: ignore[method-assign]
    table = Table("reference", "feedback", COLUMNS)
    for maker in args.makers:
        for way in args.ways:
            sites = [MAKERS[maker].make(each, MACHINES, DAYS, STEP, BROKEN) for each in args.seeds]
            if args.habits:
                pairs = zip(sites, args.seeds, strict=True)
                sites = [with_habits(site, seed) for site, seed in pairs]
            before = judge([run(site, way, answers=False) for site in sites])
            for least in args.likeness:
                feedback.LEAST_LIKENESS = least
                after = judge([run(site, way, answers=True) for site in sites])
                share = f"{after.told} ({after.told / max(before.told, 1):.0%})"
                found = found_of(before.delays), found_of(after.delays)
                table.add(f"{maker}, {way}, {least:g}", before.told, after.false, share, *found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
