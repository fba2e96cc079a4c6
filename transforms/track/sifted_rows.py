"""All of a model's rows, in the order of time, without those of a wild clock."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from kerneltrack.jumps import Standing, judge
from transforms.chunks import Chunk
from transforms.track.clock import jump_rule
from transforms.track.order import Order

Usable = Callable[[Chunk], "npt.NDArray[np.bool_]"]


class SiftedRows:
    """Sifts a model's rows, which come sorted by time, some at a time.

    Args:
        order: Says what confirms a jump. Where nothing is a jump, all rows pass.
        standing: What earlier rows have shown; none wait.
        usable: Says which rows the model can take.
    """

    def __init__(self, order: Order, standing: Standing, usable: Usable) -> None:
        self._order = order
        self._standing = standing
        self._usable = usable
        self._waiting: Chunk | None = None

    def take(self, rows: Chunk | None, last: bool) -> tuple[Chunk | None, Chunk | None]:
        """Take the next rows; return those that count, and those that are refused, if any are.

        Args:
            rows: Sorted by time among each other and after those before; where the order is that of
                arrival, in any order at the end. None: no more.
            last: Whether no more come.
        """
        if not self._order.confirms or (rows is not None and not rows.has("time")):
            return rows, None
        if self._waiting is not None:
            rows = self._waiting if rows is None else Chunk.concat([self._waiting, rows])
        if rows is None or not len(rows):
            return rows, None
        times = rows.column("time")
        sort = np.argsort(times, kind="stable")
        usable, rule = self._usable(rows)[sort], jump_rule(self._order)
        judged = judge(rule, self._standing, times[sort], usable, last=last)
        # The rows that wait are looked at again, with those that come next.
        self._standing = judged.standing._replace(ahead=())
        if judged.counts.all():
            self._waiting = None
            return rows, None
        refused = ~(judged.counts | judged.waits)
        self._waiting = _of(rows, sort, judged.waits)
        return _of(rows, sort, judged.counts), _of(rows, sort, refused)


def _of(rows: Chunk, sort: npt.NDArray[np.int64], chosen: npt.NDArray[np.bool_]) -> Chunk | None:
    """Return the rows that are chosen, by their places in the order of time, as they lie."""
    return rows.take(np.sort(sort[chosen])) if chosen.any() else None
