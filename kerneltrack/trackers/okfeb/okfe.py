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

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from kerneltrack.errors import ConfigError
from kerneltrack.limits import Like
from kerneltrack.trackers.common import state as places
from kerneltrack.trackers.common.base import KernelTracker
from kerneltrack.trackers.common.calls import restored, run
from kerneltrack.trackers.common.features import Features, IntArray
from kerneltrack.trackers.okfeb.okfeb import (
    layout,
    limits,
    make_state,
    padded,
    rows_to_begin,
    sound,
)
from kerneltrack.trackers.okfeb.spec import CENSORS, POLICIES, RULES, STEPS, OKFESpec
from kerneltrack.trackers.okfeb.state import Settings, SubspaceState

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


def _settings(spec: OKFESpec, learn: bool) -> Settings:
    return Settings(
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

    def init(self, spec: OKFESpec, first_rows: npt.ArrayLike, key: str = "") -> SubspaceState:
        """Make the state from the first rows (m, D); the key is not used."""
        return make_state(spec, first_rows, SPARE_SLOTS)

    def run(
        self,
        spec: OKFESpec,
        state: SubspaceState,
        rows: npt.ArrayLike,
        extras: tuple[str, ...],
        times: IntArray | None,
        learn: bool,
    ) -> Features:
        """Run rows through the row loop; a state that is to learn has room for them."""
        done = run("okfeb_run", _settings(spec, learn), state, spec, rows, extras)
        return _joined([done], spec.max_rows)

    def update(
        self,
        spec: OKFESpec,
        state: SubspaceState,
        rows: npt.ArrayLike,
        extras: tuple[str, ...] = (),
        times: IntArray | None = None,
    ) -> tuple[SubspaceState, Features]:
        """Run rows (n, D) through the state in order; rows past `max_rows` are refused."""
        matrix = np.ascontiguousarray(rows, dtype=np.float64)
        done: list[Features] = []
        after, place = state, 0
        while True:
            stop = min(len(matrix), place + max(spec.max_rows - after.size, 0))
            piece = matrix[place:stop]
            after = _resized(after, after.size + len(piece) + SPARE_SLOTS)
            done.append(self.run(spec, after, piece, extras, times, learn=True))
            place = stop
            if place == len(matrix) or after.size >= spec.max_rows:
                break
        rest = np.full((len(matrix) - place, matrix.shape[1]), np.nan)
        done.append(self.run(spec, after, rest, extras, times, learn=False))
        return _resized(after, after.size + SPARE_SLOTS), _joined(done, spec.max_rows)

    def why_refused(self, spec: OKFESpec, state: SubspaceState, row: npt.ArrayLike) -> str:
        """Return why a row was refused."""
        if state.size >= spec.max_rows:
            return f"the model holds max_rows = {spec.max_rows} rows (OK-FE has no budget)"
        return super().why_refused(spec, state, row)

    def layout(self, spec: OKFESpec, width: int) -> dict[str, Like]:
        """Return what the arrays of a state without a row are like."""
        return layout(spec, SPARE_SLOTS, width)

    def from_arrays(self, spec: OKFESpec, arrays: dict[str, npt.NDArray[Any]]) -> SubspaceState:
        """Make a state of arrays that `arrays` gave, of the size that they say."""
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

    def from_columns(
        self, spec: OKFESpec, columns: Mapping[str, npt.NDArray[Any]]
    ) -> list[SubspaceState | None]:
        """Leave all to `from_arrays`: how large a state is, it says itself."""
        return [None] * len(columns["counts"])


def _joined(parts: list[Features], budget: int) -> Features:
    """Join features of consecutive rows; s is padded to one width."""
    columns: dict[str, Any] = {}
    for field in dataclasses.fields(Features):
        arrays = [getattr(part, field.name) for part in parts]
        if field.name == "s" and arrays[0] is not None:
            arrays = [
                np.pad(array, ((0, 0), (0, max(budget - array.shape[1], 0))))[:, :budget]
                for array in arrays
            ]
        columns[field.name] = None if arrays[0] is None else np.concatenate(arrays)
    return Features(**columns)
