"""One row of each span is judged: as if the others were not there, but for which row is which."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.errors import ConfigError
from kerneltrack.fleet.begin import begin
from kerneltrack.fleet.model import Model, Work
from kerneltrack.fleet.models import Models
from kerneltrack.fleet.restore import decode
from kerneltrack.fleet.run import run_models, run_rows
from kerneltrack.fleet.states import encode
from kerneltrack.monitor import reference
from kerneltrack.monitor.find import find_episodes
from kerneltrack.monitor.quiet import QuietTime, QuietTimes
from kerneltrack.monitor.reference import AUTO, ReferenceSpec
from kerneltrack.trackers import OKFEBSpec
from pipelines.cli.main import main
from pipelines.devices.of_run import lines_of_run
from pipelines.report.data.files import parquet_files, read_run
from tests.parts import examples

Array = npt.NDArray[np.float64]
Times = npt.NDArray[np.int64]

SECOND = 10**9
MINUTE, HOUR = 60 * SECOND, 3600 * SECOND
EVERY = 5 * MINUTE
COUNT = 9000
BASE = ReferenceSpec(
    learning=AUTO, rows=256, memory="1024 rows", every="5 minutes", false_alarms=50.0
)
SPECS = {
    "rows": BASE,
    "time": dataclasses.replace(BASE, memory="4 days", season="none"),
    "window": dataclasses.replace(BASE, window=40),
    "mode": dataclasses.replace(BASE, mode=3),
    "condition": dataclasses.replace(BASE, only_while="channel[3] != 2"),
}


def rows_of(seed: int, count: int = COUNT) -> tuple[Array, Times]:
    """Three rows in five minutes or so, gaps, and faults; the last channel is a mode."""
    rng = np.random.default_rng(seed)
    steps = rng.integers(20 * SECOND, 200 * SECOND, count)
    steps[rng.integers(0, count, 4)] += 13 * HOUR
    times = 1_772_409_600 * SECOND + np.cumsum(steps)
    load = np.sin(np.arange(count) / 51) + 0.5 * np.sin(np.arange(count) / 15)
    rows = load[:, np.newaxis] * [1.0, 2.0, 3.0, 0.0] + 0.2 * rng.normal(size=(count, 4))
    rows[5200:5300, 1] += 2.0
    rows[6000:6800, 2] -= 2.0
    rows[7200:, 0] += 1.5
    rows[:, 3] = np.repeat(rng.integers(0, 3, count // 300 + 1), 300)[:count]
    return rows, times


def work_of(spec: ReferenceSpec, *quiet: tuple[int, int]) -> Work:
    entries = tuple(QuietTime("a", None, *span, "") for span in quiet)
    times = QuietTimes(entries) if entries else None
    return Work(spec=OKFEBSpec(rank=3, budget=5), reference=spec, quiet=times, devices=True)


def every_row(spec: ReferenceSpec) -> ReferenceSpec:
    return dataclasses.replace(spec, every=None)


def that_stay(work: Work, rows: Array, times: Times) -> npt.NDArray[np.int64]:
    """The rows that are judged, or pass by, one after the other."""
    kept, last = [], None
    for place, time in enumerate(times.tolist()):
        passes = work.quiet is not None and bool(work.quiet.is_quiet("a", times[place : place + 1]))
        condition = work.reference.only_while if work.reference else None
        passes = passes or (condition is not None and rows[place, 3] == 2)
        if passes or time // EVERY != last:
            kept.append(place)
        if not passes:
            last = time // EVERY
    return np.array(kept)


def run(
    work: Work, rows: Array, times: Times, *cuts: int, model: Model | None = None
) -> tuple[Any, Array, list[Any], list[Any]]:
    """All rows in calls that end at these places."""
    model = begin(work, "a", rows[:200]) if model is None else model
    scores, episodes, devices = [], [], []
    for piece, stamps in zip(np.split(rows, cuts), np.split(times, cuts), strict=True):
        until = math.inf if stamps[-1:] == times[-1:] else 0
        model, found = run_rows(work, "a", model, piece, stamps, until)
        assert found.scores is not None
        scores.append(np.array(found.scores.columns))
        episodes += found.episodes.get(0, [])
        devices += found.devices.get(0, [])
    return model, np.concatenate(scores, axis=1), episodes, devices


def in_the_end(episodes: list[Any]) -> list[Any]:
    return [each for each in episodes if each.closed]


def check_cuts(spec: ReferenceSpec, each: tuple[Array, Times], cuts: set[int]) -> None:
    """A device with a quiet time has the same scores, ends and bytes, wherever its rows are cut."""
    rows, times = each
    work = work_of(spec, (int(times[5500]), int(times[5700])))
    whole, parts = run(work, rows, times), run(work, rows, times, *sorted(cuts))
    assert whole[1].tobytes() == parts[1].tobytes()
    assert repr(in_the_end(whole[2])) == repr(in_the_end(parts[2]))
    data = encode(work, "a", whole[0])
    assert data == encode(work, "a", parts[0])
    assert encode(work, "a", decode(work, data, "state")) == data


def check_row_by_row(spec: ReferenceSpec, each: tuple[Array, Times]) -> list[Any]:
    """Rows that come one by one say what they say together; return the device's lines."""
    work = work_of(spec)
    # Among others those in which both faults of these hours begin, and the first ends.
    cuts = (*range(5150, 5350), *range(5990, 6400))
    whole, parts = run(work, *each), run(work, *each, *cuts)
    assert whole[1].tobytes() == parts[1].tobytes()
    assert repr(whole[2]) == repr(parts[2]) and repr(whole[3]) == repr(parts[3])
    return whole[3]


