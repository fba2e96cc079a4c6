"""The parts of the report that are plain HTML: what happened, in words and in small tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from pipelines.report.data.failures import FailureKind
from pipelines.report.data.labels import MOST_CLASSES_OF_TEXT
from pipelines.report.data.totals import FATES, Floats, Totals
from pipelines.report.page.text import counted, figure, percent

# With κ(x, x) = 1 the fitting error lies between 0 and 1.
_BOUNDED_KERNELS = ("gaussian", "laplacian")
_MOST_LABELS = 60
_MOST_INPUTS = 20
_MOST_REASONS = 20
_MOST_FEATURES = 24
_HISTOGRAM_FROM = 30
_HISTOGRAM_BINS = 48
_ADMISSIONS = {
    "fixed": "those with an error above a threshold",
    "moving": "those with an error above the mean of late",
    "rate": "those with the largest errors",
    "leverage": "at random, the likelier the larger the error",
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


def summary_section(run: Mapping[str, Any], totals: Totals) -> str:
    """Return the head of the page: title, one sentence, key figures."""
    fates = dict(zip(FATES, totals.fates.sum(axis=0).tolist(), strict=True))
    started = _when(run.get("started"))
    eyebrow = "kerneltrack report" + (f" · {started}" if started else "")
    return (
        f'<p class="eyebrow">{escape(eyebrow)}</p>\n<h1>{escape(title_of(run))}</h1>\n'
        f'<p class="lead">{escape(_sentence(run, totals, fates))}</p>\n'
        f'<dl class="tiles">\n{_tiles(run, totals, fates)}</dl>\n{_notices(run, fates)}'
    )


def _sentence(run: Mapping[str, Any], totals: Totals, fates: Mapping[str, int]) -> str:
    rows, failed = int(totals.rows.sum()), _count(run, "rows_failed")
    if rows == 0:
        if failed:
            return f"No features came out: all of the {counted(failed, 'row')} failed."
        return "The input held no rows, so there are no features."
    tracker = str(run.get("tracker", "the tracker"))
    spec = run.get("spec")
    rank = spec.get("rank") if isinstance(spec, Mapping) else None
    width = len((run.get("columns") or {}).get("features") or [])
    text = f"{tracker} went through {counted(rows, 'row')} of {counted(len(totals.rows), 'model')}"
    if width and rank:
        text += f" and turned {counted(width, 'channel')} into {counted(int(rank), 'feature')}"
    if totals.overall.n.sum():
        text += f", with a mean fitting error of {figure(totals.overall.mean[0])}"
    how = _ADMISSIONS.get(_admission(run))
    if how:
        admitted = percent(rows - fates["censored"], rows)
        text += f". {admitted} of the rows were admitted to the subspace, {how}; "
    elif fates["censored"]:
        text += f". {percent(fates['censored'], rows)} of the rows were censored, that is, fitted "
        text += "well enough to change nothing; "
    else:
        text += ". Every row was let in, none was censored; "
    return text + (f"{counted(failed, 'row')} failed." if failed else "no row failed.")


def _tiles(run: Mapping[str, Any], totals: Totals, fates: Mapping[str, int]) -> str:
    rows = int(totals.rows.sum())
    parts = run.get("seconds") or {}
    # The job writes its report before it knows the total.
    seconds = parts.get("total") or sum(parts.values())
    pace = f"in {figure(seconds)} s" if seconds else ""
    mean, spread = "–", "only start rows, which count in no mean"
    if totals.overall.n.sum():
        mean = figure(totals.overall.mean[0])
        spread = f"± {figure(totals.overall.sd()[0])} sd"
        if _kernel_of(run.get("spec")) in _BOUNDED_KERNELS:
            spread += " · max 1"
    elif not rows:
        spread = ""
    late, failed = _count(run, "rows_late"), _count(run, "rows_failed")
    of_rows = f"of {_count(run, 'rows_in'):,} read"
    tiles = [
        ("Rows", f"{rows:,}", pace),
        ("Models", f"{len(totals.rows):,}", ""),
        ("Mean fitting error", mean, spread),
        _choice_tile(run, rows, fates["censored"]),
        *_rank_tile(run, rows - fates["censored"]),
        (
            "Dropped at once",
            percent(fates["dropped"], fates["evicted"]),
            f"of {counted(fates['evicted'], 'eviction')}" if fates["evicted"] else "no evictions",
        ),
        ("Failed", f"{failed:,}", of_rows + (f", {late:,} late" if late else "")),
    ]
    return "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(hint)}</small></dd></div>\n"
        for name, value, hint in tiles
    )


def _admission(run: Mapping[str, Any]) -> str:
    """Return the admission that the tracker's spec names, if it does."""
    spec = run.get("spec")
    return str(spec.get("admission", "")) if isinstance(spec, Mapping) else ""


