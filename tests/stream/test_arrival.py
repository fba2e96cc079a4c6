"""Rows of many models that arrive at once, in the order of arrival: as the keyed step takes them.

The step sees a model's rows chunk by chunk and lets none wait longer than it must; the file job has
all of them. What becomes of each row is the same.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import FixedWindows
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kerneltrack.monitor.drift import DriftSpec
from kerneltrack.monitor.reference import ReferenceSpec
from kerneltrack.trackers import OKFEBSpec
from tests.parts import examples
from tests.stream.running import SECOND, Outcome, Rows, Step, assert_same, make_rows
from transforms import MeasureMismatch, Order, TrackSubspace
from transforms.outputs import FEATURES
from transforms.partition.grouped import run_partition
from transforms.partition.shuffle import MODEL, sort_rows
from transforms.partition.steps import Steps
from transforms.track.refusals import LATE

MODELS = 5
SPEC = OKFEBSpec(rank=3, budget=5, warmup=20, novelty_window=100)
WORK: dict[str, dict[str, Any]] = {
    "plain": {},
    "all": {
        "drift": DriftSpec(settle=10, block=1, delta=0.1, threshold=1.0, clip=5.0),
        "reference": ReferenceSpec(rows=256, lags=3, rank=3, budget=6),
        "measure": MeasureMismatch(FixedWindows(20)),
        "snapshot_every": 20.0,
    },
}


def arriving(rng: np.random.Generator, sources: int) -> Rows:
    """Rows of a device in the order of their places: late, repeated, ahead, some without values."""
    count = int(rng.integers(0, 25)) if rng.random() < 0.3 else int(rng.integers(25, 500))
    steps = rng.choice([0, 1, 1, 1, 2, 4, -1, -3, -12, 40], size=count)
    times = np.cumsum(steps) * SECOND // 2
    wild = rng.random(count) < 0.03
    times[wild] += rng.choice([10**13, 10**14, -(10**12), 10**16], wild.sum())
    rows = make_rows(count, seed=int(rng.integers(2**32)), times=times)
    rows.x[rng.random(rows.x.shape) < rng.choice([0, 0, 0.05])] = np.nan
    source = np.sort(rng.integers(0, sources, count)).astype(np.int32)
    return dataclasses.replace(rows, source=source, sequence=rng.integers(0, 3, count))


def by_the_step(rows: dict[str, Rows], order: Order, sizes: list[int], **work: Any) -> Outcome:
    """What the keyed step gives, rows cut into chunks of one source."""
    step = Step(spec=SPEC, order=order, **work)
    for key, own in rows.items():
        for source in np.unique(own.source):
            for chunk in own.take(np.flatnonzero(own.source == source)).cut(sizes):
                step.push(key, chunk.in_order())
    return step.finish()


def by_blocks(rows: dict[str, Rows], order: Order, **work: Any) -> Outcome:
    """What the file job gives, late rows as the step has them."""
    track = TrackSubspace(SPEC, order, **work)
    steps = Steps(track.step(), order)
    batches = [
        own.chunk().batch.append_column(MODEL, pa.array([key] * len(own), pa.string()))
        for key, own in rows.items()
        if len(own)
    ]
    outcome = Outcome()
    whole = sort_rows(pa.Table.from_batches(batches), steps.keys) if batches else None
    for output in run_partition(steps, whole, {}):
        part: str = output.tag if isinstance(output, TaggedOutput) else FEATURES
        value: Any = output.value if isinstance(output, TaggedOutput) else output
        if part != "failures":
            outcome.keep(part, value)
            continue
        for line in value.batch.to_pylist():
            if line["reason"] == LATE:
                outcome.late.append((line["model_id"], line["source"], line["row"]))
            else:
                outcome.failures.append(tuple(line.values()))
    return outcome.in_order()


@settings(max_examples=examples(30))
@given(
    st.builds(
        lambda waits, jump, rows, again, hold: Order(
            max_disorder=waits,
            max_jump=jump,
            jump_rows=rows,
            duplicates=again if waits else "keep",
            hold_for=hold,
        ),
        st.sampled_from([0.0, 0.5, 3.0, 30.0, 1e9]),
        st.sampled_from([np.inf, 3.0, 10.0, 1e6]),
        st.sampled_from([1, 2, 8]),
        st.sampled_from(["keep", "drop", "merge"]),
        st.sampled_from([None, 2.0]),
    ),
    st.sampled_from([*WORK]),
    st.integers(1, 3),
    st.integers(0, 2**32),
)
@example(Order(max_disorder=0.0, max_jump=3.0, jump_rows=2), "plain", 3, 0)
@example(Order(max_disorder=0.0, max_jump=3.0, jump_rows=2), "plain", 1, 136)
@example(Order(max_disorder=0.5, max_jump=3.0, jump_rows=2, duplicates="merge"), "plain", 1, 0)
@example(Order(max_disorder=0.5, max_jump=3.0, jump_rows=2, duplicates="drop"), "plain", 1, 0)
def test_what_becomes_of_rows_is_what_the_keyed_step_makes_of_them(
    order: Order,
    name: str,
    sources: int,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    rows = {f"m{number}": arriving(rng, sources) for number in range(MODELS)}
    work = WORK[name]
    # One chunk a source: of equal times in two, those that came first would run first.
    live = by_the_step(rows, order, [500], **work)
    found = by_blocks(rows, order, **work)
    assert found.late == live.late
    assert found.failures == live.failures
    assert found.features.keys() == live.features.keys()
    for key in live.features:
        assert_same(found.table(key), live.table(key))
    assert found.snapshots == live.snapshots
    for part in ("episodes", "alerts", "mismatch"):
        assert getattr(found, part) == getattr(live, part)


def test_a_model_that_waits_for_others_to_confirm_it_runs_in_the_order_of_time() -> None:
    """Whether it had rows enough to begin with before the end changes nothing."""
    times = np.array([11, 10, 12, 13, 14]) * SECOND
    rows = dataclasses.replace(
        make_rows(5, times=times), source=np.array([0, 1, 1, 1, 1], np.int32)
    )
    order = Order(max_disorder=0.0, max_jump=3.0, jump_rows=3)
    for outcome in (by_blocks({"m": rows}, order), by_the_step({"m": rows}, order, [5])):
        assert outcome.table("m")["time"].tolist() == sorted(times.tolist())
        assert outcome.late == []
