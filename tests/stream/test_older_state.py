"""What keyed steps kept under older versions is read for ever; newer versions are refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

from kerneltrack import codec
from kerneltrack.errors import DataError
from pipelines.live.jobs import FORMATS, Left, Record, check_same
from tests.golden.keyed import make
from tests.stream.learning import SPEC, make_features
from transforms.learn import learner as learning
from transforms.track.clock import CLOCK_VERSION, OLDEST_VERSION, Clock
from transforms.track.model import decode, encode


@pytest.mark.parametrize("version", range(OLDEST_VERSION, CLOCK_VERSION + 1))
def test_clocks_of_all_versions_are_read(version: int) -> None:
    data = (make.FOLDER / f"clock_v{version}.json").read_bytes()
    assert json.loads(data)["version"] == version
    assert Clock.decode(data) == make.CLOCK


@pytest.mark.parametrize("version", [CLOCK_VERSION + 1, 1, None, "1", True])
def test_clocks_of_other_versions_are_refused(version: object) -> None:
    data = json.dumps({"version": version, "newest": 5}).encode()
    with pytest.raises(DataError, match=f"format version {version}: this code reads 2 to "):
        Clock.decode(data)


@pytest.mark.parametrize("version", range(1, codec.VERSION + 1))
def test_models_of_all_versions_go_on(version: int) -> None:
    """Windows that are open, the moving one, and the drift detector are part of them."""
    data = (make.FOLDER / f"model_v{version}.safetensors").read_bytes()
    model = decode(make.WORK, data, "golden")
    assert model.open is not None
    assert len(model.moving_times) == 4
    with np.load(make.FOLDER / f"model_v{version}.npz") as wanted:
        found = make.continued(model, wanted["rows"], wanted["times"])
        for name, values in found.items():
            # Another CPU rounds another way; 20 rows carry that less than a thousandfold far.
            assert values == pytest.approx(wanted[name], abs=1e-9), name
    if version == codec.VERSION:
        assert encode(make.WORK, "golden", model) == data


@pytest.mark.parametrize("version", range(1, codec.VERSION + 1))
def test_learners_of_all_versions_go_on(version: int) -> None:
    """Rows that wait for labels, labels that wait for rows, and the metrics are part of them."""
    data = (make.FOLDER / f"learner_v{version}.safetensors").read_bytes()
    now = learning.decode(SPEC, data, "golden")
    assert now.waiting is not None
    assert len(now.waiting) == 8
    rest = make_features(60, spec=SPEC).part(40, 60)
    with np.load(make.FOLDER / f"learner_v{version}.npz") as wanted:
        assert make.predicted(data, rest) == pytest.approx(wanted["score"].tolist(), abs=1e-9)
    if version == codec.VERSION:
        assert learning.encode_working(SPEC, "m", now) == data


def test_a_job_of_newer_code_is_not_gone_on_from() -> None:
    record = Record("a", "n", 1.0, "in", "digest", {}, {**FORMATS, "clock": CLOCK_VERSION + 1})
    with pytest.raises(DataError, match=rf"newer code wrote it: clock version {CLOCK_VERSION + 1}"):
        check_same(Left("file:///there", record), {})
    check_same(Left("file:///there", Record("a", "n", 1.0, "in", "digest", {})), {})
