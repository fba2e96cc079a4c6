"""One model in the keyed step: the tracker's state, what works along with it, and its bytes.

All of a model's working state is one value, written and read as one: whatever a job began to
measure goes on from a snapshot as if the job had never stopped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack import codec
from kerneltrack.errors import ConfigError, DataError
from kerneltrack.fleet.forward_fill import Held
from kerneltrack.fleet.modes import without_modes
from kerneltrack.fleet.windows import MeasuredWindows, OpenWindows
from kerneltrack.limits import TIME_LIMIT, check_given, check_whole, copies_like, whole
from kerneltrack.monitor import drift, reference
from kerneltrack.monitor.drift import DriftSpec
from kerneltrack.monitor.moving import MovingWindow, WindowState
from kerneltrack.monitor.quiet import QuietTimes
from kerneltrack.monitor.reference import ReferenceSpec, ReferenceState
from kerneltrack.registry import get_tracker
from kerneltrack.snapshots.header import About, AboutWriter, read_about
from kerneltrack.snapshots.references import (
    GivenReferences,
    beside_of,
    check_reference,
    reference_of,
)
from kerneltrack.trackers.common.spec import SubspaceSpec
from kerneltrack.trackers.common.start import StartSet, start_from

NO_ROWS: npt.NDArray[np.int64] = np.zeros(0, np.int64)
"""Times of no rows."""
NEVER = int(np.iinfo(np.int64).max)
"""A time, ns, that does not come."""
TIMES = {"times": whole(0)}

IntArray = npt.NDArray[np.int64]
Arrays = Mapping[str, npt.NDArray[Any]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Work:
    """What is done with every model's rows.

    Attributes:
        spec: The tracker's spec.
        extras: More features per row.
        own: Whether features come with the row itself as learners take it.
        hold: Longest time, ns, that a channel's last value stands in for a missing one.
        measure: Mismatch of windows, if asked for.
        drift: Alerts when the loss changes regime, if asked for.
        reference: What rows are held against to find episodes, if asked for.
        given: Where models take their references from; None: they make their own.
        quiet: Times at which models' rows pass their references by.
        every: Distance of the boundaries at which snapshots are due, ns of event time.
        start: Landmarks that new models begin from, if they do.
        frozen: Whether nothing is learned: rows are projected on the models as they are.
        devices: Whether it is told what is known of a device, whenever that changes.
        drop_overlap: Whether rows that a snapshot has learned from are left out, not refused; those
            of its newest row's own time are among them.
        channels: Names of the channels, for reasons; empty: they are not known.
    """

    spec: SubspaceSpec
    extras: tuple[str, ...] = ()
    own: bool = False
    hold: int | None = None
    measure: MeasuredWindows | None = None
    drift: DriftSpec | None = None
    reference: ReferenceSpec | None = None
    given: GivenReferences | None = None
    quiet: QuietTimes | None = None
    every: int | None = None
    start: StartSet | None = None
    frozen: bool = False
    devices: bool = False
    drop_overlap: bool = False
    channels: tuple[str, ...] = ()

    @cached_property
    def asked(self) -> tuple[str, ...]:
        """What the tracker says more of rows: the extras, and "x" for learners of moving scales."""
        return (*self.extras, "x") if self.own and self.spec.scale_moves else self.extras

    @property
    def rows_to_start(self) -> int:
        """Usable rows that must be there before a model can begin."""
        return self.spec.rows_to_start if self.start is None else 1

    @cached_property
    def writer(self) -> AboutWriter:
        """Writes what the headers of its models say."""
        return AboutWriter(measure=self.measure, drift=self.drift, reference=self.reference)

    @cached_property
    def window(self) -> MovingWindow | None:
        """The moving window, if asked for."""
        asked = self.measure and self.measure.moving
        return MovingWindow(asked) if asked else None


class Model(NamedTuple):
    """A model's working state.

    Attributes:
        state: The tracker's state.
        time: Time of the newest row, ns; None without times.
        until: All rows before this time, ns, have been learned from: that of the newest row, or
            the boundary after it once a snapshot was written there. None without times.
        held: What each channel showed last, if that is held.
        open: Windows that are open, if windows are measured.
        moving: The moving window, if asked for.
        moving_times: Times of the last N - 1 rows or fewer, ns, the newest last.
        drift: State of the drift detector, if asked for.
        reference: What rows are held against, if asked for and there.
        origin: Which of the given references that is (`Given`); "" for the model's own.
        before: Rows of this model ID before the tracker's first: indexes go on from there. Less
            than 0 if the tracker comes from a snapshot that had seen more.
        projected: Rows since then that a frozen tracker has not learned.
    """

    state: Any
    time: int | None = None
    until: int | None = None
    held: Held | None = None
    open: OpenWindows | None = None
    moving: WindowState | None = None
    moving_times: IntArray = NO_ROWS
    drift: Any = None
    reference: ReferenceState | None = None
    origin: str = ""
    before: int = 0
    projected: int = 0

    @property
    def seen(self) -> int:
        """The tracker's index of the next row."""
        return int(self.state.n) + self.projected

    @property
    def rows(self) -> int:
        """Index of the next row."""
        return self.before + self.seen


