"""What the user says about the columns of the input."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import Annotated

from kerneltrack.errors import ConfigError
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

    Raises:
        ConfigError: naming the field, the value and what is allowed.
    """

    model_id: Annotated[
        str | None, "Column of model ids (texts or whole numbers); without: one model."
    ] = None
    model_id_from: Annotated[
        str | None,
        OneOf(("path",)),
        """Where model ids come from if there is no column of them: "path" takes the file's name
        without its ending, or the partition's (`device=north/`), or the group of the path's pattern
        that is called device, or the only one.""",
    ] = None
    time: Annotated[
        Sequence[str] | str | None,
        """Column of event times, or two, of the date and the time of day; without: rows are in the
        order of file and row.""",
    ] = None
    time_unit: Annotated[
        str | None,
        OneOf(tuple(UNITS)),
        """Unit of times that are numbers: since 1970, or of Excel, Excel on old Macs, MATLAB,
        Julian days, LabVIEW, NTP, Windows or .NET. Without: seconds, and a file whose numbers look
        like another unit is refused.""",
    ] = None
    time_zone: Annotated[str, "IANA zone of times that do not name theirs."] = "UTC"
    time_format: Annotated[
        str | None,
        """Format of times that are texts, or whole numbers such as 20260301, for `strptime`;
        without: ISO 8601.""",
    ] = None
    time_ambiguous: Annotated[
        str,
        OneOf(AMBIGUOUS),
        """How to read a local time that occurs twice, when clocks are put back: "fail": the row
        goes to the failures; "earliest": the first; "latest": the second; "infer": by the order of
        rows in their file, found by a scan before the job.""",
    ] = "fail"
    time_nonexistent: Annotated[
        str,
        OneOf(NONEXISTENT),
        """How to read a local time that never occurs, when clocks are put forward: "fail": the row
        goes to the failures; "shift": the instant at which they were.""",
    ] = "fail"
    sequence: Annotated[str | None, "Column of whole numbers that orders rows of equal time."] = (
        None
    )
    label: Annotated[
        str | None,
        """Column of labels, classes or targets. Without: what the format says (LIBSVM, PAMAP2,
        `.npz` with y); "": none.""",
    ] = None
    label_type: Annotated[
        str | None, OneOf(LABEL_TYPES), "Type of the labels; without: that of their column."
    ] = None
    features: Annotated[
        Sequence[str] | None,
        """Feature columns, patterns such as `hand*` among them; without: all other columns of
        numbers and of fixed-size lists of numbers.""",
    ] = None
    exclude: Annotated[Sequence[str], "Columns, or patterns, that are not features."] = ()
    metric: Annotated[
        str | None,
        """Column of the names of channels, in a long table: a row for each value. Rows of one
        device and time become one, of which --features are the channels; without, all metrics
        whose values are numbers, in the order of their names.""",
    ] = None
    value: Annotated[str | None, "Column of the values, in a long table."] = None
    words: Annotated[
        Sequence[str],
        """COLUMN=ZERO,ONE: a feature of two words, and which is 0 and which 1. Without: found by
        the first rows, of features that are named.""",
    ] = ()
    units: Annotated[
        Sequence[str],
        """COLUMN=UNIT: a feature whose numbers are texts with this after each. Without: found by
        the first rows.""",
    ] = ()
    counters: Annotated[
        Sequence[str],
        """Columns that count up (energy, pulses, uptime): they are left out unless `features` names
        them. "auto": those that never fall in the first rows of any model, but for resets, where
        there is a column of times; "none": there is none.""",
    ] = AUTO
    missing: Annotated[
        str,
        OneOf(MISSING),
        """What becomes of missing features: "fail": the row goes to the failures; "drop": a channel
        that is missing in any row is left out, found by a scan before the job; "hold": the last
        value of the model's channel stands in for it (forward fill).""",
    ] = "fail"

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
        """Check that what is said goes together; check zone and format of times."""
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


def words_of(settings: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return the two words of each column.

    Raises:
        ConfigError: for a setting that is not COLUMN=ZERO,ONE.

    Example:
        >>> words_of(["valve=off,on"])
        {'valve': ('off', 'on')}
    """
    found = {}
    for text in settings:
        parts = _WORDS.fullmatch(text)
        if parts is None or parts[2].strip() == parts[3].strip():
            allowed = "COLUMN=ZERO,ONE: two words without comma, colon and equals sign"
            raise ConfigError("words", text, allowed)
        found[parts[1]] = (parts[2].strip(), parts[3].strip())
    return found


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
