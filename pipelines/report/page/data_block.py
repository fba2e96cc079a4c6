"""The page's data block: what its scripts draw, as JSON, with packed curves."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple
from typing import Any

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import FloatArray
from kerneltrack.fleet.model import NEVER
from kerneltrack.monitor.condition import Condition
from kerneltrack.monitor.quiet import QuietTimes, runs_of
from pipelines.report.clock import clock_of, ns_of
from pipelines.report.data.alerts import AlertLines
from pipelines.report.data.channels import ChannelSpan
from pipelines.report.data.choice import Choice
from pipelines.report.data.curves import Curve
from pipelines.report.data.episodes import Band, span_judged
from pipelines.report.data.heat import STEPS, Heat
from pipelines.report.data.learning import LearningResults, ScoreCurve
from pipelines.report.data.mismatch import KINDS, MismatchWindows
from pipelines.report.data.report import Report
from pipelines.report.data.time_axis import time_axis
from pipelines.report.data.totals import Totals
from pipelines.report.page.learning import references_of, score_table, sentence
from pipelines.report.page.summary import target_rate

MOST_IN_PAGE = 250
"""Up to so many models are wholly in the page; of more, further ones are in files beside it."""

MOST_IN_FILE = 50
"""Models of a file beside the page."""


def data_block(report: Report) -> str:
    """Return the block: JSON that can't end the script element it stands in."""
    totals, choice = report.totals, report.choice
    block = {
        "timed": report.timed,
        "zone": clock_of(report.run).zone,
        "labels": [] if totals.labels.is_target else totals.labels.names(),
        "swatches": _swatches(totals),
        "admission": target_rate(report.run),
        "models": len(totals.models),
        **_opened(report, [*report.curves, *([] if in_files(report) else report.further)]),
        "elsewhere": [] if not in_files(report) else _elsewhere(report),
        "table": _models(report.table),
        "mismatch": _mismatch(report.mismatch, choice),
        "learning": _learning(report.learning, choice),
        "alerts": _alerts(report.alerts, choice),
        "channels": _channels(report),
        "planes": _planes(report),
        "heat": None if report.heat is None else _heat(report, report.heat),
        "first": _first(report),
    }
    return _inert(block)


def in_files(report: Report) -> bool:
    """Check whether further models are in files beside the page."""
    return len(report.curves) + len(report.further) > MOST_IN_PAGE


def further_blocks(report: Report) -> Iterator[str]:
    """Yield the files beside the page: a script each, which hands over its models.

    A page that is opened from a disk may load scripts, but nothing else.
    """
    if not in_files(report):
        return
    names, first = list(report.further), len(report.curves)
    for start in range(0, len(names), MOST_IN_FILE):
        part = _opened(report, names[start : start + MOST_IN_FILE])
        yield f"kerneltrack.arrived({first + start},{_inert(part)});\n"


