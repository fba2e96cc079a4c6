"""The peers of the prequential benchmark: scikit-learn, River, and what needs no learning.

- **scikit-learn**: `Nystroem` with B components fitted on the first `WARMUP` rows, B of which it
  draws as its landmarks, with the tracker's own bandwidth; then a linear learner by stochastic
  gradient steps, `partial_fit` in chunks of 100: each chunk is predicted, then learned. Once with
  the learner's defaults, once with what served it better: averaged weights (classification), a
  constant step of .1 (regression).
- **River**: `StandardScaler` (running) before logistic regression, one class against the rest, or
  linear regression; the passive-aggressive learner likewise, another linear model; and the
  Hoeffding tree. Row by row, each predicted, then learned.
- The commonest class or mean target so far, and the label or target of the row before.

All are given rows already scaled by the first `WARMUP` rows' mean and standard deviation, and
regression targets likewise. scikit-learn is told all classes beforehand, as it must be.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from river import linear_model, multiclass, preprocessing, tree
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import SGDClassifier, SGDRegressor

from benchmarks.prequential_sets import CHUNK, WARMUP, Stream
from kerneltrack.arrays import FloatArray, IntArray

SGD, SGD_TUNED = "Nystroem+SGD", "Nystroem+SGD, tuned"
RIVER, RIVER_PA, RIVER_TREE = "River linear", "River passive-aggressive", "River Hoeffding tree"
COMMONEST, LAST = "commonest so far", "row before"

BINARY = 2


class Run(NamedTuple):
    """What a method said of a stream.

    Attributes:
        method: Its name.
        predicted: Places in the stream's classes (-1 where there was none yet), or targets.
        micros: Microseconds of processor time a row; NaN where nothing was measured.
    """

    method: str
    predicted: IntArray | FloatArray
    micros: float


def _targets(stream: Stream) -> IntArray | FloatArray:
    return stream.target if stream.classes else np.asarray(stream.labels)


def _in_own_unit(stream: Stream, predicted: IntArray | FloatArray) -> FloatArray:
    centre, unit = stream.unit
    return predicted.astype(np.float64) * unit + centre


def nystroem_sgd(stream: Stream, budget: int, gamma: float, seed: int) -> Iterator[Run]:
    """Run both variants of scikit-learn's pair; `gamma` is the tracker's, exp(-‖x-y‖²/γ)."""
    tuned: dict[str, Any] = {"average": True}
    if not stream.classes:
        tuned = {"learning_rate": "constant", "eta0": 0.1}
    for method, options in ((SGD, {}), (SGD_TUNED, tuned)):
        mapping = Nystroem(gamma=1.0 / gamma, n_components=budget, random_state=seed)
        kind = SGDClassifier if stream.classes else SGDRegressor
        yield _in_chunks(method, stream, mapping, kind(random_state=seed, **options))


def _in_chunks(method: str, stream: Stream, mapping: Any, learner: Any) -> Run:
    rows, targets = stream.scaled, _targets(stream)
    predicted = np.full_like(targets, -1 if stream.classes else 0.0)
    known = {"classes": np.arange(len(stream.classes))} if stream.classes else {}
    begin = time.process_time()
    mapping.fit(rows[:WARMUP])
    for start in range(0, len(rows), CHUNK):
        chunk = slice(start, start + CHUNK)
        features = mapping.transform(rows[chunk])
        if start:
            predicted[chunk] = learner.predict(features)
        learner.partial_fit(features, targets[chunk], **known)
    micros = (time.process_time() - begin) / len(rows) * 1e6
    return Run(method, predicted if stream.classes else _in_own_unit(stream, predicted), micros)


def _one_against_rest(binary: Any, count: int) -> Any:
    scaler = preprocessing.StandardScaler()
    return scaler | (binary if count == BINARY else multiclass.OneVsRestClassifier(binary))


def _river_models(classes: int) -> dict[str, Callable[[], Any]]:
    if classes:
        return {
            RIVER: lambda: _one_against_rest(linear_model.LogisticRegression(), classes),
            RIVER_PA: lambda: _one_against_rest(
                linear_model.PAClassifier(),  # type: ignore[no-untyped-call]
                classes,
            ),
            RIVER_TREE: tree.HoeffdingTreeClassifier,
        }
    return {
        RIVER: lambda: preprocessing.StandardScaler() | linear_model.LinearRegression(),
        RIVER_PA: lambda: (
            preprocessing.StandardScaler() | linear_model.PARegressor()  # type: ignore[no-untyped-call]
        ),
        RIVER_TREE: tree.HoeffdingTreeRegressor,
    }


def row_by_row(method: str, model: Any, stream: Stream) -> Run:
    """Run a model of River's, each row predicted, then learned."""
    names = [str(channel) for channel in range(stream.rows.shape[1])]
    rows = [dict(zip(names, row, strict=True)) for row in stream.scaled.tolist()]
    targets = _targets(stream).tolist()
    if len(stream.classes) == BINARY:
        targets = [code == 1 for code in targets]
    nothing = -1 if stream.classes else 0.0
    predictions = []
    begin = time.process_time()
    for row, target in zip(rows, targets, strict=True):
        predicted = model.predict_one(row)
        predictions.append(nothing if predicted is None else predicted)
        model.learn_one(row, target)
    micros = (time.process_time() - begin) / len(rows) * 1e6
    if stream.classes:
        return Run(method, np.array(predictions, dtype=np.int64), micros)
    return Run(method, _in_own_unit(stream, np.array(predictions, dtype=np.float64)), micros)


def river(stream: Stream) -> Iterator[Run]:
    """Run River's models, row by row."""
    for method, make in _river_models(len(stream.classes)).items():
        yield row_by_row(method, make(), stream)


def without_learning(stream: Stream) -> Iterator[Run]:
    """Run the guesses that do not look at the rows."""
    nan = float("nan")
    target = stream.target
    last = np.roll(target, 1)
    last[0] = -1 if stream.classes else stream.unit[0]
    if stream.classes:
        counts = np.cumsum(target[:, None] == np.arange(len(stream.classes)), axis=0)
        most = np.concatenate([[-1], np.argmax(counts[:-1], axis=1)])
    else:
        sums = np.cumsum(target)[:-1] / np.arange(1, len(target))
        most = np.concatenate([[stream.unit[0]], sums])
    yield Run(COMMONEST, most, nan)
    yield Run(LAST, last, nan)
