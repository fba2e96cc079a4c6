"""docs/papers.md: the manifest as a page."""

from __future__ import annotations

import sys

from benchmarks.paper.parts import read_manifest, read_titles
from benchmarks.places import ROOT

PAGE = ROOT / "docs" / "papers.md"
INTRODUCTION = """# The papers

""" + " ".join(
    (
        "Which tables and figures of the five papers can be reproduced with kerneltrack, which",
        "differ, and why. Each paper is one command. It prints the paper's values and ours side by",
        "side, and writes values (JSON) and a plot of each figure to `build/benchmarks/`:",
    )
)
COMMANDS = """```bash
python -m benchmarks.paper okfeb                # all of it
python -m benchmarks.paper okfeb --only table1  # one table
python -m benchmarks.paper --list               # what there is
```"""
RANGES = " ".join(
    (
        "The ranges that values may lie in were set before the runs; they are in",
        "`benchmarks/paper/manifest.json`, from which this page is made. The data sets are looked",
        "for in `KERNELTRACK_DATA`.",
    )
)

VALUES = "Values of the last runs next to the paper's: [results](../benchmarks/results/{name}.md)."


def page() -> str:
    """Return the page."""
    titles, papers = read_titles(), read_manifest()
    parts = [INTRODUCTION, COMMANDS, RANGES]
    for name, found in papers.items():
        parts.append(f"## `{name}`\n\n{titles[name]}. {VALUES.format(name=name)}")
        rows = ["| | shows | status |", "|---|---|---|"]
        for part, fields in found.items():
            why = f": {fields.why}" if fields.why else ""
            rows.append(f"| {part} | {fields.shows} | **{fields.status}**{why} |")
        parts.append("\n".join(rows))
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE}\n")
