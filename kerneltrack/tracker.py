"""One model, row by row: what a program asks for that has a row now and wants to know about it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack import codec
from kerneltrack.arrays import FloatArray
from kerneltrack.errors import ConfigError, DataError
from kerneltrack.registry import get_tracker, parse_spec
from kerneltrack.snapshots.files import read_whole, write_whole
from kerneltrack.snapshots.header import About, AboutWriter
from kerneltrack.trackers.common.calls import RowCall, copied
from kerneltrack.trackers.common.features import Features
from kerneltrack.trackers.common.spec import SubspaceSpec


class Row(NamedTuple):
    """Figures of a row, computed before it was learned.

    Attributes:
        index: Its number among the model's rows, from 0.
        z: (r,) its features.
        loss: What the subspace cannot explain of it, from 0 to κ(x,x).
        novelty: Where that ranks among the model's last losses, from 0 to 1.
        informative: Whether the row entered the subspace.
    """

    index: int  # type: ignore[assignment]  # a tuple has a method of this name
    z: FloatArray
    loss: float
    novelty: float
    informative: bool


class Tracker:
    """One model that learns row by row.

    The first rows wait until the warm-up is full (`warmup`, 500 rows by default, or `begin`): scale
    and bandwidth are taken from them. Then they are learned. So the state is always that of
    `run_all` over the rows that came, bit for bit.

    `learn` costs some microseconds more than the row loop (`okfe`, whose state grows with each row,
    some hundreds). Threads may share a tracker: rows are learned one after the other, in any order.

    Args:
        tracker: Name of a tracker, or its spec.
        settings: Settings of the tracker, where that is a name: `rank=10, budget=20`.

    Raises:
        ConfigError: naming the setting that is unknown or out of range.

    Example:
        >>> rows = np.random.default_rng(0).normal(size=(300, 3))
        >>> tracker = Tracker(rank=4, budget=8, warmup=100)
        >>> found = [tracker.learn(row) for row in rows]
        >>> found[99] is None, found[100].index, found[100].z.shape
        (True, 100, (4,))
        >>> tracker
        <Tracker okfeb: 300 rows, rank 4>
        >>> tracker.look([9.0, 9.0, 9.0]).novelty > 0.9
        True
    """

    def __init__(self, tracker: str | SubspaceSpec = "okfeb", **settings: Any) -> None:
        if isinstance(tracker, str):
            tracker = parse_spec({"tracker": tracker, **settings})
        elif settings:
            allowed = "left out where `tracker` is a spec"
            raise ConfigError("settings", ", ".join(settings), allowed)
        if not isinstance(tracker, SubspaceSpec):
            raise ConfigError("tracker", tracker, "a name, or a tracker's spec")
        if tracker.needs_times:
            raise ConfigError("tracker", tracker.tracker, "one whose settings go by rows, not time")
        self.spec = tracker
        self._tracker = get_tracker(tracker.tracker)
        self._waiting: list[FloatArray] = []
        self._state: Any = None
        self._call: RowCall | None = None
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        """Return what there is in a line."""
        rank = f"rank {self.spec.rank}"
        if self._state is None:
            rank += f", {len(self._waiting)} of {self.spec.rows_to_start} rows to begin with"
        return f"<Tracker {self.spec.tracker}: {self.rows:,} rows, {rank}>"

    @property
    def rows(self) -> int:
        """Rows learned so far."""
        return 0 if self._state is None else int(self._state.n)

    @property
    def started(self) -> bool:
        """Whether the warm-up is over."""
        return self._state is not None

    @property
    def state(self) -> Any:
        """A copy of the tracker's state; None before the warm-up is full."""
        with self._lock:
            return None if self._state is None else copied(self._state)

    def learn(self, row: npt.ArrayLike) -> Row | None:
        """Say what a row is like, then learn it.

        Args:
            row: (D,) numbers.

        Returns:
            Its results; None while rows wait for the warm-up.

        Raises:
            ConfigError: for a row of another length.
            DataError: for a row that is not finite or too large; nothing is learned of it.
        """
        with self._lock:
            call = self._call
            if call is None:
                return self._learn_slowly(row)
            try:
                out = call(row)
            except (TypeError, ValueError, OverflowError):
                self._values_of(row)
                raise
            if not out.valid[0]:
                self._refuse(row)
            z = out.z if out.z.size else out.q
            return Row(
                int(out.number[0]),
                z[0].copy(),
                float(out.loss[0]),
                float(out.novelty[0]),
                bool(out.informative[0]),
            )

    def _learn_slowly(self, row: npt.ArrayLike) -> Row | None:
        values = self._values_of(row)
        if self._state is None:
            if self._waiting and values.shape != self._waiting[0].shape:
                raise ConfigError("row", values.shape, f"of shape {self._waiting[0].shape}")
            if values.ndim != 1 or not len(values):
                raise ConfigError("row", values.shape, "of shape (D,)")
            bad = np.flatnonzero(~np.isfinite(values))
            if len(bad):
                raise DataError("row", f"channel {bad[0]} is {values[bad[0]]}")
            self._waiting.append(values)
            if len(self._waiting) >= self.spec.rows_to_start:
                self.begin()
            return None
        if values.shape != self._state.scale.shape:
            raise ConfigError("row", values.shape, f"of shape {self._state.scale.shape}")
        self._state, features = self._tracker.update(self.spec, self._state, values[np.newaxis])
        return self._row_result(features, row)

    @staticmethod
    def _values_of(row: npt.ArrayLike) -> FloatArray:
        try:
            values = np.array(row, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise ConfigError("row", row, "numbers, of shape (D,)") from error
        if not values.ndim:
            raise ConfigError("row", row, "of shape (D,)")
        return values

    def begin(self) -> Features:
        """End the warm-up now, with the rows that wait; return their results.

        Raises:
            ConfigError: if there are none, or the model has begun.
        """
        with self._lock:
            if self._state is not None or not self._waiting:
                shown = "begun" if self._state is not None else "without rows"
                raise ConfigError("tracker", shown, "one with rows that wait")
            rows = np.stack(self._waiting)
            state = self._tracker.init(self.spec, rows[: self.spec.rows_to_start])
            state, features = self._tracker.update(self.spec, state, rows)
            self._waiting = []
            self._go_on(state)
            return features

    def look(self, row: npt.ArrayLike) -> Row | None:
        """Say what a row is like, without learning it; None before the warm-up is full.

        Raises:
            ConfigError: for a row of another length.
            DataError: for a row that is not finite or too large.
        """
        with self._lock:
            if self._state is None:
                return None
            values = self._values_of(row)
            if values.shape != self._state.scale.shape:
                raise ConfigError("row", values.shape, f"of shape {self._state.scale.shape}")
            project = self._tracker.project
            return self._row_result(project(self.spec, self._state, values[np.newaxis]), row)

    def _row_result(self, features: Features, row: npt.ArrayLike) -> Row:
        if not features.valid[0]:
            self._refuse(row)
        z = features.q if features.z is None else features.z
        index, loss, novelty = features.index[0], features.loss[0], features.novelty[0]
        row_result = Row(
            int(index), np.zeros(0), float(loss), float(novelty), bool(features.informative[0])
        )
        return row_result if z is None else row_result._replace(z=z[0])

    def _refuse(self, row: npt.ArrayLike) -> None:
        raise DataError("row", self._tracker.why_refused(self.spec, self._state, row))

    def _go_on(self, state: Any) -> None:
        self._state = state
        self._call = self._tracker.row_call(self.spec, state)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what holds addresses: it is laid out anew. So is the lock."""
        with self._lock:
            return {**self.__dict__, "_call": None, "_tracker": None, "_lock": None}

    def __setstate__(self, values: dict[str, Any]) -> None:
        """Lay out again what `__getstate__` left out."""
        self.__dict__.update(values)
        self._lock = threading.RLock()
        self._tracker = get_tracker(self.spec.tracker)
        if self._state is not None:
            self._go_on(copied(self._state))

    def save(self, path: str | Path) -> None:
        """Write the state as one file, which holds rows of the data.

        Raises:
            ConfigError: before the warm-up is full.
        """
        with self._lock:
            if self._state is None:
                raise ConfigError("tracker", "in its warm-up", "one that has begun: call begin")
            about = AboutWriter().tracker(About("", self.rows, None), final=True)
            data = codec.encode(self.spec, self._state, about)
        write_whole(str(path), data)

    @classmethod
    def load(cls, path: str | Path) -> Tracker:
        """Return the tracker of a file: of `save`, or a job's snapshot of one model.

        Raises:
            DataError: for a file that is no tracker's state, or a damaged one.
        """
        found = codec.decode(read_whole(str(path)), str(path))
        tracker = cls(found.spec)
        tracker._go_on(found.state)
        return tracker
