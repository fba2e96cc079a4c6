"""The head of the page, and what its small tables hold: labels, the histogram, provenance."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from kerneltrack.arrays import FloatArray
from pipelines.report.clock import clock_of, ns_of
from pipelines.report.data.labels import MOST_CLASSES_OF_TEXT
from pipelines.report.data.totals import Totals
from pipelines.report.text import counted, figure

# With κ(x, x) = 1 the fitting error lies between 0 and 1.
_BOUNDED_KERNELS = ("gaussian", "laplacian")
_MOST_LABELS = 60
_MOST_INPUTS = 20
_MOST_FEATURES = 24
_HISTOGRAM_FROM = 30
_HISTOGRAM_BINS = 48
_ADMISSIONS = {
    "fixed": "those with an error above a threshold",
    "moving": "those with an error above the recent mean",
    "rate": "those with the largest errors",
    "leverage": "at random, more often with larger errors",
}
"""How the admissions of the covariance tracker choose rows."""
_FROZEN_SHARE = 0.9
_FROZEN_EVICTIONS = 100


def title_of(run: Mapping[str, Any]) -> str:
    """Return what was run over, in a few words."""
    inputs = [str(item.get("path", "")) for item in run.get("inputs") or []]
    if not inputs:
        return "A run without input"
    name = PurePosixPath(inputs[0]).name or inputs[0]
    if len(inputs) == 1:
        return name
    return f"{name} and {counted(len(inputs) - 1, 'more file')}"


def head(run: Mapping[str, Any], totals: Totals) -> dict[str, Any]:
    """Return the figures of the head of the page; those of FATES are counts of rows."""
    fates = {name: int(total.sum()) for name, total in totals.counts.sums.items()}
    rows, spec, seconds = _rows(totals), _spec(run), run.get("seconds") or {}
    measured, mean, sd = totals.loss.together()
    kernel = spec.get("kernel")
    if isinstance(kernel, Mapping):
        kernel = kernel.get("name", kernel.get("kind"))
    evicted, dropped = fates["evicted"], fates["dropped"]
    return {
        **fates,
        "rows": rows,
        "models": len(totals.models),
        **{key: run.get(key) for key in ("exit_code", "outcome", "max_failures")},
        "tracker": run.get("tracker"),
        "rank": spec.get("rank"),
        "read": _count(run, "rows_in"),
        "late": _count(run, "rows_late"),
        "duplicate": _count(run, "rows_duplicate"),
        "failed": _count(run, "rows_failed"),
        "mended": _count(run, "mended"),
        "directions": _count(run, "directions"),
        "channels": len((run.get("columns") or {}).get("features") or []),
        "started": _when(run.get("started")),
        "until": _until(run),
        # The job writes its report before it knows the total.
        "seconds": seconds.get("total") or sum(seconds.values()),
        "measured": measured,
        "mean": mean,
        "sd": sd,
        "bounded": kernel in _BOUNDED_KERNELS,
        "admission": _ADMISSIONS.get(str(spec.get("admission", ""))),
        "admitted": rows - fates["censored"],
        "target": target_rate(run),
        "is_frozen": evicted >= _FROZEN_EVICTIONS and dropped >= _FROZEN_SHARE * evicted,
    }


def target_rate(run: Mapping[str, Any]) -> float | None:
    """Return the share of the rows that the tracker should admit, None if none was set."""
    spec = _spec(run)
    if spec.get("admission") not in ("rate", "leverage"):
        return None
    return float(spec.get("admission_rate") or 0.0)


def has_failed(run: Mapping[str, Any], totals: Totals) -> bool:
    """Return whether a run's failures are what is to be seen first."""
    return bool(run.get("exit_code")) or (not _rows(totals) and _count(run, "rows_failed") > 0)


def models_without(run: Mapping[str, Any]) -> int:
    """Return how many models were held against no reference."""
    return _count(run, "models_without_reference")


