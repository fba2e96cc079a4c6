"""The report of many devices: what it costs to write, how large it is, how soon it can be used.

    python -m benchmarks.bench_report [--devices 240 10000 100000]

What a job leaves is made: 60 rows a device, a reference after the first 20 of them, one device in
ten off from row 40 to the end. Chromium opens the page three times, headless and without a graphics
card: milliseconds from the navigation until its scripts have run, then those that a search and a
step to the next device take; medians.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.record import TIMES, Table
from pipelines.report import write_report
from tests.report_runs import SECOND, START, features, put, run_folder, times
from transforms.write.schemas import episodes_schema

ROWS, RANK, SINCE, LAST = 60, 10, 40, 59
OFF, OPENED = 10, 3
MINUTE = 60 * SECOND
PROBE = """
addEventListener("load", () => setTimeout(() => {
  const took = (what) => {
    const from = performance.now();
    what();
    return performance.now() - from;
  };
  const usable = performance.getEntriesByType("navigation")[0].loadEventEnd;
  const find = document.getElementById("find");
  const first = document.getElementById("model").options[0].textContent;
  const search = took(() => { find.value = first; find.dispatchEvent(new Event("input")); });
  const clear = took(() => { find.value = ""; find.dispatchEvent(new Event("input")); });
  const next = took(() => document.getElementById("next").click());
  document.body.dataset.took = JSON.stringify({ usable, search, clear, next });
}));
"""


def write_outputs(folder: Path, devices: int) -> str:
    """Write what a job of so many devices leaves, but for its report."""
    names = [f"device-{number:06}" for number in range(devices)]
    index = np.tile(np.arange(ROWS), devices)
    rng = np.random.default_rng(0)
    p = rng.random(len(index))
    z = pa.FixedSizeListArray.from_arrays(pa.array(rng.normal(size=RANK * len(index))), RANK)
    table = features(
        dict.fromkeys(names, ROWS),
        time=times((START + index * MINUTE).tolist()),
        p=pa.array(p, mask=index < SINCE // 2),
        loss=rng.random(len(index)),
        z=z,
    )
    output = run_folder(folder, table, reference={"learning": "first"})
    lines = [
        {
            "model_id": name,
            "episode": 1,
            "state": "open",
            "kind": "shift",
            "severity": float(number),
            "p": 1e-9,
            "shares": [0.6, 0.4, 0.0],
            **{key: LAST for key in ("index", "last_index")},
            **{key: SINCE for key in ("start_index", "detected_index")},
            **{key: START + LAST * MINUTE for key in ("time", "last")},
            **{key: START + SINCE * MINUTE for key in ("start", "detected")},
        }
        for number, name in enumerate(names[::OFF])
    ]
    put(output, "episodes", pa.Table.from_pylist(lines, episodes_schema(True, 3)))
    return output


def opened(page: Path) -> dict[str, float]:
    """Open a page in Chromium; median milliseconds."""
    text = page.read_text(encoding="utf-8").replace("<head>", f"<head><script>{PROBE}</script>", 1)
    probed = page.with_name("probed.html")
    probed.write_text(text, encoding="utf-8")
    found = []
    for _ in range(OPENED):
        with tempfile.TemporaryDirectory() as profile:
            flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
            command = ["chromium", *flags, "--timeout=10000", "--dump-dom", probed.as_uri()]
            dom = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        took = re.search(r'data-took="(.*?)"', dom)
        if took is None:
            sys.exit(f"{probed}: the page was not ready")
        found.append(json.loads(html.unescape(took[1])))
    return {name: float(np.median([one[name] for one in found])) for name in found[0]}


def main() -> None:
    """Print a line a fleet."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--devices", type=int, nargs="+", default=[240, 10_000, 100_000])
    args = parser.parse_args()
    if shutil.which("chromium") is None:
        sys.exit("no chromium on the path")
    columns = ["devices", "off", "processor s to write", "page, kB"]
    waits = ["ms until usable", "a search", "next device"]
    table = Table("files", "report", [*columns, *waits], tolerance=TIMES)
    for devices in args.devices:
        with tempfile.TemporaryDirectory() as folder:
            output = write_outputs(Path(folder) / "out", devices)
            begin = time.process_time()
            page = Path(write_report(output))
            spent = time.process_time() - begin
            took = opened(page)
            sizes = f"{spent:.1f}", f"{page.stat().st_size / 1e3:,.0f}"
            found = (f"{took[name]:.0f}" for name in ("usable", "search", "next"))
            table.add(f"{devices:,}", f"{len(range(0, devices, OFF)):,}", *sizes, *found)


if __name__ == "__main__":
    main()
