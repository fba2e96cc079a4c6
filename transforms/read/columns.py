"""Which column is what: the user's options, held against the columns of all input files."""

from __future__ import annotations

import dataclasses
import difflib
import fnmatch
import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from kerneltrack.errors import ConfigError, DataError, fit
from kerneltrack.monitor.condition import FIELD
from kerneltrack.number_texts import NAMES
from kerneltrack.time_units import UNITS
from transforms.read.column_options import ONLY_MODEL, ColumnOptions
from transforms.read.formats.base import FileInfo
from transforms.read.kinds import (
    is_exact,
    is_feature,
    is_id,
    is_label,
    is_number,
    is_sequence,
    is_time,
    is_time_of_day,
    value_type,
)
from transforms.read.long_table import LongTable, find_channels
from transforms.read.matrix import Feature, read_texts, to_matrix
from transforms.read.numbers import Numbers, nulls_of, without_nulls
from transforms.read.text_columns import Texts

__all__ = ["HAS_MISSING", "ColumnOptions", "Columns", "resolve"]

HAS_MISSING = "has missing values"
"""Why `missing="drop"` leaves a channel out."""

_PANDAS_INDEX = re.compile(r"__index_level_\d+__|Unnamed: \d+(_level_\d+)?")
_SHOWN = 12
_NAME = 80

Passages = Mapping[tuple[int, str, int], int]
"""Of file, model and the instant (ns) at which clocks were put back: the first row after it."""