def labels_shown(totals: Totals) -> dict[str, Any]:
    """Return the fitting error by label: name, rows, mean and sd over the rows of all models."""
    names, moments = ["no label", *totals.labels.names()], totals.by_label
    columns = moments.n.tolist(), moments.mean.tolist(), moments.sd().tolist()
    # Without a label column there are no moments.
    unlabelled, *found = (
        zip(names, *columns, strict=False) if len(moments.n) else [("", 0, 0.0, 0.0)]
    )
    lines = sorted((line for line in found if line[1]), key=lambda line: -line[1])[:_MOST_LABELS]
    if len(lines) < _MOST_LABELS:
        lines.sort(key=lambda line: line[2])
    lines += [unlabelled] if unlabelled[1] else []
    return {
        "lines": lines,
        "rows": sum(rows for _, rows, _, _ in lines),
        "top": max((mean + spread for _, _, mean, spread in lines), default=0.0) or 1.0,
        "labels": len(names) - 1,
        "most": _MOST_LABELS,
        "known": MOST_CLASSES_OF_TEXT,
    }


def histogram(means: FloatArray) -> dict[str, Any] | None:
    """Return the bars of a histogram of the models' means; None of fewer than 30 models."""
    means = means[np.isfinite(means)]
    if len(means) < _HISTOGRAM_FROM:
        return None
    counts, edges = np.histogram(means, bins=_HISTOGRAM_BINS)
    return {
        "models": len(means),
        "median": float(np.median(means)),
        "top": int(counts.max()),
        "bars": list(zip(counts.tolist(), edges[:-1], edges[1:], strict=True)),
    }


def provenance(run: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return how the run can be recognised and repeated, in lists with a title each."""
    columns = run.get("columns") or {}
    roles = {key: value for key, value in columns.items() if key != "features" and value}
    features = [str(name) for name in columns.get("features") or []]
    more = len(features) - _MOST_FEATURES
    roles[f"features ({len(features)})"] = ", ".join(features[:_MOST_FEATURES]) + (
        f" and {more:,} more" if more > 0 else ""
    )
    inputs = run.get("inputs") or []
    if len(inputs) == 1 and inputs[0].get("rows") is None:
        # A text does not say how many rows it has before it is read.
        inputs = [{**inputs[0], "rows": (run.get("counts") or {}).get("rows_in")}]
    paths = {str(i.get("path", "")): _rows_in_words(i.get("rows")) for i in inputs}
    shown = dict(list(paths.items())[:_MOST_INPUTS])
    if len(paths) > len(shown):
        shown["…"] = counted(len(paths) - len(shown), "more file")
    timing = {key: f"{figure(value)} s" for key, value in _flat(run.get("seconds") or {}).items()}
    versions = {"kerneltrack": run.get("kerneltrack"), **(run.get("versions") or {})}
    return {
        "Spec": {"tracker": run.get("tracker"), **_flat(_spec(run))},
        "Columns": roles,
        "Inputs": shown,
        "Counts": run.get("counts") or {},
        "Time": {"started": str(run.get("started", "–")), **timing},
        "Versions": {**versions, "runner": run.get("runner")},
    }


def plain(value: object) -> str:
    """Return a value of `run.json` as text."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _flat(items: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in items.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _until(run: Mapping[str, Any]) -> str:
    """Return the time of a run's last row by the site's clock; "" where that is not known.

    Where a clock is wrong by years, its last row is no end.
    """
    span = run.get("time_span")
    return "" if not span or span["far"] else clock_of(run).named(ns_of(span["last"]))


def _when(started: object) -> str:
    try:
        moment = datetime.fromisoformat(str(started).replace("Z", "+00:00"))
    except ValueError:
        return ""
    return f"{moment.day} {moment:%B %Y, %H:%M} UTC"


def _rows_in_words(rows: int | None) -> str:
    return "rows not counted" if rows is None else counted(int(rows), "row")


def _rows(totals: Totals) -> int:
    return int(totals.counts.rows.sum())


def _spec(run: Mapping[str, Any]) -> Mapping[str, Any]:
    spec = run.get("spec")
    return spec if isinstance(spec, Mapping) else {}


def _count(run: Mapping[str, Any], name: str) -> int:
    return int((run.get("counts") or {}).get(name) or 0)
