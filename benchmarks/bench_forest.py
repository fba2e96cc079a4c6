"""Random cut forests on the sites of `bench_site`: what OpenSearch's detectors say of these rows.

    python -m benchmarks.bench_forest [--seeds 91 92 93] [--makers machines pumps]

The forests are those that OpenSearch's anomaly detection runs (randomcutforest-parkservices, Java,
from Maven Central), a forest a machine, with its settings: shingles of 8 rows, 30 trees of 256
samples, a recency emphasis of 2,560 and an anomaly rate of .005 (`RandomCutForest.java`). Rows with
a grade above 0, or of .7 and more (what its monitors ask for by default), are joined where less
than an hour lies between them; that is an episode, noticed at its first row, and its channel is
that of the largest share. Judged as `bench_site` does, beside
`kerneltrack track` with two references. `outside`, the cause that all machines share, is left out.
Needs Java and Maven.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.bench_site import HEAD, MAKERS, cells, line, track
from benchmarks.places import BUILD, ROOT
from benchmarks.record import Table
from benchmarks.site_judge import Episode, Verdict, judge, judge_episodes
from benchmarks.site_truth import Site

VERSION = "4.2.0"
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>kerneltrack</groupId><artifactId>forest</artifactId><version>1</version>
<dependencies><dependency>
<groupId>software.amazon.randomcutforest</groupId>
<artifactId>randomcutforest-parkservices</artifactId><version>{VERSION}</version>
<exclusions><exclusion>
<groupId>software.amazon.randomcutforest</groupId><artifactId>randomcutforest-testutils</artifactId>
</exclusion></exclusions>
</dependency></dependencies></project>
"""
JOIN = 3600.0
"""Seconds between rows with a grade that are of one episode."""
SECONDS = 10**9
GRADES = {"random cut forest, grade above 0": 1e-9, "random cut forest, grade of .7": 0.7}
"""The least grade of an episode's rows."""


def jars() -> Path:
    """Return the folder of the forest's jars, fetched once."""
    folder = BUILD / f"forest-{VERSION}"
    if not folder.exists():
        made = Path(tempfile.mkdtemp(dir=BUILD))
        (made / "pom.xml").write_text(POM)
        copy = ["mvn", "-q", "dependency:copy-dependencies", "-DoutputDirectory=."]
        subprocess.run(copy, cwd=made, check=True)
        shutil.move(made, folder)
    return folder


def forests(site: Site, folder: Path) -> dict[str, Verdict]:
    """Judge the episodes of a forest a machine, by the least grade."""
    files = {}
    for name in site.rows["machine"].unique().to_pylist():
        rows = site.rows.filter(pc.equal(site.rows["machine"], name))
        times = rows["time"].cast(pa.timestamp("ns", "UTC")).cast(pa.int64()).to_numpy() // SECONDS
        values = np.column_stack([rows[channel].to_numpy() for channel in site.channels])
        whole = ~np.isnan(values).any(axis=1)
        files[name] = folder / f"{name}.csv", times[whole]
        form = ["%d", *["%.9g"] * len(site.channels)]
        table = np.column_stack([times[whole], values[whole]])
        np.savetxt(files[name][0], table, fmt=form, delimiter=",")
    program = str(Path(__file__).with_name("RandomCutForest.java"))
    java = ["java", "-cp", f"{jars()}/*", program, *(str(path) for path, _ in files.values())]
    subprocess.run(java, cwd=ROOT, check=True)
    grades = {
        name: np.loadtxt(f"{path}.grades", delimiter=",") for name, (path, _) in files.items()
    }
    armed = {
        name: float(times[np.argmax(grades[name][:, 1] >= 0)]) for name, (_, times) in files.items()
    }
    found = {}
    for way, least in GRADES.items():
        episodes = {}
        for name, (_, times) in files.items():
            alarms = grades[name][:, 1] >= least
            episodes[name] = joined(times[alarms], grades[name][alarms, 2].astype(np.int64))
        found[way] = judge_episodes(site, episodes, armed)
    return found


def joined(times: npt.NDArray[np.int64], channels: npt.NDArray[np.int64]) -> list[Episode]:
    """Join rows with a grade to episodes."""
    if not times.size:
        return []
    begins = np.flatnonzero(np.diff(times, prepend=times[0] - 2 * JOIN) > JOIN)
    ends = [*begins[1:] - 1, times.size - 1]
    return [
        Episode(float(times[begin]), float(times[begin]), float(times[end]), int(channels[begin]))
        for begin, end in zip(begins, ends, strict=True)
    ]


REFERENCES = ("auto", "first")


def main() -> int:
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[91, 92, 93])
    parser.add_argument("--makers", nargs="+", choices=sorted(MAKERS), default=sorted(MAKERS))
    args = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    table = Table("reference", "forest", HEAD)
    for maker in args.makers:
        ways = (*GRADES, *(f"--reference {name}" for name in REFERENCES))
        pooled = {way: Verdict() for way in ways}
        for seed in args.seeds:
            for way, verdict in verdicts(MAKERS[maker].make(seed, 40, 60, 300, 8)).items():
                print(f"  {maker}, {way}, seed {seed}: {line(verdict)}", flush=True)
                pooled[way].add(verdict)
        for way, verdict in pooled.items():
            table.add(f"{maker}: {way}", *cells(verdict))
    return 0


def verdicts(site: Site) -> dict[str, Verdict]:
    """Judge all ways on a site."""
    with tempfile.TemporaryDirectory() as place:
        found = forests(site, Path(place))
        rows = Path(place, "rows.parquet")
        pq.write_table(site.rows, rows)
        for name in REFERENCES:
            flags = ["--exclude", "outside", "state", "--reference", name]
            track(rows, Path(place, name), flags)
            found[f"--reference {name}"] = judge(site, Path(place, name))
    return found


if __name__ == "__main__":
    raise SystemExit(main())
