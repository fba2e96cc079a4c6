"""The report's part on the kernel mismatch: HTML around the charts, and their data."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from pipelines.report.data.mismatch import KINDS, Mismatch, odd_windows
from pipelines.report.page.pack import numbers, packed_curve
from pipelines.report.page.tables import table_frame
from pipelines.report.page.text import counted, figure

_ABOUT = (
    "How far the kernel matrix of the rows of a window is from that of their features, "
    "(1/N)‖K − K̂‖<sub>F</sub>, under the subspace held when the window closes. It never exceeds "
    "the trace certificate, the mean residual of the same rows; (28b) is the looser bound that "
    "needs no projection. Each point stands at the end of its window."
)


def mismatch_figures(mismatch: Mismatch | None) -> str:
    """Return the frames of the charts of the chosen model, one for each kind of window."""
    if mismatch is None:
        return ""
    figures = "".join(
        f"<h3>{escape(mismatch.totals.title(kind))}</h3>\n"
        f'<figure><figcaption class="readout" id="mismatch-{KINDS[kind]}-readout"></figcaption>'
        f'<div class="chart" id="mismatch-{KINDS[kind]}"></div></figure>\n'
        f'<p class="note" id="mismatch-{KINDS[kind]}-note"></p>\n'
        for kind in mismatch.totals.kinds()
    )
    return (
        '<section aria-labelledby="mismatch-title">\n'
        '<h2 id="mismatch-title">Kernel mismatch over time</h2>\n'
        f'<p class="note">{_ABOUT}</p>\n{figures}</section>\n'
    )


def mismatch_section(mismatch: Mismatch | None) -> str:
    """Return the part on all models: a line on each kind of window, and the table's frame."""
    if mismatch is None:
        return ""
    lines = "".join(
        f'<p class="note">{escape(_line(mismatch, kind))}</p>\n' for kind in mismatch.totals.kinds()
    )
    return (
        '<section aria-labelledby="windows-title">\n'
        '<h2 id="windows-title">Kernel mismatch by model</h2>\n'
        f"{lines}{table_frame('windows')}</section>\n"
    )


def _line(mismatch: Mismatch, kind: int) -> str:
    totals = mismatch.totals
    windows, unmeasured = (int(a[:, kind].sum()) for a in (totals.windows, totals.unmeasured))
    text = f"{totals.title(kind)}: {counted(windows, 'window')}"
    if windows > unmeasured:
        mean, certificate = (
            figure(float(sums[:, kind].sum()) / (windows - unmeasured))
            for sums in (totals.mismatch, totals.certificate)
        )
        text += f", mean mismatch {mean}, mean certificate {certificate}"
    odd = (totals.incomplete, totals.sampled, totals.unmeasured)
    said = odd_windows(*(int(part[:, kind].sum()) for part in odd))
    return f"{text}. {said}".strip()


def mismatch_data(mismatch: Mismatch | None, shown: Sequence[str]) -> dict[str, Any] | None:
    """Return what the scripts draw: curves by model drawn and kind, and the table."""
    if mismatch is None:
        return None
    totals = mismatch.totals
    lines = [
        (name, totals.models[name], kind)
        for name in shown
        for kind in totals.kinds()
        if totals.windows[totals.models[name], kind]
    ]
    at = tuple(np.array([line[1:] for line in lines], dtype=np.int64).reshape(-1, 2).T)
    return {
        "kinds": [{"id": KINDS[kind], "title": totals.title(kind)} for kind in totals.kinds()],
        "curves": [
            {
                KINDS[kind]: {"note": curve.note, "values": packed_curve(curve.values)}
                for kind, curve in by_kind.items()
            }
            for by_kind in mismatch.curves
        ],
        "table": {
            "id": [name for name, _, _ in lines],
            "kind": [KINDS[kind] for _, _, kind in lines],
            "windows": totals.windows[at].tolist(),
            "mismatch": numbers(totals.mean(totals.mismatch)[at]),
            "certificate": numbers(totals.mean(totals.certificate)[at]),
            "ratio": numbers(totals.ratio[at]),
            "incomplete": totals.incomplete[at].tolist(),
            "sampled": totals.sampled[at].tolist(),
        },
    }
