"""The report of a run: one self-contained page with what happened, for people to look at."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from kerneltrack.errors import DataError, printable
from pipelines.output_lock import locked_folder
from pipelines.report.data.files import read_run, write_page
from pipelines.report.data.report import report_of
from pipelines.report.page.data_block import further_blocks
from pipelines.report.page.page import render_page
from transforms.read.look import Input


def run(args: argparse.Namespace) -> int:
    """Write a run's report again and print where it is; the exit code is 0.

    Raises:
        ConfigError: if a job writes into the folder.
        DataError: as `write_report`.
    """
    read_run(args.output)
    with locked_folder(args.output, "DIR", args.typed, make=False):
        written = write_report(args.output, asked=args.device)
    sys.stdout.write(printable(written) + "\n")
    return 0


def write_report(
    output: str,
    run: Mapping[str, Any] | None = None,
    inputs: Input | None = None,
    asked: Sequence[str] = (),
) -> str:
    """Write `output/report.html` from what a run left in `output`.

    Of more devices than one page holds, the further ones are in files in `report_devices`.

    Args:
        output: The run's folder, local or whatever Beam's FileSystems open, with `run.json`,
            `features/*.parquet` and, each if there is any, `failures/*.parquet`,
            `mismatch/*.parquet`, `predictions/*.parquet` and `alerts/*.parquet`.
        run: What is to be `run.json`, of a run that has none yet: it comes last.
        inputs: The files that the run read; without them the page shows no channels.
        asked: Devices that are drawn in full before all others.

    Returns:
        The page's path.

    Raises:
        DataError: If `run.json` or a Parquet file cannot be read, or a device of `asked` has no
            features.

    Cost: as `report_of`.
    """
    record = read_run(output) if run is None else json.loads(json.dumps(run))
    report = report_of(output, record, inputs, asked)
    for name in asked:
        if name not in report.totals.models:
            raise DataError(name, "no device of this run has this name")
    return write_page(output, render_page(report), further_blocks(report))
