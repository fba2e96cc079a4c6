"""States that no job could carry are refused by their settings, before a row is read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kerneltrack.errors import ConfigError
from kerneltrack.registry import get_tracker, parse_spec
from kerneltrack.state_size import MOST_STATE, check_state_size, state_bytes
from kerneltrack.trackers.common.spec import SubspaceSpec

ROWS = np.random.default_rng(5).normal(size=(40, 3))


def spec_of(tracker: str, **settings: Any) -> SubspaceSpec:
    return parse_spec({"tracker": tracker, "warmup": 20, **settings})


@pytest.mark.parametrize(
    ("tracker", "settings"),
    [
        ("okfeb", {"rank": 3, "budget": 12}),
        ("covariance", {"rank": 3, "budget": 12}),
        ("oana", {"rank": 3, "budget": 12}),
        ("dskpca", {"rank": 3, "budget": 64}),
    ],
)
def test_the_size_is_that_of_a_states_arrays(tracker: str, settings: dict[str, Any]) -> None:
    spec = spec_of(tracker, **settings)
    state = get_tracker(tracker).init(spec, ROWS[:20])
    assert state_bytes(spec, 3) == sum(array.nbytes for array in state)


def test_settings_of_too_large_states_are_refused_and_the_largest_named() -> None:
    spec = spec_of("okfeb", rank=1000, budget=10_000)
    with pytest.raises(ConfigError) as refused:
        check_state_size(spec, 3)
    assert refused.value.field == "budget"
    most = 7127
    allowed = f"at most {most}: a model's state would take 932 MiB, of 512 at most"
    assert str(refused.value) == f"budget = 10000: must be {allowed}"
    check_state_size(spec_of("okfeb", rank=1000, budget=most), 3)
    assert state_bytes(spec_of("okfeb", rank=1000, budget=most + 1), 3) > MOST_STATE


def test_rows_so_wide_that_no_budget_will_do_are_refused() -> None:
    with pytest.raises(ConfigError, match="budget = 20: must be smaller, and other sizes too"):
        check_state_size(spec_of("okfeb", rank=10), 10_000_000)
