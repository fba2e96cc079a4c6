"""Learners of many models in the core: what comes of each is what comes of it alone."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

import kerneltrack as kt
from kerneltrack.fleet.learn import begin_learner, labels_of, learn_each
from kerneltrack.frames import model as steps
from kerneltrack.learners import LearnerSpec
from kerneltrack.registry import LEARNERS, get_learner, parse_learner_spec

MODELS, CHANNELS = 4, 3
LENGTHS = np.array([40, 1, 90, 25])
STOPS = np.cumsum(LENGTHS)
STARTS = STOPS - LENGTHS


def spec_of(name: str, task: str) -> LearnerSpec:
    return parse_learner_spec({"learner": name, "task": task, "inputs": "features"})


def rows_and_labels(task: str) -> tuple[npt.NDArray[np.float64], list[Any]]:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(int(STOPS[-1]), CHANNELS))
    # Rows that no learner takes: their labels are of no class that any other row has.
    x[[5, 60, 61]] = 1e200
    if task == "regression":
        labels: list[Any] = np.where(rng.random(len(x)) < 0.2, np.nan, x[:, 0]).tolist()
        return x, labels
    names = np.array(["a", "b", "c", None], object)
    labels = names[rng.integers(0, 4, len(x))].tolist()
    for place in (5, 60, 61):
        labels[place] = "of a refused row"
    return x, labels


def fingerprint(spec: LearnerSpec, state: Any, board: Any) -> dict[str, bytes]:
    learner = get_learner(spec.learner)
    arrays = {**learner.arrays(state), **board.arrays()}
    head = repr(learner.header(state)).encode()
    return {"header": head, **{name: array.tobytes() for name, array in arrays.items()}}


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_each_learns_as_if_it_were_alone(name: str, task: str) -> None:
    try:
        spec = spec_of(name, task)
    except kt.ConfigError:
        assert task == "regression"
        return
    x, labels = rows_and_labels(task)
    first = begin_learner(spec, CHANNELS, CHANNELS)
    # One that knew a class before its guesses did goes by itself.
    other = first
    if spec.classifies:
        known, _ = get_learner(name).update(spec, first.state, x[:2], ["z", None])
        other = first._replace(state=known)
    for last in (first, other):
        begun = [(own.state, own.board) for own in (first, first, first, last)]
        clock = np.arange(len(x))
        told = labels_of(spec, labels, len(x))
        found = learn_each(spec, begun, x, clock, told, STARTS, STOPS, window=20)
        codes = []
        for model, (state, board) in enumerate(begun):
            own = slice(int(STARTS[model]), int(STOPS[model]))
            one = [np.zeros(1, np.int64), LENGTHS[model : model + 1]]
            names, values = told
            given = names, values[own]
            alone = learn_each(spec, [(state, board)], x[own], clock[own], given, *one, window=20)
            after, said = get_learner(name).update(spec, state, x[own], labels[own])
            assert fingerprint(spec, alone.states[0], board) == fingerprint(spec, after, board)
            assert fingerprint(spec, found.states[model], found.boards[model]) == fingerprint(
                spec, alone.states[0], alone.boards[0]
            )
            assert len(found.lines[model]) == len(alone.lines[0])
            assert found.said.names[own] == said.names
            for field in dataclasses.fields(said):
                value = getattr(said, field.name)
                if field.name not in ("classes", "code") and value is not None:
                    np.testing.assert_array_equal(getattr(found.said, field.name)[own], value)
            codes.append(said.valid)
        assert np.flatnonzero(~np.concatenate(codes)).tolist() == [5, 60, 61]
        if spec.classifies:
            assert all("of a refused row" not in state.classes for state in found.states)


@pytest.mark.parametrize("reference", [None, "first", "gated", "auto"])
@pytest.mark.parametrize("tracker", ["okfeb", "covariance", "okfe"])
def test_devices_side_by_side_are_each_alone(tracker: str, reference: str | None) -> None:
    rng = np.random.default_rng(7)
    x = rng.normal(size=(900, 3))
    x[500:, 1] += 5 * (np.arange(400) % 3 == 0)
    x[::97, 2] = np.nan
    rows = pd.DataFrame(x, columns=["a", "b", "c"])
    rows["device"] = np.array(["p", "q", "r"])[np.arange(900) % 3]
    rows["when"] = pd.Timestamp("2026-03-01") + pd.to_timedelta(np.arange(900), unit="s")
    rows["label"] = np.where(x[:, 0] > 0, "high", "low")
    more = {"max_rows": 600} if tracker == "okfe" else {}

    def fleet() -> kt.Fleet:
        return kt.Fleet(tracker, rank=4, warmup=60, learner="ridge", reference=reference, **more)

    def ran(some: kt.Fleet, part: pd.DataFrame, cuts: list[int]) -> pd.DataFrame:
        named: dict[str, Any] = {"model_id": "device", "time": "when", "label": "label"}
        edges = [0, *cuts, len(part)]
        parts = [
            some.update(part.iloc[start:stop], **named) for start, stop in itertools.pairwise(edges)
        ]
        found: pd.DataFrame = pd.concat(parts)
        return found

    whole = fleet()
    told = ran(whole, rows, [300, 301, 640])
    for device in "pqr":
        own = rows[rows["device"] == device]
        alone = fleet()
        # Cut at the same rows: a new model takes its scale from the rows of its first call.
        cuts = [int((own.index < cut).sum()) for cut in (300, 301, 640)]
        expected = ran(alone, own, cuts)
        pd.testing.assert_frame_equal(told[told["device"] == device], expected)
        assert steps.encode(whole._specs, device, whole._models[device]) == steps.encode(
            alone._specs, device, alone._models[device]
        )
