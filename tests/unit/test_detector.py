"""The detector as users of PyOD and scikit-learn know theirs; rows in, episodes out."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone, is_outlier_detector
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kerneltrack import OKFEBSpec
from kerneltrack.errors import ConfigError
from kerneltrack.monitor import Episode, ReferenceDetector, ReferenceSpec, find_episodes, reference
from tests.parts import examples, lanes
from transforms.track.transform import TrackSubspace

Array = npt.NDArray[np.float64]


def normal(seed: int, count: int, width: int = 3) -> Array:
    return np.random.default_rng(seed).normal(size=(count, width))


def broken() -> Array:
    rows = normal(3, 1600)
    rows[800:900, 1] += 8
    return rows


def test_labels_are_scores_above_the_threshold() -> None:
    rows = normal(0, 1500)
    detector = ReferenceDetector().fit(rows[:1000])
    assert detector.decision_scores_.shape == detector.labels_.shape == (1000,)
    assert np.isfinite(detector.decision_scores_).all()
    assert detector.threshold_ == max(2.0, detector.decision_scores_.max())
    assert not detector.labels_.any()
    further = rows[1000:]
    score = detector.decision_function(further)
    assert detector.predict(further).tolist() == (score > detector.threshold_).astype(int).tolist()
    assert not detector.predict(further).any()
    further[250:] += 5
    assert detector.predict(further)[[0, 249, 270, -1]].tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
def test_contamination_is_the_share_of_odd_rows_among_those_fitted(share: float) -> None:
    detector = ReferenceDetector(contamination=share)
    labels = detector.fit_predict(normal(1, 1000))
    assert labels.sum() == pytest.approx(1000 * share, abs=1)
    assert labels.tolist() == detector.labels_.tolist()
    assert detector.threshold_ == np.quantile(detector.decision_scores_, 1 - share)


def test_looking_changes_nothing_and_going_on_does() -> None:
    rows = broken()
    detector = ReferenceDetector().fit(rows[:700])
    first = detector.decision_function(rows[700:])
    detector.predict(rows[700:])
    assert detector.in_episode(rows[700:])[[0, 110, -1]].tolist() == [0, 1, 0]
    assert detector.decision_function(rows[700:]).tolist() == first.tolist()
    assert detector.episodes_ == []
    detector.partial_fit(rows[700:850]).partial_fit(rows[850:])
    assert [episode.state for episode in detector.episodes_] == ["open", "closed"]
    assert detector.in_episode(rows[:10]).tolist() == [0] * 10


def test_a_first_partial_fit_is_a_fit() -> None:
    rows = normal(2, 400)
    once = ReferenceDetector().partial_fit(rows)
    assert once.decision_scores_.tolist() == ReferenceDetector().fit(rows).decision_scores_.tolist()


def test_a_fit_forgets_what_was_before() -> None:
    rows, again = broken(), ReferenceDetector()
    again.fit(rows[:700]).partial_fit(rows[700:])
    assert again.fit(rows[:700]).episodes_ == []
    assert again.spec is None


def test_clone_takes_the_arguments_and_nothing_else() -> None:
    spec = ReferenceSpec(lags=3)
    detector = ReferenceDetector(spec, contamination=0.1).fit(normal(4, 300))
    other = clone(detector)
    assert other.get_params() == {"spec": spec, "contamination": 0.1} == detector.get_params()
    assert not hasattr(other, "state_")
    assert detector.spec_.rows == 300
    assert other.set_params(contamination=None).contamination is None
    with pytest.raises(ConfigError, match="parameter = 'rate'"):
        other.set_params(rate=1)
    assert repr(ReferenceDetector(contamination=0.1)) == "ReferenceDetector(contamination=0.1)"


def holed() -> Array:
    rows = normal(0, 300)
    rows[7, 2] = np.nan
    return rows


@pytest.mark.parametrize(
    ("rows", "output_text"),
    [
        (normal(0, 300)[:, 0], "X = "),
        (normal(0, 100), "X = "),
        (np.zeros((300, 0)), "X = "),
        (holed(), r"X\[7, 2\] = nan"),
        ([["a", "b"]] * 300, "X = 'list'"),
    ],
)
def test_rows_that_are_none_are_refused(rows: Any, output_text: str) -> None:
    with pytest.raises(ConfigError, match=output_text):
        ReferenceDetector().fit(rows)


def test_further_rows_are_looked_at_too() -> None:
    detector = ReferenceDetector()
    with pytest.raises(ConfigError, match="fitted"):
        detector.decision_function(normal(0, 5))
    detector.fit(normal(0, 300))
    for rows, output_text in ((normal(0, 5, 4), "X = "), (normal(0, 5)[0], "X = "), (holed(), "X")):
        with pytest.raises(ConfigError, match=output_text):
            detector.predict(rows)
    assert detector.predict(np.zeros((0, 3))).tolist() == []


@pytest.mark.parametrize("share", [0.0, 0.6, -1.0, float("nan")])
def test_a_contamination_out_of_range_is_refused(share: float) -> None:
    with pytest.raises(ConfigError, match="contamination"):
        ReferenceDetector(contamination=share).fit(normal(0, 300))


def test_episodes_are_those_of_update_and_each_is_told_once() -> None:
    rows, spec = broken(), ReferenceSpec()
    found = find_episodes(rows)
    state, scores, reported = reference.update(spec, reference.init(spec, rows[:512]), rows)
    assert [_plain(episode) for episode in found.episodes] == [_plain(reported[-1])]
    assert found.scores.p.tobytes() == scores.p.tobytes()
    assert found.state.tables.reals.tobytes() == state.tables.reals.tobytes()


def test_an_open_episode_is_told_as_it_stands() -> None:
    found = find_episodes(broken()[:880])
    (episode,) = found.episodes
    assert (episode.state, episode.row) == ("open", 879)


def _plain(episode: Episode) -> tuple[Any, ...]:
    return tuple(x.tobytes() if isinstance(x, np.ndarray) else x for x in episode)


FURTHER = broken()[600:1100]
FITTED = ReferenceDetector(contamination=0.05).fit(broken()[:600])
SCORES = FITTED.decision_function(FURTHER)


@settings(max_examples=examples(30))
@given(st.lists(st.integers(0, len(FURTHER)), max_size=12), st.booleans())
def test_scores_are_the_same_however_rows_are_cut_into_calls(
    cuts: list[int], at_once: bool
) -> None:
    detector: ReferenceDetector = pickle.loads(pickle.dumps(FITTED))
    labels, scores = [], []
    for part in np.split(FURTHER, sorted(cuts)):
        scores.append(detector.decision_function(part))
        labels.append(detector.predict(part))
        if at_once:
            assert detector.update(part).tobytes() == scores[-1].tobytes()
        else:
            detector.partial_fit(part)
    assert np.concatenate(scores).tobytes() == SCORES.tobytes()
    assert np.concatenate(labels).tolist() == FITTED.predict(FURTHER).tolist()
    whole = pickle.loads(pickle.dumps(FITTED)).partial_fit(FURTHER)
    reported = [_plain(episode) for episode in detector.episodes_]
    assert reported == [_plain(episode) for episode in whole.episodes_]


def test_a_lasting_fault_is_found_row_by_row() -> None:
    rows = normal(6, 1200)
    rows[1000:, 1] += 3
    detector = ReferenceDetector().fit(rows[:800])
    found = []
    for row in rows[800:, np.newaxis]:
        found.append(int(detector.predict(row)[0]))
        detector.partial_fit(row)
    assert (sum(found[:200]), sum(found[230:])) == (0, 170)


@pytest.mark.parametrize("share", lanes(0.1, 0.05))
@pytest.mark.parametrize("width", lanes(3, 1))
def test_new_normal_rows_keep_the_contamination(share: float, width: int) -> None:
    found = []
    for seed in range(30):
        rows = normal(seed, 3000, width)
        detector = ReferenceDetector(contamination=share).fit(rows[:1000])
        found.append(detector.predict(rows[1000:]).mean())
    assert share / 1.5 < np.mean(found) < 1.5 * share


@pytest.mark.parametrize("share", [None, 0.1])
@pytest.mark.parametrize("count", [256, 500])
def test_equal_rows_are_normal_after_equal_rows(share: float | None, count: int) -> None:
    detector = ReferenceDetector(contamination=share).fit(np.full((count, 3), 1.5))
    assert not detector.labels_.any()
    for size in (1, 100):
        same = np.full((size, 3), 1.5)
        assert not detector.predict(same).any()
        assert not detector.partial_fit(same).in_episode(same).any()
    other = np.full((50, 3), 2.5)
    assert detector.predict(other).all()


def test_scikit_learn_sees_an_outlier_detector() -> None:
    rows = broken()
    assert is_outlier_detector(ReferenceDetector())
    pipeline = make_pipeline(StandardScaler(), ReferenceDetector()).fit(rows[:700])
    assert is_outlier_detector(pipeline)
    assert pipeline.predict(rows[700:])[[0, 150, -1]].tolist() == [0, 1, 0]
    assert pipeline.decision_function(rows[700:]).shape == (900,)


FRAMES: dict[str, Any] = {
    "pandas": lambda rows, names: pd.DataFrame(rows, columns=names),
    "polars": lambda rows, names: pl.DataFrame(rows, schema=names),
    "Arrow": lambda rows, names: pa.table(list(rows.T), names=names),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_names_of_columns_are_remembered(kind: str) -> None:
    rows, names = normal(8, 400), ["flow", "heat", "oil"]
    frame = FRAMES[kind](rows, names)
    detector = ReferenceDetector().fit(frame)
    assert detector.feature_names_in_.tolist() == names
    plain = ReferenceDetector().fit(rows)
    assert plain.decision_function(rows).tolist() == detector.decision_function(frame).tolist()
    for other in (["oil", "heat", "flow"], ["flow", "heat", "water"]):
        with pytest.raises(ConfigError, match=r"columns of X = .* flow, heat, oil"):
            detector.predict(FRAMES[kind](rows, other))
    with pytest.warns(UserWarning, match="X had no names"):
        detector.predict(rows)
    with pytest.warns(UserWarning, match="fit had no names"):
        plain.predict(frame)
    assert not hasattr(detector.fit(rows), "feature_names_in_")


def test_names_that_are_no_texts_are_none() -> None:
    assert not hasattr(ReferenceDetector().fit(pd.DataFrame(normal(9, 300))), "feature_names_in_")


def test_a_condition_is_refused_where_all_rows_are_judged() -> None:
    spec = ReferenceSpec(only_while="channel[0] > 3")
    for judge in (
        lambda: find_episodes(broken(), spec),
        lambda: ReferenceDetector(spec).fit(broken()),
    ):
        with pytest.raises(
            ConfigError, match="only_while = 'channel\\[0\\] > 3': must be left out"
        ):
            judge()


def test_a_transform_takes_conditions_about_places() -> None:
    TrackSubspace(OKFEBSpec(), reference=ReferenceSpec(only_while="channel[0] > 3"))
    with pytest.raises(ConfigError, match="about channels by their places"):
        TrackSubspace(OKFEBSpec(), reference=ReferenceSpec(only_while="flow > 3"))
