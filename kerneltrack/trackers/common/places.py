"""Where the arrays of many states lie: as the compiled loops that run a block of models take them.

A state is a block of bytes, its arrays one after the other; many are the rows of one table. What
lies where is worked out for all of them at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import accumulate, chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.errors import ConfigError
from kerneltrack.limits import Like
from kerneltrack.native.binding import address

IntArray = npt.NDArray[np.int64]


class Places(NamedTuple):
    """Where the arrays of a state lie in one block of bytes.

    Attributes:
        likes: What each array is like, by name, in order.
        offsets: Where each begins, in bytes.
        size: Bytes of all.
        structure: (words,) the arrays as the loops take them, address and lengths of each, where
            the block begins at 0.
        addressed: (words,) 1 where a word is an address, else 0.
    """

    likes: Mapping[str, Like]
    offsets: dict[str, int]
    size: int
    structure: IntArray
    addressed: IntArray

    @classmethod
    def of(cls, likes: Mapping[str, Like]) -> Places:
        """Return the places of such arrays, one after the other."""
        ends = list(accumulate(map(_bytes_of, likes.values()), initial=0))
        offsets = dict(zip(likes, ends[:-1], strict=True))
        words = [(offsets[name], *like.shape) for name, like in likes.items()]
        addressed = [(1, *(0 for _ in like.shape)) for like in likes.values()]
        return cls(
            likes,
            offsets,
            ends[-1],
            np.array([*chain(*words)], np.int64),
            np.array([*chain(*addressed)], np.int64),
        )

    def column(self, blocks: npt.NDArray[np.uint8], name: str) -> npt.NDArray[Any]:
        """Return an array of all of (m, size) blocks, (m, ...), in place."""
        like, begin = self.likes[name], self.offsets[name]
        part = blocks[:, begin : begin + _bytes_of(like)].view(like.dtype)
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

    def first(self, blocks: npt.NDArray[np.uint8]) -> list[npt.NDArray[Any]]:
        """Return the arrays of the first of (m, size) blocks, in place."""
        likes = zip(self.likes.values(), self.offsets.values(), strict=True)
        return [np.ndarray(like.shape, like.dtype, blocks, begin) for like, begin in likes]

    def structures(self, blocks: npt.NDArray[np.uint8]) -> IntArray:
        """Return (m, size) blocks as the loops take them, a structure each, (m, words)."""
        words: IntArray = (self.structure + address(blocks) * self.addressed)[np.newaxis]
        if len(blocks) == 1:
            return words
        later = np.arange(len(blocks))[:, np.newaxis] * blocks.strides[0]
        return words + later * self.addressed

    def words(self, blocks: npt.NDArray[np.uint8]) -> dict[str, IntArray]:
        """Return address and lengths of each array of (m, size) blocks, (m, 1 + dimensions)."""
        begin = address(blocks) + np.arange(len(blocks)) * blocks.strides[0]
        words = {}
        for name, like in self.likes.items():
            part = np.empty((len(blocks), 1 + len(like.shape)), np.int64)
            part[:, 0] = begin + self.offsets[name]
            part[:, 1:] = like.shape
            words[name] = part
        return words


def side_by_side(bodies: list[bytes], size: int) -> npt.NDArray[np.uint8]:
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
    words[:, 2:] = array.shape[1:]
    return words


def words_of_each(column: npt.NDArray[Any]) -> IntArray:
    """Return address and lengths of each model's array in a column, (m, 1 + dimensions)."""
    words = np.empty((len(column), column.ndim), np.int64)
    words[:, 0] = address(column) + np.arange(len(column)) * column.strides[0]
    words[:, 1:] = column.shape[1:]
    return words


def _bytes_of(like: Like) -> int:
    return math.prod(like.shape) * np.dtype(like.dtype).itemsize
