"""What each field of a message is, by the flags of the live job."""

from __future__ import annotations

import argparse
import dataclasses
import re

import pyarrow as pa

from kerneltrack.errors import ConfigError
from kerneltrack.number_texts import NAMES
from pipelines.cli import handed_on, input_options
from pipelines.cli.spec_options import condition_from_flags, mode_from_flags
from transforms.kafka.formats import MESSAGE_KEY, RECORD_TIME
from transforms.read.column_options import (
    ColumnOptions,
    units_of,
    with_condition,
    with_mode,
    words_of,
)
from transforms.read.columns import Columns
from transforms.read.format_options import NULL_VALUES
from transforms.read.long_table import LongTable
from transforms.read.matrix import Feature
from transforms.read.numbers import Numbers, nulls_of
from transforms.track.order import MERGE


def check(args: argparse.Namespace) -> Columns:
    """Return what each field of a message is; see `columns_from_flags`."""
    if args.idle_flush in ("0", "0.0"):
        args.idle_flush = "none"
    return columns_from_flags(args)


def columns_from_flags(args: argparse.Namespace) -> Columns:
    """Return what each field of a message is.

    Raises:
        ConfigError: for a bad flag, a field with two meanings, or no features.
    """
    given = handed_on.columns_of(input_options.COLUMNS.read(args), args.warm_start)
    given = with_mode(given, mode_from_flags(args))
    given = with_condition(given, condition_from_flags(args))
    numbers = Numbers(missing=(*NULL_VALUES, *(args.null_values or ())))
    if args.missing == "drop":
        raise ConfigError("--missing", "drop", "fail or hold: a stream cannot be read in advance")
    if args.time_ambiguous == "infer":
        raise ConfigError(
            "--time-ambiguous",
            "infer",
            "fail, earliest or latest: what comes later would tell, and no row can wait for it",
        )
    features = tuple(_feature(text, given, numbers) for text in given.features or ())
    if not features:
        raise ConfigError("--features", "", "the names of the fields that are features")
    known = {name for feature in features for name in feature.channels}
    unseen = {name: names for name, names in given.conditions if name not in known}
    ways = {
        name: numbers._replace(words=NAMES) if names else _written(name, given, numbers)
        for name, names in unseen.items()
    }
    roles = {
        "--model-id": given.model_id,
        "--time": given.times[0] if given.times else None,
        "--sequence": given.sequence,
        "--label": given.label,
        "--metric": given.metric,
        "--value": given.value,
    }
    table = None
    if given.metric is not None and given.value is not None:
        channels = (*(given.features or ()), *unseen)
        written = {name: _written(name, given, numbers) for name in channels} | ways
        own = {name: each for name, each in written.items() if each is not None}
        table = LongTable(given.metric, given.value, channels, numbers, own=own)
        features = ()
    else:
        features += tuple(Feature(name, numbers=way) for name, way in ways.items())
    of_day = given.times[1] if len(given.times) > 1 else None
    named = [*((flag, name) for flag, name in roles.items() if name)]
    named += [] if of_day is None else [("--time", of_day)]
    named += [("--features", feature.name) for feature in features]
    seen: dict[str, str] = {}
    for flag, name in named:
        if name in seen:
            raise ConfigError(flag, name, f"another field than {seen[name]}")
        seen[name] = flag
    if given.exclude:
        raise ConfigError("--exclude", given.exclude[0], "left out: features are named")
    for field, settings in (("--words", words_of(given.words)), ("--units", units_of(given.units))):
        for name in settings:
            if name not in (table.channels if table else {each.name for each in features}):
                raise ConfigError(field, name, "one of --features")
    label = given.label or None
    return Columns(
        model_id=given.model_id or MESSAGE_KEY,
        # An empty name is none, as with --model-id.
        time=next(filter(None, given.times), RECORD_TIME),
        time_of_day=of_day,
        sequence=given.sequence,
        label=label,
        label_type=_label_type(given, label),
        features=features,
        dtype="float64",
        requests={},
        options=dataclasses.replace(given, features=tuple(f.name for f in features)),
        long=table,
        partial=table is not None or args.duplicates == MERGE,
        nulls=nulls_of(numbers),
        unseen=tuple(unseen),
        null_texts=tuple(args.null_values or ()),
    )


def label_columns(args: argparse.Namespace, columns: Columns) -> Columns:
    """Return what each field of a delayed label is.

    Args:
        args: The parsed flags.
        columns: What each field of a row is.
    """
    label = args.label_column or columns.label or "label"
    return dataclasses.replace(
        columns,
        time=None if args.label_index else columns.time,
        time_of_day=None if args.label_index else columns.time_of_day,
        sequence=args.label_index,
        label=label,
        label_type=_label_type(columns.options, label),
        features=(),
        long=None,
        partial=False,
        options=dataclasses.replace(
            columns.options,
            metric=None,
            value=None,
            label=label,
            sequence=args.label_index,
            features=(),
            missing="fail",
        ),
    )


def _label_type(given: ColumnOptions, label: str | None) -> pa.DataType | None:
    return None if label is None else pa.type_for_alias(given.label_type or "string")


def _feature(text: str, given: ColumnOptions, numbers: Numbers) -> Feature:
    sized = re.fullmatch(r"(.+)\[([1-9][0-9]{0,6})\]", text)
    if sized:
        return Feature(sized[1], int(sized[2]))
    return Feature(text, numbers=_written(text, given, numbers))


def _written(name: str, given: ColumnOptions, numbers: Numbers) -> Numbers | None:
    """Return how a field's or metric's texts are read, None if nothing is said of it."""
    words, units = words_of(given.words), units_of(given.units)
    if name in words:
        return numbers._replace(words=words[name])
    return numbers._replace(unit=units[name]) if name in units else None