def target_rate(run: Mapping[str, Any]) -> float | None:
    """Return the share of the rows that the tracker was told to admit, None if it was not."""
    spec = run.get("spec")
    if not isinstance(spec, Mapping) or _admission(run) not in ("rate", "leverage"):
        return None
    return float(spec.get("admission_rate") or 0.0)


def _choice_tile(run: Mapping[str, Any], rows: int, censored: int) -> tuple[str, str, str]:
    if _admission(run) not in _ADMISSIONS:
        return "Censored", percent(censored, rows), "of the rows"
    target = target_rate(run)
    aim = "" if target is None else f" · target {percent(target, 1)}"
    return "Admitted", percent(rows - censored, rows), f"of the rows{aim}"


def _rank_tile(run: Mapping[str, Any], admitted: int) -> list[tuple[str, str, str]]:
    """Return a tile where the rank was chosen from the stream."""
    used = _count(run, "directions")
    if not used or not admitted:
        return []
    most = (run.get("spec") or {}).get("rank")
    return [("Rank in use", f"{used / admitted:.1f}", f"mean over admitted rows · at most {most}")]


def _notices(run: Mapping[str, Any], fates: Mapping[str, int]) -> str:
    notices = []
    if run.get("exit_code"):
        allowed = run.get("max_failures")
        limit = f" (--max-failures {allowed})" if allowed else ""
        notices.append(f"The job ended with exit code {run['exit_code']}: {run['outcome']}{limit}.")
    evicted = fates["evicted"]
    if evicted >= _FROZEN_EVICTIONS and fates["dropped"] >= _FROZEN_SHARE * evicted:
        notices.append(
            f"The subspace is all but frozen: in {percent(fates['dropped'], evicted)} of the "
            "evictions the new row itself was dropped at once. A forgetting factor below 1 or the "
            "policy fifo lets it follow the data."
        )
    mended = _count(run, "mended")
    if mended:
        notices.append(
            f"{counted(mended, 'update')} would have diverged and gave way to a safe step."
        )
    return "".join(f'<p class="notice">{escape(notice)}</p>\n' for notice in notices)


def label_section(totals: Totals) -> str:
    """Return the fitting error by label: rows, mean and standard deviation over all models."""
    head = '<section aria-labelledby="labels-title">\n<h2 id="labels-title">By label</h2>\n'
    if totals.labels.is_target:
        return (
            f"{head}<p>The label is a number with many values: it is drawn as a line above and not "
            "counted by value.</p>\n</section>\n"
        )
    names = totals.labels.names()
    moments, sd = totals.by_label, totals.by_label.sd()
    lines = [
        (names[k], int(moments.n[k]), float(moments.mean[k]), float(sd[k]))
        for k in np.argsort(-moments.n, kind="stable")[:_MOST_LABELS]
        if moments.n[k]
    ]
    if len(lines) < _MOST_LABELS:
        lines.sort(key=lambda line: line[2])
    rest = totals.unlabelled
    if rest.n.sum():
        lines.append(("no label", int(rest.n[0]), float(rest.mean[0]), float(rest.sd()[0])))
    if not lines:
        return f"{head}<p>No row to measure has a label.</p>\n</section>\n"
    top = max(mean + spread for _, _, mean, spread in lines) or 1.0
    total = sum(rows for _, rows, _, _ in lines)
    body = "".join(_label_line(line, top, total) for line in lines)
    note = "Mean and standard deviation of the fitting error over the rows of all models"
    note += ", start rows left out; the best fitted label first."
    if len(names) > _MOST_LABELS:
        note += f" The {_MOST_LABELS} labels with the most rows, of {len(names):,}."
    if totals.labels.is_cut:
        note += f" Labels met after the first {MOST_CLASSES_OF_TEXT:,} count as none."
    return (
        f'{head}<p class="note">{escape(note)}</p>\n'
        '<div class="scroll" tabindex="0" role="region" aria-labelledby="labels-title">\n'
        '<table class="by-label">\n<thead><tr><th scope="col">Label</th>'
        '<th scope="col" class="n">Rows</th><th scope="col" class="n">Share</th>'
        '<th scope="col" class="n">Mean</th><th scope="col" class="n">± sd</th>'
        '<th scope="col" class="wide"><span class="unseen">Bar</span></th></tr></thead>\n'
        f"<tbody>\n{body}</tbody>\n</table>\n</div>\n</section>\n"
    )


