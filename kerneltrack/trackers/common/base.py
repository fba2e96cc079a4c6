"""What all trackers are: a frozen spec, an explicit state, and the functions between them.

`init` makes the state from a model's first rows (it looks at them, it does not learn them),
`update` runs rows through it in order and returns a new state, `project` gives the features of rows
without learning. Each is the case of one model of a function for many: `init_each`, `run`, and
`run(..., learn=False)`.

Models of one call have one spec and one width. Their rows are in one table, and two arrays say
where each one's begin and end. They are a `Block`, which `run` writes to in place: made of states
(`pack`) or of a table of bytes (`pack_table`), and read by `Block.states` and `Block.column`. A
moving window goes along likewise (`monitor/moving.py`).

What a call gives of a model is, bit for bit, what it gives of the model alone. Rows are refused one
by one, and no row or state of one model is seen by another.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.errors import ConfigError
from kerneltrack.limits import ArrayForm, Limit
from kerneltrack.trackers.common import state as places
from kerneltrack.trackers.common.block import Block, FixedBlock, ListBlock
from kerneltrack.trackers.common.calls import (
    FirstRows,
    RowCall,
    check_room,
    copied,
    features_of,
    outputs_for,
    refusal,
    restored,
    stamps_of,
)
from kerneltrack.trackers.common.features import Features
from kerneltrack.trackers.common.first_rows import look_at_each
from kerneltrack.trackers.common.loop import (
    NO_TIMES,
    Loop,
    Pieces,
    all_rows,
    call_loop,
    matrix_of,
    sound_pieces,
    spans_of,
)
from kerneltrack.trackers.common.places import Places
from kerneltrack.trackers.common.spec import SubspaceSpec
from kerneltrack.trackers.common.state import Outputs

Spec = TypeVar("Spec", bound=SubspaceSpec)
State = TypeVar("State", bound=Any)


class KernelTracker(abc.ABC, Generic[Spec, State]):
    """A tracker's functions, bound to nothing: the state goes in and comes out.

    A tracker names its spec and its state (a named tuple of arrays that keep their shapes, among
    them `shift`, `scale` and `counts`), makes one, and names its loop. The rest is here.
    """

    name: str
    spec_type: type[Any]
    state_type: type[State]
    grows = False
    """Whether states become larger as they learn: then new ones take their places."""
    begins_alike = True
    """Whether new states differ in shift, scale, bandwidth and what `put_keys` writes alone."""

    @abc.abstractmethod
    def init(self, spec: Spec, first_rows: npt.ArrayLike, key: str = "") -> State:
        """Make the state from the first rows: scaling and bandwidth only.

        Args:
            spec: The spec.
            first_rows: Shape (m, D), normally m = spec.rows_to_start; fewer where a model has no
                more.
            key: The model's ID. With the seed it decides what a tracker draws at random while it
                runs, so that models do not share their draws; the start is the seed's alone.
        """

    def first_state(self, spec: Spec, seen: FirstRows) -> State:
        """Return a state of zeros but for what was taken from the first rows."""
        arrays = {name: like.zeros() for name, like in self.layout(spec, len(seen.scale)).items()}
        state: State = self.state_type(**{**arrays, **seen._asdict()})
        return state

    @abc.abstractmethod
    def loop(self, spec: Spec, learn: bool) -> Loop:
        """Return the row loop, and the spec as it takes it."""

    @abc.abstractmethod
    def stored(self, spec: Spec) -> int:
        """Return how many numbers the features s of a row are."""

    @abc.abstractmethod
    def layout(self, spec: Spec, width: int) -> dict[str, ArrayForm]:
        """Return what the arrays of a state for rows of D = `width` channels are like."""

    def limits(self, spec: Spec) -> tuple[Limit, ...]:
        """Return the ranges of those counts that lead the row loop."""
        return ()

    def sound(self, spec: Spec, state: State) -> State:
        """Return a state that was read, or the columns (m, ...) of several, after a look at values.

        Raises:
            ConfigError: naming the array or count that no state has.
        """
        return state

    def pack(self, spec: Spec, states: Sequence[State]) -> Block[State]:
        """Copy states of models into a block; `Block.states` is the way back.

        Args:
            spec: The spec that the states were made with.
            states: One at least, all of rows of one width.

        Raises:
            ConfigError: for states of another spec, or of several widths.
        """
        width = width_of(states)
        return FixedBlock.of_states(self.state_type, self.places(spec, width), states, width)

    def pack_table(self, spec: Spec, width: int, table: npt.NDArray[np.uint8]) -> Block[State]:
        """Return a block over states that are rows of bytes, each as `state_bytes` gives it.

        Args:
            spec: The spec.
            width: Channels of the models' rows.
            table: (m, bytes); the block writes to it.

        Raises:
            ConfigError: for rows of another length.
        """
        return FixedBlock(self.state_type, self.places(spec, width), table, width)

    def init_each(
        self,
        spec: Spec,
        rows: npt.ArrayLike,
        starts: npt.ArrayLike,
        stops: npt.ArrayLike,
        keys: Sequence[str] | None = None,
    ) -> Block[State]:
        """Make the states of m models, one at least, each from its first rows; see `init`.

        Args:
            spec: The spec.
            rows: Shape (n, D).
            starts: (m,) place of each model's first row.
            stops: (m,) place after the last of its first rows.
            keys: (m,) the models' IDs; none: all are "".

        Returns:
            The states, bit for bit those of `init`.

        Raises:
            ConfigError: as `init`, if that would refuse the first rows of any model.
        """
        matrix = np.ascontiguousarray(rows, dtype=np.float64)
        begins, ends = spans_of(starts, stops, np.size(starts), len(matrix))
        names = [""] * len(begins) if keys is None else keys
        if not len(begins):
            raise ConfigError("starts", begins.shape, "one model at least")
        one = self.init(spec, matrix[begins[0] : ends[0]], names[0])
        alone = len(begins) == 1 or not self.begins_alike
        if alone or not _sound_first_rows(matrix, begins, ends):
            spans = zip(begins[1:].tolist(), ends[1:].tolist(), names[1:], strict=True)
            others = [self.init(spec, matrix[a:b], key) for a, b, key in spans]
            return self.pack(spec, [one, *others])
        places = self.places(spec, matrix.shape[1])
        table = np.zeros((len(begins), places.size), np.uint8)
        columns = places.columns(table)
        for name, array in one._asdict().items():
            if array.any():  # The table is zeros, as the system gives them.
                columns[name][...] = array
        for name, array in look_at_each(spec, matrix, begins, ends)._asdict().items():
            if name in columns:
                columns[name][...] = array
        if keys is not None:
            self.put_keys(spec, columns, keys)
        return self.pack_table(spec, matrix.shape[1], table)

    def put_keys(
        self, spec: Spec, columns: dict[str, npt.NDArray[Any]], keys: Sequence[str]
    ) -> None:
        """Write what states have of their models' IDs to columns of them: nothing, usually."""

    def run(
        self,
        spec: Spec,
        block: Block[State],
        pieces: Pieces,
        extras: tuple[str, ...] = (),
        *,
        learn: bool = True,
        out: Outputs | None = None,
    ) -> Features:
        """Run rows of many models through their states, which are written to: the one way to run.

        `update` and `project` are this with one model. A model's results are bit for bit those that
        it has alone, whatever the others are: a refused row or a damaged state of one changes
        nothing of another.

        Args:
            spec: The spec that the states were made with.
            block: The states, as of `pack`, `pack_table` or `init_each`.
            pieces: The rows, n in all, and whose they are.
            extras: "q" and "s" ask for those features too, "x" for the rows as they were scaled.
            learn: False only looks: no state is written to, no times are needed.
            out: Where the results of n rows go, as of `room`; those of rows of no piece stay as
                they are there. None: new room.

        Returns:
            Features of all n rows, sharing memory with `out`. A row of no piece is not valid.

        Raises:
            ConfigError: for rows of another width, places out of range, room for other results,
                or if times are needed and not there.
        """
        given = sound_pieces(pieces, block.width, len(block))
        count = len(given.rows)
        room = self.room(spec, count, extras, out, block.width)
        # Rows that are only looked at need no times.
        stamps = stamps_of(spec, count, given.times) if learn else NO_TIMES
        self.run_checked(spec, block, given._replace(times=stamps), room, learn)
        return features_of(room)

    def run_checked(
        self, spec: Spec, block: Block[State], pieces: Pieces, out: Outputs, learn: bool
    ) -> None:
        """Do what `run` says, for arguments that were checked."""
        call_loop(loop_of(self, spec, learn), block, pieces, out)

    def room(
        self,
        spec: Spec,
        count: int,
        extras: tuple[str, ...] = (),
        given: Outputs | None = None,
        width: int = 0,
    ) -> Outputs:
        """Return room for the results of so many rows: what is given, or new room; see `run`.

        The rows' width matters to the extra "x" alone.

        Raises:
            ConfigError: if what is given has other shapes.
        """
        if given is None:
            return outputs_for(spec, count, self.stored(spec), extras, width)
        return check_room(given, count, spec.rank, self.stored(spec), width)

    def update(
        self,
        spec: Spec,
        state: State,
        rows: npt.ArrayLike,
        extras: tuple[str, ...] = (),
        times: IntArray | None = None,
    ) -> tuple[State, Features]:
        """Run rows, shape (n, D), through the state in order: `run` of one model.

        Args:
            spec: The spec that the state was made with.
            state: Not written to.
            rows: Shape (n, D).
            extras: "q" and "s" ask for those features too, "x" for the rows as they were scaled.
            times: (n,) event time of each row, ns. Only specs with `needs_times` read them.

        Returns:
            The new state and the rows' features. The same however rows are cut into calls.

        Raises:
            ConfigError: for rows of another width, or if times are needed and not there.
        """
        matrix = matrix_of(rows, len(state.scale))
        out = self.room(spec, len(matrix), extras, width=matrix.shape[1])
        block = ListBlock([state if self.grows else copied(state)], matrix.shape[1])
        pieces = all_rows(matrix, stamps_of(spec, len(matrix), times))
        self.run_checked(spec, block, pieces, out, True)
        return block.list[0], features_of(out)

    def project(
        self, spec: Spec, state: State, rows: npt.ArrayLike, extras: tuple[str, ...] = ()
    ) -> Features:
        """Return the rows' features under the state as it is, without learning."""
        matrix = matrix_of(rows, len(state.scale))
        out = self.room(spec, len(matrix), extras, width=matrix.shape[1])
        self.run_checked(spec, self.view(spec, [state]), all_rows(matrix), out, False)
        return features_of(out)

    def view(self, spec: Spec, states: Sequence[State]) -> Block[State]:
        """Return a block of the states themselves, not of copies: to look, not to learn."""
        return ListBlock(list(states), width_of(states))

    def row_call(self, spec: Spec, state: State) -> RowCall | None:
        """Return a call that lets the state learn row by row; None where rows need times.

        Args:
            spec: The spec that the state was made with.
            state: Written to by each call.
        """
        if spec.needs_times:
            return None
        return RowCall(self.loop(spec, True), state, self.room(spec, 1))

    def places(self, spec: Spec, width: int) -> Places:
        """Return where the arrays of a state for rows of D channels lie in a row of bytes."""
        return places_of(self, spec, width)

    def state_bytes(self, state: State) -> bytes:
        """Return a state's arrays as bytes, one after the other: a row of `pack_table`."""
        return b"".join([array.tobytes() for array in state])

    def why_refused(self, spec: Spec, state: State, row: npt.ArrayLike) -> str:
        """Return in one clause why a row was not valid."""
        return refusal(state, row)

    def counters(self, state: State) -> dict[str, int]:
        """Return running totals: informative, evicted, dropped_at_once, mended, unseen.

        Where the rank is chosen from the stream also directions, its sum over informative rows.
        """
        counts = state.counts
        chosen = len(counts) > places.RANK
        return {
            "informative": int(counts[places.INFORMATIVE]),
            "evicted": int(counts[places.EVICTED]),
            "dropped_at_once": int(counts[places.DROPPED]),
            "mended": int(counts[places.MENDED]),
            "unseen": int(counts[places.UNSEEN]),
            **({"directions": int(counts[places.DIRECTIONS])} if chosen else {}),
        }

    def arrays(self, state: State) -> dict[str, npt.NDArray[Any]]:
        """Return the state's arrays by name, for the codec."""
        named: dict[str, npt.NDArray[Any]] = state._asdict()
        return named

    def from_arrays(
        self, spec: Spec, arrays: dict[str, npt.NDArray[Any]], of: tuple[int, ...] = ()
    ) -> State:
        """Make a state of arrays that `arrays` gave.

        Args:
            spec: The spec.
            arrays: The arrays.
            of: (m,) for those of m states, (m, ...) each, none of which may be refused then.

        Raises:
            ConfigError: naming the array or count that no state has.
        """
        state: State = restored(
            self.state_type,
            arrays,
            lambda width: self.layout(spec, width),
            *self.limits(spec),
            of=of,
        )
        return self.sound(spec, state)