def begin(work: Work, key: str, first_rows: npt.NDArray[Any], before: int = 0) -> Model:
    """Make the working state of a model of this ID from its first rows, finite, shape (m, D).

    `before` as for `Model`.
    """
    if work.start is not None:
        state = start_from(work.spec, work.start, key)
    else:
        rows = without_modes(work.reference, np.asarray(first_rows))
        state = get_tracker(work.spec.tracker).init(work.spec, rows, key)
    return _with_companions(work, key, Model(state, before=before), {}, first_rows)


def take_over(
    work: Work, key: str, data: bytes, name: str, before: Model | None, rows: int
) -> Model:
    """Make the working state of a model that goes on with a snapshot's tracker.

    Windows, what is held of missing values, the drift detector and the reference begin anew; the
    reference by the snapshot's scale, unless it is given.

    Args:
        work: What is done with its rows.
        key: Its ID.
        data: The snapshot.
        name: Where it came from, for errors.
        before: What the model was; None before its first rows. Its times are kept.
        rows: Index of its next row.

    Raises:
        DataError: for bytes that are no tracker's state.
    """
    state = codec.decode(data, name).state
    model = Model(state, before=rows - int(state.n))
    if before is not None:
        model = model._replace(time=before.time, until=before.until)
    return _with_companions(work, key, model, {}, _typical(state))


def frozen(
    data: bytes, name: str, measure: MeasuredWindows | None = None
) -> tuple[Work, Model, int | None]:
    """Make of a snapshot a model that learns nothing, and what is done with its rows.

    They may be of any time. Windows begin anew; the evidence of a reference that was `ready` goes
    on, and one that was not is left out.

    Args:
        data: The snapshot.
        name: Where it came from, for errors.
        measure: Mismatch of windows, if asked for.

    Returns:
        What is done with its rows, the model, and the time of the newest row that it has learned
        from, ns; None without times.

    Raises:
        DataError: for bytes that are no tracker's state, or damaged ones.
    """
    snapshot = codec.decode(data, name)
    about = read_about(snapshot.header, name)
    work = Work(spec=snapshot.spec, measure=measure, frozen=True)
    model = Model(snapshot.state, before=about.rows - int(snapshot.state.n))
    held = reference_of(snapshot, name)
    if held is not None and reference.ready(held[1]):
        work = dataclasses.replace(work, reference=held[0])
        model = model._replace(reference=held[1])
    return work, _with_windows(work, model, {}, len(snapshot.state.shift)), about.time


def encode(work: Work, key: str, model: Model, final: bool = False) -> bytes:
    """Write a model as bytes.

    Args:
        work: What is done with its rows.
        key: Its ID.
        model: Its state.
        final: Whether the input has ended.
    """
    parts: dict[str, Arrays] = {}
    if model.held is not None:
        parts["held"] = model.held._asdict()
    if work.measure is not None:
        parts["open"] = model.open._asdict() if model.open else {}
        if model.moving is not None:
            parts["moving"] = {**model.moving._asdict(), "times": model.moving_times}
    if work.drift is not None:
        parts["drift"] = drift.arrays(model.drift)
    if work.reference is not None and model.reference is not None:
        parts["reference"] = reference.arrays(model.reference)
    beside = {
        f"{part}.{name}": array for part, arrays in parts.items() for name, array in arrays.items()
    }
    known = About(key, model.rows, model.time, model.until, model.before)
    origin = "" if work.reference is None else model.origin
    about = work.writer.tracker(known, final, origin)
    return codec.encode(work.spec, model.state, about, beside=beside)


def decode(
    work: Work, data: bytes, name: str, own: bool = False, keeps_given: bool = False
) -> Model:
    """Read a model back.

    Windows, drift detector and reference go on if they were of the same kind, and begin anew if
    not.

    Args:
        work: What is done with its rows.
        data: What `encode` wrote.
        name: Where it came from, for errors.
        own: Whether this job wrote it; see `codec.decode`.
        keeps_given: Whether a reference that the writer was given goes on as the model's own.

    Raises:
        DataError: for bytes that are no tracker's state (see `codec.decode`), that of a tracker
            with other settings, or damaged ones.
    """
    snapshot = codec.decode(data, name, own)
    about = read_about(snapshot.header, name, own)
    if snapshot.spec.to_dict() != work.spec.to_dict():
        raise DataError(name, "the state of a tracker with other settings")
    try:
        model = _go_on(work, snapshot, about, own, keeps_given)
        if not own and model.drift is not None:
            check_given("drift.counts", model.drift.counts)
        if not own and model.reference is not None:
            check_reference(model.reference)
        return model
    except (ConfigError, KeyError, TypeError, ValueError) as error:
        raise DataError(name, f"damaged state: {error}") from error


