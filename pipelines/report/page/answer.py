"""What the page opens on: the models that are off, with small curves, and the map of the fleet."""

from __future__ import annotations

from typing import Any

import numpy as np

from kerneltrack.arrays import FloatArray, IntArray
from pipelines.report.data.curves import Curve
from pipelines.report.data.episodes import Episodes
from pipelines.report.data.neighbours import Neighbours
from pipelines.report.data.report import Report

WIDTH, HEIGHT = 240, 28
"""Of a small curve, in its own units."""
_POINTS = 120
_FAR = 3
MAP_WIDTH, MAP_HEIGHT, MARGIN = 640, 400, 24
"""Of the map, in its own units."""


def answer(report: Report) -> dict[str, Any]:
    """Return what the templates show of episodes and neighbours."""
    episodes, fleet = report.episodes, report.fleet
    slots = {name: slot for slot, name in enumerate([*report.curves, *report.further])}
    return {
        "slots": slots,
        "sparks": {} if episodes is None else _sparks(report, episodes),
        "most": max((off.severity for off in episodes.worst), default=1.0) if episodes else 1.0,
        "map": None if fleet is None else _map(fleet, episodes),
        "off": {off.model for off in episodes.worst} if episodes else set(),
    }


def _sparks(report: Report, episodes: Episodes) -> dict[str, dict[str, Any]]:
    """Return small curves of the surprise of models that are off, with their episodes."""
    sparks = {}
    for off in episodes.worst:
        curve = report.curves.get(off.model)
        if curve is None or "odd" not in curve.loss:
            continue
        known = np.flatnonzero(np.isfinite(curve.loss["odd"]))
        if not len(known):
            continue
        # From where p is known: before, there is nothing to see.
        start = float(curve.loss["row"][known[0]])
        end = float(report.totals.length[report.totals.models[off.model]])
        unit = WIDTH / max(end - start, 1.0)
        bands = [band.rows for band in report.bands[off.model]]
        edges = [(max(unit * (a - start), 0.0), unit * (b + 1 - start)) for a, b in bands]
        sparks[off.model] = {
            "path": _path(curve, known, start, unit),
            "bands": [(left, max(right - left, 1.0)) for left, right in edges],
        }
    return sparks


def _path(curve: Curve, known: IntArray, start: float, unit: float) -> str:
    """Return the path of -log₁₀ p over the rows: the most of each of some hundred parts."""
    height, row = curve.loss["odd"][known], curve.loss["row"][known]
    part = ((row - start) * unit * _POINTS / WIDTH).astype(np.int64)
    first = np.flatnonzero(np.concatenate([[True], part[1:] != part[:-1]]))
    # Roots: a spike of thirty decades would leave nothing else to be seen.
    heights = np.sqrt(np.maximum.reduceat(height, first))
    top = max(float(heights.max()), 2.0)
    places = (part[first] + 0.5) * WIDTH / _POINTS
    return "M" + "L".join(
        f"{x:.1f} {HEIGHT - 1 - (HEIGHT - 3) * y / top:.1f}"
        for x, y in zip(places.tolist(), heights.tolist(), strict=True)
    )


def _drawn_in(points: FloatArray) -> tuple[FloatArray, bool]:
    """Return points, (n, 2), with those far from most nearer, and whether there are any.

    One device far away would leave all others a single dot. A point at r > R = 3 times the median
    distance from the middle is moved to R(1 + ln(r/R)).
    """
    middle = np.median(points, axis=0)
    away = np.hypot(*(points - middle).T)
    least = _FAR * float(np.median(away))
    far = (away > least) & (least > 0)
    drawn = np.ones(len(points))
    drawn[far] = least * (1 + np.log(away[far] / least)) / away[far]
    return middle + (points - middle) * drawn[:, None], bool(far.any())


def _map(fleet: Neighbours, episodes: Episodes | None) -> dict[str, Any] | None:
    """Return the places of the models on the page's map."""
    known = [*fleet.places, *(model.place for model in fleet.unlike)]
    if len(known) < 3:
        return None
    points, is_drawn_in = _drawn_in(np.array(known))
    low, high = points.min(axis=0), points.max(axis=0)
    # One scale for both axes: distances between the many are distances.
    span = np.maximum(high - low, 1e-12 * max(float(np.abs(points).max()), 1.0))
    unit = min((MAP_WIDTH - 2 * MARGIN) / span[0], (MAP_HEIGHT - 2 * MARGIN) / span[1])
    middle = (low + high) / 2
    placed = (points - middle) * unit + np.array([MAP_WIDTH, MAP_HEIGHT]) / 2
    count = len(fleet.places)
    # A device that is at the same place as another is drawn once.
    dots = dict.fromkeys(f"M{x:.1f} {y:.1f}h0" for x, y in placed[:count].tolist())
    return {
        "width": MAP_WIDTH,
        "height": MAP_HEIGHT,
        "dots": "".join(dots),
        "is_drawn_in": is_drawn_in,
        "marks": [
            (number, x, y, model.model)
            for number, ((x, y), model) in enumerate(
                zip(placed[count:].tolist(), fleet.unlike, strict=True), 1
            )
        ],
    }
