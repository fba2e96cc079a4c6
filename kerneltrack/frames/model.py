"""One model of a fleet in memory: its tracker and what works along with it, and its bytes.

The steps are those of the jobs and the bytes are theirs: what a job wrote goes on here, and the
other way round. `tests/e2e/test_fleet.py` holds the two against each other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack import codec
from kerneltrack.errors import DataError
from kerneltrack.learners import LearnerSpec, LearnerState, Predictions
from kerneltrack.learners.common import guesses
from kerneltrack.learners.common.board import Board, add_rows, scored_rows
from kerneltrack.learners.common.inputs import extras_for, inputs_of, width_of_inputs
from kerneltrack.learners.common.labels import MISSING, UNUSABLE_LABEL
from kerneltrack.limits import MOST_GIVEN
from kerneltrack.monitor import reference
from kerneltrack.monitor.reference import Episode, ReferenceSpec, ReferenceState, Scores
from kerneltrack.registry import get_learner, get_tracker
from kerneltrack.snapshots.header import About, AboutWriter, learner_about, read_about
from kerneltrack.trackers.common.features import Features
from kerneltrack.trackers.common.spec import SubspaceSpec

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_REFERENCE, _BOARD, _WAITING = "reference.", "board.", "waiting."


class Specs(NamedTuple):
    """What is done with every model's rows.

    Attributes:
        tracker: The tracker's settings.
        learner: The learner's; None: no labels are learned.
        reference: Those of what rows are held against; None: nothing.
    """

    tracker: SubspaceSpec
    learner: LearnerSpec | None
    reference: ReferenceSpec | None


class Learned(NamedTuple):
    """What a model's learner has come to.

    Attributes:
        state: The learner's.
        rows: Index of the next row.
        time: Time of the newest row that the tracker took, ns; None without times.
        board: How often its predictions were right.
    """

    state: LearnerState
    rows: int
    time: int | None
    board: Board


class Model(NamedTuple):
    """A model's working state.

    Attributes:
        state: The tracker's.
        time: Time of the newest row, ns; None without times.
        until: Rows before this time, ns, are not taken any more; None without times.
        reference: What rows are held against, if asked for and there.
        learned: The learner's part, if there is one.
        before: Rows of this model before the tracker's first; see the snapshots' headers.
    """

    state: Any
    time: int | None = None
    until: int | None = None
    reference: ReferenceState | None = None
    learned: Learned | None = None
    before: int = 0

    @property
    def rows(self) -> int:
        """Index of the next row."""
        return self.before + int(self.state.n)


class Told(NamedTuple):
    """What is said of n rows.

    Attributes:
        features: The tracker's.
        scores: The reference's of the valid rows, None without one.
        episodes: Those that were opened or closed.
        predictions: Of the valid rows, None without a learner.
    """

    features: Features
    scores: Scores | None
    episodes: list[Episode]
    predictions: Predictions | None


def begin(specs: Specs, key: str, first_rows: FloatArray) -> Model:
    """Make a model of its first rows, finite, shape (m, D); they are looked at, not learned."""
    state = get_tracker(specs.tracker.tracker).init(specs.tracker, first_rows, key)
    held = None if specs.reference is None else reference.init(specs.reference, first_rows)
    return Model(state, reference=held, learned=_new_learner(specs, state, None, 0))


def _new_learner(specs: Specs, tracker: Any, time: int | None, rows: int) -> Learned | None:
    if specs.learner is None:
        return None
    width, channels = width_of_inputs(specs.learner, specs.tracker.rank, len(tracker.shift))
    state = get_learner(specs.learner.learner).begin(specs.learner, width, channels)
    board = Board.empty()._replace(guesses=guesses.begin(specs.learner, channels))
    return Learned(state, rows, time, board)


def run(
    specs: Specs,
    model: Model,
    rows: FloatArray,
    times: IntArray | None,
    labels: list[Any] | None,
) -> tuple[Model, Told]:
    """Run ordered rows through a model: projected, scored, predicted, then learned from.

    Args:
        specs: What to do.
        model: Not written to.
        rows: Shape (n, D), n >= 1.
        times: (n,) ns, none before the one before it; None without.
        labels: n of them, None without.

    Returns:
        The model after the rows, and what is said of them: the same however rows are cut.
    """
    tracker = get_tracker(specs.tracker.tracker)
    before = int(model.state.n)
    extras = extras_for(specs.learner, specs.tracker)
    state, features = tracker.update(specs.tracker, model.state, rows, extras, times)
    good = np.flatnonzero(features.valid)
    stamps = None if times is None else times[good]
    held, scores = model.reference, None
    episodes: list[Episode] = []
    if specs.reference is not None and held is not None:
        later = before - int(held.tables.counts[reference.SEEN])
        held, scores, episodes = reference.update(specs.reference, held, rows[good], stamps)
        episodes = [episode.moved(later + model.before) for episode in episodes]
    if model.before:
        features.index[...] += model.before
    learned, said = model.learned, None
    if specs.learner is not None and learned is not None:
        inputs = _inputs(specs, specs.learner, state, features, rows)
        told = None if labels is None else [labels[place] for place in good.tolist()]
        learned, said = _learn(specs.learner, learned, inputs, stamps, told)
    after = model._replace(state=state, reference=held, learned=learned)
    if stamps is not None and len(stamps):
        # A row that was refused moves no clock.
        after = after._replace(time=int(stamps[-1]), until=int(stamps[-1]))
    return after, Told(features, scores, episodes, said)


def _inputs(
    specs: Specs, learner: LearnerSpec, state: Any, features: Features, rows: FloatArray
) -> FloatArray:
    """Return what the learner is told of the valid rows."""
    good = features.valid
    emitted = getattr(features, specs.tracker.emit)[good]
    scaled = None if features.x is None else features.x[good]
    found, _ = inputs_of(learner, emitted, specs.tracker, state, rows[good], scaled)
    return found


def _learn(
    spec: LearnerSpec,
    learned: Learned,
    inputs: FloatArray,
    stamps: IntArray | None,
    labels: list[Any] | None,
) -> tuple[Learned, Predictions]:
    learner = get_learner(spec.learner)
    state, said = learner.update(spec, learned.state, inputs, labels)
    if not len(inputs):
        return learned, said
    told = _coded(spec, state.classes, labels or [None] * len(inputs))
    known, guessed = guesses.guess(spec, learned.board.guesses, inputs, told)
    clock = np.zeros(len(inputs), np.int64) if stamps is None else stamps
    scored = scored_rows(spec, clock, said, told, guessed)
    board, _ = add_rows(learned.board._replace(guesses=known), scored, None)
    time = learned.time if stamps is None else int(stamps[-1])
    return Learned(state, learned.rows + len(inputs), time, board), said


def _coded(spec: LearnerSpec, classes: tuple[str, ...], labels: list[Any]) -> npt.NDArray[Any]:
    """Return labels as the guesses take them: places of classes, or targets."""
    if not spec.classifies:
        return np.array(labels, dtype=np.float64)
    table: dict[Any, int] = {name: code for code, name in enumerate(classes)}
    table[None] = MISSING
    return np.array([table.get(label, UNUSABLE_LABEL) for label in labels], np.int64)


def look(
    specs: Specs, model: Model, rows: FloatArray, times: IntArray | None, labels: list[Any] | None
) -> Told:
    """Say of ordered rows what `run` would if the model learned nothing; see `kerneltrack score`.

    A reference that is not complete yet says nothing.
    """
    tracker = get_tracker(specs.tracker.tracker)
    features = tracker.project(specs.tracker, model.state, rows)
    good = np.flatnonzero(features.valid)
    features.index[...] = model.rows + np.cumsum(features.valid) - features.valid
    held, scores = model.reference, None
    episodes: list[Episode] = []
    if specs.reference is not None and held is not None and reference.ready(held):
        stamps = None if times is None else times[good]
        later = model.rows - int(held.tables.counts[reference.SEEN])
        _, scores, episodes = reference.update(
            specs.reference, held, rows[good], stamps, learn=False
        )
        episodes = [episode.moved(later) for episode in episodes]
    said = None
    if specs.learner is not None and model.learned is not None:
        learner, state = get_learner(specs.learner.learner), model.learned.state
        inputs = _inputs(specs, specs.learner, model.state, features, rows)
        said = learner.predict(specs.learner, state, inputs)
        if labels is not None:
            told = [labels[place] for place in good.tolist()]
            _, said = learner.score(specs.learner, state, said, told)
    return Told(features, scores, episodes, said)


def open_episode(specs: Specs, model: Model) -> Episode | None:
    """Return the episode that is open after the rows so far, None if there is none."""
    if specs.reference is None or model.reference is None:
        return None
    found = reference.open_episode(specs.reference, model.reference)
    if found is None:
        return None
    return found.moved(model.rows - int(model.reference.tables.counts[reference.SEEN]))


def encode(specs: Specs, key: str, model: Model) -> list[bytes]:
    """Write a model as a job does at the end of its input: the tracker's state, the learner's."""
    beside: dict[str, npt.NDArray[Any]] = {}
    if specs.reference is not None and model.reference is not None:
        held = reference.arrays(model.reference)
        beside = {_REFERENCE + name: array for name, array in held.items()}
    writer = AboutWriter(reference=specs.reference if beside else None)
    known = About(key, model.rows, model.time, model.until, model.before)
    states = [codec.encode(specs.tracker, model.state, writer.tracker(known, True), beside=beside)]
    learned = model.learned
    if specs.learner is not None and learned is not None:
        about = learner_about(About(key, learned.rows, learned.time), True)
        beside = {_BOARD + name: array for name, array in learned.board.arrays().items()}
        states.append(codec.encode_learner(specs.learner, learned.state, about, beside))
    return states


def decode(specs: Specs, tracker: tuple[bytes, str], learner: tuple[bytes, str] | None) -> Model:
    """Read a model back, each state with where it came from.

    What else a job let work along with the tracker (windows, the drift detector, forward fill) is
    left out. A reference of other settings begins anew, as one does that a snapshot does not have.

    Raises:
        DataError: for bytes that are no states of these settings, or damaged ones.
    """
    data, place = tracker
    snapshot = codec.decode(data, place)
    about = read_about(snapshot.header, place)
    model = Model(snapshot.state, about.time, about.until, before=about.before)
    if snapshot.spec.to_dict() != specs.tracker.to_dict():
        raise DataError(place, "the state of a tracker with other settings")
    if model.rows != about.rows:
        raise DataError(place, f"damaged header: rows = {about.rows}, the state has {model.rows}")
    if specs.reference is not None:
        model = model._replace(reference=_reference_of(specs.reference, snapshot, place))
    if learner is None:
        return model._replace(learned=_new_learner(specs, model.state, about.time, about.rows))
    return model._replace(learned=_learned_of(specs, model.state, *learner))


def _reference_of(spec: ReferenceSpec, snapshot: codec.Snapshot, place: str) -> ReferenceState:
    arrays = {
        name.removeprefix(_REFERENCE): array
        for name, array in snapshot.beside.items()
        if name.startswith(_REFERENCE)
    }
    if not arrays or snapshot.header["about"].get("reference") != spec.to_dict():
        state = snapshot.state
        centre, deviation = state.shift * state.scale, state.scale / np.sqrt(2.0)
        return reference.init(spec, np.stack([centre - deviation, centre + deviation]))
    try:
        return reference.from_arrays(spec, arrays)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(place, f"damaged state: {error}") from error


def _learned_of(specs: Specs, tracker: Any, data: bytes, place: str) -> Learned:
    snapshot = codec.decode_learner(data, place)
    if snapshot.spec != specs.learner:
        raise DataError(place, "made with other settings of the learner")
    if any(name.startswith(_WAITING) for name in snapshot.beside):
        raise DataError(place, "has rows that wait for their labels: only a job can go on with it")
    about = read_about(snapshot.header, place)
    if not snapshot.header["about"].get("begun", True):
        found = _new_learner(specs, tracker, about.time, about.rows)
        if found is not None:
            return found
    arrays = {
        name.removeprefix(_BOARD): array
        for name, array in snapshot.beside.items()
        if name.startswith(_BOARD)
    }
    board = Board.empty()
    try:
        if arrays:
            classes = len(snapshot.state.classes)
            board = Board.from_arrays(arrays, snapshot.spec, classes, MOST_GIVEN)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(place, f"damaged state: {error}") from error
    # Windows are a job's; the total goes on.
    board = Board.empty()._replace(total=board.total, guesses=board.guesses)
    return Learned(snapshot.state, about.rows, about.time, board)