@dataclass(frozen=True)
class Columns:
    """What each column of the input is.

    Attributes:
        model_id: Column of model ids, or None.
        time: Column of times, or None.
        sequence: Column of sequence numbers, or None.
        label: Column of labels, or None.
        label_type: string, int64 or float64; None without labels.
        features: Feature columns in order.
        dtype: "float32" if every feature is exact in it, else "float64".
        requests: Type of each needed column, for readers of text.
        options: How times and missing values are read.
        left_out: Columns that are not used, with the reason.
        passages: Where the order of rows tells it, which row is the first after clocks were put
            back; see `transforms.read.local_times`.
        from_path: Columns that are not in the files but in their paths.
        long: Of a long table, which columns hold the channels; there are no `features` then.
        partial: Whether a row may lack channels that other rows of its time have.
        time_of_day: Column of times of day, None if `time` has the whole time.
        nulls: Numbers that mean a missing value.
        null_texts: Texts that mean one in records of JSON or Avro.
        counters: Columns that are left out because they count up.
        unseen: Those of the features, or of a long table's channels, that are read for a condition
            alone; a row may lack them.
    """

    model_id: str | None
    time: str | None
    sequence: str | None
    label: str | None
    label_type: pa.DataType | None
    features: tuple[Feature, ...]
    dtype: str
    requests: dict[str, pa.DataType]
    options: ColumnOptions
    left_out: tuple[tuple[str, str], ...] = ()
    passages: Passages = field(default_factory=dict)
    from_path: frozenset[str] = frozenset()
    long: LongTable | None = None
    partial: bool = False
    time_of_day: str | None = None
    nulls: tuple[float, ...] = ()
    null_texts: tuple[str, ...] = ()
    counters: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()

    @property
    def channels(self) -> tuple[str, ...]:
        """Return the names of the D channels."""
        if self.long is not None:
            return self.long.channels
        return tuple(name for feature in self.features for name in feature.channels)

    @property
    def times(self) -> tuple[str, ...]:
        """Return the columns of times: none, one, or those of date and time of day."""
        return tuple(name for name in (self.time, self.time_of_day) if name is not None)

    @property
    def width(self) -> int:
        """Return the number D of channels."""
        return len(self.channels)

    def describe(self) -> str:
        """Return which column is what, for a person who looks for an id or a target among them."""
        options = self.options
        label = f"{self._shown(self.label)} ({self.label_type})" if self.label else "none"
        model_id = self._shown(self.model_id) or f"none (one device, called {ONLY_MODEL!r})"
        time = (
            " and ".join(map(self._shown, self.times)) or "none (file and row number are the order)"
        )
        measured = [n for n in self.channels if n not in (*self.modes, *self.unseen)]
        lines = [
            f"device:   {model_id}",
            f"time:     {time or _NO_TIME}{self._how_times()}",
            f"sequence: {self._shown(self.sequence) or 'none (file and row number decide)'}",
            *self._long_lines(),
            f"label:    {label}",
            f"channels: {len(measured)} as {self.dtype}: {_join(measured)}",
            *self._text_lines(),
            f"missing:  {_MISSING_TEXT[options.missing]}",
        ]
        reasons: dict[str, list[str]] = {}
        for name, reason in self.left_out:
            reasons.setdefault(reason, []).append(name)
        lines += [f"left out: {_join(names)}: {fit(why)}" for why, names in reasons.items()]
        return "\n".join(lines)

    def _shown(self, name: str | None) -> str:
        """Return a column's name, "" without one."""
        return fit(name or "", _NAME) + (" (from the path)" if name in self.from_path else "")

    def _how_times(self) -> str:
        """Return what was said of how times are written."""
        options, text = self.options, ""
        if self.time is None:
            return text
        if options.time_format is not None:
            text += f", as {options.time_format}"
        if options.time_unit is not None:
            text += f", numbers: {UNITS[options.time_unit].about}"
        return text + ("" if options.time_zone == "UTC" else f", local: {options.time_zone}")

    @property
    def modes(self) -> tuple[str, ...]:
        """The channel that says modes, if one does: its values are names, and measure nothing."""
        named = (name for name, words in self.words.items() if words == NAMES)
        return tuple(name for name in named if name not in self.unseen)

    @property
    def words(self) -> dict[str, tuple[str, ...]]:
        """The two words of each feature that has them: the first is 0, the other 1."""
        return {name: each.words for name, each in self._texts().items() if each.words}

    @property
    def units(self) -> dict[str, str]:
        """The unit of each feature whose texts end with one."""
        return {name: each.unit for name, each in self._texts().items() if each.unit}

    def _texts(self) -> Mapping[str, Numbers]:
        """Return how the texts of features are read."""
        if self.long is not None:
            return self.long.own
        return {each.name: each.numbers for each in self.features if each.numbers is not None}

    def _text_lines(self) -> list[str]:
        """Return how texts are read as numbers, with the flags that say so."""
        lines = [f"condition: {_join(self.unseen)}: only --only-while reads it"] * bool(self.unseen)
        for name, words in self.words.items():
            if name in self.unseen:
                continue
            if words == NAMES:
                lines.append(f"mode:     {fit(name, _NAME)}: each value names a mode")
                continue
            zero, one = words
            flag = shlex.quote(f"{name}={zero},{one}")
            lines.append(f"words:    {fit(name, _NAME)}: {zero} is 0, {one} is 1 (--words {flag})")
        for name, unit in self.units.items():
            flag = shlex.quote(f"{name}={unit}")
            lines.append(f"unit:     {fit(name, _NAME)}: in {fit(unit)} (--units {flag})")
        return lines

    def _long_lines(self) -> list[str]:
        if self.long is None:
            return []
        metric, value = self._shown(self.long.metric), self._shown(self.long.value)
        return [f"metric:   {metric}, its value in {value}; rows of one time become one"]


_NO_TIME = "none (file and row number are the order)"
_MISSING_TEXT = {
    "fail": "rows with a missing value go to the failures",
    "drop": "channels with a missing value are left out",
    "hold": "missing values take the channel's last value",
}


