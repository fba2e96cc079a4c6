"""TrackSubspace: one budgeted kernel subspace per model, updated row by row in event-time order."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
from apache_beam import coders, pvalue
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    ReadModifyWriteStateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.transforms.window import GlobalWindow, GlobalWindows
from apache_beam.typehints import with_input_types, with_output_types

from kerneltrack import codec
from kerneltrack.errors import ConfigError
from kerneltrack.specs import SubspaceSpec
from kerneltrack.trackers import get_tracker
from transforms.chunks import Chunk, ChunkCoder, Failures
from transforms.clock import (
    Clock,
    Order,
    admit,
    may_release,
    nanoseconds,
    split_ready,
    still_waiting,
)
from transforms.features import EXTRAS, feature_chunk
from transforms.hold import Held, hold_last
from transforms.metrics import count

__all__ = ["FAILURES", "FEATURES", "LATE", "SNAPSHOTS", "Order", "TrackSubspace"]

FEATURES = "features"
SNAPSHOTS = "snapshots"
LATE = "late"
FAILURES = "failures"

SLICE_ROWS = 16_384
"""Rows a feature chunk holds at most; a released backlog of millions leaves in such slices."""
NOTHING_HELD = "a value is missing and none recent enough can stand in for it"


class TrackSubspace(
    beam.PTransform[pvalue.PCollection[tuple[str, Chunk]], dict[str, pvalue.PCollection[Any]]]
):
    """Track one kernel subspace per model ID.

    Input: `tuple[str, Chunk]`, rows keyed by model ID, in any order, in the global window (other
    windowing is replaced by it). Order: rows are learned from in order of (time, sequence,
    source, row), whatever order they arrive in, as long as that is less than `max_disorder` from
    the order of time; results then depend on the rows and the spec alone, not on chunks, bundles
    or runner. Each model keeps its own clock, the newest time it has shown: no watermark is
    trusted but the end of the input, which releases what still waits.

    Output, a dict of PCollections:
      features: `tuple[str, Chunk]` with index (number among the model's valid rows), time,
        source, row, loss, novelty, informative, evicted (null: none), initial, z (or q), the
        extras, label.
      snapshots: `tuple[str, bytes]`, the state of each model at the end of its input (`codec`).
      late: `tuple[str, Chunk]`, rows older than the model's clock less `max_disorder`, as they
        came.
      failures: `Failures`, rows refused with the reason.

    Duplicates are rows like others. Each row comes out exactly once, in features, late or
    failures. State per model: the tracker's state (see its module), the rows that wait, and a
    few numbers.

    Args:
        spec: The tracker's spec.
        order: How rows are put in order.
        extras: More features per row: "q" (projection coefficients), "s" (the |S|-vector).
    """

    def __init__(
        self,
        spec: SubspaceSpec,
        order: Order | None = None,
        extras: tuple[str, ...] = (),
    ) -> None:
        """Check the arguments; see the class."""
        super().__init__()
        for name in extras:
            if name not in EXTRAS:
                raise ConfigError("extras", name, f"of {', '.join(EXTRAS)}")
        self._spec = spec
        self._order = order or Order()
        self._extras = extras

    def expand(
        self, rows: pvalue.PCollection[tuple[str, Chunk]]
    ) -> dict[str, pvalue.PCollection[Any]]:
        """Apply the transform."""
        outputs = (
            rows
            | "GlobalWindow" >> beam.WindowInto(GlobalWindows())
            | "Track"
            >> beam.ParDo(_TrackFn(self._spec, self._order, self._extras)).with_outputs(
                SNAPSHOTS, LATE, FAILURES, main=FEATURES
            )
        )
        outputs[SNAPSHOTS].element_type = tuple[str, bytes]
        outputs[LATE].element_type = tuple[str, Chunk]
        outputs[FAILURES].element_type = Failures
        return {name: outputs[name] for name in (FEATURES, SNAPSHOTS, LATE, FAILURES)}


class _TrackFn(beam.DoFn):
    """The stateful step: buffer by the model's clock, run the tracker, emit."""

    MODEL = ReadModifyWriteStateSpec("model", coders.BytesCoder())
    CLOCK = ReadModifyWriteStateSpec("clock", coders.BytesCoder())
    BUFFER = BagStateSpec("buffer", ChunkCoder())
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def __init__(self, spec: SubspaceSpec, order: Order, extras: tuple[str, ...]) -> None:
        self._spec = spec
        self._order = order
        self._extras = extras
        self._tracker = get_tracker(spec.tracker)

    @with_input_types(tuple[str, Chunk])
    @with_output_types(tuple[str, Chunk])
    def process(
        self,
        element: tuple[str, Chunk],
        model: Any = beam.DoFn.StateParam(MODEL),
        clock: Any = beam.DoFn.StateParam(CLOCK),
        buffer: Any = beam.DoFn.StateParam(BUFFER),
        end: Any = beam.DoFn.TimerParam(END),
    ) -> Iterator[Any]:
        key, chunk = element
        end.set(GlobalWindow().max_timestamp())
        if self._order.waits_for_end:
            buffer.add(chunk)
            return
        now, late, wild, ahead = admit(self._order, Clock.decode(clock.read()), chunk)
        if wild.any():
            reasons = [
                f"time is {seconds:.0f} s ahead of the model's newest row: more than "
                f"max_jump = {self._order.max_jump:g} s"
                for seconds in ahead
            ]
            yield _failures(key, chunk.take(np.flatnonzero(wild)), reasons)
        if late.any():
            count("rows_late", int(late.sum()))
            yield pvalue.TaggedOutput(LATE, (key, chunk.take(np.flatnonzero(late))))
        refused = late | wild
        if refused.any():
            chunk = chunk.take(np.flatnonzero(~refused))
        if len(chunk):
            buffer.add(chunk)
        if may_release(self._order, now, self._spec.rows_to_start):
            waiting = Chunk.concat(_drain(buffer))
            ready, rest = split_ready(self._order, now, waiting)
            rows, held = self._filled(now, ready)
            if now.started or len(rows[_is_finite(rows)]) >= self._spec.rows_to_start:
                encoded = yield from self._run(key, ready, rows, model.read())
                if encoded is not None:
                    model.write(encoded)
                now = now._replace(started=True, held=held)
            else:
                rest = waiting
            if len(rest):
                buffer.add(rest)
            now = still_waiting(now, rest)
        clock.write(now.encode())

    @on_timer(END)
    def at_end(
        self,
        key: Any = beam.DoFn.KeyParam,
        model: Any = beam.DoFn.StateParam(MODEL),
        clock: Any = beam.DoFn.StateParam(CLOCK),
        buffer: Any = beam.DoFn.StateParam(BUFFER),
    ) -> Iterator[Any]:
        # State expires with the window; each access to it costs a millisecond on some runners.
        whole = self._order.waits_for_end
        now = Clock() if whole else Clock.decode(clock.read())
        encoded = None if whole else model.read()
        chunks = list(buffer.read())
        if chunks:
            ready = Chunk.concat(chunks)
            del chunks
            if self._order.max_disorder > 0:
                ready = ready.in_order()
            rows, _ = self._filled(now, ready)
            encoded = yield from self._run(key, ready, rows, encoded)
        if encoded is not None:
            yield pvalue.TaggedOutput(SNAPSHOTS, (key, encoded))

    def _filled(self, now: Clock, chunk: Chunk) -> tuple[npt.NDArray[Any], Held | None]:
        """Return the rows, missing values held if that is asked for."""
        rows = chunk.column("x")
        if self._order.hold_for is None:
            return rows, now.held
        times = chunk.column("time") if chunk.has("time") else np.zeros(len(chunk), np.int64)
        return hold_last(rows, times, now.held, nanoseconds(self._order.hold_for))

    def _run(
        self, key: str, ready: Chunk, rows: npt.NDArray[Any], encoded: bytes | None
    ) -> Generator[Any, None, bytes | None]:
        """Run ordered rows through the tracker; the features leave slice by slice.

        Returns:
            The state after the rows; None if no row was fit to begin with.
        """
        if encoded is None:
            finite = rows[_is_finite(rows)]
            if not len(finite):
                yield _failures(key, ready, [NOTHING_HELD] * len(ready))
                return None
            state = self._tracker.init(self._spec, finite[: self._spec.rows_to_start])
        else:
            state = codec.decode(encoded, f"state of model {key!r}").state
        before = self._tracker.counters(state)
        for start in range(0, len(rows), SLICE_ROWS):
            piece = ready.slice(start, min(start + SLICE_ROWS, len(rows)))
            values = rows[start : start + SLICE_ROWS]
            state, features = self._tracker.update(self._spec, state, values, self._extras)
            good = np.flatnonzero(features.valid)
            if len(good) < len(piece):
                bad = np.flatnonzero(~features.valid)
                yield _failures(key, piece.take(bad), self._reasons(state, values[bad]))
            if len(good):
                count("rows_tracked", len(good))
                yield key, feature_chunk(piece, features, good)
        for name, total in self._tracker.counters(state).items():
            count(name, total - before[name])
        about = {"model_id": key, "rows": int(state.n)}
        return codec.encode(self._spec, state, about)

    def _reasons(self, state: Any, rows: npt.NDArray[Any]) -> list[str]:
        return [
            NOTHING_HELD
            if np.isnan(row).any() and self._order.hold_for is not None
            else self._tracker.why_refused(self._spec, state, row)
            for row in rows
        ]


def _is_finite(rows: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    finite: npt.NDArray[np.bool_] = np.isfinite(rows).all(axis=1)
    return finite


def _failures(key: str, rows: Chunk, reasons: list[str]) -> pvalue.TaggedOutput[str, Failures]:
    count("rows_failed", len(reasons))
    failures = Failures.of(key, rows.column("source"), rows.column("row"), reasons)
    return pvalue.TaggedOutput(FAILURES, failures)


def _drain(buffer: Any) -> list[Chunk]:
    """Take all chunks out of a bag (reading one while adding to it would never end)."""
    chunks = list(buffer.read())
    buffer.clear()
    return chunks
