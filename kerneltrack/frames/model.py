"""Models of a fleet in memory: a door to `kerneltrack.fleet`, which runs their rows, and bytes.

What a job wrote goes on here, and the other way round. `tests/e2e/test_fleet.py` holds the two
against each other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kerneltrack import codec
from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.errors import DataError
from kerneltrack.fleet import model as core
from kerneltrack.fleet import restore, states
from kerneltrack.fleet.begin import begin_each
from kerneltrack.fleet.learn import (
    Learned,
    begin_learner,
    labels_of,
    learn_taken,
    predict_each,
    taken_rows,
)
from kerneltrack.fleet.model import Work
from kerneltrack.fleet.models import Models
from kerneltrack.fleet.results import Results
from kerneltrack.fleet.run import run_models
from kerneltrack.learners import LearnerSpec, Predictions
from kerneltrack.learners.common.board import Board
from kerneltrack.learners.common.inputs import extras_for
from kerneltrack.learners.common.kept_classes import names_of
from kerneltrack.limits import MOST_GIVEN
from kerneltrack.monitor import reference
from kerneltrack.monitor.feedback import Feedback
from kerneltrack.monitor.reference import Episode, ReferenceSpec, Scores
from kerneltrack.monitor.reference.left_out import numbering_of
from kerneltrack.snapshots.header import About, learner_about, read_about
from kerneltrack.trackers.common.features import Features
from kerneltrack.trackers.common.spec import SubspaceSpec

_BOARD, _WAITING = "board.", "waiting."
_NOTHING_MORE = -np.inf
"""Rows may still come, of any time: no window closes, no episode is told of again."""


@dataclasses.dataclass(frozen=True)
class Specs:
    """What is done with every model's rows.

    Attributes:
        tracker: The tracker's settings.
        learner: The learner's; None: no labels are learned.
        reference: Those of what rows are held against; None: nothing.
        feedback: What people said of episodes; None: nothing, or the columns are not known yet.
    """

    tracker: SubspaceSpec
    learner: LearnerSpec | None
    reference: ReferenceSpec | None
    feedback: Feedback | None = None

    @cached_property
    def work(self) -> Work:
        """The same but for the learner, as the core takes it."""
        extras = extras_for(self.learner, self.tracker)
        return Work(
            spec=self.tracker, reference=self.reference, extras=extras, feedback=self.feedback
        )

    @cached_property
    def look(self) -> Work:
        """The same where nothing is learned."""
        return dataclasses.replace(self.work, frozen=True, extras=())


class DeviceModel(NamedTuple):
    """A model's working state.

    Attributes:
        tracked: The tracker's, with what rows are held against.
        learned: The learner's part, if there is one.
    """

    tracked: core.Model
    learned: Learned | None = None

    @property
    def state(self) -> Any:
        """The tracker's state."""
        return self.tracked.state

    @property
    def time(self) -> int | None:
        """Time of the newest row, ns; None without times."""
        return self.tracked.time

    @property
    def until(self) -> int | None:
        """Rows before this time, ns, are not taken any more; None without times."""
        return self.tracked.until

    @property
    def rows(self) -> int:
        """Index of the next row."""
        return self.tracked.rows


class ModelRows(NamedTuple):
    """Rows of models, one model's after the other's, in order.

    Attributes:
        x: (n, D), at least one of each model.
        times: (n,) ns, none before the one before it in a model; None without.
        labels: n of them, None where missing; None without.
        starts: (m,) place of each model's first row.
        stops: (m,) place after its last.
    """

    x: FloatArray
    times: IntArray | None
    labels: Sequence[Any] | None
    starts: IntArray
    stops: IntArray


class RowResults(NamedTuple):
    """What is said of n rows.

    Attributes:
        features: The trackers'.
        scores: The references', None without any.
        episodes: Those that were opened or closed, by the model's place.
        predictions: Of the valid rows, None without learners.
    """

    features: Features
    scores: Scores | None
    episodes: Mapping[int, list[Episode]]
    predictions: Predictions | None


def begin(specs: Specs, keys: Sequence[str], first: Sequence[FloatArray]) -> list[DeviceModel]:
    """Make models of the first rows of each, finite, (m, D): they are looked at, not learned."""
    stops = np.cumsum([len(rows) for rows in first])
    starts = np.concatenate([[0], stops[:-1]])
    models = begin_each(specs.work, keys, np.concatenate(first), starts, stops)
    return [_with_learner(specs, model, None) for model in _each(models)]


def _with_learner(specs: Specs, model: core.Model, time: int | None, rows: int = 0) -> DeviceModel:
    if specs.learner is None:
        return DeviceModel(model)
    learned = begin_learner(specs.learner, specs.tracker.rank, len(model.state.shift))
    return DeviceModel(model, learned._replace(rows=rows, time=time))


def _each(models: Models) -> list[core.Model]:
    """Return the models, of which each can be kept without the others."""
    if len(models) == 1:
        return [models.model(0)]
    return [_copied(models.model(place)) for place in range(len(models))]


def _copied(value: Any) -> Any:
    """Return a value of arrays and tuples of them whose arrays are its own."""
    if isinstance(value, np.ndarray):
        return value.copy()
    return type(value)(*map(_copied, value)) if hasattr(value, "_fields") else value


