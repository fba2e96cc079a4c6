"""The report's page: its data block and the parts that need no script."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np

from pipelines.report.data.alerts import Alerts, alerts_data, alerts_section
from pipelines.report.data.choice import Choice
from pipelines.report.data.curves import Curve
from pipelines.report.data.failures import FailureKind
from pipelines.report.data.learning import Learning
from pipelines.report.data.mismatch import Mismatch
from pipelines.report.data.totals import Floats, Totals
from pipelines.report.page.learning_section import learning_data, learning_figures, learning_section
from pipelines.report.page.mismatch_section import mismatch_data, mismatch_figures, mismatch_section
from pipelines.report.page.pack import json_block, number, numbers, packed_curve
from pipelines.report.page.summary import (
    failure_section,
    has_failed,
    label_section,
    overview_section,
    provenance_section,
    summary_section,
    target_rate,
    title_of,
)
from pipelines.report.page.tables import table_frame

_SCRIPTS = (
    "uPlot.iife.min.js",
    "report_data.js",
    "report_charts.js",
    "report_mismatch.js",
    "report_learning.js",
    "report_view.js",
    "report_table.js",
    "report_tables.js",
)
_STYLES = ("uPlot.min.css", "report.css")


@dataclass(frozen=True)
class ShownModel:
    """A line of the table of models; means and quantiles of the loss are NaN without rows."""

    name: str
    rows: int
    mean: float
    sd: float
    last_half: float
    high: float
    fates: Mapping[str, int]
    spark: Floats


@dataclass(frozen=True)
class Report:
    """Everything that the page shows; what a run has none of is None."""

    run: Mapping[str, Any]
    totals: Totals
    timed: bool
    labelled: bool
    curves: Mapping[str, Curve]
    shown: Sequence[ShownModel]
    choice: Choice
    mismatch: Mismatch | None
    learning: Learning | None
    alerts: Alerts | None
    failures: Sequence[FailureKind]


def render_page(report: Report) -> str:
    """Return the page: HTML with its styles, scripts and data inside, and nothing fetched.

    Texts of the data (model ids, labels, reasons, paths) reach the page escaped, in HTML or in
    the JSON block, and the scripts set them as text only.
    """
    run, totals = report.run, report.totals
    title = title_of(run)
    failures, failed = failure_section(report.failures), has_failed(run, totals)
    parts = {
        "title": escape(f"{title} · kerneltrack"),
        "style": "\n".join(_asset(name) for name in _STYLES),
        "summary": summary_section(run, totals),
        "failures_first": failures if failed else "",
        "mismatch_figures": mismatch_figures(report.mismatch),
        "learning_figures": learning_figures(report.learning, report.choice),
        "labels": label_section(totals) if report.labelled else "",
        "overview": overview_section(totals, len(report.shown), len(report.curves)),
        "models": table_frame("models"),
        "learning": learning_section(report.learning),
        "mismatch": mismatch_section(report.mismatch),
        "alerts": alerts_section(report.alerts),
        "failures": "" if failed else failures,
        "provenance": provenance_section(run),
        "data": json_block(_page_data(report)),
        "scripts": "\n".join(f"<script>\n{_asset(name)}\n</script>" for name in _SCRIPTS),
    }
    return Template(_asset("report.html")).substitute(parts)


def _page_data(report: Report) -> dict[str, Any]:
    totals = report.totals
    names = totals.labels.names()
    return {
        "timed": report.timed,
        "labels": [] if totals.labels.is_target else names,
        "swatches": _swatches(totals),
        "admission": target_rate(report.run),
        "curves": [_curve_data(report, name) for name in report.curves],
        "table": _table_data(report),
        "mismatch": mismatch_data(report.mismatch, report.choice.shown),
        "learning": learning_data(report.learning, report.choice),
        "alerts": alerts_data(report.alerts, report.choice),
    }


def _swatches(totals: Totals) -> list[int]:
    """Number the labels by their rows, most first: the page has so many colours and no more."""
    count = len(totals.labels.names())
    rows = np.zeros(count, dtype=np.int64)
    rows[: len(totals.by_label.n)] = totals.by_label.n[:count]
    swatches = np.empty(count, dtype=np.int64)
    swatches[np.argsort(-rows, kind="stable")] = np.arange(count)
    return [int(swatch) for swatch in swatches]


def _curve_data(report: Report, name: str) -> dict[str, Any]:
    curve, totals = report.curves[name], report.totals
    code = totals.models[name]
    regimes = None
    if curve.regimes is not None:
        regimes = [[r.label, r.first, r.stop, r.start, r.end] for r in curve.regimes]
    return {
        "id": name,
        "rows": int(totals.rows[code]),
        "mean": number(totals.means()[code]),
        "start": None if curve.start is None else curve.start / 1e6,
        "gaps": curve.gaps,
        "covered": number(curve.covered),
        "labelChanges": curve.label_changes,
        "regimes": regimes,
        "loss": packed_curve(curve.loss),
        "rates": packed_curve(curve.rates),
    }


def _table_data(report: Report) -> dict[str, Any]:
    shown = report.shown
    return {
        "id": [model.name for model in shown],
        "rows": [model.rows for model in shown],
        "mean": numbers(model.mean for model in shown),
        "sd": numbers(model.sd for model in shown),
        "half": numbers(model.last_half for model in shown),
        "high": numbers(model.high for model in shown),
        "censored": [number(model.fates["censored"] / model.rows) for model in shown],
        "evicted": [number(model.fates["evicted"] / model.rows) for model in shown],
        "dropped": [_share(model.fates["dropped"], model.fates["evicted"]) for model in shown],
        "spark": base64.b64encode(b"".join(_spark(model.spark) for model in shown)).decode(),
    }


def _spark(values: Floats) -> bytes:
    """Return heights 0..254 of a small curve on its own scale from zero, 255 where it breaks."""
    known = np.isfinite(values)
    top = float(np.max(values, initial=0.0, where=known))
    scaled = np.where(known, values, 0.0) * (254 / top if top > 0 else 0.0)
    return np.where(known, np.round(scaled), 255).astype(np.uint8).tobytes()


def _share(part: int, whole: int) -> float | None:
    return number(part / whole) if whole else None


def _asset(name: str) -> str:
    return files("pipelines.report").joinpath("assets", name).read_text(encoding="utf-8")
