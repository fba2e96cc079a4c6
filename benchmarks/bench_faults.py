"""Names of known faults: how many later faults take the right one.

    python -m benchmarks.bench_faults [--makers machines pumps tep] [--seeds 4 5 6]

Each made site (60 machines, 60 days) has 24 that break, three of each of eight kinds. Of each kind
two machines are drawn, whose first episodes are the known faults; the first episode of every other
broken machine is named after them, as `kerneltrack devices --faults` does, in 40 draws. A fault's
episodes are those noticed within ten days. A kind of which fewer than three were found cannot be
known; those machines should take no name, and neither should episodes of machines that are well.

The machines of the maker `tep` are of the Tennessee Eastman process (data set `tep`): each of its
faults is four machines, with the rows before it and a quarter of those that show it. They are parts
of one recording, so more alike than four faults would be.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.bench_site import MAKERS, OUTSIDE, track
from benchmarks.detection_sets import recordings
from benchmarks.record import Table
from benchmarks.site_truth import DAY, Site
from kerneltrack.monitor.likeness import KnownFault, most_like, named_channels
from pipelines.report.data.files import read_lines, read_run

STEP, MACHINES, DAYS, BROKEN = 300, 60, 60, 24
DRAWS, EXAMPLES, WITHIN = 40, 2, 10 * DAY
QUARTERS = 4
TEP = "tep"
COLUMNS = (
    *("sites", "faults found", "right", "wrong", "none"),
    *("of unknown kinds", "named", "others' episodes", "named"),
)
Line = dict[str, Any]
NONE = ""
"""The name of what is no fault."""


class Noticed(NamedTuple):
    """An episode.

    Attributes:
        site: The seed of its site.
        fault: What is true of it; its name is the kind of fault, `NONE` if there is none.
        at: When it was noticed, ns.
    """

    site: int
    fault: KnownFault
    at: int


def episodes_of(seed: int, site: Site) -> list[Noticed]:
    """Run a job on a site; return what is true of its episodes, as they ended."""
    found = []
    for line, parts in newest_episodes(site.rows, [*OUTSIDE["cause"], "--reference", "auto"]):
        machine = line["model_id"]
        fault, seconds = site.faults.get(machine), line["detected"] / 10**9
        if fault is not None and not 0 <= seconds - fault.visible_since + 3600 < WITHIN:
            continue
        name = NONE if fault is None else fault.kind
        known = KnownFault(name, machine, line["kind"], parts)
        found.append(Noticed(seed, known, line["detected"]))
    return found


def episodes_of_tep() -> list[Noticed]:
    """Run a job on the parts of the process; return what is true of its episodes."""
    tables, begins, train = [], {}, 0
    for recording in recordings(TEP):
        before = int(recording.odd.argmax())
        train = recording.train
        for part, odd in enumerate(np.array_split(np.flatnonzero(recording.odd), QUARTERS)):
            rows = recording.rows[np.r_[:before, odd]]
            name = f"{recording.name}/{part}"
            begins[name] = before
            columns = {f"x{place:02}": rows[:, place - 1] for place in range(1, rows.shape[1] + 1)}
            times = pa.array(recording.times[: len(rows)], pa.timestamp("ns", "UTC"))
            tables.append(pa.table({"machine": [name] * len(rows), "time": times, **columns}))
    flags = ["--reference", "first", "--reference-rows", str(train)]
    found = []
    for line, parts in newest_episodes(pa.concat_tables(tables), flags):
        machine, kind = line["model_id"], line["model_id"].partition("/")[0]
        name = kind if line["detected_index"] >= begins[machine] else NONE
        known = KnownFault(name, machine, line["kind"], parts)
        found.append(Noticed(0, known, line["detected"]))
    return found


def newest_episodes(rows: pa.Table, flags: list[str]) -> Iterator[tuple[Line, list[Line]]]:
    """Run a job; yield the last line of each episode, and its channels by name."""
    newest = {}
    with tempfile.TemporaryDirectory() as folder:
        place, output = Path(folder, "rows.parquet"), Path(folder, "out")
        pq.write_table(rows, place)
        track(place, output, flags)
        channels = read_run(str(output))["columns"]["features"]
        for line in read_lines(str(output), "episodes"):
            newest[line["model_id"], line["episode"]] = line
    for line in newest.values():
        yield line, named_channels(line["shares"], line["deviations"], channels)


def first_of_each(found: Sequence[Noticed]) -> list[Noticed]:
    """Return the first episode of each machine that breaks."""
    first: dict[tuple[int, str], Noticed] = {}
    for each in sorted(found, key=lambda each: each.at):
        if each.fault.name != NONE:
            first.setdefault((each.site, each.fault.device), each)
    return list(first.values())


def main() -> int:
    """Print what became of the names, a line a maker."""
    parser = argparse.ArgumentParser(description=__doc__)
    makers = [*MAKERS, TEP]
    parser.add_argument("--makers", nargs="+", choices=makers, default=makers)
    parser.add_argument("--seeds", type=int, nargs="+", default=[4, 5, 6])
    args = parser.parse_args()
    table = Table("reference", "names_of_faults", COLUMNS)
    for maker in args.makers:
        found: list[Noticed] = episodes_of_tep() if maker == TEP else []
        for seed in [] if maker == TEP else args.seeds:
            found += episodes_of(seed, MAKERS[maker].make(seed, MACHINES, DAYS, STEP, BROKEN))
        table.add(maker, *names_of(found))
    return 0


def names_of(found: Sequence[Noticed]) -> list[str]:
    """Name faults after others of their kind, and count what becomes of it: the table's columns."""
    first = first_of_each(found)
    healthy = [each.fault for each in found if each.fault.name == NONE]
    many = Counter(each.fault.name for each in first)
    kinds = sorted(kind for kind in many if many[kind] > EXAMPLES)
    unknown = [each.fault for each in first if each.fault.name not in kinds]
    rng, named = np.random.default_rng(0), Counter[str]()
    for _ in range(DRAWS):
        known = []
        for kind in kinds:
            own = [each.fault for each in first if each.fault.name == kind]
            known += [own[at] for at in rng.choice(len(own), EXAMPLES, replace=False)]
        for each in first:
            if each.fault.name in kinds and each.fault not in known:
                name = name_of(each.fault, known)
                named["right" if name == each.fault.name else "wrong" if name else "none"] += 1
        for word, others in (("unknown", unknown), ("others", healthy)):
            named[word] += sum(name_of(each, known) != NONE for each in others)
    total = sum(named[word] for word in ("right", "wrong", "none"))
    shares = [f"{named[word] / total:.1%}" for word in ("right", "wrong", "none")]
    means = [f"{named[word] / DRAWS:.1f}" for word in ("unknown", "others")]
    return [str(len(first)), *shares, str(len(unknown)), means[0], str(len(healthy)), means[1]]


def name_of(episode: KnownFault, known: Sequence[KnownFault]) -> str:
    """Return the name that an episode takes, `NONE` if it takes none."""
    like = most_like(episode.kind, episode.channels, known)
    return NONE if like is None else like[0].name


if __name__ == "__main__":
    sys.exit(main())
