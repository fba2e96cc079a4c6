"""The rows of a block of models, held against their references together (see `together`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from kerneltrack.fleet.model import Work
from kerneltrack.monitor import reference
from kerneltrack.monitor.reference import Episode, Scores
from kerneltrack.monitor.reference import block as references
from kerneltrack.monitor.reference.block import Parts
from kerneltrack.trackers.common.places import side_by_side
from transforms.track.packed import Packed

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


class HeldRows:
    """What the references of m models say of their rows.

    Args:
        work: What is done with them.
        heads: The models before the rows, each with a reference.
        rows: (n, D); a model's follow one another.
        starts: (m,) place of each model's first row.
        stops: (m,) place after its last.
        times: (n,) ns.

    Attributes:
        done: (m,) whose rows have all been run. Others go by themselves, and so do those of which
            there is more to be told than episodes.
        scores: Of the n rows.
    """

    def __init__(
        self,
        work: Work,
        heads: Sequence[Packed],
        rows: FloatArray,
        starts: IntArray,
        stops: IntArray,
        times: IntArray,
    ) -> None:
        """Run them; see the class."""
        if work.reference is None:
            raise AssertionError("rows are held against nothing")
        spec, width = work.reference, rows.shape[1]
        places = references.parts_of(spec, width)
        moving, sized = references.unfold(spec, width, [head.moving for head in heads])
        kept = side_by_side([head.kept for head in heads], places.kept.size)
        before = places.moving.column(moving, "counts").copy()
        blocks = Parts(moving, kept)
        references.recall(spec, width, blocks)
        self._watched = references.go_on(spec, blocks, rows, starts, stops, times)
        self._heads, self._kept = heads, kept
        self._folded = references.fold(spec, width, moving)
        self._seen = before[:, reference.SEEN]
        self.scores: Scores = self._watched.scores
        self.done: BoolArray = self._watched.done & sized
        if work.devices:
            # Where `devices.changes` may have a line.
            ready = before[:, reference.CALIBRATED] > 0
            begins = ~np.isnan(self.scores.p[stops - 1]) & ~ready
            last = self._seen - before[:, reference.BEGAN] == work.reference.rows
            told = [bool(episodes) for episodes in self._watched.told]
            off = before[:, reference.OPENED] >= 0
            self.done = self.done & ~(begins | (ready & last) | off | np.array(told, np.bool_))

    def after(self, model: int) -> tuple[bytes, bytes, bool]:
        """Return a model's reference after the rows, and whether the part that is kept changed."""
        moving = self._folded[model]
        if not self._watched.turned[model]:
            return moving, self._heads[model].kept, False
        return moving, self._kept[model].tobytes(), True

    def episodes(self, firsts: IntArray) -> Iterator[tuple[int, list[Episode]]]:
        """Return the models of which episodes were opened or closed, and those.

        Args:
            firsts: (m,) index of each model's first row here, by which they are told.
        """
        for model, told in enumerate(self._watched.told):
            if told:
                # The reference may have begun later than the tracker, with a snapshot of that.
                later = int(firsts[model] - self._seen[model])
                yield model, [episode.moved(later) for episode in told]
