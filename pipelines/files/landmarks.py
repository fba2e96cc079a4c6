"""`kerneltrack landmarks`: the few rows of an input that hold the others best.

    kerneltrack landmarks INPUT... --output FILE [--method bcd-pg|bcd-ex|kmeans|uniform] [flags]

Reads whatever the file job reads, takes a sample of at most `--sample` rows (all models together,
drawn with `--seed`), chooses landmarks among them and writes them to FILE: safetensors, or JSON if
its name ends in `.json`. Its memory is bounded by the sample: 8·sample² bytes and one batch.
"""

from __future__ import annotations

import argparse
import os

from kerneltrack.batch.landmark_spec import MAX_ROWS, LandmarkSpec
from kerneltrack.batch.landmarks import choose_landmarks
from kerneltrack.errors import ConfigError, DataError
from kerneltrack.paths import exists
from kerneltrack.settings import check_int
from kerneltrack.snapshots.files import write_whole
from pipelines.cli import input_options
from pipelines.cli.spec_options import LANDMARKS
from pipelines.files.first_look import look_at_features, refuse_parts
from pipelines.files.local_times import local_times, local_times_text
from pipelines.files.record import no_good_row
from pipelines.job import say
from pipelines.landmark_file import encode, most_bytes
from pipelines.output_lock import locked_file
from transforms.read.sample import sample_rows


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
    refuse_parts(args, "landmarks are drawn from whole rows", "rows are drawn in no order")
    check_int("--sample", args.sample, 1, MAX_ROWS)
    with LANDMARKS.named():
        spec = LandmarkSpec(**LANDMARKS.given(args, "landmarks"))
    looked = input_options.look_at_input(args)
    infos = looked.infos
    if os.path.realpath(args.output) in {os.path.realpath(info.path) for info in infos}:
        raise ConfigError("--output", args.output, "another file than the input's")
    columns = look_at_features(looked, args.input[0])
    with locked_file(args.output, "--output", args.typed):
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


def _within(data: bytes, args: argparse.Namespace) -> bytes:
    """Refuse to write what `read_start` would not read."""
    most = most_bytes(args.output)
    if len(data) > most:
        allowed = f"a file of at most {most:,} bytes, not {len(data):,}: choose fewer landmarks"
        raise ConfigError("--output", args.output, allowed)
    return data
