"""The detector in Beam's AnomalyDetection: its scores are the reference's, row by row."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.ml.anomaly.specifiable import Spec, Specifiable
from apache_beam.ml.anomaly.thresholds import FixedThreshold
from apache_beam.ml.anomaly.transforms import AnomalyDetection
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.yaml.yaml_transform import YamlTransform

from kerneltrack.errors import ConfigError, DataError
from kerneltrack.monitor import ReferenceSpec, find_episodes
from transforms.anomaly import CUTOFF, ReferenceDetector

ROOT = Path(__file__).resolve().parents[2]
ROWS, COUNT = 256, 400
X = np.random.default_rng(3).normal(size=(COUNT, 2))
X[350:, 1] += 7


def rows_of(x: Any) -> list[beam.Row]:
    return [beam.Row(flow=float(flow), heat=float(heat)) for flow, heat in x]


def expected() -> list[float]:
    p = find_episodes(X, ReferenceSpec(rows=ROWS)).scores.p[ROWS:]
    # NumPy's own log10 has another last bit on some processors.
    return [math.nan] * ROWS + [-math.log10(part) for part in p.tolist()]


def run(detector: ReferenceDetector, rows: list[beam.Row]) -> list[float | None]:
    output_text = []
    for row in rows:
        output_text.append(detector.score_one(row))
        detector.learn_one(row)
    return output_text


def test_scores_are_those_of_the_reference() -> None:
    output_text = np.array(run(ReferenceDetector(rows=ROWS), rows_of(X)), float)
    np.testing.assert_array_equal(output_text, expected())
    assert output_text[360:].min() > 4 > np.quantile(output_text[ROWS:340], 0.95)


@pytest.mark.parametrize("cut", [0, 100, ROWS, 300])
def test_a_detector_goes_on_from_its_bytes(cut: int) -> None:
    detector = ReferenceDetector(rows=ROWS)
    run(detector, rows_of(X[:cut]))
    data = pickle.dumps(detector)
    assert b"numpy" not in data
    again = pickle.loads(data)
    output_text = run(again, rows_of(X[cut:]))
    np.testing.assert_array_equal(np.array(output_text, float), expected()[cut:])


def test_bad_rows_have_no_score_and_leave_no_trace() -> None:
    detector = ReferenceDetector(rows=ROWS)
    for bad in (None, math.nan, math.inf, "seven", 10**400):
        assert run(detector, [beam.Row(flow=1.0, heat=bad)]) == [None]
    np.testing.assert_array_equal(np.array(run(detector, rows_of(X)), float), expected())
    assert run(detector, [beam.Row(flow=1.0)]) == [None]
    other = [beam.Row(heat=float(heat), flow=float(flow)) for flow, heat in X]
    np.testing.assert_array_equal(
        np.array(run(ReferenceDetector(rows=ROWS), rows_of(X[:9]) + other[9:]), float), expected()
    )
    with pytest.raises(DataError, match="has oil besides the first one's flow, heat: name the"):
        detector.score_one(beam.Row(flow=1.0, heat=1.0, oil=1.0))


def test_named_features_are_taken_from_any_row() -> None:
    detector = ReferenceDetector(rows=ROWS, features=["flow", "heat"])
    rows = [beam.Row(id="a", heat=float(heat), flow=float(flow)) for flow, heat in X]
    assert run(detector, [beam.Row(id="a", flow=1.0)]) == [None]
    np.testing.assert_array_equal(np.array(run(detector, rows), float), expected())
    with beam.Pipeline() as pipeline:
        keyed = [("a", row) for row in [*rows, beam.Row(id="a", flow=1.0)]]
        apart = beam.FlatMap(lambda rows: rows).with_output_types(tuple[str, beam.Row])
        detect = AnomalyDetection(ReferenceDetector(rows=ROWS, features=["flow", "heat"]))
        odd = pipeline | beam.Create([keyed]) | apart | detect
        scores = odd | beam.Map(lambda one: one[1].predictions[0].score is None)
        count = scores | beam.combiners.Count.PerElement()
        assert_that(count, equal_to([(False, COUNT), (True, 1)]))


def test_equal_rows_are_normal_after_equal_rows() -> None:
    same, other = beam.Row(flow=1.0, heat=2.0), beam.Row(flow=1.0, heat=3.0)
    detector = ReferenceDetector(rows=ROWS)
    output_text = run(detector, [same] * (ROWS + 200))[ROWS:]
    assert max(float(score or 0.0) for score in output_text) < CUTOFF
    assert float(run(detector, [other])[0] or 0.0) > CUTOFF


def test_arguments_are_checked_when_it_is_made_and_go_through_its_spec() -> None:
    bad: Any = ReferenceDetector(rows=3)
    with pytest.raises(ConfigError, match="rows = 3"):
        bad.run_original_init()
    made = Specifiable.from_spec(Spec("KernelReference", {"rows": ROWS, "learning": "gated"}))
    assert isinstance(made, ReferenceDetector)
    np.testing.assert_array_equal(np.array(run(made, rows_of(X[:ROWS]))[:5], float), [math.nan] * 5)
    with pytest.raises(DataError, match="damaged"):
        made.from_bytes(ReferenceDetector(rows=ROWS).to_bytes().replace(b"names", b"nomen"))


def test_a_worker_that_has_not_imported_it_knows_it() -> None:
    spec: Any = ReferenceDetector(rows=ROWS)
    script = """
import pickle, sys
from apache_beam.ml.anomaly.specifiable import Specifiable
assert "transforms.anomaly" not in sys.modules
made = Specifiable.from_spec(pickle.load(sys.stdin.buffer))
print(type(made).__name__, made._spec.rows)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=pickle.dumps(spec.to_spec()),
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode().split() == ["ReferenceDetector", str(ROWS)]


def test_it_works_in_beam_yaml() -> None:
    text = """
type: AnomalyDetection
config:
  detector:
    type: KernelReference
    config: {rows: 256, features: [flow, heat]}
"""

    def check(results: list[Any]) -> None:
        missing = [result for result in results if result.predictions[0].label == -2]
        assert (len(results), len(missing)) == (COUNT, ROWS)

    with beam.Pipeline() as pipeline:
        assert_that(pipeline | beam.Create(rows_of(X)) | YamlTransform(text), check)


def test_it_works_in_anomaly_detection_by_key() -> None:
    detector = ReferenceDetector(
        rows=ROWS, features=["flow", "heat"], threshold_criterion=FixedThreshold(6.0)
    )

    def check(results: list[Any]) -> None:
        for key in ("a", "b"):
            mine = [result for found, result in results if found == key]
            odd = [result for result in mine if result.predictions[0].label == 1]
            missing = [result for result in mine if result.predictions[0].label == -2]
            assert (len(mine), len(missing)) == (COUNT, ROWS)
            # Beam keeps no order, so that the reference may be made of any rows.
            assert all(result.predictions[0].model_id == "KernelReference" for result in mine)
            assert all(result.predictions[0].score > 6.0 for result in odd)

    with beam.Pipeline() as pipeline:
        keyed = [(key, row) for key in ("a", "b") for row in rows_of(X)]
        found = pipeline | beam.Create(keyed) | AnomalyDetection(detector)
        assert_that(found, check)
