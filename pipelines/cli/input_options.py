"""Flags of the input's columns and file formats."""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections.abc import Callable, Sequence
from glob import has_magic
from typing import TYPE_CHECKING

from kerneltrack.errors import ConfigError, DataError
from kerneltrack.imports import import_arrow
from kerneltrack.monitor.condition import FIELD
from kerneltrack.paths import is_local
from pipelines.cli import handed_on
from pipelines.cli.command_line import flags_named
from pipelines.cli.setting_flags import FlagsOf
from pipelines.cli.spec_options import condition_from_flags, mode_from_flags
from transforms.read.column_options import ColumnOptions, with_condition, with_mode
from transforms.read.format_options import FormatOptions

_ROLES = ("model_id", "time", "sequence", "label", "metric", "value")
_NAMES = (*_ROLES, "features", "exclude", "counters")
_COLUMN = dict.fromkeys(_NAMES, "COLUMN")
_FORMS = {"time_zone": "ZONE", "time_format": "FORMAT", "words": "CHANNEL=ZERO,ONE"}
COLUMNS = FlagsOf(ColumnOptions, metavars={**_COLUMN, **_FORMS, "units": "CHANNEL=UNIT"})
_CHAR = dict.fromkeys(("delimiter", "quote", "decimal", "thousands"), "CHAR")
_TEXT = dict.fromkeys(("comment", "null_values"), "TEXT")
FORMATS = FlagsOf(FormatOptions, metavars={**_CHAR, **_TEXT, "path_pattern": "REGEX"})


if TYPE_CHECKING:
    from transforms.read.look import Input


def add_input_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of columns and file formats."""
    COLUMNS.add(parser.add_argument_group("columns"))
    FORMATS.add(parser.add_argument_group("file formats"))


def look_at_input(
    args: argparse.Namespace, meanwhile: Callable[[Input], None] | None = None
) -> Input:
    """Look at the files that a command reads.

    Args:
        args: The parsed flags.
        meanwhile: Begins what goes on while the first rows are read; called once the files are
            known.

    Raises:
        ConfigError: for a bad flag or column.
        DataError: for input that cannot be read.
    """
    _refuse_missing(args.input)
    # Not for the help: Arrow takes longer to import than that takes.
    import_arrow()
    from transforms.read.counters import without_counters  # noqa: PLC0415
    from transforms.read.look import look_at_files  # noqa: PLC0415

    try:
        found = look_at_files(args.input, columns_from_flags(args), formats_from_flags(args))
    except ConfigError as error:
        condition = condition_from_flags(args)
        if error.field != FIELD or condition is None:
            raise
        with flags_named({FIELD: "--only-while"}):
            raise condition.error_at(str(error.value), error.allowed) from None
    if meanwhile is not None:
        meanwhile(found)
    found = dataclasses.replace(found, columns=without_counters(found.infos, found.columns))
    # Of rows that are merged one alone may lack channels.
    partial = found.columns.partial or getattr(args, "duplicates", None) == "merge"
    return dataclasses.replace(found, columns=dataclasses.replace(found.columns, partial=partial))


def columns_from_flags(args: argparse.Namespace) -> ColumnOptions:
    """Return how columns are read: as the flags say, else as the run that is continued did.

    Raises:
        ConfigError: for a bad flag.
    """
    before = getattr(args, "warm_start", None) or getattr(args, "snapshots", None)
    columns = handed_on.columns_of(COLUMNS.read(args), before)
    return with_condition(with_mode(columns, mode_from_flags(args)), condition_from_flags(args))


def _refuse_missing(inputs: Sequence[str]) -> None:
    """Refuse local files that are not there, before what reads them is imported."""
    for place in inputs:
        if place != "-" and is_local(place) and not has_magic(place) and not os.path.exists(place):
            raise DataError(place, "no such file")


def formats_from_flags(args: argparse.Namespace) -> FormatOptions:
    """Build the format options; a tab may be written as `tab`, or a backslash and t."""
    if args.delimiter in ("\\t", "tab"):
        args = argparse.Namespace(**{**vars(args), "delimiter": "\t"})
    return FORMATS.read(args)