def _go_on(
    work: Work, snapshot: codec.Snapshot, about: About, own: bool, keeps_given: bool
) -> Model:
    began, beside = snapshot.header["about"], beside_of(snapshot.beside)
    if work.measure is None or began.get("measure") != work.measure.to_dict():
        beside.pop("open", None)
        beside.pop("moving", None)
    if work.drift is None or began.get("drift") != work.drift.to_dict():
        beside.pop("drift", None)
    if work.reference is None or began.get("reference") != work.reference.to_dict():
        beside.pop("reference", None)
    model = Model(snapshot.state, about.time, about.until, before=about.before)
    if model.rows != about.rows:
        raise ConfigError("rows", about.rows, f"{model.rows}, as the state counts them")
    if not keeps_given:
        model = model._replace(origin=str(began.get("reference_from", "")))
    if not own and model.origin != _given_origin(work, about.model_id):
        beside.pop("reference", None)
    if own and "reference" not in beside:
        # The model has none: none was given, and it makes none.
        work = dataclasses.replace(work, reference=None)
    return _with_companions(work, about.model_id, model, beside, _typical(snapshot.state))


def _given_origin(work: Work, key: str) -> str | None:
    """Return the origin that a model's reference must have: "" if it is to be the model's own.

    None if it is to have none.
    """
    if work.given is None:
        return ""
    given = work.given.of(key)
    return None if given is None else given.origin


def _with_companions(
    work: Work,
    key: str,
    model: Model,
    beside: dict[str, dict[str, npt.NDArray[Any]]],
    first_rows: npt.NDArray[Any],
) -> Model:
    """Return a model with what works along with the tracker, from arrays where there are some."""
    model = with_rows_before(work, model, beside, first_rows.shape[1])
    if work.drift is not None:
        watched = (
            drift.from_arrays(work.drift, beside["drift"])
            if "drift" in beside
            else drift.init(work.drift)
        )
        model = model._replace(drift=watched)
    if work.reference is not None:
        model = _with_reference(work, work.reference, key, model, beside, first_rows)
    return model


def with_rows_before(
    work: Work, model: Model, beside: dict[str, dict[str, npt.NDArray[Any]]], width: int
) -> Model:
    """Return a model with what stays of its rows: last values that are held, and windows.

    Args:
        work: What is done with its rows.
        model: The model: its tracker's state at the least.
        beside: Arrays of these parts by name; of parts that are not there nothing has come yet.
        width: Channels of the rows.

    Raises:
        ConfigError: naming the array or number that no model has.
    """
    if work.hold is not None and "held" in beside:
        held = Held(**copies_like("held", beside["held"], Held.layout(width)))
        check_whole("held.times", held.times, -TIME_LIMIT, TIME_LIMIT)
        model = model._replace(held=held)
    return _with_windows(work, model, beside, width)


def _with_reference(
    work: Work,
    spec: ReferenceSpec,
    key: str,
    model: Model,
    beside: dict[str, dict[str, npt.NDArray[Any]]],
    first_rows: npt.NDArray[Any],
) -> Model:
    """Return a model with its reference: of arrays, a given one, or one that is yet to be made."""
    if "reference" in beside:
        return model._replace(reference=reference.from_arrays(spec, beside["reference"]))
    if work.given is None:
        return model._replace(reference=reference.init(spec, first_rows), origin="")
    given = work.given.of(key)
    if given is None:
        return model._replace(reference=None, origin="")
    return model._replace(reference=given.state, origin=given.origin)


def _with_windows(
    work: Work, model: Model, beside: dict[str, dict[str, npt.NDArray[Any]]], width: int
) -> Model:
    """Return a model with its windows, from arrays where there are some."""
    if work.measure is not None and work.measure.size is not None:
        known = OpenWindows.none(width)
        if "open" in beside:
            known = OpenWindows.from_arrays(beside["open"], work.measure, width, model.state.n)
        model = model._replace(open=known)
    if work.window is not None:
        spec: Any = work.spec
        moving, times = work.window.init(spec, model.state), model.moving_times
        if "moving" in beside:
            arrays = dict(beside["moving"])
            stamps = {"times": arrays.pop("times")}
            times = copies_like("moving", stamps, TIMES, ("times",))["times"]
            check_whole("moving.times", times, -TIME_LIMIT, TIME_LIMIT)
            moving = work.window.from_arrays(spec, model.state, arrays)
        model = model._replace(moving=moving, moving_times=times)
    return model


def _typical(state: Any) -> npt.NDArray[np.float64]:
    """Return two rows as far apart as those that a state scales by mostly are, (2, D)."""
    centre, deviation = state.shift * state.scale, state.scale / np.sqrt(2.0)
    return np.stack([centre - deviation, centre + deviation])
