"""Models of a bundle together give what each gives by itself, bit for bit, and keep the same."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack import codec
from kerneltrack.errors import DataError
from kerneltrack.fleet.run import run_models
from kerneltrack.learners import RidgeSpec
from kerneltrack.monitor import reference
from kerneltrack.monitor.drift import DriftSpec
from kerneltrack.monitor.reference import ReferenceSpec
from kerneltrack.monitor.reference import block as references
from tests.parts import examples
from tests.stream import learning
from tests.stream.running import (
    SECOND,
    Element,
    Outcome,
    Step,
    assert_same,
    exact,
    make_rows,
)
from transforms.chunks import Chunk
from transforms.keyed.commands import Command, as_chunk, command_of
from transforms.learn.late_labels import LateLabels
from transforms.learn.plan import LearnLabels
from transforms.outputs import LOST_LABELS
from transforms.track import log as log_module
from transforms.track import slices, visits
from transforms.track import step as step_module
from transforms.track.arrival import Visit
from transforms.track.log import Cells, EntryCoder, ModelLog, Watch
from transforms.track.order import Order
from transforms.track.packed import Packed
from transforms.track.visits import run_visits
from transforms.train import FAILURES

ORDER = Order(max_disorder=3, max_jump=100)
MODELS = 5


def each_alone(refusals: Any, given: Iterable[Visit]) -> Iterator[Any]:
    """Run every model as a block of its own."""
    for visit in given:
        yield from run_visits(refusals, [visit])


def alone() -> Any:
    """A world in which no models go together."""
    return patch.object(step_module, "run_visits", each_alone)


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


@settings(max_examples=examples(12))
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
    assert step.kept == by_itself.kept  # type: ignore[attr-defined]


@settings(max_examples=examples(10))
@given(
    seed=st.integers(0, 10_000),
    odd=st.booleans(),
    chunk=st.sampled_from([1, 2, 7, 40]),
    disorder=st.sampled_from([0.0, 3.0, 20.0]),
    late=st.sampled_from([None, LateLabels(20.0, 30)]),
    inputs=st.sampled_from(["features", "both"]),
)
def test_a_learner_in_the_step_is_one_behind_it(
    seed: int, odd: bool, chunk: int, disorder: float, late: LateLabels | None, inputs: str
) -> None:
    """What it predicts, scores and keeps is what `TrainLinear` makes of the features."""
    spec = RidgeSpec(max_classes=3, inputs=inputs)
    order, learner = Order(max_disorder=disorder, max_jump=100), LearnLabels(spec, late, 7.0, False)
    step = Step(order=order, learner=learner, snapshot_every=11.0)
    behind = learning.Step(spec, late=late, window=7 * SECOND, every=11 * SECOND)
    wanted = Outcome()
    for bundle in bundles(seed, odd, chunk):
        rows = [(key, named(part)) for key, part in bundle if command_of(part) is None]
        labels = [(key, labels_of(part)) for key, part in rows] if late else []
        if late:
            rows = [(key, Chunk(part.batch.drop_columns("label"))) for key, part in rows]
        found = step.push_all([*labels, *rows])
        features = [(key, part) for key, parts in found.features.items() for part in parts]
        for name, element in behind.push([*labels, *features]):
            wanted.keep(LOST_LABELS if name == FAILURES else name, element)
    whole = step.finish()
    for key, parts in whole.features.items():
        # Rows that come twice are left out.
        for name, element in [*behind.push([(key, part) for part in parts]), *behind.end(key)]:
            wanted.keep(LOST_LABELS if name == FAILURES else name, element)
    assert sum(map(len, whole.predictions.values())) > 100 * MODELS
    for name in ("predictions", "scored", "metrics"):
        found_lines, wanted_lines = getattr(whole, name), getattr(wanted, name)
        assert found_lines.keys() == wanted_lines.keys()
        for key, lines in wanted_lines.items():
            assert sorted(map(repr, exact(found_lines[key]))) == sorted(map(repr, exact(lines)))
    assert sorted(whole.lost) == sorted(wanted.lost)
    states = [data for _, data in whole.snapshots]
    learners = [data for data in states if codec.LEARNER in codec.read_header(data)]
    assert sorted(data for _, data in wanted.snapshots) == sorted(learners)


def named(rows: Chunk) -> Chunk:
    """Rows with labels that depend on them."""
    labels = np.where(rows.column("x")[:, 0] > 0, "up", "down")
    return Chunk(rows.batch.append_column("label", pa.array(labels)))


def labels_of(rows: Chunk) -> Chunk:
    """The labels of rows by themselves."""
    return Chunk(rows.batch.select(["time", "source", "row", "label"]))


@settings(max_examples=examples(15))
@given(
    seed=st.integers(0, 10_000),
    odd=st.booleans(),
    chunk=st.sampled_from([1, 2, 7]),
    disorder=st.sampled_from([10.0, 20.0]),
    most=st.sampled_from([8, log_module.MOST_APPENDED]),
)
def test_rows_that_wait_may_stay_where_they_are(
    seed: int, odd: bool, chunk: int, disorder: float, most: int
) -> None:
    """As many rows that wait do, so that few are written anew: nothing tells of it."""
    asked = {"order": Order(max_disorder=disorder, max_jump=100), "own": True}
    given = list(bundles(seed, odd, chunk))
    anew, written = ran(given, True, **asked)
    with (
        patch.object(log_module, "LEAST_LEFT", 1),
        patch.object(log_module, "MOST_APPENDED", most),
        patch.object(ModelLog, "append", autospec=True, side_effect=ModelLog.append) as append,
    ):
        found, step = ran(given, True, **asked)
    assert append.call_count
    for key in anew.features:
        assert_same(found.table(key), anew.table(key))
    assert found.snapshots == anew.snapshots
    assert (found.late, found.failures) == (anew.late, anew.failures)
    assert step.kept == written.kept  # type: ignore[attr-defined]


def test_what_waits_is_seldom_written_anew() -> None:
    """Of twenty messages that wait, one comes and one goes with each bundle."""
    order = Order(max_disorder=5_000, max_jump=1e9)
    step = Step(order=order)
    rows = make_rows(20_000)
    sizes = []
    for chunk in rows.cut([500]):
        before = list(step._cells["m"]["log"].encoded) if "m" in step._cells else []
        step.push("m", chunk)
        after = step._cells["m"]["log"].encoded
        both = zip(before, after, strict=False)
        same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], both))
        sizes.append(sum(map(len, after[same:])))
        assert sum(map(len, after)) < 2.5 * 20 * len(chunk.encode())
    late = sizes[22:]
    assert np.median(late) < 2 * len(chunk.encode())
    assert np.mean(late) < 0.4 * max(late)
    # Of a model that has fallen silent nothing stays but itself.
    fn, cells = step._step, Cells(**step._cells["m"])
    log = ModelLog(cells)
    assert log.clock is not None
    out: Any = run_visits(fn.refusals, [Visit("m", log, log.clock, flush=True)])
    assert sum(len(chunk) for _, chunk in out) == 20_000 - len(step.outcome.table("m")["index"])
    log.commit()
    assert sum(map(len, cells.log.encoded)) < len(chunk.encode()) / 4


def test_all_rows_go_through_a_block() -> None:
    with patch.object(slices, "run_models", wraps=run_models) as run:
        ran(list(bundles(3, False, 1)), True)
    rows = sum(len(call.args[1]) for call in run.call_args_list)
    assert rows == MODELS * 160
    assert max(len(call.args[0]) for call in run.call_args_list) == MODELS


def test_blocks_are_cut_where_states_are_large() -> None:
    given = list(bundles(5, True, 3))
    whole, _ = ran(given, True)
    with patch.object(visits, "MOST_BYTES", 1), patch.object(visits, "MOST_ROWS", 1):
        cut, _ = ran(given, True)
    for key in whole.features:
        assert_same(cut.table(key), whole.table(key))
    assert cut.snapshots == whole.snapshots


HELD = ReferenceSpec(rows=256, lags=3, rank=3, budget=6, false_alarms=1e-3, per=1)


def test_what_few_rows_change_is_written_at_the_end_of_a_block() -> None:
    step = Step(order=Order(max_disorder=0), reference=HELD)
    written: list[tuple[int, bytes]] = []
    rows = make_rows(600, times=np.arange(600) * SECOND)
    first, *rest = rows.cut([30, 1])
    step.push("m", first)
    for chunk in rest:
        step.push("m", chunk)
        (kept,) = step._cells["m"]["kept"].encoded or [b""]
        if not written or written[-1][1] != kept:
            written.append((int(chunk.column("row")[0]) + 1, kept))
    # The first row of the fit is that after which a packed model is written for the first time.
    assert [row for row, _ in written] == [31, 128, 256]
    step.push("m", as_chunk(Command(None, None)))
    assert step._cells["m"]["kept"].encoded == []


def test_what_is_kept_goes_through_bytes() -> None:
    packed = Packed(
        -3,
        None,
        7 * SECOND,
        2,
        b"numbers",
        moving=b"more",
        drift=b"drift",
        last_values=b"h",
        open=b"op",
        window=b"win",
        origin="ü",
        kept=b"not with them",
        ran=5,
    )
    data = EntryCoder().encode(packed)
    numbers = [-3, 2, 5], [0, 7 * SECOND, 7, 4, 5, 1, 2, 3]
    first, then = (struct.pack(f"<{len(part)}q", *part) for part in numbers)
    assert data == b"p" + first + b"\0\1" + then + b"numbersmoredrifthopwin\xc3\xbc"
    packed = packed._replace(kept=b"")
    assert EntryCoder().decode(data) == packed
    with pytest.raises(DataError, match=r"^log: damaged: a model of 3 bytes$"):
        EntryCoder().decode(b"p123")
    watch = Watch(1.5, 2.5)
    assert EntryCoder().encode(watch) == b"w" + struct.pack("<ddd", 1.5, 2.5, 0.0)
    assert EntryCoder().decode(EntryCoder().encode(watch)) == watch
    with pytest.raises(DataError, match=r"^log: damaged: a model of 89 bytes$"):
        EntryCoder().decode(data[:90])
    with pytest.raises(DataError, match=r"^log: damaged: a watch of 3 bytes$"):
        EntryCoder().decode(b"w123")
    with pytest.raises(DataError, match=r"^log: an entry of kind b'\?': written by newer code$"):
        EntryCoder().decode(b"?123")


DAMAGED = r"^state of model 'm': damaged state: "


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ("short", r"^log: damaged: a model of \d+ bytes$"),
        ("length", DAMAGED + r"state = '2335 bytes': must be "),
        ("counts", DAMAGED + r"state.counts, stored rows = 1000000000: must be "),
        ("reference", DAMAGED + r"reference.counts, scores kept = 1000000000: must be "),
        ("subspace", DAMAGED + r"state.counts, stored rows = 1000000000: must be "),
        ("nothing kept", DAMAGED + r"state = '0 bytes': must be "),
        ("drift", DAMAGED + r"drift.counts, losses that wait = 1000000000: must be "),
        ("no drift", DAMAGED + r"state = '0 bytes': must be "),
    ],
)
def test_a_damaged_state_is_refused(damage: str, says: str) -> None:
    step = Step(order=ORDER, reference=HELD, drift=DriftSpec())
    rows = make_rows(80)
    for chunk in rows.take(np.arange(60)).cut([5]):
        step.push("m", chunk)
    log, kept = step._cells["m"]["log"], step._cells["m"]["kept"]
    (place,) = (at for at, data in enumerate(log.encoded) if data[:1] == b"p")
    packed, wrong = Packed.decode(log.encoded[place][1:]), (10**9).to_bytes(8, "little")
    moving, of_kernel = references.parts_of(HELD, 3)
    if damage == "length":
        packed = packed._replace(body=packed.body[:-1])
    elif damage == "counts":
        # The counts are the last array: what the second says of stored rows leads a loop.
        assert codec.decode(step.model("m") or b"").state.counts.shape == (10,)
        packed = packed._replace(body=packed.body[:-72] + wrong + packed.body[-64:])
    elif damage == "reference":
        at = moving.offsets["counts"] + 8 * reference.KEPT
        packed = packed._replace(moving=packed.moving[:at] + wrong + packed.moving[at + 8 :])
    elif damage == "subspace":
        at, (data,) = of_kernel.offsets["kernel.counts"] + 8, kept.encoded
        kept.encoded = [data[:at] + wrong + data[at + 8 :]]
    elif damage == "drift":
        packed = packed._replace(drift=packed.drift[:-48] + wrong + packed.drift[-40:])
    elif damage == "no drift":
        packed = packed._replace(drift=b"")
    elif damage == "nothing kept":
        kept.encoded = []
    log.encoded[place] = b"p" + packed.encode()
    if damage == "short":
        left = len(packed.moving) + len(packed.drift)
        log.encoded[place] = log.encoded[place][: -left - 1]
    with pytest.raises(DataError, match=says):
        for chunk in rows.take(np.arange(60, 80)).cut([5]):
            step.push("m", chunk)
