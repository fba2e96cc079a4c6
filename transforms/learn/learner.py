"""A model's learner in the keyed step: its state, what waits, its metrics, and their bytes.

All of it is one value, written and read as one, so that a job that begins from a snapshot goes on
as if the earlier one had never stopped.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack import codec
from kerneltrack.errors import DataError
from kerneltrack.fleet.learn import prediction_columns
from kerneltrack.learners import LearnerSpec, LearnerState
from kerneltrack.learners.common import guesses
from kerneltrack.learners.common.board import Board
from kerneltrack.learners.common.kept_classes import names_of
from kerneltrack.limits import MOST, MOST_GIVEN, TIME_LIMIT, check_whole
from kerneltrack.registry import get_learner
from kerneltrack.snapshots.header import About, learner_about, read_about
from transforms.keyed.last_written import LastWritten
from transforms.learn.delayed_labels import (
    OpenRows,
    Pending,
    from_arrays,
    from_codes,
    naming,
    to_arrays,
    to_codes,
)
from transforms.learn.waiting import FeatureRows, PredictedRows, none_waiting

_BOARD, _WAITING, _PREDICTIONS, _PENDING = "board.", "waiting.", "said.", "pending."


class Learning(NamedTuple):
    """What a model's learner has come to.

    Attributes:
        state: The learner's; None before the first row.
        waiting: Rows that are predicted and not settled; None before the first row.
        rows: Index of the next row.
        time: Greatest time so far, ns; None before the first row or without times.
        pending: Labels that wait.
        board: Metrics.
    """

    state: LearnerState | None
    waiting: PredictedRows | None
    rows: int
    time: int | None
    pending: Pending
    board: Board

    def without_rows(self) -> Learning:
        """Return the same, but that rows that wait have arrays of their own."""
        if self.waiting is None:
            return self
        return self._replace(waiting=self.waiting.copied())

    def after(self, state: LearnerState, board: Board, rows: int, time: int | None) -> Learning:
        """Return what it has come to after rows of which none waits, as none did before."""
        waiting = self.waiting
        if waiting is not None:
            waiting = waiting.moved(rows, names_of(state))
        return self._replace(state=state, board=board, rows=rows, time=time, waiting=waiting)

    @property
    def open_rows(self) -> OpenRows:
        """Return which rows may still be named by labels."""
        if self.waiting is None:
            return OpenRows(self.rows, self.rows, np.zeros(0, np.int64), None)
        rows = self.waiting.rows
        times = np.zeros(0, np.int64) if rows.time is None else rows.time
        return OpenRows(self.rows - len(rows), self.rows, times, self.time)


def last_written(spec: LearnerSpec) -> LastWritten[Learning]:
    """Return where learners of a job are kept beside their bytes."""
    return LastWritten(partial(encode_working, spec), partial(_own, spec))


def _own(spec: LearnerSpec, key: str, data: bytes) -> Learning:
    return decode(spec, data, f"learner of model {key!r}", own=True)


def begin(spec: LearnerSpec, rows: int = 0) -> Learning:
    """Return the beginning of a learner whose first row has this index."""
    return Learning(None, None, rows, None, Pending.none(spec), Board.empty())


def opened(spec: LearnerSpec, now: Learning, width: int, channels: int) -> Learning:
    """Return a learner with its first state, now that its inputs and channels are known."""
    if now.board.guesses is None:
        now = now._replace(board=now.board._replace(guesses=guesses.begin(spec, channels)))
    if now.state is not None:
        return now
    state = get_learner(spec.learner).begin(spec, width, channels)
    return now._replace(state=state, waiting=none_waiting(spec, state, now.rows))


def encode_working(spec: LearnerSpec, key: str, now: Learning) -> bytes:
    """Write what the keyed step keeps from one bundle to the next."""
    return codec.encode_learner(spec, *_parts(spec, key, now, False))


def encode_snapshot(spec: LearnerSpec, key: str, now: Learning) -> bytes:
    """Write what a later job goes on from before the end; see `snapshot_parts`."""
    return snapshot_parts(spec, key, now, final=False).to_bytes()


def snapshot_parts(
    spec: LearnerSpec, key: str, now: Learning, final: bool = True
) -> codec.SnapshotParts:
    """Return a snapshot, what a later job goes on from.

    The rows that wait for labels are part of it, with the labels that name them. Labels of rows
    that are still to come are not: they belong to the job that these rows come to.
    """
    if now.pending:
        now = now._replace(pending=naming(now.pending, now.open_rows))
    return codec.learner_parts(spec, *_parts(spec, key, now, final))


def _parts(
    spec: LearnerSpec, key: str, now: Learning, final: bool
) -> tuple[LearnerState, str, dict[str, npt.NDArray[Any]]]:
    """Return the learner's state, what its header says, and the arrays beside it."""
    about: dict[str, Any] = {}
    state = now.state
    if state is None:
        # Labels came first; how many features there will be is not known.
        state, about["begun"] = get_learner(spec.learner).init(spec, 1), False
    waiting = now.waiting if now.waiting is not None and len(now.waiting) else None
    codes: dict[str | None, int] | None = None
    if spec.classifies and (waiting or now.pending):
        labels = [] if waiting is None else [waiting.rows.label]
        labels += [known.label for known in now.pending]
        names = dict.fromkeys(name for part in labels for name in part.tolist())
        names.pop(None, None)
        about["labels"] = list(names)
        codes = {None: -1, **{name: code for code, name in enumerate(names)}}
    extras = {_BOARD + name: array for name, array in now.board.arrays().items()}
    extras |= {_PENDING + name: array for name, array in to_arrays(now.pending, codes).items()}
    if waiting is not None:
        rows = waiting.rows
        extras |= {_WAITING + "clock": rows.clock, _WAITING + "z": rows.z}
        extras[_WAITING + "label"] = to_codes(rows.label, codes)
        if rows.time is not None:
            extras[_WAITING + "time"] = rows.time
        for name, column in prediction_columns(waiting.predictions).items():
            if name not in ("scored", "correct", "error"):
                extras[_PREDICTIONS + name] = column.astype(np.int64) if name == "valid" else column
    return state, learner_about(About(key, now.rows, now.time), final, about), extras


