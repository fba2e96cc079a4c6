"""History first, then live: rows that the history had, too, are left out, and no gap is seen."""

from __future__ import annotations

import math
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from apache_beam.transforms.window import SlidingWindows
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack import codec
from kerneltrack.errors import ConfigError
from tests.parts import examples
from tests.stream.running import (
    SPEC,
    Outcome,
    Rows,
    Step,
    about,
    assert_same,
    core_alone,
    exact,
    make_rows,
    step_through,
)
from tests.stream.test_boundaries import (
    BOUNDED,
    DRIFT,
    HOLD,
    arriving,
    each_boundary,
    elements_of,
    in_time,
    later,
    ordered,
    sensor,
    write_folder,
)
from transforms.track.clock import LEARNED_BEFORE
from transforms.track.order import Order
from transforms.track.transform import MeasureMismatch, TrackSubspace

ASKED = {
    "measure": MeasureMismatch(SlidingWindows(7, 3, 1), moving=5, most_rows=6),
    "drift": DRIFT,
}


def until(rows: Rows, time: int) -> Rows:
    return rows.take(np.flatnonzero(np.asarray(rows.time) <= time))


def assert_goes_on(live: Outcome, whole: Outcome, row: int) -> None:
    """What a live job gave is what one job over all rows gave from the row of this index on."""
    assert_same(live.table("m"), later(whole.table("m"), row))
    assert int(live.table("m")["index"][0]) == row
    assert in_time(live)[-1] == in_time(whole)[-1]
    assert live.late == []
    assert not [entry for entry in live.failures if entry[3].startswith(LEARNED_BEFORE)]


@settings(max_examples=examples(12))
@given(
    st.sampled_from([0.0, 0.7, 2.0]),
    st.integers(60, 110),
    st.integers(0, 110),
    st.lists(st.integers(1, 20), min_size=1, max_size=10),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_history_and_what_follows_are_one_job(
    max_disorder: float, cut: int, back: int, sizes: list[int], whole: bool, seed: int
) -> None:
    """However far the stream reaches back into the history."""
    rows = sensor(140, seed, whole)
    everything = step_through(elements_of(rows), order=BOUNDED, **ASKED)
    times = np.asarray(rows.time)
    history = step_through(elements_of(until(rows, int(times[cut]))), order=BOUNDED, **ASKED)
    read = np.flatnonzero(times >= times[max(cut - back, 0)])
    order = Order(max_disorder=max_disorder, hold_for=HOLD)
    with TemporaryDirectory() as folder:
        live = step_through(
            elements_of(arriving(rows.take(read), order, seed), sizes),
            order=order,
            warm=write_folder(history, Path(folder)),
            drop_overlap=True,
            **ASKED,
        )
    count = len(history.table("m")["index"])
    assert_goes_on(live, everything, count)
    # Windows that the history's end cut short are measured once more, whole.
    first = [line for line in history.mismatch["m"] if line["complete"]]
    assert ordered(first + live.mismatch.get("m", [])) == ordered(everything.mismatch["m"])
    reported = [outcome.alerts.get("m", []) for outcome in (history, live, everything)]
    assert exact(reported[0] + reported[1]) == exact(reported[2])
    refused = [entry for entry in everything.failures if entry[2] > cut]
    assert [entry for entry in live.failures if entry[2] > cut] == refused


def test_rows_of_the_very_boundary_are_still_to_come(tmp_path: Path) -> None:
    """A history that left only snapshots at boundaries: after a crash, for example."""
    rows = sensor(100, seed=5)
    asked = {**ASKED, "snapshot_every": 5.0}
    whole = step_through(elements_of(rows), order=BOUNDED, **asked)
    write_folder(whole, tmp_path)
    for entry, folder in each_boundary(tmp_path):
        reported = about((tmp_path / entry["tracker"]).read_bytes())
        if reported["final"]:
            continue
        order = Order(max_disorder=0, hold_for=HOLD)
        live = step_through(elements_of(rows), order=order, warm=folder, drop_overlap=True, **asked)
        assert_goes_on(live, whole, entry["rows"])


def test_without_it_they_are_refused_and_the_newest_one_counts_twice(tmp_path: Path) -> None:
    rows = sensor(100, seed=5)
    half = until(rows, int(np.asarray(rows.time)[60]))
    history = step_through(elements_of(half), order=BOUNDED)
    folder = write_folder(history, tmp_path)
    rows_before = about(in_time(history)[-1])["rows"]
    kept = {}
    for drop in (False, True):
        step = Step(order=Order(max_disorder=0), warm=folder, drop_overlap=drop)
        out = step.push("m", half.chunk())
        kept[drop] = len(out.failures), len(out.features)
        model = step.model("m")
        assert model is not None
        assert (about(model)["rows"] > rows_before) is not drop
        assert codec.decode(model).spec == SPEC
    assert kept[True] == (0, 0)
    assert kept[False][0] > 0
    assert kept[False][1] == 1


def test_it_needs_snapshots() -> None:
    with pytest.raises(ConfigError, match="drop_overlap = True: must be False without snapshots"):
        TrackSubspace(SPEC, Order(max_disorder=math.inf), drop_overlap=True)


@pytest.mark.parametrize(
    ("order", "every"),
    [
        (Order(), None),
        (Order(), 5.0),
        (Order(max_disorder=0.0, max_jump=3600), None),
        (Order(max_disorder=2.0, max_jump=3600), 5.0),
        (Order(max_jump=3600), None),
    ],
)
def test_a_row_that_no_model_can_take_moves_no_clock(
    order: Order, every: float | None, tmp_path: Path
) -> None:
    """One of 2096 whose features are missing: the next job goes on after the rows before it."""
    rows = make_rows(120)
    first, last = rows.take(np.arange(80)), rows.take(np.arange(80, 120))
    bad = make_rows(1, times=np.array([4 * 10**18]))
    bad.x[0, 1] = np.nan
    asked = {"order": order, "measure": MeasureMismatch(SlidingWindows(7, 3, 1))}
    reported = step_through(
        [("m", first.chunk()), ("m", bad.chunk())], snapshot_every=every, **asked
    )
    alone = step_through([("m", first.chunk())], snapshot_every=every, **asked)
    assert [entry[3] for entry in reported.failures] == ["channel 1 is NaN"]
    ended, wanted = in_time(reported)[-1], in_time(alone)[-1]
    if order.confirms:
        assert ended == wanted
    else:
        # It says, as any row, that all before it have come: windows and boundaries end.
        assert (
            codec.read_header(ended)["about"]["time"] == codec.read_header(wanted)["about"]["time"]
        )
    folder = write_folder(reported, tmp_path)
    live = step_through([("m", last.chunk())], warm=folder, order=order)
    assert live.failures == []
    assert_same(live.table("m"), later(core_alone(rows), 80))
