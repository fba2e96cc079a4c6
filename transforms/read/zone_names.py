"""Abbreviations of time zones, such as CET: read by name, never by the machine's own zone."""

from __future__ import annotations

import functools

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_HOURS = {
    **dict.fromkeys(("Z", "UTC", "UT", "GMT", "WET"), 0.0),
    **dict.fromkeys(("WEST", "CET", "MEZ", "MET", "WAT"), 1.0),
    **dict.fromkeys(("CEST", "MESZ", "MEST", "EET", "CAT", "SAST"), 2.0),
    **dict.fromkeys(("EEST", "EAT"), 3.0),
    **{"PKT": 5.0, "WIB": 7.0, "HKT": 8.0, "SGT": 8.0, "AWST": 8.0, "JST": 9.0, "ACST": 9.5},
    **{"AEST": 10.0, "ACDT": 10.5, "AEDT": 11.0, "NZST": 12.0, "NZDT": 13.0},
    **{"EDT": -4.0, "MDT": -6.0, "PDT": -7.0, "AKDT": -8.0, "AKST": -9.0, "HST": -10.0},
}
"""Hours ahead of UTC of the abbreviations that mean one clock alone: none of CST, IST, EST ..."""


def offset_of(name: str, zone: str) -> int | None:
    """Return by how many seconds the clock of an abbreviation is ahead of UTC.

    Args:
        name: The abbreviation, in any case.
        zone: IANA zone that the times are of: its own abbreviations come first.

    Returns:
        None if it is not known, or stands for several clocks and is none of the zone's.
    """
    name = name.upper()
    own = _names_of(zone)
    if name in own:
        return own[name]
    hours = _HOURS.get(name)
    return None if hours is None else round(hours * 3600)


@functools.cache
def _names_of(zone: str) -> dict[str, int | None]:
    """Return the abbreviations that a zone has had since 1970; None: of several clocks."""
    if zone == "UTC":
        return {}
    days = np.arange("1970-01-01", "2037-01-01", 15, dtype="datetime64[D]").astype("M8[s]")
    aware = pa.array(days.astype(np.int64)).cast(pa.timestamp("s", zone))
    names = pc.strftime(aware, "%Z").to_pylist()
    ahead = pc.local_timestamp(aware).cast(pa.int64()).to_numpy() - days.astype(np.int64)
    found: dict[str, int | None] = {}
    for name, seconds in set(zip(names, ahead.tolist(), strict=True)):
        if name.isalpha():
            found[name.upper()] = None if name.upper() in found else seconds
    return found


__all__ = ["offset_of"]
