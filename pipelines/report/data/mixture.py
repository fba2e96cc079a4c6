"""What the metrics say beside accuracy: the ridge on plain rows, sets, experts that carried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kerneltrack.arrays import FloatArray
from kerneltrack.learners.auto.learner import EXPERTS, plain_name
from pipelines.report.data.choice import Choice
from pipelines.report.data.files import column_names, parquet_files, read_batches
from transforms.outputs import METRICS

POINTS = 32
"""Columns of the chart of all models: shares of the rows that each learned from."""
_LINES = 256
"""Lines that are taken apart at once: each has some 200 cells."""
_PLAIN = ("accuracy_rows", "rmse_rows")
WEIGHT = "weight_"
"""Before an expert's name in the counts of `run.json`."""
_COVERAGE, _SIZE = "coverage", ("set_size", "width")


class Course(NamedTuple):
    """How the weights of a mixture's experts went.

    Attributes:
        experts: Their names.
        ends: (k,) rows learned from up to the end of each span, k <= 32.
        weights: (k, experts) mean weights in the span; small ones are left out of it.
    """

    experts: tuple[str, ...]
    ends: FloatArray
    weights: FloatArray

    def resampled(self, points: int) -> FloatArray:
        """Return the mean weights in so many equal parts of the rows, (points, experts)."""
        ends = np.concatenate([[0.0], self.ends])
        edges = np.arange(points + 1) / points * self.ends[-1]
        sums = np.cumsum(np.diff(ends)[:, None] * self.weights, axis=0)
        found = [np.interp(edges, ends, [0.0, *column]) for column in sums.T]
        means: FloatArray = np.diff(found, axis=1).T * points / self.ends[-1]
        return means


class MixtureCourse(NamedTuple):
    """What is known of the models from the total lines of their metrics.

    Attributes:
        plain: For each model by name the accuracy, or error, of the ridge on its plain rows, and
            the rows scored.
        covered: For each model by name the share of labels in their sets, or intervals, their mean
            number of classes, or width, and the rows scored; nothing without.
        course: Of all models together, by the share of their rows; None without a mixture.
        drawn: Of each model drawn, None without one.
    """

    plain: dict[str, tuple[float, int]]
    covered: dict[str, tuple[float, float, int]]
    course: Course | None
    drawn: list[Course | None]


def weights_in(counts: Mapping[str, Any]) -> dict[str, float]:
    """Return the mean weight of each expert over a run's rows, by its name, the largest first.

    `counts` are those of `run.json`; the metrics leave small weights out.
    """
    names = {WEIGHT + plain_name(expert): expert for expert in EXPERTS}
    return {names[name]: share for name, share in counts.items() if name in names}


def mixture_of(output: str, choice: Choice) -> MixtureCourse:
    """Read the total lines of the metrics; what is not there is left out.

    Memory of a batch, of two numbers a model, and of the courses of the models drawn.
    """
    paths = parquet_files(output, METRICS)
    names = column_names(paths)
    plain_column = next((name for name in _PLAIN if name in names), None)
    more = ("model_id", "start", "scored", "experts", _COVERAGE, *_SIZE)
    wanted = [name for name in more if name in names]
    plain: dict[str, tuple[float, int]] = {}
    covered: dict[str, tuple[float, float, int]] = {}
    drawn: dict[str, Course] = {}
    total: dict[str, FloatArray] = {}
    learned = 0.0
    if plain_column is None or not {"model_id", "start", "scored"} <= set(names):
        return MixtureCourse({}, {}, None, [None for _ in choice.drawn])
    for batch in read_batches(paths, [*wanted, plain_column]):
        kept = batch.filter(batch.column("start").is_null())
        for line in _lines(kept):
            model, value = line["model_id"], line[plain_column]
            if value is not None:
                plain[model] = value, line["scored"]
            if line.get(_COVERAGE) is not None:
                size = next(line[name] for name in _SIZE if name in line)
                covered[model] = line[_COVERAGE], size, line["scored"]
            course = _course(line.get("experts"))
            if course is None:
                continue
            if model in choice.drawn:
                drawn[model] = course
            weights = course.resampled(POINTS) * course.ends[-1]
            learned += course.ends[-1]
            for place, expert in enumerate(course.experts):
                before = total.get(expert, np.zeros(POINTS))
                total[expert] = before + weights[:, place]
    whole = None
    if total:
        summed = np.stack(list(total.values()), axis=1)
        ends = np.arange(1, POINTS + 1) / POINTS
        whole = Course(tuple(total), ends, summed / learned)
    return MixtureCourse(plain, covered, whole, [drawn.get(name) for name in choice.drawn])


def _lines(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    for start in range(0, batch.num_rows, _LINES):
        yield from batch.slice(start, _LINES).to_pylist()


def _course(cells: list[dict[str, Any]] | None) -> Course | None:
    if not cells:
        return None
    names = [str(cell["expert"]) for cell in cells]
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    ends, spans = np.unique([float(cell["rows"]) for cell in cells], return_inverse=True)
    weights = np.zeros((len(ends), len(places)))
    weights[spans, [places[name] for name in names]] = [cell["weight"] for cell in cells]
    return Course(tuple(places), ends, weights)
