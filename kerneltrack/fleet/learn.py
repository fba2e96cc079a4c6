"""The learners of many models: what trackers made of rows, predicted, scored and learned from.

A learner takes each row that its tracker took, with the features that the tracker made of it. What
comes of a model depends on its own rows alone: on no other model, and on no cut.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.fleet.clock import NO_TIME, clock_of_each
from kerneltrack.fleet.models import Models
from kerneltrack.fleet.results import Results
from kerneltrack.learners import LearnerSpec, LearnerState, Predictions
from kerneltrack.learners.common import guesses
from kerneltrack.learners.common.block import LearnedBlock, learn_block
from kerneltrack.learners.common.board import Board
from kerneltrack.learners.common.inputs import inputs_of, width_of_inputs
from kerneltrack.learners.common.kept_classes import MISSING
from kerneltrack.learners.common.label_sets import joined, moved
from kerneltrack.learners.common.prequential import MAX_FEATURE
from kerneltrack.registry import get_learner
from kerneltrack.trackers.common.loop import FIRST
from kerneltrack.trackers.common.scaling import Scaling

Labels = tuple[Sequence[str], npt.NDArray[Any]]
"""Names, each once, and each row's place in them, below 0 without one; of targets no names and the
targets, NaN without one."""


class Learned(NamedTuple):
    """What a model's learner has come to.

    Attributes:
        state: The learner's.
        board: Metrics of its predictions.
        rows: Index of the next row.
        time: Greatest time of the rows so far, ns; None without times.
    """

    state: LearnerState
    board: Board
    rows: int = 0
    time: int | None = None


class TakenRows(NamedTuple):
    """The rows that trackers took, as learners take them.

    Attributes:
        models: (k,) places of the models that have some.
        inputs: (n, w) what learners are told; a model's rows follow one another.
        starts: (k,) place of each model's first row; the first one's is 0.
        stops: (k,) place after its last: the next one's first.
        places: (n,) places of the rows among all.
    """

    models: IntArray
    inputs: FloatArray
    starts: IntArray
    stops: IntArray
    places: IntArray


def begin_learner(spec: LearnerSpec, rank: int, channels: int) -> Learned:
    """Return a learner that has seen no row.

    Args:
        spec: Its spec.
        rank: Features of the tracker.
        channels: D of the rows.
    """
    width, own = width_of_inputs(spec, rank, channels)
    state = get_learner(spec.learner).begin(spec, width, own)
    return Learned(state, Board.empty()._replace(guesses=guesses.begin(spec, own)))


def taken_rows(
    spec: LearnerSpec, models: Models, found: Results, starts: IntArray, stops: IntArray
) -> TakenRows:
    """Return the rows that the trackers of m models took, as their learners take them.

    Args:
        spec: The learners'.
        models: The models, after `run_models`.
        found: What that returned.
        starts: (m,) as it was given.
        stops: (m,) likewise.
    """
    tracker = models.work.spec
    places = np.flatnonzero(found.features.valid)
    edges = np.concatenate([[0], np.cumsum(found.features.valid)])
    first, after = edges[starts], edges[stops]
    some = np.flatnonzero(after > first)
    first, after = first[some], after[some]
    owner = np.repeat(some, after - first)
    scale = Scaling(*(models.block.column(name)[owner] for name in ("shift", "scale")))
    emitted = getattr(found.features, tracker.emit)[places]
    scaled = None if found.features.x is None else found.features.x[places]
    inputs, _ = inputs_of(spec, emitted, tracker, scale, found.rows[places], scaled)
    return TakenRows(some, inputs, first, after, places)


def learn_taken(
    spec: LearnerSpec,
    learned: Sequence[Learned],
    taken: TakenRows,
    times: IntArray | None,
    labels: Labels,
) -> tuple[list[Learned], Predictions]:
    """Let learners predict, score and learn the rows that their trackers took.

    Args:
        spec: The learners'.
        learned: What the learners of all models have come to, not written to.
        taken: The rows.
        times: (n,) of all rows, ns; None without times.
        labels: Of the rows that were taken.

    Returns:
        What the learners have come to, and what they said of the rows that were taken.
    """
    after, which = list(learned), taken.models.tolist()
    clock = np.zeros(len(taken.inputs), np.int64)
    if times is not None:
        known = [learned[place].time for place in which]
        before = np.array([NO_TIME if time is None else time for time in known], np.int64)
        clock = clock_of_each(times[taken.places], before, taken.starts, taken.stops)
    learners = [(learned[place].state, learned[place].board) for place in which]
    spans = taken.starts, taken.stops
    found = learn_each(spec, learners, taken.inputs, clock, labels, *spans)
    ends: list[Any] = [None] * len(which) if times is None else clock[taken.stops - 1].tolist()
    lengths = (taken.stops - taken.starts).tolist()
    each = zip(which, found.states, found.boards, lengths, ends, strict=True)
    for place, state, board, length, time in each:
        after[place] = Learned(state, board, learned[place].rows + length, time)
    return after, found.predictions


def learn_each(
    spec: LearnerSpec,
    learners: Sequence[tuple[Any, Board]],
    inputs: FloatArray,
    clock: IntArray,
    labels: Labels,
    starts: IntArray,
    stops: IntArray,
    *,
    window: int | None = None,
) -> LearnedBlock:
    """Let m models predict, score and learn rows; arguments as of `learn_block`.

    Any rows and learners may come, or none. A row that no learner can take is refused, and its
    label counts as missing.

    Raises:
        ConfigError: for a learner of another width than the inputs.
    """
    names, values = labels
    fit = np.all(np.abs(inputs) <= MAX_FEATURE, axis=1)
    if not fit.all():
        values = np.where(fit, values, MISSING if spec.classifies else np.nan)
    if not len(learners):
        # What is said of no rows depends on no state.
        state = get_learner(spec.learner).init(spec, inputs.shape[1])
        return LearnedBlock([], get_learner(spec.learner).predict(spec, state, inputs), [], [])
    if go_together(spec, learners):
        return learn_block(
            spec, learners, inputs, clock, (names, values), starts, stops, window=window
        )
    found = []
    for own, start, stop in zip(learners, starts.tolist(), stops.tolist(), strict=True):
        part, labelled = slice(start, stop), (names, values[start:stop])
        given = inputs[part], clock[part], labelled, FIRST, np.full(1, stop - start)
        found.append(learn_block(spec, [own], *given, window=window))
    return LearnedBlock(
        [state for each in found for state in each.states],
        join_each([each.predictions for each in found]),
        [board for each in found for board in each.boards],
        [lines for each in found for lines in each.lines],
    )


def go_together(spec: LearnerSpec, learners: Sequence[tuple[Any, Board]]) -> bool:
    """Check that learners are of one width, and the guesses beside them of one form."""
    learner = get_learner(spec.learner)
    forms = {(learner.width(spec, state), guesses.form(board.guesses)) for state, board in learners}
    return len(forms) == 1


def _of_one(spec: LearnerSpec, names: Sequence[str], values: npt.NDArray[Any]) -> Any:
    """Return labels as a learner of one model takes them."""
    if not spec.classifies:
        return values
    return [names[place] if place >= 0 else None for place in values.tolist()]


def predict_each(
    spec: LearnerSpec, states: Sequence[Any], taken: TakenRows, labels: Labels | None
) -> Predictions:
    """Return what learners as they are say of rows; `labels` mark what they say.

    Args:
        spec: The learners'.
        states: Of all models.
        taken: The rows.
        labels: Theirs; None without.
    """
    learner, found = get_learner(spec.learner), []
    if not len(taken.models):
        return learner.predict(spec, learner.init(spec, taken.inputs.shape[1]), taken.inputs)
    for model, start, stop in zip(
        taken.models.tolist(), taken.starts.tolist(), taken.stops.tolist(), strict=True
    ):
        state = states[model]
        predictions = learner.predict(spec, state, taken.inputs[start:stop])
        if labels is not None:
            names, values = labels
            labels_of_one = _of_one(spec, names, values[start:stop])
            _, predictions = learner.score(spec, state, predictions, labels_of_one)
        found.append(predictions)
    return join_each(found)


def prediction_columns(predictions: Predictions) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays that predictions of this task have, one entry a row."""
    names = [field.name for field in dataclasses.fields(predictions) if field.name != "classes"]
    columns = {name: getattr(predictions, name) for name in names}
    return {name: column for name, column in columns.items() if column is not None}


