"""What the trackers' functions share outside the compiled loops: first rows, calls, checks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.errors import ConfigError
from kerneltrack.kernels import Kernel, make_kernel, median_bandwidth
from kerneltrack.limits import (
    ArrayForm,
    Limit,
    check_counts,
    check_finite,
    check_positive,
    copies_like,
)
from kerneltrack.native.binding import NO_MEMORY, function, laid_out
from kerneltrack.trackers.common import scaling
from kerneltrack.trackers.common.block import words_of
from kerneltrack.trackers.common.features import Features
from kerneltrack.trackers.common.loop import NO_TIMES, Loop, all_rows, arguments_of
from kerneltrack.trackers.common.spec import SubspaceSpec
from kerneltrack.trackers.common.state import Outputs

Arrays = dict[str, npt.NDArray[Any]]


_State = TypeVar("_State")

# As in native/tracking.h.
MAX_SCALED = 1e150
"""Largest |x| after scaling: its square is still finite."""
MAX_KERNEL = 1e100
"""Largest κ(x,x) that the products of an update can take."""


class FirstRows(NamedTuple):
    """What a model takes from its first rows.

    Attributes:
        shift: (D,) centre over scale.
        scale: (D,) standard deviation.
        bandwidth: γ of each group of columns, (1,) where they are one.
    """

    shift: FloatArray
    scale: FloatArray
    bandwidth: FloatArray


def look_at(spec: SubspaceSpec, first_rows: npt.ArrayLike, cuts: tuple[int, ...] = ()) -> FirstRows:
    """Take scaling and bandwidths from a model's first rows.

    Args:
        spec: The spec.
        first_rows: Shape (m, D).
        cuts: Where groups of columns begin that have bandwidths of their own, after the first.

    Raises:
        ConfigError: if they are not a finite matrix of one row and one column a group at the least.
    """
    groups = 1 + len(cuts)
    rows = first_matrix(first_rows, groups)
    clip = math.inf if spec.clip is None else spec.clip
    scale = (
        scaling.standard_scaling(rows, clip)
        if spec.standardise
        else scaling.no_scaling(rows.shape[1])
    )
    bandwidth = np.ones(groups)
    if spec.kernel in spec.bandwidths and not isinstance(spec.gamma, str):
        bandwidth[:] = spec.gamma
    elif spec.kernel in spec.bandwidths:
        parts = np.split(scaling.apply_scaling(scale, rows, clip), cuts, axis=1)
        bandwidth[:] = [median_bandwidth(spec.kernel, np.ascontiguousarray(p)) for p in parts]
    return FirstRows(scale.shift, scale.scale, bandwidth)


def first_matrix(first_rows: npt.ArrayLike, least: int = 1) -> FloatArray:
    """Return a model's first rows as a matrix.

    Raises:
        ConfigError: if they are not a finite one of a row and so many columns at the least.
    """
    rows = np.ascontiguousarray(first_rows, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[0] < 1 or rows.shape[1] < least:
        allowed = f"an array of shape (m >= 1, D >= {least})"
        raise ConfigError("first_rows", rows.shape, allowed)
    if not np.isfinite(rows).all():
        raise ConfigError("first_rows", "NaN or infinite values", "finite")
    return rows


def kernel_of(spec: SubspaceSpec, state: Any) -> Kernel:
    """Return the kernel of a model, its bandwidth resolved."""
    return make_kernel(spec.kernel, float(state.bandwidth[0]), spec.degree, spec.offset)


def kernel_of_spec(spec: SubspaceSpec) -> Kernel:
    """Return the kernel of a spec's models, but for the bandwidth, which is each one's own."""
    return make_kernel(spec.kernel, 1.0, spec.degree, spec.offset)


class RowCall:
    """A loop's call on one row after the other of one model, laid out once.

    What a call lays out anew each time, some tens of microseconds, stays where it is: the state's
    arrays, which are written to if the loop is to learn, and room for one row and its
    results.

    Args:
        loop: The loop.
        state: Written to; no array of it may be put elsewhere.
        out: Room for the results of one row; each call writes there again.
    """

    def __init__(self, loop: Loop, state: Any, out: Outputs) -> None:
        self._row = np.zeros((1, len(state.scale)))
        self.out = out
        given = arguments_of(loop, words_of([state]), all_rows(self._row), out)
        self._kept = (state, given)
        self._arguments = tuple(laid_out(argument) for argument in given)
        self._name, self._function = loop.name, function(loop.name)

    def __call__(self, row: npt.ArrayLike) -> Outputs:
        """Run a row of D numbers; `out.valid` says whether it was taken.

        Raises:
            ConfigError: for a row of another length.
        """
        values = self._row[0]
        if len(row) != len(values):  # type: ignore[arg-type]
            raise ConfigError("row", np.shape(row), f"of shape ({len(values)},)")
        values[:] = row
        out = self.out
        # As in fresh room: the loop writes down only what is so.
        out.valid[0] = out.informative[0] = out.initial[0] = False
        out.evicted[0] = -1
        if self._function(*self._arguments) == NO_MEMORY:
            raise MemoryError(f"no room for the scratch space of {self._name}")
        return out


def stamps_of(spec: SubspaceSpec, count: int, times: IntArray | None) -> IntArray:
    """Return the event times of rows as the loops take them, none if not needed.

    Raises:
        ConfigError: if the spec needs them and they are not there, or as many as the rows are.
    """
    if not spec.needs_times:
        return NO_TIMES
    if times is None:
        raise ConfigError("times", None, "event times of the rows: the spec forgets by them")
    stamps = np.ascontiguousarray(times, dtype=np.int64)
    if stamps.shape != (count,):
        raise ConfigError("times", stamps.shape, f"of shape ({count},)")
    return stamps


def outputs_for(
    spec: SubspaceSpec, count: int, stored: int, extras: tuple[str, ...], width: int
) -> Outputs:
    """Return room for the results of `count` rows of D = `width`, s of `stored` numbers each.

    What is not wanted has neither rows nor columns.
    """
    wants_z, wants_q = spec.emit == "z", "q" in extras or spec.emit == "q"
    no_table = np.zeros((0, 0))
    none = np.empty(count, dtype=np.int64)
    none.fill(-1)
    return Outputs(
        valid=np.zeros(count, dtype=np.bool_),
        number=np.zeros(count, dtype=np.int64),
        z=np.zeros((count, spec.rank)) if wants_z else no_table,
        loss=np.zeros(count),
        novelty=np.zeros(count),
        informative=np.zeros(count, dtype=np.bool_),
        evicted=none,
        initial=np.zeros(count, dtype=np.bool_),
        q=np.zeros((count, spec.rank)) if wants_q else no_table,
        s=np.zeros((count, stored)) if "s" in extras else no_table,
        x=np.zeros((count, width)) if "x" in extras else no_table,
    )


def check_room(out: Outputs, count: int, rank: int, stored: int, width: int) -> Outputs:
    """Return room for the results of so many rows after a look at its shapes.

    Args:
        out: The room.
        count: Rows.
        rank: Numbers of z and q.
        stored: Numbers of s.
        width: Numbers of x.

    Raises:
        ConfigError: for room of other shapes.
    """
    widths = {"z": (rank,), "q": (rank,), "s": (stored,), "x": (width,)}
    for name, array in out._asdict().items():
        wanted = (count, *widths.get(name, ()))
        if array.shape != wanted and (name not in widths or array.shape != (0, 0)):
            raise ConfigError(f"out.{name}", array.shape, f"of shape {wanted}")
    return out


def features_of(out: Outputs) -> Features:
    """Return a call's outputs as the trackers give them."""
    return Features(
        valid=out.valid,
        index=out.number,
        z=out.z if out.z.shape[1] else None,
        loss=out.loss,
        novelty=out.novelty,
        informative=out.informative,
        evicted=out.evicted,
        initial=out.initial,
        q=out.q if out.q.shape[1] else None,
        s=out.s if out.s.shape[1] else None,
        x=out.x if out.x.shape[1] else None,
    )


