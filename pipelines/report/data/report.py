"""Everything that the report of a run shows, read from the run's files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pipelines.report.data.alerts import Alerts, alerts_of
from pipelines.report.data.blocks import Blocks
from pipelines.report.data.choice import (
    Choice,
    codes_of,
    models_shown,
    models_with_curves,
    slots_of,
)
from pipelines.report.data.curves import Curve, curve_of
from pipelines.report.data.failures import FailureKind, failures_of
from pipelines.report.data.files import column_names, parquet_files, read_batches
from pipelines.report.data.labels import LabelCodes
from pipelines.report.data.learning import Learning, learning_of
from pipelines.report.data.mismatch import Mismatch, mismatch_of
from pipelines.report.data.models import ShownModels
from pipelines.report.data.totals import (
    FATES,
    Floats,
    Totals,
    add_up,
    columns_for_totals,
    model_codes,
)

_ALL_BINS = 24_000
_FEWEST_BINS = 480
_MOST_BINS = 1_200


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


def report_of(output: str, run: Mapping[str, Any]) -> Report:
    """Read what a run left in its folder.

    The features are read twice, a batch at a time and without z: once for the totals, once for
    the curves of at most 50 models and the table's at most 1,000. So are the windows and the
    predictions.

    Args:
        output: The run's folder.
        run: Its `run.json`.

    Cost: O(rows) time; memory O(models + labels + confusions that occur) and at most about 250 MB
    for the curves.
    """
    paths = parquet_files(output, "features")
    names = column_names(paths)
    totals = add_up(read_batches(paths, columns_for_totals(names)))
    curves = models_with_curves(totals)
    shown = models_shown(totals, curves)
    drawn, table = _second_pass(paths, names, totals, curves, shown)
    choice = Choice(totals.models, curves, shown, [drawn[name].start for name in curves])
    return Report(
        run=run,
        totals=totals,
        timed="time" in names,
        labelled="label" in names,
        curves=drawn,
        shown=table,
        choice=choice,
        mismatch=mismatch_of(output, choice),
        learning=learning_of(output, choice),
        alerts=alerts_of(output, choice),
        failures=failures_of(output),
    )


def _second_pass(
    paths: list[str], names: list[str], totals: Totals, curves: list[str], shown: list[str]
) -> tuple[dict[str, Curve], list[ShownModel]]:
    labels: LabelCodes | None = totals.labels if "label" in names else None
    drawn_codes = codes_of(totals.models, curves)
    shown_codes = codes_of(totals.models, shown)
    blocks = Blocks(totals.length[drawn_codes], timed="time" in names, labels=labels)
    lines = ShownModels(totals.length[shown_codes])
    drawn_slot = slots_of(drawn_codes, len(totals.models))
    shown_slot = slots_of(shown_codes, len(totals.models))
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
    codes = codes_of(totals.models, shown)
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