def predictions_at(predictions: Predictions, places: Any) -> Predictions:
    """Return the predictions of some of the rows; `places`: an array of theirs, or a slice."""
    columns: dict[str, Any] = prediction_columns(predictions)
    return dataclasses.replace(predictions, **{name: columns[name][places] for name in columns})


def join_each(parts: Sequence[Predictions]) -> Predictions:
    """Join predictions of models, at least one; classes are numbered anew if there are several."""
    if len(parts) == 1:
        return parts[0]
    names: dict[str, int] = {}
    renamed = []
    for part in parts:
        own = [names.setdefault(name, len(names)) for name in part.classes]
        columns: dict[str, Any] = {}
        if part.code is not None:
            columns["code"] = np.array([*own, -1], np.int64)[part.code]
        if part.members is not None:
            columns["members"] = moved(part.members, np.array(own, np.int64))
        renamed.append(dataclasses.replace(part, **columns))
    return dataclasses.replace(joined_columns(renamed), classes=tuple(names))


def joined_columns(parts: Sequence[Predictions]) -> Predictions:
    """Join predictions, at least one, whose codes stay as they are; classes are the last one's."""
    each = [prediction_columns(part) for part in parts]
    columns: dict[str, Any] = {
        name: (joined if name == "members" else np.concatenate)([part[name] for part in each])
        for name in each[0]
    }
    return dataclasses.replace(parts[-1], **columns)


def labels_of(spec: LearnerSpec, labels: Sequence[Any] | None, count: int) -> Labels:
    """Return labels, None where missing, in the form that learners of many models take.

    Args:
        spec: The learners'.
        labels: Classes, or targets (NaN, too, where missing); None for none at all.
        count: How many rows there are.
    """
    if labels is None:
        labels = [None] * count
    if not spec.classifies:
        return [], np.array(labels, dtype=np.float64)
    names = [name for name in dict.fromkeys(labels) if name is not None]
    places = {name: place for place, name in enumerate(names)}
    return names, np.array([places.get(name, MISSING) for name in labels], np.int64)
