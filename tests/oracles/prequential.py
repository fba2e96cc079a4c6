"""Prequential learning row by row, written from the rule: slow and obvious.

Every row is one call of the learner, every label is looked for among all that have come.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.metrics import (
    cohen_kappa_score,
    confusion_matrix,
    f1_score,
    mean_absolute_error,
    root_mean_squared_error,
)

from kerneltrack.in_memory import learn_all
from kerneltrack.learners import LearnerSpec, LearnerState, Predictions
from kerneltrack.learners.common.board import MIN_CHANCE
from kerneltrack.learners.common.kept_classes import MAX_NAME
from kerneltrack.learners.common.labels import MAX_TARGET
from kerneltrack.registry import get_learner
from tests.stream.learning import SECOND, FeatureTable, Late, Record
from transforms.learn.late_labels import LateLabels
from transforms.learn.metrics import OTHER

OWN_TESTS = ("accuracy_rows", "rmse_rows", "experts")
Event = tuple[int, int] | Sequence[Late]
"""Rows start..stop come, or labels come."""


def missing(spec: LearnerSpec, label: Any) -> Any:
    return (None if spec.classifies else math.nan) if label is None else label


def record(
    spec: LearnerSpec, table: FeatureTable, at: int, output_text: Predictions, row: int, label: Any
) -> Record:
    """What is written of row `at`, the predictions' row `row`."""
    values: Record = {"index": table.first + at}
    if table.time is not None:
        values["time"] = int(table.time[at])
    if (
        output_text.code is not None
        and output_text.score is not None
        and output_text.margin is not None
    ):
        known = bool(output_text.code[row] >= 0)
        values["prediction"] = output_text.classes[output_text.code[row]] if known else None
        values["score"] = output_text.score[row] if known else None
        values["margin"] = output_text.margin[row] if known else None
        if output_text.members is not None:
            values["set"] = output_text.sets[row] if known else None
        values["label"] = label
        assert output_text.correct is not None
        values["correct"] = bool(output_text.correct[row]) if output_text.scored[row] else None
    else:
        assert output_text.value is not None and output_text.error is not None
        values["prediction"] = none_if_nan(output_text.value[row])
        if output_text.lower is not None and output_text.upper is not None:
            values["lower"] = none_if_nan(output_text.lower[row])
            values["upper"] = none_if_nan(output_text.upper[row])
        values["label"] = label
        values["error"] = none_if_nan(output_text.error[row])
    return values


