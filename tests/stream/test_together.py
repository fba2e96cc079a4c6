"""Models of a bundle together give what each gives by itself, bit for bit, and keep the same."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack import codec
from kerneltrack.errors import DataError
from kerneltrack.trackers import OKFEBSpec
from kerneltrack.trackers.okfeb import block
from tests.stream.running import SECOND, SPEC, Element, Outcome, Step, assert_same, make_rows
from transforms.kafka.commands import Command, as_chunk
from transforms.track import step as step_module
from transforms.track import together
from transforms.track.log import EntryCoder, Packed, Watch
from transforms.track.order import Order

ORDER = Order(max_disorder=3, max_jump=100)
MODELS = 5


def alone() -> Any:
    """A world in which no models go together."""
    return patch.object(step_module, "goes_together", lambda work, order: False)


def bundles(seed: int, odd: bool, chunk: int) -> Iterator[list[Element]]:
    """Yield what comes for a few models: rows out of order, and odd ones if they are asked for."""
    rng = np.random.default_rng(seed)
    parts: list[list[Element]] = []
    for model in range(MODELS):
        rows = make_rows(160, seed=10 * seed + model)
        # A few places away from where they belong: none is late by that.
        rows = rows.take(np.argsort(np.arange(160) + rng.integers(0, 4, 160), kind="stable"))
        if odd:
            rows.x[rng.integers(30, 160)] = np.nan
            rows.x[rng.integers(30, 160), 1] = 1e300
            assert rows.time is not None
            rows.time[rng.integers(60, 160)] = 0
            rows.time[rng.integers(60, 160)] += 500 * SECOND
        parts.append([(f"m{model}", part) for part in rows.cut([chunk])])
    elements = [part for turn in itertools.zip_longest(*parts) for part in turn if part]
    if odd:
        elements.insert(len(elements) // 2, ("m1", as_chunk(Command(None, None))))
    while elements:
        size = int(rng.integers(1, 4 * MODELS))
        yield elements[:size]
        del elements[:size]


def ran(given: Sequence[Sequence[Element]], whole: bool, **asked: Any) -> tuple[Outcome, Step]:
    """Run bundles through the step, or their elements one by one."""
    step = Step(**{"order": ORDER, **asked})
    for bundle in given:
        for part in [bundle] if whole else [[element] for element in bundle]:
            step.push_all(part)
    kept = {key: step.model(key) for key in sorted(step._cells)}
    step.kept = kept  # type: ignore[attr-defined]
    return step.finish(), step


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 10_000),
    odd=st.booleans(),
    chunk=st.sampled_from([1, 2, 7, 40]),
    disorder=st.sampled_from([0.0, 3.0, 20.0]),
)
def test_they_give_what_each_gives_by_itself(
    seed: int, odd: bool, chunk: int, disorder: float
) -> None:
    asked = {"order": Order(max_disorder=disorder, max_jump=100), "extras": ("q", "s"), "own": True}
    given = list(bundles(seed, odd, chunk))
    with alone():
        expected, by_itself = ran(given, False, **asked)
    found, step = ran(given, True, **asked)
    assert found.features.keys() == expected.features.keys()
    for key in expected.features:
        assert_same(found.table(key), expected.table(key))
    assert found.snapshots == expected.snapshots
    assert found.late == expected.late
    assert found.failures == expected.failures
    assert len(found.commands) == len(expected.commands)
    assert step.kept == by_itself.kept  # type: ignore[attr-defined]


def test_most_rows_go_through_a_block() -> None:
    with patch.object(block, "go_on", wraps=block.go_on) as run:
        ran(list(bundles(3, False, 1)), True)
    rows = sum(len(call.args[2]) for call in run.call_args_list)
    # All but the warm-up and what waits when the input ends.
    assert rows > MODELS * (160 - SPEC.warmup - 15)
    assert max(len(call.args[1]) for call in run.call_args_list) == MODELS


def test_blocks_are_cut_where_states_are_large() -> None:
    given = list(bundles(5, True, 3))
    whole, _ = ran(given, True)
    with patch.object(together, "MOST_BYTES", 1), patch.object(together, "MOST_ROWS", 1):
        cut, _ = ran(given, True)
    for key in whole.features:
        assert_same(cut.table(key), whole.table(key))
    assert cut.snapshots == whole.snapshots


@pytest.mark.parametrize(
    "asked",
    [
        {"spec": OKFEBSpec(rank=3, budget=5, warmup=20, emit="q"), "extras": ("q",)},
        {"spec": OKFEBSpec(rank=2, budget=9, warmup=3, kernel="polynomial", rule="parametric")},
        {"spec": OKFEBSpec(rank=2, budget=9, warmup=3, censor="rate", censor_rate=0.5)},
    ],
)
def test_other_settings(asked: dict[str, Any]) -> None:
    given = list(bundles(8, True, 2))
    with alone():
        expected, _ = ran(given, False, **asked)
    found, _ = ran(given, True, **asked)
    for key in expected.features:
        assert_same(found.table(key), expected.table(key))
    assert found.snapshots == expected.snapshots


def test_what_is_kept_goes_through_bytes() -> None:
    packed = Packed(-3, None, 7 * SECOND, b"numbers")
    data = EntryCoder().encode(packed)
    assert (
        data
        == b"p"
        + (-3).to_bytes(8, "little", signed=True)
        + b"\0\1"
        + bytes(8)
        + (7 * SECOND).to_bytes(8, "little")
        + b"numbers"
    )
    assert EntryCoder().decode(data) == packed
    with pytest.raises(DataError, match=r"^log: damaged: a model of 3 bytes$"):
        EntryCoder().decode(b"p123")
    watch = Watch(1.5, 2.5)
    assert EntryCoder().encode(watch) == b"w" + struct.pack("<ddd", 1.5, 2.5, 0.0)
    assert EntryCoder().decode(EntryCoder().encode(watch)) == watch
    with pytest.raises(DataError, match=r"^log: damaged: a watch of 3 bytes$"):
        EntryCoder().decode(b"w123")
    with pytest.raises(DataError, match=r"^log: an entry of kind b'\?': written by newer code$"):
        EntryCoder().decode(b"?123")


@pytest.mark.parametrize("damage", ["short", "counts"])
def test_a_damaged_state_is_refused(damage: str) -> None:
    step = Step(order=ORDER)
    rows = make_rows(80)
    for chunk in rows.take(np.arange(60)).cut([5]):
        step.push("m", chunk)
    bag = step._cells["m"]["log"]
    (place,) = (at for at, data in enumerate(bag.encoded) if data[:1] == b"p")
    data = bag.encoded[place]
    if damage == "short":
        bag.encoded[place] = data[:-1]
    else:
        # The counts are the last array: what the second says of stored rows leads a loop.
        assert codec.decode(step.model("m") or b"").state.counts.shape == (10,)
        bag.encoded[place] = data[:-72] + (10**9).to_bytes(8, "little") + data[-64:]
    with pytest.raises(DataError, match=r"^state of model 'm': damaged state: "):
        for chunk in rows.take(np.arange(60, 80)).cut([5]):
            step.push("m", chunk)