def check_blocks(work: Work, each: list[tuple[Array, Times]]) -> None:
    """Models that go on together, 700 rows of each at a time, say what each says alone."""
    keys = [f"m{place}" for place in range(len(each))]
    models = Models.of(work, keys, [begin(work, "a", rows[:200]) for rows, _ in each])
    alone = [run(work, *own) for own in each]
    scores: list[list[Array]] = [[] for _ in each]
    episodes: list[list[Any]] = [[] for _ in each]
    for start in range(0, COUNT, 700):
        parts = [(rows[start : start + 700], times[start : start + 700]) for rows, times in each]
        stops = np.cumsum([len(rows) for rows, _ in parts])
        starts = np.r_[0, stops[:-1]]
        together = np.concatenate([rows for rows, _ in parts])
        stamps = np.concatenate([times for _, times in parts])
        until = [math.inf if start + 700 >= COUNT else 0.0] * len(each)
        found = run_models(models, together, stamps, starts, stops, until)
        assert found.scores is not None
        for place, (begins, ends) in enumerate(zip(starts, stops, strict=True)):
            scores[place].append(np.array(found.scores.columns)[:, begins:ends])
            episodes[place] += found.episodes.get(place, [])
    for place, (_, own, told, _) in enumerate(alone):
        assert np.concatenate(scores[place], axis=1).tobytes() == own.tobytes()
        assert repr(episodes[place]) == repr(told)


def check_as_thinned(
    spec: ReferenceSpec, rows: Array, times: Times, *quiet: tuple[int, int]
) -> tuple[Any, Any, npt.NDArray[np.int64]]:
    """Scores, episodes and lines are those of the thinned rows, with the indexes of the tracker.

    Returns:
        What came of all rows, what came of the thinned ones, and which these are.
    """
    work, other = work_of(spec, *quiet), work_of(every_row(spec), *quiet)
    kept = that_stay(work, rows, times)
    first = begin(other, "a", rows[:200])
    found, thinned = run(work, rows, times), run(other, rows[kept], times[kept], model=first)
    _, scores, episodes, devices = found
    assert scores[:, kept].tobytes() == thinned[1].tobytes()
    others = np.ones(scores.shape[1], np.bool_)
    others[kept] = False
    assert others.any() and np.isnan(scores[:, others]).all()

    def number(row: int) -> int:
        return int(kept[row])

    assert repr(episodes) == repr([each.numbered(number) for each in thinned[2]])
    assert repr(devices) == repr([each.numbered(number) for each in thinned[3]])
    return found, thinned, kept


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize("seed", [1, 2])
def test_all_is_as_if_the_other_rows_were_not_there(kind: str, seed: int) -> None:
    found, thinned, _ = check_as_thinned(SPECS[kind], *rows_of(seed))
    assert found[2] and len({line.state for line in found[3]}) >= 3
    tables, alone = found[0].reference.tables, thinned[0].reference.tables
    for name in {*tables._fields} - {"left_out"}:
        assert getattr(tables, name).tobytes() == getattr(alone, name).tobytes(), name


def test_rows_of_quiet_times_pass_by_one_after_the_other() -> None:
    rows, times = rows_of(3)
    quiet = [(int(times[start]), int(times[start + 200])) for start in (2000, 5500)]
    found, _, kept = check_as_thinned(BASE, rows, times, *quiet)
    assert np.isin(np.arange(5500, 5700), kept).all()
    assert "quiet" in {line.state for line in found[3]}


@pytest.mark.parametrize("kind", SPECS)
@settings(max_examples=examples(6))
@given(cuts=st.lists(st.integers(1, COUNT - 1), max_size=8, unique=True), row=st.integers(0, 8900))
def test_cuts_change_no_bit(kind: str, cuts: list[int], row: int) -> None:
    check_cuts(SPECS[kind], rows_of(4), {*cuts, *range(row + 1, row + 40)})


def test_row_by_row_lines_are_the_same() -> None:
    check_row_by_row(BASE, rows_of(5))


def test_blocks_of_many_models_are_those_of_each() -> None:
    check_blocks(work_of(BASE), [rows_of(seed, COUNT - 100 * seed) for seed in range(5)])