def copied(state: _State) -> _State:
    """Return a state of copies of the arrays of one."""
    named: Any = state
    result: _State = type(named)(*(array.copy() for array in named))
    return result


def refusal(state: Any, row: npt.ArrayLike, positive: str | None = None) -> str:
    """Return why the row loop refused a row; `positive`: a kernel that takes no number below 0."""
    values = np.asarray(row, dtype=np.float64)
    for name, bad in (("NaN", np.isnan(values)), ("infinite", np.isinf(values))):
        if bad.any():
            return f"channel {int(np.argmax(bad))} is {name}"
    if positive is not None and (values < 0).any():
        return f"channel {int(np.argmax(values < 0))} is below 0, {positive} takes none"
    scaled = np.abs(values / state.scale - state.shift)
    worst = int(np.argmax(scaled))
    if scaled[worst] > MAX_SCALED:
        return f"channel {worst} = {values[worst]:g}: too large once standardised"
    return f"the kernel's value of the row with itself is above {MAX_KERNEL:g}"


def restored(
    state_type: Any,
    arrays: Arrays,
    layout: Callable[[int], Mapping[str, ArrayForm]],
    *limits: Limit,
    of: tuple[int, ...] = (),
) -> Any:
    """Make a state of arrays by name, held against what leads the row loops.

    Args:
        state_type: The state's type.
        arrays: Its arrays.
        layout: What they are like for rows of D channels.
        limits: Ranges of single counts.
        of: (m,) for the arrays of m states, (m, ...) each.

    Raises:
        ConfigError: naming the array or count that no state has.
    """
    fields = state_type._fields
    if set(arrays) != set(fields):
        raise ConfigError(
            "state", sorted(set(arrays) ^ set(fields)), f"exactly {', '.join(fields)}"
        )
    scale = arrays["scale"]
    if scale.ndim != len(of) + 1 or not scale.shape[-1]:
        raise ConfigError("state.scale", scale.shape, "of shape (D,)")
    state = state_type(**copies_like("state", arrays, layout(scale.shape[-1]), of=of))
    check_counts("state.counts", state.counts, *limits)
    check_finite("state.shift", state.shift)
    check_positive("state.scale", state.scale)
    if "bandwidth" in fields:
        check_positive("state.bandwidth", state.bandwidth)
    return state
