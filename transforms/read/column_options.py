"""What the user says about the columns of the input."""

from __future__ import annotations

import dataclasses
import fnmatch
import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from kerneltrack.errors import ConfigError
from kerneltrack.monitor.condition import Condition
from kerneltrack.number_texts import NAMES
from kerneltrack.settings import OneOf, Settings
from kerneltrack.time_units import UNITS

ONLY_MODEL = "all"
"""The model id of an input that has no model-id column."""

MISSING = ("fail", "drop", "hold")
AMBIGUOUS = ("fail", "earliest", "latest", "infer")
NONEXISTENT = ("fail", "shift")
LABEL_TYPES = ("string", "int64", "float64")
AUTO, NONE = ("auto",), ("none",)
"""Which columns are counters: those that the first rows show, or none."""

_WORDS = re.compile(r"(.+)=([^=,:]+),([^=,:]+)", re.DOTALL)
_UNIT = re.compile(r"(.+)=([^=]+)", re.DOTALL)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnOptions(Settings):
    """What the user says about the columns.

    `conditions` are columns that the condition of the reference is about, and whether it compares
    them with texts: those that are no channels are read for it alone.

    Raises:
        ConfigError: naming the field, the value and what is allowed.
    """

    model_id: Annotated[
        str | None,
        "Read each row's device from this column. Devices are texts or whole numbers. "
        "Without it, all rows belong to one device.",
    ] = None
    model_id_from: Annotated[
        str | None,
        OneOf(("path",)),
        """Take the device from the file's path. The device is the file's name without its
        ending, a folder's value (`device=north/`), or a group of --path-pattern: the one named
        device, or the only one.""",
    ] = None
    time: Annotated[
        Sequence[str] | str | None,
        """Read event times from this column. A date and a time of day may be in two columns.
        Without it, rows keep the order of files and lines.""",
    ] = None
    time_unit: Annotated[
        str | None,
        OneOf(tuple(UNITS)),
        """Unit of numeric times: since 1970, or as Excel, Excel on old Macs, MATLAB, Julian
        days, LabVIEW, NTP, Windows or .NET count. Without it: seconds; a file whose numbers
        look like another unit is refused.""",
    ] = None
    time_zone: Annotated[str, "IANA time zone of times that name none, such as Europe/Berlin."] = (
        "UTC"
    )
    time_format: Annotated[
        str | None,
        """Format of text times, or of whole numbers such as 20260301, as for Python's
        `strptime`. Without it: ISO 8601.""",
    ] = None
    time_ambiguous: Annotated[
        str,
        OneOf(AMBIGUOUS),
        """How to read a local time that occurs twice, when clocks are put back. "fail" sends the
        row to the failures, "earliest" takes the first, "latest" the second, "infer" decides
        by the order of rows in the file (a scan before the job).""",
    ] = "fail"
    time_nonexistent: Annotated[
        str,
        OneOf(NONEXISTENT),
        """How to read a local time that never occurs, when clocks are put forward. "fail" sends
        the row to the failures, "shift" takes the instant of the change.""",
    ] = "fail"
    sequence: Annotated[
        str | None, "Column of whole numbers that orders rows with equal times."
    ] = None
    label: Annotated[
        str | None,
        """Learn the labels in this column. Without it: the label that the format defines
        (LIBSVM, PAMAP2, `.npz` with y); "" for none.""",
    ] = None
    label_type: Annotated[
        str | None, OneOf(LABEL_TYPES), "Type of the labels. Without it: the type of their column."
    ] = None
    features: Annotated[
        Sequence[str] | None,
        """Use these columns as channels (inputs). Patterns such as `hand*` work. Without it: all
        other columns of numbers, and fixed-size lists of numbers.""",
    ] = None
    exclude: Annotated[
        Sequence[str], "Do not use these columns as channels. Patterns such as `hand*` work."
    ] = ()
    metric: Annotated[
        str | None,
        """Column with the name of the channel, in a long table (a row for each value). Rows of
        one device and time become one row. Its channels are those of --features, or else all
        metrics with numeric values, in the order of their names.""",
    ] = None
    value: Annotated[str | None, "Column with the value, in a long table."] = None
    words: Annotated[
        Sequence[str],
        """Read a channel of two words as 0 and 1, in this order. Without it: found in the first
        rows, for channels that --features names.""",
    ] = ()
    units: Annotated[
        Sequence[str],
        """Read a channel of numbers followed by this unit. Without it: found in the first rows.""",
    ] = ()
    counters: Annotated[
        Sequence[str],
        """Leave out these columns, which only count up (energy, pulses, uptime), unless
        --features names them. "auto" finds them: columns that never fall in the first rows of
        any device, except for resets, if there is a time column. "none" keeps all.""",
    ] = AUTO
    missing: Annotated[
        str,
        OneOf(MISSING),
        """Choose what happens to missing values. "fail" sends the row to the failures, "drop"
        leaves out channels with missing values (found by a scan before the job), "hold"
        repeats the device's last value (forward fill).""",
    ] = "fail"
    conditions: Sequence[tuple[str, bool]] = ()

    def resolve(self) -> None:
        """Take the name of a single column of times for a list of one."""
        if isinstance(self.time, str):
            self.replace("time", (self.time,) if self.time else None)

    @property
    def times(self) -> tuple[str, ...]:
        """Return the columns of event times: none, one, or those of date and time of day."""
        return tuple(self.time or ())

    def how_times(self) -> dict[str, str | None]:
        """Return how times are written: what a job that goes on with other rows has to know."""
        return {
            "format": self.time_format,
            "unit": self.unit,
            "zone": self.time_zone,
            "ambiguous": self.time_ambiguous,
            "nonexistent": self.time_nonexistent,
        }

    def check_together(self) -> None:
        """Check that settings agree; check zone and format of times."""
        words_of(self.words)
        units_of(self.units)
        if self.model_id is not None and self.model_id_from is not None:
            allowed = f"left out: the model id is the column {self.model_id!r}"
            raise ConfigError("model_id_from", self.model_id_from, allowed)
        if (self.metric is None) != (self.value is None):
            missing = "value" if self.value is None else "metric"
            allowed = "the column of values" if self.value is None else "the column of metrics"
            raise ConfigError(missing, None, f"{allowed}: a long table has both")
        if len(self.times) > 2:
            raise ConfigError("time", self.time, "one column, or those of date and time of day")
        if len(self.times) > 1 and self.time_unit is not None:
            allowed = "left out: dates and times of day have no unit"
            raise ConfigError("time_unit", self.time_unit, allowed)
        if self.metric is not None and self.missing == "drop":
            allowed = "fail or hold with a long table: its rows are not whole before the job"
            raise ConfigError("missing", "drop", allowed)
        if self.time_zone != "UTC":
            # Only where it is needed: Arrow's functions take longer to import than a look.
            from transforms.read.times import check_zone  # noqa: PLC0415

            if not check_zone(self.time_zone):
                allowed = "an IANA zone, such as Europe/Berlin"
                raise ConfigError("time_zone", self.time_zone, allowed)
        if self.time_format is not None:
            from transforms.read.time_formats import why_no_format  # noqa: PLC0415

            why = why_no_format(self.time_format)
            if why is not None:
                raise ConfigError("time_format", self.time_format, why)

    @property
    def unit(self) -> str:
        """Unit of times that are numbers, whether it was given or not."""
        return self.time_unit or "s"


