"""Snapshots at event-time boundaries, and jobs that go on from them as if none had ended."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows, SlidingWindows
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save

from kerneltrack import codec
from kerneltrack.errors import ConfigError, DataError
from kerneltrack.in_memory import learn_all, run_all
from kerneltrack.learners import RidgeSpec
from kerneltrack.monitor.drift import DriftSpec
from kerneltrack.registry import get_tracker
from kerneltrack.snapshots.folder import SnapshotFolder
from kerneltrack.time_units import day_of
from kerneltrack.trackers import OKFESpec
from kerneltrack.trackers.common.spec import SubspaceSpec
from tests.oracles.streams import state_bytes
from tests.parts import examples, lanes
from tests.stream.running import (
    SECOND,
    SPEC,
    Element,
    Line,
    Outcome,
    Rows,
    Step,
    Table,
    about,
    assert_same,
    exact,
    make_rows,
    step_through,
    track,
    track_stream,
)
from tests.stream.test_hold import by_hand
from tests.stream.test_order import arrival
from transforms.snapshots.write import WriteSnapshots
from transforms.track.clock import LEARNED_BEFORE
from transforms.track.order import Order
from transforms.track.transform import MeasureMismatch, TrackSubspace

EVERY = 5.0
HOLD = 2.0
MEASURE = MeasureMismatch(SlidingWindows(size=7, period=3, offset=1), moving=8, most_rows=6)
DRIFT = DriftSpec(block=2, settle=8, memory=30, threshold=0.5, delta=0.2)
ASKED: dict[str, Any] = {"measure": MEASURE, "drift": DRIFT, "snapshot_every": EVERY}
BOUNDED = Order(hold_for=HOLD)
LIVE = Order(max_disorder=2.0, hold_for=HOLD)


def sensor(count: int, seed: int, whole: bool = True) -> Rows:
    """Rows at odd times, with missing values of which some can be held, and gaps."""
    rng = np.random.default_rng(seed)
    steps = rng.choice([0, 1, 1, 2, 8, 30], size=count, p=[0.1, 0.4, 0.2, 0.24, 0.04, 0.02])
    times = (np.cumsum(steps) - count // 3) * (SECOND // 2)
    if not whole:
        times = np.sort(times + rng.choice([0, 1, SECOND // 3], size=count))
    rows = make_rows(count, seed=seed, times=times)
    return dataclasses.replace(rows, x=np.where(rng.random((count, 3)) < 0.1, np.nan, rows.x))


def filled(rows: Rows) -> tuple[Rows, npt.NDArray[np.bool_]]:
    """The rows with missing values held, and which are complete then."""
    x = by_hand(rows.x, np.asarray(rows.time), round(HOLD * SECOND))
    good = np.asarray(np.isfinite(x).all(axis=1))
    return dataclasses.replace(rows, x=x), good


class Boundary(NamedTuple):
    """A boundary that the row at `place` passes, and the valid rows before it."""

    place: int
    at: int
    rows: int


def boundaries_by_hand(rows: Rows, every: float = EVERY) -> list[Boundary]:
    """Row by row: one boundary where a row lies beyond one, the first after the row before it.

    A row that is refused passes a boundary, but moves no clock.
    """
    span = round(every * SECOND)
    _, good = filled(rows)
    found: list[Boundary] = []
    newest: int | None = None
    for place, time in enumerate(np.asarray(rows.time).tolist()):
        if newest is not None:
            first = (newest // span + 1) * span
            if time >= first and (not found or first > found[-1].at):
                found.append(Boundary(place, first, int(good[:place].sum())))
        if good[place]:
            newest = time
    return found


def elements_of(rows: Rows, sizes: Sequence[int] = (7, 1, 20)) -> list[Element]:
    return [("m", chunk) for chunk in rows.cut(sizes)]


def arriving(rows: Rows, order: Order, seed: int = 0) -> Rows:
    if order.max_disorder in {0.0, math.inf}:
        return rows
    rng = np.random.default_rng(seed)
    return rows.take(arrival(np.asarray(rows.time), order.max_disorder, rng))


def after(rows: Rows, time: int) -> Rows:
    return rows.take(np.flatnonzero(np.asarray(rows.time) >= time))


def in_time(outcome: Outcome, key: str = "m") -> list[bytes]:
    """A model's snapshots, the final one last."""
    mine = [data for name, data in outcome.snapshots if name == key]
    return sorted(mine, key=lambda data: (about(data)["final"], about(data)["until"]))