def none_if_nan(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def core_alone(spec: LearnerSpec, table: FeatureTable) -> tuple[LearnerState, list[Record]]:
    """Rows with their own labels, by the core without Beam."""
    state, output_text = learn_all(spec, table.z, [missing(spec, label) for label in table.label])
    rows = range(len(table))
    return state, [record(spec, table, row, output_text, row, table.label[row]) for row in rows]


@dataclass
class Ruled:
    """What the rule says: rows as they are settled, labels lost, the state before the end."""

    spec: LearnerSpec
    table: FeatureTable
    late: LateLabels
    bounded: bool
    state: LearnerState
    output_text: list[Predictions] = field(default_factory=list)
    arrived: list[Late] = field(default_factory=list)
    dropped: list[Late] = field(default_factory=list)
    taken: set[tuple[int, int]] = field(default_factory=set)
    records: list[Record] = field(default_factory=list)
    before_end: LearnerState | None = None

    @property
    def clock(self) -> list[int]:
        times = [0] * len(self.table) if self.table.time is None else self.table.time.tolist()
        return list(itertools.accumulate(times, max))

    @property
    def lost(self) -> list[tuple[int, int]]:
        come = {(label.source, label.row) for label in (*self.arrived, *self.dropped)}
        return sorted(come - self.taken)

    def settle(self, row: int) -> None:
        learner = get_learner(self.spec.learner)
        named = [
            label
            for label in self.arrived
            if label.index == self.table.first + row
            or (self.table.time is not None and label.time == self.table.time[row])
        ]
        label = self.table.label[row]
        if label is None and named:
            first = min(named, key=lambda label: (label.source, label.row))
            label = first.label
            self.taken.add((first.source, first.row))
        given = [missing(self.spec, label)]
        self.state, marked = learner.score(self.spec, self.state, self.output_text[row], given)
        self.state = learner.learn(self.spec, self.state, self.table.z[row : row + 1], given)
        self.records.append(record(self.spec, self.table, row, marked, 0, label))

    def predict(self, row: int) -> None:
        due = len(self.records)
        while due < row and (self.is_over(due, row)):
            self.settle(due)
            due += 1
        learner = get_learner(self.spec.learner)
        self.output_text.append(learner.predict(self.spec, self.state, self.table.z[row : row + 1]))

    def is_over(self, waiting: int, row: int) -> bool:
        waited = self.late.wait is not None and (
            self.clock[row] >= self.clock[waiting] + round(self.late.wait * SECOND)
        )
        return waited or row >= waiting + self.late.most_rows

    def come(self, labels: Sequence[Late]) -> None:
        self.arrived += [label for label in labels if label.label is not None]
        self.dropped += [label for label in labels if label.label is None]
        if self.bounded:
            return
        clock = self.clock
        newest = (
            clock[len(self.output_text) - 1]
            if self.output_text and self.table.time is not None
            else None
        )
        after = {
            "index": self.table.first + len(self.output_text) - 1,
            "time": -math.inf if newest is None else newest,
        }
        for name, last in after.items():
            ahead = {getattr(label, name) for label in self.arrived} - {None}
            far = sorted(key for key in ahead if key > last)[self.late.most_rows :]
            self.dropped += [label for label in self.arrived if getattr(label, name) in far]
            self.arrived = [label for label in self.arrived if getattr(label, name) not in far]


def by_the_rules(
    spec: LearnerSpec,
    table: FeatureTable,
    events: Sequence[Event],
    late: LateLabels,
    bounded: bool = False,
) -> Ruled:
    """Take events one by one; of a bounded job all labels come first."""
    learner = get_learner(spec.learner)
    ruled = Ruled(spec, table, late, bounded, learner.init(spec, table.z.shape[1]))
    if bounded:
        events = sorted(events, key=lambda event: isinstance(event, tuple))
    for event in events:
        if isinstance(event, tuple):
            for row in range(*event):
                ruled.predict(row)
        else:
            ruled.come(event)
    ruled.before_end = ruled.state
    for row in range(len(ruled.records), len(table)):
        ruled.settle(row)
    return ruled


def guessed(spec: LearnerSpec, records: Sequence[Record]) -> list[Record]:
    """What the commonest label so far (or the mean) and the last one made of each row, in order."""
    labels: list[Any] = []
    marks = []
    for row in records:
        label = row["label"]
        if spec.classifies:
            ranked = sorted(set(labels), key=lambda name: (-labels.count(name), labels.index(name)))
            marks.append({"commonest": [label] == ranked[:1], "last": [label] == labels[-1:]})
            if label is not None and label != OTHER and row["known"]:
                labels.append(label)
            continue
        good = label is not None and abs(label) <= MAX_TARGET
        mean, last = (math.fsum(labels) / len(labels), labels[-1]) if labels else (0.0, 0.0)
        marks.append({"mean": (label - mean) ** 2, "last": (label - last) ** 2} if good else {})
        labels += [label] if good else []
    return marks


def metrics_of(
    spec: LearnerSpec,
    records: Sequence[Record],
    clock: Sequence[int],
    window: int | None,
) -> list[Record]:
    """Metrics of all windows and of the whole, by scikit-learn from the rows that were scored.

    Args:
        spec: The learner's.
        records: Rows as they were settled.
        clock: Their times.
        window: Length of the windows.
    """
    room = list(dict.fromkeys(r["label"] for r in records if r["label"] is not None))
    room = [name for name in room if not spec.classifies or len(name) <= MAX_NAME]
    known = set(room[: spec.max_classes])
    records = [{**row, "known": row["label"] in known} for row in records]
    marks = guessed(spec, records)
    records = [{**row, "guessed": mark} for row, mark in zip(records, marks, strict=True)]
    lines = []
    numbers = [] if window is None else sorted({time // window for time in clock})
    for number in numbers:
        assert window is not None
        rows = [r for r, time in zip(records, clock, strict=True) if time // window == number]
        until = [r for r, time in zip(records, clock, strict=True) if time // window <= number]
        span = {"start": number * window, "end": (number + 1) * window}
        lines.append({**span, **_figures(spec, rows, until)})
    return [*lines, {"start": None, "end": None, **_figures(spec, records, records)}]


def _figures(spec: LearnerSpec, rows: Sequence[Record], until: Sequence[Record]) -> Record:
    scored, so_far = (
        [r for r in part if (r["correct"] if spec.classifies else r["error"]) is not None]
        for part in (rows, until)
    )
    line: Record = {"rows": len(rows), "scored": len(scored)}
    if spec.classifies:
        correct = sum(r["correct"] for r in scored)
        line["correct"] = correct
        line["accuracy"] = correct / len(scored) if scored else None
        total = sum(r["correct"] for r in so_far)
        line["running_accuracy"] = total / len(so_far) if so_far else None
        pair = (
            [r["label"] if r["known"] else "(other)" for r in scored],
            [r["prediction"] for r in scored],
        )
        line |= {"macro_f1": None, "kappa": None}
        if scored:
            line["macro_f1"] = float(f1_score(*pair, average="macro", zero_division=0.0))
        if len({name for names in pair for name in names}) > 1:
            line["kappa"] = float(cohen_kappa_score(*pair))
        given = [r["score"] if r["correct"] else 1.0 - r["score"] for r in scored]
        logs = [-math.log(max(chance, MIN_CHANCE)) for chance in given]
        line["log_loss"] = math.fsum(logs) / len(scored) if scored else None
        squares = [(1.0 - chance) ** 2 for chance in given]
        line["brier"] = math.fsum(squares) / len(scored) if scored else None
        for name in ("commonest", "last"):
            line[f"accuracy_{name}"] = _mean([r["guessed"][name] for r in scored])
        line["confusion"] = _confusion(scored)
        return line
    for name, part in (("rmse", scored), ("running_rmse", so_far)):
        pair = [r["label"] for r in part], [r["prediction"] for r in part]
        line[name] = root_mean_squared_error(*pair) if part else None
    pair = [r["label"] for r in scored], [r["prediction"] for r in scored]
    line["mae"] = mean_absolute_error(*pair) if scored else None
    for name in ("mean", "last"):
        mean = _mean([r["guessed"][name] for r in scored])
        line[f"rmse_{name}"] = None if mean is None else math.sqrt(mean)
    return line


def _mean(values: Sequence[float | None]) -> float | None:
    """Mean of what guesses made of rows, None without rows or where one was left out."""
    found = [float(value) for value in values if value is not None]
    return math.fsum(found) / len(found) if found and len(found) == len(values) else None


def _confusion(scored: Sequence[Record]) -> dict[tuple[str, str], int]:
    if not scored:
        return {}
    names = sorted({r["label"] for r in scored} | {r["prediction"] for r in scored})
    pair = [r["label"] for r in scored], [r["prediction"] for r in scored]
    # scikit-learn warns of a single class.
    matrix = confusion_matrix(*pair, labels=[*names, "none of them"])
    cells = np.argwhere(matrix)
    return {(names[i], names[j]): int(matrix[i, j]) for i, j in cells.tolist()}


def same_metrics(found: Sequence[Record], expected: Sequence[Record]) -> None:
    """Hold lines of metrics against `metrics_of`: counts exactly, means up to rounding.

    What the ridge on the rows made of them has a test of its own.
    """
    assert len(found) == len(expected)
    for whole, wanted in zip(found, expected, strict=True):
        line = {name: value for name, value in whole.items() if name not in OWN_TESTS}
        assert line.keys() == wanted.keys()
        cells = line.get("confusion", [])
        counts = {(cell["label"], cell["prediction"]): cell["count"] for cell in cells}
        assert len(counts) == len(cells)
        assert counts == wanted.get("confusion", {})
        for name in wanted.keys() - {"confusion"}:
            if isinstance(wanted[name], float):
                assert math.isclose(line[name], wanted[name], rel_tol=1e-12, abs_tol=1e-15)
            else:
                assert line[name] == wanted[name]