def resolve(
    infos: Sequence[FileInfo], options: ColumnOptions, numbers: Numbers | None = None
) -> Columns:
    """Match the options with the columns of all files.

    With `missing="drop"` all files are read once; of a long table the metrics and values.

    Args:
        infos: All input files, one at least.
        options: What the user says.
        numbers: How numbers are written in texts; None: as by default.

    Raises:
        ConfigError: if an option names no column, or one of an unusable type.
        DataError: if a file does not have what the first one has.
    """
    roles = _roles(infos, options)
    numbers = numbers or Numbers()
    if options.metric is not None and options.value is not None:
        return _resolve_long(infos, options, roles, numbers)
    texts = Texts.of(infos, options, numbers)
    features, left_out = _choose_features(infos, options, set(roles.values()), texts)
    if not features and options.features != ():
        raise _no_features(infos, options)
    unseen = _unseen(infos, options, features, set(roles.values()), texts)
    features += unseen
    left_out = [each for each in left_out if each[0] not in {feature.name for feature in unseen}]
    requests = {name: pa.float64() for name in (feature.name for feature in features)}
    exact = True
    for feature in features:
        kinds = [_kind(info, feature.name) for info in infos]
        requests[feature.name] = _request(infos, feature, kinds)
        if feature.numbers is not None:
            exact &= bool(feature.numbers.words) and not feature.numbers.are_names
            continue
        exact &= all(
            is_exact(requests[feature.name] if info.is_text(feature.name) else kind)
            for info, kind in zip(infos, kinds, strict=True)
        )
    label_type = _label_type(infos, roles.get("label"), options)
    requests |= _role_requests(infos, roles, options, label_type)
    columns = Columns(
        model_id=roles.get("model_id"),
        time=roles.get("time"),
        time_of_day=roles.get("time_of_day"),
        sequence=roles.get("sequence"),
        label=roles.get("label"),
        label_type=label_type,
        features=tuple(features),
        dtype="float32" if exact else "float64",
        requests=requests,
        options=options,
        left_out=tuple(left_out),
        from_path=frozenset(name for info in infos for name in info.constants),
        nulls=nulls_of(numbers),
        unseen=tuple(feature.name for feature in unseen),
    )
    return _without_missing(infos, columns) if options.missing == "drop" else columns


def _resolve_long(
    infos: Sequence[FileInfo], options: ColumnOptions, roles: dict[str, str], numbers: Numbers
) -> Columns:
    """Return what the columns of a long table are; `roles` has those of metrics and values."""
    if "time" not in roles:
        raise ConfigError("time", None, "the column of event times: rows of one time become one")
    metric, value = roles["metric"], roles["value"]
    kinds = [_kind(info, value) for info in infos if not info.is_text(value)]
    exact = len(kinds) == len(infos) and all(map(is_exact, kinds))
    texts = Texts.of(infos, options, numbers)
    table, left_out = find_channels(
        LongTable(metric, value, (), numbers), texts, options.features, options.exclude
    )
    unseen = [(name, named) for name, named in options.conditions if name not in table.channels]
    for name, _ in unseen:
        if name not in dict(left_out):
            raise ConfigError(
                FIELD, name, f"{name} is to be {_nearest(name, [*table.channels, *dict(left_out)])}"
            )
    ways = {name: texts.names for name, named in unseen if named}
    channels = (*table.channels, *(name for name, _ in unseen))
    table = dataclasses.replace(table, channels=channels, own={**table.own, **ways})
    left_out = [each for each in left_out if each[0] not in channels]
    label_type = _label_type(infos, roles.get("label"), options)
    taken = set(roles.values())
    others = [name for name in infos[0].schema.names if name not in taken]
    return Columns(
        model_id=roles.get("model_id"),
        time=roles["time"],
        time_of_day=roles.get("time_of_day"),
        sequence=roles.get("sequence"),
        label=roles.get("label"),
        label_type=label_type,
        features=(),
        dtype="float32" if exact else "float64",
        requests=_role_requests(infos, roles, options, label_type),
        options=options,
        left_out=(*left_out, *((name, "no column of a long table") for name in others)),
        from_path=frozenset(name for info in infos for name in info.constants),
        long=table,
        partial=True,
        nulls=nulls_of(numbers),
        unseen=tuple(name for name, _ in unseen),
    )


def _no_features(infos: Sequence[FileInfo], options: ColumnOptions) -> ConfigError:
    """Return why no column of numbers is left."""
    allowed = "a choice that leaves a column of numbers"
    for info in infos:
        for name, (decimal, mark) in info.thousands.items():
            hint = f"{mark!r} to read numbers in {name} of {info.path} (try thousands {mark!r})"
            if decimal == info.decimal:
                return ConfigError("thousands", "", hint)
        for name, mark in info.decimals.items():
            hint = f"{mark!r} to read numbers in {name} of {info.path} (try decimal {mark!r})"
            return ConfigError("decimal", "." if mark == "," else ",", hint)
    if all(pa.types.is_null(field.type) for info in infos for field in info.schema):
        allowed = "named: no row says which columns are numbers"
    return ConfigError("features", options.features, allowed)


