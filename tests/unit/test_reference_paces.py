"""Two references of a device: of all rows, and of the first row of each span; their episodes."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.errors import ConfigError
from kerneltrack.fleet.begin import begin
from kerneltrack.fleet.model import Work
from kerneltrack.fleet.run import run_rows
from kerneltrack.fleet.states import encode
from kerneltrack.monitor import reference
from kerneltrack.monitor.find import find_episodes
from kerneltrack.monitor.reference import AUTO, Episode, ReferenceSpec, paces
from kerneltrack.monitor.reference.joining import Joining
from kerneltrack.monitor.reference.joint import no_episode
from tests.parts import examples
from tests.unit.test_reference_every import (
    COUNT,
    MINUTE,
    Array,
    Times,
    check_blocks,
    check_cuts,
    check_row_by_row,
    in_the_end,
    run,
    work_of,
)
from tests.unit.test_reference_every import rows_of as sudden_rows

BASE = ReferenceSpec(
    learning=AUTO, rows=256, memory="1024 rows", also_every="5 minutes", false_alarms=50.0
)
SPECS = {
    "rows": BASE,
    "time": dataclasses.replace(BASE, memory="4 days", season="none"),
    "window": dataclasses.replace(BASE, window=40),
    "mode": dataclasses.replace(BASE, mode=3),
    "condition": dataclasses.replace(BASE, only_while="channel[3] != 2"),
}


def rows_of(seed: int, count: int = COUNT) -> tuple[Array, Times]:
    """Those with faults that begin at once, and one that grows for hours."""
    rows, times = sudden_rows(seed, count)
    rows[4500:4900, 0] += np.linspace(0.0, 0.5, 400)
    return rows, times


def alone(spec: ReferenceSpec, rows: Array, times: Times, *quiet: tuple[int, int]) -> Any:
    return run(work_of(spec, *quiet), rows, times)


def spans_of(episodes: list[Episode], length: int) -> list[tuple[int, int, Episode]]:
    """Rows that opened and closed each episode, and how it was known at last."""
    lines: dict[int, list[Episode]] = {}
    for each in episodes:
        lines.setdefault(each.number, []).append(each)
    return [
        (own[0].opened, own[-1].row if own[-1].closed else length, own[-1])
        for own in lines.values()
    ]


P, EVIDENCE = 3, 4
"""Places of scores."""


def expected(
    first: Any, second: Any, spec: ReferenceSpec, length: int
) -> list[tuple[int, int, Any]]:
    """The union of both lists: begin, end and channels, by looking at all of them at once."""
    known, sudden = P if spec.memory_span.time else EVIDENCE, spec.sudden_time
    armed = np.flatnonzero(np.isfinite(second[1][known]))
    kept = [
        (opened, end, one, 0)
        for opened, end, one in spans_of(first[2], length)
        if one.times[1] - one.times[0] <= sudden or not len(armed) or opened < armed[0]
    ]
    kept += [(opened, end, one, 1) for opened, end, one in spans_of(second[2], length)]
    found: list[tuple[int, int, Any]] = []
    best: list[tuple[int, Any]] = []
    for opened, end, one, pace in sorted(kept, key=lambda each: each[:2]):
        if found and opened <= found[-1][1]:
            was, until, _ = found[-1]
            found[-1] = was, max(until, end), None
            best[-1] = max(best[-1], (pace, one), key=lambda each: each[0])
            if pace == best[-1][0]:
                best[-1] = pace, one
        else:
            found.append((opened, end, None))
            best.append((pace, one))
    return [
        (opened, end, one.shares.tolist())
        for (opened, end, _), (_, one) in zip(found, best, strict=True)
    ]


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_device_has_the_scores_of_all_rows_and_the_episodes_of_both(kind: str, seed: int) -> None:
    rows, times = rows_of(seed)
    spec = SPECS[kind]
    found = alone(spec, rows, times)
    assert spec.second is not None
    first, second = alone(spec.first, rows, times), alone(spec.second, rows, times)
    assert found[1].tobytes() == first[1].tobytes()
    told = spans_of(found[2], COUNT)
    wanted = expected(first, second, spec, COUNT)
    assert [(a, b, one.shares.tolist()) for a, b, one in told] == wanted
    assert [each.number for _, _, each in told] == [*range(1, len(told) + 1)]
    both = found[0].reference
    for one, other in ((both, first), (both.second, second)):
        for name in one.tables._fields:
            wanted_bytes = getattr(other[0].reference.tables, name).tobytes()
            assert getattr(one.tables, name).tobytes() == wanted_bytes, name


def test_both_say_something_and_something_is_left_out() -> None:
    """The rows of the test above are such that each rule has something to do."""
    from_first, from_second, left_out = 0, 0, 0
    for seed in (1, 2):
        rows, times = rows_of(seed)
        assert BASE.second is not None
        found = alone(BASE, rows, times)
        opened = {each.opened for each in found[2]}
        first = {each.opened for each in alone(BASE.first, rows, times)[2]}
        second = {each.opened for each in alone(BASE.second, rows, times)[2]}
        from_first += len(opened & first)
        from_second += len(opened & second)
        left_out += len(first - opened)
    assert from_first and from_second and left_out


@pytest.mark.parametrize("kind", SPECS)
@settings(max_examples=examples(6))
@given(cuts=st.lists(st.integers(1, COUNT - 1), max_size=8, unique=True), row=st.integers(0, 8900))
def test_cuts_change_no_bit(kind: str, cuts: list[int], row: int) -> None:
    check_cuts(SPECS[kind], rows_of(4), {*cuts, *range(row + 1, row + 40)})


def test_row_by_row_lines_are_the_same() -> None:
    lines = check_row_by_row(BASE, rows_of(5))
    assert {line.state for line in lines} >= {"normal", "off"}


def test_the_bytes_of_live_jobs_hold_both() -> None:
    rows, times = rows_of(6)
    work = work_of(BASE)
    model, folded = begin(work, "a", rows[:200]), []
    for start in range(0, 6300, 450):
        part = slice(start, start + 450)
        model = run(work, rows[part], times[part], model=model)[0]
        assert model.reference is not None
        data = paces.pack(BASE, model.reference)
        folded.append(data)
        again = paces.unpack(BASE, rows.shape[1], data)
        assert paces.pack(BASE, again) == data
        model = model._replace(reference=again)
    assert encode(work, "a", model) == encode(work, "a", run(work, rows[:6300], times[:6300])[0])
    paces.check_each(BASE, rows.shape[1], folded)
    for damaged in (folded[-1].moving[:-8], folded[-1].moving[8:], b"", bytes(9)):
        with pytest.raises(ConfigError):
            paces.check_each(BASE, rows.shape[1], [folded[-1]._replace(moving=damaged)])


def test_blocks_of_many_models_are_those_of_each() -> None:
    check_blocks(work_of(BASE), [rows_of(seed, COUNT - 100 * seed) for seed in range(5)])


def test_update_is_what_the_rounds_do() -> None:
    rows, times = rows_of(7)
    found = run(work_of(BASE), rows, times)
    state = reference.init(BASE, rows[:200])
    episodes: list[Episode] = []
    for part in np.split(np.arange(COUNT), (10, 4000, 4001, 7777)):
        state, _, more = reference.update(BASE, state, rows[part], times[part])
        episodes += more
    wanted = found[0].reference
    assert wanted is not None
    for name, array in reference.arrays(wanted).items():
        assert reference.arrays(state)[name].tobytes() == array.tobytes(), name
    assert repr(in_the_end(episodes)) == repr(in_the_end(found[2]))


def test_a_reference_that_another_run_has_made_begins_without_an_episode() -> None:
    rows, times = rows_of(2)
    made = run(work_of(BASE), rows[:7500], times[:7500])[0].reference
    assert made is not None and reference.open_episode(BASE, made) is not None
    again = reference.restarted(made)
    assert reference.open_episode(BASE, again) is None and reference.episodes_of(again) == 0
    state, scores, _ = reference.update(BASE, again, rows[7500:], times[7500:])
    assert np.isfinite(scores.p).all()
    assert reference.episodes_of(state) >= 1


# ---- the rules, by examples ----

SUDDEN = 25 * MINUTE
WIDTH = 2


def episode(start: int, opened: int, row: int, *, channel: int = 0, **more: Any) -> Episode:
    """An episode of rows of a minute; the row after which it is so says whether it is over."""
    shares = np.eye(WIDTH)[channel]
    times = tuple(MINUTE * each for each in (start, opened, row, min(row, opened + 1)))
    known = Episode(
        number=9,
        kind="shift",
        start=start,
        opened=opened,
        row=row,
        closed=row > opened,
        last=min(row, opened + 1),
        severity=10.0 + channel,
        peak=1e-9,
        times=(times[0], times[1], times[2], times[3]),
        shares=shares,
        deviations=2.0 * shares,
    )
    return known._replace(**more)


def joined(first: list[Episode], second: list[Episode], watched_from: int | None = 0) -> Any:
    """What is told, by numbers: the last is the channel."""
    told = Joining(no_episode(WIDTH), SUDDEN, watched_from).join(first, second)
    return [(e.number, e.start, e.opened, e.row, e.closed, int(e.shares.argmax())) for e in told]


def both_ends(start: int, opened: int, end: int, **more: Any) -> list[Episode]:
    return [episode(start, opened, opened, **more), episode(start, opened, end, **more)]


def test_what_is_sudden_is_told_by_all_rows_alone() -> None:
    told = joined(both_ends(100, 105, 130), [])
    assert told == [(1, 100, 105, 105, False, 0), (1, 100, 105, 130, True, 0)]


def test_what_grew_slowly_waits_for_the_second() -> None:
    slow = both_ends(100, 126, 300)
    assert joined(slow, []) == []
    assert joined(slow, [], watched_from=None) != []
    assert joined(slow, [], watched_from=127) != []
    told = joined(slow, both_ends(95, 200, 250, channel=1))
    assert told == [(1, 95, 200, 200, False, 1), (1, 95, 200, 250, True, 1)]


def test_one_that_both_have_is_one_with_the_channels_of_the_second() -> None:
    sudden, second = both_ends(100, 105, 130), both_ends(90, 120, 400, channel=1)
    told = joined(sudden, second)
    assert told == [(1, 100, 105, 105, False, 0), (1, 100, 105, 400, True, 1)]
    told = joined(both_ends(100, 105, 500), second)
    assert told == [(1, 100, 105, 105, False, 0), (1, 100, 105, 500, True, 1)]


def test_what_is_opened_as_the_other_ends_is_the_same_episode() -> None:
    told = joined(both_ends(100, 105, 130), both_ends(90, 130, 400, channel=1))
    assert [each[3:5] for each in told] == [(105, False), (400, True)]
    told = joined(both_ends(100, 105, 130), both_ends(90, 131, 400, channel=1))
    assert [each[0] for each in told] == [1, 1, 2, 2]


def test_a_change_that_lasts_is_as_the_second_says() -> None:
    lasting = {"steady": True, "changed": 90, "changed_time": 90 * MINUTE}
    second = [episode(90, 120, 120, channel=1), episode(90, 120, 300, channel=1, **lasting)]
    joint = no_episode(WIDTH)
    *_, told = Joining(joint, SUDDEN, 0).join(both_ends(100, 105, 350), second)
    assert (told.steady, told.changed, told.severity) == (True, 90, 11.0)
    # The next one is told with since when the device has changed.
    later, _ = Joining(joint, SUDDEN, 0).join(both_ends(400, 405, 450), [])
    assert (later.number, later.changed, later.changed_time) == (2, 90, 90 * MINUTE)


# ---- settings ----


@pytest.mark.parametrize("value", ["5 rows", "0 minutes", "soon"])
def test_what_is_no_time_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match="also_every"):
        ReferenceSpec(learning=AUTO, also_every=value)


def test_it_is_refused_where_it_makes_no_sense() -> None:
    rows = rows_of(1)[0]
    with pytest.raises(ConfigError, match="left out unless the reference is auto"):
        ReferenceSpec(also_every="5 minutes")
    with pytest.raises(ConfigError, match="left out with every"):
        ReferenceSpec(learning=AUTO, every="1 minute", also_every="5 minutes")
    with pytest.raises(ConfigError, match="a job or a Fleet takes it"):
        find_episodes(rows, spec=BASE)
    with pytest.raises(ConfigError, match="event times"):
        reference.update(BASE, reference.init(BASE, rows[:200]), rows)
    work = work_of(BASE)
    with pytest.raises(ConfigError, match="event times"):
        run_rows(work, "a", begin(work, "a", rows[:200]), rows, None, math.inf)
    assert ReferenceSpec(learning=AUTO, also_every="none") == ReferenceSpec(learning=AUTO)
    assert "also_every" not in ReferenceSpec(learning=AUTO).to_dict()


def test_two_references_take_as_many_bytes_as_is_said() -> None:
    work = Work(spec=work_of(BASE).spec, reference=BASE)
    rows = rows_of(1)[0]
    state = begin(work, "a", rows[:200]).reference
    assert state is not None
    held = sum(array.nbytes for array in paces.joined_states(BASE, 4, [state]))
    assert held == paces.bytes_of(BASE, 4)
    assert BASE.second is not None
    single = paces.bytes_of(BASE.first, 4) + paces.bytes_of(BASE.second, 4)
    assert held == single + 8 * (15 + 2 + 2 * 4)
