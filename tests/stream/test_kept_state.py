"""What keyed steps keep is written and read as the golden bytes say; other versions are refused."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from kerneltrack import codec
from kerneltrack.errors import DataError
from kerneltrack.fleet.restore import decode
from kerneltrack.fleet.states import encode
from pipelines.live.jobs import FORMATS, Left, Record, check_same
from tests.golden.keyed import make
from tests.stream.learning import SPEC, make_features
from transforms.learn import learner as learning
from transforms.track.clock import CLOCK_VERSION, Clock


def test_a_clock_is_read_and_written() -> None:
    data = (make.FOLDER / f"clock_v{CLOCK_VERSION}.json").read_bytes()
    assert Clock.decode(data) == make.CLOCK
    assert make.CLOCK.encode() == data


@pytest.mark.parametrize("version", [CLOCK_VERSION + 1, CLOCK_VERSION - 1, None, "5", 5.0, True])
def test_clocks_of_other_versions_are_refused(version: object) -> None:
    values = {**json.loads(make.CLOCK.encode()), "version": version}
    found = f"format version {version!r}: this code reads version {CLOCK_VERSION}"
    with pytest.raises(DataError, match=f"^clock: {re.escape(found)}$"):
        Clock.decode(json.dumps(values).encode())


@pytest.mark.parametrize("change", [{"taken": 0}, {"flushed": ...}])
def test_clocks_of_other_fields_are_refused(change: dict[str, object]) -> None:
    values = {**json.loads(make.CLOCK.encode()), **change}
    values = {name: value for name, value in values.items() if value is not ...}
    with pytest.raises(DataError, match=r"^clock: damaged: its fields are ahead, before, due, "):
        Clock.decode(json.dumps(values).encode())


def test_a_model_goes_on() -> None:
    """Windows that are open, the moving one, and the drift detector are part of it."""
    data = (make.FOLDER / f"model_v{codec.VERSION}.safetensors").read_bytes()
    model = decode(make.WORK, data, "golden")
    assert model.open is not None
    assert len(model.moving_times) == 4
    with np.load(make.FOLDER / f"model_v{codec.VERSION}.npz") as wanted:
        found = make.continued(model, wanted["rows"], wanted["times"])
        for name, values in found.items():
            assert values.tobytes() == wanted[name].tobytes(), name
    assert encode(make.WORK, "golden", model) == data


def test_a_learner_goes_on() -> None:
    """Rows that wait for labels, labels that wait for rows, and the metrics are part of it."""
    data = (make.FOLDER / f"learner_v{codec.VERSION}.safetensors").read_bytes()
    now = learning.decode(SPEC, data, "golden")
    assert now.waiting is not None
    assert len(now.waiting) == 8
    rest = make_features(60, spec=SPEC).part(40, 60)
    with np.load(make.FOLDER / f"learner_v{codec.VERSION}.npz") as wanted:
        assert make.predicted(data, rest) == wanted["score"].tolist()
    assert learning.encode_working(SPEC, "m", now) == data


@pytest.mark.parametrize(
    ("formats", "found"),
    [
        ({**FORMATS, "clock": CLOCK_VERSION + 1}, "clock version 6, this code reads version 5"),
        ({**FORMATS, "clock": CLOCK_VERSION - 1}, "clock version 4, this code reads version 5"),
        ({**FORMATS, "gizmo": 1}, "gizmo version 1, this code reads version none"),
        (
            {"clock": 5, "state": FORMATS["state"]},
            f"log version none, this code reads version {FORMATS['log']}",
        ),
    ],
)
def test_a_job_of_other_formats_is_not_gone_on_from(formats: dict[str, int], found: str) -> None:
    record = Record("a", "n", 1.0, "in", "digest", {}, formats)
    with pytest.raises(DataError, match=f"^file:///there: other code wrote it: {found}$"):
        check_same(Left("file:///there", record), {})


def test_a_job_of_the_same_formats_is() -> None:
    check_same(Left("file:///there", Record("a", "n", 1.0, "in", "digest", {}, FORMATS)), {})
