"""Where the arrays of many states lie: as the compiled loops that run a block of models take them.

A state is a block of bytes, its arrays one after the other; many are the rows of one table. What
lies where is worked out for all of them at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate, chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import IntArray
from kerneltrack.errors import ConfigError
from kerneltrack.limits import ArrayForm
from kerneltrack.native.binding import address


class Places(NamedTuple):
    """Where the arrays of a state lie in one block of bytes.

    Attributes:
        likes: What each array is like, by name, in order.
        offsets: Where each begins, in bytes.
        size: Bytes of all.
        structure: (words,) the arrays as the loops take them, address and lengths of each, where
            the block begins at 0.
        addressed: (words,) 1 where a word is an address, else 0.
        lengths: Bytes of each array.
        lines: Of each array its shape, type and offset.
    """

    likes: Mapping[str, ArrayForm]
    offsets: dict[str, int]
    size: int
    structure: IntArray
    addressed: IntArray
    lengths: dict[str, int]
    lines: tuple[tuple[tuple[int, ...], np.dtype[Any], int], ...]

    @classmethod
    def of(cls, likes: Mapping[str, ArrayForm]) -> Places:
        """Return the places of such arrays, one after the other."""
        lengths = {
            name: math.prod(like.shape) * np.dtype(like.dtype).itemsize
            for name, like in likes.items()
        }
        ends = list(accumulate(lengths.values(), initial=0))
        offsets = dict(zip(likes, ends[:-1], strict=True))
        words = [(offsets[name], *like.shape) for name, like in likes.items()]
        addressed = [(1, *(0 for _ in like.shape)) for like in likes.values()]
        return cls(
            likes,
            offsets,
            ends[-1],
            np.array([*chain(*words)], np.int64),
            np.array([*chain(*addressed)], np.int64),
            lengths,
            tuple((like.shape, np.dtype(like.dtype), offsets[n]) for n, like in likes.items()),
        )

    def column(self, blocks: npt.NDArray[np.uint8], name: str) -> npt.NDArray[Any]:
        """Return an array of all of (m, size) blocks, (m, ...), in place."""
        like, begin = self.likes[name], self.offsets[name]
        part = blocks[:, begin : begin + self.lengths[name]].view(like.dtype)
        return part.reshape(len(blocks), *like.shape)

    def arrays(self, body: bytes) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays of one block, to be read only.

        Raises:
            ConfigError: for one of another length.
        """
        if len(body) != self.size:
            raise ConfigError("state", f"{len(body)} bytes", f"{self.size}")
        blocks = np.frombuffer(body, np.uint8)[np.newaxis]
        return {name: self.column(blocks, name)[0] for name in self.likes}

    def columns(self, blocks: npt.NDArray[np.uint8]) -> dict[str, npt.NDArray[Any]]:
        """Return all arrays of (m, size) blocks by name, (m, ...), in place."""
        return {name: self.column(blocks, name) for name in self.likes}

    def one(self, blocks: npt.NDArray[np.uint8], model: int) -> list[npt.NDArray[Any]]:
        """Return the arrays of one of (m, size) blocks, in place."""
        block = blocks[model]
        return [np.ndarray(shape, kind, block, begin) for shape, kind, begin in self.lines]

    def structures(self, blocks: npt.NDArray[np.uint8], models: IntArray | None = None) -> IntArray:
        """Return (m, size) blocks as the loops take them, a structure each, (k, words).

        Args:
            blocks: The blocks.
            models: (k,) places of those that are meant; None: all, k = m.
        """
        words: IntArray = (self.structure + address(blocks) * self.addressed)[np.newaxis]
        if len(blocks) == 1 and models is None:
            return words
        places = np.arange(len(blocks)) if models is None else models
        return words + (places * blocks.strides[0])[:, np.newaxis] * self.addressed


