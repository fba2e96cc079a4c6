"""Sums over the entries of two rows, in vector registers and always in the same order.

A compiler that may reorder a sum does so as it sees fit: by what surrounds the loop, by whether
it was compiled once or again into a caller, by where the arrays lie in memory. A model's results
would then depend on more than its rows. Here the order is part of the program, and of the sum's
length alone: 8 partial sums (32 in sums of 32 terms and more), folded in halves. Multiplications
and additions are fused by name, so the bits are the same on any processor, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils as numba_cgutils
from numba.core import types
from numba.core.errors import TypingError
from numba.extending import intrinsic as numba_intrinsic

from kerneltrack.compiled import inlined

LANES = 8
"""Doubles in a vector: a whole register of AVX-512, two of AVX2, four of SSE2 and NEON."""
UNROLLED = 4
"""Vectors whose sums run side by side in long rows, to hide the latency of an addition."""

FloatArray = npt.NDArray[np.float64]

# What Numba does not type.
cgutils: Any = numba_cgutils
intrinsic: Any = numba_intrinsic

_DOUBLE = ir.DoubleType()
_Term = Callable[[Any, Any, Any, Any], Any]


def _call(builder: Any, name: str, *args: Any) -> Any:
    """Call LLVM's intrinsic `name` for the arguments' type, a double or a vector of them."""
    kind = args[0].type
    suffix = f"v{kind.count}f64" if isinstance(kind, ir.VectorType) else "f64"
    declared = ir.FunctionType(kind, [kind] * len(args))
    function = cgutils.get_or_insert_function(builder.module, declared, f"llvm.{name}.{suffix}")
    return builder.call(function, args)


def _add_product(builder: Any, left: Any, right: Any, total: Any) -> Any:
    return _call(builder, "fma", left, right, total)


def _add_squared_gap(builder: Any, left: Any, right: Any, total: Any) -> Any:
    gap = builder.fsub(left, right)
    return _call(builder, "fma", gap, gap, total)


def _add_absolute_gap(builder: Any, left: Any, right: Any, total: Any) -> Any:
    return builder.fadd(total, _call(builder, "fabs", builder.fsub(left, right)))


def _add_entry(builder: Any, left: Any, _: Any, total: Any) -> Any:
    return builder.fadd(total, left)


def _add_absolute(builder: Any, left: Any, _: Any, total: Any) -> Any:
    return builder.fadd(total, _call(builder, "fabs", left))


def _part(builder: Any, vector: Any, start: int, width: int) -> Any:
    """Return `width` lanes of a vector from `start` on, a double if it is one."""
    if width == 1:
        return builder.extract_element(vector, ir.Constant(ir.IntType(32), start))
    chosen = ir.Constant(ir.VectorType(ir.IntType(32), width), list(range(start, start + width)))
    return builder.shuffle_vector(vector, vector, chosen)


def _emit(builder: Any, term: _Term, left: Any, right: Any, count: Any) -> Any:
    """Emit the sum of a term over the first `count` entries behind two pointers."""
    size = count.type
    empty = ir.Constant(ir.VectorType(_DOUBLE, LANES), [0.0] * LANES)
    totals = [cgutils.alloca_once_value(builder, empty) for _ in range(UNROLLED)]

    def add(at: Any, width: int, total: Any) -> Any:
        """Add the terms of `width` entries from `at` on to as many sums."""
        kind = _DOUBLE if width == 1 else ir.VectorType(_DOUBLE, width)

        def load(row: Any) -> Any:
            here = builder.bitcast(builder.gep(row, [at]), kind.as_pointer())
            return builder.load(here, align=8)

        return term(builder, load(left), load(right), total)

    def whole(step: int) -> Any:
        """Return how many of the entries are in whole groups of `step`, a power of two."""
        return builder.and_(count, ir.Constant(size, -step))

    def walk(start: Any, vectors: int) -> None:
        """Add whole groups of vectors from an entry on, each vector to its own sums."""
        step = vectors * LANES
        bounds = (start, whole(step), ir.Constant(size, step))
        with cgutils.for_range_slice(builder, *bounds) as (at, _):
            for i, total in enumerate(totals[:vectors]):
                place = builder.add(at, ir.Constant(size, i * LANES))
                builder.store(add(place, LANES, builder.load(total)), total)

    walk(ir.Constant(size, 0), UNROLLED)
    first = [builder.load(total) for total in totals]
    halves = builder.fadd(first[0], first[1]), builder.fadd(first[2], first[3])
    builder.store(builder.fadd(*halves), totals[0])
    walk(whole(UNROLLED * LANES), 1)
    total, width = builder.load(totals[0]), LANES
    while width > 1:
        width //= 2
        halves = _part(builder, total, 0, width), _part(builder, total, width, width)
        kept = cgutils.alloca_once_value(builder, builder.fadd(*halves))
        # What is left of the row is one piece of each smaller power of two, or none.
        bit = builder.and_(count, ir.Constant(size, width))
        with builder.if_then(builder.icmp_unsigned("!=", bit, ir.Constant(size, 0))):
            builder.store(add(whole(2 * width), width, builder.load(kept)), kept)
        total = builder.load(kept)
    return total


def _reduction(term: _Term) -> Any:
    """Return what sums a term over two contiguous rows, to be called from compiled code."""

    def typed(_: Any, left: Any, right: Any, count: Any) -> Any:
        for row in (left, right):
            good = isinstance(row, types.Array) and row.ndim == 1 and row.layout == "C"
            if not (good and row.dtype == types.float64 and isinstance(count, types.Integer)):
                raise TypingError("a sum takes two contiguous rows of float64 and a length")

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            first, second = (
                context.make_array(kind)(context, builder, row).data
                for kind, row in zip(signature.args[:2], args[:2], strict=True)
            )
            return _emit(builder, term, first, second, args[2])

        return types.float64(left, right, types.int64), emit

    return intrinsic(typed)


_dot = _reduction(_add_product)
_squared_distance = _reduction(_add_squared_gap)
_absolute_distance = _reduction(_add_absolute_gap)
_entry_sum = _reduction(_add_entry)
_absolute_sum = _reduction(_add_absolute)


@inlined
def dot(left: FloatArray, right: FloatArray, count: int) -> float:
    """Return Σ left[i]·right[i] over the first `count` entries of two contiguous rows."""
    return float(_dot(left, right, count))


@inlined
def squared_distance(left: FloatArray, right: FloatArray, count: int) -> float:
    """Return Σ(left[i] - right[i])² over the first `count` entries."""
    return float(_squared_distance(left, right, count))


@inlined
def absolute_distance(left: FloatArray, right: FloatArray, count: int) -> float:
    """Return Σ|left[i] - right[i]| over the first `count` entries."""
    return float(_absolute_distance(left, right, count))


@inlined
def entry_sum(row: FloatArray, count: int) -> float:
    """Return Σ row[i] over the first `count` entries of a contiguous row."""
    return float(_entry_sum(row, row, count))


@inlined
def absolute_sum(row: FloatArray, count: int) -> float:
    """Return Σ|row[i]| over the first `count` entries of a contiguous row."""
    return float(_absolute_sum(row, row, count))


def _typed_fused(_: Any, left: Any, right: Any, total: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _call(builder, "fma", *args)

    return types.float64(types.float64, types.float64, types.float64), emit


_fused = intrinsic(_typed_fused)


@inlined
def fused(left: float, right: float, total: float) -> float:
    """Return left·right + total, rounded once."""
    return float(_fused(left, right, total))
