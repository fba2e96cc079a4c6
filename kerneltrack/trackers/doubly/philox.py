"""Random numbers from counters: Philox4x64-10.

A counter-based generator is a function of a key and a counter. What was drawn once need not be
stored: the same counter gives it again, in any order and in any process. The words are those that
`numpy.random.Philox(key=key, counter=counter)` draws, bit for bit. The random features are drawn
where they are needed (`kerneltrack/native/philox.h`); here are the same numbers by themselves.

Reference: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3",
SC 2011, section 3.2.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import FloatArray
from kerneltrack.native.binding import call

WordArray = npt.NDArray[np.uint64]


def words(key: WordArray, counter: WordArray, count: int) -> WordArray:
    """Return the words of consecutive counters, four each.

    Args:
        key: (2,) words.
        counter: (4,) words, the least significant first. NumPy's generator counts up before it
            draws, so that its counter c gives the words of c + 1 here, too.
        count: How many words.

    Returns:
        Shape (count,).

    Example:
        >>> key, counter = np.array([1, 2], dtype=np.uint64), np.zeros(4, dtype=np.uint64)
        >>> expected = np.random.Philox(key=key, counter=counter).random_raw(6)
        >>> words(key, counter, 6).tolist() == expected.tolist()
        True
    """
    out = np.empty(count, dtype=np.uint64)
    call("philox_words", key, counter, out)
    return out


def reals(found: WordArray) -> tuple[FloatArray, FloatArray]:
    """Return the numbers of words: in [0, 1), as NumPy's generators make them, and in (0, 1).

    The second are the middles of 2**52 equal intervals.
    """
    closed, opened = np.empty(len(found)), np.empty(len(found))
    call("philox_reals", np.ascontiguousarray(found), closed, opened)
    return closed, opened