def decode(spec: LearnerSpec, data: bytes, name: str, own: bool = False) -> Learning:
    """Read back what `encode_working` or `encode_snapshot` wrote.

    Args:
        spec: The learners' spec.
        data: The bytes.
        name: Where they came from, for errors.
        own: Whether this job wrote them; see `codec.decode`.

    Raises:
        DataError: for bytes that are neither, are damaged, or are of other settings.
    """
    snapshot = codec.decode_learner(data, name, own)
    if snapshot.spec != spec:
        raise DataError(name, "made with other settings of the learner")
    progress = read_about(snapshot.header, name, own)
    about, extras = snapshot.header["about"], snapshot.extras
    try:
        names = about.get("labels", []) if spec.classifies else None
        if spec.classifies and not (
            isinstance(names, list) and all(type(name) is str for name in names)
        ):
            raise ValueError(f"labels = {names!r}")
        board = Board.empty()
        if any(field.startswith(_BOARD) for field in extras):
            classes = len(names_of(snapshot.state))
            most = MOST if own else MOST_GIVEN
            board = Board.from_arrays(_part(extras, _BOARD), spec, classes, most)
        pending = from_arrays(spec, _part(extras, _PENDING), names)
        state, waiting = None, None
        if about.get("begun", True):
            state = snapshot.state
            waiting = _waiting(spec, state, progress.rows, extras, names)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise DataError(name, f"damaged state: {error}") from error
    return Learning(state, waiting, progress.rows, progress.time, pending, board)


def _part(extras: dict[str, npt.NDArray[Any]], prefix: str) -> dict[str, npt.NDArray[Any]]:
    return {name[len(prefix) :]: array for name, array in extras.items() if name.startswith(prefix)}


def _waiting(
    spec: LearnerSpec,
    state: LearnerState,
    next_row: int,
    extras: dict[str, npt.NDArray[Any]],
    labels: list[str] | None,
) -> PredictedRows:
    columns, predictions = _part(extras, _WAITING), _part(extras, _PREDICTIONS)
    if not columns:
        return none_waiting(spec, state, next_row)
    count, first = len(columns["clock"]), next_row - len(columns["clock"])
    none = none_waiting(spec, state, first)
    rows = FeatureRows(
        first,
        columns.get("time"),
        columns["clock"],
        columns["z"],
        from_codes(columns["label"], labels),
    )
    given: dict[str, npt.NDArray[Any]] = {
        "valid": predictions.pop("valid").astype(np.bool_),
        **predictions,
    }
    for name in prediction_columns(none.predictions).keys() - given.keys():
        empty = np.full(count, np.nan) if name == "error" else np.zeros(count, np.bool_)
        given[name] = empty
    whole = {"clock": columns["clock"], "time": rows.time, "code": given.get("code")}
    for name, column in whole.items():
        if column is not None and column.dtype != np.int64:
            raise ValueError(f"{name} of the rows that wait is {column.dtype}, not int64")
        if name != "code" and column is not None:
            check_whole(f"waiting.{name}", column, -TIME_LIMIT, TIME_LIMIT)
    lengths = {len(array) for array in (*columns.values(), *given.values())}
    if lengths != {count} or first < 0 or rows.z.shape[1:] != none.rows.z.shape[1:]:
        raise ValueError("the rows that wait do not fit each other")
    code, names = given.get("code", np.zeros(0)), names_of(state)
    if ((code < -1) | (code >= len(names))).any():
        raise ValueError("rows were predicted to be of classes that are not known")
    return PredictedRows(rows, dataclasses.replace(none.predictions, classes=names, **given))
