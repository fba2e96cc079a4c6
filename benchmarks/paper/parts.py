"""What a table or a figure came to, and the manifest that says what was expected of it.

`manifest.json` lists every table and figure of the five papers. A part has a status:

- `reproduced`: every line lies within its range, which was set before the run;
- `differs`: at least one does not, and `why` says what was tried;
- `impossible`: it cannot be measured here, and `why` says for what reason.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    # Reading what a part came to, as tests do, takes no plots.
    from matplotlib.figure import Figure


MANIFEST = Path(__file__).with_name("manifest.json")


class Found(NamedTuple):
    """What a part came to.

    Attributes:
        values: By the names of the manifest's lines.
        draw: Draws the part's plot; None: it has none.
        notes: What else is to be printed, line by line.
    """

    values: Mapping[str, float]
    draw: Callable[[Figure], None] | None = None
    notes: tuple[str, ...] = ()


Measure = Callable[[bool], Found]
"""Measures a part; its argument: whether a short form is enough."""
Curves = Mapping[str, tuple[Sequence[float], Sequence[float]]]
"""Places and values of lines, by their names."""


@dataclasses.dataclass(frozen=True)
class Line:
    """A value that is compared.

    Attributes:
        paper: The paper's value, or what it shows.
        low, high: Range that ours must lie in; set before the run.
    """

    paper: str
    low: float = -math.inf
    high: float = math.inf

    def holds(self, value: float) -> bool:
        """Check that a value lies in the range."""
        return self.low <= value <= self.high

    @property
    def allowed(self) -> str:
        """The range as text."""
        if self.low == -math.inf and self.high == math.inf:
            return "any"
        if self.low == -math.inf:
            return f"≤ {self.high:g}"
        if self.high == math.inf:
            return f"≥ {self.low:g}"
        return f"{self.low:g} to {self.high:g}"


@dataclasses.dataclass(frozen=True)
class Part:
    """A table or figure of a paper; see the module."""

    shows: str
    status: str
    why: str
    lines: Mapping[str, Line]


def read_manifest() -> dict[str, dict[str, Part]]:
    """Return the parts of each paper, by the paper's short name."""
    papers = json.loads(MANIFEST.read_text(encoding="utf-8"))
    return {
        name: {part: _part(fields) for part, fields in paper["parts"].items()}
        for name, paper in papers.items()
    }


def read_titles() -> dict[str, str]:
    """Return the papers' references, by short name."""
    papers = json.loads(MANIFEST.read_text(encoding="utf-8"))
    return {name: paper["paper"] for name, paper in papers.items()}


def _part(fields: dict[str, Any]) -> Part:
    lines = {name: Line(**line) for name, line in fields.get("lines", {}).items()}
    return Part(fields["shows"], fields["status"], fields.get("why", ""), lines)


def curves(found: Curves, **axes: Any) -> Any:
    """Return what draws lines, by their names."""

    def draw(figure: Figure) -> None:
        panel = figure.subplots()
        for name, (places, values) in found.items():
            panel.plot(places, values, label=name, linewidth=1.2)
        panel.set(**axes)
        panel.grid(visible=True, which="both", alpha=0.3)
        panel.legend(fontsize="small")

    return draw


def bars(found: Mapping[str, float], axis: str) -> Any:
    """Return what draws values as bars, by their names."""

    def draw(figure: Figure) -> None:
        panel = figure.subplots()
        panel.barh(list(found), list(found.values()))
        panel.invert_yaxis()
        panel.set(xlabel=axis)
        panel.grid(visible=True, axis="x", alpha=0.3)

    return draw


def outcome(part: Part, found: Found) -> str:
    """Return the status that a measurement gives a part.

    Raises:
        ValueError: if lines were measured that the manifest does not have, or the other way round.
    """
    if set(found.values) != set(part.lines):
        odd = sorted(set(found.values) ^ set(part.lines))
        raise ValueError(f"lines {odd} are measured or in {MANIFEST.name}, not both")
    held = all(line.holds(found.values[name]) for name, line in part.lines.items())
    return "reproduced" if held else "differs"


COLUMNS = ("", "paper", "ours", "allowed", "")


def cells(part: Part, found: Found) -> list[tuple[str, ...]]:
    """Return a part's lines next to the paper's, as rows of a table with `COLUMNS`."""
    rows: list[tuple[str, ...]] = []
    for name, value in found.values.items():
        line = part.lines.get(name, Line(""))
        holds = "" if line.holds(value) else "outside"
        rows.append((name, line.paper, f"{value:.4g}", line.allowed, holds))
    return rows
