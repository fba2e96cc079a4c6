"""What a snapshot's header says of its model: read in one place, each value held to its type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kerneltrack import codec
from kerneltrack.errors import DataError
from kerneltrack.limits import MOST, MOST_GIVEN, TIME_LIMIT

LAST_TIME = 2**63 - 1


class About(NamedTuple):
    """What a header says, as `model.encode` and `learning.encode_snapshot` write it.

    Attributes:
        model_id: The model.
        rows: Index of its next row.
        time: Time of its newest row, ns; None without times.
        until: All rows before this time, ns, were learned from; None without times, and of a
            learner.
        before: Rows of this model ID before the tracker's first; see `model.Model`.
    """

    model_id: str
    rows: int
    time: int | None
    until: int | None
    before: int


def read_about(header: Mapping[str, Any], name: str, own: bool = False) -> About:
    """Return what a snapshot's header says of its model.

    Args:
        header: The header, as `codec.read_header` gives it.
        name: Where it came from, for errors.
        own: Whether the job itself wrote it; see `codec.decode`.

    Raises:
        DataError: naming the value that no job would have written.
    """
    about = header.get("about", {})
    most = MOST if own else MOST_GIVEN
    model_id = about.get("model_id")
    if not isinstance(model_id, str):
        raise DataError(name, f"damaged header: model_id = {model_id!r} is no text")
    found = About(
        model_id,
        about.get("rows", -1),
        about.get("time"),
        about.get("until"),
        about.get("before", 0),
    )
    for field, least, last, optional in (
        ("rows", 0, most, False),
        ("time", -TIME_LIMIT, TIME_LIMIT, True),
        ("until", -LAST_TIME, LAST_TIME, True),
        ("before", -most, most, False),
    ):
        value = getattr(found, field)
        if value is None and optional:
            continue
        if type(value) is not int or not least <= value <= last:
            reason = f"{field} = {value!r} is no whole number from {least} to {last}"
            raise DataError(name, f"damaged header: {reason}")
    return found


class PackedState(NamedTuple):
    """One state of a model.

    Attributes:
        model_id: The model.
        kind: "tracker" or "learner".
        rows: Index of its next row.
        time: Time of its newest row, ns; None without times.
        final: Whether the input had ended.
        data: The state's bytes, as `codec` writes them.
    """

    model_id: str
    kind: str
    rows: int
    time: int | None
    final: bool
    data: bytes


def packed_state(data: bytes, model_id: str) -> PackedState:
    """Return a state with what its header says."""
    header = codec.read_header(data, f"state of model {model_id!r}")
    about = header["about"]
    kind = codec.kind_of(header)
    return PackedState(model_id, kind, about["rows"], about["time"], about["final"], data)
