"""Flags of the input's columns and file formats."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from pipelines.cli.setting_flags import add_flags_of, from_flags
from transforms.read.column_options import ColumnOptions
from transforms.read.formats.options import FormatOptions

_COLUMN = dict.fromkeys(("model_id", "time", "sequence", "label", "features", "exclude"), "COLUMN")
_MARK = dict.fromkeys(("delimiter", "quote", "decimal"), "CHAR")


def add_input_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of columns and file formats."""
    add_column_flags(parser, {})
    group = parser.add_argument_group("file formats")
    add_flags_of(group, FormatOptions, _MARK, {})


def add_column_flags(parser: argparse.ArgumentParser, abouts: Mapping[str, str]) -> None:
    """Add the flags of columns.

    Args:
        parser: Where to.
        abouts: What help says of those that mean something else here, by field.
    """
    metavars = {**_COLUMN, "time_zone": "ZONE", "time_format": "FORMAT"}
    add_flags_of(parser.add_argument_group("columns"), ColumnOptions, metavars, abouts)


def columns_from_flags(args: argparse.Namespace) -> ColumnOptions:
    """Build the column options."""
    return from_flags(ColumnOptions, args)


def formats_from_flags(args: argparse.Namespace) -> FormatOptions:
    """Build the format options; a tab may be written as a backslash and t."""
    if args.delimiter == "\\t":
        args = argparse.Namespace(**{**vars(args), "delimiter": "\t"})
    return from_flags(FormatOptions, args)
