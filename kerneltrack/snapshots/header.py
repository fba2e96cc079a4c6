"""What a snapshot's header says of its model: written here and read here, by all.

Text of JSON whose keys are sorted, so that equal models have equal bytes. What is the same for all
models of a job, the settings, is written once.
"""

from __future__ import annotations

import json
from bisect import bisect
from collections.abc import Mapping
from json.encoder import encode_basestring_ascii as quoted
from typing import Any, NamedTuple

from kerneltrack import codec
from kerneltrack.errors import DataError
from kerneltrack.limits import MOST, MOST_GIVEN, TIME_LIMIT

LAST_TIME = 2**63 - 1


class About(NamedTuple):
    """What a header says of every model.

    Attributes:
        model_id: The model.
        rows: Index of its next row.
        time: Time of its newest row, ns; None without times.
        until: All rows before this time, ns, were learned from; None without times, and of a
            learner.
        before: Rows of this model ID before the tracker's first; see `fleet.model.Model`.
    """

    model_id: str
    rows: int
    time: int | None
    until: int | None = None
    before: int = 0


class AboutWriter:
    """Writes what headers of trackers say of models whose settings are the same.

    Args:
        settings: Of what works along with a tracker, as plain values by name.

    Example:
        >>> AboutWriter().tracker(About("m", 3, None), final=True)
        '{"final": true, "model_id": "m", "rows": 3, "time": null, "until": null}'
    """

    def __init__(self, settings: Mapping[str, Any] | None = None) -> None:
        before = [""] * (len(_TRACKER_S) + 1)
        for name, values in sorted((settings or {}).items()):
            text = json.dumps(values, sort_keys=True)
            before[bisect(_TRACKER_S, name)] += f'"{name}": {text}, '
        last = before.pop()
        self._before = tuple(before)
        self._last = f", {last}".removesuffix(", ")

    def tracker(self, about: About, final: bool, origin: str = "") -> str:
        """Return what a tracker's header says of its model.

        Args:
            about: What is known of the model.
            final: Whether its input has ended.
            origin: Where its reference was given; "": it is its own.
        """
        key, rows, last, end, before = about
        time, until = "null" if last is None else last, "null" if end is None else end
        first = f'"before": {before}, ' if before else ""
        given = f'"reference_from": {quoted(origin)}, ' if origin else ""
        # By name, with the settings that come before each; `json.dumps` takes five times as long.
        a, b, c, d, e, f, g = self._before
        return (
            f'{{{a}{first}{b}"final": {"true" if final else "false"}, {c}"model_id": {quoted(key)}'
            f', {d}{given}{e}"rows": {rows}, {f}"time": {time}, {g}"until": {until}{self._last}}}'
        )


def learner_about(about: About, final: bool, more: Mapping[str, Any] | None = None) -> str:
    """Return what a learner's header says of its model.

    Args:
        about: What is known of the model; `until` and `before` are the tracker's.
        final: Whether its input has ended.
        more: What else stands there.
    """
    fields = {"model_id": about.model_id, "rows": about.rows, "time": about.time, "final": final}
    return json.dumps({**fields, **(more or {})}, sort_keys=True)


_TRACKER_S = ("before", "final", "model_id", "reference_from", "rows", "time", "until")


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
