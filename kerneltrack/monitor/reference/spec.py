"""Settings of a reference."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, ClassVar

from kerneltrack.errors import ConfigError
from kerneltrack.monitor.clocks import UTC, WEEKDAYS, is_zone, weekday_of
from kerneltrack.monitor.condition import FIELD, Condition, read_condition
from kerneltrack.monitor.spans import Span, parse_moment, parse_span
from kerneltrack.settings import OneOf, Range, Words, is_place
from kerneltrack.specs import Spec
from kerneltrack.trackers.covariance.spec import CovarianceSpec

FIRST, GATED, AUTO = LEARNINGS = ("first", "gated", "auto")
DAY, WEEK, NO_SEASON = SEASONS = ("day", "week", "none")
HOURS = 24
"""Of a day."""
BLOCK = 128
"""Rows after which the reference learns, all at once."""
MOST_COLUMNS = 192
"""Embedded columns, at most: lags and means are fewer where there would be more."""
MOST_OWN_LAGS, OWN_COLUMNS = 5, 40
"""Lags where the spec names none: as many as make so many columns, and no more."""
MEMORIES = 2
"""Means over time that go along with a row (native/reference.c)."""
MOST_RATE = 0.1
"""False alarms a row, at most (native/reference.c)."""
LEAST_MEMORY, MOST_MEMORY = 1024, 10_000_000
"""Rows of a memory, at least and at most (native/reference_learning.c)."""
OWN_MEMORY = 4032
"""Rows of a memory that is a time, where rows have none (native/reference_learning.c)."""
NO_GAP, OWN_GAP = "none", "12 hours"
"""No gap counts; the one of a reference that moves."""
ACCEPTED, STEADY = "accepted", "steady"
"""States of episodes that are over: as the new normal; because the change has lasted."""
RECOVERED = "recovered"
"""Kind of an episode whose rows are as they were before the last change that lasted."""
SUDDEN_SPANS = 5
"""Spans of the second reference in which an episode by all rows must have grown: what takes longer
is for the second one to say."""
LEAST_SHARE = 0.05
"""A channel that explains less of an episode is not named."""
EVERY_ROW = "none"
"""No row is left out, or there is no second reference."""
SPANS = ("every", "also_every")
"""Fields that are spans of event time of which one row is judged."""
MOVING = ("memory", "season", "days_off", "zone", "causes", "mode", "max_modes", *SPANS)
"""Fields that only a reference that moves has."""
OWN_WINDOW = "auto"
"""A window as long as the device's own period."""
LEAST_WINDOW, MOST_WINDOW, MOST_OWN_WINDOW = 8, 512, 300
"""Rows of a window, at least and at most, and at most where the period is found."""
WINDOW_PART = 4
"""A window has at most one in so many of the rows that are learned unseen."""
SHAPE_NUMBERS, LEAST_SHAPE_ROWS = 8192, 1024
"""Numbers of rows whose shapes are kept, at most, but for so many rows."""
MEMORY = 8
"""Stretches that are remembered by a reference that goes on learning."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReferenceSpec(Spec):
    """Settings of a reference.

    Example:
        >>> ReferenceSpec(rows=1000, false_alarms=2).rate
        2e-06
    """

    role: ClassVar[str] = "reference"
    reference: ClassVar[str] = "reference"

    learning: Annotated[
        str,
        OneOf(LEARNINGS),
        """"first" keeps what the first rows showed. "gated" continues to learn from rows that
        are not odd. "auto" moves with `memory`, knows the hours of the day, and compares each
        channel with the others.""",
    ] = FIRST
    rows: Annotated[
        int,
        Range(2 * BLOCK, 10_000_000),
        "Number of first rows, taken as normal, that the reference is made from; with "
        "`until`, the fewest.",
    ] = 512
    until: Annotated[
        str | None,
        """Make the reference from all rows before this time (ISO 8601; UTC unless it names a
        zone), in whole blocks of 128. Devices with fewer than `rows` of them have no
        reference.""",
    ] = None
    lags: Annotated[
        int | None,
        Range(1, MOST_COLUMNS),
        """Lag window: number of consecutive rows compared together, in addition to moving means.
        None: 5, fewer above 8 channels, one above 20.""",
    ] = None
    window: Annotated[
        int | str | None,
        Range(LEAST_WINDOW, MOST_WINDOW),
        Words((OWN_WINDOW,)),
        """Window view: number of rows whose shape is also compared, with the shapes that the first
        rows had. For devices of one to three channels with a beat, such as a heartbeat.
        "auto": the device's own period, at least 32.""",
    ] = None
    ridge: Annotated[
        float,
        Range(1e-12, 1e6),
        """Ridge ρ added to the covariance of the embedded rows, as a part of its mean. Each channel
        has its own for a moving reference ("auto").""",
    ] = 0.01
    rank: Annotated[int, Range(1, 1000), "Dimension r of the reference's kernel subspace."] = 10
    budget: Annotated[
        int, Range(1, 10_000), "Number of rows B that the reference's kernel subspace stores."
    ] = 20
    drift: Annotated[
        float,
        Range(1, 100, "()"),
        "Evidence to ignore in each row, as -ln p (1 on average for normal rows). A smaller "
        "value finds smaller lasting changes, but large ones later.",
    ] = 1.5
    false_alarms: Annotated[
        float,
        Range(0, 1e6, "()"),
        "Accept this many false alarms per device in `per`, a number of rows or a time.",
    ] = 1.0
    per: Annotated[
        str | int,
        """Unit of `false_alarms`: rows (1000000 rows) or event time (30 days), at the pace of
        the device's rows while the reference was made.""",
    ] = "1000000 rows"

    memory: Annotated[
        str | int,
        """Memory of a moving reference ("auto"), in event time or rows (14 days, 4032 rows):
        rows count fully for this long, then fade. Episodes can open after one memory, p
        exists after `rows`. Without times: 4032 rows.""",
    ] = "14 days"
    season: Annotated[
        str,
        OneOf(SEASONS),
        """Let a moving reference know the hours of the day ("day"), those of days off by themselves
        ("week"), or none ("none").""",
    ] = DAY
    days_off: Annotated[
        str,
        """Weekdays, in English, whose hours a moving reference knows by themselves if `season` is
        "week", such as "friday saturday".""",
    ] = "saturday sunday"
    zone: Annotated[
        str,
        """IANA time zone of these hours, such as Europe/Berlin. Changes of the clock are
        included.""",
    ] = UTC
    causes: Annotated[
        Sequence[str | int],
        """Channels that explain others and are never blamed, such as the weather, by name or by
        position from 0. Only for a moving reference ("auto").""",
    ] = ()
    mode: Annotated[
        str | int | None,
        """Column that says which mode a device is in (idle, heating, cleaning), as text or a whole
        number. Each mode has a reference of its own; the column itself is never blamed. Only for
        a moving reference ("auto").""",
    ] = None
    max_modes: Annotated[
        int,
        Range(2, 64),
        "Number of modes a device can have, the first that it shows; rows of others have no p.",
    ] = 4
    only_while: Annotated[
        str | None,
        """Judge rows only while this condition holds, such as `state == "run" and rpm > 200`. Other
        rows, and those that lack one of its columns, are tracked, but not compared with the
        reference, nor learned by it.""",
    ] = None
    gap: Annotated[
        str | None,
        """Event time without rows, such as 12 hours, after which lags, moving means and evidence
        start over, if it is also longer than four usual steps; or "none". None: 12 hours for a
        moving reference ("auto"), else "none".""",
    ] = None
    every: Annotated[
        str | None,
        """Judge only the first row of each span of event time, such as 5 minutes. The others are
        tracked, but neither compared with the reference nor learned by it: for weeks of rows that
        come more often. Only for a moving reference ("auto"). None, or "none": judge all rows.""",
    ] = None
    also_every: Annotated[
        str | None,
        """Also judge the first row of each span of event time, such as 5 minutes, by a second
        reference, for weeks of rows that come more often: it knows what changes over hours. All
        rows say what is sudden; an episode that grew for longer than five spans is for the second
        one to say. Only for a moving reference ("auto"). None, or "none": there is no second
        reference.""",
    ] = None
    accept_after: Annotated[
        int | None,
        Range(BLOCK, 10**12),
        """Accept an episode as the new normal after this many rows, and make a new reference.
        None: it stays open.""",
    ] = None

    def resolve(self) -> None:
        """Take a bare number as one of rows; choose the gap."""
        for name in SPANS:
            if getattr(self, name) == EVERY_ROW:
                self.replace(name, None)
        if self.gap is None:
            self.replace("gap", OWN_GAP if self.moves else NO_GAP)
        for name in ("per", "memory"):
            value = getattr(self, name)
            number = str(value).strip()
            if not isinstance(value, bool) and number.isascii() and number.isdigit():
                self.replace(name, f"{int(number)} rows")

        if isinstance(self.causes, list):
            self.replace("causes", tuple(self.causes))

    def check_together(self) -> None:
        """Refuse a rate of more than an alarm in ten rows, and a budget below the rank."""
        rows = self.span.rows
        if rows is not None and self.false_alarms > MOST_RATE * rows:
            raise ConfigError("false_alarms", self.false_alarms, f"at most {MOST_RATE * rows:g}")
        if self.budget < self.rank:
            raise ConfigError("budget", self.budget, f"at least {self.rank}, the rank")
        if self.until is not None:
            parse_moment("until", self.until)
        for at, cause in enumerate(self.causes):
            is_named = is_place(cause) or (isinstance(cause, str) and cause)
            if not is_named or cause in self.causes[:at]:
                raise ConfigError("causes", cause, "names of channels or their places, each once")
        self._check_mode()
        if self.only_while is not None:
            read_condition(self.only_while)
        if self.gap != NO_GAP and parse_span("gap", str(self.gap)).time is None:
            raise ConfigError("gap", self.gap, "a time, 12 hours, or none")
        self._check_moving()
        self._check_window()

    def _check_window(self) -> None:
        """Refuse a window that the rows which are learned unseen are too few for."""
        if self.moves and self.window is not None and self.mode is not None:
            raise ConfigError("window", self.window, "left out with modes, which end windows")
        if self.moves:
            most, why = LEAST_SHAPE_ROWS // WINDOW_PART, "a quarter of the shortest memory"
        else:
            most = min(MOST_WINDOW, self.fit_rows // WINDOW_PART)
            why = f"with rows = {self.rows}: an eighth of them"
        if self.window_rows > most:
            raise ConfigError("window", self.window, f"at most {most}, {why}")

    def _check_mode(self) -> None:
        """Refuse a mode that is neither a name nor a place, or that is a cause."""
        mode = self.mode
        if mode == "":
            raise ConfigError("mode", mode, "the name of a column, or its place from 0")
        if mode is not None and mode in self.causes:
            raise ConfigError("mode", mode, "no cause: what a mode is like is known of each")

    def _check_moving(self) -> None:
        """Refuse what only a reference that moves has, or only one that does not."""
        memory = parse_span("memory", str(self.memory)).rows
        if memory is not None and not LEAST_MEMORY <= memory <= MOST_MEMORY:
            allowed = f"{LEAST_MEMORY} to {MOST_MEMORY} rows, or a time"
            raise ConfigError("memory", self.memory, allowed)
        if not self.moves:
            for name in MOVING:
                if getattr(self, name) != getattr(type(self), name):
                    allowed = f"left out unless the reference is {AUTO}"
                    raise ConfigError(name, getattr(self, name), allowed)
            return
        for name in SPANS:
            span = getattr(self, name)
            if span is not None and parse_span(name, str(span)).time is None:
                raise ConfigError(name, span, "a time, 5 minutes, or none")
        if None not in (self.every, self.also_every):
            allowed = "left out with every, by which no reference judges all rows"
            raise ConfigError("also_every", self.also_every, allowed)
        self._check_season()
        if not is_zone(self.zone):
            raise ConfigError("zone", self.zone, "a name of the time-zone data base, Europe/Berlin")
        for name in ("until", "accept_after"):
            if getattr(self, name) is not None:
                raise ConfigError(name, getattr(self, name), f"left out for {AUTO}, which moves")

    def _check_season(self) -> None:
        """Refuse days off that are no weekdays, all of them, or not known by themselves."""
        if self.season != WEEK and self.days_off != type(self).days_off:
            raise ConfigError("days_off", self.days_off, f"left out unless season is {WEEK}")
        try:
            days = [weekday_of(name) for name in self.days_off.split()]
        except ValueError:
            days = []
        if not 0 < len(days) == len(set(days)) < len(WEEKDAYS):
            raise ConfigError(
                "days_off", self.days_off, "one to six weekdays, each once: friday saturday"
            )

    @property
    def span(self) -> Span:
        """What `per` says."""
        return parse_span("per", str(self.per))

    @property
    def needs_times(self) -> bool:
        """Whether rows must have event times."""
        by_spans = any(getattr(self, name) is not None for name in SPANS)
        return self.until is not None or self.span.rows is None or by_spans

    @property
    def rate(self) -> float | None:
        """False alarms a row; None where it depends on the model's pace."""
        rows = self.span.rows
        return None if rows is None else self.false_alarms / rows

    @property
    def fit_rows(self) -> int:
        """Rows of the stretch that are learned before any is scored: whole blocks are left."""
        return self.rows - self.rows // 2 // BLOCK * BLOCK

    @property
    def moves(self) -> bool:
        """Whether the reference moves at the pace of its memory."""
        return self.learning == AUTO

    @property
    def gap_time(self) -> int:
        """Time without rows after which lags, means and evidence start over, ns; 0: none is."""
        return 0 if self.gap == NO_GAP else parse_span("gap", str(self.gap)).time or 0

    @property
    def zone_of_hours(self) -> str:
        """Zone whose clocks say which hour of the day a row is of; UTC where hours do not count."""
        return self.zone if self.moves and self.season != NO_SEASON else UTC

    @property
    def off_bits(self) -> int:
        """Weekdays whose hours are known by themselves, a bit each from Monday on."""
        return sum(1 << weekday_of(name) for name in self.days_off.split() if self.season == WEEK)

    @property
    def hours(self) -> int:
        """Hours that are known, each of its own: of a day, or of a day and of a day off."""
        return 2 * HOURS if self.season == WEEK else HOURS

    @property
    def memory_span(self) -> Span:
        """How long rows count fully in what is learned: rows, or a time."""
        if self.moves:
            return parse_span("memory", str(self.memory))
        return Span(MEMORY * self.rows, None)

    def streams_for(self, width: int) -> int:
        """Return the streams of scores that a reference of D channels which moves has, else 0."""
        return 2 * width + 4 + bool(self.window_rows) if self.moves else 0

    @property
    def modes(self) -> int:
        """Modes that a state has room for; 0 where no column says them."""
        return 0 if self.mode is None else self.max_modes

    @functools.cached_property
    def _plain(self) -> dict[str, Any]:
        """What `to_dict` returns: without a condition, window or span, states say nothing of it."""
        plain = dict(super()._plain)
        for name in ("only_while", "window", *SPANS):
            if getattr(self, name) is None:
                del plain[name]
        return plain

    @property
    def condition(self) -> Condition | None:
        """The condition while which rows are judged; None: they always are."""
        return None if self.only_while is None else read_condition(self.only_while)

    @property
    def unseen(self) -> tuple[int, ...]:
        """Places of the columns that nothing but the condition sees."""
        return () if self.condition is None else self.condition.alone

    @property
    def every_time(self) -> int:
        """Event time of which one row is judged, ns; 0: all rows are."""
        return 0 if self.every is None else parse_span("every", self.every).time or 0

    @functools.cached_property
    def second(self) -> ReferenceSpec | None:
        """What the second reference is, of which each span's first row is judged; None: none is.

        It has no view of windows: what shape rows have in a short time it cannot see.
        """
        if self.also_every is None:
            return None
        return dataclasses.replace(self, every=self.also_every, also_every=None, window=None)

    @functools.cached_property
    def first(self) -> ReferenceSpec:
        """What the reference of all rows is, without a second one."""
        return dataclasses.replace(self, also_every=None)

    @property
    def sudden_time(self) -> int:
        """How long an episode by all rows may grow until it opens, ns; 0 without a second one."""
        return 0 if self.second is None else SUDDEN_SPANS * self.second.every_time

    def refuse_choice(self) -> None:
        """Refuse what leaves rows out, where all are judged.

        Raises:
            ConfigError: for a condition, a span of which one row is judged, or a second reference.
        """
        for name in (FIELD, *SPANS):
            if getattr(self, name) is not None:
                allowed = "left out here, where all rows are judged: a job or a Fleet takes it"
                raise ConfigError(name, getattr(self, name), allowed)

    @property
    def names_channels(self) -> bool:
        """Whether channels are given, by name or place."""
        return bool(self.causes or self.modes or self.only_while)

    def placed(
        self,
        channels: Sequence[str],
        words: Mapping[str, Sequence[str]] | None = None,
        unseen: Collection[str] = (),
    ) -> ReferenceSpec:
        """Return the spec with places of channels in place of all names.

        Args:
            channels: The channels, in order.
            words: Of channels of two words the one that is 0 and the one that is 1; `NAMES` for
                one whose texts are names.
            unseen: Those that nothing but the condition sees.

        Raises:
            ConfigError: for one that is no channel, or where no channel is left.
        """
        for cause in self.causes:
            if isinstance(cause, str) and cause not in channels:
                raise ConfigError("causes", cause, f"among the channels: {', '.join(channels)}")
        places = [c if isinstance(c, int) else list(channels).index(c) for c in self.causes]
        mode = self.mode
        if isinstance(mode, str):
            if mode not in channels:
                raise ConfigError("mode", mode, f"among the channels: {', '.join(channels)}")
            mode = list(channels).index(mode)
        text = None if self.condition is None else self.condition.placed(channels, words, unseen)
        spec = dataclasses.replace(self, causes=tuple(sorted(places)), mode=mode, only_while=text)
        spec.given_for(len(channels))
        return spec

    def given_for(self, width: int) -> tuple[int, ...]:
        """Return the places of what is never blamed among D channels.

        These are causes, columns that nothing but the condition sees, and the mode.

        Raises:
            ConfigError: for one that is beyond them, or given by name, or where nothing is left.
        """
        places, mode = self.causes_for(width), self.mode
        if self.condition is not None:
            self.condition.check_width(width)
            places = (*places, *(place for place in self.unseen if place not in (*places, mode)))
        if mode is not None:
            if not isinstance(mode, int) or mode >= width:
                raise ConfigError("mode", mode, f"the place of a channel, 0 to {width - 1}")
            places = (*places, mode)
        if len(places) == width:
            field = "mode" if mode is not None else FIELD
            allowed = f"of more than {width} channels: one is watched"
            raise ConfigError(field, mode if mode is not None else self.only_while, allowed)
        return places

    def causes_for(self, width: int) -> tuple[int, ...]:
        """Return the places of the causes among D channels.

        Raises:
            ConfigError: for one that is beyond them, or given by name, or where all are causes.
        """
        places = []
        for cause in self.causes:
            if not isinstance(cause, int) or cause >= width:
                raise ConfigError("causes", cause, f"places of channels, 0 to {width - 1}")
            places.append(cause)
        if places and len(places) == width:
            raise ConfigError("causes", f"all {width} channels", "fewer: one is to be watched")
        return tuple(places)

    def lags_for(self, width: int) -> int:
        """Return the lags of rows with D channels."""
        lags = min(MOST_OWN_LAGS, OWN_COLUMNS // width) if self.lags is None else self.lags
        return max(1, min(lags, MOST_COLUMNS // width - MEMORIES))

    @property
    def window_rows(self) -> int:
        """Rows of a window; 0 where there are none, -1 where the device's period says how many."""
        if self.window is None:
            return 0
        return self.window if isinstance(self.window, int) else -1

    @property
    def most_window(self) -> int:
        """Rows of a window, at most."""
        return MOST_OWN_WINDOW if self.window_rows < 0 else self.window_rows

    def shapes_for(self, width: int) -> int:
        """Return how many rows of D channels are kept for their shapes, at most."""
        if not self.window_rows:
            return 0
        most = max(SHAPE_NUMBERS // width, LEAST_SHAPE_ROWS)
        return most if self.moves else min(self.fit_rows, most)

    def memories_for(self, width: int) -> int:
        """Return how many means over time are kept for rows of D channels."""
        return max(0, min(MEMORIES, MOST_COLUMNS // width - 1))

    @property
    def kernel(self) -> CovarianceSpec:
        """The kernel subspace's own spec."""
        return CovarianceSpec(
            rank=self.rank,
            budget=self.budget,
            standardise=False,
            admission="leverage",
            admission_rate=0.1,
            halflife=float(MEMORY * self.rows) if self.learning == GATED else None,
        )