def _inert(value: Any) -> str:
    """Return JSON of which nothing is markup."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _opened(report: Report, names: Sequence[str]) -> dict[str, Any]:
    """Return what is drawn of every model, in full or not: curves, episodes and quiet times."""
    curves = {**report.curves, **report.further}
    starts = {name: curves[name].start for name in names}
    has_quiet, has_episodes = names_quiet(report.run), report.episodes is not None
    means = report.totals.means()
    return {
        "curves": [_curve(report, name, curves[name], means) for name in names],
        "episodes": [_episodes(report, *each) for each in starts.items()] if has_episodes else None,
        "quiet": [_quiet(report, name, curves[name]) for name in names] if has_quiet else None,
    }


def _elsewhere(report: Report) -> list[dict[str, Any]]:
    """Return the models that are in files beside the page, and the number of each one's file."""
    return [
        {"id": name, "rows": _rows(report, name), "file": place // MOST_IN_FILE}
        for place, name in enumerate(report.further)
    ]


def _rows(report: Report, name: str) -> int:
    return int(report.totals.counts.rows[report.totals.models[name]])


def _swatches(totals: Totals) -> list[int]:
    """Number the labels by their rows, most first: the page has so many colours and no more."""
    rows = np.zeros(len(totals.labels.names()), dtype=np.int64)
    met = totals.by_label.n[1 : len(rows) + 1]
    rows[: len(met)] = met
    places: list[int] = np.argsort(np.argsort(-rows, kind="stable")).tolist()
    return places


def _curve(report: Report, name: str, curve: Curve, means: FloatArray) -> dict[str, Any]:
    return {
        "id": name,
        "rows": _rows(report, name),
        "mean": _number(means[report.totals.models[name]]),
        "start": None if curve.start is None else curve.start / 1e6,
        "outside": curve.outside,
        "gaps": curve.gaps,
        "covered": _number(curve.covered),
        "labelChanges": curve.label_changes,
        "regimes": curve.regimes and [list(astuple(regime)) for regime in curve.regimes],
        "loss": _packed(curve.loss),
        "rates": _packed(curve.rates),
    }


def _models(table: Mapping[str, npt.NDArray[Any]]) -> dict[str, Any]:
    spark = base64.b64encode(_heights(table["spark"]).tobytes()).decode()
    return {**_table(table), "spark": spark}


def _table(columns: Mapping[str, npt.NDArray[Any]]) -> dict[str, list[Any]]:
    return {
        name: _numbers(values) if values.dtype.kind == "f" else values.tolist()
        for name, values in columns.items()
        if values.ndim == 1
    }


def _heights(sparks: FloatArray) -> npt.NDArray[np.uint8]:
    """Return heights 0..254 of curves, each on its own scale from zero, 255 where it breaks."""
    known = np.isfinite(sparks)
    top = np.max(sparks, axis=1, initial=0.0, where=known)
    scaled = np.where(known, sparks, 0.0) * (254 / np.where(top > 0, top, np.inf))[:, None]
    return np.where(known, np.round(scaled), 255).astype(np.uint8)


def _mismatch(mismatch: MismatchWindows | None, choice: Choice) -> dict[str, Any] | None:
    if mismatch is None:
        return None
    curves = [
        {
            KINDS[kind]: {"note": curve.note, "values": _packed(curve.values)}
            for kind, curve in by_kind.items()
        }
        for by_kind in mismatch.curves
    ]
    kinds = [{"id": kind, "title": title} for kind, title in mismatch.titles()]
    return {"kinds": kinds, "curves": curves, "table": _table(mismatch.table(choice.shown))}


def _learning(learning: LearningResults | None, choice: Choice) -> dict[str, Any] | None:
    if learning is None:
        return None
    models = learning.scores.models
    return {
        "classifies": learning.scores.classifies,
        "references": list(references_of(learning)),
        "curves": [
            curve and {**_score_curve(curve), "note": sentence(learning, models[name])}
            for name, curve in zip(choice.drawn, learning.curves, strict=True)
        ],
        "byTime": learning.by_time and _score_curve(learning.by_time),
        "byRow": learning.by_row and _score_curve(learning.by_row),
        "table": _table(score_table(learning, choice.shown)),
    }


def _score_curve(curve: ScoreCurve) -> dict[str, Any]:
    return {
        "start": None if curve.start is None else curve.start / 1e6,
        "covered": _number(curve.covered),
        "values": _packed(curve.values),
    }


def _alerts(alerts: AlertLines | None, choice: Choice) -> dict[str, Any] | None:
    """Return for each model drawn how many alerts it has, and its marks.

    A mark is a row, a time (s since the model's axis starts) and the levels before and after.
    """
    if alerts is None:
        return None
    marks = [
        [
            [
                mark.index,
                None if mark.time is None or start is None else (mark.time - start) / 1e9,
                _number(mark.before),
                _number(mark.after),
            ]
            for mark in own
        ]
        for own, start in zip(alerts.marks, choice.starts, strict=True)
    ]
    return {"counts": [alerts.counts.get(name, 0) for name in choice.drawn], "marks": marks}


def _episodes(report: Report, name: str, start: int | None) -> list[list[Any]]:
    """Return a model's episodes.

    Each is its kind, its state, its first row and the one after its last, and the times (s since
    `start`, where the model's axis starts) of its first and last row.
    """
    return [
        [
            band.kind,
            band.state,
            band.rows[0],
            band.rows[1] + 1,
            *(
                [None, None]
                if band.times is None or start is None
                else [(time - start) / 1e9 for time in band.times]
            ),
        ]
        for band in report.bands[name]
    ]


def names_quiet(run: Mapping[str, Any]) -> bool:
    """Return whether people said when rows are not judged: quiet times, or a condition."""
    return run.get("quiet") is not None or _condition(run) is not None


def _condition(run: Mapping[str, Any]) -> str | None:
    """Return the condition while which rows are judged, with the names of its columns.

    None: there is none, or one row of each span is judged, so that others do not tell.
    """
    reference = run.get("reference") or {}
    text = reference.get("only_while")
    if text is None or span_judged(reference):
        return None
    return Condition(text).named(run["columns"]["features"])


def _quiet(report: Report, name: str, curve: Curve) -> list[list[Any]]:
    """Return a model's quiet times: from when to when (s since its axis starts), and why."""
    start, times = curve.start, report.run.get("quiet")
    if start is None:
        return []
    span = report.run.get("time_span")
    last = NEVER if span is None else ns_of(span["last"])
    entries = [] if times is None else QuietTimes.from_dict(times).entries_of(name)
    spans: list[list[Any]] = [
        [(begin - start) / 1e9, (end - start) / 1e9, each.why]
        for each in entries
        for begin, end in each.spans(start, last).tolist()
    ]
    return spans + _idle(_condition(report.run), curve)


def _idle(condition: str | None, curve: Curve) -> list[list[Any]]:
    """Return where no row of a curve's points met the condition, once there was a reference."""
    loss = curve.loss
    if condition is None or not {"time", "surprise"} <= loss.keys():
        return []
    there = np.flatnonzero(np.isfinite(loss["time"]) & np.isfinite(loss["mean"]))
    time, judged = loss["time"][there], np.isfinite(loss["surprise"][there])
    first, last = int(judged.argmax()), len(time) - 1
    return [
        [float(time[first + start]), float(time[min(first + stop, last)]), f"not {condition}"]
        for start, stop, is_idle in runs_of(~judged[first:])
        if is_idle and judged.any()
    ]


def _channels(report: Report) -> list[list[dict[str, Any]]] | None:
    """Return for each model drawn the channels around some of its episodes.

    Values are differences from `base`, so that as float32 they keep the digits that vary; times
    are seconds since `start`.
    """
    if report.channels is None:
        return None
    stretches = report.channels.stretches
    return [[_stretch(one) for one in stretches.get(name, ())] for name in report.choice.drawn]


def _stretch(stretch: ChannelSpan) -> dict[str, Any]:
    base = [next((v for v in values if math.isfinite(v)), 0.0) for values in stretch.values]
    from_base = dict(enumerate(stretch.values - np.array(base)[:, None]))
    start, time = None, None
    if stretch.time is not None:
        axis = time_axis(stretch.time, stretch.time, np.ones_like(stretch.time))
        start, seconds = axis.first, (stretch.time - axis.first) / 1e9
        time = _packed({"time": np.where(axis.holds(stretch.time), seconds, np.nan)})["time"]
    return {
        "episode": stretch.episode,
        "step": stretch.step,
        "first": int(stretch.row[0]),
        "row": _packed({"row": stretch.row - stretch.row[0]})["row"],
        "start": None if start is None else start / 1e6,
        "time": time,
        "names": stretch.names,
        "base": base,
        "values": list(_packed(from_base).values()),
    }


def _planes(report: Report) -> list[dict[str, Any] | None]:
    """Return for each model drawn its features in two dimensions."""
    return [
        None
        if plane is None
        else {
            "name": plane.name,
            "axes": plane.axes,
            "shares": [_number(share) for share in plane.shares],
            "x": _packed({"x": plane.x})["x"],
            "y": _packed({"y": plane.y})["y"],
            "row": plane.row.tolist(),
            "within": np.flatnonzero(plane.within).tolist(),
            "label": plane.label.tolist() if np.any(plane.label >= 0) else None,
        }
        for plane in (report.planes.get(name) for name in report.choice.drawn)
    ]


def _heat(report: Report, heat: Heat) -> dict[str, Any]:
    """Return the heat map: its cells, and the episodes of each line as shares of its width."""
    timed = report.choice.axis is not None
    unit = 1e6 if timed else 1
    bins = heat.cells.shape[1]
    return {
        "models": heat.models,
        "odd": heat.odd,
        "cells": base64.b64encode(heat.cells.tobytes()).decode(),
        "bins": bins,
        "steps": STEPS,
        "timed": timed,
        "first": heat.first / unit,
        "last": (heat.first + bins * heat.step) / unit,
        "episodes": [_on_map(heat, report.bands[name], timed) for name in heat.models],
        "quiet": _quiet_on_map(report, heat) if timed else [],
    }


def _on_map(heat: Heat, bands: Sequence[Band], timed: bool) -> list[list[float | None]]:
    """Return where episodes begin and end, as shares of the map; nothing of those beyond it."""
    width = heat.cells.shape[1] * heat.step
    ends = [band.times or (heat.first, heat.first) if timed else band.rows for band in bands]
    shares = [[(edge - heat.first) / width for edge in pair] for pair in ends]
    return [
        [_number(min(max(share, 0.0), 1.0)) for share in pair]
        for pair in shares
        if pair[0] <= 1 and pair[1] >= 0
    ]


def _quiet_on_map(report: Report, heat: Heat) -> list[list[list[float]]]:
    """Return of each line where quiet times begin and end, as shares of the map; [] without any."""
    if report.run.get("quiet") is None:
        return []
    width = heat.cells.shape[1] * heat.step
    quiet = QuietTimes.from_dict(report.run["quiet"])
    last = math.ceil(heat.first + width)
    shares = [(quiet.of(name, int(heat.first), last) - heat.first) / width for name in heat.models]
    return [own.clip(0, 1)[(own[:, 0] < 1) & (own[:, 1] > 0)].tolist() for own in shares]


def _first(report: Report) -> int | None:
    """Return which curve the page shows first: that of the model that is off most, if one is."""
    named = [off.model for off in report.episodes.worst] if report.episodes else []
    named += [model.model for model in report.fleet.unlike] if report.fleet else []
    return next((report.choice.drawn.index(n) for n in named if n in report.choice.drawn), None)


def _number(value: float) -> float | None:
    """Return the value to six digits, None if it is not a number JSON knows."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _numbers(values: Iterable[float]) -> list[float | None]:
    return [_number(value) for value in values]


def _packed(curve: Mapping[Any, npt.NDArray[Any]]) -> dict[Any, str]:
    """Return each array as base64 of little-endian float32; they have one length."""
    most = float(np.finfo(np.float32).max)
    reals = np.clip(np.array([*curve.values()], np.float64), -most, most).astype("<f4")
    return {
        name: base64.b64encode(values.tobytes()).decode()
        for name, values in zip(curve, reals, strict=True)
    }
