"""What the learner's step keeps between bundles: small, seldom touched, refused if damaged."""

from __future__ import annotations

import numpy as np
import pytest

from kerneltrack import codec
from kerneltrack.errors import DataError
from kerneltrack.learners import LearnerSpec, RidgeSpec
from tests.parts import ALL_EXAMPLES
from tests.stream.learning import (
    SECOND,
    SPEC,
    FeatureTable,
    Late,
    Step,
    label_chunk,
    make_features,
)
from transforms.learn.late_labels import LateLabels
from transforms.learn.learner import begin, decode, encode_snapshot, encode_working, opened

REGRESSION = RidgeSpec(task="regression")


def working(spec: LearnerSpec) -> tuple[Step, FeatureTable]:
    """A step with rows and labels of both kinds waiting, and the rows that come next."""
    table = make_features(60, spec=spec)
    assert table.time is not None
    step = Step(spec, late=LateLabels(4.0, 30), window=7 * SECOND)
    step.take(table.part(0, 40).chunk(table.kind))
    label = "run" if spec.classifies else 1.5
    indexes = [Late(label, index=row, row=row) for row in range(34, 50)]
    times = [Late(label, time=int(table.time[row]), row=row) for row in range(33, 60, 2)]
    step.take(label_chunk(indexes))
    step.take(label_chunk(times))
    return step, table.part(40, 60)


@pytest.mark.parametrize("spec", [SPEC, REGRESSION], ids=["classes", "targets"])
def test_bytes_come_back_as_they_were(spec: LearnerSpec) -> None:
    step, _ = working(spec)
    data = step.kept() or b""
    now = decode(spec, data, "here")
    assert now.waiting is not None
    assert (len(now.waiting), len(now.pending.by_index.key), len(now.pending.by_time.key)) == (
        8,
        16,
        14,
    )
    assert encode_working(spec, "m", now) == data
    # Of the labels a snapshot keeps those of the rows that wait, 32 to 39.
    kept = decode(spec, encode_snapshot(spec, "m", now), "there")
    assert kept.pending.by_index.key.tolist() == list(range(34, 40))
    assert len(kept.pending.by_time.key) == 4


@pytest.mark.parametrize("spec", [SPEC, REGRESSION], ids=["classes", "targets"])
def test_flipped_bits_are_refused_or_give_a_state_that_works(spec: LearnerSpec) -> None:
    step, rest = working(spec)
    data = step.kept() or b""
    header = 8 + int.from_bytes(data[:8], "little")
    rng = np.random.default_rng(1)
    worked = 0
    trials = 600 if ALL_EXAMPLES else 150
    for trial in range(trials):
        damaged = bytearray(data)
        for _ in range(rng.integers(1, 4)):
            place = rng.integers(0, len(data) if trial % 2 else header)
            damaged[place] ^= 1 << rng.integers(0, 8)
        again = Step(spec, late=LateLabels(4.0, 30), window=7 * SECOND)
        again.put(bytes(damaged))
        try:
            again.take(rest.chunk(rest.kind))
            again.end()
            worked += 1
        except DataError:
            continue
    assert trials / 30 < worked < trials * 29 / 30


def changed(data: bytes, **about: object) -> bytes:
    snapshot = codec.decode_learner(data)
    header = {**snapshot.header["about"], **about}
    return codec.encode_learner(snapshot.spec, snapshot.state, header, snapshot.extras)


@pytest.mark.parametrize(
    "about",
    [
        {"rows": None},
        {"rows": -1},
        {"rows": 2**62},
        {"rows": 5},
        {"rows": 40.0},
        {"time": "now"},
        {"time": 2**63},
        {"labels": 5},
        {"labels": []},
        {"labels": [1, 2, 3, 4]},
    ],
    ids=str,
)
def test_values_that_cannot_be_are_refused(about: dict[str, object]) -> None:
    step, _ = working(SPEC)
    with pytest.raises(DataError, match=r"^here: damaged (state|header): "):
        decode(SPEC, changed(step.kept() or b"", **about), "here")


def test_other_settings_are_named() -> None:
    data = encode_working(SPEC, "m", opened(SPEC, begin(SPEC), 3, 3))
    with pytest.raises(DataError, match=r"^here: made with other settings"):
        decode(REGRESSION, data, "here")
    with pytest.raises(DataError, match=r"^here: "):
        decode(SPEC, data[:-9], "here")


def test_the_state_is_as_large_as_what_waits() -> None:
    """8(r + 8) bytes a row that waits, in a state that does not grow with the stream."""
    late = LateLabels(None, 100)
    table = make_features(1000, missing=1.0)
    sizes: dict[LateLabels | None, list[int]] = {}
    for waits in (None, late):
        step = Step(SPEC, late=waits)
        sizes[waits] = []
        for start in range(0, 1000, 100):
            step.take(table.part(start, start + 100).chunk())
            sizes[waits].append(len(step.kept() or b""))
    assert max(sizes[None]) < 2500
    most = max(sizes[None]) + 8 * (3 + 8) * 100 + 1000
    assert all(most - 3000 < size < most for size in sizes[late])
