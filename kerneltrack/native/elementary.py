"""exp, log and cosines as the compiled loops have them: the same bits on every system."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import FloatArray
from kerneltrack.native.binding import call

FUNCTIONS = ("exp", "log", "sin", "cos", "cosine_of_turns")


def elementary(name: str, x: npt.ArrayLike) -> FloatArray:
    """Return a function's values.

    Args:
        name: One of `FUNCTIONS`; "cosine_of_turns" is cos(2πx).
        x: Shape (n,). Normal numbers > 0 for the logarithm, |x| <= 8 for sine and cosine.

    Example:
        >>> elementary("exp", [0.0, -1e9]).tolist()
        [1.0, 0.0]
    """
    given = np.ascontiguousarray(x, dtype=np.float64)
    out = np.empty(given.shape)
    call("elementary", (FUNCTIONS.index(name),), given, out)
    return out