def ordered(lines: list[Line]) -> list[Line]:
    names = ("kind", "end", "start", "index")
    return exact(sorted(lines, key=lambda line: tuple(line[name] for name in names)))


def later(table: Table, row: int) -> Table:
    return {name: column[table["index"] >= row] for name, column in table.items()}


def states_equal(left: Any, right: Any) -> bool:
    return state_bytes(left) == state_bytes(right)


def write_folder(
    outcome: Outcome, folder: Path, spec: SubspaceSpec = SPEC, **options: Any
) -> SnapshotFolder:
    """Write snapshots as a job does."""
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    states = beam.Create(outcome.snapshots).with_output_types(tuple[str, bytes])
    _ = pipeline | states | WriteSnapshots(str(folder), spec, **options)
    pipeline.run().wait_until_finish()
    return SnapshotFolder(str(folder))


def each_boundary(folder: Path) -> Iterator[tuple[dict[str, Any], SnapshotFolder]]:
    """The folder as it was after each of the one model's boundaries, the final one last."""
    index = json.loads((folder / "index.json").read_text())
    entries = index["models"]["m"]
    for count in range(1, len(entries) + 1):
        index["models"]["m"] = entries[:count]
        (folder / "index.json").write_text(json.dumps(index))
        yield entries[count - 1], SnapshotFolder(str(folder))


def _newest(rows: Rows, good: npt.NDArray[np.bool_], stop: int) -> int:
    """The time of the newest of the first rows that the model takes."""
    return int(np.asarray(rows.time)[:stop][good[:stop]][-1])


# Where snapshots are.


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("order", [BOUNDED, LIVE, Order(max_disorder=0, hold_for=HOLD)])
def test_snapshots_are_where_rows_pass_boundaries(seed: int, order: Order) -> None:
    rows = sensor(120, seed)
    outcome = step_through(
        elements_of(arriving(rows, order, seed)), order=order, snapshot_every=EVERY
    )
    expected = boundaries_by_hand(rows)
    assert len(expected) > 8
    *found, last = in_time(outcome)
    whole, good = filled(rows)
    tracker = get_tracker("okfeb")
    first = tracker.init(SPEC, whole.x[good][:20])
    for data, boundary in zip(found, expected, strict=True):
        reported, state = about(data), codec.decode(data).state
        assert (reported["rows"], reported["until"], reported["final"]) == (
            boundary.rows,
            boundary.at,
            False,
        )
        assert reported["time"] == _newest(rows, good, boundary.place)
        core, _ = tracker.update(SPEC, first, whole.x[: boundary.place])
        assert states_equal(state, core)
    newest = _newest(rows, good, len(good))
    reported, until = about(last), max(newest, expected[-1].at)
    assert (reported["rows"], reported["until"], reported["time"]) == (
        int(good.sum()),
        until,
        newest,
    )
    assert reported["final"] is True