def test_a_reference_that_another_run_has_made_goes_on_with_other_rows() -> None:
    rows, times = rows_of(6)
    work, other = work_of(BASE), work_of(every_row(BASE))
    kept = that_stay(work, rows[:5500], times[:5500])
    first = begin(other, "a", rows[:200])
    made = run(work, rows[:5500], times[:5500])[0]
    alone = run(other, rows[:5500][kept], times[:5500][kept], model=first)[0]
    rows, times = rows[5500:], times[5500:]
    again = begin(work, "a", rows[:200])._replace(reference=reference.restarted(made.reference))
    thin = begin(other, "a", rows[:200])._replace(reference=reference.restarted(alone.reference))
    kept = that_stay(work, rows, times)
    assert kept[0] == 0
    found = run(work, rows, times, 700, model=again)
    alone = run(other, rows[kept], times[kept], model=thin)
    assert found[1][:, kept].tobytes() == alone[1].tobytes()
    # An episode that opens with the first rows began before them.
    told = [[each for each in episodes if each.start >= 0] for episodes in (found[2], alone[2])]
    numbered = [each.numbered(lambda row: int(kept[row])) for each in told[1]]
    assert numbered and repr(told[0]) == repr(numbered)


def test_rows_that_come_as_seldom_are_all_judged_as_without() -> None:
    rows, times = rows_of(7, 4000)
    times = times[0] // EVERY * EVERY + EVERY * np.arange(len(rows))
    found, wanted = run(work_of(BASE), rows, times), run(work_of(every_row(BASE)), rows, times)
    assert found[1].tobytes() == wanted[1].tobytes()
    assert repr(found[2:]) == repr(wanted[2:])


@pytest.mark.parametrize("more", [[], ["--only-while", "state != 2"]])
def test_a_job_says_of_its_devices_what_one_of_thinned_rows_says(
    tmp_path: Path, more: list[str]
) -> None:
    """The first rows, which the scale is of, are those that both have."""
    names = ["a", "b", "state"] if more else ["a", "b"]
    tables, thin = [], []
    for seed, name in enumerate(["m", "n", "o"]):
        rows, _ = rows_of(seed, 9000 - 7 * seed)
        steps = np.where(np.arange(len(rows)) < 600, EVERY, 100 * SECOND)
        times = 5_907_900 * EVERY + np.cumsum(steps)
        work = work_of(BASE if not more else SPECS["condition"])
        columns = {"a": rows[:, 0], "b": rows[:, 1], "state": rows[:, 3]}
        table = pa.table(
            {
                "device": [name] * len(rows),
                "time": pa.array(times, pa.timestamp("ns", "UTC")),
                **{each: columns[each] for each in names},
            }
        )
        tables.append(table)
        thin.append(table.take(that_stay(work, rows, times)))
    found = []
    for place, (parts, every) in enumerate(((tables, "5 minutes"), (thin, "none"))):
        pq.write_table(pa.concat_tables(parts), tmp_path / f"{place}.parquet")
        flags = ["--model-id", "device", "--time", "time", "--reference", "auto", *more]
        flags += ["--reference-memory", "4 days", "--reference-false-alarms", "50"]
        flags += ["--reference-every", every, "--rank", "3", "--budget", "5"]
        output = str(tmp_path / f"out{place}")
        assert main(["track", str(tmp_path / f"{place}.parquet"), *flags, "--output", output]) == 0
        scored = pa.concat_tables(map(pq.read_table, parquet_files(output, "features")))
        scored = scored.filter(pc.is_valid(scored["p"])).select(["model_id", "time", "p"])
        indexes = "since_index", "start_index", "detected_index", "last_index"
        left_out = "rows", *indexes
        lines = [
            {key: value for key, value in line.items() if key not in left_out}
            for line in lines_of_run(output, read_run(output))
        ]
        told = pa.concat_tables(map(pq.read_table, parquet_files(output, "episodes"))).to_pylist()
        for line in told:
            for key in ("index", *indexes):
                line.pop(key, None)
        found.append((scored.sort_by("time").to_pydict(), lines, told))
    assert found[0][0] == found[1][0] and found[0][2] == found[1][2] and found[0][2]
    states = [[line["state"] for line in lines] for _, lines, _ in found]
    assert states[0] == states[1] and "learning" not in states[0]


@pytest.mark.parametrize("value", ["5 rows", "0 minutes", "soon", "auto"])
def test_what_is_no_time_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match="every"):
        ReferenceSpec(learning=AUTO, every=value)


def test_it_is_refused_where_all_rows_are_judged_or_have_no_times() -> None:
    work, rows = work_of(BASE), rows_of(1)[0]
    with pytest.raises(ConfigError, match="left out unless the reference is auto"):
        ReferenceSpec(every="5 minutes")
    with pytest.raises(ConfigError, match="a job or a Fleet takes it"):
        find_episodes(rows, spec=BASE)
    with pytest.raises(ConfigError, match="event times"):
        run_rows(work, "a", begin(work, "a", rows[:200]), rows, None, math.inf)
    assert ReferenceSpec(learning=AUTO, every="none") == ReferenceSpec(learning=AUTO)
    assert "every" not in ReferenceSpec(learning=AUTO).to_dict()