def _roles(infos: Sequence[FileInfo], options: ColumnOptions) -> dict[str, str]:
    """Find the columns of ids, times and labels, and check that every file has them."""
    first = infos[0]
    named = {
        "model_id": options.model_id,
        "time": options.times[0] if options.times else _common(i.suggested.time for i in infos),
        "time_of_day": options.times[1] if len(options.times) > 1 else None,
        "sequence": options.sequence,
        "label": _common(info.suggested.label for info in infos)
        if options.label is None
        else options.label,
        "metric": options.metric,
        "value": options.value,
    }
    roles = {role: name for role, name in named.items() if name}
    for role, name in roles.items():
        _check_column(role, name, first)
        for info in infos:
            kind = _kind(info, name, first)
            if not info.is_text(name) and not ROLE_ALLOWED[role](kind):
                allowed = f"a column of {_ROLE_TEXT[role]}; in {info.path} it is {kind}"
                raise ConfigError(role.partition("_of_")[0], name, allowed)
        other = next((r for r in roles if r != role and roles[r] == name), None)
        if other:
            raise ConfigError(role, name, f"another column than {other}")
    return roles


def _choose_features(
    infos: Sequence[FileInfo], options: ColumnOptions, taken: set[str], texts: Texts
) -> tuple[list[Feature], list[tuple[str, str]]]:
    """Choose the feature columns, and say why the others are left out.

    Args:
        infos: All input files.
        options: What the user says.
        taken: Columns with another meaning.
        texts: How columns of texts are read as numbers.
    """
    first = infos[0]
    names = list(first.schema.names)
    excluded = set(_expand("exclude", options.exclude, names))
    left_out = []
    if options.features is not None:
        chosen = _expand("features", options.features, names, first.constants)
        for name in chosen:
            if name in taken:
                raise ConfigError("features", name, "no column with another meaning")
        chosen = [name for name in chosen if name not in excluded]
        others = [name for name in names if name not in chosen and name not in taken]
        left_out = [
            (name, "excluded" if name in excluded else "not in --features") for name in others
        ]
    else:
        chosen = []
        hints = {k: v for info in infos for k, v in info.suggested.exclude.items()}
        for name in names:
            if name in taken:
                continue
            if name in excluded:
                left_out.append((name, "excluded"))
            elif name in hints:
                left_out.append((name, hints[name]))
            elif _PANDAS_INDEX.fullmatch(name):
                left_out.append((name, "pandas' index"))
            elif is_feature(kind := _merged_kind(infos, name)) or texts.is_given(name):
                chosen.append(name)
            else:
                left_out.append((name, texts.why_none(name, kind)))
        known = set(names)
        for name in sorted({n for info in infos for n in info.schema.names} - known):
            left_out.append((name, f"not in {first.path}"))
    texts.check_given([*chosen, *(name for name, _ in left_out)])
    named = options.features is not None
    return [_feature(infos, name, texts, named) for name in chosen], left_out


def _unseen(
    infos: Sequence[FileInfo],
    options: ColumnOptions,
    features: Sequence[Feature],
    taken: set[str],
    texts: Texts,
) -> list[Feature]:
    """Return the columns that only a condition reads; arguments as of `_choose_features`."""
    names, found = infos[0].schema.names, []
    channels = {name for feature in features for name in feature.channels}
    for name, is_named in options.conditions:
        if name in channels:
            continue
        if name not in names:
            raise ConfigError(FIELD, name, f"{name} is to be {_nearest(name, names)}")
        if name in taken:
            raise ConfigError(FIELD, name, f"{name} has another meaning")
        for info in infos:
            _kind(info, name, infos[0])
        way = texts.names if is_named else None
        found.append(Feature(name, numbers=way) if way else _feature(infos, name, texts, True))
    return found


