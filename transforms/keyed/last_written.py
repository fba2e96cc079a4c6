"""Values of keys as they were last written into state: bytes that come back need not be decoded."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

MOST_KEPT = 32 << 20

_T = TypeVar("_T")


class LastWritten(Generic[_T]):
    """What was last written of each key, beside its bytes: these say which value it is.

    A value is lent out once: whatever happens to it then, the bytes are decoded the next time
    unless it was written again. Memory: at most `MOST_KEPT` bytes of encoded values, and about as
    much for the values themselves.

    Args:
        encode: Writes the value of a key as bytes.
        decode: Reads it back; what is read may be changed.
    """

    def __init__(
        self, encode: Callable[[str, _T], bytes], decode: Callable[[str, bytes], _T]
    ) -> None:
        self._encode = encode
        self._decode = decode
        self._values: OrderedDict[str, tuple[bytes, _T]] = OrderedDict()
        self._size = 0

    def take(self, key: str, data: bytes) -> _T:
        """Return the value of these bytes; errors as of `decode`."""
        found = self._forget(key)
        if found is not None and found[0] == data:
            return found[1]
        return self._decode(key, data)

    def put(self, key: str, value: _T) -> bytes:
        """Return a value as bytes, and keep it."""
        data = self._encode(key, value)
        self._forget(key)
        self._values[key] = data, value
        self._size += len(data)
        while self._size > MOST_KEPT:
            self._forget(next(iter(self._values)))
        return data

    def _forget(self, key: str) -> tuple[bytes, _T] | None:
        found = self._values.pop(key, None)
        if found is not None:
            self._size -= len(found[0])
        return found
