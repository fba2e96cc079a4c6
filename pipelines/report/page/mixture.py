"""Pictures of what a learner knows of itself: how sure it is, and which experts carried it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pipelines.report.data.learning import Reliability
from pipelines.report.data.mixture import Course

SIDE = 300
"""Side of the square in which reliability is drawn."""
WIDTH, HEIGHT = 640, 150
MOST_EXPERTS = 5
"""Experts with a colour of their own, those of most weight; the others are put together."""
_LEAST_ROWS = 10
_LEAST_SHARE = 0.0005
"""Of the others: less would be 0 percent in the legend."""


def course_view(
    course: Course | None, rows: int | None, weights: Mapping[str, float] | None = None
) -> dict[str, Any] | None:
    """Return what the template draws of a course: a column a span, its parts by expert.

    Args:
        course: None: nothing is drawn.
        rows: Rows learned from; None where the axis is a share of each model's.
        weights: The mean weight of each expert, where more is known of it than the course has.
    """
    if course is None:
        return None
    edges = np.concatenate([[0.0], course.ends]) / course.ends[-1]
    widths = np.diff(edges)
    means = widths @ course.weights
    if weights:
        means = np.array([weights.get(name, 0.0) for name in course.experts])
    ranked = np.argsort(-means, kind="stable")
    own = ranked[:MOST_EXPERTS]
    parts = [course.weights[:, place] for place in own]
    legend = [(course.experts[place], float(means[place])) for place in own]
    # All weights are 1 together, also where small ones were left out of the course.
    others = 1.0 - sum(share for _, share in legend)
    if others >= _LEAST_SHARE:
        parts.append(np.maximum(1.0 - np.sum(parts, axis=0), 0.0))
        legend.append(("others", others))
    columns = []
    tops = HEIGHT * (1.0 - np.cumsum(parts, axis=0))
    for span, width in enumerate(widths):
        bars = [
            (float(tops[place, span]), float(HEIGHT * part[span]), place)
            for place, part in enumerate(parts)
            if part[span] > 0
        ]
        columns.append((float(WIDTH * edges[span]), float(WIDTH * width), bars))
    return {"columns": columns, "legend": legend, "rows": rows, "size": (WIDTH, HEIGHT)}


def reliability_view(found: Reliability | None) -> dict[str, Any] | None:
    """Return what the template draws of how sure predictions were and how often they were right."""
    if found is None or not found.rows.sum():
        return None
    total = int(found.rows.sum())
    points = []
    for place in np.flatnonzero(found.rows):
        rows = int(found.rows[place])
        sure, right = found.chance[place] / rows, found.right[place] / rows
        points.append(
            {
                "rows": rows,
                "sure": float(sure),
                "right": float(right),
                "x": float(SIDE * sure),
                "y": float(SIDE * (1.0 - right)),
                "radius": float(3.0 + 9.0 * np.sqrt(rows / total)),
                "few": rows < _LEAST_ROWS,
            }
        )
    gap = float(np.abs(found.chance - found.right).sum() / total)
    return {
        "points": points,
        "side": SIDE,
        "gap": gap,
        "sure": float(found.chance.sum() / total),
        "right": float(found.right.sum() / total),
        "log_loss": float(found.log_loss / total),
        "brier": float(found.brier / total),
    }
