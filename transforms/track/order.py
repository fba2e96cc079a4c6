"""How a model's rows are put in order."""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated

from kerneltrack.errors import ConfigError
from kerneltrack.jump_limits import JUMP_ROWS, MOST_JUMP_ROWS
from kerneltrack.settings import OneOf, Range, Settings

LEAST_FLUSH = 0.1
MOST_FLUSH = 86_400.0
KEEP, DROP, MERGE = "keep", "drop", "merge"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Order(Settings):
    """How a model's rows are put in order; times are seconds."""

    max_disorder: Annotated[
        float,
        Range(0, math.inf),
        """How long a row may come behind the newest one of its model; one that comes later is late
        data. Rows wait that long, in event time, for earlier ones. 0: rows are taken in order of
        arrival. Infinity (bounded inputs only): all rows wait for the end of the input.""",
    ] = math.inf
    max_jump: Annotated[
        float,
        Range(0, math.inf),
        """How far a row may be ahead of the newest one of its model. Rows further ahead wait until
        as many as `jump_rows` agree: the model goes on there, after a silence for one. Fewer are
        refused, so that a wild clock cannot make the rest late. Less than `max_disorder` counts as
        that. Infinity: any.""",
    ] = math.inf
    jump_rows: Annotated[
        int,
        Range(1, MOST_JUMP_ROWS),
        """Rows, each within `max_jump` of the next, that confirm a jump of a model's time by more
        than that, and the time of its first rows.""",
    ] = JUMP_ROWS
    hold_for: Annotated[
        float | None,
        Range(0, math.inf),
        """Forward fill: how long a channel's last value stands in for a missing one; None: rows
        with missing values are refused.""",
    ] = None
    idle_flush: Annotated[
        float | None,
        Range(LEAST_FLUSH, MOST_FLUSH),
        """Time of the worker's own clock after which the rows that wait are taken although no newer
        ones have come; what comes of that time later is late data. None: they wait for newer rows,
        or the end of the input. Where this happens results depend on when rows came.""",
    ] = None
    duplicates: Annotated[
        str,
        OneOf((KEEP, DROP, MERGE)),
        """What becomes of rows of a model's that have the time, and the sequence if there is one,
        of another: "keep": all are taken; "drop": only the first by source and row; "merge": those
        of one time, whatever their sequence, become one row, which has of each channel the last
        value that one of them gives. All of them wait together until their time has come, so which
        ones are found does not depend on when they came; one that comes later is late data.""",
    ] = KEEP

    def check_together(self) -> None:
        """Refuse what rows that do not wait cannot have."""
        if self.duplicates != KEEP and self.max_disorder == 0:
            allowed = f"{KEEP} where max_disorder is 0: no row waits"
            raise ConfigError("duplicates", self.duplicates, allowed)
        if self.idle_flush is not None and self.waits_for_end:
            allowed = "a finite number of seconds where idle_flush is set"
            raise ConfigError("max_disorder", self.max_disorder, allowed)

    @property
    def waits_for_end(self) -> bool:
        """Whether rows are only put in order once all have come."""
        return self.max_disorder == math.inf

    @property
    def unconfirmed(self) -> str:
        """Why a row ahead is refused."""
        return (
            f"its time is more than max_jump = {self.max_jump:g} s from the device's other rows, "
            f"and fewer than jump_rows = {self.jump_rows} rows agree on it"
        )

    @property
    def confirms(self) -> bool:
        """Whether a model's rows confirm its time; else each row is believed."""
        return self.max_jump < math.inf
