"""The report of a run: one self-contained page with what happened, for people to look at."""

from __future__ import annotations

import re
from typing import cast

import numpy as np

from pipelines.report_blocks import Blocks
from pipelines.report_curves import Curve, curve_of
from pipelines.report_failures import FAILURE_COLUMNS, failure_examples
from pipelines.report_files import (
    column_names,
    parquet_files,
    read_batches,
    read_run,
    write_page,
)
from pipelines.report_labels import LabelCodes
from pipelines.report_models import ShownModels
from pipelines.report_page import Report, ShownModel, render_page
from pipelines.report_totals import (
    FATES,
    Floats,
    Ints,
    Totals,
    add_up,
    columns_for_totals,
    model_codes,
)

MOST_CURVES = 50
"""Models whose curves the page holds."""

MOST_SHOWN = 1_000
"""Up to so many models the table has all of them."""

_EXTREMES_SHOWN = 200
_ALL_BINS = 24_000
_FEWEST_BINS = 480
_MOST_BINS = 1_200


def write_report(output: str) -> str:
    """Write `output/report.html` from what a run left in `output`.

    The features are read twice, a batch at a time and without z: once for the totals, once for
    the curves of at most 50 models and the table's at most 1,000.

    Args:
        output: The run's folder, local or whatever Beam's FileSystems open, with `run.json`,
            `features/*.parquet` and, if rows failed, `failures/*.parquet`.

    Returns:
        The page's path.

    Raises:
        DataError: If `run.json` or a Parquet file cannot be read.

    Cost: O(rows) time; memory O(models + labels) and at most about 200 MB for the curves.
    """
    run = read_run(output)
    paths = parquet_files(output, "features")
    names = column_names(paths)
    totals = add_up(read_batches(paths, columns_for_totals(names)))
    curves = models_with_curves(totals)
    shown = models_shown(totals, curves)
    drawn, table = _second_pass(paths, names, totals, curves, shown)
    report = Report(
        run=run,
        totals=totals,
        timed="time" in names,
        labelled="label" in names,
        curves=drawn,
        shown=table,
        failures=failure_examples(read_batches(parquet_files(output, "failures"), FAILURE_COLUMNS)),
    )
    return write_page(output, render_page(report))


def models_with_curves(totals: Totals) -> list[str]:
    """Choose the models that the page draws, in the natural order of their names.

    All, up to 50. Beyond, the 20 with the most rows, the 20 that fit worst and the 10 that fit
    best; the first named are filled up with more of those with the most rows.
    """
    names = list(totals.models)
    if len(names) > MOST_CURVES:
        by_rows = np.argsort(-totals.rows, kind="stable")
        best = _by_mean(totals.means())
        order = [*by_rows[:20], *best[::-1][:20], *best[:10], *by_rows[: MOST_CURVES * 2]]
        names = [names[code] for code in dict.fromkeys(int(code) for code in order)][:MOST_CURVES]
    return sorted(names, key=_natural)


def models_shown(totals: Totals, curves: list[str]) -> list[str]:
    """Choose the models of the table: all up to 1,000, else the best, the worst and the drawn."""
    names = list(totals.models)
    if len(names) > MOST_SHOWN:
        best = _by_mean(totals.means())
        ends = [*best[:_EXTREMES_SHOWN], *best[::-1][:_EXTREMES_SHOWN]]
        names = list(dict.fromkeys([*(names[int(code)] for code in ends), *curves]))
    return sorted(names, key=_natural)


def _second_pass(
    paths: list[str], names: list[str], totals: Totals, curves: list[str], shown: list[str]
) -> tuple[dict[str, Curve], list[ShownModel]]:
    labels: LabelCodes | None = totals.labels if "label" in names else None
    drawn_codes = _codes(totals, curves)
    shown_codes = _codes(totals, shown)
    blocks = Blocks(totals.length[drawn_codes], timed="time" in names, labels=labels)
    lines = ShownModels(totals.length[shown_codes])
    drawn_slot = _slots(drawn_codes, len(totals.models))
    shown_slot = _slots(shown_codes, len(totals.models))
    wanted = [*columns_for_totals(names), *({"time", "novelty"} & set(names))]
    for batch in read_batches(paths, wanted):
        if not batch.num_rows:
            continue
        codes, local = model_codes(batch, totals.models)
        blocks.add(batch, drawn_slot[codes][local])
        lines.add(batch, shown_slot[codes][local])
    bins = min(_MOST_BINS, max(_FEWEST_BINS, _ALL_BINS // max(1, len(curves))))
    drawn = {name: curve_of(blocks.of_model(k), bins) for k, name in enumerate(curves)}
    return drawn, _shown_models(totals, shown, lines)


def _shown_models(totals: Totals, shown: list[str], lines: ShownModels) -> list[ShownModel]:
    codes = _codes(totals, shown)
    means, sds = totals.means()[codes], totals.by_model.sd()[codes]
    half, high, sparks = lines.last_half(), lines.quantile(0.95), lines.sparks()
    table = []
    for k, name in enumerate(shown):
        fates = dict(zip(FATES, totals.fates[codes[k]].tolist(), strict=True))
        rows = int(totals.rows[codes[k]])
        table.append(
            ShownModel(
                name, rows, means[k], sds[k], half[k], high[k], fates, cast(Floats, sparks[k])
            )
        )
    return table


def _codes(totals: Totals, names: list[str]) -> Ints:
    return np.array([totals.models[name] for name in names], dtype=np.int64)


def _slots(codes: Ints, models: int) -> Ints:
    slots = np.full(models, -1, dtype=np.int64)
    slots[codes] = np.arange(len(codes))
    return slots


def _by_mean(means: Floats) -> Ints:
    """Return the models that have a mean, the best fitted first."""
    order = np.argsort(means, kind="stable")
    return order[: np.count_nonzero(np.isfinite(means))]


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Sort key by which `m2` comes before `m10`."""
    parts = re.split(r"([0-9]+)", name)
    numbers = [part.lstrip("0") for part in parts]
    return [
        (0, len(numbers[k]), numbers[k]) if k % 2 else (1, 0, part) for k, part in enumerate(parts)
    ]
