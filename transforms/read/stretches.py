"""The first rows of files, model by model, without Beam."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kerneltrack.learners import LearnerSpec
from kerneltrack.tuning import Stretch
from transforms.chunks import Chunk
from transforms.read.columns import Columns
from transforms.read.files import split
from transforms.read.formats import FileInfo
from transforms.read.label_values import label_column, label_values
from transforms.read.parse import ParsedRows, parsed_of, select
from transforms.reasons import kinds_of


class FirstGoodRows(NamedTuple):
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
) -> FirstGoodRows:
    """Read the first `most` good rows, whole batches, and sort them out by model.

    Args:
        infos: The files, as `transforms.read.look` found them.
        columns: What each column is; there is one of labels.
        most: Rows, 1 at least; of a batch that goes beyond, the first are taken.
        spec: Says what labels are: names of classes, or targets.

    Raises:
        ConfigError: for labels of a type that cannot be the learner's.
        DataError: if a file cannot be read.
    """
    found: list[ParsedRows] = []
    left, failed, reasons = most, 0, Counter[str]()
    for good, bad in parsed_of(infos, columns):
        failed += bad.batch.num_rows
        reasons.update(kinds_of(bad.batch.column("reason")).to_pylist())
        taken = good if len(good) <= left else select(good, np.arange(len(good)) < left)
        found.append(taken)
        left -= len(taken)
        if not left:
            break
    # A model is one chunk: it has `most` rows at most.
    models = {key: _stretch(spec, chunk) for key, chunk in split(found, columns, most)}
    return FirstGoodRows(models, most - left, failed, reasons)


def _stretch(spec: LearnerSpec, chunk: Chunk) -> Stretch:
    labels = label_values(label_column(spec, chunk.batch.column("label")))
    times = chunk.column("time") if chunk.has("time") else None
    return Stretch(chunk.column("x").astype(np.float64), labels, times)
