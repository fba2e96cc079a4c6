"""Sets of classes that the row loops give, a bit a class."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import BoolArray, IntArray

BITS = 64
"""Classes in a word; as in native/learning.c."""


def no_sets(count: int, classes: int) -> IntArray:
    """Return empty sets of at most so many classes for `count` rows, (count, W), W >= 1."""
    return np.zeros((count, max(1, -(-classes // BITS))), np.int64)


def flags_of(members: IntArray, classes: int) -> BoolArray:
    """Return whether each class is in each set, (n, classes).

    Example:
        >>> flags_of(np.array([[5], [0]]), 3).tolist()
        [[True, False, True], [False, False, False]]
    """
    bits = np.unpackbits(
        np.ascontiguousarray(members, dtype="<i8").view(np.uint8), axis=1, bitorder="little"
    )
    found = np.zeros((len(members), classes), np.bool_)
    known = min(classes, bits.shape[1])
    found[:, :known] = bits[:, :known]
    return found


def sets_of(flags: BoolArray) -> IntArray:
    """Return sets from whether each class is in each, (n, classes): the way back."""
    count, classes = flags.shape
    bits = np.zeros((count, no_sets(0, classes).shape[1] * BITS), np.bool_)
    bits[:, :classes] = flags
    packed = np.packbits(bits, axis=1, bitorder="little")
    return np.ascontiguousarray(packed).view("<i8").astype(np.int64).reshape(count, -1)


def named_flags(members: IntArray, classes: Sequence[str]) -> tuple[BoolArray, list[str]]:
    """Return whether each class is in each set, (n, C), and the classes, by the alphabet."""
    order = sorted(range(len(classes)), key=classes.__getitem__)
    return flags_of(members, len(classes))[:, order], [classes[place] for place in order]


def of_sets(members: IntArray, codes: IntArray) -> npt.NDArray[np.float64]:
    """Return whether each set holds its row's label, and how many classes it has, (n, 2).

    Args:
        members: The sets.
        codes: (n,) places of the labels' classes; below 0, or that of a class which was not known:
            held by none.
    """
    flags = flags_of(members, members.shape[1] * BITS)
    inside = (codes >= 0) & (codes < flags.shape[1])
    right = np.zeros(len(codes))
    rows = np.flatnonzero(inside)
    right[rows] = flags[rows, codes[rows]]
    return np.column_stack([right, flags.sum(axis=1).astype(np.float64)])


def moved(members: IntArray, places: IntArray) -> IntArray:
    """Return sets of C classes with class c at another place, `places` (C,)."""
    flags = np.zeros((len(members), int(places.max(initial=-1)) + 1), np.bool_)
    flags[:, places] = flags_of(members, len(places))
    return sets_of(flags)


def joined(parts: Sequence[IntArray]) -> IntArray:
    """Return sets one behind the other, where there may be more classes in later ones."""
    width = max(part.shape[1] for part in parts)
    return np.concatenate([np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in parts])
