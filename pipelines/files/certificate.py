"""`kerneltrack inspect --certificate`: what a scored run guarantees of one device's features.

The bounds are those of `kerneltrack.monitor.certificate`; here are the rows, from the output of
`kerneltrack score`, and the words.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kerneltrack import codec
from kerneltrack.arrays import FloatArray
from kerneltrack.errors import ConfigError, DataError, printable
from kerneltrack.monitor.certificate import Certificate, certify
from kerneltrack.monitor.mismatch import stores_rows
from kerneltrack.paths import join
from kerneltrack.registry import get_tracker
from kerneltrack.snapshots.files import read_whole
from pipelines.report.data.files import column_names, parquet_files, read_batches
from pipelines.run_folder import RUN
from transforms.outputs import SCORES

FLAGS = ("confidence", "svm_penalty", "ridge_penalty")
KERNELS = ("gaussian", "laplacian")
"""Those with κ(x,x) = 1: what a row's features leave of it is 1 - ‖z‖²."""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the certificate's flags to those of `inspect`."""
    parser.add_argument(
        "--certificate",
        metavar="DIR",
        help="With --model: print bounds on the device's kernel mismatch, and on what linear "
        "learners lose by its features, with what they assume. DIR is the output of "
        "`kerneltrack score` with these snapshots.",
    )
    parser.add_argument(
        "--confidence",
        type=float,
        metavar="P",
        help="With --certificate: the bounds on rows to come hold with this probability. "
        "[default 0.95]",
    )
    parser.add_argument(
        "--svm-penalty",
        type=float,
        metavar="C",
        help="With --certificate: C of the support vector machine, which weights the mean hinge "
        "loss. [default 1]",
    )
    parser.add_argument(
        "--ridge-penalty",
        type=float,
        metavar="LAMBDA",
        help="With --certificate: penalty of the kernel ridge regression, relative to the mean "
        "squared error. [default 0.01]",
    )


def certificate(
    args: argparse.Namespace, snapshot: codec.Snapshot, place: str
) -> tuple[Certificate, bool]:
    """Return the certificate of a device, and whether its model has learned from scored rows.

    Args:
        args: The flags.
        snapshot: The device's tracker.
        place: Where it lies, for errors.

    Raises:
        ConfigError: for snapshots, folders or settings that a certificate cannot be had for.
        DataError: for a folder that cannot be read.
    """
    spec = snapshot.spec
    if spec.kernel not in KERNELS or spec.emit != "z" or not stores_rows(get_tracker(spec.tracker)):
        what = f"{spec.tracker} with kernel {spec.kernel} and features {spec.emit} ({place})"
        allowed = f"a tracker that stores rows, with features z and kernel {' or '.join(KERNELS)}"
        raise ConfigError("--certificate", what, allowed)
    again = _check_scored(args)
    residuals, largest = _scored(args.certificate, args.model)
    given = {name: getattr(args, name) for name in FLAGS if getattr(args, name) is not None}
    return certify(residuals, largest_target=largest, **given), again


def _check_scored(args: argparse.Namespace) -> bool:
    """Check that a folder is of `score` with these snapshots; tell if rows were scored again."""
    path = join(args.certificate, RUN)
    try:
        record: dict[str, Any] = json.loads(read_whole(path))
    except ValueError as error:
        raise DataError(path, f"not the record of a run: {error}") from error
    used = record.get("snapshots")
    if used is None:
        allowed = "an output of `kerneltrack score`: rows that a run learns from are measured"
        raise ConfigError("--certificate", args.certificate, f"{allowed} each under another state")
    if os.path.normpath(used) != os.path.normpath(args.file):
        raise ConfigError("--certificate", args.certificate, f"scored with {args.file}, not {used}")
    return args.model in record.get("models_scored_again", ())


def _scored(folder: str, model: str) -> tuple[FloatArray, float]:
    """Return the residuals of a device's rows, and the largest |label|, 1 where they are texts."""
    paths = parquet_files(folder, SCORES)
    columns = [name for name in ("model_id", "z", "label") if name in column_names(paths)]
    parts, largest = [], 1.0
    for batch in read_batches(paths, columns):
        mine = batch.filter(pc.equal(batch.column("model_id"), model))
        if not mine.num_rows:
            continue
        z = mine.column("z")
        known = z.flatten().to_numpy(zero_copy_only=False).reshape(-1, z.type.list_size)
        parts.append(1.0 - np.square(known).sum(axis=1))
        if "label" in columns and pa.types.is_floating(mine.schema.field("label").type):
            labels = np.abs(mine.column("label").to_numpy(zero_copy_only=False))
            largest = max(largest, float(np.nanmax(labels, initial=0.0)))
    if not parts:
        raise ConfigError("--model", model, f"a device with rows in {folder}")
    residuals = np.concatenate(parts)
    # Rounding may carry ‖z‖² past κ(x,x).
    return np.clip(residuals[np.isfinite(residuals)], 0.0, 1.0), largest


def described(found: Certificate, again: bool, place: str, as_json: bool) -> str:
    """Return the certificate in words or as JSON."""
    assumed = assumptions(found, again)
    if as_json:
        return json.dumps({**dataclasses.asdict(found), "assumptions": assumed}, indent=1)
    share = f"{found.confidence:g}"
    lines = [
        f"{place}: {found.rows:,} scored rows",
        f"  mean residual: {found.residual:.4g}",
        f"  kernel mismatch of these rows: at most {found.mismatch:.4g} "
        f"({found.paper_mismatch:.4g} by the paper's form)",
        f"  of the next {found.rows:,} rows: at most {found.future_mismatch:.4g} with probability "
        f"{share} ({found.paper_future_mismatch:.4g} by Proposition 4)",
        f"  SVM on the features, C = {found.svm_penalty:g}: squared distance of the weights at "
        f"most {found.svm_weights:.4g} (Proposition 5), objective higher by at most "
        f"{_excess(found.svm_excess, found.svm_penalty)}",
        f"  kernel ridge regression, λ = {found.ridge_penalty:g}, targets up to "
        f"{found.largest_target:g}: distance of the coefficients at most "
        f"{found.ridge_weights:.4g} (Proposition 7, corrected), root mean squared error of the "
        f"fit higher by at most {_excess(found.ridge_excess, found.largest_target)}",
        "assumptions:",
        *(f"  - {text}" for text in assumed),
    ]
    return "\n".join(printable(line) for line in lines)


def _excess(bound: float, trivial: float) -> str:
    """Write a bound, and where it is no better than that of a learner that learns nothing."""
    return f"{bound:.4g}" + (", as of no features at all" if bound >= trivial else "")


def assumptions(found: Certificate, again: bool) -> list[str]:
    """Return what the bounds assume, as sentences."""
    seen = (
        "The model has learned from some of the scored rows, so the bounds on rows to come may be "
        "too low: score rows that come after its own."
        if again
        else "The model has learned from none of the scored rows."
    )
    return [
        "All rows are measured under one subspace, that of the snapshot, which stays as it is.",
        "The bounds on these rows hold for any rows; those on rows to come need scored and coming "
        "rows to be independent and identically distributed, which rows of a sensor seldom are.",
        seen,
        f"The SVM minimises half its squared weights plus C = {found.svm_penalty:g} times the mean "
        f"hinge loss; the regression the mean squared error plus λ = {found.ridge_penalty:g} times "
        "the squared norm of its function. Both are fitted in a batch, on these rows: the bounds "
        "are on their optima with features in place of the kernel, not on learners that run while "
        "the subspace moves.",
    ]
