"""Beam's own flags, given as --name=value."""

from __future__ import annotations

import contextlib
import difflib
import io
from collections.abc import Iterable, Sequence

from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

from pipelines.cli.command_line import UsageError
from transforms.beam_worker.runners import IN_PROCESS_RUNNER


def beam_options(flags: Sequence[str], own: Iterable[str] = ()) -> PipelineOptions:
    """Return Beam's options; the in-process runner unless one is named.

    Args:
        flags: What our own flags left of a command line.
        own: Names of our own, which the user may have meant.

    Raises:
        UsageError: for a flag that Beam does not know, or a value that it refuses.
    """
    errors = io.StringIO()
    try:
        # Beam's parser prints and exits.
        with contextlib.redirect_stderr(errors):
            options = PipelineOptions(list(flags))
            known = options.get_all_options()
            given = options.get_all_options(retain_unknown_options=True)
    except SystemExit as error:
        raise UsageError(errors.getvalue().strip().rpartition("error: ")[2]) from error
    names = [flag.partition("=")[0] for flag in flags]
    strange = given.keys() - known.keys()
    unknown = [name for name in names if name.lstrip("-").replace("-", "_") in strange]
    unknown += [name for name in names if not name.startswith("--")]
    if unknown:
        near = difflib.get_close_matches(unknown[0], [*own, *(f"--{name}" for name in known)], n=1)
        hint = f": did you mean {near[0]}?" if near else ""
        raise UsageError(f"unknown flag {unknown[0]}{hint}")
    standard = options.view_as(StandardOptions)
    if standard.runner is None:
        standard.runner = IN_PROCESS_RUNNER
    return options