@settings(max_examples=examples(25))
@given(
    st.sampled_from([0.0, 0.7, 2.0, 11.0]),
    st.sampled_from([0.5, 4.0, 5.0, 60.0]),
    st.sampled_from([SlidingWindows(7, 3, 1), FixedWindows(1.5), SlidingWindows(1, 2)]),
    st.lists(st.integers(1, 20), min_size=1, max_size=20),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_a_live_job_leaves_the_snapshots_of_the_file(
    max_disorder: float,
    every: float,
    windows: Any,
    sizes: list[int],
    whole: bool,
    seed: int,
) -> None:
    """All that lies in them too: open windows, the moving window, held values, the detector."""
    rows = sensor(80, seed, whole)
    asked = {
        "measure": MeasureMismatch(windows, moving=5, most_rows=6),
        "drift": DRIFT,
        "snapshot_every": every,
    }
    order = Order(max_disorder=max_disorder, hold_for=HOLD)
    live = step_through(elements_of(arriving(rows, order, seed), sizes), order=order, **asked)
    bounded = step_through(elements_of(rows, [len(rows)]), order=BOUNDED, **asked)
    expected = [(part.rows, part.at) for part in boundaries_by_hand(rows, every)]
    assert [(about(d)["rows"], about(d)["until"]) for d in in_time(bounded)[:-1]] == expected
    assert live.snapshots == bounded.snapshots
    assert ordered(live.mismatch.get("m", [])) == ordered(bounded.mismatch.get("m", []))
    assert live.alerts == bounded.alerts


@settings(max_examples=examples(12))
@given(
    st.sampled_from([0.0, 0.7, 2.0]),
    st.sampled_from([0.5, 5.0]),
    st.lists(st.integers(1, 4), min_size=1, max_size=20),
    st.integers(0, 2**32),
)
def test_a_snapshot_is_due_as_soon_as_the_models_clock_allows(
    max_disorder: float, every: float, sizes: list[int], seed: int
) -> None:
    rows = sensor(70, seed)
    expected = {part.at for part in boundaries_by_hand(rows, every)}
    order = Order(max_disorder=max_disorder, hold_for=HOLD)
    step = Step(order=order, snapshot_every=every)
    newest, found = -(2**62), set()
    for chunk in arriving(rows, order, seed).cut(sizes):
        newest = max(newest, int(chunk.column("time").max()))
        found |= {about(data)["until"] for _, data in step.push("m", chunk).snapshots}
        due = newest - round(max_disorder * SECOND)
        started = step.model("m") is not None
        assert found == ({at for at in expected if at <= due} if started else set())


def test_no_boundaries_without_times() -> None:
    rows = dataclasses.replace(make_rows(60), time=None)
    (final,) = in_time(step_through(elements_of(rows), snapshot_every=EVERY))
    assert (about(final)["rows"], about(final)["until"]) == (60, None)


@pytest.mark.parametrize("every", [0, -1, math.nan, math.inf, 1e-4, 1e10, "5"])
def test_wrong_distances_of_boundaries_are_refused(every: Any) -> None:
    with pytest.raises(ConfigError, match=r"^snapshot_every = "):
        TrackSubspace(SPEC, snapshot_every=every)


# Warm starts.


@pytest.mark.parametrize("order", [BOUNDED, LIVE, Order(max_disorder=0, hold_for=HOLD)])
@pytest.mark.parametrize("seed", lanes(0, 1))
def test_a_job_goes_on_from_every_boundary(seed: int, order: Order, tmp_path: Path) -> None:
    rows = sensor(120, seed, whole=seed == 0)
    whole = step_through(elements_of(arriving(rows, order, seed)), order=order, **ASKED)
    assert sum(line["kind"] == "sliding" for line in whole.mismatch["m"]) > 8
    assert sum(line["n"] < line["rows"] for line in whole.mismatch["m"]) > 2
    assert len(whole.alerts["m"]) > 1
    write_folder(whole, tmp_path)
    resumed = 0
    for entry, folder in each_boundary(tmp_path):
        data = (tmp_path / entry["tracker"]).read_bytes()
        until = about(data)["until"]
        rest = after(rows, until)
        if entry["tracker"] == "m.safetensors":
            continue
        resumed += 1
        part = step_through(
            elements_of(arriving(rest, order, seed + 1), [5, 1, 9]),
            order=order,
            warm=folder,
            **ASKED,
        )
        first = entry["rows"]
        assert_same(part.table("m"), later(whole.table("m"), first))
        assert ordered(part.mismatch["m"]) == ordered(
            [
                line
                for line in whole.mismatch["m"]
                if (line["index"] >= first if line["kind"] == "moving" else line["end"] > until)
            ]
        )
        expected = [line for line in whole.alerts["m"] if line["index"] >= first]
        assert exact(part.alerts.get("m", [])) == exact(expected)
        assert in_time(part) == in_time(whole)[in_time(whole).index(data) + 1 :]
        refused = {row for _, _, row, _ in whole.failures}
        assert {row for _, _, row, _ in part.failures} == refused & set(rest.row.tolist())
        assert (part.late, whole.late) == ([], [])
    assert resumed > 8


@pytest.mark.parametrize("order", [BOUNDED, LIVE, Order(max_disorder=0, hold_for=HOLD)])
@pytest.mark.parametrize("place", lanes(33, 30, 60, 61, 110))
def test_a_job_goes_on_from_where_another_ended(place: int, order: Order, tmp_path: Path) -> None:
    """Also with windows that were open at the end: the second job gives them whole."""
    rows = sensor(120, seed=3)
    whole = step_through(elements_of(arriving(rows, order)), order=order, **ASKED)
    head, tail = rows.take(np.arange(place)), rows.take(np.arange(place, 120))
    first = step_through(elements_of(arriving(head, order)), order=order, **ASKED)
    folder = write_folder(first, tmp_path)
    second = step_through(elements_of(arriving(tail, order)), order=order, warm=folder, **ASKED)
    tables = [part.table("m") for part in (first, second)]
    joined = {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
    assert_same(joined, whole.table("m"))
    lines = [line for line in first.mismatch["m"] if line["complete"]] + second.mismatch["m"]
    assert ordered(lines) == ordered(whole.mismatch["m"])
    alerts = first.alerts.get("m", []) + second.alerts.get("m", [])
    assert exact(alerts) == exact(whole.alerts["m"])
    assert in_time(first)[:-1] + in_time(second) == in_time(whole)


@pytest.mark.parametrize("live", [False, True])
def test_pipelines_go_on_from_a_boundary_and_from_the_end(live: bool, tmp_path: Path) -> None:
    rows = {key: sensor(90, seed) for seed, key in enumerate(["a", "b/c"])}
    fresh = sensor(40, seed=7)
    order = LIVE if live else BOUNDED

    def run(parts: dict[str, Rows], **options: Any) -> Outcome:
        asked = {**ASKED, "order": order, **options}
        chunks = {key: arriving(part, order).cut([6, 11]) for key, part in parts.items()}
        elements = [(key, chunk) for key in chunks for chunk in chunks[key]]
        if live:
            return track_stream([elements[k : k + 3] for k in range(0, len(elements), 3)], **asked)
        return track(elements, **asked)

    whole = run({**rows, "new": fresh})
    half = {key: part.take(np.arange(50)) for key, part in rows.items()}
    rest = {key: part.take(np.arange(50, 90)) for key, part in rows.items()}
    first = run(half)
    folder = write_folder(first, tmp_path / "ended")
    second = run({**rest, "new": fresh}, warm=folder)
    # The same after a crash: only the boundaries were left, and the input is read again.
    crashed = Outcome(snapshots=[pair for pair in first.snapshots if not about(pair[1])["final"]])
    third = run({**rows, "new": fresh}, warm=write_folder(crashed, tmp_path / "crashed"))
    for key in rows:
        row = int(second.table(key)["index"][0])
        assert_same(second.table(key), later(whole.table(key), row))
        assert row == len(first.table(key)["index"])
        row = int(third.table(key)["index"][0])
        assert_same(third.table(key), later(whole.table(key), row))
        again = {
            place
            for name, _, place, why in third.failures
            if why.startswith(LEARNED_BEFORE) and name == key
        }
        assert again and max(again) < int(third.table(key)["row"].min())
        for part in (second, third):
            assert in_time(part, key)[-1] == in_time(whole, key)[-1]
    for part in (second, third):
        assert_same(part.table("new"), whole.table("new"))
        assert in_time(part, "new") == in_time(whole, "new")


@pytest.mark.parametrize(
    "order",
    [
        BOUNDED,
        LIVE,
        Order(max_disorder=0, hold_for=HOLD),
        Order(max_disorder=2.0, max_jump=100.0, hold_for=HOLD),
        Order(max_jump=100.0, hold_for=HOLD),
    ],
)
def test_rows_that_were_learned_from_before_are_refused(order: Order, tmp_path: Path) -> None:
    rows = sensor(100, seed=5)
    whole = step_through(elements_of(rows), order=BOUNDED, **ASKED)
    write_folder(whole, tmp_path)
    entry, folder = list(each_boundary(tmp_path))[6]
    until = about((tmp_path / entry["tracker"]).read_bytes())["until"]
    again = arriving(rows, order)
    part = step_through(elements_of(again, [3]), order=order, warm=folder, **ASKED)
    assert_same(part.table("m"), later(whole.table("m"), entry["rows"]))
    assert in_time(part)[-1] == in_time(whole)[-1]
    old = [
        row
        for _, _, row, reason in part.failures
        if reason == f"{LEARNED_BEFORE}, until {day_of(until)}"
    ]
    assert sorted(old) == np.flatnonzero(np.asarray(rows.time) < until).tolist()
    others = [entry for entry in part.failures if not entry[3].startswith(LEARNED_BEFORE)]
    assert others == [entry for entry in whole.failures if entry[2] not in old]
    kept = part.table("m")["row"].tolist()
    assert sorted(kept + [row for _, _, row, _ in part.failures]) == list(range(100))
    assert part.late == []


@pytest.mark.parametrize("order", [BOUNDED, LIVE, Order(max_jump=9.0), Order(max_disorder=0)])
def test_a_second_job_of_old_rows_alone_changes_nothing(order: Order, tmp_path: Path) -> None:
    rows = sensor(60, seed=6)
    old = rows.take(np.flatnonzero(np.asarray(rows.time) < np.asarray(rows.time)[-1]))
    first = step_through(elements_of(rows), order=BOUNDED, **ASKED)
    folder = write_folder(first, tmp_path)
    second = step_through(elements_of(old), order=order, warm=folder, **ASKED)
    assert second.features == {}
    learned = f"{LEARNED_BEFORE}, until {day_of(about(first.snapshots[-1][1])['until'])}"
    assert [entry[2:] for entry in second.failures] == [(row, learned) for row in range(len(old))]
    (final,) = in_time(second)
    assert states_equal(codec.decode(final).state, codec.decode(in_time(first)[-1]).state)


def test_windows_from_a_snapshot_close_by_the_models_clock(tmp_path: Path) -> None:
    """A row that waits tells that the window, open since the first job, has ended."""
    rows = make_rows(60)
    measure = MeasureMismatch(FixedWindows(20))
    first = step_through(elements_of(rows), measure=measure)
    assert [line["complete"] for line in first.mismatch["m"]] == [True, False]
    folder = write_folder(first, tmp_path)
    step = Step(order=Order(max_disorder=2.0), measure=measure, warm=folder)
    (wait,) = make_rows(1, times=np.array([42 * SECOND])).cut([1])
    (line,) = step.push("m", wait).mismatch["m"]
    assert (line["start"], line["end"]) == (20 * SECOND, 40 * SECOND)
    assert (line["rows"], line["index"], line["complete"]) == (20, 59, True)


def test_rows_without_times_go_on_too(tmp_path: Path) -> None:
    rows = dataclasses.replace(make_rows(80), time=None)
    measure = MeasureMismatch(moving=6)
    asked: dict[str, Any] = {"measure": measure, "drift": DRIFT}
    whole = step_through(elements_of(rows), **asked)
    head = step_through(elements_of(rows.take(np.arange(47))), **asked)
    folder = write_folder(head, tmp_path)
    tail = step_through(elements_of(rows.take(np.arange(47, 80))), warm=folder, **asked)
    assert_same(tail.table("m"), later(whole.table("m"), 47))
    assert exact(head.mismatch["m"] + tail.mismatch["m"]) == exact(whole.mismatch["m"])
    assert in_time(tail) == in_time(whole)


def test_a_model_without_rows_in_the_second_job_stays(tmp_path: Path) -> None:
    rows = {key: sensor(60, seed) for seed, key in enumerate(["gone", "there"])}
    elements = [(key, rows[key].chunk()) for key in rows]
    whole = step_through(elements, order=BOUNDED, **ASKED)
    head = [(key, rows[key].take(np.arange(30)).chunk()) for key in rows]
    first = step_through(head, order=BOUNDED, **ASKED)
    folder = write_folder(first, tmp_path / "first")
    tail = [("there", rows["there"].take(np.arange(30, 60)).chunk())]
    second = step_through(tail, order=BOUNDED, warm=folder, **ASKED)
    assert list(second.features) == ["there"]
    folder = write_folder(second, tmp_path / "second", before=folder)
    assert sorted(folder.models) == ["gone", "there"]
    assert folder.state("gone", "tracker") == in_time(first, "gone")[-1]
    # And can be taken up again in a third.
    tail = [("gone", rows["gone"].take(np.arange(30, 60)).chunk())]
    third = step_through(tail, order=BOUNDED, warm=folder, **ASKED)
    assert in_time(third, "gone")[-1] == in_time(whole, "gone")[-1]


def test_other_windows_and_detectors_begin_anew(tmp_path: Path) -> None:
    """What a job measures may change; features go on as if nothing had."""
    rows = sensor(100, seed=8)
    whole = step_through(elements_of(rows), order=BOUNDED, **ASKED)
    first = step_through(elements_of(rows.take(np.arange(60))), order=BOUNDED, **ASKED)
    folder = write_folder(first, tmp_path)
    rest = elements_of(rows.take(np.arange(60, 100)))
    row = len(first.table("m")["index"])
    changes: list[dict[str, Any]] = [
        {},
        {"measure": MeasureMismatch(moving=8)},
        {"measure": MeasureMismatch(FixedWindows(7), moving=9), "drift": DriftSpec()},
        {"drift": DRIFT},
    ]
    for asked in changes:
        part = step_through(rest, order=BOUNDED, warm=folder, **asked)
        assert_same(part.table("m"), later(whole.table("m"), row))
        moving = [line for line in part.mismatch.get("m", []) if line["kind"] == "moving"]
        if moving:
            length = moving[0]["rows"]
            assert moving[0]["index"] == row + length - 1
    expected = [line for line in whole.alerts["m"] if line["index"] >= row]
    assert exact(part.alerts.get("m", [])) == exact(expected)


# What cannot be gone on from.


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"rank": 2}, "rank"), ({"gamma": 3.0}, "gamma"), ({"seed": 9}, "seed")],
)
def test_snapshots_of_another_spec_are_refused(
    changes: dict[str, Any], field: str, tmp_path: Path
) -> None:
    folder = write_folder(step_through(elements_of(make_rows(40))), tmp_path)
    with pytest.raises(ConfigError) as caught:
        TrackSubspace(dataclasses.replace(SPEC, **changes), warm=folder)
    assert caught.value.field == field
    with pytest.raises(ConfigError, match=r"^tracker = 'okfe'"):
        TrackSubspace(OKFESpec(rank=3, warmup=20), warm=folder)


