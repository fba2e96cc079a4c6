"""`kerneltrack landmarks`: the few rows of an input that hold the others best.

    kerneltrack landmarks INPUT... --output FILE [--method bcd-pg|bcd-ex|kmeans|uniform] [flags]

Reads whatever the file job reads, takes a sample of at most `--sample` rows (all models together,
drawn with `--seed`), chooses landmarks among them and writes them to FILE: safetensors, or JSON if
its name ends in `.json`. Its memory is bounded by the sample: 8·sample² bytes and one batch.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from kerneltrack.batch.landmark_spec import MAX_ROWS, LandmarkSpec
from kerneltrack.batch.landmarks import Landmarks, choose_landmarks
from kerneltrack.errors import ConfigError, DataError, path_text, shorten
from kerneltrack.paths import exists
from kerneltrack.settings import check_int
from kerneltrack.snapshots.files import read_whole, write_whole
from kerneltrack.trackers.common.start import StartSet
from pipelines.cli import input_options
from pipelines.cli.spec_options import LANDMARKS
from pipelines.files.first_look import look_and_warn
from pipelines.files.local_times import local_times, local_times_text
from pipelines.files.output_lock import file_held
from pipelines.files.record import no_good_row
from pipelines.job import say
from transforms.read.local_times import with_passages
from transforms.read.sample import Sample, sample_rows

VERSION = 1
MOST_BYTES = 256 << 20
MOST_JSON_BYTES = 64 << 20
"""Of a file of landmarks; as JSON its numbers take up to sixteen times the memory."""
KEY = "kerneltrack-landmarks"


def run(args: argparse.Namespace) -> int:
    """Choose landmarks and write them.

    Args:
        args: The parsed flags.

    Returns:
        0.

    Raises:
        ConfigError: for a bad flag or setting.
        DataError: if the input cannot be read, or FILE is there.
        JobError: if it has no good row.
    """
    if args.missing == "hold":
        raise ConfigError("--missing", "hold", "fail or drop: rows are drawn in no order")
    check_int("--sample", args.sample, 1, MAX_ROWS)
    with LANDMARKS.named():
        spec = LandmarkSpec(**LANDMARKS.given(args, "landmarks"))
    looked = input_options.look_at_input(args)
    infos = looked.infos
    if os.path.realpath(args.output) in {os.path.realpath(info.path) for info in infos}:
        raise ConfigError("--output", args.output, "another file than the input's")
    columns = with_passages(infos, looked.columns)
    if columns.width < 1:
        raise DataError(str(args.input[0]), "no feature column")
    look_and_warn(infos, columns)
    with file_held(args.output, "--output", args.typed):
        if exists(args.output) and not args.overwrite:
            raise DataError(args.output, "is there already: --overwrite replaces it")
        sample = sample_rows(infos, columns, args.sample, spec.seed)
        if not len(sample.rows):
            path, none = infos[0].path, "holds no row to choose"
            raise no_good_row(path, none, sample.failed, sample.reasons)
        chosen = choose_landmarks(spec, sample.rows)
        files = [info.path for info in infos]
        data = encode(spec, chosen, sample, files, args.output)
        write_whole(args.output, _within(data, args))
    doubt = local_times_text(local_times(columns, sample.local))
    say(
        f"{len(chosen.indices)} landmarks of {len(sample.rows):,} rows ({sample.read:,} read, "
        f"{sample.failed:,} failed): residual {chosen.residual:.4g}, kernel mismatch "
        f"{chosen.mismatch:.4g}{doubt}\n{args.output}"
    )
    return 0


def encode(
    spec: LandmarkSpec, chosen: Landmarks, sample: Sample, files: Sequence[str], name: str
) -> bytes:
    """Return the landmarks as bytes.

    Safetensors with the arrays `rows` (as in the input, not scaled), `source` and `row` (which
    file, which of its rows), `weights`, `shift`, `scale` and `objective`, and one metadata entry
    `kerneltrack-landmarks` of JSON; or JSON with all of these, if the name ends in ".json". Equal
    for equal arguments.
    """
    arrays: dict[str, npt.NDArray[Any]] = {
        "rows": chosen.rows,
        "source": sample.source[chosen.indices],
        "row": sample.row[chosen.indices],
        "weights": chosen.weights,
        "shift": chosen.shift,
        "scale": chosen.scale,
        "objective": chosen.objective,
    }
    header = {
        "version": VERSION,
        "spec": spec.to_dict(),
        "gamma": chosen.gamma,
        "penalty": chosen.penalty,
        "residual": chosen.residual,
        "mismatch": chosen.mismatch,
        "sample": len(sample.rows),
        "read": sample.read,
        "failed": sample.failed,
        "files": [path_text(path) for path in files],
    }
    if _is_json(name):
        lists = {field: array.tolist() for field, array in arrays.items()}
        return (json.dumps({**header, **lists}, indent=1) + "\n").encode()
    whole = {field: np.ascontiguousarray(array) for field, array in arrays.items()}
    result: bytes = save(whole, metadata={KEY: json.dumps(header, sort_keys=True)})
    return result


def read_start(path: str) -> StartSet:
    """Return what models begin from, of a file that the command wrote.

    Raises:
        DataError: if it cannot be read, is longer than any of ours, or is damaged.
    """
    return decode(read_whole(path, _most_bytes(path)), path)


def decode(data: bytes, name: str) -> StartSet:
    """Return what models begin from, of landmarks as `encode` writes them.

    Raises:
        DataError: for bytes that are no landmarks, or damaged ones.
    """
    try:
        if _is_json(name):
            header = arrays = json.loads(data)
        else:
            arrays = load(data)
            length = int.from_bytes(data[:8], "little")
            header = json.loads(json.loads(data[8 : 8 + length])["__metadata__"][KEY])
        version = header["version"]
        if version != VERSION:
            raise DataError(name, f"format version {shorten(version)}: not {VERSION}")
        start = StartSet(
            rows=_numbers(arrays["rows"]),
            shift=_numbers(arrays["shift"]),
            scale=_numbers(arrays["scale"]),
            gamma=float(header["gamma"]),
            kernel=header["spec"]["kernel"],
            standardise=header["spec"]["standardise"],
        )
        start.check_values()
    except ConfigError as error:
        raise DataError(name, f"damaged landmarks: {error}") from error
    # OverflowError: a number of 400 digits; AttributeError: a type that NumPy does not have.
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        SafetensorError,
        TypeError,
        ValueError,
    ) as error:
        raise DataError(name, "not a file of landmarks") from error
    return start


def _numbers(values: Any) -> npt.NDArray[np.float64]:
    """Return numbers as an array of float64.

    Raises:
        ValueError: for anything else, such as texts of numbers or lists of unequal length.
    """
    array = np.array(values)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{array.dtype} where numbers are expected")
    return array.astype(np.float64)


def _is_json(name: str) -> bool:
    return PurePosixPath(name).suffix == ".json"


def _most_bytes(name: str) -> int:
    return MOST_JSON_BYTES if _is_json(name) else MOST_BYTES


def _within(data: bytes, args: argparse.Namespace) -> bytes:
    """Refuse to write what `read_start` would not read."""
    most = _most_bytes(args.output)
    if len(data) > most:
        allowed = f"a file of at most {most:,} bytes, not {len(data):,}: choose fewer landmarks"
        raise ConfigError("--output", args.output, allowed)
    return data
