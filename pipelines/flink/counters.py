"""What a live job has counted since it was last started: asked from Flink, and in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from pipelines.calls import Calls
from pipelines.flink.client import Flink
from transforms.metrics import CALLS, MODELS_CALLED
from transforms.outputs import OUTPUTS

PREFIX = "kerneltrack_"
MILLISECONDS = 1000.0

ROWS = (
    "rows_read",
    "rows_tracked",
    "rows_late",
    "rows_failed",
    "dead_letters",
)
"""Counters that are shown of every job."""

OTHERS = {
    "rows_learned_before": "left out since the snapshots know them",
    "rows_duplicate": "duplicates left out",
    "rows_merged": "merged into another row of their time",
    "rows_unnamed": "of metrics that are no features",
    "values_replaced": "values that came again for their time",
    "rows_without_mode": "of modes without a place, which have no p",
    "rows_idle": "do not meet --only-while, and are not judged",
    "rows_unconfirmed": "wait for others to confirm their time",
    "rows_ambiguous": "with a local time that comes twice",
    "rows_nonexistent": "with one that does not exist",
    **{output.counter: output.counter for output in OUTPUTS if output.alarm},
    "episodes_muted": "muted by rules or feedback when they were noticed",
    "episodes_learned": "false ones whose rows became normal",
    "labels_read": "labels read",
    "labels_failed": "labels refused",
    "labels_lost": "labels that no row took",
}
"""Counters that are shown once there is something to show, in words."""

LAGS = "lag_milliseconds"
KNOWN = (*ROWS, *OTHERS, LAGS, CALLS, MODELS_CALLED)


def counters(flink: Flink, job: str) -> Counter[str]:
    """Return the job's counters, as far as Flink knows them; a restart sets them back to 0.

    Raises:
        FlinkError: if it does not answer.
    """
    totals: Counter[str] = Counter()
    for vertex in flink.ask(f"/jobs/{job}")["vertices"]:
        path = f"/jobs/{job}/vertices/{vertex['id']}/subtasks/metrics"
        names = [entry["id"] for entry in flink.ask(path)]
        wanted = [name for name in names if name.rpartition(f".{PREFIX}")[2] in KNOWN]
        if wanted:
            found = flink.ask(f"{path}?get={quote(','.join(wanted))}")
            for entry in found:
                totals[entry["id"].rpartition(f".{PREFIX}")[2]] += int(entry["sum"])
    return totals


def waiting(totals: Mapping[str, int]) -> int:
    """Return how many of the rows read wait: for earlier ones, or for their model's warm-up.

    After a restart those that waited before it are not counted.

    Example:
        >>> waiting({"rows_read": 100, "rows_tracked": 60, "rows_late": 1, "rows_failed": 2})
        37
    """
    gone = (
        *("rows_tracked", "rows_late", "rows_failed", "rows_learned_before", "rows_duplicate"),
        *("rows_merged", "rows_unnamed"),
    )
    return max(totals.get("rows_read", 0) - sum(totals.get(name, 0) for name in gone), 0)


def mean_lag(totals: Mapping[str, int]) -> float | None:
    """Return how many seconds after they happened rows were tracked, on the average."""
    tracked = totals.get("rows_tracked", 0)
    return totals.get(LAGS, 0) / tracked / MILLISECONDS if tracked else None


def shown(totals: Mapping[str, int]) -> dict[str, Any]:
    """Return counters as `kerneltrack cluster status --json` has them."""
    found: dict[str, Any] = {name: totals.get(name, 0) for name in ROWS}
    lag, calls = mean_lag(totals), Calls.of(totals)
    found |= {"rows_waiting": waiting(totals), "mean_lag": None if lag is None else round(lag, 3)}
    if calls is not None:
        found["calls"] = calls._asdict()
    return found | {name: totals[name] for name in OTHERS if totals.get(name, 0) > 0}


def describe(found: Mapping[str, Any]) -> str:
    """Write what `shown` returned in words."""
    lag = found["mean_lag"]
    lines = [
        f"{found['rows_read']:,} rows read",
        f"{found['rows_tracked']:,} tracked",
        f"{found['rows_waiting']:,} wait",
        f"{found['rows_late']:,} late",
        f"{found['rows_failed']:,} failed",
        f"{found['dead_letters']:,} dead letters",
        f"mean lag {'-' if lag is None else f'{lag:,.1f} s'}",
    ]
    if "calls" in found:
        lines.append(str(Calls(**found["calls"])))
    return ", ".join([*lines, *extras(found)])


def extras(totals: Mapping[str, int | float | None], *left_out: str) -> list[str]:
    """Write the counters of `OTHERS` that are not 0."""
    shown_of = (name for name in OTHERS if (totals.get(name) or 0) > 0 and name not in left_out)
    return [counted(totals, name) for name in shown_of]


def counted(totals: Mapping[str, int | float | None], name: str) -> str:
    """Write one of the counters of `OTHERS`.

    Example:
        >>> counted({"episodes": 1}, "episodes"), counted({}, "alerts")
        ('1 episode', '0 alerts')
    """
    number, text = totals.get(name) or 0, OTHERS[name]
    return f"{number:,} {text.removesuffix('s') if number == 1 and text == name else text}"
