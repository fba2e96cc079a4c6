"""What the columns of a fleet's frames are and how their values are read, from call to call."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import narwhals as nw

from kerneltrack.errors import ConfigError
from kerneltrack.frames.long_table import widen
from kerneltrack.frames.model import Specs
from kerneltrack.frames.names import name_of
from kerneltrack.frames.table import (
    PLAIN,
    Frame,
    FrameColumns,
    TableRows,
    choose_columns,
    frame_of,
    index_name,
    like_of,
    listed,
    read_rows,
)
from kerneltrack.number_texts import NAMES, NumberTexts
from kerneltrack.time_units import NANOSECONDS

_OF_TEXTS = ("words", "units", "thousands", "decimal")


class Asked(NamedTuple):
    """What a call names; None: as before."""

    model_id: Any = None
    time: Any = None
    label: Any = None
    features: Any = None
    time_unit: str | None = None
    metric: Any = None
    value: Any = None
    words: Any = None
    units: Any = None
    thousands: Any = None
    decimal: Any = None
    wait: Any = None


class KnownModels(NamedTuple):
    """What the models that are there say of their rows.

    Attributes:
        width: How many channels they have; None: there are no models.
        timed: Whether any has times.
    """

    width: int | None
    timed: bool


class ReadFrame(NamedTuple):
    """A frame that was read.

    Attributes:
        frame: With the columns that are asked for.
        columns: What they are.
        rows: Its rows.
        unseen: Columns that nothing but the reference's condition sees.
        reading: What holds for later calls.
    """

    frame: Frame
    columns: FrameColumns
    rows: TableRows
    unseen: list[str]
    reading: FrameReading


@dataclass(frozen=True)
class FrameReading:
    """What the calls so far have named; it holds for those that follow.

    Attributes:
        columns: What each column is; None before the first frame.
        unit: Unit of times that are numbers; None: there were none.
        zone: Zone of times without one.
        zoned: Whether datetimes had a zone; None: there were none.
        texts: How texts of channels are read.
        wait: Whether rows of new models wait for the warm-up.
        of_job: Whether it is of a job's files, whose names need not be a frame's.
    """

    columns: FrameColumns | None = None
    unit: str | None = None
    zone: str = "UTC"
    zoned: bool | None = None
    texts: NumberTexts = PLAIN
    wait: bool = False
    of_job: bool = False

    def read(
        self, df: Any, asked: Asked, specs: Specs, models: KnownModels, labelled: bool = True
    ) -> ReadFrame:
        """Read a frame.

        Args:
            df: The frame.
            asked: What the call names.
            specs: Settings of the models.
            models: Those that are there.
            labelled: Whether its labels are learned; else it may lack them.

        Raises:
            ConfigError: naming the column or argument that is wrong.
        """
        wait = self._wait_of(asked)
        texts = self._texts_of(asked, _mode_of(specs))
        asked = self._settled(df, asked, models)
        others = [name for name in (asked.model_id, asked.label) if name is not None]
        found = frame_of(df, asked.time, tuple(others))
        frame = found.frame
        if not labelled and asked.label is not None and asked.label not in frame.columns:
            asked = asked._replace(label=None)
        features, long = asked.features, (asked.metric, asked.value)
        # Later frames may be wide as well.
        known = self.columns
        is_long = known is None or known.metric is None or known.metric in frame.columns
        if long != (None, None) and is_long:
            table = FrameColumns(asked.model_id, asked.time, asked.label, (), *long)
            frame = widen(frame, table, features, texts)
            found = found._replace(frame=frame)
            features = [name for name in frame.columns if name not in table.named]
        _check_mode(_mode_of(specs), list(frame.columns), features)
        columns = choose_columns(frame, asked.model_id, asked.time, asked.label, features, texts)
        columns, texts, unseen = _with_condition(specs, list(frame.columns), columns, texts)
        columns = columns._replace(metric=asked.metric, value=asked.value)
        self._check_channels(columns, models.width)
        if labelled and asked.label is not None and specs.learner is None:
            allowed = "left out without a learner: Fleet(learner='ridge')"
            raise ConfigError("label", asked.label, allowed)
        _check_timed(columns, specs, models)
        kind = None if columns.time is None else frame.get_column(columns.time).dtype
        zoned = bool(kind.time_zone) if isinstance(kind, nw.Datetime) else None
        self._check_zoned(columns.time, zoned)
        if self.zone != "UTC" and kind is not None and kind.is_temporal():
            if like_of(found, columns.time).zone is None:
                allowed = f"datetimes with a zone: the job read them in {self.zone}"
                raise ConfigError(f"column {columns.time!r}", str(kind), allowed)
        classes = specs.learner is None or bool(specs.learner.classifies)
        rows = read_rows(frame, columns, asked.time_unit, classes=classes, texts=texts)
        numbers = kind is not None and kind.is_numeric()
        after = dataclasses.replace(
            self,
            columns=columns,
            texts=texts,
            zoned=self.zoned if zoned is None else zoned,
            unit=(asked.time_unit or "s") if numbers else self.unit,
            wait=wait,
            of_job=False,
        )
        return ReadFrame(found, columns, rows, unseen, after)

    @property
    def _is_settled(self) -> bool:
        return self.columns is not None and not self.of_job

    def _wait_of(self, asked: Asked) -> bool:
        """Return whether new models wait, by a call and those before it.

        Raises:
            ConfigError: where the two contradict each other.
        """
        wait: Any = asked.wait
        if wait is None:
            return self.wait
        if not isinstance(wait, bool):
            raise ConfigError("wait", wait, "True or False")
        if self._is_settled and wait != self.wait:
            raise ConfigError("wait", wait, f"{self.wait}, as in the first call")
        return wait

    def _settled(self, df: Any, asked: Asked, models: KnownModels) -> Asked:
        """Return what a call names together with what the calls before it named.

        Raises:
            ConfigError: where the two contradict each other.
        """
        if asked.time is True:
            name = index_name(df)
            if name is None:
                raise ConfigError("time", True, "a column's name: the frame's index has no times")
            asked = asked._replace(time=name)
        names: dict[str, str | None] = {}
        for field in ("model_id", "time", "label", "metric", "value"):
            given = getattr(asked, field)
            before = None if self.columns is None else getattr(self.columns, field)
            names[field] = before if given is None else name_of(field, given)
            if given is None or self.columns is None or names[field] == before:
                continue
            if self.of_job and before is not None:
                continue
            if before is not None:
                raise ConfigError(field, given, f"{before!r}, as in the first call")
            if field in ("model_id", "time") and models.width is not None:
                raise ConfigError(field, given, "left out, as in the first call")
        return asked._replace(
            **names, features=self._channels_of(asked), time_unit=self._unit_of(asked)
        )

    def _unit_of(self, asked: Asked) -> str | None:
        unit: Any = asked.time_unit
        if unit is None:
            return self.unit
        if not isinstance(unit, str) or unit not in NANOSECONDS:
            raise ConfigError("time_unit", unit, f"one of {', '.join(NANOSECONDS)}")
        if self.unit not in (None, unit):
            raise ConfigError("time_unit", unit, f"{self.unit!r}, as in the first call")
        return str(unit)

    def _texts_of(self, asked: Asked, mode: object) -> NumberTexts:
        """Return how texts are read, by a call and those before it.

        Raises:
            ConfigError: where the two contradict each other.
        """
        given = {
            name: getattr(asked, name) for name in _OF_TEXTS if getattr(asked, name) is not None
        }
        texts = dataclasses.replace(self.texts, **given) if given else self.texts
        if isinstance(mode, str) and mode not in texts.words:
            texts = dataclasses.replace(texts, words={**texts.words, mode: NAMES})
        for name in given if self._is_settled else ():
            before, now = getattr(self.texts, name), getattr(texts, name)
            if now != before:
                raise ConfigError(name, now, f"{before!r}, as in the first call")
        return texts

    def _channels_of(self, asked: Asked) -> tuple[str, ...] | None:
        if asked.features is None:
            return None if self.columns is None else self.columns.features
        names = [asked.features] if isinstance(asked.features, str) else asked.features
        try:
            return tuple(name_of("features", name) for name in names)
        except TypeError as error:
            raise ConfigError("features", asked.features, "names of columns") from error

    def _check_channels(self, columns: FrameColumns, width: int | None) -> None:
        """Check that channels are those of the models.

        Raises:
            ConfigError: if they are not.
        """
        known = self.columns
        if known is not None and columns.features != known.features:
            missing = [name for name in known.features if name not in columns.features]
            wrong = ", ".join(missing or columns.features)
            allowed = f"the channels that the models have: {', '.join(known.features)}"
            raise ConfigError("features", wrong, allowed)
        if width is not None and len(columns.features) != width:
            allowed = f"{width}, as the models have; name them by `features`"
            shown = f"{len(columns.features)}: {', '.join(columns.features)}"
            raise ConfigError("number of features", shown, allowed)

    def _check_zoned(self, time: str | None, zoned: bool | None) -> None:
        """Check that datetimes have a zone if those of earlier calls had one, and none if not.

        Raises:
            ConfigError: if they do not: times without a zone are UTC, and would shift by hours.
        """
        if zoned is None or self.zoned in (None, zoned):
            return
        field = f"column {time!r}"
        if self.zoned:
            allowed = (
                "datetimes with a zone, as in earlier calls: "
                f"in pandas df[{time!r}].dt.tz_localize('Europe/Berlin'), say"
            )
            raise ConfigError(field, "datetimes without a zone", allowed)
        allowed = (
            "datetimes without a zone, as in earlier calls, which were read as UTC: "
            f"in pandas df[{time!r}].dt.tz_convert('UTC').dt.tz_localize(None)"
        )
        raise ConfigError(field, "datetimes with a zone", allowed)


def _mode_of(specs: Specs) -> str | int | None:
    return None if specs.reference is None else specs.reference.mode


def _check_mode(
    mode: str | int | None, names: Sequence[str], features: Sequence[str] | None
) -> None:
    """Check that the reference's mode is a channel.

    Raises:
        ConfigError: if it is not.
    """
    if not isinstance(mode, str):
        return
    if mode not in names:
        raise ConfigError("mode", mode, f"a column of the frame: {listed(names)}")
    if features is not None and mode not in features:
        raise ConfigError("mode", mode, f"among the features: {listed(features)}")


def _with_condition(
    specs: Specs, names: Sequence[str], columns: FrameColumns, texts: NumberTexts
) -> tuple[FrameColumns, NumberTexts, list[str]]:
    """Return the columns with those that the condition is about, which may be no channels.

    Returns:
        The columns, how their texts are read, and those that nothing but the condition sees.

    Raises:
        ConfigError: for one that the frame does not have, or that has another meaning.
    """
    condition = None if specs.reference is None else specs.reference.condition
    if condition is None:
        return columns, texts, []
    asked = condition.columns
    unseen = [name for name in asked if name not in columns.features]
    for name in unseen:
        if name not in names:
            raise condition.error_at(name, f"{name} is no column: {listed(names)}")
        if name in (columns.model_id, columns.time, columns.label):
            raise condition.error_at(name, f"{name} has another meaning")
    words = {**texts.words, **{name: NAMES for name in unseen if asked[name]}}
    columns = columns._replace(features=(*columns.features, *unseen))
    return columns, dataclasses.replace(texts, words=words), unseen


def _check_timed(columns: FrameColumns, specs: Specs, models: KnownModels) -> None:
    """Check that there are times where settings or models have them.

    Raises:
        ConfigError: if there are none.
    """
    if columns.time is not None:
        return
    by_times = specs.reference is not None and specs.reference.needs_times
    if specs.tracker.needs_times or by_times:
        raise ConfigError("time", None, "a column of event times: the settings go by them")
    if models.timed:
        raise ConfigError("time", None, "a column of event times, as the models have them")
