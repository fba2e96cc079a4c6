"""Command-line flags: the input's columns and formats, and Beam's own."""

from __future__ import annotations

import argparse
import dataclasses
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from apache_beam.options import pipeline_options

from pipelines.cli.command_line import UsageError
from transforms.read.column_options import AMBIGUOUS, NONEXISTENT, ColumnOptions
from transforms.read.formats import FORMATS, FormatOptions

DEFAULT_RUNNER = "apache_beam.runners.portability.fn_api_runner.fn_runner.FnApiRunner"
"""The in-process runner by its full name: Beam's `DirectRunner` looks for a binary of another
runner on the network first."""


def add_input_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of columns and file formats."""
    without = {
        "model_id": "one model",
        "time": "file and row number",
        "features": "all other numeric ones",
    }
    add_column_flags(parser, without)
    _add_format_flags(parser)


def add_column_flags(parser: argparse.ArgumentParser, without: Mapping[str, str]) -> None:
    """Add the flags of columns.

    Args:
        parser: Where to.
        without: What holds without `--model-id`, `--time` and `--features`.
    """
    columns = parser.add_argument_group("columns")
    text: dict[str, Any] = {"metavar": "COLUMN", "default": None}
    columns.add_argument("--model-id", **text, help=f"model ids; without: {without['model_id']}")
    columns.add_argument("--time", **text, help=f"event time; without: {without['time']}")
    columns.add_argument(
        "--time-unit", choices=("s", "ms", "us", "ns"), default="s", help="of numbers (default s)"
    )
    columns.add_argument(
        "--time-zone", default="UTC", metavar="ZONE", help="of times without one (default UTC)"
    )
    columns.add_argument(
        "--time-format", default=None, metavar="FORMAT", help="strptime format (default ISO 8601)"
    )
    columns.add_argument(
        "--time-ambiguous",
        choices=AMBIGUOUS,
        default="fail",
        help="local time that comes twice, when clocks are put back: to the failures (default), "
        "the first, the second, or by the order of rows in their file",
    )
    columns.add_argument(
        "--time-nonexistent",
        choices=NONEXISTENT,
        default="fail",
        help="local time that never comes, when clocks are put forward: to the failures "
        "(default), or moved to the end of the gap",
    )
    columns.add_argument("--sequence", **text, help="orders rows of equal time")
    columns.add_argument("--label", **text, help="class or target, carried along")
    columns.add_argument(
        "--label-type", choices=("string", "int64", "float64"), default=None, help="of the label"
    )
    columns.add_argument(
        "--features",
        nargs="+",
        default=None,
        metavar="COLUMN",
        help=f"feature columns or patterns (default: {without['features']})",
    )
    columns.add_argument(
        "--exclude", nargs="+", default=(), metavar="COLUMN", help="columns that are no features"
    )
    columns.add_argument(
        "--missing",
        choices=("fail", "drop", "hold"),
        default="fail",
        help="rows with missing values: to the failures (default), drop such columns, or hold "
        "the last value for --hold-for seconds",
    )
    columns.add_argument("--hold-for", type=float, default=1.0, metavar="SECONDS")


def _add_format_flags(parser: argparse.ArgumentParser) -> None:
    formats = parser.add_argument_group("file formats")
    formats.add_argument("--format", choices=FORMATS, default=None, help="(default: by ending)")
    formats.add_argument("--delimiter", default=None, metavar="CHAR")
    formats.add_argument("--quote", default='"', metavar="CHAR")
    formats.add_argument(
        "--header", action=argparse.BooleanOptionalAction, default=None, help="of CSV files"
    )
    formats.add_argument("--names", nargs="+", default=None, metavar="NAME", help="CSV columns")
    formats.add_argument("--comment", default="", metavar="TEXT", help="begins a CSV comment")
    formats.add_argument("--encoding", default="utf-8")
    formats.add_argument("--decimal", default=".", metavar="CHAR", help="decimal mark")
    formats.add_argument("--null-values", nargs="*", default=None, metavar="TEXT")
    formats.add_argument(
        "--multiline", action="store_true", help="quoted CSV fields may hold line ends"
    )
    formats.add_argument("--width", type=int, default=None, help="features of sparse text")
    formats.add_argument("--zero-based", action="store_true", help="sparse text counts from 0")
    formats.add_argument("--arrays", nargs="+", default=None, metavar="NAME", help="of .npz files")


def columns_from_flags(args: argparse.Namespace) -> ColumnOptions:
    """Build the column options."""
    return _from_flags(ColumnOptions, args)


def formats_from_flags(args: argparse.Namespace) -> FormatOptions:
    """Build the format options; a tab may be written as a backslash and t."""
    if args.delimiter == "\\t":
        args = argparse.Namespace(**{**vars(args), "delimiter": "\t"})
    return _from_flags(FormatOptions, args)


_T = typing.TypeVar("_T")


def _from_flags(kind: type[_T], args: argparse.Namespace) -> _T:
    given = {}
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        value = getattr(args, field.name)
        if value is not None:
            given[field.name] = tuple(value) if isinstance(value, list) else value
    return kind(**given)


def split_beam_flags(
    arguments: Sequence[str], own: Iterable[str]
) -> tuple[pipeline_options.PipelineOptions, list[str]]:
    """Take Beam's own flags out of a command line.

    Args:
        arguments: The command line.
        own: Our flags, which come first where Beam has one of the same name (`--label`).

    Returns:
        Beam's options (the in-process runner unless one is named), and the other arguments.

    Raises:
        UsageError: for a value that Beam refuses.
    """
    parser = _beam_parser(own)
    try:
        values, rest = parser.parse_known_args(list(arguments))
    except argparse.ArgumentError as error:
        raise UsageError(str(error)) from error
    given = {
        name: value for name, value in vars(values).items() if value != parser.get_default(name)
    }
    options = pipeline_options.PipelineOptions.from_dictionary(given)
    standard = options.view_as(pipeline_options.StandardOptions)
    if standard.runner is None:
        standard.runner = DEFAULT_RUNNER
    return options, rest


def beam_flags() -> list[str]:
    """Return the names of Beam's own flags."""
    return [flag for action in _beam_parser(())._actions for flag in action.option_strings]


def _beam_parser(own: Iterable[str]) -> argparse.ArgumentParser:
    # Exits and prints by itself on a bad value, unless told not to.
    parser = pipeline_options._BeamArgumentParser(
        allow_abbrev=False, add_help=False, exit_on_error=False
    )
    for kind in pipeline_options.PipelineOptions.__subclasses__():
        kind._add_argparse_args(parser)
    for flag in own:
        parser._option_string_actions.pop(flag, None)
    return parser
