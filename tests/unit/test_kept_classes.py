"""More classes than a model has places for: the most frequent are kept."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack import Fleet
from kerneltrack.errors import ConfigError
from kerneltrack.in_memory import learn_all
from kerneltrack.learners import (
    AutoSpec,
    BSGDSpec,
    FOGDSpec,
    HingeSpec,
    LearnerSpec,
    LMSSpec,
    LogisticSpec,
    NOLANASpec,
    PASpec,
    PegasosSpec,
    POLKSpec,
    RidgeSpec,
)
from kerneltrack.learners.common.kept_classes import (
    LEAST,
    TIMES,
    KeptClasses,
    most_names,
    names_of,
    turnover_of,
)
from kerneltrack.registry import get_learner
from tests.oracles.learner_cases import round_trip, same_state
from tests.parts import examples

SPECS: tuple[LearnerSpec, ...] = (
    RidgeSpec(max_classes=5, forgetting=1.0),
    RidgeSpec(max_classes=5, intervals=0.8),
    LogisticSpec(max_classes=5, class_weight="root"),
    HingeSpec(max_classes=5),
    PegasosSpec(max_classes=5),
    LMSSpec(max_classes=5),
    PASpec(max_classes=5, costs=(("c7", "c8", 3.0), ("c0", "c7", 2.0))),
    POLKSpec(max_classes=5, warmup=300, budget=12, batch=3),
    BSGDSpec(max_classes=5, warmup=20, budget=8),
    NOLANASpec(max_classes=5, warmup=20, budget=8, rank=5, intervals=0.8),
    FOGDSpec(max_classes=5, warmup=300, budget=40),
    AutoSpec(max_classes=5, budget=8, inputs="features", intervals=0.9),
    AutoSpec(max_classes=5, budget=30, window=200, inputs="features"),
)
every_spec = pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{spec.learner}")
WIDTH, CLASSES = 3, 9


def late_classes(count: int = 900, seed: int = 0, classes: int = CLASSES) -> tuple[Any, Any]:
    """Rows of classes of which the last come late and most; some labels or rows are missing."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, WIDTH)) * 2.0
    first, often = classes - classes // 3, count // 6
    codes = np.concatenate(
        [
            rng.integers(0, first, often),
            np.where(
                rng.random(count - often) < 0.8,
                rng.integers(first, classes, count - often),
                rng.integers(0, first, count - often),
            ),
        ]
    )
    rows = (centres[codes] + rng.normal(size=(count, WIDTH))) / 4.0
    rows[rng.random(count) < 0.02, 1] = np.nan
    absent = rng.random(count) < 0.1
    return rows, [None if a else f"c{c}" for a, c in zip(absent, codes.tolist(), strict=True)]


def by_the_rule(spec: LearnerSpec, labels: list[str | None]) -> tuple[list[str], list[bool]]:
    """Classes that have a place after the labels, and whether each label's had one as it came.

    Counts are exact: the labels must be of no more names than are counted.
    """
    counts: Counter[str] = Counter()
    places: list[str] = []
    had = []
    for name in labels:
        if name is None:
            had.append(False)
            continue
        if name not in places and len(places) < spec.max_classes:
            places.append(name)
        had.append(name in places)
        counts[name] += 1
        rarest = min(places, key=lambda kept: counts[kept])
        enough = counts[name] >= max(LEAST, TIMES * counts[rarest])
        if name not in places and enough:
            places[places.index(rarest)] = name
    return places, had


@every_spec
def test_the_most_frequent_are_kept(spec: LearnerSpec) -> None:
    rows, labels = late_classes()
    state, output_text = learn_all(spec, rows, labels)
    reported = [
        label if fit else None
        for label, fit in zip(labels, output_text.valid.tolist(), strict=True)
    ]
    kept, had = by_the_rule(spec, reported)
    assert state.classes == tuple(kept)
    frequent = [name for name, _ in Counter(reported).most_common(5) if name is not None][:3]
    assert set(frequent) <= set(kept) and set(frequent) == {"c6", "c7", "c8"}
    counters = get_learner(spec.learner).counters(state)
    assert counters["unusable"] == sum(
        label is not None and not place for label, place in zip(reported, had, strict=True)
    )
    # Of the frequent classes most rows are right at last; of the first ones none could be.
    assert output_text.correct is not None
    last = [row for row in range(600, 900) if reported[row] in frequent]
    assert output_text.correct[last].mean() > 0.5
    first = dataclasses.replace(spec, max_classes=100)
    assert learn_all(first, rows, labels)[0].kept is None


