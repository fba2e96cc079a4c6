"""What a run says of local times that the clock showed twice, or never."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transforms.read.columns import Columns
from transforms.read.local_times import LocalTimes

KEY = "local_times"


def local_times(columns: Columns, rows: LocalTimes, labels: LocalTimes | None = None) -> Any:
    """Return what the record says, or nothing where no time is local.

    Args:
        columns: What each column is, and how times are read.
        rows: How many rows were in doubt.
        labels: How many labels were, that come from files of their own.
    """
    options = columns.options
    if columns.time is None or options.time_zone == "UTC":
        return {}
    found = {
        "zone": options.time_zone,
        "ambiguous": options.time_ambiguous,
        "nonexistent": options.time_nonexistent,
        "rows": rows._asdict(),
    }
    if labels is not None:
        found["labels"] = labels._asdict()
    return {KEY: found}


def counted(totals: Mapping[str, int], counted_as: str = "rows") -> LocalTimes:
    """Take them out of a pipeline's counters."""
    return LocalTimes(*(totals.get(f"{counted_as}_{name}", 0) for name in LocalTimes._fields))


def local_times_text(record: Mapping[str, Any]) -> str:
    """Return how many local times were in doubt and what was done, each line after a line end."""
    found = record.get(KEY)
    text = ""
    for what in ("rows", "labels"):
        if found is None or what not in found:
            continue
        counts = LocalTimes(**found[what])
        if counts.ambiguous:
            done = _AMBIGUOUS[found["ambiguous"]].format(
                resolved=counts.ambiguous - counts.ambiguous_failed, failed=counts.ambiguous_failed
            )
            text += f"\n{_of(counts.ambiguous, what)} comes twice in {found['zone']}: {done}"
        if counts.nonexistent:
            done = _NONEXISTENT[found["nonexistent"]]
            text += f"\n{_of(counts.nonexistent, what)} does not exist in {found['zone']}: {done}"
    return text


def _of(amount: int, what: str) -> str:
    return f"{amount:,} {what if amount > 1 else what[:-1]} with a local time that"


_AMBIGUOUS = {
    "fail": "failed (--time-ambiguous says which is meant)",
    "earliest": "taken as the first",
    "latest": "taken as the second",
    "infer": "{resolved:,} resolved by the order of rows, {failed:,} failed",
}
_NONEXISTENT = {
    "fail": "failed (--time-nonexistent shift takes them)",
    "shift": "moved to the end of the gap",
}