def _sound_first_rows(rows: FloatArray, starts: IntArray, stops: IntArray) -> bool:
    """Return whether all models have first rows, and finite ones."""
    if rows.ndim != 2 or (starts == stops).any():
        return False
    finite = np.concatenate([[0], np.cumsum(np.isfinite(rows).all(axis=1))])
    return bool((finite[stops] - finite[starts] == stops - starts).all())


@lru_cache(maxsize=64)
def places_of(tracker: KernelTracker[Any, Any], spec: SubspaceSpec, width: int) -> Places:
    """Return where the arrays of a tracker's states lie in a row of bytes."""
    likes = tracker.layout(spec, width)
    return Places.of({name: likes[name] for name in tracker.state_type._fields})


@lru_cache(maxsize=64)
def loop_of(tracker: KernelTracker[Any, Any], spec: SubspaceSpec, learn: bool) -> Loop:
    """Return a tracker's loop, with what is the same in each call laid out."""
    return tracker.loop(spec, learn).laid_out()


def width_of(states: Sequence[Any]) -> int:
    """Return the width of the rows of models.

    Raises:
        ConfigError: if there is more than one, or no state.
    """
    widths = {len(state.scale) for state in states}
    if len(widths) != 1:
        raise ConfigError("states", f"of widths {sorted(widths)}", "of one width, and one at least")
    return widths.pop()
