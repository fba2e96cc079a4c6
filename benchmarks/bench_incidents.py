"""Incidents on made sites: holidays and common causes that are found, and those of nothing.

    python -m benchmarks.bench_incidents --seeds 3 4 5

Each site (40 machines, 60 days) is run as it is, and with a common cause: for a day the pressure of
a third of its machines is two deviations higher. An incident counts as the holiday's or the cause's
if half of it is noticed by the end of the day after; any other is false. Machines break alone.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from benchmarks.bench_site import MAKERS, OUTSIDE, track
from benchmarks.record import Table
from benchmarks.site_truth import DAY, Site

STEP, MACHINES, DAYS = 900, 40, 60
CAUSE_DAY, EACH, SHIFT = 33.4, 3, 2.0
"""Day on which the cause begins, each how many machines have it, deviations of its size."""


COLUMNS = (
    *("episodes", "machines off at the holiday", "machines off at the cause"),
    *("incidents", "machines in them", "holidays", "causes", "false"),
)


def with_cause(site: Site) -> tuple[pa.Table, int]:
    """Return the rows with a common cause, and when it begins (seconds)."""
    rows = site.rows
    names = rows["machine"].to_numpy(zero_copy_only=False)
    times = rows["time"].cast(pa.timestamp("s", "UTC")).cast(pa.int64()).to_numpy()
    begin = int(times.min() + CAUSE_DAY * DAY)
    hit = np.isin(names, np.unique(names)[::EACH]) & (times >= begin) & (times < begin + DAY)
    pressure = rows["pressure"].to_numpy(zero_copy_only=False).copy()
    pressure[hit] += SHIFT * np.nanstd(pressure)
    place = rows.column_names.index("pressure")
    return rows.set_column(place, "pressure", pa.array(pressure)), begin


def incidents(output: Path) -> Iterator[tuple[float, int]]:
    """Yield when half of each incident of a run was noticed (seconds), and its machines."""
    lines: dict[int, list[dict[str, Any]]] = {}
    for line in ds.dataset(output / "incidents", format="parquet").to_table().to_pylist():
        lines.setdefault(line["incident"], []).append(line)
    for own in lines.values():
        yield float(np.median([line["detected"].timestamp() for line in own])), own[0]["devices"]


def judged(site: Site, rows: pa.Table, cause: int | None) -> Counter[str]:
    """Run a job on rows of a site; return what became of its holidays and of the cause."""
    known = [] if cause is None else [("cause", cause)]
    known += [("holiday", begin) for begin, _ in site.holidays]
    found: Counter[str] = Counter({f"{name}s": 0 for name, _ in known})
    with tempfile.TemporaryDirectory() as folder:
        place, output = Path(folder, "rows.parquet"), Path(folder, "out")
        pq.write_table(rows, place)
        track(place, output, [*OUTSIDE["cause"], "--reference", "auto"])
        lines = ds.dataset(output / "episodes", format="parquet").to_table().to_pylist()
        episodes = {(line["model_id"], line["episode"]): line["detected"] for line in lines}
        found["episodes"] = len(episodes)
        for name, begin in known:
            own = {
                machine
                for (machine, _), noticed in episodes.items()
                if begin <= noticed.timestamp() < begin + 2 * DAY
            }
            found[f"machines off at the {name}"] += len(own)
        for at, machines in incidents(output):
            causes = [name for name, begin in known if begin <= at < begin + 2 * DAY]
            found["incidents"] += 1
            found["machines in them"] += machines
            found[f"{causes[0]}s" if causes else "false"] += 1
    return found


def main() -> int:
    """Run all seeds, and print what each and all came to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[3, 4, 5])
    parser.add_argument("--broken", type=int, default=6)
    args = parser.parse_args()
    totals: dict[str, Counter[str]] = {"as it is": Counter(), "with a cause": Counter()}
    for seed in args.seeds:
        site = MAKERS["machines"].make(seed, MACHINES, DAYS, STEP, args.broken)
        for name, (rows, cause) in {
            "as it is": (site.rows, None),
            "with a cause": with_cause(site),
        }.items():
            found = judged(site, rows, cause)
            print(f"seed {seed}, {name}: {dict(found)}", flush=True)
            totals[name] += found
    table = Table("reference", "incidents", ("sites", *COLUMNS))
    for name, total in totals.items():
        table.add(f"{len(args.seeds)}, {name}", *(total[column] for column in COLUMNS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