def _feature(infos: Sequence[FileInfo], name: str, texts: Texts, named: bool) -> Feature:
    numbers = texts.numbers_of(name, [_kind(info, name, infos[0]) for info in infos], named)
    if numbers is not None:
        return Feature(name, numbers=numbers)
    widths = set()
    for info in infos:
        kind = _kind(info, name, infos[0])
        if info.is_text(name) and not pa.types.is_fixed_size_list(kind):
            widths.add(0)
            continue
        if not is_feature(kind):
            raise ConfigError("features", name, f"a column of numbers; in {info.path} it is {kind}")
        width = kind.list_size if pa.types.is_fixed_size_list(kind) else 0
        if widths and width not in widths and info.format != "libsvm":
            raise DataError(info.path, f"column {name!r} is {kind}, unlike in {infos[0].path}")
        widths.add(width)
    # Sparse text does not say its width: the largest index of all files is it.
    width = max(widths)
    return Feature(name, width or None)


def _request(
    infos: Sequence[FileInfo], feature: Feature, kinds: Sequence[pa.DataType]
) -> pa.DataType:
    """Choose the type that readers of text parse a feature as."""
    if feature.width is not None:
        lists = [kind.value_type for kind in kinds if pa.types.is_fixed_size_list(kind)]
        return pa.list_(lists[0], feature.width)
    if feature.numbers is not None:
        return pa.string()
    if all(pa.types.is_boolean(kind) for kind in kinds):
        return pa.bool_()
    return pa.float64()


def _role_requests(
    infos: Sequence[FileInfo],
    roles: dict[str, str],
    options: ColumnOptions,
    label_type: pa.DataType | None,
) -> dict[str, pa.DataType]:
    """Choose the types that readers of text parse the other columns as."""
    # As texts: 007 stays 007, and a word among the values fails by itself, with its metric.
    texts = ("model_id", "metric", "value")
    requests = {roles[role]: pa.string() for role in texts if role in roles}
    if "sequence" in roles:
        requests[roles["sequence"]] = pa.int64()
    if "label" in roles:
        kinds = [_kind(info, roles["label"]) for info in infos if info.is_text(roles["label"])]
        words = any(pa.types.is_boolean(kind) for kind in kinds) and label_type != pa.string()
        # True and False are the labels 1 and 0, as in files that know their types.
        requests[roles["label"]] = pa.bool_() if words else label_type
    if "time_of_day" in roles:
        requests |= {roles["time"]: pa.string(), roles["time_of_day"]: pa.string()}
    elif "time" in roles:
        kinds = [_kind(info, roles["time"]) for info in infos if info.is_text(roles["time"])]
        kinds = [kind for kind in kinds if not pa.types.is_null(kind)]
        reals = bool(kinds) and all(is_number(kind) for kind in kinds)
        reals &= not all(pa.types.is_integer(kind) for kind in kinds)
        marked = options.time_format is None and any(info.decimal != "." for info in infos)
        # A float64 holds neither nanoseconds since 1970 nor decimals of a second exactly.
        requests[roles["time"]] = pa.float64() if reals and marked else pa.string()
    return requests


def _label_type(
    infos: Sequence[FileInfo], name: str | None, options: ColumnOptions
) -> pa.DataType | None:
    if name is None:
        return None
    if options.label_type is not None:
        return pa.type_for_alias(options.label_type)
    kinds = [value_type(_kind(info, name)) for info in infos]
    kinds = [kind for kind in kinds if not pa.types.is_null(kind)]
    if not kinds or not all(is_number(kind) for kind in kinds):
        return pa.string()
    whole = all(pa.types.is_integer(kind) or pa.types.is_boolean(kind) for kind in kinds)
    return pa.int64() if whole else pa.float64()