@every_spec
@settings(max_examples=examples(6))
@given(cuts=st.lists(st.integers(1, 899), max_size=12), seed=st.integers(0, 9))
def test_cuts_change_nothing(spec: LearnerSpec, cuts: list[int], seed: int) -> None:
    rows, labels = late_classes(seed=seed)
    learner = get_learner(spec.learner)
    whole, expected = learner.update(spec, learner.init(spec, WIDTH), rows, labels)
    assert whole.kept is not None and whole.kept.changed
    state, names, sets, correct = learner.init(spec, WIDTH), [], [], []
    edges = [0, *sorted(set(cuts)), 900]
    for start, stop in itertools.pairwise(edges):
        state, output_text = learner.update(spec, state, rows[start:stop], labels[start:stop])
        assert output_text.correct is not None
        names += output_text.names
        sets += output_text.sets
        correct += output_text.correct.tolist()
        state = round_trip(spec, learner, state)
    same_state(state, whole)
    assert names == expected.names and sets == expected.sets
    assert expected.correct is not None and correct == expected.correct.tolist()


@every_spec
def test_rows_are_predicted_by_the_classes_that_have_a_place(spec: LearnerSpec) -> None:
    rows, labels = late_classes()
    learner, (state, _) = get_learner(spec.learner), learn_all(spec, rows, labels)
    output_text = learner.predict(spec, state, np.nan_to_num(rows))
    assert output_text.classes == names_of(state) and len(output_text.classes) > 5
    assert set(output_text.names) <= set(state.classes)
    assert {name for own in output_text.sets for name in own} <= set(state.classes)
    chances = learner.probabilities(spec, state, np.nan_to_num(rows))
    assert chances.shape == (900, 5)
    if not spec.costs and not spec.class_weight:
        assert output_text.names == [
            state.classes[code] for code in chances.argmax(axis=1).tolist()
        ]


@every_spec
def test_predictions_keep_their_names_until_labels_come(spec: LearnerSpec) -> None:
    """A class that has given way since is the one that was predicted then."""
    rows, labels = late_classes()
    learner = get_learner(spec.learner)
    begun, _ = learner.update(spec, learner.init(spec, WIDTH), rows[:150], labels[:150])
    output_text = learner.predict(spec, begun, rows[:150])
    state = learner.learn(spec, begun, rows[150:], labels[150:])
    assert set(begun.classes) - set(state.classes)
    _, marked = learner.score(spec, state, output_text, labels[:150])
    assert marked.correct is not None
    right = [
        label is not None and label == name
        for label, name in zip(labels[:150], output_text.names, strict=True)
    ]
    assert marked.correct.tolist() == right and sum(right) > 10


def test_what_is_known_of_the_others_stays() -> None:
    """Ridge that forgets nothing: each class's weights are those of all rows that were learned."""
    spec = SPECS[0]
    assert isinstance(spec, RidgeSpec)
    rows, labels = late_classes()
    state, output_text = learn_all(spec, rows, labels)
    reported = [
        label if fit else None
        for label, fit in zip(labels, output_text.valid.tolist(), strict=True)
    ]
    found = turnover_of(spec, (), None, (), reported)
    learned = np.flatnonzero(found.places >= 0)
    x = np.column_stack([rows[learned], np.ones(len(learned))])
    gram = x.T @ x + spec.ridge * np.eye(WIDTH + 1)
    since = {turn.name: turn.row for turn in found.turns}
    assert len(since) >= 3
    for place, name in enumerate(state.classes):
        of = [reported[row] == name and row >= since.get(name, 0) for row in learned.tolist()]
        expected = np.linalg.solve(gram, x.T @ np.array(of, float))
        np.testing.assert_allclose(state.weights[place], expected, rtol=1e-8, atol=1e-10)


def test_names_that_never_come_again_take_no_place() -> None:
    spec = RidgeSpec(max_classes=2)
    labels: list[str | None] = ["a", "b"] * 20
    labels += [f"id {place}" for place in range(5_000)]
    found = turnover_of(spec, (), None, (), labels)
    assert not found.turns and found.kept.names == ("a", "b")
    assert len(found.kept.others) == 64
    assert sum(count for _, count, _ in found.kept.others) == 5_000
    # One that is frequent is found among them.
    mixed = [name for place in range(3_000) for name in (f"id {place}", "often")]
    found = turnover_of(spec, ("a", "b"), found.kept, (20, 20), mixed)
    assert [turn.name for turn in found.turns] == ["often"]