def _label_line(line: tuple[str, int, float, float], top: float, total: int) -> str:
    name, rows, mean, spread = line
    low, high = max(0.0, mean - spread), mean + spread
    bar = (
        f'<span class="bar" style="width:{100 * mean / top:.2f}%"></span>'
        f'<span class="whisker" style="left:{100 * low / top:.2f}%;'
        f'width:{100 * (high - low) / top:.2f}%"></span>'
    )
    return (
        f'<tr><th scope="row">{escape(name)}</th><td class="n">{rows:,}</td>'
        f'<td class="n">{percent(rows, total)}</td><td class="n">{figure(mean)}</td>'
        f'<td class="n">± {figure(spread)}</td>'
        f'<td class="wide"><span class="bars" aria-hidden="true">{bar}</span></td></tr>\n'
    )


def overview_section(totals: Totals, shown: int, drawn: int) -> str:
    """Return what stands above the table of models: which models it has, and a histogram."""
    models = len(totals.rows)
    note = "Fitting error and rates of each model."
    if shown < models:
        note = (
            f"The table holds {shown:,} of {models:,} models: those that fit best, those that fit "
            "worst, and those drawn above."
        )
    if drawn < models:
        note += (
            f" Curves are kept for {drawn:,} models: those with the most rows, and some of those "
            "that fit worst and best."
        )
    return f'<p class="note">{escape(note)}</p>\n{_histogram(totals.means())}'


def _histogram(means: Floats) -> str:
    means = means[np.isfinite(means)]
    if len(means) < _HISTOGRAM_FROM:
        return ""
    counts, edges = np.histogram(means, bins=_HISTOGRAM_BINS)
    top = int(counts.max())
    bars = "".join(
        f'<span style="height:{100 * count / top:.2f}%" title="{count:,} models with a mean from '
        f'{figure(low)} to {figure(high)}"></span>'
        for count, low, high in zip(counts.tolist(), edges[:-1], edges[1:], strict=True)
    )
    middle = float(np.median(means))
    text = f"Mean fitting errors of {len(means):,} models: half lie below {figure(middle)}"
    return (
        f'<figure class="histogram">\n<figcaption>{escape(text)}; the highest bar stands for '
        f'{top:,} models.</figcaption>\n<div role="img" aria-label="{escape(text)}">{bars}</div>\n'
        f'<p class="ends"><span>{figure(edges[0])}</span><span>mean fitting error</span>'
        f"<span>{figure(edges[-1])}</span></p>\n</figure>\n"
    )


def has_failed(run: Mapping[str, Any], totals: Totals) -> bool:
    """Tell whether a run's failures are what is to be seen first."""
    return bool(run.get("exit_code")) or (not totals.rows.sum() and _count(run, "rows_failed") > 0)