def _without_missing(infos: Sequence[FileInfo], columns: Columns) -> Columns:
    """Read all features once and leave out the channels with a missing value."""
    wanted = {feature.name: columns.requests[feature.name] for feature in columns.features}
    missing = np.zeros(columns.width, dtype=bool)
    for info in infos:
        for rows in info.read(wanted):
            batch, wrong = read_texts(rows.batch, columns.features)
            matrix, _ = without_nulls(
                to_matrix(batch, columns.features, columns.dtype), columns.nulls
            )
            # A row with a value that is no number fails, whatever else it lacks.
            unread = {place for place, _ in rows.unread}
            unread.update(at for each in wrong for at in np.flatnonzero(each.rows).tolist())
            missing |= np.isnan(np.delete(matrix, list(unread), axis=0)).any(axis=0)
    # A row may lack what a condition alone reads.
    missing &= ~np.isin(columns.channels, columns.unseen)
    if missing.all():
        raise ConfigError("missing", "drop", "'fail' or 'hold': every channel has missing values")
    features, start = [], 0
    for feature in columns.features:
        gone = missing[start : start + len(feature.channels)]
        start += len(gone)
        if not gone.any():
            features.append(feature)
        elif not gone.all():
            keep = tuple(int(i) for i in np.flatnonzero(~gone))
            features.append(dataclasses.replace(feature, keep=keep))
    kept = {feature.name for feature in features}
    requests = {
        name: kind for name, kind in columns.requests.items() if name in kept or name not in wanted
    }
    dropped = [name for name, gone in zip(columns.channels, missing, strict=True) if gone]
    left_out = columns.left_out + tuple((name, HAS_MISSING) for name in dropped)
    return dataclasses.replace(
        columns, features=tuple(features), requests=requests, left_out=left_out
    )


def _expand(
    field: str, patterns: Iterable[str], names: Sequence[str], by_name: Collection[str] = ()
) -> list[str]:
    """Replace patterns by the columns they match, in the file's order.

    Args:
        field: The option.
        patterns: Names and patterns.
        names: The columns.
        by_name: Those of them that no pattern matches.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        if pattern in names:
            matched = [pattern]
        else:
            matched = [
                name for name in names if name not in by_name and fnmatch.fnmatchcase(name, pattern)
            ]
        if not matched:
            raise ConfigError(field, pattern, _nearest(pattern, names))
        found.update(dict.fromkeys(matched))
    return list(found)


def _check_column(role: str, name: str, info: FileInfo) -> None:
    if name not in info.schema.names:
        raise ConfigError(role, name, f"{_nearest(name, info.schema.names)} of {info.path}")


def _nearest(name: str, names: Sequence[str]) -> str:
    lowered = {other.lower(): other for other in names}
    near = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.5)
    if near:
        return f"a column (did you mean {lowered[near[0]]!r}?)"
    return f"a column: {_join(names)}"


def _kind(info: FileInfo, name: str, first: FileInfo | None = None) -> pa.DataType:
    """Return a column's type.

    Raises:
        DataError: if the file lacks it.
    """
    index = info.schema.get_field_index(name)
    if index < 0 and info.sparse:
        return pa.null()
    if index < 0:
        which = f", which {first.path} has" if first and first is not info else ""
        raise DataError(info.path, f"no column {name!r}{which}")
    return info.schema.field(index).type


def _merged_kind(infos: Sequence[FileInfo], name: str) -> pa.DataType:
    """Return a column's type in the first file that says it: an empty text column does not."""
    kinds = [_kind(info, name, infos[0]) for info in infos]
    return next((kind for kind in kinds if not pa.types.is_null(kind)), pa.null())


def _common(values: Iterable[str | None]) -> str | None:
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


ROLE_ALLOWED = {
    "model_id": is_id,
    "time": is_time,
    "time_of_day": is_time_of_day,
    "sequence": is_sequence,
    "label": is_label,
    "metric": is_id,
    "value": is_label,
}
"""Which types a column of each meaning may have."""

_ROLE_TEXT = {
    "model_id": "texts or whole numbers",
    "time": "times, numbers or texts",
    "time_of_day": "times of day, numbers or texts",
    "sequence": "whole numbers",
    "label": "texts or numbers",
    "metric": "texts or whole numbers",
    "value": "numbers, or texts that hold some",
}


def _join(names: Sequence[str]) -> str:
    shown = ", ".join(fit(name, _NAME) for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} ... and {len(names) - _SHOWN} more"
