"""Tables of benchmarks: printed as they grow, and written with machine, commit and date.

A run writes `build/benchmarks/results/PAGE.json` (or the folder of `KERNELTRACK_RESULTS`), a table
as soon as it has a row. What is to stay, `python -m benchmarks.pages --keep` copies to
`benchmarks/results/`, whose pages are made from it.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.places import BUILD, ROOT, provenance

KEPT = ROOT / "benchmarks" / "results"
"""The figures that the pages are made from."""
EXACT = 0.02
"""Tolerance of figures that the rows decide: rounding moves a chaotic tracker by about as much."""
TIMES = 0.5
"""Tolerance of times: two runs on a shared machine differ by a third."""


def fresh() -> Path:
    """Return the folder that runs write to."""
    return Path(os.environ.get("KERNELTRACK_RESULTS", BUILD / "results"))


@dataclasses.dataclass(frozen=True)
class Kept:
    """A table of a run.

    Attributes:
        command: What made it.
        machine: Processor and cores.
        commit: `git describe` of the code.
        date: Day, or day and time (ISO 8601).
        tolerance: By how much, relative to the value, two runs may differ.
        columns: Heads; the first names the rows.
        rows: Cells as they are printed.
        by_hand: Whether the table was put together by hand of what the command printed then.
    """

    command: str
    machine: str
    commit: str
    date: str
    tolerance: float
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    by_hand: bool = False

    def markdown(self) -> list[str]:
        """Return the table in Markdown, and under it where it comes from."""
        shortened = ", put together by hand" if self.by_hand else ""
        made = f"`{self.command}`{shortened}; {self.machine}"
        source = f"{made}; commit {self.commit}, {self.date[:10]}."
        rule = "|" + "---|" * len(self.columns)
        return [line(self.columns), rule, *map(line, self.rows), "", source]


def line(cells: Sequence[str]) -> str:
    """Return a line of a table in Markdown."""
    bars = [cell.replace("|", "\\|") for cell in cells]
    return f"| {' | '.join(bars)} |".replace("|  |", "| |")


def read(path: Path) -> dict[str, Kept]:
    """Return the tables of a file, by name; none if it is not there."""
    if not path.exists():
        return {}
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return {name: _table(fields) for name, fields in found.items()}


def _table(fields: dict[str, Any]) -> Kept:
    rows = tuple(tuple(row) for row in fields.pop("rows"))
    return Kept(columns=tuple(fields.pop("columns")), rows=rows, **fields)


def write(path: Path, tables: Mapping[str, Kept]) -> None:
    """Write tables, a row a line, so that a change shows in few lines."""
    parts = []
    for name, table in sorted(tables.items()):
        fields = dataclasses.asdict(table)
        rows = ",\n   ".join(json.dumps(row, ensure_ascii=False) for row in fields.pop("rows"))
        head = [
            f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)},"
            for key, value in fields.items()
            if value is not False
        ]
        body = "\n".join([*head, f'  "rows": [\n   {rows}\n  ]'])
        parts.append(f" {json.dumps(name)}: {{\n{body}\n }}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def command() -> str:
    """Return the command of this process, as one would type it."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None:
        called = f"python -m {spec.name.removesuffix('.__main__')}"
    else:
        called = f"python -m benchmarks.{Path(sys.argv[0]).stem}"
    return shlex.join([*called.split(), *sys.argv[1:]])


class Table:
    """A table that grows: each row is printed and written at once.

    Args:
        page: Page that the table stands on, which names the file.
        name: Its name there.
        columns: Heads; the first one names the rows.
        tolerance: By how much two runs of a row may differ, relative to the value.
    """

    def __init__(
        self, page: str, name: str, columns: Sequence[str], *, tolerance: float = EXACT
    ) -> None:
        """Print the table's head."""
        made = provenance()
        self._path, self._name = fresh() / f"{page}.json", name
        self._kept = Kept(
            command(),
            made["machine"],
            made["commit"],
            made["date"],
            tolerance,
            tuple(columns),
            (),
        )
        print("\n".join(["", line(columns), "|" + "---|" * len(columns)]), flush=True)

    def add(self, *cells: object) -> None:
        """Add a row.

        Raises:
            ValueError: if it has another number of cells than the table has columns.
        """
        row = tuple(str(cell).strip() for cell in cells)
        if len(row) != len(self._kept.columns):
            raise ValueError(
                f"a row of {self._name!r} has {len(row)} cells, the table"
                f" {len(self._kept.columns)} columns"
            )
        self._kept = dataclasses.replace(self._kept, rows=(*self._kept.rows, row))
        print(line(row), flush=True)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # Other benchmarks of the page may run meanwhile.
        with self._path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            write(self._path, {**read(self._path), self._name: self._kept})