def run(
    specs: Specs, keys: Sequence[str], models: Sequence[DeviceModel], rows: ModelRows
) -> tuple[list[DeviceModel], RowResults]:
    """Run rows through their models: projected, scored, predicted, then learned from.

    Args:
        specs: What to do.
        keys: The models' IDs.
        models: At least one; not written to.
        rows: Theirs.

    Returns:
        The models after the rows, and what is said of them: the same however rows are cut, and
        whatever other models there are.
    """
    side_by_side = Models.of(specs.work, keys, [model.tracked for model in models])
    found = _ran(side_by_side, rows)
    learned: list[Learned | None] = [model.learned for model in models]
    predictions = None
    known = [own for own in learned if own is not None]
    if specs.learner is not None and len(known) == len(models):
        taken = taken_rows(specs.learner, side_by_side, found, rows.starts, rows.stops)
        labels = _labels(specs.learner, rows, taken.places)
        learned[:], predictions = learn_taken(specs.learner, known, taken, rows.times, labels)
    after = [*map(DeviceModel, _each(side_by_side), learned)]
    return after, RowResults(found.features, found.scores, found.episodes, predictions)


def _ran(models: Models, rows: ModelRows) -> Results:
    until = [_NOTHING_MORE] * len(models)
    return run_models(models, rows.x, rows.times, rows.starts, rows.stops, until)


def _labels(spec: LearnerSpec, rows: ModelRows, places: IntArray) -> Any:
    labels = rows.labels
    if labels is not None:
        labels = [labels[place] for place in places.tolist()]
    return labels_of(spec, labels, len(places))


def look(
    specs: Specs, keys: Sequence[str], models: Sequence[DeviceModel], rows: ModelRows
) -> RowResults:
    """Say of rows what `run` would if the models learned nothing; see `kerneltrack score`.

    A reference that is not complete yet says nothing.
    """
    known = [_with_ready(model.tracked) for model in models]
    side_by_side = Models.of(specs.look, keys, known)
    found = _ran(side_by_side, rows)
    predictions = None
    learned = [model.learned for model in models if model.learned is not None]
    if specs.learner is not None and len(learned) == len(models):
        taken = taken_rows(specs.learner, side_by_side, found, rows.starts, rows.stops)
        labels = None
        if rows.labels is not None:
            labels = _labels(specs.learner, rows, taken.places)
        predictions = predict_each(specs.learner, [own.state for own in learned], taken, labels)
    return RowResults(found.features, found.scores, found.episodes, predictions)


def _with_ready(model: core.Model) -> core.Model:
    reference_state = model.reference
    return (
        model
        if reference_state is None or reference.ready(reference_state)
        else model._replace(reference=None)
    )


def open_episode(specs: Specs, model: DeviceModel) -> Episode | None:
    """Return the episode that is open after the rows so far, None if there is none."""
    reference_state = model.tracked.reference
    if specs.reference is None or reference_state is None:
        return None
    found = reference.open_episode(specs.reference, reference_state)
    if found is None:
        return None
    return found.numbered(numbering_of(reference_state, model.rows).of)


def encode(specs: Specs, key: str, model: DeviceModel) -> list[bytes]:
    """Write a model as a job does at the end of its input: the tracker's state, the learner's."""
    found = [states.encode(specs.work, key, model.tracked, final=True)]
    learned = model.learned
    if specs.learner is not None and learned is not None:
        about = learner_about(About(key, learned.rows, learned.time), True)
        extras = {_BOARD + name: array for name, array in learned.board.arrays().items()}
        found.append(codec.encode_learner(specs.learner, learned.state, about, extras))
    return found


def decode(
    specs: Specs, tracker: tuple[bytes, str], learner: tuple[bytes, str] | None
) -> DeviceModel:
    """Read a model back, each state with where it came from.

    What else a job let work along with the tracker (windows, the drift detector, forward fill) is
    left out. A reference of other settings begins anew, as one does that a snapshot does not have.

    Raises:
        DataError: for bytes that are no states of these settings, or damaged ones.
    """
    model = restore.decode(specs.work, *tracker, keeps_given=True)
    if learner is None:
        return _with_learner(specs, model, model.time, model.rows)
    return DeviceModel(model, _learned_of(specs, model, *learner))


def _learned_of(specs: Specs, model: core.Model, data: bytes, place: str) -> Learned | None:
    snapshot = codec.decode_learner(data, place)
    if snapshot.spec != specs.learner:
        raise DataError(place, "made with other settings of the learner")
    if any(name.startswith(_WAITING) for name in snapshot.extras):
        raise DataError(place, "has rows that wait for their labels: only a job can go on with it")
    about = read_about(snapshot.header, place)
    if not snapshot.header["about"].get("begun", True):
        return _with_learner(specs, model, about.time, about.rows).learned
    arrays = {
        name.removeprefix(_BOARD): array
        for name, array in snapshot.extras.items()
        if name.startswith(_BOARD)
    }
    board = Board.empty()
    try:
        if arrays:
            classes = len(names_of(snapshot.state))
            board = Board.from_arrays(arrays, snapshot.spec, classes, MOST_GIVEN)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(place, f"damaged state: {error}") from error
    # Windows are a job's; the total goes on.
    board = Board.empty()._replace(total=board.total, guesses=board.guesses)
    return Learned(snapshot.state, board, about.rows, about.time)