def failure_section(kinds: Sequence[FailureKind]) -> str:
    """Return the reasons why rows failed, the most frequent first, with a few rows of each."""
    if not kinds:
        return ""
    body = "".join(
        f'<tr><th scope="row">{escape(entry.kind)}</th><td class="n">{entry.rows:,}</td>'
        f"<td>{'<br>'.join(_examples(entry))}</td></tr>\n"
        for entry in kinds[:_MOST_REASONS]
    )
    more = len(kinds) - _MOST_REASONS
    note = f'<p class="note">{counted(more, "more reason")} in run.json.</p>\n' if more > 0 else ""
    return (
        '<section aria-labelledby="failures-title">\n'
        '<h2 id="failures-title">Rows that failed</h2>\n'
        '<div class="scroll" tabindex="0" role="region" aria-labelledby="failures-title">\n'
        '<table class="failures">\n<thead><tr><th scope="col">Reason</th><th scope="col" class="n">'
        'Rows</th><th scope="col">For example</th></tr></thead>\n'
        f"<tbody>\n{body}</tbody>\n</table>\n</div>\n{note}</section>\n"
    )


def _examples(entry: FailureKind) -> list[str]:
    """Write some rows of a kind, with their values where the kind has left them out."""
    return [
        escape(row.where() + ("" if row.reason == entry.kind else f": {row.reason}"))
        for row in entry.examples
    ]


def provenance_section(run: Mapping[str, Any]) -> str:
    """Return how the run can be told and repeated: spec, columns, inputs, versions, timing."""
    columns = run.get("columns") or {}
    roles = {key: value for key, value in columns.items() if key != "features" and value}
    features = [str(name) for name in columns.get("features") or []]
    roles[f"features ({len(features)})"] = _some(features, _MOST_FEATURES)
    inputs = run.get("inputs") or []
    paths = {str(i.get("path", "")): counted(int(i.get("rows") or 0), "row") for i in inputs}
    shown = dict(list(paths.items())[:_MOST_INPUTS])
    if len(paths) > len(shown):
        shown["…"] = counted(len(paths) - len(shown), "more file")
    seconds = run.get("seconds") or {}
    timing = {key: f"{figure(value)} s" for key, value in _flat(seconds).items()}
    timing = {"started": str(run.get("started", "–")), **timing}
    versions = {"kerneltrack": run.get("kerneltrack"), **(run.get("versions") or {})}
    versions["runner"] = run.get("runner")
    spec = {"tracker": run.get("tracker"), **_flat(run.get("spec") or {})}
    command = escape(str(run.get("command", "–")))
    return (
        f'<pre class="command" tabindex="0" aria-label="Command"><code>{command}</code></pre>\n'
        f'<div class="columns">\n{_list("Spec", spec)}{_list("Columns", roles)}'
        f"{_list('Inputs', shown)}{_list('Counts', run.get('counts') or {})}"
        f"{_list('Time', timing)}{_list('Versions', versions)}</div>\n"
    )


def _list(title: str, items: Mapping[str, Any]) -> str:
    body = "".join(
        f"<div><dt>{escape(str(key))}</dt><dd>{escape(_plain(value))}</dd></div>\n"
        for key, value in items.items()
    )
    return f"<div>\n<h3>{escape(title)}</h3>\n<dl>\n{body}</dl>\n</div>\n"


def _plain(value: object) -> str:
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


def _some(names: Sequence[str], most: int) -> str:
    text = ", ".join(names[:most])
    return text + (f" and {len(names) - most:,} more" if len(names) > most else "")


def _kernel_of(spec: object) -> str | None:
    """Return the kernel's name, which a spec holds flat or one level down."""
    kernel = spec.get("kernel") if isinstance(spec, Mapping) else None
    if isinstance(kernel, Mapping):
        kernel = kernel.get("name", kernel.get("kind"))
    return kernel if isinstance(kernel, str) else None


def _when(started: object) -> str:
    try:
        moment = datetime.fromisoformat(str(started).replace("Z", "+00:00"))
    except ValueError:
        return ""
    return f"{moment.day} {moment:%B %Y, %H:%M} UTC"


def _count(run: Mapping[str, Any], name: str) -> int:
    return int((run.get("counts") or {}).get(name) or 0)
