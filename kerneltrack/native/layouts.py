"""Arrays of the structures that cross to C, by their number of dimensions.

A named tuple of these, of numbers and of flags is the one description of its structure: the C
declarations in `layouts.h` are written from them by `python -m tests.layouts`.
"""

from typing import Annotated, TypeAlias

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import BoolArray, FloatArray, IntArray

FloatVector: TypeAlias = Annotated[FloatArray, "vec"]
FloatMatrix: TypeAlias = Annotated[FloatArray, "mat"]
FloatCube: TypeAlias = Annotated[FloatArray, "cube"]
SingleMatrix: TypeAlias = Annotated[npt.NDArray[np.float32], "window"]
IntVector: TypeAlias = Annotated[IntArray, "ints"]
IntMatrix: TypeAlias = Annotated[IntArray, "int_table"]
BoolVector: TypeAlias = Annotated[BoolArray, "flags"]
WordVector: TypeAlias = Annotated[npt.NDArray[np.uint64], "words"]

WORDS = {
    **{"double": 1, "int64_t": 1},
    **{"vec": 2, "ints": 2, "flags": 2, "words": 2},
    **{"mat": 3, "int_table": 3, "window": 3, "cube": 4},
}
"""Members of eight bytes of each type: an array has its address and its lengths."""
