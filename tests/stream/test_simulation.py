"""The keyed step in simulated jobs: what comes out is what the core makes of each device alone."""

from __future__ import annotations

import itertools

import pytest

from tests.simulation.history import (
    LONG,
    PLAIN,
    Action,
    Bundle,
    Command,
    History,
    Row,
    Setup,
    Wait,
    draw,
)
from tests.simulation.mutations import MUTATIONS, Mutation, life_with_a_reset
from tests.simulation.run import simulate
from tests.unit.test_rounds import SECOND

STEPS = 2_000
"""Of the histories that each run of the tests goes through; each night goes through millions."""
MOST_STEPS = 20_000
"""In which a mistake must be found."""


def test_histories_drawn_from_seeds_give_what_the_core_gives() -> None:
    steps = 0
    for seed in itertools.count():
        steps += simulate(draw(seed))
        if steps >= STEPS:
            break


def test_rows_of_false_episodes_become_normal_in_long_lives() -> None:
    simulate(draw(2, companion=LONG, tracker="okfeb", learner=None, wait=None))


@pytest.mark.nightly
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_mistakes_in_the_step_are_found(mutation: Mutation) -> None:
    steps = 0
    for history in mutation.histories(1000):
        try:
            with mutation.made():
                steps += simulate(history)
        except Exception:
            # It is the mistake that was found.
            simulate(history)
            return
        assert steps < MOST_STEPS, "not found"


def test_each_mistake_can_still_be_made() -> None:
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS) >= 20
    for mutation in MUTATIONS:
        before = mutation.function().__code__
        with mutation.made():
            assert mutation.function().__code__ is not before
        assert mutation.function().__code__ is before


def rows(*times: float, first: int = 0) -> tuple[Row, ...]:
    """Rows of a device, in the order in which they come; times in seconds."""
    return tuple(
        Row("m0", int(time * SECOND), 0, first + place, place, PLAIN)
        for place, time in enumerate(times)
    )


BEFORE = rows(*range(12), 10.5)
RESET = Command("m0", replaces=False)


@pytest.mark.parametrize("jump", [float("inf"), 20.0])
@pytest.mark.parametrize("cut", range(4))
def test_rows_that_waited_when_a_model_was_reset_do_not_depend_on_cuts(
    jump: float, cut: int
) -> None:
    """Those after its next row in time are rows like others, if not too far after it."""
    after = rows(9, 9.5, 12, 13, 14, 20, 30, first=20)
    setup = Setup(seed=1, jump=jump, jump_rows=2)
    simulate(History(setup, [Bundle((*BEFORE, RESET, *after), cut)]))
    setup = Setup(seed=1, jump=jump, jump_rows=2, idle=2.0)
    actions: list[Action] = [Bundle((*BEFORE, RESET), cut), Bundle(after[:4], cut), Wait(50.0)]
    simulate(History(setup, actions))


@pytest.mark.parametrize("cut", range(4))
def test_rows_far_beyond_the_first_one_after_a_reset_are_refused(cut: int) -> None:
    simulate(life_with_a_reset(cut))


def test_a_model_that_never_began_runs_in_the_order_of_time() -> None:
    """Rows are taken in order of arrival, and too few of them agree on the time."""
    setup = Setup(seed=1, disorder=0.0, jump=60.0, jump_rows=4)
    simulate(History(setup, [Bundle(rows(599, 594, 600))]))


def test_rows_of_one_time_that_no_others_agree_with_are_refused_as_one() -> None:
    setup = Setup(seed=1, disorder=10.0, jump=20.0, jump_rows=3, duplicates="merge")
    simulate(History(setup, [Bundle((*rows(*range(12)), *rows(57.25, 57.25, 57.75, first=20)))]))


@pytest.mark.parametrize("cut", range(6))
@pytest.mark.parametrize("duplicates", ["merge", "drop"])
def test_rows_of_one_time_are_refused_as_one_after_a_reset(duplicates: str, cut: int) -> None:
    """Whether their turn had come before, so that some were one already, or not."""
    before = rows(6.5, 6.5, 6.5, 10, 11, 10, 10)
    setup = Setup(seed=1, duplicates=duplicates)
    after = rows(-20, first=20)
    simulate(History(setup, [Bundle((*before, RESET), cut), Bundle(after, cut)]))
    simulate(History(setup, [Bundle(before[:4], cut), Bundle((*before[4:], RESET, *after), cut)]))


@pytest.mark.parametrize("cut", range(6))
def test_rows_of_one_time_that_came_together_are_refused_as_one_too(cut: int) -> None:
    """Two rows far ahead wait for others; the next row shows that the clock was wild."""
    come = rows(0, 4, 105, 105, 20)
    setup = Setup(seed=1, jump=60.0, jump_rows=2, duplicates="merge")
    simulate(History(setup, [Bundle(come, cut)]))
    simulate(History(setup, [Bundle(come[:3], cut), Bundle(come[3:], cut)]))


@pytest.mark.parametrize("duplicates", ["merge", "drop"])
@pytest.mark.parametrize("cut", range(6))
def test_rows_of_one_time_that_were_refused_one_after_the_other_are_two(
    duplicates: str, cut: int
) -> None:
    """The clock was wild, right again, and as wild as before."""
    come = rows(0, 8, 105, 105, 20, 105, 105, 21)
    setup = Setup(seed=1, jump=60.0, jump_rows=2, duplicates=duplicates)
    simulate(History(setup, [Bundle(come, cut)]))