def test_names_are_bounded_however_classes_change() -> None:
    """Classes that take turns, each as late as it can, change places a bounded number of times."""
    spec = RidgeSpec(max_classes=2)
    classes: tuple[str, ...] = ("a", "b")
    kept, seen = KeptClasses(classes, (0, 1), ()), [1.0, 1.0]
    labels, count = 0, 0
    for number in range(60):
        most = int(TIMES * min(seen)) + LEAST + 1
        found = turnover_of(spec, classes, kept, seen, [f"n{number}"] * most)
        (turn,) = found.turns
        labels, count = labels + most, count + 1
        own, kept = list(classes), found.kept
        own[turn.place] = turn.name
        classes = tuple(own)
        seen[turn.place] = float(turn.labels + (found.places[turn.row :] >= 0).sum())
    bound = spec.max_classes * np.log(labels) / np.log(TIMES)
    assert count <= bound and len(kept.names) == 62 <= most_names(spec)
    # More than 2^64 labels could not fill the names.
    assert most_names(spec) > spec.max_classes * (64 * np.log(2) / np.log(TIMES) + 1)


def crafted() -> dict[str, Any]:
    rows, labels = late_classes()
    state, _ = learn_all(SPECS[0], rows, labels)
    found: dict[str, Any] = json.loads(json.dumps(get_learner("ridge").header(state)["kept"]))
    return found


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"names": "c0"}, "names"),
        ({"names": ["c0"] * 9}, "names"),
        ({"names": [f"c{n}" for n in range(5 * 256 + 1)]}, "names"),
        ({"names": ["x" * 201]}, "names"),
        ({"codes": [0, 1, 2, 3]}, "codes"),
        ({"codes": [0, 1, 2, 3, 99]}, "codes"),
        ({"codes": [0, 1, 2, 3, True]}, "codes"),
        ({"codes": [-1, 1, 2, 3, 4]}, "codes"),
        ({"others": [["c8", 1, 0]]}, "others"),
        ({"others": [["z", 1, 2]]}, "others"),
        ({"others": [["z", 1.5, 0]]}, "others"),
        ({"others": [["z", 1]]}, "others"),
        ({"others": [["z", 1, 0]] * 2}, "others"),
        ({"others": [[f"z{n}", 1, 0] for n in range(65)]}, "others"),
        ({"others": [["z", 2**62 + 1, 0]]}, "others"),
        ({"more": 1}, "names, codes, others"),
    ],
    ids=lambda change: next(iter(change)) if isinstance(change, dict) else change,
)
def test_crafted_classes_are_refused(change: dict[str, Any], field: str) -> None:
    rows, labels = late_classes()
    learner, (state, _) = get_learner("ridge"), learn_all(SPECS[0], rows, labels)
    header = {"classes": list(state.classes), "kept": {**crafted(), **change}}
    with pytest.raises(ConfigError, match=f"state.kept.*{field}"):
        learner.from_arrays(SPECS[0], learner.arrays(state), header)


def test_only_full_models_have_classes_without_a_place() -> None:
    learner, state = get_learner("ridge"), learn_all(SPECS[0], np.eye(3), ["a", "b", "c"])[0]
    kept = KeptClasses(("a", "b", "c"), (0, 1, 2), ())._asdict()
    header = {"classes": ["a", "b", "c"], "kept": {name: [*part] for name, part in kept.items()}}
    with pytest.raises(ConfigError, match=r"state\.kept\.codes"):
        learner.from_arrays(SPECS[0], learner.arrays(state), header)


@pytest.mark.parametrize("learner", [RidgeSpec(max_classes=5), AutoSpec(max_classes=5)])
def test_fleets_keep_them_too(learner: LearnerSpec) -> None:
    """However a frame is cut, and whatever other models there are."""
    import pandas as pd  # noqa: PLC0415

    parts = []
    for model in range(3):
        rows, labels = late_classes(400, seed=model)
        frame = pd.DataFrame(np.nan_to_num(rows), columns=["x", "y", "z"])
        parts.append(frame.assign(device=f"d{model}", label=labels))
    frame = pd.concat(parts).sort_index(kind="stable")
    asked: dict[str, Any] = {"model_id": "device", "label": "label", "features": ["x", "y", "z"]}
    one, cut = (Fleet(rank=3, warmup=20, learner=learner) for _ in range(2))
    whole = one.update(frame, **asked)
    pieces = [cut.update(frame.iloc[at : at + 101], **asked) for at in range(0, len(frame), 101)]
    assert whole["prediction"].tolist() == pd.concat(pieces)["prediction"].tolist()
    assert {"c6", "c7", "c8"} <= set(whole["prediction"].iloc[-300:])
