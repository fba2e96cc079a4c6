"""The report of a run: one self-contained page with what happened, for people to look at."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from typing import Any, cast

from kerneltrack.errors import printable
from pipelines.cli.command_line import path_name
from pipelines.files.output_lock import folder_held
from pipelines.report.data.alerts import alerts_of
from pipelines.report.data.blocks import Blocks
from pipelines.report.data.choice import (
    Choice,
    codes_of,
    models_shown,
    models_with_curves,
    slots_of,
)
from pipelines.report.data.curves import Curve, curve_of
from pipelines.report.data.failures import failures_of
from pipelines.report.data.files import (
    column_names,
    parquet_files,
    read_batches,
    read_run,
    write_page,
)
from pipelines.report.data.labels import LabelCodes
from pipelines.report.data.learning import learning_of
from pipelines.report.data.mismatch import mismatch_of
from pipelines.report.data.models import ShownModels
from pipelines.report.data.totals import (
    FATES,
    Floats,
    Totals,
    add_up,
    columns_for_totals,
    model_codes,
)
from pipelines.report.page.page import Report, ShownModel, render_page

_ALL_BINS = 24_000
_FEWEST_BINS = 480
_MOST_BINS = 1_200


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `kerneltrack report` to a parser."""
    parser.add_argument("output", type=path_name, metavar="DIR", help="a run's folder")


def run(args: argparse.Namespace) -> int:
    """Write a run's report again and say where it is; the exit code is 0.

    Raises:
        ConfigError: if a job writes into the folder.
        DataError: as `write_report`.
    """
    read_run(args.output)
    with folder_held(args.output, "DIR", ["kerneltrack", "report", args.output], make=False):
        written = write_report(args.output)
    sys.stdout.write(printable(written) + "\n")
    return 0


def write_report(output: str, run: Mapping[str, Any] | None = None) -> str:
    """Write `output/report.html` from what a run left in `output`.

    The features are read twice, a batch at a time and without z: once for the totals, once for
    the curves of at most 50 models and the table's at most 1,000. So are the windows and the
    predictions.

    Args:
        output: The run's folder, local or whatever Beam's FileSystems open, with `run.json`,
            `features/*.parquet` and, each if there is any, `failures/*.parquet`,
            `mismatch/*.parquet`, `predictions/*.parquet` and `alerts/*.parquet`.
        run: What is to be `run.json`, of a run that has none yet: it comes last.

    Returns:
        The page's path.

    Raises:
        DataError: If `run.json` or a Parquet file cannot be read.

    Cost: O(rows) time; memory O(models + labels + confusions that occur) and at most about 250 MB
    for the curves.
    """
    record = read_run(output) if run is None else json.loads(json.dumps(run))
    paths = parquet_files(output, "features")
    names = column_names(paths)
    totals = add_up(read_batches(paths, columns_for_totals(names)))
    curves = models_with_curves(totals)
    shown = models_shown(totals, curves)
    drawn, table = _second_pass(paths, names, totals, curves, shown)
    starts = [drawn[name].start for name in curves]
    choice = Choice(totals.models, curves, shown, starts)
    report = Report(
        run=record,
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
    return write_page(output, render_page(report))


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
