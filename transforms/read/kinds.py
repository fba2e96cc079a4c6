"""Kinds of Arrow types, and texts out of arrays that may hold anything."""

from __future__ import annotations

from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_SMALL = (pa.bool_(), pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.float16(), pa.float32())


def value_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of a column's values, dictionary-encoded or not."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_number(kind: pa.DataType) -> bool:
    """Check whether values are numbers; true and false count as 1 and 0."""
    return any(
        check(kind)
        for check in (
            pa.types.is_integer,
            pa.types.is_floating,
            pa.types.is_boolean,
            pa.types.is_decimal,
        )
    )


def is_text(kind: pa.DataType) -> bool:
    """Check whether values are texts, or bytes that may be some."""
    return any(
        check(kind)
        for check in (
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_string_view,
            pa.types.is_binary,
            pa.types.is_large_binary,
        )
    )


def is_feature(kind: pa.DataType) -> bool:
    """Check whether a column can be features: numbers, or fixed-size lists of them."""
    if pa.types.is_fixed_size_list(kind):
        return is_number(kind.value_type) and kind.list_size > 0
    return is_number(value_type(kind))


def is_exact(kind: pa.DataType) -> bool:
    """Check whether float32 holds every value of a feature column's type."""
    kind = value_type(kind)
    return (kind.value_type if pa.types.is_fixed_size_list(kind) else kind) in _SMALL


def is_id(kind: pa.DataType) -> bool:
    """Check whether a column can be model ids."""
    kind = value_type(kind)
    return is_text(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)


def is_time(kind: pa.DataType) -> bool:
    """Check whether a column can be times."""
    kind = value_type(kind)
    moment = pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_duration(kind)
    return moment or is_text(kind) or (is_number(kind) and not pa.types.is_boolean(kind))


def is_time_of_day(kind: pa.DataType) -> bool:
    """Check whether a column can be times of day."""
    kind = value_type(kind)
    number = is_number(kind) and not pa.types.is_boolean(kind)
    return cast(bool, pa.types.is_time(kind) or is_text(kind) or number)


def is_sequence(kind: pa.DataType) -> bool:
    """Check whether a column can be sequence numbers."""
    return cast(bool, pa.types.is_integer(kind) or pa.types.is_floating(kind))


def is_label(kind: pa.DataType) -> bool:
    """Check whether a column can be labels."""
    kind = value_type(kind)
    return is_text(kind) or is_number(kind)


def is_bytes(kind: pa.DataType) -> bool:
    """Check whether values are bytes, as `as_bytes` views texts."""
    return cast(bool, pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def as_bytes(values: pa.Array) -> pa.Array:
    """View texts as bytes: nothing has checked that they are UTF-8."""
    if pa.types.is_string(values.type):
        return values.view(pa.binary())
    if pa.types.is_large_string(values.type):
        return values.view(pa.large_binary())
    return values


def encode(values: pa.Array) -> pa.DictionaryArray:
    """Dictionary-encode a column, unless it is so already."""
    return values if pa.types.is_dictionary(values.type) else values.dictionary_encode()


def codes_of(encoded: pa.DictionaryArray) -> npt.NDArray[np.int64]:
    """Return each row's place in the dictionary; null is the place after the last."""
    # The indices' own type may be too small for that place.
    codes = encoded.indices.cast(pa.int64()).fill_null(len(encoded.dictionary))
    return cast("npt.NDArray[np.int64]", codes.to_numpy(zero_copy_only=False))


def rank_of(codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return how many of the rows before each have its code."""
    order = np.argsort(codes, kind="stable")
    ordered, rank = codes[order], np.empty(len(codes), dtype=np.int64)
    rank[order] = np.arange(len(codes)) - np.searchsorted(ordered, ordered)
    return rank


def texts_of(values: pa.Array) -> list[str | None]:
    """Return values as texts; None for null and for bytes that are not UTF-8."""
    if is_text(values.type):
        return [_decode(value) for value in as_bytes(values).to_pylist()]
    return [None if value is None else str(value) for value in values.to_pylist()]


def _decode(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode("utf-8")
    except UnicodeDecodeError:
        return None


def flat(array: pa.Array) -> npt.NDArray[np.floating]:
    """Return a column of numbers as an array; null becomes NaN."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if (
        pa.types.is_decimal(kind)
        or pa.types.is_null(kind)
        or (array.null_count and not pa.types.is_floating(kind))
    ):
        array = array.cast(pa.float64())
    elif pa.types.is_boolean(kind):
        array = array.cast(pa.uint8())
    result: npt.NDArray[np.floating] = array.to_numpy(zero_copy_only=False)
    return result
