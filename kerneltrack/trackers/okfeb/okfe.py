"""OK-FE: online kernel-based feature extraction without a budget.

Every row after the start becomes an SV, so that memory and time grow with the stream: it is the
reference for small data, not for sensors. Algorithm 3 (`rule="nonparametric"`) and Algorithm 2
(`rule="parametric"`), section IV. It is OK-FEB without censoring and without a budget and runs
through the same row loop. Cost O(nD + nr) for row n, O(n²r) every n rows, 8n² bytes of state.
Flops a row with B stored: 3BD + 10B + 18Br + 17r² + 2Br + Br²/64 + 10r³/64.

Reference: F. Sheikholeslami, D. Berberidis, G. B. Giannakis, "Large-scale kernel-based feature
extraction via low-rank subspace tracking on a budget", IEEE Trans. Signal Process., 2018.

Differs from the paper: the start and the safe step, as in `okfeb`; with `start="rank_one"` A
begins with ones, as Algorithms 2 and 3 print it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import IntArray
from kerneltrack.errors import ConfigError
from kerneltrack.limits import ArrayForm
from kerneltrack.trackers.common import state as places
from kerneltrack.trackers.common.base import KernelTracker, width_of
from kerneltrack.trackers.common.block import Block, ListBlock
from kerneltrack.trackers.common.calls import kernel_of_spec, restored
from kerneltrack.trackers.common.loop import Loop, Pieces
from kerneltrack.trackers.common.moving_scale import window_of
from kerneltrack.trackers.common.state import Outputs
from kerneltrack.trackers.okfeb.okfeb import (
    layout,
    limits,
    make_state,
    padded,
    rows_to_begin,
    sound,
)
from kerneltrack.trackers.okfeb.spec import CENSORS, POLICIES, RULES, STEPS, OKFESpec
from kerneltrack.trackers.okfeb.state import OkfebSettings, SubspaceState

SPARE_SLOTS = 2
"""One slot for the row being added, one so that the loop never sees a full budget."""


def _resized(state: SubspaceState, slots: int) -> SubspaceState:
    """Return a copy of the state with this many slots, the unused ones zero."""
    size, columns = state.size, padded(slots)
    parts = {name: array.copy() for name, array in state._asdict().items()}
    for name in ("recency", "born"):
        parts[name] = np.zeros(slots, dtype=parts[name].dtype)
        parts[name][:size] = getattr(state, name)[:size]
    for name in ("stored", "factor", "image", "gram"):
        old = parts[name]
        kept = size if name == "gram" else len(old)
        parts[name] = np.zeros((columns if name == "gram" else len(old), columns))
        parts[name][:kept, :size] = old[:kept, :size]
    return SubspaceState(**parts)


def _settings(spec: OKFESpec, learn: bool) -> OkfebSettings:
    return OkfebSettings(
        learn=learn,
        ridge=spec.ridge,
        rule=RULES.index(spec.rule),
        step=STEPS.index(spec.step),
        step_size=spec.step_size,
        policy=POLICIES.index("norm"),
        forgetting=1.0,
        censor=CENSORS.index("none"),
        threshold=0.0,
        admitted=1.0,
        start_rows=rows_to_begin(spec),
        clip=math.inf if spec.clip is None else spec.clip,
        scale_window=window_of(spec),
    )


class OKFE(KernelTracker[OKFESpec, SubspaceState]):
    """The tracker OK-FE (see the module).

    Example:
        >>> spec = OKFESpec(rank=2, standardise=False, gamma=2.0)
        >>> rows = np.random.default_rng(0).normal(size=(30, 3))
        >>> state, _ = OKFE().update(spec, OKFE().init(spec, rows[:1]), rows)
        >>> state.size
        30
    """

    name = "okfe"
    spec_type = OKFESpec
    state_type = SubspaceState
    grows = True
    begins_alike = False

    def init(self, spec: OKFESpec, first_rows: npt.ArrayLike, key: str = "") -> SubspaceState:
        """Make the state from the first rows (m, D); the key is not used."""
        return make_state(spec, first_rows, SPARE_SLOTS)

    def loop(self, spec: OKFESpec, learn: bool) -> Loop:
        """Return the row loop: OK-FEB's."""
        return Loop("okfeb_run", _settings(spec, learn), (kernel_of_spec(spec),))

    def stored(self, spec: OKFESpec) -> int:
        """Return how many numbers the features s of a row are."""
        return spec.max_rows

    def pack(self, spec: OKFESpec, states: Sequence[SubspaceState]) -> ListBlock[SubspaceState]:
        """Return states as a block, in which each gives its place to a larger one as it grows."""
        return ListBlock(list(states), width_of(states))

    def pack_table(
        self, spec: OKFESpec, width: int, table: npt.NDArray[np.uint8]
    ) -> ListBlock[SubspaceState]:
        """Refuse: states that grow are no rows of one table."""
        raise ConfigError("tracker", self.name, "one whose states keep their size")

    def row_call(self, spec: OKFESpec, state: SubspaceState) -> None:
        """Return none: each row makes the state larger."""
        return

    def run_checked(
        self,
        spec: OKFESpec,
        block: Block[SubspaceState],
        pieces: Pieces,
        out: Outputs,
        learn: bool,
    ) -> None:
        """Run rows, of each model as many at once as it has room for; later ones are refused.

        Rows that are refused take no room: then the next ones get it, in another call.
        """
        if not learn:
            super().run_checked(spec, block, pieces, out, learn)
            return
        growing: Any = block
        places = np.arange(len(block)) if pieces.models is None else pieces.models
        begin, stop = pieces.starts.copy(), pieces.stops
        for turn in _in_turn(places):
            left = turn
            while len(left):
                of = places[left].tolist()
                room = [max(spec.max_rows - growing.list[place].size, 0) for place in of]
                until = np.minimum(stop[left], begin[left] + room)
                for place, more in zip(of, (until - begin[left]).tolist(), strict=True):
                    state = growing.list[place]
                    growing.list[place] = _resized(state, state.size + more + SPARE_SLOTS)
                part = Pieces(pieces.rows, begin[left], until, pieces.times, places[left])
                super().run_checked(spec, block, part, out, learn)
                begin[left] = until
                sizes = np.array([growing.list[place].size for place in of])
                left = left[(until < stop[left]) & (sizes < spec.max_rows)]
        for place in dict.fromkeys(places.tolist()):
            state = growing.list[place]
            growing.list[place] = _resized(state, state.size + SPARE_SLOTS)

    def why_refused(self, spec: OKFESpec, state: SubspaceState, row: npt.ArrayLike) -> str:
        """Return why a row was refused."""
        if state.size >= spec.max_rows:
            return f"the model holds max_rows = {spec.max_rows} rows (OK-FE has no budget)"
        return super().why_refused(spec, state, row)

    def layout(self, spec: OKFESpec, width: int) -> dict[str, ArrayForm]:
        """Return what the arrays of a state without a row are like."""
        return layout(spec, SPARE_SLOTS, width)

    def from_arrays(
        self, spec: OKFESpec, arrays: dict[str, npt.NDArray[Any]], of: tuple[int, ...] = ()
    ) -> SubspaceState:
        """Make a state of arrays that `arrays` gave, of the size that they say: of one only."""
        counts = arrays.get("counts", np.zeros(0))
        size = int(counts[places.SIZE]) if counts.shape == (places.COUNTS + 1,) else -1
        if not 0 <= size <= spec.max_rows:
            raise ConfigError("state.counts, stored rows", size, f"0 to {spec.max_rows}")
        slots = size + SPARE_SLOTS
        state: SubspaceState = restored(
            SubspaceState,
            arrays,
            lambda width: layout(spec, slots, width),
            *limits(spec, slots - 1),
        )
        return sound(spec, state)


def _in_turn(places: IntArray) -> Iterator[IntArray]:
    """Return pieces, (k,), that run together: the first of each model, then the second ones, ..."""
    order = np.argsort(places, kind="stable")
    turn = np.empty(len(places), np.int64)
    turn[order] = np.arange(len(places)) - np.searchsorted(places[order], places[order])
    for which in range(int(turn.max(initial=-1)) + 1):
        yield np.flatnonzero(turn == which)
