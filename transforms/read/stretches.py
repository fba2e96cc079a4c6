"""The first rows of files, model by model, without Beam."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kerneltrack.learners import LearnerSpec
from kerneltrack.tuning import Stretch
from transforms.read.columns import Columns
from transforms.read.formats import FileInfo
from transforms.read.label_values import label_column, label_values, no_labels
from transforms.read.parse import ParsedRows, parse
from transforms.reasons import kinds_of


class FirstRows(NamedTuple):
    """The first good rows of an input.

    Attributes:
        models: Model id to its rows, in the order that a job learns them in.
        read: Good rows, of all models.
        failed: Rows among them that could not be used.
        reasons: How many of those for each kind of reason.
    """

    models: dict[str, Stretch]
    read: int
    failed: int
    reasons: Mapping[str, int]


def first_rows_of(
    infos: Sequence[FileInfo], columns: Columns, most: int, spec: LearnerSpec
) -> FirstRows:
    """Read about the first `most` good rows, whole batches, and sort them out by model.

    Args:
        infos: The files, as `transforms.read.look` found them.
        columns: What each column is; the label is.
        most: Rows, 1 at least; of a batch that goes beyond, the first are taken.
        spec: Says what labels are: names of classes, or targets.

    Raises:
        ConfigError: for labels of a type that cannot be the learner's.
        DataError: if a file cannot be read.
    """
    found: list[ParsedRows] = []
    read, failed, reasons = 0, 0, Counter[str]()
    for batch, source in (
        (batch, source)
        for source, info in enumerate(infos)
        for piece in info.pieces
        for batch in piece.read(columns.requests)
    ):
        good, bad = parse(batch, source, columns)
        failed += bad.batch.num_rows
        reasons.update(kinds_of(bad.batch.column("reason")).to_pylist())
        found.append(good)
        read += len(good)
        if read >= most:
            break
    parts: dict[str, list[Stretch]] = defaultdict(list)
    left = most
    for good in found:
        taken = min(left, len(good))
        left -= taken
        labels = no_labels(spec, len(good))
        if good.label is not None:
            labels = label_values(label_column(spec, good.label))
        for place, name in enumerate(good.models):
            mine = np.flatnonzero(good.model[:taken] == place)
            times = None if good.time is None else good.time[mine]
            if len(mine):
                parts[name].append(Stretch(good.x[mine].astype(np.float64), labels[mine], times))
    return FirstRows(
        {name: _in_order(joined) for name, joined in parts.items()},
        min(read, most),
        failed,
        reasons,
    )


def _in_order(parts: Sequence[Stretch]) -> Stretch:
    """Join a model's rows and put them in order of their times; rows of equal time stay."""
    rows = np.concatenate([part.rows for part in parts])
    labels = np.concatenate([np.asarray(part.labels) for part in parts])
    if parts[0].times is None:
        return Stretch(rows, labels, None)
    times = np.concatenate([part.times for part in parts if part.times is not None])
    order = np.argsort(times, kind="stable")
    return Stretch(rows[order], labels[order], times[order])
