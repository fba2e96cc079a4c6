"""Tables and figures of a paper, its values beside ours.

    python -m benchmarks.paper okfeb|nolana|doubly|polk|bcd [--only PART ...] [--quick]
    python -m benchmarks.paper --list

Each part prints its table, and writes it (`benchmarks.record`). Plots go to
build/benchmarks/paper/. Exits with 1 if a part comes to another status than the manifest has;
`--quick` measures short forms, which nothing is concluded from.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from benchmarks.paper.parts import (
    COLUMNS,
    Measure,
    Part,
    cells,
    outcome,
    read_manifest,
    read_titles,
)
from benchmarks.places import BUILD
from benchmarks.record import Table

OUT = BUILD / "paper"


def main() -> int:
    """Measure, print, write; return the exit code."""
    papers = read_manifest()
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("paper", nargs="?", choices=papers)
    parser.add_argument("--only", nargs="+", metavar="PART")
    parser.add_argument("--quick", action="store_true", help="short forms, without a verdict")
    parser.add_argument("--list", action="store_true", help="list tables and figures, and stop")
    options = parser.parse_args()
    if options.list or options.paper is None:
        print("\n".join(_listed(papers)))
        return 0
    parts = papers[options.paper]
    chosen = list(parts) if options.only is None else options.only
    if unknown := [name for name in chosen if name not in parts]:
        parser.error(f"--only {unknown[0]}: choose from {', '.join(parts)}")
    print(f"# {read_titles()[options.paper]}\n")
    return _run(options.paper, parts, chosen, quick=options.quick)


def _listed(papers: Mapping[str, Mapping[str, Part]]) -> list[str]:
    return [
        f"{paper:8}{name:17}{part.status:12}{part.shows}"
        for paper, parts in papers.items()
        for name, part in parts.items()
    ]


def _run(paper: str, parts: Mapping[str, Part], chosen: Sequence[str], *, quick: bool) -> int:
    measures: Mapping[str, Measure] = importlib.import_module(f"benchmarks.paper.{paper}").PARTS
    OUT.mkdir(parents=True, exist_ok=True)
    moved = 0
    for name in chosen:
        part = parts[name]
        print(f"## {name}: {part.shows}\n")
        if part.status == "impossible":
            print(f"Impossible here: {part.why}\n")
            continue
        begin = time.perf_counter()
        found = measures[name](quick)
        seconds = time.perf_counter() - begin
        table = Table(paper, f"paper-{name}", COLUMNS)
        for row in cells(part, found):
            table.add(*row)
        print("\n".join(["", *found.notes]))
        status = "short form" if quick else outcome(part, found)
        as_expected = quick or status == part.status
        expected = "" if as_expected else f", the manifest says {part.status}"
        print(f"{status}{expected}; {seconds:.0f} s\n", flush=True)
        moved += not as_expected
        if name.startswith("fig") and found.draw is None:
            raise ValueError(f"figure {name} has no plot")
        if found.draw is not None:
            figure = Figure(figsize=(8, 4.5), layout="constrained")
            found.draw(figure)
            figure.savefig(OUT / f"{paper}-{name}.png", dpi=120)
    return 1 if moved else 0


if __name__ == "__main__":
    sys.exit(main())
