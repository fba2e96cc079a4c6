"""A bounded sample of the rows of files, drawn in one pass without Beam."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.errors import ConfigError
from transforms.read.columns import Columns
from transforms.read.formats import FileInfo
from transforms.read.local_times import NONE_IN_DOUBT, LocalTimes
from transforms.read.parse import parsed_of
from transforms.reasons import kinds_of


class Sample(NamedTuple):
    """Rows drawn without replacement, in the order of the input.

    Attributes:
        rows: (n, D) features.
        source: (n,) rank of each row's file.
        row: (n,) its number in the file.
        read: Good rows of the input.
        failed: Rows that could not be used.
        local: Rows whose local time was in doubt.
        reasons: How many of them for each kind of reason.
    """

    rows: npt.NDArray[np.float64]
    source: npt.NDArray[np.int64]
    row: npt.NDArray[np.int64]
    read: int
    failed: int
    reasons: Mapping[str, int]
    local: LocalTimes = NONE_IN_DOUBT


def sample_rows(infos: Sequence[FileInfo], columns: Columns, most: int, seed: int) -> Sample:
    """Draw at most `most` of the input's good rows, each subset as likely as any other.

    Every row draws a number, and the rows with the smallest are kept: what is in memory is the
    sample and one batch. All rows are read, of all models.

    Args:
        infos: The files, as `transforms.read.files.look` found them.
        columns: What each column is.
        most: Most rows, 1 at least; all rows are taken where there are no more.
        seed: Of the draw. The sample depends on it and on the input's order.

    Raises:
        ConfigError: for `most` < 1.
        DataError: if a file cannot be read.
    """
    if most < 1:
        raise ConfigError("most", most, "1 at least")
    rng = np.random.default_rng(seed)
    rows = np.empty((0, columns.width))
    ticket, place = np.empty(0), np.empty((0, 3), dtype=np.int64)
    read, failed, local = 0, 0, NONE_IN_DOUBT
    reasons = Counter[str]()
    for good, bad in parsed_of(infos, columns):
        failed += bad.batch.num_rows
        local = local.plus(good.local)
        reasons.update(kinds_of(bad.batch.column("reason")).to_pylist())
        drawn = rng.random(len(good))
        order = np.arange(read, read + len(good))
        read += len(good)
        ticket = np.concatenate([ticket, drawn])
        rows = np.concatenate([rows, good.x])
        place = np.concatenate([place, np.column_stack([order, good.source, good.row])])
        if len(ticket) > most:
            kept = np.sort(np.argpartition(ticket, most - 1)[:most])
            ticket, rows, place = ticket[kept], rows[kept], place[kept]
    taken = place[:, 1].copy(), place[:, 2].copy()
    return Sample(rows, *taken, read, failed, reasons, local)