def words_of(settings: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the two words of each column; `NAMES` for COLUMN=*, one whose texts are names.

    Raises:
        ConfigError: for a setting that is not COLUMN=ZERO,ONE.

    Example:
        >>> words_of(["valve=off,on"])
        {'valve': ('off', 'on')}
    """
    found: dict[str, tuple[str, ...]] = {}
    for text in settings:
        if len(text) > 2 and text.endswith("=*"):
            found[text[:-2]] = NAMES
            continue
        parts = _WORDS.fullmatch(text)
        if parts is None or parts[2].strip() == parts[3].strip():
            allowed = "COLUMN=ZERO,ONE: two words without comma, colon and equals sign"
            raise ConfigError("words", text, allowed)
        found[parts[1]] = (parts[2].strip(), parts[3].strip())
    return found


def with_mode(options: ColumnOptions, mode: str | None) -> ColumnOptions:
    """Return options with the column that says modes among the channels, its texts as names."""
    if mode is None:
        return options
    given: dict[str, Any] = {}
    if mode not in words_of(options.words):
        given["words"] = (*options.words, f"{mode}=*")
    features = options.features
    if features and not any(fnmatch.fnmatchcase(mode, each) for each in features):
        given["features"] = (*features, mode)
    if isinstance(options.counters, tuple):
        given["counters"] = tuple(each for each in options.counters if each != mode)
    return dataclasses.replace(options, **given)


def with_condition(options: ColumnOptions, condition: Condition | None) -> ColumnOptions:
    """Return options with the columns that a condition is about."""
    if condition is None:
        return options
    return dataclasses.replace(options, conditions=tuple(condition.columns.items()))


def units_of(settings: Iterable[str]) -> dict[str, str]:
    """Return the unit of each column.

    Raises:
        ConfigError: for a setting that is not COLUMN=UNIT.
    """
    found = {}
    for text in settings:
        parts = _UNIT.fullmatch(text)
        if parts is None or not parts[2].strip():
            raise ConfigError("units", text, "COLUMN=UNIT")
        found[parts[1]] = parts[2].strip()
    return found