class Lanes(NamedTuple):
    """Where arrays of as many rows each lie, one after the other in one block of bytes.

    Attributes:
        kinds: Shape and type of a row of each.
        before: Bytes that a row takes in the arrays before each.
        size: In all of them.
        words: (words,) the arrays as the loops take them, address and lengths of each, but for the
            addresses and numbers of rows.
        terms: (4, words) what is to be added for the address of the block, the rows in it, a
            model's first row, and the number of its rows, each times one of these: 1 where a word
            is an address, `before` there, bytes of an array's row there, and 1 where a word is a
            number of rows; else 0.
    """

    kinds: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]
    before: tuple[int, ...]
    size: int
    words: IntArray
    terms: IntArray

    @classmethod
    def of(cls, arrays: Sequence[npt.NDArray[Any]]) -> Lanes:
        """Return the places of arrays like these, but for the number of rows."""
        lengths = [array[:1].nbytes for array in arrays]
        # Whole words come first, so that all lie where their types ask for.
        order = sorted(range(len(arrays)), key=lambda at: lengths[at] % 8 != 0)
        ends = accumulate((lengths[at] for at in order), initial=0)
        before = dict(zip(order, ends, strict=False))
        kinds = tuple((array.shape[1:], array.dtype) for array in arrays)
        begins = tuple(before[at] for at in range(len(arrays)))

        def words_of(first: Sequence[int], second: int, rest: bool) -> IntArray:
            parts = zip(first, kinds, strict=True)
            found = [(one, second, *(n * rest for n in shape)) for one, (shape, _) in parts]
            return np.array([*chain(*found)], np.int64)

        none, ones = [0] * len(arrays), [1] * len(arrays)
        return cls(
            kinds,
            begins,
            sum(lengths),
            words_of(none, 0, True),
            np.stack(
                [
                    words_of(ones, 0, False),
                    words_of(begins, 0, False),
                    words_of(lengths, 0, False),
                    words_of(none, 1, False),
                ]
            ),
        )

    def room(self, rows: int) -> npt.NDArray[np.uint8]:
        """Return room for so many rows of all arrays: zeros."""
        return np.zeros(rows * self.size, np.uint8)

    def arrays(self, room: npt.NDArray[Any], rows: int) -> list[npt.NDArray[Any]]:
        """Return the arrays of so many rows, in place."""
        return [
            np.ndarray((rows, *shape), kind, room, rows * before)
            for (shape, kind), before in zip(self.kinds, self.before, strict=True)
        ]

    def spans(
        self, room: npt.NDArray[Any], rows: int, starts: IntArray, stops: IntArray
    ) -> IntArray:
        """Return address and lengths of each model's rows of all arrays, (m, words).

        Args:
            room: Where the arrays are.
            rows: Of each.
            starts: (m,) place of each model's first row.
            stops: (m,) place after its last.
        """
        # One product, where an operation a term would cost more than the loop does of few rows.
        given = np.empty((len(starts), 4), np.int64)
        given[:, 0], given[:, 1] = address(room), rows
        given[:, 2], given[:, 3] = starts, stops - starts
        words: IntArray = given @ self.terms
        words += self.words
        return words


def side_by_side(bodies: Sequence[bytes], size: int) -> npt.NDArray[np.uint8]:
    """Return copies of blocks of so many bytes, (m, size), to be written to."""
    return np.frombuffer(bytearray().join(bodies), np.uint8).reshape(len(bodies), size)


def spans(array: npt.NDArray[Any], starts: IntArray, stops: IntArray) -> IntArray:
    """Return address and lengths of each model's rows of an array, (m, 1 + dimensions).

    Args:
        array: (n, ...), or without rows: then of every model.
        starts: (m,) place of each one's first row.
        stops: (m,) place after its last.
    """
    words = np.empty((len(starts), 1 + array.ndim), np.int64)
    if not array.size:
        words[:, 0], words[:, 1:] = address(array), array.shape
        return words
    words[:, 0] = address(array) + starts * array.strides[0]
    words[:, 1] = stops - starts
    if array.ndim > 1:
        words[:, 2:] = array.shape[1:]
    return words


def words_of_each(column: npt.NDArray[Any]) -> IntArray:
    """Return address and lengths of each model's array in a column, (m, 1 + dimensions)."""
    words = np.empty((len(column), column.ndim), np.int64)
    words[:, 0] = address(column) + np.arange(len(column)) * column.strides[0]
    words[:, 1:] = column.shape[1:]
    return words
