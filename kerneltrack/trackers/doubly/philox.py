"""Random numbers from counters: Philox4x64-10, compiled.

A counter-based generator is a function of a key and a counter. What was drawn once need not be
stored: the same counter gives it again, in any order and in any process. `block` gives the four
words that `numpy.random.Philox(key=key, counter=counter)` begins with, bit for bit.

Reference: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3",
SC 2011, section 3.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic as numba_intrinsic

from kerneltrack.compiled import inlined

WordArray = npt.NDArray[np.uint64]

WORDS = 4
"""Words in a block."""
ROUNDS = 10
MULTIPLIER_0 = np.uint64(0xD2E7470EE14C6C93)
MULTIPLIER_1 = np.uint64(0xCA5A826395121157)
WEYL_0 = np.uint64(0x9E3779B97F4A7C15)
WEYL_1 = np.uint64(0xBB67AE8584CAA73B)
SPARE_BITS = np.uint64(11)
UNIT = 2.0**-53
"""The generators' words become reals as NumPy's do: their upper 53 bits."""

# What Numba does not type.
intrinsic: Any = numba_intrinsic


def _typed_high(_: Any, left: Any, right: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), emit


_high = intrinsic(_typed_high)


@inlined
def block(key: WordArray, counter: WordArray, out: WordArray) -> None:
    """Write the four words of a counter under a key.

    Args:
        key: (2,) words.
        counter: (4,) words, the least significant first. NumPy's generator counts up before it
            draws, so that its counter c gives the block of c + 1 here, too.
        out: (4,) words.
    """
    c0 = counter[0] + np.uint64(1)
    c1 = counter[1]
    c2 = counter[2]
    c3 = counter[3]
    if c0 == np.uint64(0):
        c1 += np.uint64(1)
        if c1 == np.uint64(0):
            c2 += np.uint64(1)
            if c2 == np.uint64(0):
                c3 += np.uint64(1)
    k0 = key[0]
    k1 = key[1]
    for _ in range(ROUNDS):
        high0 = _high(MULTIPLIER_0, c0)
        low0 = MULTIPLIER_0 * c0
        high1 = _high(MULTIPLIER_1, c2)
        low1 = MULTIPLIER_1 * c2
        c0 = high1 ^ c1 ^ k0
        c1 = low1
        c2 = high0 ^ c3 ^ k1
        c3 = low0
        k0 += WEYL_0
        k1 += WEYL_1
    out[0] = c0
    out[1] = c1
    out[2] = c2
    out[3] = c3


@inlined
def uniform(word: int) -> float:
    """Return a number in [0, 1) of a word, the one that NumPy's generators make of it."""
    return float(np.uint64(word) >> SPARE_BITS) * UNIT


@inlined
def open_uniform(word: int) -> float:
    """Return a number in (0, 1): the middle of one of 2**52 equal intervals."""
    return (float(np.uint64(word) >> (SPARE_BITS + np.uint64(1))) + 0.5) * (2.0 * UNIT)
