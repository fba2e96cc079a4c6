"""The report's page: HTML with its styles, scripts and data inside, and nothing fetched."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.report.clock import UTC_CLOCK, SiteClock, clock_of
from pipelines.report.data.channels import MOST_CHANNELS
from pipelines.report.data.episodes import early_lines, muted_lines, standing
from pipelines.report.data.incidents import MOST_LISTED as MOST_INCIDENTS
from pipelines.report.data.listed import listed_text
from pipelines.report.data.mixture import weights_in
from pipelines.report.data.neighbours import REASONS
from pipelines.report.data.report import Report
from pipelines.report.data.silent import MOST_LISTED
from pipelines.report.page.answer import answer
from pipelines.report.page.data_block import data_block, in_files
from pipelines.report.page.learning import learning_texts
from pipelines.report.page.summary import (
    has_failed,
    head,
    histogram,
    labels_shown,
    models_without,
    plain,
    provenance,
    title_of,
)
from pipelines.report.text import counted, figure, percent, span
from transforms.outputs import LISTED

if TYPE_CHECKING:
    from jinja2 import Environment

_SCRIPTS = (
    "uPlot.iife.min.js",
    "report_data.js",
    "report_charts.js",
    "report_mismatch.js",
    "report_learning.js",
    "report_channels.js",
    "report_plane.js",
    "report_view.js",
    "report_heat.js",
    "report_table.js",
    "report_tables.js",
)
_STYLES = ("uPlot.min.css", "report.css")


def render_page(report: Report) -> str:
    """Return the page.

    Texts of the data (model ids, labels, reasons, paths) reach it escaped, in HTML or in the JSON
    block, and the scripts set them as text only.
    """
    run, totals = report.run, report.totals
    clock = clock_of(run)
    page = templates(clock).get_template("report.html")
    return page.render(
        title=title_of(run),
        style="\n".join(_asset(name) for name in _STYLES),
        scripts=[_asset(name) for name in _SCRIPTS],
        data=data_block(report),
        in_files=in_files(report),
        opened=len(report.curves) + len(report.further),
        head=head(run, totals),
        totals=totals,
        labelled=report.labelled,
        by_label=labels_shown(totals),
        histogram=histogram(totals.means()),
        shown=len(report.choice.shown),
        drawn=len(report.choice.drawn),
        mismatch=report.mismatch,
        learning=learning_texts(
            report.learning, report.choice, weights_in(run.get("counts") or {})
        ),
        alerts=report.alerts,
        episodes=report.episodes,
        early=early_lines(run),
        standing=standing(report.episodes) if report.episodes is not None else "",
        muted=muted_lines(report.episodes.muted) if report.episodes is not None else [],
        incidents=report.incidents[-MOST_INCIDENTS:],
        listed=report.listed,
        listed_text=None if report.listed is None else listed_text(run[LISTED]),
        differences=report.differences,
        silent=report.silent,
        most_silent=MOST_LISTED,
        heat=report.heat,
        has_quiet=run.get("quiet") is not None and report.timed,
        outside=report.outside,
        channels=report.channels,
        most_channels=MOST_CHANNELS,
        planes=report.planes,
        fleet=report.fleet,
        reasons=REASONS,
        answer=answer(report),
        held=len(totals.models) - models_without(run),
        held_rows=any("odd" in curve.loss for curve in report.curves.values()),
        failures=report.failures,
        has_failed=has_failed(run, totals),
        command=run.get("command", "–"),
        provenance=provenance(run),
    )


@cache
def templates(clock: SiteClock = UTC_CLOCK) -> Environment:
    """Return the templates, which escape what they show and refuse a name that has no value.

    A process reads each of them once, however many pages it writes.

    `clock` is that by which times are shown.
    """
    # Only here: a job that writes no page does without it.
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415

    from pipelines.report.page.compiled import Compiled  # noqa: PLC0415

    environment = Environment(
        loader=PackageLoader("pipelines.report.page"),
        bytecode_cache=Compiled(Path(__file__)),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.globals["zone"] = clock.zone
    environment.filters |= {
        "counted": counted,
        "figure": figure,
        "clock": clock.moment,
        "moment": lambda time: clock.moment(time, to=1),
        "percent": percent,
        "span": span,
        "share": lambda share: f"{100 * share:.0f}\N{NO-BREAK SPACE}%",
        "plain": plain,
        "thousands": "{:,}".format,
        "width": lambda part, whole: f"{100 * part / whole:.2f}%",
    }
    return environment


def _asset(name: str) -> str:
    return files("pipelines.report").joinpath("assets", name).read_text(encoding="utf-8")
