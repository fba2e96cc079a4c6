"""The list of a stated false share: the rule, and that its mean false share is as proved."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.errors import ConfigError
from kerneltrack.monitor.false_share import Watched, check_share, least_e_value
from tests.parts import examples

# Powers of two: no comparison is rounded.
EXPECTED = st.sampled_from([0.03125, 0.125, 0.25, 0.5, 1.0, 2.0])
DEVICES = st.lists(st.tuples(st.sampled_from([0, 0, 1, 1, 2, 4]), EXPECTED), max_size=9)


def listed(watched: Sequence[Watched], share: float) -> set[str]:
    least = least_e_value(watched, share)
    return {each.device for each in watched if each.e_value >= least}


def largest_list(watched: Sequence[Watched], share: float) -> set[str]:
    """Of all sets each of whose e-values is large enough for its size, the largest one."""
    for size in range(len(watched), 0, -1):
        for chosen in itertools.combinations(watched, size):
            if all(each.e_value >= len(watched) / (share * size) for each in chosen):
                return {each.device for each in chosen}
    return set()


@settings(max_examples=examples(300))
@given(DEVICES, st.sampled_from([0.0625, 0.25, 0.5]))
def test_it_is_the_largest_list_that_fits(drawn: list[tuple[int, float]], share: float) -> None:
    watched = [Watched(f"m{n}", *each) for n, each in enumerate(drawn)]
    found = listed(watched, share)
    assert found == largest_list(watched, share)
    random.Random(len(watched)).shuffle(watched)
    assert listed(watched, share) == found
    assert found <= {each.device for each in watched if each.episodes}


def test_all_that_were_off_are_listed_where_few_are_so_by_chance() -> None:
    """Watched for as long, all are on the list if K L is at most a of them."""
    for off, is_listed in ((4, False), (5, True), (6, True)):
        watched = [Watched(f"m{n}", int(n < off), 0.0078125) for n in range(128)]
        assert bool(listed(watched, 0.2)) is is_listed
        assert len(listed(watched, 0.2)) == is_listed * off


def false_share(rng: np.random.Generator, times: float, share: float) -> float:
    """The false share of the list of a fleet whose well devices keep `times` the stated rate.

    Their episodes come in bursts, and half of them on whole groups of devices at once.
    """
    broken, well, groups = 6, 120, 12
    expected = rng.uniform(0.002, 0.03, well)
    alone = rng.poisson(times * expected / 4) * 2
    together = np.repeat(rng.uniform(size=groups), well // groups) < times * expected / 2
    of_well = alone + together
    watched = [Watched(f"well-{n}", int(of_well[n]), expected[n]) for n in range(well)]
    watched += [Watched(f"broken-{n}", 1, 0.016) for n in range(broken)]
    found = listed(watched, share)
    return sum(name.startswith("well") for name in found) / max(len(found), 1)


def test_the_mean_false_share_is_at_most_as_stated() -> None:
    rng = np.random.default_rng(5)
    for share in (0.05, 0.2, 0.5):
        found = [false_share(rng, 1.0, share) for _ in range(1_500)]
        assert np.mean(found) <= share
        # At three times the stated rate it is at most three times as large.
        assert np.mean([false_share(rng, 3.0, share) for _ in range(300)]) <= 3 * share
    # The fleets are such that a rate which is not kept at all shows.
    assert np.mean([false_share(rng, 20.0, 0.5) for _ in range(100)]) > 0.5


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, float("nan"), float("inf")])
def test_a_share_is_between_0_and_1(share: float) -> None:
    with pytest.raises(ConfigError, match="--fleet-false-share"):
        check_share("--fleet-false-share", share)