def one_state(folder: Path) -> Path:
    return folder / "m.safetensors"


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def rewrite(path: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> None:
    data = path.read_bytes()
    header, arrays = codec.read_header(data), load(data)
    change(header, arrays)
    path.write_bytes(save(arrays, {codec.KEY: json.dumps(header)}))


def drop(name: str) -> Callable[[Path], None]:
    return lambda path: rewrite(path, lambda _, arrays: arrays.pop(name))


def reshape(name: str) -> Callable[[Path], None]:
    def change(_: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays[name] = np.zeros((*arrays[name].shape, 2), arrays[name].dtype)

    return lambda path: rewrite(path, change)


def a_learners(path: Path) -> None:
    state = learn_all(RidgeSpec(), np.ones((4, 3)), list("abab"))[0]
    path.write_bytes(codec.encode_learner(RidgeSpec(), state, {"until": 0}))


def newer(path: Path) -> None:
    rewrite(path, lambda header, _: header.update(version=99))


def unsaid(path: Path) -> None:
    rewrite(path, lambda header, _: header.pop("about"))


def of_another_spec(path: Path) -> None:
    spec = dataclasses.replace(SPEC, rank=2)
    state, _ = run_all(spec, make_rows(40).x)
    path.write_bytes(codec.encode(spec, state, about(path.read_bytes())))


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda path: path.unlink(), id="missing"),
        pytest.param(lambda path: path.write_bytes(b""), id="empty"),
        pytest.param(lambda path: path.write_bytes(b"PK" * 100), id="another format"),
        truncate,
        a_learners,
        newer,
        unsaid,
        of_another_spec,
        *(
            pytest.param(damage(name), id=f"{damage.__name__} {name}")
            for damage in (drop, reshape)
            for name in (
                "factor",
                "beside.held.times",
                "beside.open.rows",
                "beside.open.windows",
                "beside.open.stride",
                "beside.moving.gram",
                "beside.moving.times",
                "beside.drift.reals",
            )
        ),
    ],
)
def test_damaged_snapshots_are_named(damage: Callable[[Path], None], tmp_path: Path) -> None:
    rows = sensor(60, seed=1)
    folder = write_folder(step_through(elements_of(rows), order=BOUNDED, **ASKED), tmp_path)
    path = one_state(tmp_path)
    damage(path)
    more = after(rows, int(np.asarray(rows.time)[-1]))
    for order in (BOUNDED, LIVE):
        found = step_through(elements_of(more), order=order, warm=folder, **ASKED)
        assert not len(found.features)
        (reason,) = {why for *_, why in found.failures}
        assert str(path) in reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "cannot be read"),
        ("{", "not an index"),
        ("[]", "not an index"),
        ('{"version": 1, "models": {}}', "index version 1: this code reads 2"),
        ('{"version": 2, "models": {}}', "not an index"),
        ('{"version": 2, "tracker": {"rank": 0}, "learner": null, "models": {}}', "rank"),
    ],
)
def test_an_index_that_cannot_be_read_is_refused(
    text: str | None, reason: str, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / "index.json").write_text(text)
    with pytest.raises(DataError, match=reason):
        SnapshotFolder(str(tmp_path))
