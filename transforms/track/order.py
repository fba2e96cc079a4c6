"""How a model's rows are put in order."""

from __future__ import annotations

import dataclasses
import math
from functools import cached_property
from typing import Annotated

from kerneltrack.errors import ConfigError
from kerneltrack.jump_limits import JUMP_ROWS, MOST_JUMP_ROWS
from kerneltrack.settings import OneOf, Range, Settings
from kerneltrack.time_units import nanoseconds

LEAST_FLUSH = 0.1
MOST_FLUSH = 86_400.0
KEEP, DROP, MERGE = "keep", "drop", "merge"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Order(Settings):
    """How a model's rows are put in order; times are seconds."""

    max_disorder: Annotated[
        float,
        Range(0, math.inf),
        """How late a row may come, in event time, compared with the newest row of its device;
        later rows are late data. Rows wait this long for earlier ones. 0: rows are processed
        in the order of arrival. Infinity (bounded inputs only): all rows wait for the end of
        the input.""",
    ] = math.inf
    max_jump: Annotated[
        float,
        Range(0, math.inf),
        """How far a row may be ahead of the newest row of its device. Rows further ahead wait
        until `jump_rows` of them agree: then the device continues there, for example after a
        silence. Fewer are refused, so that a wrong clock cannot make the other rows late. A
        value below `max_disorder` counts as `max_disorder`. Infinity: no limit.""",
    ] = math.inf
    jump_rows: Annotated[
        int,
        Range(1, MOST_JUMP_ROWS),
        """Number of rows, each within `max_jump` of the next, that confirm a jump in a device's
        time, and the time of its first rows.""",
    ] = JUMP_ROWS
    hold_for: Annotated[
        float | None,
        Range(0, math.inf),
        """Forward fill: how long a channel's last value replaces a missing one. None: rows with
        missing values are refused.""",
    ] = None
    idle_flush: Annotated[
        float | None,
        Range(LEAST_FLUSH, MOST_FLUSH),
        """Time on the worker's own clock after which waiting rows are processed although no
        newer ones have come; earlier rows that come later are late data. None: they wait for
        newer rows or the end of the input. Once this happens, results depend on when rows
        came.""",
    ] = None
    duplicates: Annotated[
        str,
        OneOf((KEEP, DROP, MERGE)),
        """Choose what happens to rows of a device with the same time (and the same sequence, if
        there is one). "keep" takes all, "drop" takes only the first by source and row,
        "merge" makes one row of all rows with the same time, whatever their sequence, with
        the last value given for each channel. They wait together until their time has come,
        so the result does not depend on when they came; a row that comes later is late data.""",
    ] = KEEP

    def check_together(self) -> None:
        """Refuse what rows that do not wait cannot have."""
        if self.duplicates != KEEP and self.max_disorder == 0:
            allowed = f"{KEEP} where max_disorder is 0: no row waits"
            raise ConfigError("duplicates", self.duplicates, allowed)
        if self.idle_flush is not None and self.waits_for_end:
            allowed = "a finite number of seconds where idle_flush is set"
            raise ConfigError("max_disorder", self.max_disorder, allowed)

    @cached_property
    def wait(self) -> int:
        """How long rows wait for earlier ones, ns."""
        return nanoseconds(self.max_disorder)

    @cached_property
    def longest_step(self) -> int:
        """`max_jump`, ns, or `max_disorder` if rows wait for longer than that."""
        if self.waits_for_end:
            return nanoseconds(self.max_jump)
        return max(nanoseconds(self.max_jump), self.wait)

    @property
    def waits_for_end(self) -> bool:
        """Whether rows are only put in order once all have come."""
        return self.max_disorder == math.inf

    @property
    def unconfirmed(self) -> str:
        """Why a row ahead is refused; or, where none is, one from before its device was reset."""
        if not self.confirms:
            return (
                f"its time is more than max_disorder = {self.max_disorder:g} s after that of the "
                "device's first row since it was reset"
            )
        return (
            f"its time is more than max_jump = {self.max_jump:g} s from the device's other rows, "
            f"and fewer than jump_rows = {self.jump_rows} rows agree on it"
        )

    @property
    def confirms(self) -> bool:
        """Whether a model's rows confirm its time; else each row is believed."""
        return self.max_jump < math.inf
