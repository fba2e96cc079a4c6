"""Names of known faults on made sites: how many later faults take the right one.

    python -m benchmarks.bench_faults --seeds 1 2 3

Each site (60 machines, 60 days) has 24 that break, three of each of eight kinds. Of each kind two
machines are drawn, whose first episodes are the known faults; the first episode of every other
broken machine is named after them, as `kerneltrack devices --faults` does, in 40 draws. A fault's
episodes are those noticed within ten days. Episodes of machines that are well should take no name.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq

from benchmarks.bench_site import MAKERS, OUTSIDE, track
from benchmarks.record import Table
from benchmarks.site_truth import DAY, Site
from kerneltrack.monitor.likeness import KnownFault, most_like, named_channels
from pipelines.report.data.files import read_lines, read_run

STEP, MACHINES, DAYS, BROKEN = 300, 60, 60, 24
DRAWS, EXAMPLES, WITHIN = 40, 2, 10 * DAY
COLUMNS = ("sites", "machines broken", "right", "wrong", "none", "others' episodes", "named")
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
    newest = {}
    with tempfile.TemporaryDirectory() as folder:
        place, output = Path(folder, "rows.parquet"), Path(folder, "out")
        pq.write_table(site.rows, place)
        track(place, output, [*OUTSIDE["cause"], "--reference", "auto"])
        channels = read_run(str(output))["columns"]["features"]
        for line in read_lines(str(output), "episodes"):
            newest[line["model_id"], line["episode"]] = line
    found = []
    for (machine, _), line in newest.items():
        fault, seconds = site.faults.get(machine), line["detected"] / 10**9
        if fault is not None and not 0 <= seconds - fault.visible_since + 3600 < WITHIN:
            continue
        parts = named_channels(line["shares"], line["deviations"], channels)
        name = NONE if fault is None else fault.kind
        found.append(
            Noticed(seed, KnownFault(name, machine, line["kind"], parts), line["detected"])
        )
    return found


def first_of_each(found: Sequence[Noticed]) -> list[Noticed]:
    """Return the first episode of each machine that breaks."""
    first: dict[tuple[int, str], Noticed] = {}
    for each in sorted(found, key=lambda each: each.at):
        if each.fault.name != NONE:
            first.setdefault((each.site, each.fault.device), each)
    return list(first.values())


def main() -> int:
    """Run all seeds, and print what became of the names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--maker", choices=[*MAKERS], default="machines")
    args = parser.parse_args()
    make = MAKERS[args.maker].make
    found: list[Noticed] = []
    for seed in args.seeds:
        found += episodes_of(seed, make(seed, MACHINES, DAYS, STEP, BROKEN))
    first = first_of_each(found)
    healthy = [each for each in found if each.fault.name == NONE]
    many = Counter(each.fault.name for each in first)
    kinds = sorted(kind for kind in many if many[kind] > EXAMPLES)
    rng, named, wrong, others = np.random.default_rng(0), Counter[str](), Counter[str](), 0
    for _ in range(DRAWS):
        known = []
        for kind in kinds:
            own = [each for each in first if each.fault.name == kind]
            known += [own[at] for at in rng.choice(len(own), EXAMPLES, replace=False)]
        faults = [each.fault for each in known]
        for each in first:
            if each in known:
                continue
            like = most_like(each.fault.kind, each.fault.channels, faults)
            name = NONE if like is None else like[0].name
            right = "right" if name == each.fault.name else "wrong" if name else "none"
            named[right] += 1
            if right != "right":
                wrong[f"{each.fault.name} as {name or 'none'}"] += 1
        others += sum(
            most_like(each.fault.kind, each.fault.channels, faults) is not None for each in healthy
        )
    total = sum(named.values())
    shares = [f"{named[word] / total:.1%}" for word in ("right", "wrong", "none")]
    table = Table("reference", "names of faults", COLUMNS)
    table.add(args.maker, len(first), *shares, len(healthy), f"{others / DRAWS:.1f}")
    print(dict(wrong))
    return 0


if __name__ == "__main__":
    sys.exit(main())
