"""What the user says about the columns of the input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

import pyarrow as pa

from kerneltrack.errors import ConfigError
from transforms.read.times import UNITS, check_zone

MISSING = ("fail", "drop", "hold")
"""What to do with missing values."""

AMBIGUOUS = ("fail", "earliest", "latest", "infer")
"""What to do with local times that come twice."""

NONEXISTENT = ("fail", "shift")
"""What to do with local times that never come."""

LABEL_TYPES = {"string": pa.string(), "int64": pa.int64(), "float64": pa.float64()}


@dataclass(frozen=True)
class ColumnOptions:
    """What the user says about the columns.

    Attributes:
        model_id: Column of model ids (texts or whole numbers); None: one model.
        time: Column of times; None: no time but the file and row number.
        time_unit: Unit of times that are numbers: "s", "ms", "us" or "ns".
        time_zone: IANA zone of times that do not say theirs.
        time_format: Format of times that are texts, for `strptime`; None: ISO 8601.
        time_ambiguous: A local time that comes twice, since clocks were put back: "fail": to the
            failures; "earliest": it is the first; "latest": the second; "infer": by the order of
            rows in their file (see `transforms.read.local_times`), found by a scan at launch.
        time_nonexistent: A local time that never comes, since clocks were put forward: "fail": to
            the failures; "shift": it is the instant at which they were.
        sequence: Column of whole numbers that orders rows of equal time.
        label: Column of labels. None: what the format says (LIBSVM, PAMAP2, `.npz` with y);
            "": none.
        label_type: "string", "int64" or "float64"; None: by the column's type.
        features: Feature columns, patterns such as `hand*` among them; None: all other columns of
            numbers and of fixed-size lists of numbers; an empty tuple: none (labels alone).
        exclude: Columns (or patterns) that are no features.
        missing: "fail": a row with a missing feature goes to the failures. "drop": a channel that
            is missing in any row is left out, found by a scan at launch. "hold": missing values
            go on as NaN, for the tracker to fill.

    Raises:
        ConfigError: naming the field, the value and what is allowed.
    """

    model_id: str | None = None
    time: str | None = None
    time_unit: str = "s"
    time_zone: str = "UTC"
    time_format: str | None = None
    time_ambiguous: str = "fail"
    time_nonexistent: str = "fail"
    sequence: str | None = None
    label: str | None = None
    label_type: str | None = None
    features: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    missing: str = "fail"

    def __post_init__(self) -> None:
        """Check every field."""
        if self.time_unit not in UNITS:
            raise ConfigError("time_unit", self.time_unit, f"one of {', '.join(UNITS)}")
        if not check_zone(self.time_zone):
            raise ConfigError("time_zone", self.time_zone, "an IANA zone, such as Europe/Berlin")
        if self.time_format is not None and not _is_format(self.time_format):
            raise ConfigError("time_format", self.time_format, "a format that strptime can read")
        for name, allowed in (("time_ambiguous", AMBIGUOUS), ("time_nonexistent", NONEXISTENT)):
            if getattr(self, name) not in allowed:
                raise ConfigError(name, getattr(self, name), f"one of {', '.join(allowed)}")
        if self.label_type not in (None, *LABEL_TYPES):
            raise ConfigError("label_type", self.label_type, f"one of {', '.join(LABEL_TYPES)}")
        if self.missing not in MISSING:
            raise ConfigError("missing", self.missing, f"one of {', '.join(MISSING)}")
        for field in ("features", "exclude"):
            if isinstance(getattr(self, field), str):
                raise ConfigError(field, getattr(self, field), "a list of column names")


def _is_format(text: str) -> bool:
    moment = datetime(2001, 2, 3, 4, 5, 6, tzinfo=timezone.utc)
    try:
        datetime.strptime(moment.strftime(text), text)
    except (ValueError, UnicodeError):
        return False
    return "%" in text
