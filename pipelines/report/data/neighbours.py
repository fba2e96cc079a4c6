"""The fleet as the report shows it: who is unlike the others, why, and a map."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kerneltrack.errors import printable
from kerneltrack.monitor.reference.spec import LEAST_SHARE
from kerneltrack.paths import join
from pipelines.report.data.episodes import MOST_CHANNELS
from pipelines.report.data.files import read_lines
from pipelines.report.text import MOST_NAMED, and_more, figure
from transforms.outputs import NEIGHBOURS

MOST_UNLIKE = 20
"""Models that are listed and numbered on the map, those that stand furthest apart."""
MOST_PLACED = 2_000
"""Models on the map, those that stand furthest apart first."""
REASONS = {
    "ties": "how its channels go together, in a row and from row to row",
    "level": "its level, or how far it spreads",
    "subspace": "the pattern of its recent rows",
}
"""What a view sees, in words."""


@dataclass(frozen=True)
class Unlike:
    """A model that is unlike the others.

    Attributes:
        model: Its ID.
        apart: How far, 1 at the limit.
        view: The view that it is of.
        channels: Names and shares of the channels that make it so, the largest first.
        nearest: The model that is most like it.
        place: Where it stands on the map.
    """

    model: str
    apart: float
    view: str
    channels: list[tuple[str, float]]
    nearest: str
    place: tuple[float, float]

    @property
    def why(self) -> str:
        """What is unlike, in words."""
        return REASONS[self.view]


@dataclass(frozen=True)
class Neighbours:
    """The models of a run among each other.

    Attributes:
        compared: How many were compared.
        of: How many there are.
        views: What was compared.
        total: How many are unlike the others.
        unlike: The first 20 of these.
        places: Places of the others on the map.
    """

    compared: int
    of: int
    views: list[str]
    total: int
    unlike: list[Unlike]
    places: list[tuple[float, float]]


def fleet_of(output: str, run: Mapping[str, Any]) -> Neighbours | None:
    """Read what a run found of its fleet; None where it compared nothing.

    Cost: O(models) time; memory of at most 2,000.
    """
    record = run.get("neighbours") or {}
    if not record.get("views"):
        return None
    channels = list((run.get("columns") or {}).get("features") or [])
    unlike: list[Unlike] = []
    places: list[tuple[float, float]] = []
    for line in read_lines(output, NEIGHBOURS):
        if line["unlike"] and len(unlike) < MOST_UNLIKE:
            unlike.append(_unlike(line, channels))
        elif len(places) < MOST_PLACED:
            places.append((line["x"], line["y"]))
    counts = int(record["compared"]), int(record["of"])
    return Neighbours(*counts, list(record["views"]), int(record["unlike"]), unlike, places)


def neighbour_lines(output: str, run: Mapping[str, Any]) -> list[str]:
    """Return what the end of a job and `devices` say of the models that are unlike the others."""
    found = fleet_of(output, run)
    if found is None or not found.total:
        return []
    are = "is" if found.total == 1 else "are"
    return [
        f"{found.total:,} of {found.compared:,} devices {are} unlike the others:",
        *map(_named, found.unlike[:MOST_NAMED]),
        *and_more(found.total, join(output, NEIGHBOURS)),
    ]


def _named(model: Unlike) -> str:
    channels = "".join(f": {name}" for name, _ in model.channels[:1])
    return (
        f"  {printable(model.model)}: in {model.why}{channels} ({figure(model.apart)} x the limit)"
    )


def _unlike(line: dict[str, Any], channels: list[str]) -> Unlike:
    shares = sorted(zip(line["shares"] or [], channels, strict=False), key=lambda pair: -pair[0])
    named = [(name, share) for share, name in shares[:MOST_CHANNELS] if share >= LEAST_SHARE]
    nearest = line["nearest"][0] if line["nearest"] else "–"
    place = line["x"], line["y"]
    return Unlike(line["model_id"], line["apart"], line["view"], named, nearest, place)
