"""Beam's RunInference over a folder of snapshots: what frozen models say of rows, in any order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from apache_beam.ml.inference.base import ModelHandler, PredictionResult

from kerneltrack import codec
from kerneltrack.errors import ConfigError, DataError
from kerneltrack.frames import model as steps
from kerneltrack.frames.model import DeviceModel, Specs
from kerneltrack.registry import get_tracker
from kerneltrack.snapshots.folder import SnapshotFolder, snapshots_in

MODELS_AT_HAND = 1_000
"""Models that a worker keeps decoded, those last asked for."""
FIGURES = ("features", "loss", "novelty", "prediction", "score", "margin")
"""What can be asked for of a row."""


class SnapshotModels:
    """Models of a folder, read where they are first asked for.

    Args:
        folder: Snapshots, or the output of a job that has some.

    Raises:
        DataError: if there are none.
    """

    def __init__(self, folder: str) -> None:
        self._found = SnapshotFolder(snapshots_in(folder), learner=True)
        # What a reference says depends on the rows before: a batch of any rows has no order.
        self.specs = Specs(self._found.spec, self._found.learner_spec, None)
        self.get = lru_cache(MODELS_AT_HAND)(self._read)

    def only(self) -> str:
        """Return the id of the one model that there is.

        Raises:
            ConfigError: if there are several.
        """
        if len(self._found.models) != 1:
            allowed = "the field that names the model: the folder has several"
            raise ConfigError("model_id", None, allowed)
        return next(iter(self._found.models))

    def _read(self, model_id: str) -> DeviceModel | None:
        """Return a model; None if there is no snapshot of it."""
        tracker = self._found.state(model_id, codec.TRACKER)
        if tracker is None:
            return None
        learner = self._found.state(model_id, codec.LEARNER)
        place = f"snapshot of model {model_id!r}"
        return steps.decode(
            self.specs, (tracker, place), None if learner is None else (learner, place)
        )


class SnapshotHandler(ModelHandler[Any, PredictionResult, SnapshotModels]):
    """What the models of a job or fleet say of rows, each row by itself; nothing is learned.

    Examples are `beam.Row`s, named tuples or dicts that name their model; `KeyedModelHandler`
    carries further keys along. A batch is grouped by model, so that each is asked once. Results
    do not depend on the batches. `RunInference(..., model_metadata_pcoll=...)` brings new
    snapshots in while a pipeline runs.

    `PredictionResult.inference` is a dict: `features` (a list), `loss`, `novelty`, and of models
    with a learner `prediction`, for classes `score` and `margin`, all as in `kerneltrack score`;
    or just `reason`, why the row could not be taken.

    Args:
        snapshots: A folder of snapshots, or the output of a job or fleet that has one.
        features: Fields of the channels, in the order that the models have them.
        model_id: Field of the model that a row is of; None: the folder has just one.
        only: One of `FIGURES` instead of the dict, None where it is not known: for adapters that
            want a number.
        min_batch_size: As of all handlers.
        max_batch_size: As of all handlers.

    Raises:
        ConfigError: for an argument that is out of range; a folder with several models and no
            `model_id`.
    """

    def __init__(
        self,
        snapshots: str,
        *,
        features: Sequence[str],
        model_id: str | None = None,
        only: str | None = None,
        min_batch_size: int | None = None,
        max_batch_size: int | None = None,
    ) -> None:
        super().__init__(min_batch_size=min_batch_size, max_batch_size=max_batch_size)
        if isinstance(features, str) or not features:
            raise ConfigError("features", features, "a list of names, one at least")
        if only is not None and only not in FIGURES:
            raise ConfigError("only", only, f"one of {', '.join(FIGURES)}, or None")
        self._folder = snapshots
        self._features = tuple(features)
        self._model_id = model_id
        self._only = only

    def load_model(self) -> SnapshotModels:
        """Return the models of the folder; each is read where it is first asked for."""
        return SnapshotModels(self._folder)

    def update_model_path(self, model_path: str | None = None) -> None:
        """Take models from another folder from now on."""
        self._folder = model_path or self._folder

    def get_num_bytes(self, batch: Sequence[Any]) -> int:
        """Return how many bytes the numbers of a batch take."""
        return 8 * len(batch) * len(self._features)

    def get_metrics_namespace(self) -> str:
        """Return where RunInference counts."""
        return "kerneltrack"

    def run_inference(
        self,
        batch: Sequence[Any],
        model: SnapshotModels,
        inference_args: Mapping[str, Any] | None = None,
    ) -> Iterable[PredictionResult]:
        """Return what the models say of a batch, in its order.

        Raises:
            ConfigError: for other arguments than none, or rows that do not say which model.
        """
        if inference_args:
            raise ConfigError("inference_args", sorted(inference_args), "left out: none are known")
        predictions: list[dict[str, Any]] = [{} for _ in batch]
        groups: dict[str, list[int]] = {}
        for place, example in enumerate(batch):
            groups.setdefault(self._model_of(example, model), []).append(place)
        known: list[tuple[str, DeviceModel]] = []
        for model_id, places in groups.items():
            found = self._known(model, model_id)
            if found is not None:
                known.append((model_id, found))
                continue
            for place in places:
                predictions[place] = {"reason": f"no snapshot of model {model_id!r}"}
        if known:
            places = [place for model_id, _ in known for place in groups[model_id]]
            lengths = [len(groups[model_id]) for model_id, _ in known]
            found_all = self._said(model.specs, known, lengths, [batch[place] for place in places])
            for place, answer in zip(places, found_all, strict=True):
                predictions[place] = answer
        for example, answer in zip(batch, predictions, strict=True):
            inference = answer if self._only is None else answer.get(self._only)
            yield PredictionResult(example, inference, self._folder)

    def _model_of(self, example: Any, models: SnapshotModels) -> str:
        if self._model_id is None:
            return models.only()
        value = _field(example, self._model_id)
        if value is None:
            raise DataError("example", f"has no model id: the field {self._model_id!r} is missing")
        return str(value)

    def _known(self, models: SnapshotModels, model_id: str) -> DeviceModel | None:
        """Return a model; None if there is no snapshot of it.

        Raises:
            ConfigError: for one of other channels.
        """
        known = models.get(model_id)
        if known is not None and len(known.state.scale) != len(self._features):
            width = len(known.state.scale)
            raise ConfigError("features", len(self._features), f"{width}, as the models have")
        return known

    def _said(
        self,
        specs: Specs,
        known: Sequence[tuple[str, DeviceModel]],
        lengths: Sequence[int],
        examples: Sequence[Any],
    ) -> Iterator[dict[str, Any]]:
        """Return what models say of rows, so many each, one model's after the other's."""
        x = np.array([[_number(_field(e, name)) for name in self._features] for e in examples])
        stops = np.cumsum(lengths)
        keys, models = [key for key, _ in known], [model for _, model in known]
        results = steps.look(
            specs, keys, models, steps.ModelRows(x, None, None, stops - np.array(lengths), stops)
        )
        owner, spec = np.repeat(np.arange(len(known)), lengths), specs.tracker
        rows = getattr(results.features, spec.emit)
        taken = 0
        for place in range(len(examples)):
            if not results.features.valid[place]:
                state = models[owner[place]].state
                yield {"reason": get_tracker(spec.tracker).why_refused(spec, state, x[place])}
                continue
            answer = {
                "features": rows[place].tolist(),
                "loss": float(results.features.loss[place]),
                "novelty": float(results.features.novelty[place]),
            }
            if results.predictions is not None:
                answer |= _prediction(results.predictions, taken)
            taken += 1
            yield answer


def _prediction(predictions: Any, at: int) -> dict[str, Any]:
    """Return a prediction; None where the learner has none yet."""
    if predictions.code is None:
        value = float(predictions.value[at])
        return {"prediction": None if np.isnan(value) else value}
    if predictions.code[at] < 0:
        return {"prediction": None, "score": None, "margin": None}
    return {
        "prediction": predictions.classes[predictions.code[at]],
        "score": float(predictions.score[at]),
        "margin": float(predictions.margin[at]),
    }


def _field(example: Any, name: str) -> Any:
    if isinstance(example, Mapping):
        return example.get(name)
    return getattr(example, name, None)


def _number(value: Any) -> float:
    """Return a channel's value; NaN, which no model takes, for what is none."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")
